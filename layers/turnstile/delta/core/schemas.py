"""Schemas of tables: the form of a ``schemaString`` that Delta's readers need, and the table
features of its columns.

Source: Delta protocol, "Schema Serialization Format", "Column Mapping", "Partition Value
Serialization" and the sections of the features named here; proposals "Interval Types" and
"Collations"; of geospatial types Delta's own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import MAX_DEPTH, NOT_JSON, depth_of

Field = dict[str, Any]

_PRIMITIVES: Final = frozenset({
    "string", "long", "integer", "short", "byte", "float", "double", "decimal", "boolean", "binary", "date",
    "timestamp", "timestamp_ntz", "void", "null", "variant",
})  # fmt: skip
_PARAMETRIC: Final = re.compile(
    r"decimal\(\s*(?P<precision>\d{1,2})\s*,\s*(?P<scale>\d{1,2})\s*\)"
    r"|interval (?:year|month|year to month)"
    r"|interval (?:day|hour|minute|second|day to (?:hour|minute|second)|hour to (?:minute|second)|minute to second)"
    r"|(?:char|varchar)\(\s*\d{1,9}\s*\)"
    r"|string collate \w{1,100}"
    r"|geometry\([^()]{1,100}\)|geography\([^()]{1,100}\)",
    re.ASCII,
)
DECIMAL_DIGITS: Final = 38

_MEMBERS: Final = {
    "struct": {"type", "fields"},
    "array": {"type", "elementType", "containsNull"},
    "map": {"type", "keyType", "valueType", "valueContainsNull"},
    "udt": {"type", "class", "pyClass", "sqlType", "serializedClass"},
}
"""The members of a type: Spark reads a schema with other members as no schema at all."""

_TYPE_FEATURES: Final = (
    ("timestamp_ntz", frozenset({"timestampNtz"})),
    ("variant", frozenset({"variantType", "variantType-preview"})),
    ("geometry", frozenset({"geospatial", "geospatial-dev"})),
    ("geography", frozenset({"geospatial", "geospatial-dev"})),
)
_COLUMN_FEATURES: Final = {
    "delta.generationExpression": frozenset({"generatedColumns"}),
    "delta.identity.start": frozenset({"identityColumns"}),
    "delta.identity.step": frozenset({"identityColumns"}),
    "delta.invariants": frozenset({"invariants"}),
    "delta.typeChanges": frozenset({"typeWidening", "typeWidening-preview"}),
    "CURRENT_DEFAULT": frozenset({"allowColumnDefaults"}),
}

MAPPING_ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


class Unreadable(Exception):
    """A part of a schema that Delta's readers cannot read."""


def columns_of(schema_string: str) -> list[Field]:
    """The columns of a ``schemaString``. Raises Unreadable, naming the part that Delta's readers
    cannot read."""
    try:
        schema = msgspec.json.decode(schema_string)
    except NOT_JSON as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    if depth_of(schema) > MAX_DEPTH:
        raise Unreadable(f"it is nested more than {MAX_DEPTH} levels deep")
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        raise Unreadable("it is not a struct")
    _check_type(schema, "the schema")
    return list(schema["fields"])


def _check_type(type: Any, of: str) -> None:
    if isinstance(type, str):
        _check_primitive(type, of)
        return
    kind = type.get("type") if isinstance(type, dict) else None
    if not isinstance(kind, str) or kind not in _MEMBERS:
        raise Unreadable(f"{of} has no type that Delta knows: {_short(type)}")
    members = {*type} | ({"class", "pyClass", "serializedClass"} if kind == "udt" else set())
    if members != _MEMBERS[kind]:
        raise Unreadable(f"{of} must have exactly the members {', '.join(sorted(_MEMBERS[kind]))} of a {kind}")
    match kind:
        case "struct":
            _check_fields(type["fields"], of)
        case "array":
            _check_flag(type["containsNull"], "containsNull", of)
            _check_type(type["elementType"], f"the element of {of}")
        case "map":
            _check_flag(type["valueContainsNull"], "valueContainsNull", of)
            _check_type(type["keyType"], f"the key of {of}")
            _check_type(type["valueType"], f"the value of {of}")
        case _:  # Spark's own: files hold its sqlType
            _check_type(type["sqlType"], of)


def _check_primitive(name: str, of: str) -> None:
    match = _PARAMETRIC.fullmatch(name)
    if match is None and name not in _PRIMITIVES:
        raise Unreadable(f"{of} has no type that Delta knows: {_short(name)}")
    if match is not None and match["precision"] is not None:
        precision = int(match["precision"])
        scale = int(match["scale"])
        if not (1 <= precision <= DECIMAL_DIGITS and scale <= precision):
            raise Unreadable(f"{of}: {name} needs a precision from 1 to {DECIMAL_DIGITS}, and a scale up to it")


