"""Rows of plain Python values to items of DynamoDB and back, through the models."""

from __future__ import annotations

from typing import Any, Final

from pynamodb.attributes import Attribute, BinaryAttribute, ListAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from turnstile.adapters.dynamo.models import KINDS, Counts, RefRow
from turnstile.store.core.writes import Path, Row

Item = dict[str, Any]
"""Attribute values as the service spells them: ``{"latest": {"N": "7"}}``."""

_BINARY: Final = BinaryAttribute(legacy_encoding=False)
_NUMBER: Final = NumberAttribute()
_TEXT: Final = UnicodeAttribute()


def model_of(key: str) -> type[RefRow]:
    """The model of the row under ``key`` (``<realm>/<kind>/<rest>``, ``core/keys.py``).

    Raises:
        ValueError: no row of that kind is declared.
    """
    parts = key.split("/", 2)
    model = KINDS.get(parts[1]) if len(parts) == 3 else None
    if model is None:
        raise ValueError(f"no model declares the kind of row {key!r}")
    return model


def attribute_at(model: type[Model], path: Path) -> Attribute[Any]:
    """The attribute that serialises the value under ``path``: of the model, or a member of one of its collections.

    Raises:
        ValueError: the model does not declare it.
    """
    attribute = model.get_attributes().get(str(path[0]))
    if attribute is None:
        raise ValueError(f"{model.__name__} does not declare {path[0]!r}")
    if len(path) == 1:
        return attribute
    if len(path) == 2 and isinstance(attribute, ListAttribute) and isinstance(path[1], int):
        return _BINARY if attribute.element_type is BinaryAttribute else _TEXT
    if len(path) == 2 and isinstance(attribute, Counts) and isinstance(path[1], str):
        return _NUMBER
    raise ValueError(f"{model.__name__} has nothing under {path!r}")


def to_item(model: type[Model], row: Row) -> Item:
    """Serialise a whole row; a missing or undeclared attribute is a ValueError."""
    return model(**row).serialize(null_check=True)


def from_item(model: type[Model], item: Item) -> Row:
    """The declared attributes of an item; others are ignored (a newer release may have written them)."""
    return {
        name: attribute.deserialize(attribute.get_value(item[name]))
        for name, attribute in model.get_attributes().items()
        if name in item
    }


def ref_from_item(item: Item | None) -> Row | None:
    """A row of ``refs``; None for no item."""
    return from_item(model_of(item["key"]["S"]), item) if item else None
