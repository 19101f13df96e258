"""Branches of a lake in Spark."""
