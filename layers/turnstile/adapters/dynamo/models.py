"""The rows of the two tables as PynamoDB models, and rows as DynamoDB items. Every attribute of a
row of ``refs`` is declared by a struct (``store.core.rows``) that the model is made from; writing
another attribute fails. The models only serialise: PynamoDB's own writes cannot return the old item
when a condition fails, so ``refs.py`` sends them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import new_class
from typing import Any, Final

from pynamodb.attributes import (
    Attribute,
    BinaryAttribute,
    BooleanAttribute,
    ListAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.constants import MAP, NUMBER
from pynamodb.models import Model

from turnstile.access.core.client_rows import Client
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.core.request_rows import RequestOutcome
from turnstile.catalog.core.rows import CatalogHead, ExternalRow, GoneCatalog, StagingRow
from turnstile.coordination.core.named_ref import NamedRef
from turnstile.coordination.core.rows import Updateable
from turnstile.delta.core.attention import Attention
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.core.reservations import Register
from turnstile.delta.core.undecided import GroupRow
from turnstile.events.core.deliveries import EventDelivery
from turnstile.events.core.rows import EventLog, EventMark
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.core.rows import Attribute as RowAttribute
from turnstile.store.core.rows import StoredAs, StoredRow, attributes, damaged_row, require_readable
from turnstile.store.core.writes import Path, Row


class Names(UnicodeSetAttribute):
    """A set of strings, serialised in order: a transaction that is sent again must be the same to
    the byte."""

    def serialize(self, value: Any) -> Any:
        return sorted(value) or None


class Number(Attribute[int]):
    """An integer. PynamoDB's own takes any number, by way of JSON, at ten times the CPU time."""

    attr_type = NUMBER

    def serialize(self, value: Any) -> str:
        return str(value)

    def deserialize(self, value: Any) -> int:
        return int(value)


class Counts(Attribute[dict[str, int]]):
    """A map of names to integers."""

    attr_type = MAP

    def serialize(self, value: Any) -> Any:
        return {name: {"N": str(count)} for name, count in value.items()}

    def deserialize(self, value: Any) -> Any:
        return {name: int(count["N"]) for name, count in value.items()}


class RefRow(Model):
    """The attributes of every row of ``refs``: its key ``<realm>/<kind>/<rest>``, its kind, and its
    format where that is not the first (``store.core.writes``)."""

    key = UnicodeAttribute(hash_key=True)
    kind = UnicodeAttribute()
    format = Number(null=True)


_ATTRIBUTES: Final[dict[StoredAs, Callable[..., Attribute[Any]]]] = {
    StoredAs.TEXT: UnicodeAttribute,
    StoredAs.NUMBER: Number,
    StoredAs.FLAG: BooleanAttribute,
    StoredAs.BINARY: partial(BinaryAttribute, legacy_encoding=False),
    StoredAs.TEXT_SET: Names,
    StoredAs.TEXT_LIST: partial(ListAttribute, of=UnicodeAttribute),
    StoredAs.BINARY_LIST: partial(ListAttribute, of=BinaryAttribute),
    StoredAs.COUNTS: Counts,
}


def _attribute(attribute: RowAttribute) -> Attribute[Any]:
    null = attribute.optional or attribute.stored_as is StoredAs.COUNTS  # references without rights have none
    return _ATTRIBUTES[attribute.stored_as](null=null)


def _declared_by(row: type[StoredRow]) -> type[RefRow]:
    members = {name: _attribute(attribute) for name, attribute in attributes(row).items() if name != "key"}
    return new_class(f"{row.__name__}Row", (RefRow,), exec_body=lambda body: body.update(members))


class ObjRow(Model):
    """An immutable obj, or a part of a large one. ``created`` in microseconds; ``expires`` in
    seconds, the table's time-to-live attribute; ``parts`` is how many hold the payload of a large
    one (``store/stored_objs.py``).
    """

    space = UnicodeAttribute(hash_key=True)
    id = UnicodeAttribute(range_key=True)
    type = UnicodeAttribute()
    payload = BinaryAttribute(legacy_encoding=False)
    created = Number()
    expires = Number(null=True)
    parts = Number(null=True)
    digest = BinaryAttribute(legacy_encoding=False, null=True)
    size = Number(null=True)
    stamp = UnicodeAttribute(null=True)


_ROWS: Final[tuple[type[StoredRow], ...]] = (
    TableHead,
    GroupRow,
    CatalogHead,
    GoneCatalog,
    StagingRow,
    ExternalRow,
    Location,
    RequestOutcome,
    JournalRow,
    Updateable,
    NamedRef,
    Client,
    EventLog,
    EventMark,
    EventDelivery,
    FleetRow,
    MemberRow,
    GranuleRow,
    MovesRow,
    Register,
    Attention,
)


class _Models(Mapping[str, type[RefRow]]):
    """The model of each kind of rows. It is declared when it is asked for first: a process that
    starts needs one or two of them."""

    def __init__(self, rows: Iterable[type[StoredRow]]) -> None:
        self._rows = {row.kind: row for row in rows}
        self.declared: dict[str, type[RefRow]] = {}

    def __getitem__(self, kind: str) -> type[RefRow]:
        model = self.declared.get(kind)
        return self.declared.setdefault(kind, _declared_by(self._rows[kind])) if model is None else model

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


KINDS: Final = _Models(_ROWS)


Item = dict[str, Any]
"""Attribute values in DynamoDB's notation: ``{"latest": {"N": "7"}}``."""

_BINARY: Final = BinaryAttribute(legacy_encoding=False)
_NUMBER: Final = Number()
_TEXT: Final = UnicodeAttribute()


def model_of(key: str) -> type[RefRow]:
    """The model of the row under ``key`` (``<realm>/<kind>/<rest>``); raises ValueError if there is
    none."""
    parts = key.split("/", 2)
    kind = parts[1] if len(parts) == 3 else ""
    model = KINDS.declared.get(kind) or KINDS.get(kind)
    if model is None:
        raise ValueError(f"no model declares the kind of row {key!r}")
    return model


def attribute_at(model: type[Model], path: Path) -> Attribute[Any]:
    """The attribute that serialises the value under ``path``: of the model, or a member of one of
    its collections. Raises ValueError for an undeclared path."""
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
    """The declared attributes of an item; others are ignored (a newer release may have written
    them)."""
    return {
        name: attribute.deserialize(attribute.get_value(item[name]))
        for name, attribute in model.get_attributes().items()
        if name in item
    }


def row_of_image(key: str, image: Mapping[str, Any]) -> Row:
    """The row in an image of a stream's record as Lambda hands it on: binary values are base64.
    Raises ValueError for a kind of row that no model declares."""
    return from_item(model_of(key), {name: _decode_item(value) for name, value in image.items()})


def _decode_item(value: Mapping[str, Any]) -> Item:
    ((type, stored),) = value.items()
    if type == "B":
        return {type: base64.b64decode(stored)}
    if type == "L":
        return {type: [_decode_item(member) for member in stored]}
    return {type: stored}


def shown_row(item: Item) -> Row:
    """The row of ``refs`` in ``item``, or its placeholder if it is damaged."""
    key = item["key"]["S"]
    try:
        row = from_item(model_of(key), item)
    except Exception as error:  # whatever values of other types lead to
        return damaged_row(key, error)
    return row if "kind" in row else damaged_row(key, ValueError("it has no kind"))


def ref_from_item(item: Item | None) -> Row | None:
    """The row of ``refs`` in ``item``. Raises UnreadableRow if it is damaged."""
    return require_readable(shown_row(item)) if item else None
