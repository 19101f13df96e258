"""Damage of files below tables: it is reported, or it has no effect."""
