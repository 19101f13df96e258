"""Damage of files below tables: told, or without effect."""
