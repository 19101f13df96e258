"""Columns as Delta's schema JSON (``elementType``), the Delta API (``element-type``) and the older
API spell them.

JSON and Python know no widths of integers. Members without a type of their own (metadata of
columns, domains) are kept as they were sent, so a number that Java's ``long`` does not hold is
refused when it arrives.

Source: Delta protocol, "Schema Serialization Format"; the API's ``DeltaStructType``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import MAX_DEPTH
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import LONG_MAX

_TYPES: Final = {
    "array": {"element-type": "elementType", "contains-null": "containsNull"},
    "map": {"key-type": "keyType", "value-type": "valueType", "value-contains-null": "valueContainsNull"},
}
_PRIMITIVE: Final = re.compile(r"[a-z][a-z_]*(\([^()]{1,100}\))?")
_MAX_DEPTH: Final = 60

_TEXT: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_DUCKDB: Final = frozenset({
    "byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date", "timestamp", "void",
})  # fmt: skip
_NAME: Final = {"integer": "INT", "void": "NULL", "varchar": "STRING", "udt": "USER_DEFINED_TYPE"}
_NAMES: Final = frozenset({
    "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING",
    "BINARY", "DECIMAL", "INTERVAL", "ARRAY", "STRUCT", "MAP", "VARIANT", "CHAR", "NULL", "USER_DEFINED_TYPE",
})  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_FROM_NAME: Final = {
    "BOOLEAN": "boolean", "BYTE": "byte", "SHORT": "short", "INT": "integer", "LONG": "long", "FLOAT": "float",
    "DOUBLE": "double", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz",
    "STRING": "string", "BINARY": "binary", "VARIANT": "variant", "CHAR": "string", "NULL": "void",
}  # fmt: skip


def check_numbers(value: Any, field: str) -> None:
    """Raises InvalidRequest if an integer anywhere in ``value``, which is JSON, does not fit 64
    bits."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            nodes.extend(node.values())
        elif isinstance(node, list | tuple):
            nodes.extend(node)
        elif isinstance(node, int) and not -LONG_MAX - 1 <= node <= LONG_MAX:
            raise InvalidRequest(
                f"{field} holds the number {node}"[:200] + ", which 64 bits do not",
                field=field,
                remedy="send it as a string, or a number between -2^63 and 2^63-1",
            )


def fields_to_api(fields: Any) -> dict[str, Any]:
    """The API's struct of fields in Delta's JSON: exactly the members that the API has."""
    return {
        "type": "struct",
        "fields": [
            {
                "name": field["name"],
                "type": _api(field["type"]),
                "nullable": field.get("nullable", True),
                "metadata": field.get("metadata") or {},
            }
            for field in fields
        ],
    }


def _api(type: Any) -> Any:
    """A type in the API's spelling; of a user-defined type, which the API lacks, the type that
    files hold."""
    kind = type.get("type") if isinstance(type, dict) else None
    if kind == "udt":
        return _api(type["sqlType"])
    if kind == "struct":
        return fields_to_api(type.get("fields") or [])
    members = _TYPES.get(kind) if isinstance(kind, str) else None
    if members is None:
        return type
    values = {api: type.get(delta, True) for api, delta in members.items()}
    return {"type": kind} | {api: value if api.endswith("-null") else _api(value) for api, value in values.items()}


def to_delta(struct: Any, field: str = "columns") -> list[dict[str, Any]]:
    """Returns fields in Delta's JSON from the API's struct; raises InvalidRequest if it is not one,
    has no fields, names that are equal but for case, a type of unknown form, or a number in the
    metadata that 64 bits do not hold.
    """
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        raise InvalidRequest(f"{field} must be an object of type struct", field=field)
    check_numbers(struct, field)
    check_nothing_hidden(None, struct.get("fields") or ())
    fields = _fields(struct, field, 0)
    if not fields:
        raise InvalidRequest(f"{field} must have at least one field", field=field)
    return fields


def _fields(struct: dict[str, Any], where: str, depth: int) -> list[dict[str, Any]]:
    fields = struct.get("fields")
    if not isinstance(fields, list) or depth > _MAX_DEPTH:
        raise InvalidRequest(f"{where}.fields must be a list, at most {_MAX_DEPTH} deep", field=where)
    checked = []
    names = set()
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(field, dict) or not isinstance(name, str) or not name:
            raise InvalidRequest(f"{where}: a field needs a name", field=where)
        if name.casefold() in names:
            raise InvalidRequest(f"{where}: name {name!r} is there twice", field=where)
        names.add(name.casefold())
        nullable = field.get("nullable", True)
        metadata = field.get("metadata")
        if not isinstance(nullable, bool) or not isinstance(metadata, dict | None):
            raise InvalidRequest(f"{where}.{name}: nullable is a boolean, metadata an object", field=where)
        type = _type(field.get("type"), f"{where}.{name}"[:500], depth + 1)
        checked.append({"name": name, "type": type, "nullable": nullable, "metadata": metadata or {}})
    return checked


