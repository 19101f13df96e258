"""Unity Catalog's two REST APIs: the Delta API (``delta/v1``, kebab-case) and the parts of the
older one that engines still call (snake_case).

Source: the API's public OpenAPI documents (Unity Catalog, ``api/delta.yaml`` and ``api/all.yaml``).
"""
