"""Scopes: the view of one thread's statements in a transaction or a snapshot, as Delta sees it."""
