"""Pure: the grammar of path queries, and which names a predicate can hold for (TreeCat, "Query Language").

/lake/sales/[format = "delta" and region = "eu"]
/lake/*[owner = "ann"]/[name prefix "ord"]
"""
