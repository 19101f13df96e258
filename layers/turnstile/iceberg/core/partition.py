"""Partition specs and sort orders (table specification, "Partitioning" and "Sorting")."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from turnstile.iceberg.core.schema import Part, Schema, parts
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import Int32

FIRST_PARTITION_ID: Final = 1000
"""The first id of partition fields; ``last-partition-id`` of an unpartitioned table is one less."""

UNSORTED: Final = 0
"""The id of the order without fields."""

_TRANSFORM: Final = re.compile(r"identity|year|month|day|hour|void|(bucket|truncate)\[[1-9]\d{0,8}\]")

_TIMESTAMPS: Final = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_DAYS: Final = ("date", *_TIMESTAMPS)
_SOURCES: Final = {
    "year": _DAYS,
    "month": _DAYS,
    "day": _DAYS,
    "hour": _TIMESTAMPS,
    "bucket": ("int", "long", "decimal", "time", "string", "uuid", "fixed", "binary", *_DAYS),
    "truncate": ("int", "long", "decimal", "string", "binary"),
}
"""The types that a transform accepts (table specification, "Partition Transforms"); void accepts
any."""

_NOT_IDENTITY: Final = ("geometry", "geography")
"""Primitive types that identity does not accept."""


class PartitionField(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A partition value; ``field_id`` -1 as long as none was assigned. Fields of several sources
    are of format 4."""

    source_id: Int32
    name: str
    transform: str
    field_id: Int32 = -1


class PartitionSpec(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """How a table is partitioned; ``spec_id`` -1 as long as none was assigned."""

    fields: tuple[PartitionField, ...]
    spec_id: Int32 = -1


class SortField(msgspec.Struct, frozen=True, rename="kebab"):
    """One key of an order."""

    source_id: Int32
    transform: str
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]


class SortOrder(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """An order that writers should keep; ``order_id`` -1 as long as none was assigned."""

    fields: tuple[SortField, ...]
    order_id: Int32 = -1


def compatible(first: PartitionSpec, second: PartitionSpec) -> bool:
    """Whether two specs are equal except for their ids and the ids of their fields."""
    one, other = ([(field.source_id, field.name, field.transform) for field in spec.fields] for spec in (first, second))
    return one == other


def with_ids(
    spec: PartitionSpec, spec_id: int, specs: tuple[PartitionSpec, ...], last_id: int, version: int
) -> PartitionSpec:
    """Returns ``spec`` with an id for itself and for its fields: that of the same source and
    transform in an earlier spec, or the next one after ``last_id``; in format 1 ids follow
    positions.
    """
    before = {(f.source_id, f.transform): f.field_id for earlier in specs for f in earlier.fields}
    fields = []
    for position, field in enumerate(spec.fields):
        id = before.get((field.source_id, field.transform), last_id + 1)
        if version == 1:
            id = FIRST_PARTITION_ID + position
        if field.field_id >= 0:
            id = field.field_id
        last_id = max(last_id, id)
        fields.append(msgspec.structs.replace(field, field_id=id))
    return PartitionSpec(tuple(fields), spec_id)


def check_spec(spec: PartitionSpec, schema: Schema, version: int) -> None:
    """Raises InvalidRequest unless a table of this schema can be written with this spec."""
    by_id = {part.id: part for part in parts(schema)}
    ids = set[int]()
    for position, field in enumerate(spec.fields):
        if field.field_id in ids:
            raise _bad(f"partition field '{field.name}' has an id that is there twice", "spec")
        ids.add(field.field_id)
        if version == 1 and field.field_id != FIRST_PARTITION_ID + position:
            raise _bad("ids of partition fields must be in sequence in format version 1", "spec")
        if field.transform != "void":  # the column of a void transform may be gone
            _check_source(by_id, field.source_id, field.transform, "spec")
    _check_names(spec, by_id)


def check_former_spec(spec: PartitionSpec, schema: Schema) -> None:
    """Raises InvalidRequest unless a spec that writers do not use any more can be read with the
    current schema, which may lack columns."""
    by_id = {part.id: part for part in parts(schema)}
    for field in spec.fields:
        if field.transform != "void" and field.source_id in by_id:
            _check_source(by_id, field.source_id, field.transform, "spec")
    _check_names(spec, by_id)


def check_order(order: SortOrder, schema: Schema) -> None:
    """Raises InvalidRequest unless a table of this schema can be sorted so."""
    by_id = {part.id: part for part in parts(schema)}
    for field in order.fields:
        _check_source(by_id, field.source_id, field.transform, "sort-order")


def _check_names(spec: PartitionSpec, by_id: dict[int, Part]) -> None:
    """Checks that names are unique, and are not names of other columns: readers put both into one
    struct."""
    names = set[str]()
    columns = {part.name: part.id for part in by_id.values()}
    for field in spec.fields:
        if not field.name or field.name in names:
            raise _bad(f"partition field '{field.name}' has no name, or is there twice", "spec")
        names.add(field.name)
        if columns.get(field.name, field.source_id) != field.source_id and field.source_id in by_id:
            raise _bad(f"partition field '{field.name}' has the name of a column that it is not made of", "spec")


def _check_source(by_id: dict[int, Part], source: int, transform: str, where: str) -> None:
    if not _TRANSFORM.fullmatch(transform):
        raise _bad(f"transform {transform[:60]!r} is none", where)
    part = by_id.get(source)
    if part is None:
        raise _bad(f"source column {source} is not in the current schema", where)
    if not isinstance(part.type, str) or part.type == "variant" or part.repeated:
        raise _bad(f"'{part.name}' cannot be used here: it is no primitive column", where)
    if not _takes(transform, part.type):
        raise _bad(f"transform {transform} does not take '{part.name}', which is of type {part.type}", where)


def _takes(transform: str, type: str) -> bool:
    kind = transform.partition("[")[0]
    base = type.partition("(")[0].partition("[")[0]
    return base in _SOURCES[kind] if kind in _SOURCES else kind == "void" or base not in _NOT_IDENTITY


def _bad(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, field=field)
