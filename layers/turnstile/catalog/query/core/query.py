"""Path queries as data, whether a predicate holds for a candidate, and queries as text.

Two rules decide every comparison: one with something absent is false (so ``not`` of it is true), and the literal decides
how values are compared: a number as numbers, a text as texts by code point.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

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
"""Attributes that a predicate may name, with the types of their literals. Every other name is that of a property."""

ATTRIBUTES: Final[dict[str, frozenset[str]]] = {
    NAMESPACE: frozenset({"name", "id", "kind", "comment", "created", "updated"}),
    TABLE: frozenset({"name", "id", "kind", "comment", "format", "location", "created", "managed"}),
}
"""The attributes that each kind of entry has. A namespace may have a property called ``format``."""

OTHERS: Final = frozenset({"name", "id", "kind", "format", "location", "created", "updated", "managed"})
"""The attributes of every other kind: tables and views of other formats."""

_FOLDED: Final = ("name", "id")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,30}\.[0-9]{1,30}")


@dataclass(frozen=True, slots=True)
class Field:
    """What is compared: an attribute or a property. If it is ``quoted`` it is a property."""

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
    """The part does not hold."""

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
class Candidate:
    """What a predicate is evaluated on: what is known of an entry so far. The rest is unknown, not absent.

    Attributes:
        kind: of the entry.
        attributes: by name; an attribute of the kind that is not in here is unknown, or absent when ``whole``.
        whole: whether all attributes are known.
        properties: None while they are unknown.
    """

    kind: str
    attributes: Mapping[str, Value]
    whole: bool = False
    properties: Mapping[str, str] | None = None

    def value(self, field: Field) -> tuple[bool, Value | None]:
        """Returns whether the value is known, and the value (None if it is absent)."""
        if not field.quoted and field.name in ATTRIBUTES.get(self.kind, OTHERS):
            value = self.attributes.get(field.name)
            return value is not None or self.whole, value
        if self.properties is None:
            return False, None
        return True, self.properties.get(field.name)


def holds(predicate: Predicate | None, candidate: Candidate) -> bool | None:
    """Whether ``predicate`` holds for ``candidate``; None when that depends on what is not known yet."""
    match predicate:
        case None:
            return True
        case Not(part):
            held = holds(part, candidate)
            return None if held is None else not held
        case All(parts):
            results = [holds(part, candidate) for part in parts]
            return False if False in results else None if None in results else True
        case Some(parts):
            results = [holds(part, candidate) for part in parts]
            return True if True in results else None if None in results else False
    known, value = candidate.value(predicate.field)
    if not known:
        return None
    return value is not None and _compared(predicate, value)


def _compared(test: Compare | In | Like | Prefix | Exists, value: Value) -> bool:
    folded = not test.field.quoted and test.field.name in _FOLDED
    match test:
        case Exists():
            return True
        case Compare(_, op, literal):
            return _ordered(value, op, literal, folded=folded)
        case In(_, literals):
            return any(_ordered(value, "=", literal, folded=folded) for literal in literals)
        case Like(_, pattern):
            return isinstance(value, str) and like(*_folded(value, pattern, folded=folded))
        case Prefix(_, text):
            if not isinstance(value, str):
                return False
            value, text = _folded(value, text, folded=folded)
            return value.startswith(text)


_OPERATORS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _ordered(value: Value, op: Operator, literal: Value, *, folded: bool) -> bool:
    left = _as(value, literal)
    if isinstance(left, str) and isinstance(literal, str):
        return _OPERATORS[op](*_folded(left, literal, folded=folded))
    if left is None or isinstance(left, str) or isinstance(literal, str):
        return False
    return _OPERATORS[op](left, literal)


def _as(value: Value, literal: Value) -> Value | None:
    """``value`` as a value of the literal's type; None when it cannot be one. Properties are texts."""
    if isinstance(literal, str):
        return value if isinstance(value, str) else None
    if isinstance(literal, bool):
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None
    if isinstance(value, str):
        if _INTEGER.fullmatch(value):
            return int(value)
        return float(value) if _DECIMAL.fullmatch(value) else None
    return None if isinstance(value, bool) else value


def _folded(left: str, right: str, *, folded: bool) -> tuple[str, str]:
    return (fold(left), fold(right)) if folded else (left, right)


def to_text(query: Query) -> str:
    """Returns the query as ``parser.parse`` reads it, in one spelling: equal queries have equal texts."""
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
