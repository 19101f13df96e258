"""Decisions that need no files and no requests."""