def _type(type: Any, where: str, depth: int) -> Any:
    if isinstance(type, str) and _PRIMITIVE.fullmatch(type):
        return type
    if isinstance(type, dict) and depth <= _MAX_DEPTH:
        kind = type.get("type")
        if kind == "struct":
            return {"type": "struct", "fields": _fields(type, where, depth)}
        members = _TYPES.get(kind) if isinstance(kind, str) else None
        if members is not None:
            checked: dict[str, Any] = {"type": kind}
            for name, delta in members.items():
                value = type.get(name)
                if not name.endswith("-null"):
                    value = _type(value, where, depth + 1)
                elif not isinstance(value, bool):
                    raise InvalidRequest(f"{where}: {name} must be true or false", field=where)
                checked[delta] = value
            return checked
    raise InvalidRequest(f"{where} has a type that is not one of Delta's", field=where)


def same_columns(first: Any, second: Any) -> bool:
    """Whether two lists of fields in Delta's JSON have the same names and types; metadata is not
    compared."""
    return bool(_bare(first) == _bare(second))


def _bare(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_bare(inner) for inner in node]
    if isinstance(node, dict) and node.get("type") == "udt":
        return _bare(node.get("sqlType"))
    if isinstance(node, dict):
        return {name: _bare(value) for name, value in node.items() if name not in ("metadata", "nullable")}
    return node


def check_partitions(columns: list[str] | tuple[str, ...], fields: Any) -> None:
    """Raises InvalidRequest unless every partition column is one of the fields, and named once."""
    unused = {field["name"].casefold() for field in fields}
    for column in columns:
        if column.casefold() not in unused:
            raise InvalidRequest(
                f"partition column {column!r} is not a column, or there twice", field="partition-columns"
            )
        unused.remove(column.casefold())


class ColumnInfo(msgspec.Struct, frozen=True):
    """A column as the older API has it; ``position`` from 0."""

    name: str
    type_text: str | None = None
    type_json: str | None = None
    type_name: str | None = None
    type_precision: int | None = None
    type_scale: int | None = None
    type_interval_type: str | None = None
    position: int | None = None
    comment: str | None = None
    nullable: bool | None = True
    partition_index: int | None = None


class SentColumn(ColumnInfo, frozen=True):
    """A column as a client sends it. ``mask``: the replacement of its values for a reader."""

    mask: Any = None


def check_nothing_hidden(row_filter: Any, columns: Iterable[Any]) -> None:
    """Raises InvalidRequest for a table of which readers are to see less than is in its files:
    readers get the files themselves (ADR 12)."""
    masked = [
        (column.name, column.mask) if isinstance(column, SentColumn) else (column.get("name"), column.get("mask"))
        for column in columns
        if isinstance(column, SentColumn | dict)
    ]
    name = next((name for name, mask in masked if mask is not None), None)
    if row_filter is not None or name is not None:
        what = "a row filter" if name is None else f"the mask of column {name!r}"
        raise InvalidRequest(
            f"{what} cannot be enforced: a principal that may read a table reads its files",
            field="row_filter" if name is None else "columns",
            remedy="leave it out, and keep restricted columns in a table of its own",
        )


def to_infos(fields: Iterable[dict[str, Any]], partitions: Sequence[str]) -> list[ColumnInfo]:
    index = {name.casefold(): position for position, name in enumerate(partitions)}
    return [_info(position, field, index.get(str(field["name"]).casefold())) for position, field in enumerate(fields)]


def _info(position: int, field: dict[str, Any], partition: int | None) -> ColumnInfo:
    type = field["type"]
    kind = type if isinstance(type, str) else str(type.get("type"))
    decimal = _DECIMAL.fullmatch(kind)
    comment = (field.get("metadata") or {}).get("comment")
    return ColumnInfo(
        name=field["name"],
        type_text=type_text(type),
        type_json=msgspec.json.encode(field).decode(),
        type_name="DECIMAL" if decimal else _name(kind),
        type_precision=int(decimal[1]) if decimal else None,
        type_scale=int(decimal[2]) if decimal else None,
        position=position,
        comment=comment if isinstance(comment, str) else None,
        nullable=field.get("nullable", True),
        partition_index=partition,
    )


def _name(kind: str) -> str:
    """The name of a type, one of the API's names: without parameters and the unit of an
    interval."""
    base = re.split(r"[( ]", kind, maxsplit=1)[0]
    name = _NAME.get(base, base.upper())
    return name if name in _NAMES else "USER_DEFINED_TYPE"


