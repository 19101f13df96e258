"""Expectations of Iceberg tables: when they are set, and before a promotion (I28)."""
