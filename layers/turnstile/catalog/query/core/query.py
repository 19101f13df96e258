"""A path query, and whether a predicate holds for what a name leads to.

Two rules decide every comparison: one with something that is not there is false (so ``not`` of it is true), and the
literal decides how values are compared: a number as numbers, a text as texts by code point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from turnstile.catalog.core.entities import NAMESPACE, TABLE
from turnstile.catalog.core.paths import fold
from turnstile.catalog.query.core.like import like

Value = str | int | float | bool

TYPES: Final[dict[str, type[str | int | bool]]] = {
    "name": str,
    "id": str,
    "kind": str,
    "comment": str,
    "format": str,
    "location": str,
    "created": int,
    "updated": int,
    "managed": bool,
}
"""Attributes that a predicate may name, and what their literals are. Every other name is a property's."""

ATTRIBUTES: Final[dict[str, frozenset[str]]] = {
    NAMESPACE: frozenset({"name", "id", "kind", "comment", "created", "updated"}),
    TABLE: frozenset({"name", "id", "kind", "comment", "format", "location", "created", "managed"}),
}
"""Which of them what kind of entry has. A namespace may have a property called ``format``."""

OTHERS: Final = frozenset({"name", "id", "kind", "format", "location", "created", "updated", "managed"})
"""Those of every other kind: tables and views of other formats."""

_FOLDED: Final = ("name", "id")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,30}\.[0-9]{1,30}")


@dataclass(frozen=True, slots=True)
class Field:
    """What is compared: an attribute or a property; ``quoted`` always a property."""

    name: str
    quoted: bool = False


Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Compare:
    """``region = "eu"``."""

    field: Field
    op: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """``region in ("eu", "us")``."""

    field: Field
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``name like "ord%"``: ``%`` any characters, ``_`` one, a backslash takes the next one as it is."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """``name prefix "ord"``."""

    field: Field
    text: str


@dataclass(frozen=True, slots=True)
class Exists:
    """``region exists``."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class All:
    """``and``: every part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """``or``: a part holds."""

    parts: tuple[Predicate, ...]


Predicate = Compare | In | Like | Prefix | Exists | Not | All | Some


@dataclass(frozen=True, slots=True)
class Step:
    """One level: children called ``name`` (None: any) for which ``where`` holds (None: always)."""

    name: str | None = None
    where: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A catalog by name, and at least one level below it."""

    catalog: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a name so far; the rest is unknown rather than absent.

    Attributes:
        kind: of the entry.
        attributes: by name; an attribute of the kind that is not in here is unknown, or absent when ``whole``.
        whole: whether all attributes are here.
        properties: None while they are unknown.
    """

    kind: str
    attributes: Mapping[str, Value]
    whole: bool = False
    properties: Mapping[str, str] | None = None

    def value(self, field: Field) -> tuple[bool, Value | None]:
        """Whether the value is known, and the value (None: there is none)."""
        if not field.quoted and field.name in ATTRIBUTES.get(self.kind, OTHERS):
            found = self.attributes.get(field.name)
            return found is not None or self.whole, found
        if self.properties is None:
            return False, None
        return True, self.properties.get(field.name)


def holds(predicate: Predicate | None, subject: Subject) -> bool | None:
    """Whether ``predicate`` holds for ``subject``; None when that depends on what is not known yet."""
    match predicate:
        case None:
            return True
        case Not(part):
            found = holds(part, subject)
            return None if found is None else not found
        case All(parts):
            judged = [holds(part, subject) for part in parts]
            return False if False in judged else None if None in judged else True
        case Some(parts):
            judged = [holds(part, subject) for part in parts]
            return True if True in judged else None if None in judged else False
    known, value = subject.value(predicate.field)
    if not known:
        return None
    return value is not None and _compared(predicate, value)


def _compared(test: Compare | In | Like | Prefix | Exists, value: Value) -> bool:
    folded = not test.field.quoted and test.field.name in _FOLDED
    match test:
        case Exists():
            return True
        case Compare(_, op, wanted):
            return _ordered(value, op, wanted, folded=folded)
        case In(_, values):
            return any(_ordered(value, "=", wanted, folded=folded) for wanted in values)
        case Like(_, pattern):
            return isinstance(value, str) and like(*_folded(value, pattern, folded=folded))
        case Prefix(_, text):
            if not isinstance(value, str):
                return False
            value, text = _folded(value, text, folded=folded)
            return value.startswith(text)


def _ordered(value: Value, op: Operator, wanted: Value, *, folded: bool) -> bool:
    left = _as(value, wanted)
    if isinstance(left, str) and isinstance(wanted, str):
        one, other = _folded(left, wanted, folded=folded)
        return _in_order((one > other) - (one < other), op)
    if left is None or isinstance(left, str) or isinstance(wanted, str):
        return False
    return _in_order((left > wanted) - (left < wanted), op)


def _in_order(order: int, op: Operator) -> bool:
    """Whether ``op`` holds between two values of which the first is less (-1), equal (0) or more (1)."""
    match op:
        case "=":
            return order == 0
        case "!=":
            return order != 0
        case "<":
            return order < 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
        case ">=":
            return order >= 0


def _as(value: Value, wanted: Value) -> Value | None:
    """``value`` as the kind of value that ``wanted`` is; None when it is none. Properties are texts."""
    if isinstance(wanted, str):
        return value if isinstance(value, str) else None
    if isinstance(wanted, bool):
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None
    if isinstance(value, str):
        if _INTEGER.fullmatch(value):
            return int(value)
        return float(value) if _DECIMAL.fullmatch(value) else None
    return None if isinstance(value, bool) else value


def _folded(one: str, other: str, *, folded: bool) -> tuple[str, str]:
    return (fold(one), fold(other)) if folded else (one, other)


# -- text -------------------------------------------------------------------------------------------------------------
# A query as text that means the same: in one spelling, so that equal queries have equal texts.


def to_text(query: Query) -> str:
    """The query as ``parser.parse`` reads it."""
    levels = [query.catalog]
    for step in query.steps:
        name = step.name or ("" if step.where is not None else "*")
        levels.append(name if step.where is None else f"{name}[{_predicate(step.where)}]")
    return "/" + "/".join(levels)


def _predicate(predicate: Predicate) -> str:
    match predicate:
        case Compare(field, op, value):
            return f"{_field(field)} {op} {_value(value)}"
        case In(field, values):
            return f"{_field(field)} in ({', '.join(map(_value, values))})"
        case Like(field, pattern):
            return f"{_field(field)} like {_value(pattern)}"
        case Prefix(field, text):
            return f"{_field(field)} prefix {_value(text)}"
        case Exists(field):
            return f"{_field(field)} exists"
        case Not(part):
            return f"not ({_predicate(part)})"
        case All(parts):
            return " and ".join(f"({_predicate(part)})" for part in parts)
        case Some(parts):
            return " or ".join(f"({_predicate(part)})" for part in parts)


def _field(field: Field) -> str:
    return "`" + _escaped(field.name, "`") + "`" if field.quoted else field.name


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + _escaped(value, '"') + '"'
    return format(Decimal(str(value)), "f")  # never with an exponent, which the grammar does not have


def _escaped(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)
