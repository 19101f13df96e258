"""Rows over HTTP: the rows of a request become one commit of a Delta table, at most once."""
