"""File actions in Arrow's columns, as a checkpoint of a table has them.

Source: Delta protocol, "Checkpoint Schema", "Delta Data Type to Parquet Type Mappings".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa

from turnstile.delta.core.actions import Add, DeletionVector, Remove
from turnstile.maintenance.core.parsed import (
    BOUNDED,
    Group,
    columns_with_statistics,
    decimal_of,
    parsed_partition,
    parsed_stats,
    partition_types,
    type_of,
)
from turnstile.maintenance.core.upkeep import Upkeep
from turnstile.maintenance.file_actions import Columns, Rows
from turnstile.maintenance.stats import stats_as_json

TEXTS: Final = pa.map_(pa.string(), pa.string())
VECTOR: Final = pa.struct([
    ("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32()), ("sizeInBytes", pa.int32()),
    ("cardinality", pa.int64()),
])  # fmt: skip
_ADD: Final[dict[str, pa.DataType]] = {
    "path": pa.string(), "partitionValues": TEXTS, "size": pa.int64(), "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "tags": TEXTS, "deletionVector": VECTOR, "baseRowId": pa.int64(), "defaultRowCommitVersion": pa.int64(),
    "clusteringProvider": pa.string(),
}  # fmt: skip
_REMOVE: Final[dict[str, pa.DataType]] = {
    "path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_(), "extendedFileMetadata": pa.bool_(),
    "partitionValues": TEXTS, "size": pa.int64(), "deletionVector": VECTOR, "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}  # fmt: skip
PROTOCOL: Final = pa.struct([
    ("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", pa.list_(pa.string())),
    ("writerFeatures", pa.list_(pa.string())),
])  # fmt: skip
METADATA: Final = pa.struct([
    ("id", pa.string()), ("name", pa.string()), ("description", pa.string()),
    ("format", pa.struct([("provider", pa.string()), ("options", TEXTS)])), ("schemaString", pa.string()),
    ("partitionColumns", pa.list_(pa.string())), ("createdTime", pa.int64()), ("configuration", TEXTS),
])  # fmt: skip
TRANSACTION: Final = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
DOMAIN: Final = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
OTHER: Final = {"protocol": PROTOCOL, "metaData": METADATA, "txn": TRANSACTION, "domainMetadata": DOMAIN}

_TYPES: Final = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(), "boolean": pa.bool_(), "binary": pa.binary(),
}  # fmt: skip


def arrow_type(column: str) -> pa.DataType:
    """Returns the type in which values of a primitive column are stored."""
    kind = type_of(column)
    return pa.decimal128(*decimal_of(column)) if kind == "decimal" else _TYPES[kind]


class FileColumns:
    """Makes the columns ``add`` and ``remove`` of a table's checkpoint."""

    def __init__(self, metadata: dict[str, Any], upkeep: Upkeep) -> None:
        add = dict(_ADD)
        self._stats: Group | None = None
        self._partitions: dict[str, str] = {}
        if upkeep.stats_as_json:
            add["stats"] = pa.string()
        if upkeep.stats_as_struct:
            self._stats = columns_with_statistics(metadata, upkeep)
            self._partitions = partition_types(metadata)
            add["stats_parsed"] = _stats_type(self._stats)
            if self._partitions:
                add["partitionValues_parsed"] = pa.struct(
                    [(name, arrow_type(column)) for name, column in self._partitions.items()]
                )
        self.add = pa.struct(list(add.items()))
        self.remove = pa.struct(list(_REMOVE.items()))

    def adds(self, chunk: Rows | Columns) -> pa.StructArray | None:
        """Returns the ``add`` actions of ``chunk``, ``dataChange`` false; None for none."""
        if isinstance(chunk, Rows):
            return self._array(chunk.adds, self.add) if chunk.adds else None
        if chunk.adds is None:
            return None
        text = None
        columns: list[pa.Array] = []
        for field in self.add:
            if field.name in ("stats", "stats_parsed") and text is None:
                text = stats_as_json(chunk.adds)
            columns.append(self._column(chunk.adds, field, text))
        return pa.StructArray.from_arrays(columns, fields=list(self.add))

    def removes(self, chunk: Rows | Columns, keeps: Callable[[int | None], bool]) -> pa.StructArray | None:
        """Returns the tombstones of ``chunk`` that are kept, asked by the time of their deletion;
        None for none."""
        if isinstance(chunk, Rows):
            kept = [remove for remove in chunk.removes if keeps(remove.deletionTimestamp)]
            return self._array(kept, self.remove) if kept else None
        structs = chunk.removes
        if structs is None:
            return None
        if structs.type.get_field_index("deletionTimestamp") >= 0:
            times = structs.field("deletionTimestamp").to_pylist()
        else:
            times = [None] * len(structs)
        structs = structs.filter(pa.array([keeps(time) for time in times], pa.bool_()))
        columns = [self._column(structs, field, None) for field in self.remove]
        return pa.StructArray.from_arrays(columns, fields=list(self.remove)) if len(structs) else None

    def _column(self, structs: pa.StructArray, field: pa.Field, text: pa.StringArray | None) -> pa.Array:
        """One member of actions that were read from Parquet."""
        there = structs.type.get_field_index(field.name) >= 0
        match field.name:
            case "dataChange":
                return pa.array([False] * len(structs), pa.bool_())
            case "stats":
                return text
            case "stats_parsed" if not there or structs.field(field.name).type != field.type:
                assert text is not None
                return self._parse_column(text.to_pylist())
            case "partitionValues_parsed" if not there or structs.field(field.name).type != field.type:
                return self._parsed_partitions(
                    dict(pairs or ()) for pairs in structs.field("partitionValues").to_pylist()
                )
        if not there:
            return pa.nulls(len(structs), field.type)
        column = structs.field(field.name)
        if column.type == field.type:
            return column
        if field.type == VECTOR:
            return pa.array(column.to_pylist(), VECTOR)
        return _texts(column) if field.type == TEXTS else column.cast(field.type)

    def _array(self, actions: list[Add] | list[Remove], struct: pa.StructType) -> pa.StructArray:
        """Actions that were read from JSON."""
        columns = []
        for field in struct:
            match field.name:
                case "dataChange":
                    column = pa.array([False] * len(actions), field.type)
                case "stats_parsed":
                    column = self._parse_column(action.stats for action in actions)
                case "partitionValues_parsed":
                    column = self._parsed_partitions(action.partitionValues or {} for action in actions)
                case "deletionVector":
                    column = pa.array([_vector(action.deletionVector) for action in actions], field.type)
                case "partitionValues" | "tags":
                    given = [getattr(action, field.name) for action in actions]
                    column = pa.array([None if texts is None else list(texts.items()) for texts in given], field.type)
                case name:
                    column = pa.array([getattr(action, name) for action in actions], field.type)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(struct))

    def _parse_column(self, texts: Iterable[str | None]) -> pa.StructArray:
        assert self._stats is not None
        group = self._stats
        return pa.array([parsed_stats(text, group) for text in texts], self.add.field("stats_parsed").type)

    def _parsed_partitions(self, values: Iterable[dict[str, str | None]]) -> pa.StructArray:
        types = self._partitions
        structs = [
            {name: parsed_partition(texts.get(name), column) for name, column in types.items()} for texts in values
        ]
        return pa.array(structs, self.add.field("partitionValues_parsed").type)