def type_text(type: Any) -> str:
    """A type in SQL: ``array<bigint>``, ``struct<a:int>``."""
    if isinstance(type, str):
        return _TEXT.get(type, type)
    match type.get("type"):
        case "array":
            return f"array<{type_text(type['elementType'])}>"
        case "map":
            return f"map<{type_text(type['keyType'])},{type_text(type['valueType'])}>"
        case "struct":
            members = ",".join(f"{field['name']}:{type_text(field['type'])}" for field in type["fields"])
            return f"struct<{members}>"
    return str(type.get("type"))


def is_read_by_duckdb(infos: Iterable[ColumnInfo]) -> bool:
    """Returns whether DuckDB's ``unity_catalog`` (1.5) can parse the types of all columns. Source:
    its ``uc_utils.cpp``."""
    return all(_is_parsed(msgspec.json.decode(info.type_json or "{}").get("type")) for info in infos)


def _is_parsed(type: Any, *, in_pair: bool = False) -> bool:
    """``in_pair``: it is a part of a map or struct, where a decimal's comma ends it."""
    if isinstance(type, str):
        return type in _DUCKDB or (type.startswith("decimal(") and not in_pair)
    if not isinstance(type, dict):
        return False
    if type.get("type") == "array":
        return _is_parsed(type["elementType"], in_pair=in_pair)
    fields = type.get("fields", ())
    parts = [type["keyType"], type["valueType"]] if type.get("type") == "map" else [field["type"] for field in fields]
    are_plain = not any(set(",:<>") & set(field["name"]) for field in fields)
    return bool(parts) and are_plain and all(_is_parsed(part, in_pair=True) for part in parts)


def to_fields(infos: Sequence[ColumnInfo]) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Fields in Delta's JSON, and the partition columns in their order; raises InvalidRequest for a
    column without a type, or with a number that no client could read again."""
    ordered = sorted(infos, key=lambda info: info.position or 0)
    parts = sorted((info.partition_index, info.name) for info in ordered if info.partition_index is not None)
    fields = tuple(_field(info) for info in ordered)
    check_numbers(fields, "columns")
    return fields, tuple(name for _, name in parts)


def _field(info: ColumnInfo) -> dict[str, Any]:
    type: Any = None
    if info.type_json:
        try:
            type = msgspec.json.decode(info.type_json)
        except (msgspec.DecodeError, RecursionError):
            if not _PRIMITIVE.fullmatch(info.type_json):
                return _bad(info)
            type = info.type_json
        if isinstance(type, dict) and "name" in type and "type" in type:
            metadata = type.get("metadata") or {}
            if info.comment and isinstance(metadata, dict) and not metadata.get("comment"):
                metadata = {**metadata, "comment": info.comment}
            field = {"nullable": True, **type, "name": info.name, "metadata": metadata}
            return field if is_field(field) else _bad(info)
    if type is None:
        precision = f"({info.type_precision},{info.type_scale or 0})" if info.type_precision is not None else "(10,0)"
        type = f"decimal{precision}" if info.type_name == "DECIMAL" else _FROM_NAME.get(info.type_name or "")
    if not is_type(type):
        return _bad(info)
    metadata = {"comment": info.comment} if info.comment else {}
    return {"name": info.name, "type": type, "nullable": info.nullable is not False, "metadata": metadata}


def _bad(info: ColumnInfo) -> dict[str, Any]:
    raise InvalidRequest(f"column {info.name!r} has no type that is known", field="columns", remedy="give type_json")


# -- form -------------------------------------------------------------------------------------------------------------


def is_field(field: Any, depth: int = 0) -> bool:
    """Whether ``field`` is a field with a name and a type, all the way down."""
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and _is_flag(field, "nullable")
        and isinstance(field.get("metadata"), dict | None)
        and is_type(field.get("type"), depth)
    )


def is_type(type: Any, depth: int = 0) -> bool:
    """Whether ``type`` is a name, an array, a map, a struct, or Spark's user-defined type with its
    type in files. Formats other than Delta have types of their own."""
    if isinstance(type, str):
        return bool(type)
    if not isinstance(type, dict) or depth > MAX_DEPTH:
        return False
    match type.get("type"):
        case "struct":
            fields = type.get("fields")
            return isinstance(fields, list) and all(is_field(field, depth + 1) for field in fields)
        case "array":
            return _is_flag(type, "containsNull") and is_type(type.get("elementType"), depth + 1)
        case "map":
            parts = (type.get("keyType"), type.get("valueType"))
            return _is_flag(type, "valueContainsNull") and all(is_type(part, depth + 1) for part in parts)
        case "udt":  # Spark's own: files hold its sqlType
            return is_type(type.get("sqlType"), depth + 1)
    return False


def _is_flag(node: dict[str, Any], member: str) -> bool:
    return isinstance(node.get(member, True), bool)
