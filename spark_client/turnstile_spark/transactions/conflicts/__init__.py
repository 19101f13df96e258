"""Conflict checks of a transaction, and its commits folded and rebased. Pure."""
