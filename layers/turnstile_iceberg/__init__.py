"""The Iceberg REST catalog as Turnstile serves it (``/iceberg/v1``): tables and views whose metadata is JSON files, and
whose current file is what the catalog's HEAD leads to.

pure       ``schema``, ``partition``, ``metadata``, ``view_metadata``   what metadata files hold
           ``updates``, ``draft``, ``apply``, ``apply_view``            changes, and how they are applied
           ``creating``, ``snapshots``                                  new tables; snapshots and what refers to them
           ``requirements``                                             what a change requires of what it changes
           ``avro``, ``manifests``, ``merging``                         appends of several writers made one history
wire       ``requests``, ``answers``, ``errors``, ``naming``
operations ``context``, ``places``, ``files``, ``tables``, ``commits``, ``views``, ``listing``, ``once``

Source: Iceberg's REST catalog specification (``open-api/rest-catalog-open-api.yaml``), table specification versions 1 to
3, view specification version 1; where these leave something open, Iceberg's Java implementation.
"""
