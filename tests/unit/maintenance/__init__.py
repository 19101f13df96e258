"""Upkeep of tables: the files that have to stay."""
