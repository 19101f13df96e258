"""Puts many small manifests of a table together into few, in the order of their partitions. Pure.

    which     data manifests below half of ``commit.manifest.target-size-bytes``, of a partition
              spec that has
              ``commit.manifest.min-count-to-merge`` of them
    together  manifests with the same Avro schema of entries: the description of a data file is
              copied byte by byte, with every member that its writer gave it
    entries   existing files, as ``EXISTING``, with the snapshot and the sequence numbers that they
              inherited; entries of
              removed files belong to their own snapshot and are left out

Source: table specification, "Manifests", "Sequence Number Inheritance" and "Manifest Lists"; Java's
``BaseRewriteManifests``.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from turnstile.iceberg.core.expiry import number
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise

REWRITE: Final = "turnstile.maintenance.rewrite-manifests"
"""Table property: ``true`` has the catalog put small manifests together."""

TARGET_BYTES: Final = "commit.manifest.target-size-bytes"
MIN_COUNT: Final = "commit.manifest.min-count-to-merge"
"""Iceberg's own table properties."""

DEFAULT_TARGET_BYTES: Final = 8 * 1024 * 1024
MAX_TARGET_BYTES: Final = 32 * 1024 * 1024
DEFAULT_COUNT: Final = 100

FORMAT: Final = 2
"""The format version of manifests that are put together. Manifests of version 1 have no sequence
numbers, manifests of version 3 give rows their ids."""

_NUMBERS: Final = (manifests.ENTRY_SNAPSHOT, manifests.ENTRY_SEQUENCE, manifests.ENTRY_FILE_SEQUENCE)
_ENTRY: Final = {manifests.STATUS, *_NUMBERS, manifests.DATA_FILE}


class Sizes(msgspec.Struct, frozen=True):
    """A table's properties for its manifests."""

    target_bytes: int = DEFAULT_TARGET_BYTES
    min_count: int = DEFAULT_COUNT

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Sizes:
        """Raises InvalidRequest for a property that is no number: nothing is rewritten on its
        word."""
        target_bytes = number(properties, TARGET_BYTES, DEFAULT_TARGET_BYTES, least=1)
        return cls(
            min(target_bytes, MAX_TARGET_BYTES),
            max(number(properties, MIN_COUNT, DEFAULT_COUNT, least=1), 2),
        )


def rewrites(metadata: TableMetadata) -> bool:
    """Whether a table asks the catalog to put its manifests together, and has the format version
    for it."""
    return metadata.format_version == FORMAT and metadata.properties.get(REWRITE, "false").lower() == "true"


def candidates(listed: Iterable[avro.Record], metadata: TableMetadata) -> tuple[avro.Record, ...]:
    """Returns the entries of the current manifest list with manifests to put together, in the
    list's order; none if too few are small. A manifest outside the table's location belongs to
    another table, from which a clone was made, and stays. Raises InvalidRequest as ``Sizes.of``.
    """
    sizes = Sizes.of(metadata.properties)
    root = f"{normalise(metadata.location)}/"
    specs = {spec.spec_id for spec in metadata.partition_specs}
    by_spec = defaultdict[int, list[avro.Record]](list)
    for entry in listed:
        small = 0 <= entry[manifests.LENGTH] <= sizes.target_bytes // 2
        plain = entry[manifests.CONTENT] == 0 and entry.get(manifests.KEY_METADATA) is None
        if small and plain and entry[manifests.SPEC_ID] in specs and normalise(entry[manifests.PATH]).startswith(root):
            by_spec[entry[manifests.SPEC_ID]].append(entry)
    return tuple(entry for some in by_spec.values() if len(some) >= sizes.min_count for entry in some)


class LiveFile(NamedTuple):
    """A data file of a manifest, with its inherited members. ``content`` is its description in the
    manifest's own schema."""

    partition: tuple[Any, ...]
    snapshot_id: int
    sequence: int
    file_sequence: int
    rows: int
    content: avro.Encoded


def partition_fields(schema: Any, spec: PartitionSpec) -> tuple[Any, ...] | None:
    """Returns the Avro types of the partition values in a manifest with the entries' ``schema``, in
    the order of ``spec``; None unless such entries can be written again: with the members of format
    2 and no other, and the partition of ``spec``.
    """
    try:
        members = {field["field-id"]: field["type"] for field in schema["fields"]}
        if set(members) != _ENTRY or members[manifests.STATUS] != "int":
            return None
        if any(members[id] != ["null", "long"] for id in _NUMBERS):
            return None
        described = {field["field-id"]: field["type"] for field in members[manifests.DATA_FILE]["fields"]}
        fields = described[manifests.PARTITION]["fields"]
        if [field["field-id"] for field in fields] != [field.field_id for field in spec.fields]:
            return None
        if manifests.RECORD_COUNT not in described:
            return None
        return tuple(_without_null(field["type"]) for field in fields)
    except (KeyError, TypeError):
        return None


def members_of(spec: PartitionSpec) -> frozenset[int]:
    """The members of a manifest's entries that ``live_file`` looks at."""
    partition = {manifests.PARTITION, *(field.field_id for field in spec.fields)}
    return frozenset({manifests.RECORD_COUNT} | _ENTRY | partition)


