"""Decisions about expectations. Pure."""
