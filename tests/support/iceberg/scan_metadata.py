"""Metadata of an Iceberg table with given schemas."""

from __future__ import annotations

import json
from typing import Any

from turnstile.iceberg.core.metadata import TableMetadata, parse

FIELDS = [
    {"id": 1, "name": "n", "type": "long", "required": False},
    {"id": 3, "name": "d", "type": "date", "required": False},
]


def metadata_of(*schemas: list[dict[str, Any]]) -> TableMetadata:
    """A table whose schemas these are; the last is the current one."""
    return parse(json.dumps({
        "format-version": 2, "table-uuid": "00000000-0000-4000-8000-000000000001", "location": "file:///lake/t",
        "last-updated-ms": 1, "last-column-id": 9, "current-schema-id": len(schemas) - 1, "last-sequence-number": 0,
        "schemas": [{"type": "struct", "schema-id": id, "fields": fields} for id, fields in enumerate(schemas)],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
    }).encode())  # fmt: skip