def live_file(entry: avro.Record, content: avro.Encoded, manifest: avro.Record, spec: PartitionSpec) -> LiveFile | None:
    """Returns the file of an entry of ``manifest`` (its record in the manifest list); None if the
    entry says that it was removed. Raises InvalidRequest for an entry that the specification does
    not allow.
    """
    status = entry[manifests.STATUS]
    file = entry[manifests.DATA_FILE]
    if status == manifests.REMOVED:
        return None
    numbers = [entry[id] for id in _NUMBERS]
    if status == manifests.ADDED:
        inherited = manifest[manifests.ADDED_SNAPSHOT], manifest[manifests.SEQUENCE], manifest[manifests.SEQUENCE]
        numbers = [own if own is not None else other for own, other in zip(numbers, inherited, strict=True)]
    if status not in (manifests.ADDED, manifests.EXISTING) or None in numbers:
        problem = f"manifest {manifest[manifests.PATH][:200]} has an entry of status {status} without its numbers"
        raise InvalidRequest(problem, field="manifest-list", remedy="rewrite its manifests by an engine")
    partition = tuple(file[manifests.PARTITION][field.field_id] for field in spec.fields)
    return LiveFile(partition, numbers[0], numbers[1], numbers[2], file[manifests.RECORD_COUNT], content)


def in_order(files: Iterable[LiveFile], count: int) -> list[list[LiveFile]]:
    """Returns the files in the order of their partitions, and within one as they came, in ``count``
    parts of the same size."""
    ordered = sorted(files, key=lambda file: [(value is not None, value) for value in file.partition])
    ends = [len(ordered) * part // count for part in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends) if end > start]


def manifest(
    files: Sequence[LiveFile], schema: Any, spec: PartitionSpec, metadata: TableMetadata, sync: bytes
) -> bytes:
    """Returns the manifest of ``files``, with descriptions by ``schema``."""
    header = {
        "schema": msgspec.json.encode(metadata.schema).decode(),
        "schema-id": str(metadata.current_schema_id),
        "partition-spec": msgspec.json.encode(spec.fields).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(FORMAT),
        "content": "data",
    }
    entries = [
        {
            manifests.STATUS: manifests.EXISTING,
            manifests.ENTRY_SNAPSHOT: file.snapshot_id,
            manifests.ENTRY_SEQUENCE: file.sequence,
            manifests.ENTRY_FILE_SEQUENCE: file.file_sequence,
            manifests.DATA_FILE: file.content,
        }
        for file in files
    ]
    return avro.write(entries, schema, header, sync)


def listed_manifest(
    files: Sequence[LiveFile], spec_id: int, types: Sequence[Any], *, path: str, size_bytes: int, snapshot_id: int
) -> avro.Record:
    """Returns the record of a new manifest for the manifest list, without its sequence number,
    which the commit gives it."""
    record: avro.Record = dict.fromkeys(manifests.REQUIRED, 0)
    return record | {
        manifests.PATH: path,
        manifests.LENGTH: size_bytes,
        manifests.SPEC_ID: spec_id,
        manifests.MIN_SEQUENCE: min(file.sequence for file in files),
        manifests.ADDED_SNAPSHOT: snapshot_id,
        manifests.EXISTING_FILES: len(files),
        manifests.EXISTING_ROWS: sum(file.rows for file in files),
        manifests.PARTITIONS: summaries([file.partition for file in files], types),
    }


def summaries(partitions: Sequence[tuple[Any, ...]], types: Sequence[Any]) -> list[avro.Record] | None:
    """Returns a manifest list's summary of the partition values of one manifest, by which readers
    skip it; None for a type without bounds here (floats, uuids, fixed): readers then read the
    manifest.
    """
    records = list[avro.Record]()
    for position, kind in enumerate(types):
        values = [partition[position] for partition in partitions]
        present = [_comparable(value, kind) for value in values if value is not None]
        if not _has_bounds(kind):
            return None
        bounds = (_bound_bytes(min(present), kind), _bound_bytes(max(present), kind)) if present else (None, None)
        records.append(
            {
                manifests.CONTAINS_NULL: len(present) < len(values),
                manifests.CONTAINS_NAN: False,
                manifests.LOWER_BOUND: bounds[0],
                manifests.UPPER_BOUND: bounds[1],
            }
        )
    return records


def rewritten_snapshot(
    current: Snapshot, *, snapshot_id: int, sequence: int, manifest_list: str, now_ms: int, schema_id: int,
    created: int, kept: int, gone: int, entries: int,
) -> Snapshot:  # fmt: skip
    """Returns the snapshot that follows ``current`` with other manifests and the same rows."""
    summary = {name: value for name, value in current.summary.items() if name.startswith("total-")}
    counts = {"manifests-created": created, "manifests-kept": kept, "manifests-replaced": gone}
    counts["entries-processed"] = entries
    return Snapshot(
        snapshot_id,
        max(now_ms, current.timestamp_ms),
        current.snapshot_id,
        sequence,
        manifest_list,
        summary={"operation": "replace", **{name: str(count) for name, count in counts.items()}, **summary},
        schema_id=schema_id,
    )


def _without_null(kind: Any) -> Any:
    return next(other for other in kind if other != "null") if isinstance(kind, list) else kind


def _name(kind: Any) -> tuple[str, str]:
    """The Avro type and logical type of a partition value."""
    if isinstance(kind, dict):
        return str(kind["type"]), str(kind.get("logicalType", ""))
    return str(kind), ""


def _has_bounds(kind: Any) -> bool:
    name, logical = _name(kind)
    return name in ("boolean", "int", "long", "string") or (name, logical) in (("bytes", ""), ("fixed", "decimal"))


def _comparable(value: Any, kind: Any) -> Any:
    return int.from_bytes(value, signed=True) if _name(kind) == ("fixed", "decimal") else value


def _bound_bytes(value: Any, kind: Any) -> bytes:
    """``value`` in the form of the specification's "Binary single-value serialization"."""
    match _name(kind)[0]:
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int":
            return struct.pack("<i", value)
        case "long":
            return struct.pack("<q", value)
        case "string":
            return str(value).encode()
        case "fixed":
            bits = max(value, ~value).bit_length()
            return int(value).to_bytes(bits // 8 + 1, signed=True)
        case _:
            return bytes(value)
