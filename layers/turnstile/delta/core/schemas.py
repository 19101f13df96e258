"""The form of a Delta schema in JSON, as far as everything that reads one relies on it.

Source: Delta protocol, "Schema Serialization Format".
"""

from __future__ import annotations

from typing import Any, Final

_MAX_DEPTH: Final = 100


def is_struct(node: Any, depth: int = 0) -> bool:
    """Whether ``node`` is a struct type whose fields have a name and a type, all the way down."""
    if not isinstance(node, dict) or node.get("type") != "struct" or depth > _MAX_DEPTH:
        return False
    fields = node.get("fields")
    return isinstance(fields, list) and all(is_field(field, depth + 1) for field in fields)


def is_field(field: Any, depth: int = 0) -> bool:
    """Whether ``field`` is a field with a name and a type."""
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and _is_flag(field, "nullable")
        and isinstance(field.get("metadata"), dict | None)
        and is_type(field.get("type"), depth)
    )


def is_type(type: Any, depth: int = 0) -> bool:
    """Whether ``type`` is a name, an array, a map, a struct, or Spark's user-defined type with what files hold of it."""
    if isinstance(type, str):
        return bool(type)
    if not isinstance(type, dict) or depth > _MAX_DEPTH:
        return False
    match type.get("type"):
        case "struct":
            return is_struct(type, depth)
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
