"""Iceberg tables and views: metadata files that never change, and commits that swap which one is
current."""
