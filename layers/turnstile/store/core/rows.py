"""Rows of ``refs`` as structs: an attribute is declared once, as a member with its annotation.

From the declaration follow how a row is parsed (``from_row``), how a new row is written (``to_row``), and what the
adapters know of it (``attributes``).

    annotation                 stored as               not stored
    ``str``, a ``Literal``     text
    ``int``, ``bool``          number, flag
    ``bytes``                  binary
    ``frozenset[str]``         set of texts            when empty: DynamoDB has no empty set
    ``tuple[str, ...]``        list of texts
    ``tuple[Struct, ...]``     list of binaries        the struct's ``pack()``; read back as msgpack
    ``dict[str, int]``         map of numbers          never left out: writes set members in it

A member that has a default is not stored while it has it; ``None`` never is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Self, Union, get_args, get_origin

import msgspec

from turnstile.store.core.writes import Row


class StoredAs(Enum):
    """How the value of an attribute is stored."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    BINARY = "binary"
    TEXT_SET = "set of texts"
    TEXT_LIST = "list of texts"
    BINARY_LIST = "list of binaries"
    COUNTS = "map of numbers"


class Attribute(NamedTuple):
    """One attribute of a kind of row.

    ``optional``: a row may lack it. ``default``: what a parsed row has then. ``decode`` and ``encode`` convert between the
    stored value and the member's.
    """

    name: str
    stored_as: StoredAs
    optional: bool
    default: Any
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


class StoredRow(msgspec.Struct, frozen=True):
    """A parsed row. Subclasses declare ``kind`` and the attributes; ``key`` is its address (``store.core.keys``)."""

    key: str
    kind: ClassVar[str]

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Parses a row of this kind. Attributes that are not declared are ignored: a newer release may have written them.

        Raises:
            TypeError: an attribute without a default is missing.
        """
        return cls(**{name: attribute.decode(row[name]) for name, attribute in attributes(cls).items() if name in row})

    def to_row(self) -> Row:
        """Returns the row to be inserted."""
        row: Row = {"key": self.key, "kind": self.kind}
        for name, attribute in attributes(type(self)).items():
            value = getattr(self, name)
            if value is not None and not (attribute.optional and value == attribute.default):
                row[name] = attribute.encode(value)
        return row


@cache
def attributes(row: type[StoredRow]) -> Mapping[str, Attribute]:
    """The attributes that a kind of row declares, by name; ``kind``, which every row has, is not among them."""
    return {field.name: _attribute(field) for field in msgspec.structs.fields(row)}


def _attribute(field: msgspec.structs.FieldInfo) -> Attribute:
    annotation = field.type
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    stored_as, decode, encode = _codec(annotation)
    return Attribute(
        field.name,
        stored_as,
        optional=not field.required and stored_as is not StoredAs.COUNTS,
        default=default,
        decode=decode,
        encode=encode,
    )


def _codec(annotation: Any) -> tuple[StoredAs, Callable[[Any], Any], Callable[[Any], Any]]:
    plain = {str: StoredAs.TEXT, int: StoredAs.NUMBER, bool: StoredAs.FLAG, bytes: StoredAs.BINARY}.get(annotation)
    if plain is not None:
        return plain, annotation, annotation
    origin, (first, *_) = get_origin(annotation), get_args(annotation)
    if isinstance(first, str):  # a Literal
        return StoredAs.TEXT, str, str
    if origin is frozenset:
        return StoredAs.TEXT_SET, frozenset, set
    if origin is dict:
        return StoredAs.COUNTS, dict, dict
    if first is str:
        return StoredAs.TEXT_LIST, tuple, list
    decode = msgspec.msgpack.Decoder(first).decode
    return (
        StoredAs.BINARY_LIST,
        lambda packed: tuple(decode(one) for one in packed),
        lambda members: [member.pack() for member in members],
    )
