"""Path queries: one predicate a level, from the root of the catalog down (docs/path-queries.md)."""
