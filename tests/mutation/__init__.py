"""Removes one clause, one action or one branch at a time, and sees that a test notices."""
