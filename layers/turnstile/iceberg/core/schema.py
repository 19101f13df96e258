"""Schemas: types, fields, their ids and default values (table specification, "Schemas and Data
Types" and appendix D)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, time
from typing import Any, Final, Union

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import INT_MAX, LONG_MAX, Int32

Type = Union[str, "StructType", "ListType", "MapType"]

MAX_DEPTH: Final = 64
"""Levels of nested types."""


class Field(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A column or a member of a struct."""

    id: Int32
    name: str
    type: Type
    required: bool
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


class StructType(msgspec.Struct, frozen=True, tag_field="type", tag="struct"):
    """A struct inside a column."""

    fields: tuple[Field, ...]


class ListType(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", tag="list"):
    """A list; its element is a field without a name."""

    element_id: Int32
    element: Type
    element_required: bool


class MapType(msgspec.Struct, frozen=True, rename="kebab", tag_field="type", tag="map"):
    """A map; keys are always required."""

    key_id: Int32
    key: Type
    value_id: Int32
    value: Type
    value_required: bool


class Schema(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True, tag_field="type", tag="struct"):
    """A table's or a view's schema; ``schema_id`` -1 until one is assigned."""

    fields: tuple[Field, ...]
    schema_id: Int32 = -1
    identifier_field_ids: tuple[Int32, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """One node of a schema: with its full name; ``repeated`` inside a list or a map; ``certain`` if
    everything above it is required, so that every row has it."""

    id: int
    name: str
    type: Type
    required: bool
    repeated: bool = False
    certain: bool = True
    defaults: tuple[Any, ...] = ()


_SIMPLE: Final = re.compile(r"boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary")
_SINCE_3: Final = re.compile(r"unknown|timestamp_ns|timestamptz_ns|variant|(geometry|geography)(\(.*\))?")
_SIZED: Final = re.compile(r"fixed\[(\d{1,9})\]|decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")

_HIGHEST: Final = {"int": INT_MAX, "long": LONG_MAX}
_DECIMAL: Final = re.compile(r"-?(\d+)(?:\.(\d+))?", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BYTES: Final = re.compile(r"([0-9a-fA-F]{2})*")

_DATE: Final = r"(?P<date>\d{4}-\d\d-\d\d)"
_TIME: Final = r"(?P<time>\d\d:\d\d:\d\d)"
_ZONE: Final = r"\+00:00"
_TIME_FORMATS: Final = {
    name: re.compile(form, re.ASCII)
    for name, form in {
        "date": _DATE,
        "time": rf"{_TIME}(\.\d{{1,6}})?",
        "timestamp": rf"{_DATE}T{_TIME}(\.\d{{1,6}})?",
        "timestamptz": rf"{_DATE}T{_TIME}(\.\d{{1,6}})?{_ZONE}",
        "timestamp_ns": rf"{_DATE}T{_TIME}(\.\d{{1,9}})?",
        "timestamptz_ns": rf"{_DATE}T{_TIME}(\.\d{{1,9}})?{_ZONE}",
    }.items()
}


def parts(schema: Schema) -> Iterator[Part]:
    """Yields every node of the schema, parents before children; raises InvalidRequest beyond
    ``MAX_DEPTH`` levels."""
    yield from _members(schema.fields, None, depth=0)


def _members(fields: tuple[Field, ...], above: Part | None, depth: int) -> Iterator[Part]:
    inside = ""
    repeated = False
    certain = True
    if above is not None:
        inside = f"{above.name}."
        repeated = above.repeated
        certain = above.certain and above.required
    for field in fields:
        defaults = tuple(value for value in (field.initial_default, field.write_default) if value is not None)
        part = Part(field.id, inside + field.name, field.type, field.required, repeated, certain, defaults)
        yield from _node(part, depth)


def _node(part: Part, depth: int) -> Iterator[Part]:
    yield part
    if depth > MAX_DEPTH:
        raise InvalidRequest("the schema is nested too deeply", field="schema", remedy=f"use {MAX_DEPTH} levels")
    inside = f"{part.name}."
    match part.type:
        case StructType(fields):
            yield from _members(fields, part, depth + 1)
        case ListType(id, type, required):
            yield from _node(Part(id, inside + "element", type, required, repeated=True), depth + 1)
        case MapType(key_id, key, value_id, value, required):
            yield from _node(Part(key_id, inside + "key", key, True, repeated=True), depth + 1)
            yield from _node(Part(value_id, inside + "value", value, required, repeated=True), depth + 1)


def highest_id(schema: Schema) -> int:
    """The highest field id, 0 when there are no fields."""
    return max((part.id for part in parts(schema)), default=0)


def same(first: Schema, second: Schema) -> bool:
    """Whether two schemas are equal but for their ids."""
    return first.fields == second.fields and {*first.identifier_field_ids} == {*second.identifier_field_ids}


def check(schema: Schema, version: int) -> None:
    """Raises InvalidRequest unless a table of format ``version`` can have ``schema``."""
    by_id: dict[int, Part] = {}
    names: set[str] = set()
    for part in parts(schema):
        if part.id in by_id:
            raise _bad(f"field id {part.id} is used twice")
        if part.name in names:
            raise _bad(f"field '{part.name}' is there twice")
        by_id[part.id] = part
        names.add(part.name)
        if isinstance(part.type, str):
            _check_primitive(part.type, part.name, version)
        if part.type == "unknown" and part.required:
            raise _bad(f"field '{part.name}' is of type unknown, which has no values but null, and required")
        if part.defaults and version < 3:
            raise _bad(f"field '{part.name}' has a default value, which needs format version 3")
        if not all(isinstance(part.type, str) and fits(part.type, value) for value in part.defaults):
            raise _bad(f"field '{part.name}' has a default value that is not written as its type wants it")
    for id in schema.identifier_field_ids:
        _check_identifier(by_id.get(id), id)


def _check_primitive(type: str, name: str, version: int) -> None:
    if _SIMPLE.fullmatch(type):
        return
    sized = _SIZED.fullmatch(type)
    if sized is not None and (sized[1] is not None or 0 < int(sized[2]) <= 38):
        return
    if not _SINCE_3.fullmatch(type):
        raise _bad(f"field '{name}' is of type {type[:60]!r}, which is none")
    if version < 3:
        raise _bad(f"field '{name}' is of type {type[:60]}, which needs format version 3")


def _check_identifier(part: Part | None, id: int) -> None:
    if part is None:
        raise _bad(f"identifier field {id} is not in the schema")
    primitive = isinstance(part.type, str) and part.type not in ("float", "double", "variant")
    if not (primitive and part.required and part.certain) or part.repeated:
        raise _bad(
            f"field '{part.name}' cannot identify rows: it must be required, and of a primitive type other than float "
            "and double. All structs around it must be required; lists and maps are not allowed"
        )


def with_new_ids(schema: Schema, schema_id: int) -> tuple[Schema, dict[int, int]]:
    """Returns the schema of a new table with ids from 1, and the new id of every old one. Members
    of a struct get ids before the fields inside them, as in Iceberg's own clients: a schema with
    ids from one of these clients keeps its ids.
    """
    fresh: dict[int, int] = {}

    def next_id(old: int) -> int:
        fresh[old] = len(fresh) + 1
        return fresh[old]

    fields = _renumbered_members(schema.fields, next_id)
    identifiers = tuple(fresh.get(id, id) for id in schema.identifier_field_ids)
    return Schema(fields, schema_id, identifiers), fresh


def _renumbered_members(fields: tuple[Field, ...], next_id: Callable[[int], int]) -> tuple[Field, ...]:
    ids = [next_id(field.id) for field in fields]
    return tuple(
        msgspec.structs.replace(field, id=id, type=_renumber(field.type, next_id))
        for field, id in zip(fields, ids, strict=True)
    )


def _renumber(type: Type, next_id: Callable[[int], int]) -> Type:
    match type:
        case StructType(fields):
            return StructType(_renumbered_members(fields, next_id))
        case ListType(id, element, required):
            return ListType(next_id(id), _renumber(element, next_id), required)
        case MapType(key_id, key, value_id, value, required):
            ids = next_id(key_id), next_id(value_id)
            return MapType(ids[0], _renumber(key, next_id), ids[1], _renumber(value, next_id), required)
        case _:
            return type


def fits(type: str, value: Any) -> bool:
    """Whether ``value`` is a JSON value of this primitive type; none is if only null can be the
    default. Java's and PyIceberg's readers refuse a whole table for another one."""
    if type == "boolean":
        return isinstance(value, bool)
    if type in _HIGHEST:
        highest = _HIGHEST[type]
        return isinstance(value, int) and not isinstance(value, bool) and -highest - 1 <= value <= highest
    if type in ("float", "double"):
        return isinstance(value, float)
    return isinstance(value, str) and _fits_text(type, value)


def _fits_text(type: str, text: str) -> bool:
    base, _, sizes = type.rstrip(")]").replace("[", "(").partition("(")
    if base in _TIME_FORMATS:
        return _is_time(_TIME_FORMATS[base], text)
    match base:
        case "string":
            return True
        case "uuid":
            return _UUID.fullmatch(text) is not None
        case "binary":
            return _BYTES.fullmatch(text) is not None
        case "fixed":
            return _BYTES.fullmatch(text) is not None and len(text) == 2 * int(sizes)
        case "decimal":
            precision, scale = map(int, sizes.split(","))
            match = _DECIMAL.fullmatch(text)
            return match is not None and len(match[2] or "") == scale and len(match[1].lstrip("0")) <= precision - scale
    return False


def _is_time(form: re.Pattern[str], text: str) -> bool:
    match = form.fullmatch(text)
    if match is None:
        return False
    try:
        parts = match.groupdict()
        date.fromisoformat(parts.get("date", "2000-01-01"))
        time.fromisoformat(parts.get("time", "00:00:00"))
    except ValueError:
        return False
    return True


def _bad(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="schema")
