"""Path queries: one predicate a level, from the catalog's root down (TreeCat, "Query Language").

    /lake/sales/[format = "delta" and region = "eu"]
    /lake/*[owner = "ann"]/[name prefix "ord"]

``parser`` makes a query of text, ``query`` says what it means, ``reach`` which names a predicate can hold for at all,
``scan`` walks those of a tree. docs/path-queries.md has the grammar.
"""
