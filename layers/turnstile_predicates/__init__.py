"""Predicates over columns, and whether a data file may have a row that satisfies them. Pure, of the
standard library alone: the server and the Spark client share it."""
