"""Decisions about branches. Pure."""
