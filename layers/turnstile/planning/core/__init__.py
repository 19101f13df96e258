"""Predicates, the rules of the index, and plans as values. Pure."""
