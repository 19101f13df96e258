"""Conflict checks between a transaction and the commits before it, and the rewriting of its commits: folding, rebasing. Pure."""
