"""Data and delete files of an Iceberg table as the tasks of a scan, and the delete files of each
data file. Pure.

A delete file belongs to a data file by the table specification's rules ("Scan Planning"): position
deletes to files that are not newer, and equality deletes to older ones, of the same partition or,
without a partition, of all; a deletion vector to the one file that it names, which no other
position deletes then belong to.

Sources: table specification, "Manifests", "Sequence Number Inheritance", "First Row ID
Inheritance", "Deletion Vectors"; REST specification, ``ContentFile`` and types derived from it;
Java's ``DeleteFileIndex`` and ``ContentFileUtil``.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.file_ranges import decimal_of, map_of
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.scan_tasks import ScanTasks
from turnstile.iceberg.core.schema import parts
from turnstile.store.core.errors import TooLarge, UnsupportedTable

Record = Mapping[int, Any]

MAX_DELETES: Final = 20_000
"""Delete files of one scan: all of them are held while its data files are looked at."""

_NAMES: Final = {
    manifests.DATA: "data",
    manifests.POSITION_DELETES: "position-deletes",
    manifests.EQUALITY_DELETES: "equality-deletes",
}
_COUNTS: Final = {
    "column-sizes": manifests.COLUMN_SIZES,
    "value-counts": manifests.VALUE_COUNTS,
    "null-value-counts": manifests.NULL_COUNTS,
    "nan-value-counts": manifests.NAN_COUNTS,
}
_READ_BY_MANIFESTS: Final = "let the client plan: scan-planning-mode=client"


class ContentFile(msgspec.Struct, frozen=True):
    """A file that a manifest names. ``sequence`` is its data sequence number, ``first_row_id`` that
    of its first row, inherited or its own."""

    record: dict[int, Any]
    spec_id: int
    sequence: int
    snapshot_id: int | None
    first_row_id: int | None = None

    @property
    def path(self) -> str:
        return str(self.record[manifests.FILE_PATH])

    @property
    def content(self) -> int:
        return int(self.record.get(manifests.FILE_CONTENT) or manifests.DATA)

    @property
    def partition(self) -> tuple[int, tuple[tuple[int, Any], ...]]:
        """A key that is equal for files of the same partition."""
        values = self.record.get(manifests.PARTITION) or {}
        return self.spec_id, tuple(sorted(values.items()))

    @property
    def is_vector(self) -> bool:
        return str(self.record.get(manifests.FILE_FORMAT)).lower() == "puffin"

    @property
    def referenced_data_file(self) -> str | None:
        """The only data file that position deletes are about, if that is known."""
        named = self.record.get(manifests.REFERENCED_FILE)
        if named is not None:
            return str(named)
        low = map_of(self.record, manifests.LOWER_BOUNDS).get(manifests.DELETED_PATH)
        high = map_of(self.record, manifests.UPPER_BOUNDS).get(manifests.DELETED_PATH)
        return low.decode() if isinstance(low, bytes) and low == high else None


def files_of(manifest: Record, entries: Iterable[Record]) -> Iterator[ContentFile | None]:
    """Yields for each entry of a manifest its file, None for one that was removed. ``manifest`` is
    its record in the manifest list.

    Raises UnsupportedTable for an entry that is encrypted, or has no sequence number where it
    cannot inherit one.
    """
    next_row_id = manifest.get(manifests.LIST_FIRST_ROW_ID)
    inherited = manifest.get(manifests.SEQUENCE) or 0
    spec_id = manifest.get(manifests.SPEC_ID) or 0
    for entry in entries:
        status = entry.get(manifests.STATUS)
        record = entry.get(manifests.DATA_FILE)
        if status == manifests.REMOVED:
            yield None
            continue
        if not isinstance(record, dict) or not isinstance(record.get(manifests.FILE_PATH), str):
            raise plan_refusal("a manifest has an entry without a file")
        if record.get(manifests.FILE_KEY_METADATA) is not None:
            raise plan_refusal("its files are encrypted")
        sequence = entry.get(manifests.ENTRY_SEQUENCE)
        if sequence is None:
            if status != manifests.ADDED and inherited > 0:
                raise plan_refusal(f"a manifest has no sequence number of {record[manifests.FILE_PATH][:200]!r}")
            sequence = inherited
        snapshot_id = entry.get(manifests.ENTRY_SNAPSHOT)
        first = record.get(manifests.FIRST_ROW_ID)
        if first is None and next_row_id is not None:
            first = next_row_id
            next_row_id = next_row_id + record[manifests.RECORD_COUNT]
        if snapshot_id is None:
            snapshot_id = manifest.get(manifests.ADDED_SNAPSHOT)
        yield ContentFile(record, spec_id, sequence, snapshot_id, first)


class DeleteFiles:
    """The delete files of a snapshot. ``unpartitioned`` are the ids of specs without fields."""

    def __init__(self, unpartitioned: frozenset[int]) -> None:
        self._unpartitioned = unpartitioned
        self._count = 0
        self._everywhere: list[ContentFile] = []
        self._equality: dict[Any, list[ContentFile]] = {}
        self._positions: dict[Any, list[ContentFile]] = {}
        self._by_path: dict[str, list[ContentFile]] = {}
        self._vectors: dict[str, ContentFile] = {}

    def add(self, file: ContentFile) -> None:
        """Adds a delete file. Raises TooLarge for more than ``MAX_DELETES``, and UnsupportedTable
        for a deletion vector that does not say which file it is of, or a second one of a file."""
        self._count += 1
        if self._count > MAX_DELETES:
            problem = f"the snapshot has more than {MAX_DELETES} delete files"
            remedy = f"rewrite them (rewrite_position_delete_files), or {_READ_BY_MANIFESTS}"
            raise TooLarge(problem, field="table", remedy=remedy, limit=MAX_DELETES)
        if file.content == manifests.EQUALITY_DELETES:
            everywhere = file.spec_id in self._unpartitioned
            (self._everywhere if everywhere else self._equality.setdefault(file.partition, [])).append(file)
            return
        if file.content != manifests.POSITION_DELETES:
            raise plan_refusal(f"{file.path[:200]!r} is among the delete files, and is none")
        path = file.referenced_data_file
        if file.is_vector:
            if path is None or path in self._vectors:
                problem = "names no data file, or a file that has another one"
                raise plan_refusal(f"the deletion vector {file.path[:200]!r} {problem}")
            self._vectors[path] = file
        elif path is not None:
            self._by_path.setdefault(path, []).append(file)
        else:
            self._positions.setdefault(file.partition, []).append(file)

    def of(self, file: ContentFile) -> list[ContentFile]:
        """Returns the delete files that belong to a data file."""
        equality = (*self._everywhere, *self._equality.get(file.partition, ()))
        belonging = [each for each in equality if file.sequence < each.sequence]
        vector = self._vectors.get(file.path)
        if vector is not None and file.sequence <= vector.sequence:
            return [*belonging, vector]
        positions = (*self._positions.get(file.partition, ()), *self._by_path.get(file.path, ()))
        return belonging + [each for each in positions if file.sequence <= each.sequence]


class FileTasks:
    """Writes tasks of one scan. ``stats_ids`` are the columns for which clients want counts,
    ``residual`` is the filter in JSON, or True."""

    def __init__(self, metadata: TableMetadata, residual: Any, stats_ids: frozenset[int] = frozenset()) -> None:
        self._residual = residual
        self._stats_ids = stats_ids
        self._specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id == metadata.current_schema_id)
        self._types = {part.id: part.type for schema in schemas for part in parts(schema)}

    def tasks(self, files: Sequence[ContentFile], deletes: DeleteFiles) -> ScanTasks:
        """Returns the tasks of these data files. Raises UnsupportedTable, naming the file, for one
        that JSON cannot describe."""
        tasks: list[dict[str, Any]] = []
        positions: dict[int, int] = {}
        named: list[dict[str, Any]] = []
        for file in files:
            task: dict[str, Any] = {"data-file": self._content_file(file), "residual-filter": self._residual}
            references = []
            for delete in deletes.of(file):
                if id(delete) not in positions:
                    positions[id(delete)] = len(named)
                    named.append(self._content_file(delete))
                references.append(positions[id(delete)])
            if references:
                task["delete-file-references"] = references
            tasks.append(task)
        return ScanTasks(tasks, named)

    def _content_file(self, file: ContentFile) -> dict[str, Any]:
        record = file.record
        described: dict[str, Any] = {
            "spec-id": file.spec_id,
            "content": _NAMES[file.content],
            "file-path": file.path,
            "file-format": str(record[manifests.FILE_FORMAT]).lower(),
            "partition": self._partition(file),
            "file-size-in-bytes": record[manifests.FILE_BYTES],
            "record-count": record[manifests.RECORD_COUNT],
        }
        optional = {
            "split-offsets": record.get(manifests.SPLIT_OFFSETS),
            "sort-order-id": record.get(manifests.SORT_ORDER),
        }
        if file.content == manifests.DATA:
            optional["first-row-id"] = file.first_row_id
            for name, member in _COUNTS.items():
                counts = {at: count for at, count in map_of(record, member).items() if at in self._stats_ids}
                optional[name] = {"keys": list(counts), "values": list(counts.values())} if counts else None
        elif file.content == manifests.EQUALITY_DELETES:
            optional["equality-ids"] = record.get(manifests.EQUALITY_IDS)
        else:
            optional["referenced-data-file"] = record.get(manifests.REFERENCED_FILE)
            optional["content-offset"] = record.get(manifests.CONTENT_OFFSET)
            optional["content-size-in-bytes"] = record.get(manifests.CONTENT_BYTES)
        return described | {name: value for name, value in optional.items() if value is not None}

    def _partition(self, file: ContentFile) -> list[Any]:
        spec = self._specs.get(file.spec_id)
        if spec is None:
            raise plan_refusal(
                f"{file.path[:200]!r} is of partition spec {file.spec_id}, which the table does not have"
            )
        values = file.record.get(manifests.PARTITION) or {}
        try:
            return [self._value(spec, at, values.get(field.field_id)) for at, field in enumerate(spec.fields)]
        except (ValueError, ArithmeticError, TypeError, AttributeError, LookupError):
            raise plan_refusal(f"{file.path[:200]!r} has a partition value that JSON cannot hold") from None

    def _value(self, spec: PartitionSpec, at: int, value: Any) -> Any:
        field = spec.fields[at]
        if value is None:
            return None
        if field.transform in ("year", "month", "hour") or field.transform.startswith("bucket"):
            return int(value)
        if field.transform == "day":
            return json_value("date", value)
        type = self._types[field.source_id]
        if not isinstance(type, str):
            raise TypeError
        return json_value(type, value)


def json_value(type: str, value: Any) -> Any:
    """Returns a value that Avro has as the specification's JSON has it. Raises ValueError,
    TypeError or ArithmeticError for none of the type."""
    match type.partition("(")[0].partition("[")[0]:
        case "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case "time":
            moment = datetime(1970, 1, 1) + timedelta(microseconds=value)  # noqa: DTZ001
            return moment.time().isoformat("microseconds")
        case "timestamp" | "timestamptz" as kind:
            moment = datetime(1970, 1, 1) + timedelta(microseconds=value)  # noqa: DTZ001  # the zone is written below
            return moment.isoformat(timespec="microseconds") + ("+00:00" if kind == "timestamptz" else "")
        case "timestamp_ns" | "timestamptz_ns" as kind:
            micros, nanos = divmod(value, 1000)
            moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)  # noqa: DTZ001
            zone = "+00:00" if kind == "timestamptz_ns" else ""
            return f"{moment.isoformat(timespec='microseconds')}{nanos:03d}{zone}"
        case "decimal":
            return f"{value if isinstance(value, Decimal) else decimal_of(type, value):f}"
        case "uuid":
            return str(uuid.UUID(bytes=value))
        case "fixed" | "binary":
            return value.hex().upper()
        case "float" | "double":
            if not math.isfinite(value):
                raise ValueError(value)
            return float(value)
        case "boolean" | "int" | "long" | "string":
            return value
    raise TypeError(type)


def plan_refusal(problem: str) -> UnsupportedTable:
    """Returns the refusal to plan scans of a table, which its readers then have to do."""
    return UnsupportedTable(f"the scan cannot be planned: {problem}", field="table", remedy=_READ_BY_MANIFESTS)
