"""Clones: a part of a catalog, of now or of the past, under another name, without copying data (ADR
17)."""
