"""Benchmarks of Spark on tables of a lake."""
