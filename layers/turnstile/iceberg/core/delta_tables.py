"""A Delta table as Iceberg's metadata: clients of the REST catalog load it before the catalog plans
their scans (ADR 43). Pure.

    shown = iceberg_metadata(DeltaSource(...))         # schema, partition spec, snapshots, name
                                                       mapping; or a refusal by name

Column ids come from column mapping; without it columns are numbered in the order of the schema,
and the property ``schema.name-mapping.default`` leads readers from the names in the files to them.
Ids matter to one client with one metadata only: plans name columns by name. Partition columns are
not in Delta's files; by Iceberg's rules a reader takes the partition's value for an identity
partition.

A snapshot is a version: its id and its sequence number are the version and one, since Iceberg's
begin with 1, and Delta's own client uses 0 for the current one. There are no manifests: the name of
the manifest list says so.

Sources: Iceberg's table specification, "Column Projection", "Name Mapping Serialization", appendix
D ("JSON single-value serialization"); Delta protocol, "Column Mapping", "Table Features",
"Partition Value Serialization".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any, Final

import msgspec

from turnstile.delta.core.schemas import MAPPING_ID, PHYSICAL_NAME, Unreadable, columns_of
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import FIRST_PARTITION_ID, UNSORTED, PartitionField, PartitionSpec, SortOrder
from turnstile.iceberg.core.schema import Field, ListType, MapType, Schema, StructType, Type
from turnstile.iceberg.core.schema import check as check_schema
from turnstile.iceberg.core.snapshots import MAIN, Snapshot, SnapshotLogEntry, SnapshotRef
from turnstile.store.core.errors import UnsupportedTable

NAME_MAPPING: Final = "schema.name-mapping.default"
NESTED_IDS: Final = "delta.columnMapping.nested.ids"
DELETION_VECTORS: Final = "deletionVectors"
READ_BY_DELTA: Final = "read it with an engine that reads Delta tables"

SERVED_FEATURES: Final = frozenset({
    "columnMapping", DELETION_VECTORS, "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "catalogManaged",
    "catalogOwned-preview", "typeWidening",
})  # fmt: skip
"""Features of readers that do not change the meaning of a data file, or that have a counterpart in
Iceberg."""

_TYPES: Final = {
    "string": "string", "long": "long", "integer": "int", "short": "int", "byte": "int", "float": "float",
    "double": "double", "boolean": "boolean", "binary": "binary", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
#: As many digits as a decimal can have. Python's usual 28 are too few.
_DIGITS: Final = Context(prec=38)
_SIZED_TEXT: Final = re.compile(r"(?:char|varchar)\(\s*\d{1,9}\s*\)")
_WIDENED: Final = frozenset({("integer", "long"), ("short", "integer"), ("byte", "short"), ("byte", "integer"),
                             ("short", "long"), ("byte", "long"), ("float", "double")})  # fmt: skip
"""Changes of a type that Iceberg's readers know as well, beside decimals of more digits: "Schema
Evolution"."""
_NO_VALUE: Final = "no value that Iceberg's JSON can carry"


class DeltaSource(msgspec.Struct, frozen=True):
    """A Delta table: ``protocol`` and ``metadata`` as of ``version``; ``versions`` that may be
    read, ascending, each with its timestamp (ms); ``certain_from`` the first of them with the
    in-commit timestamp; ``epoch`` the version that changed metadata last.
    """

    table_id: str
    location: str
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    version: int
    epoch: int
    versions: Sequence[tuple[int, int]]
    certain_from: int


class PartitionColumn(msgspec.Struct, frozen=True):
    """A column that files are partitioned by: its names, and its type in both formats."""

    name: str
    physical: str
    delta_type: str
    iceberg_type: str
    id: int


# -- what is served ----------------------------------------------------------------------------------------------------


def check_features(protocol: Mapping[str, Any]) -> None:
    """Raises UnsupportedTable for a table feature with which data files would be read wrongly,
    naming it."""
    named = set(protocol.get("readerFeatures") or ())
    unknown = sorted(named - SERVED_FEATURES)
    if unknown:
        raise _unserved_error(
            f"the table has the feature {', '.join(unknown)[:200]}, which Iceberg's readers do not know"
        )


