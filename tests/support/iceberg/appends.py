"""Appends with manifests and manifest lists in memory, as a client writes them before its
commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import AssertRefSnapshotId, AssertTableUuid
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.iceberg.core.table_updates import TableChange

Put = Callable[[str, bytes], object]
Get = Callable[[str], bytes]

_SYNC: Final = b"s" * 16


def _field(id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "field-id": id}


_FILE: Final = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field(manifests.FILE_CONTENT, "content", "int"),
        _field(manifests.FILE_PATH, "file_path", "string"),
        _field(manifests.FILE_FORMAT, "file_format", "string"),
        _field(manifests.PARTITION, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(manifests.RECORD_COUNT, "record_count", "long"),
        _field(manifests.FILE_BYTES, "file_size_in_bytes", "long"),
    ],
}
_ENTRY: Final = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(manifests.STATUS, "status", "int"),
        _field(manifests.ENTRY_SNAPSHOT, "snapshot_id", ["null", "long"]),
        _field(manifests.ENTRY_SEQUENCE, "sequence_number", ["null", "long"]),
        _field(manifests.ENTRY_FILE_SEQUENCE, "file_sequence_number", ["null", "long"]),
        _field(manifests.DATA_FILE, "data_file", _FILE),
    ],
}


def append(put: Put, get: Get, base: TableMetadata, id: int, now_ms: int) -> Snapshot:
    """A snapshot with one row in one file, computed from ``base``; its manifest and its list are
    there."""
    parent = base.snapshot(base.current_snapshot_id)
    folder = f"{base.location}/metadata"
    sequence = base.last_sequence_number + 1
    file = {
        manifests.FILE_CONTENT: 0,
        manifests.FILE_PATH: f"{base.location}/data/{id}.parquet",
        manifests.FILE_FORMAT: "PARQUET",
        manifests.PARTITION: {},
        manifests.RECORD_COUNT: 1,
        manifests.FILE_BYTES: 100,
    }
    entry = {manifests.STATUS: manifests.ADDED, manifests.ENTRY_SNAPSHOT: id, manifests.DATA_FILE: file}
    raw = avro.write([entry], _ENTRY, {"format-version": "2"}, _SYNC)
    put(f"{folder}/m-{id}.avro", raw)
    listed: dict[int, Any] = dict.fromkeys(manifests.REQUIRED, 0)
    listed |= {
        manifests.PATH: f"{folder}/m-{id}.avro",
        manifests.LENGTH: len(raw),
        manifests.SEQUENCE: sequence,
        manifests.MIN_SEQUENCE: sequence,
        manifests.ADDED_SNAPSHOT: id,
        504: 1,
        512: 1,
    }
    before = avro.read(get(parent.manifest_list)) if parent is not None else []
    path = f"{folder}/snap-{id}-0-{id}.avro"
    put(path, avro.write([listed, *before], manifests.SCHEMA, {"format-version": "2"}, _SYNC))
    total = int(parent.summary.get("total-records", "0")) if parent is not None else 0
    return Snapshot(
        id, now_ms, parent.snapshot_id if parent is not None else None, sequence, path,
        summary={"operation": "append", "added-records": "1", "added-data-files": "1", "total-records": str(total + 1)},
        schema_id=base.current_schema_id,
    )  # fmt: skip


def change_of(path: tuple[str, ...], base: TableMetadata, snapshot: Snapshot) -> TableChange:
    """The commit that appends ``snapshot``, as a client sends it."""
    return TableChange(
        path,
        (AssertTableUuid(base.table_uuid), AssertRefSnapshotId("main", snapshot.parent_snapshot_id)),
        (u.AddSnapshot(snapshot), u.SetSnapshotRef("main", snapshot.snapshot_id, "branch")),
    )


def rows_of(get: Get, snapshot: Snapshot) -> dict[str, int]:
    """The data files of a snapshot, with their sequence numbers; raises AssertionError if one is
    there twice."""
    rows: dict[str, int] = {}
    for listed in avro.read(get(snapshot.manifest_list)):
        for entry in avro.read(get(listed[manifests.PATH])):
            path = entry[manifests.DATA_FILE][manifests.FILE_PATH]
            assert path not in rows, f"{path} is listed twice"
            own = entry[manifests.ENTRY_SEQUENCE]
            rows[path] = listed[manifests.SEQUENCE] if own is None else own
    return rows
