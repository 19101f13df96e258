"""Upkeep of tables: what has to stay."""
