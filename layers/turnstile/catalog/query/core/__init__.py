"""Pure: the grammar of path queries, and which names a predicate can hold for (TreeCat, "Query
Language")."""
