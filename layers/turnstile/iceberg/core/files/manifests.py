"""Manifest lists of format version 2: the fields that are looked at, and the schema in which lists
are written.

Source: table specification, "Manifest Lists" and "Manifests".
"""

from __future__ import annotations

from typing import Any, Final

PATH: Final = 500
LENGTH: Final = 501
SPEC_ID: Final = 502
CONTENT: Final = 517
SEQUENCE: Final = 515
MIN_SEQUENCE: Final = 516
ADDED_SNAPSHOT: Final = 503
EXISTING_FILES: Final = 505
DELETED_FILES: Final = 506
PARTITIONS: Final = 507
EXISTING_ROWS: Final = 513
KEY_METADATA: Final = 519

STATUS: Final = 0
ENTRY_SNAPSHOT: Final = 1
ENTRY_SEQUENCE: Final = 3
ENTRY_FILE_SEQUENCE: Final = 4
"""Fields of a manifest's entries."""

DATA_FILE: Final = 2
FILE_PATH: Final = 100
PARTITION: Final = 102
RECORD_COUNT: Final = 103
FILE_KEY_METADATA: Final = 131
"""The entry's file, and some of its members."""

FILE_CONTENT: Final = 134
FILE_FORMAT: Final = 101
FILE_BYTES: Final = 104
COLUMN_SIZES: Final = 108
VALUE_COUNTS: Final = 109
NULL_COUNTS: Final = 110
NAN_COUNTS: Final = 137
LOWER_BOUNDS: Final = 125
UPPER_BOUNDS: Final = 128
SPLIT_OFFSETS: Final = 132
EQUALITY_IDS: Final = 135
SORT_ORDER: Final = 140
FIRST_ROW_ID: Final = 142
REFERENCED_FILE: Final = 143
CONTENT_OFFSET: Final = 144
CONTENT_BYTES: Final = 145
"""More members of the entry's file. Maps are lists of records with a key and a value."""

MAP_IDS: Final = {
    COLUMN_SIZES: (117, 118),
    VALUE_COUNTS: (119, 120),
    NULL_COUNTS: (121, 122),
    NAN_COUNTS: (138, 139),
    LOWER_BOUNDS: (126, 127),
    UPPER_BOUNDS: (129, 130),
}
"""The ids of key and value in each map."""

DATA: Final = 0
POSITION_DELETES: Final = 1
EQUALITY_DELETES: Final = 2
"""The content of a file; of a manifest, 0 for data and 1 for deletes."""

DELETED_PATH: Final = 2147483546
"""The column of position deletes that names the data file."""

LIST_FIRST_ROW_ID: Final = 520
"""Where row ids begin; a member of manifest lists, as ``PARTITIONS``, which has a summary of values
for each partition field."""

CONTAINS_NULL: Final = 509
LOWER_BOUND: Final = 510
UPPER_BOUND: Final = 511
CONTAINS_NAN: Final = 518
"""Members of such a summary."""

EXISTING: Final = 0
ADDED: Final = 1
"""The status of an entry for a file that the manifest's own snapshot added."""

REMOVED: Final = 2
"""The status of an entry for a file that the manifest's own snapshot removed; only older snapshots
have it."""


def _require(id: int, name: str, type: str) -> dict[str, Any]:
    return {"name": name, "type": type, "field-id": id}


def _optional(id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type], "default": None, "field-id": id}


_SUMMARY: Final[dict[str, Any]] = {
    "type": "record",
    "name": "r508",
    "fields": [
        _require(CONTAINS_NULL, "contains_null", "boolean"),
        _optional(CONTAINS_NAN, "contains_nan", "boolean"),
        _optional(LOWER_BOUND, "lower_bound", "bytes"),
        _optional(UPPER_BOUND, "upper_bound", "bytes"),
    ],
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _require(PATH, "manifest_path", "string"),
        _require(LENGTH, "manifest_length", "long"),
        _require(SPEC_ID, "partition_spec_id", "int"),
        _require(CONTENT, "content", "int"),
        _require(SEQUENCE, "sequence_number", "long"),
        _require(MIN_SEQUENCE, "min_sequence_number", "long"),
        _require(ADDED_SNAPSHOT, "added_snapshot_id", "long"),
        _require(504, "added_files_count", "int"),
        _require(EXISTING_FILES, "existing_files_count", "int"),
        _require(DELETED_FILES, "deleted_files_count", "int"),
        _require(512, "added_rows_count", "long"),
        _require(EXISTING_ROWS, "existing_rows_count", "long"),
        _require(514, "deleted_rows_count", "long"),
        _optional(PARTITIONS, "partitions", {"type": "array", "element-id": 508, "items": _SUMMARY}),
        _optional(KEY_METADATA, "key_metadata", "bytes"),
    ],
}

REQUIRED: Final = frozenset(field["field-id"] for field in SCHEMA["fields"] if not isinstance(field["type"], list))
KNOWN: Final = frozenset(field["field-id"] for field in SCHEMA["fields"])
