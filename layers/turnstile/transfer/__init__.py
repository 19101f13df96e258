"""Delta tables into the catalog and out of it: import of a path-based table, and export back to
one."""
