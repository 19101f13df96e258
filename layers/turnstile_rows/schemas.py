"""Schemas: Delta's JSON and Arrow's types.

Source: Delta protocol, "Schema Serialization Format"; "Delta Data Type to Parquet Type Mappings";
"Column Mapping".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from turnstile_rows.errors import DataMismatch, Unsupported

TIMESTAMP: Final = pa.timestamp("us", "UTC")
_PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": TIMESTAMP, "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_NAMES: Final = {type: name for name, type in _PRIMITIVES.items()}
#: Arrow's types that Delta has not, and the next larger that it has.
_WIDER: Final[dict[pa.DataType, str]] = {
    pa.uint8(): "short", pa.uint16(): "integer", pa.uint32(): "long", pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.large_string(): "string", pa.string_view(): "string", pa.large_binary(): "binary", pa.binary_view(): "binary",
    pa.date64(): "date",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
#: What a Delta column's name cannot have in it without column mapping.
_NO_NAME: Final = re.compile(r"[ ,;{}()\n\t=]|\A\Z")


#: Modes of column mapping. In the other two, columns have other names in files.
UNMAPPED: Final = "none"
MODES: Final = (UNMAPPED, "name", "id")
#: The member of a Parquet column's metadata in Arrow that has its id.
FIELD_ID: Final = b"PARQUET:field_id"


def arrow_schema(schema: Mapping[str, Any], mapping: str = UNMAPPED) -> pa.Schema:
    """A table's schema in Arrow, every column nullable where Delta has it so; with a mode of
    ``mapping`` that of its files, with names, and ids if it is ``id``, as files have them. Raises
    :class:`Unsupported`, naming the column."""
    return pa.schema([_arrow_field(field, "", mapping) for field in schema["fields"]])


def _arrow_field(field: Mapping[str, Any], above: str, mapping: str) -> pa.Field:
    name = f"{above}{field['name']}"
    type = _arrow_type(field["type"], name, mapping)
    nullable = bool(field.get("nullable", True))
    if mapping == UNMAPPED:
        return pa.field(field["name"], type, nullable=nullable)
    metadata = field.get("metadata") or {}
    for member in ("delta.columnMapping.physicalName", "delta.columnMapping.id"):
        if member not in metadata:
            raise Unsupported(f"the table maps its columns, and its column {name!r} has no {member}")
    number = metadata["delta.columnMapping.id"]
    id = {FIELD_ID: str(number)} if mapping == "id" and number is not None else None
    return pa.field(metadata["delta.columnMapping.physicalName"], type, nullable=nullable, metadata=id)


def _arrow_type(type: Any, name: str, mapping: str) -> pa.DataType:
    if isinstance(type, Mapping):
        match type.get("type"):
            case "struct":
                return pa.struct([_arrow_field(field, f"{name}.", mapping) for field in type["fields"]])
            case "array":
                element = _arrow_type(type["elementType"], f"{name}.element", mapping)
                return pa.list_(pa.field("element", element, nullable=bool(type.get("containsNull", True))))
            case "map":
                key = _arrow_type(type["keyType"], f"{name}.key", mapping)
                value = _arrow_type(type["valueType"], f"{name}.value", mapping)
                return pa.map_(key, pa.field("value", value, nullable=bool(type.get("valueContainsNull", True))))
    elif type in _PRIMITIVES:
        return _PRIMITIVES[type]
    elif isinstance(type, str) and (match := _DECIMAL.fullmatch(type)):
        return pa.decimal128(int(match[1]), int(match[2]))
    raise Unsupported(f"the column {name!r} has the type {type}, which is not known here")


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    """Arrow's schema as Delta writes it, for a new table. Raises :class:`DataMismatch`, naming the
    column."""
    check_names(schema.names, "column")
    return {"type": "struct", "fields": [_delta_field(field, "") for field in schema]}


def check_names(names: Iterable[str], what: str) -> None:
    """Raises :class:`DataMismatch` for a name that a new column cannot have, or two that differ in
    case only."""
    names = list(names)
    for name in names:
        if _NO_NAME.search(name):
            raise DataMismatch(
                f"{what} {name[:200]!r}: a name has none of ' ,;{{}}()=', no tab and no line feed, and is not empty"
            )
    check_distinct(names, what)


def check_distinct(names: Iterable[str], what: str) -> None:
    """Raises :class:`DataMismatch` for two names that differ in case only."""
    seen = set[str]()
    for name in names:
        if name.lower() in seen:
            raise DataMismatch(f"{what} {name[:200]!r} is there twice: names are compared without regard to case")
        seen.add(name.lower())


def _delta_field(field: pa.Field, above: str) -> dict[str, Any]:
    name = f"{above}{field.name}"
    type = _delta_type(field.type, name)
    return {"name": field.name, "type": type, "nullable": field.nullable, "metadata": _comment(field)}


def _comment(field: pa.Field) -> dict[str, str]:
    """Returns the comment of a column as a member: ``comment`` of Arrow's metadata, as Spark writes
    it, or ``doc``, as Iceberg does."""
    metadata = field.metadata or {}
    comment = metadata.get(b"comment", metadata.get(b"doc", b"")).decode(errors="replace")
    return {"comment": comment} if comment else {}


def _delta_type(type: pa.DataType, name: str) -> Any:
    known = _NAMES.get(type) or _WIDER.get(type)
    if known is not None:
        return known
    if types.is_timestamp(type):
        return "timestamp_ntz" if type.tz is None else "timestamp"
    if types.is_dictionary(type):
        return _delta_type(type.value_type, name)
    if types.is_fixed_size_binary(type):
        return "binary"
    if types.is_decimal(type) and type.precision <= 38 and 0 <= type.scale <= type.precision:
        return f"decimal({type.precision},{type.scale})"
    if types.is_struct(type):
        if not type.num_fields:
            raise DataMismatch(
                f"column {name!r} is a struct without fields, which no Parquet file can hold: leave it out, or give it "
                f"one"
            )
        check_names([member.name for member in type], f"{name}: field")
        return {"type": "struct", "fields": [_delta_field(member, f"{name}.") for member in type]}
    if is_list(type):
        element = _delta_type(type.value_type, f"{name}.element")
        return {"type": "array", "elementType": element, "containsNull": type.value_field.nullable}
    if types.is_map(type):
        key = _delta_type(type.key_type, f"{name}.key")
        value = _delta_type(type.item_type, f"{name}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": type.item_field.nullable}
    raise DataMismatch(f"column {name!r} has Arrow's type {type}, which no Delta table can hold: cast it")


def is_list(type: pa.DataType) -> bool:
    """Whether this is one of Arrow's kinds of list."""
    return any(
        is_kind(type)
        for is_kind in (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
    )


def type_names(type: Any) -> set[str]:
    """The names of the primitive types in a type of Delta's JSON, without parameters."""
    if isinstance(type, Mapping):
        parts = [field["type"] for field in type.get("fields", ())]
        parts += [type[member] for member in ("elementType", "keyType", "valueType") if member in type]
        return set[str]().union(*map(type_names, parts))
    return {str(type).partition("(")[0]}
