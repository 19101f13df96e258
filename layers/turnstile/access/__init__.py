"""Access control (I12): principals, grants, and the needs of requests."""
