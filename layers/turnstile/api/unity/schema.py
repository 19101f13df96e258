"""Table columns in both spellings: Delta's schema JSON (``elementType``) and the API's (``element-type``).

Source: Delta protocol, "Schema Serialization Format"; the API's ``DeltaStructType``. Field metadata is kept as it is.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from turnstile.api.unity.numbers import check_numbers
from turnstile.store.core.errors import InvalidRequest

_TYPES: Final = {
    "array": {"element-type": "elementType", "contains-null": "containsNull"},
    "map": {"key-type": "keyType", "value-type": "valueType", "value-contains-null": "valueContainsNull"},
}
_PRIMITIVE: Final = re.compile(r"[a-z][a-z_]*(\([^()]{1,100}\))?")
_MAX_DEPTH: Final = 60


def to_api(schema_string: str) -> dict[str, Any]:
    """The API's struct of a ``schemaString``, which was judged before it was stored."""
    return fields_to_api(msgspec.json.decode(schema_string).get("fields") or [])


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
    """A type in the API's spelling, which has no user-defined ones: what files hold of them."""
    kind = type.get("type") if isinstance(type, dict) else None
    if kind == "udt":
        return _api(type["sqlType"])
    if kind == "struct":
        return fields_to_api(type.get("fields") or [])
    members = _TYPES.get(kind) if isinstance(kind, str) else None
    if members is None:
        return type
    found = {api: type.get(delta, True) for api, delta in members.items()}
    return {"type": kind} | {api: value if api.endswith("-null") else _api(value) for api, value in found.items()}


def to_delta(struct: Any, field: str = "columns") -> list[dict[str, Any]]:
    """Fields in Delta's JSON of the API's struct.

    Raises:
        InvalidRequest: not a struct, no fields, names that are equal but for case, a type of unknown form, a number
            in the metadata that no client could read again.
    """
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        raise InvalidRequest(f"{field} must be an object of type struct", field=field)
    check_numbers(struct, field)
    found = _fields(struct, field, 0)
    if not found:
        raise InvalidRequest(f"{field} must have at least one field", field=field)
    return found


def _fields(struct: dict[str, Any], where: str, depth: int) -> list[dict[str, Any]]:
    fields = struct.get("fields")
    if not isinstance(fields, list) or depth > _MAX_DEPTH:
        raise InvalidRequest(f"{where}.fields must be a list, at most {_MAX_DEPTH} deep", field=where)
    made, names = [], set()
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(field, dict) or not isinstance(name, str) or not name:
            raise InvalidRequest(f"{where}: a field needs a name", field=where)
        if name.casefold() in names:
            raise InvalidRequest(f"{where}: name {name!r} is there twice", field=where)
        names.add(name.casefold())
        nullable, metadata = field.get("nullable", True), field.get("metadata")
        if not isinstance(nullable, bool) or not isinstance(metadata, dict | None):
            raise InvalidRequest(f"{where}.{name}: nullable is a boolean, metadata an object", field=where)
        type = _type(field.get("type"), f"{where}.{name}"[:500], depth + 1)
        made.append({"name": name, "type": type, "nullable": nullable, "metadata": metadata or {}})
    return made


def _type(type: Any, where: str, depth: int) -> Any:
    if isinstance(type, str) and _PRIMITIVE.fullmatch(type):
        return type
    if isinstance(type, dict) and depth <= _MAX_DEPTH:
        kind = type.get("type")
        if kind == "struct":
            return {"type": "struct", "fields": _fields(type, where, depth)}
        members = _TYPES.get(kind) if isinstance(kind, str) else None
        if members is not None:
            made: dict[str, Any] = {"type": kind}
            for name, delta in members.items():
                value = type.get(name)
                if name.endswith("-null"):
                    if not isinstance(value, bool):
                        raise InvalidRequest(f"{where}: {name} must be true or false", field=where)
                    made[delta] = value
                else:
                    made[delta] = _type(value, where, depth + 1)
            return made
    raise InvalidRequest(f"{where} has a type that is not one of Delta's", field=where)


def same_columns(one: Any, other: Any) -> bool:
    """Whether two lists of fields in Delta's JSON have the same names and types; metadata is not compared."""
    return bool(_bare(one) == _bare(other))


def _bare(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_bare(one) for one in node]
    if isinstance(node, dict) and node.get("type") == "udt":
        return _bare(node.get("sqlType"))
    if isinstance(node, dict):
        return {name: _bare(value) for name, value in node.items() if name not in ("metadata", "nullable")}
    return node


def check_partitions(columns: list[str] | tuple[str, ...], fields: Any) -> None:
    """Every partition column is one of the fields, and only once; raises InvalidRequest."""
    names = {field["name"].casefold() for field in fields}
    seen: set[str] = set()
    for column in columns:
        if column.casefold() not in names or column.casefold() in seen:
            raise InvalidRequest(
                f"partition column {column!r} is not a column, or there twice", field="partition-columns"
            )
        seen.add(column.casefold())
