"""Branches of catalogs: Delta tables with logs of their own, differences, promotion (ADR 85)."""
