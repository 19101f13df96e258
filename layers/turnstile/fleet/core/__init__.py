"""Rows of members and granules, the writes that change them, and the decisions about them. Pure."""
