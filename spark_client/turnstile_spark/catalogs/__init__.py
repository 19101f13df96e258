"""Spark's catalogs of a lake: tables, views, and how a session gets them."""