def _check_fields(fields: Any, of: str) -> None:
    if not isinstance(fields, list):
        raise Unreadable(f"the fields of {of} must be a list")
    names = set()
    for field in fields:
        if not isinstance(field, dict) or not isinstance(name := field.get("name"), str):
            raise Unreadable(f"a field of {of} has no name")
        column = f"column {_short(name)}"
        if {*field} | {"metadata"} != {"name", "type", "nullable", "metadata"}:
            raise Unreadable(f"{column} must have name, type, nullable and metadata, and nothing else")
        if name.lower() in names:
            raise Unreadable(f"{column} is there twice; upper and lower case make no difference")
        names.add(name.lower())
        _check_flag(field["nullable"], "nullable", column)
        _check_metadata(field.get("metadata", {}), column)
        _check_type(field["type"], column)


def _check_flag(value: Any, member: str, of: str) -> None:
    if not isinstance(value, bool):
        raise Unreadable(f"{member} of {of} must be true or false")


def _check_metadata(metadata: Any, of: str) -> None:
    """Checks a column's metadata as Spark reads it: an object of values, objects, and lists of
    values of one type."""
    if not isinstance(metadata, dict):
        raise Unreadable(f"the metadata of {of} must be an object")
    for key, value in metadata.items():
        if isinstance(value, dict):
            _check_metadata(value, of)
        elif isinstance(value, list):
            if len({type(item) for item in value}) > 1 or any(isinstance(item, list | None) for item in value):
                raise Unreadable(f"the metadata {_short(key)} of {of} must be a list of values of one type")
            for item in value:
                if isinstance(item, dict):
                    _check_metadata(item, of)
    if not isinstance(metadata.get("comment", ""), str):
        raise Unreadable(f"the comment of {of} must be a text")


def _short(value: Any) -> str:
    return repr(value)[:80]


# -- what columns need ------------------------------------------------------------------------------------------------


def walk(fields: list[Field], parents: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yields every field of ``columns_of``, nested ones too, with the physical path of the struct
    that it is in."""
    for field in fields:
        yield parents, field
        physical = (field.get("metadata") or {}).get(PHYSICAL_NAME)
        yield from _walk_type(field["type"], (*parents, physical if isinstance(physical, str) else field["name"]))


def _walk_type(type: Any, parents: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    if isinstance(type, dict):
        match type["type"]:
            case "struct":
                yield from walk(type["fields"], parents)
            case "array":
                yield from _walk_type(type["elementType"], (*parents, "element"))
            case "map":
                yield from _walk_type(type["keyType"], (*parents, "key"))
                yield from _walk_type(type["valueType"], (*parents, "value"))


def needed_features(fields: list[Field]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields uses of columns that need a table feature, with the features of which one is
    needed."""
    for _, field in walk(fields):
        for key in (field.get("metadata") or {}).keys() & _COLUMN_FEATURES.keys():
            yield f"{key} of column {_short(field['name'])}", _COLUMN_FEATURES[key]
        for name in _primitives(field["type"]):
            for prefix, features in _TYPE_FEATURES:
                if name == prefix or name.startswith(prefix + "("):
                    yield f"the type {name} of column {_short(field['name'])}", features


def _primitives(type: Any) -> Iterator[str]:
    """The primitive types in ``type``, without types of nested fields."""
    if isinstance(type, str):
        yield type
    elif type["type"] in ("array", "map"):
        for member in ("elementType", "keyType", "valueType"):
            if member in type:
                yield from _primitives(type[member])


def check_mapping(fields: list[Field], max_id: int | None) -> None:
    """Checks the ids and physical names of columns where column mapping is on, and ``max_id``, the
    greatest id ever given. Raises Unreadable."""
    ids = set()
    paths = set()
    for parents, field in walk(fields):
        metadata = field.get("metadata") or {}
        column = f"column {_short(field['name'])}"
        id = metadata.get(MAPPING_ID)
        physical = metadata.get(PHYSICAL_NAME)
        if type(id) is not int or not -(2**31) <= id < 2**31:
            raise Unreadable(f"{column} needs an integer as {MAPPING_ID}")
        if not isinstance(physical, str) or not physical:
            raise Unreadable(f"{column} needs a text as {PHYSICAL_NAME}")
        if id in ids or (*parents, physical) in paths:
            raise Unreadable(f"{column} has the {MAPPING_ID} or the {PHYSICAL_NAME} of another")
        ids.add(id)
        paths.add((*parents, physical))
    if ids and (max_id is None or max_id < max(ids)):
        raise Unreadable(f"delta.columnMapping.maxColumnId must be {max(ids)} at least, not {max_id}")