def snapshot_id(version: int) -> int:
    """Returns the id of the snapshot that a version is."""
    return version + 1


def version_of(snapshot: int) -> int:
    """Returns the version that a snapshot's id is of; -1 for the id 0, which stands for the current
    one."""
    return snapshot - 1


def format_version(protocol: Mapping[str, Any]) -> int:
    """Returns the format version that has all that the table may have: deletion vectors came with
    3."""
    return 3 if DELETION_VECTORS in (protocol.get("readerFeatures") or ()) else 2


def iceberg_metadata(source: DeltaSource) -> TableMetadata:
    """Returns the metadata that clients load. Raises UnsupportedTable, naming the part that would
    be read wrongly: a table feature, a type or a column without a counterpart."""
    check_features(source.protocol)
    columns = _Columns(source.metadata)
    schema = columns.schema()
    partitions = columns.partitions()
    spec = PartitionSpec(
        tuple(
            PartitionField(column.id, column.name, "identity", FIRST_PARTITION_ID + number)
            for number, column in enumerate(partitions)
        ),
        0,
    )
    snapshots = tuple(_snapshot(source, version, at_ms) for version, at_ms in source.versions)
    properties = {
        name: text
        for name, text in (source.metadata.get("configuration") or {}).items()
        if not name.startswith(("delta.", "write.", "read.", "commit.", "schema.", "turnstile."))
    }
    comment = source.metadata.get("description")
    if isinstance(comment, str) and comment:
        properties.setdefault("comment", comment)
    properties |= {
        NAME_MAPPING: msgspec.json.encode(columns.name_mapping()).decode(),
        "gc.enabled": "false",
        "turnstile.format": "delta",
    }
    current = snapshot_id(source.version)
    return TableMetadata(
        format_version=format_version(source.protocol),
        table_uuid=source.table_id,
        location=source.location,
        last_updated_ms=source.versions[-1][1],
        last_column_id=columns.last_id,
        schemas=(schema,),
        current_schema_id=0,
        partition_specs=(spec,),
        default_spec_id=0,
        last_partition_id=FIRST_PARTITION_ID + len(partitions) - 1,
        sort_orders=(SortOrder((), UNSORTED),),
        default_sort_order_id=UNSORTED,
        last_sequence_number=current,
        current_snapshot_id=current,
        properties=properties,
        snapshots=snapshots,
        refs={MAIN: SnapshotRef(current, "branch")},
        snapshot_log=tuple(
            SnapshotLogEntry(at_ms, snapshot_id(version))
            for version, at_ms in source.versions
            if version >= source.certain_from
        ),
    )


def _snapshot(source: DeltaSource, version: int, at_ms: int) -> Snapshot:
    """A version as a snapshot. Only versions that are known to have the current schema name it."""
    id = snapshot_id(version)
    return Snapshot(
        snapshot_id=id,
        sequence_number=id,
        timestamp_ms=at_ms,
        manifest_list=f"{source.location}/_delta_log/a-delta-table-needs-scan-planning-by-the-catalog-{version}.avro",
        summary={"operation": "overwrite", "delta-version": str(version)},
        schema_id=0 if version >= source.epoch else None,
    )