def _vector(vector: DeletionVector | None) -> dict[str, Any] | None:
    return None if vector is None else msgspec.structs.asdict(vector)


def _texts(column: pa.MapArray) -> pa.MapArray:
    """A map of texts with other names of entries."""
    return pa.array(column.to_pylist(), TEXTS)


def _stats_type(columns: Group) -> pa.StructType:
    members = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    bounds = _bounds_type(columns)
    counts = _counts_type(columns)
    if bounds is not None:
        members += [("minValues", bounds), ("maxValues", bounds)]
    return pa.struct([*members, ("nullCount", counts)] if counts is not None else members)


def _bounds_type(columns: Group) -> pa.StructType | None:
    """Parquet has no empty structs: None instead."""
    members = []
    for name, column in columns.members.items():
        if isinstance(column, Group):
            inner = _bounds_type(column)
            members += [(name, inner)] if inner is not None else []
        elif type_of(column) in BOUNDED:
            members.append((name, arrow_type(column)))
    return pa.struct(members) if members else None


def _counts_type(columns: Group) -> pa.StructType | None:
    members = []
    for name, column in columns.members.items():
        inner = _counts_type(column) if isinstance(column, Group) else pa.int64()
        members += [(name, inner)] if inner is not None else []
    return pa.struct(members) if members else None


def other_array(name: str, actions: list[dict[str, Any]]) -> pa.StructArray:
    """Returns the actions of this ``name``, which is none of a file's, as a column."""
    return pa.array([_pairs(action, OTHER[name]) for action in actions], OTHER[name])


def _pairs(value: Any, kind: pa.DataType) -> Any:
    """Maps as lists of pairs, as Arrow takes them; only members that ``kind`` has."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _pairs(value.get(field.name), field.type) for field in kind}
    return [(str(name), text) for name, text in value.items()] if pa.types.is_map(kind) else value
