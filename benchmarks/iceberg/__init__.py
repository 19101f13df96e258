"""Benchmarks of writers of Iceberg tables."""