def check_same_columns(past: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises UnsupportedTable unless a client with the columns of the metadata ``now`` can read by
    them a version with the columns of ``then``: each column of the version is there, with its place
    in the files and its type.
    """
    before, after = (_Columns(metadata) for metadata in (past, now))
    places = [[(column.physical, column.delta_type) for column in each.partitions()] for each in (before, after)]
    if places[0] != places[1]:
        raise _unserved_error("the version is partitioned in another way than the table is now")
    columns = {(field["name"], physical_name(field)): field["type"] for field in after.fields}
    for field in before.fields:
        if columns.get((field["name"], physical_name(field))) != field["type"]:
            raise _unserved_error(
                f"column {field['name'][:80]!r} of the version is another one in the table's present schema"
            )


# -- columns -----------------------------------------------------------------------------------------------------------


def partition_columns(metadata: Mapping[str, Any]) -> list[PartitionColumn]:
    """Returns the columns that files are partitioned by, in the order of the spec. Raises
    UnsupportedTable."""
    columns = _Columns(metadata)
    columns.schema()
    return columns.partitions()


def schema_of_fields(fields: str) -> Schema:
    """Returns the schema of columns in Delta's JSON, with ids in their order. Raises
    UnsupportedTable for one that has no counterpart."""
    return _Columns({"schemaString": fields}).schema()


def physical_name(field: Mapping[str, Any]) -> str:
    """Returns the name that a column has in the log's statistics and partition values."""
    return str((field.get("metadata") or {}).get(PHYSICAL_NAME) or field["name"])


class _Columns:
    """The columns of a table, with their ids."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        try:
            self.fields = columns_of(metadata["schemaString"])
        except Unreadable as error:
            raise _unserved_error(f"its schema cannot be read: {error}") from None
        self._partitioned = list(metadata.get("partitionColumns") or ())
        mode = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
        if mode not in ("none", "name", "id"):
            raise _unserved_error(f"its column mapping is {mode[:40]!r}, which is not known")
        self.mapped = mode != "none"
        self.last_id = 0
        self._made: tuple[Field, ...] | None = None

    def schema(self) -> Schema:
        """The schema of the table. Raises UnsupportedTable for a column that has no counterpart."""
        if self._made is None:
            self._made = tuple(self._field(field) for field in self.fields)
        schema = Schema(self._made, 0)
        check_schema(schema, 3)
        return schema

    def partitions(self) -> list[PartitionColumn]:
        by_name = {field["name"]: field for field in self.fields}
        ids = {field.name: field for field in self.schema().fields}
        columns = []
        for name in self._partitioned:
            field = by_name[name]
            typed = ids[name]
            if not isinstance(typed.type, str):
                raise _unserved_error(f"partition column {name[:80]!r} is no primitive one")
            columns.append(PartitionColumn(name, self._stored_name(field), field["type"], typed.type, typed.id))
        return columns

    def name_mapping(self) -> list[dict[str, Any]]:
        """The mapping from names in files to ids."""
        return [self._mapping(field, typed) for field, typed in zip(self.fields, self.schema().fields, strict=True)]

    def _mapping(self, field: Mapping[str, Any], typed: Field) -> dict[str, Any]:
        return {
            "field-id": typed.id,
            "names": [self._stored_name(field)],
            **_within(list(self._nested_fields(field["type"], typed.type))),
        }

    def _nested_fields(self, kind: Any, typed: Type) -> Iterator[dict[str, Any]]:
        match typed:
            case StructType(fields):
                for field, inner in zip(kind["fields"], fields, strict=True):
                    yield self._mapping(field, inner)
            case ListType(id, element, _):
                yield {
                    "field-id": id,
                    "names": ["element"],
                    **_within(list(self._nested_fields(kind["elementType"], element))),
                }
            case MapType(key_id, key, value_id, value, _):
                yield {"field-id": key_id, "names": ["key"], **_within(list(self._nested_fields(kind["keyType"], key)))}
                yield {
                    "field-id": value_id,
                    "names": ["value"],
                    **_within(list(self._nested_fields(kind["valueType"], value))),
                }

    def _stored_name(self, field: Mapping[str, Any]) -> str:
        return physical_name(field) if self.mapped else field["name"]

    def _field(self, field: Mapping[str, Any]) -> Field:
        metadata = field.get("metadata") or {}
        name = field["name"]
        if any(key.startswith("__COLLATIONS") for key in metadata):
            raise _unserved_error(f"column {name[:80]!r} has a collation, by which Iceberg's readers do not compare")
        _check_widened(metadata.get("delta.typeChanges"), name)
        id = self._id(metadata.get(MAPPING_ID), name)
        nested = metadata.get(NESTED_IDS) or {}
        kind = self._type(field["type"], name, nested if isinstance(nested, dict) else {}, self._stored_name(field))
        return Field(id, name, kind, not field["nullable"], metadata.get("comment"))

    def _id(self, mapped: Any, name: str) -> int:
        if self.mapped:
            if type(mapped) is not int:
                raise _unserved_error(f"{name[:80]!r} has no id of column mapping, by which Iceberg's readers find it "
                                      f"in files",
                                f"{READ_BY_DELTA}, or enable IcebergCompatV2")  # fmt: skip
            self.last_id = max(self.last_id, mapped)
            return mapped
        self.last_id += 1
        return self.last_id

    def _type(self, kind: Any, name: str, nested: Mapping[str, Any], path: str) -> Type:
        """The type of a column; ``nested`` the ids of elements, keys and values in it, by their
        ``path`` in the file."""
        if isinstance(kind, str):
            return _primitive(kind, name)
        match kind["type"]:
            case "struct":
                return StructType(tuple(self._field(field) for field in kind["fields"]))
            case "array":
                at = f"{path}.element"
                id = self._id(nested.get(at), f"{name}.element")
                return ListType(id, self._type(kind["elementType"], name, nested, at), not kind["containsNull"])
            case "map":
                key = f"{path}.key"
                value = f"{path}.value"
                key_id = self._id(nested.get(key), f"{name}.key")
                value_id = self._id(nested.get(value), f"{name}.value")
                key_type = self._type(kind["keyType"], name, nested, key)
                value_type = self._type(kind["valueType"], name, nested, value)
                return MapType(key_id, key_type, value_id, value_type, not kind["valueContainsNull"])
        raise _unserved_error(f"column {name[:80]!r} is of a type that only Spark knows")


def _within(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"fields": fields} if fields else {}


def _primitive(kind: str, name: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if decimal := _DECIMAL.fullmatch(kind):
        return f"decimal({decimal[1]}, {decimal[2]})"
    if _SIZED_TEXT.fullmatch(kind):
        return "string"
    raise _unserved_error(f"column {name[:80]!r} is of type {kind[:60]}, which has no counterpart here")


def _check_widened(changes: Any, name: str) -> None:
    """Checks that Iceberg's readers know a change of a column's type, too."""
    for change in changes if isinstance(changes, list) else ():
        before = str(change.get("fromType"))
        after = str(change.get("toType"))
        decimals = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
        same_scale = decimals[0] is not None and decimals[1] is not None and decimals[0][2] == decimals[1][2]
        if (before, after) not in _WIDENED and not same_scale:
            problem = f"the type of column {name[:80]!r} was changed from {before[:40]} to {after[:40]}"
            raise _unserved_error(f"{problem}, which Iceberg's readers cannot do")


# -- values of partitions ----------------------------------------------------------------------------------------------


def partition_value(text: str | None, column: PartitionColumn) -> Any:
    """Returns a partition value as Iceberg's JSON has values of the column's type; None for null,
    which Spark also writes as an empty text. Raises UnsupportedTable for one that is none of the
    type, or that leaves open which moment it is.
    """
    if not text:
        return None
    try:
        return _VALUES[column.iceberg_type.partition("(")[0]](text, column.iceberg_type)
    except (ValueError, ArithmeticError, OverflowError):
        problem = f"a file has the partition value {text[:80]!r} of {column.name[:80]!r}, a {column.delta_type}"
        raise _unserved_error(f"{problem}: {_NO_VALUE}") from None


def _integer(text: str, _: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII):
        raise ValueError
    return int(text)


def _floating(text: str, _: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _decimal(text: str, kind: str) -> str:
    scale = int(kind.rstrip(")").rpartition(",")[2])
    exact = _DIGITS.quantize(Decimal(text), Decimal(1).scaleb(-scale))
    if exact != Decimal(text):
        raise ValueError
    return f"{exact:f}"


def _boolean(text: str, _: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _moment(text: str, kind: str) -> str:
    """A time with its six digits. A moment (``timestamptz``) needs a zone: without, it is in its
    writer's zone, which is unknown."""
    moment = datetime.fromisoformat(text)
    if (moment.tzinfo is None) == (kind == "timestamptz"):
        raise ValueError
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).isoformat(timespec="microseconds")


_VALUES: Final = {
    "string": lambda text, _: text,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "boolean": _boolean,
    "binary": lambda text, _: text.encode().hex().upper(),
    "date": lambda text, _: date.fromisoformat(text).isoformat(),
    "timestamp": _moment,
    "timestamptz": _moment,
}


def _unserved_error(problem: str, remedy: str = READ_BY_DELTA) -> UnsupportedTable:
    return UnsupportedTable(f"Iceberg's clients cannot read this Delta table: {problem}", field="table", remedy=remedy)
