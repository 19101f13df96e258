"""Planning of scans: which files of a Delta table a predicate needs, from an index of its files
(docs/planning.md)."""
