"""Events of a HEAD, the rows of the log, and cursors. Pure."""
