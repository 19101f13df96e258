"""Columns of the older API (``ColumnInfo``) from Delta's schema fields, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from turnstile.api.unity.numbers import check_numbers
from turnstile.delta.core.schemas import is_field, is_type
from turnstile.store.core.errors import InvalidRequest

_TEXT: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
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


class ColumnInfo(msgspec.Struct, frozen=True):
    """A column as the older API has it. ``position`` from 0."""

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


def to_infos(fields: Iterable[dict[str, Any]], partitions: Sequence[str]) -> list[ColumnInfo]:
    """Columns of fields in Delta's JSON."""
    index = {name.casefold(): at for at, name in enumerate(partitions)}
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
    """The name of a type in the API, whose clients know no others: parameters and the unit of an interval left out."""
    base = re.split(r"[( ]", kind, maxsplit=1)[0]
    found = _NAME.get(base, base.upper())
    return found if found in _NAMES else "USER_DEFINED_TYPE"


def type_text(type: Any) -> str:
    """A type in SQL's words: ``array<bigint>``, ``struct<a:int>``."""
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


def to_fields(infos: Sequence[ColumnInfo]) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Fields in Delta's JSON, and the partition columns in their order.

    Raises:
        InvalidRequest: ``type_json`` is not JSON or holds a number that no client could read again, or a column has no
            type.
    """
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
            type = info.type_json if info.type_json.isidentifier() else None
        if isinstance(type, dict) and "name" in type and "type" in type:
            found = {"nullable": True, **type, "name": info.name, "metadata": type.get("metadata") or {}}
            return found if is_field(found) else _bad(info)
    if type is None:
        precision = f"({info.type_precision},{info.type_scale or 0})" if info.type_precision is not None else "(10,0)"
        type = f"decimal{precision}" if info.type_name == "DECIMAL" else _FROM_NAME.get(info.type_name or "")
    if not is_type(type):
        return _bad(info)
    metadata = {"comment": info.comment} if info.comment else {}
    return {"name": info.name, "type": type, "nullable": info.nullable is not False, "metadata": metadata}


def _bad(info: ColumnInfo) -> dict[str, Any]:
    raise InvalidRequest(f"column {info.name!r} has no type that is known", field="columns", remedy="give type_json")
