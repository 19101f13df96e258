"""Path queries as data, whether a predicate holds for a candidate, and queries as text.

Two rules decide every comparison: one with something absent is false (so ``not`` of it is true),
and the literal decides how values are compared: a number as numbers, a text as texts by code point.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from turnstile.catalog.core.entities import NAMESPACE, TABLE
from turnstile.catalog.core.paths import fold
from turnstile.catalog.query.core.like import like

Value = str | int | float | bool

TYPES: Final[dict[str, type[str | int | bool]]] = {
    **dict.fromkeys(("name", "id", "kind", "comment", "format", "location"), str),
    **dict.fromkeys(("created", "updated"), int),
    "managed": bool,
}
"""Attributes that a predicate may name, with the types of their literals. Every other name is that
of a property."""

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


class Field(msgspec.Struct, frozen=True):
    """The left side of a comparison: an attribute or a property. If it is ``quoted`` it is a
    property."""

    name: str
    quoted: bool = False


Operator = Literal["=", "!=", "<", "<=", ">", ">="]


class Compare(msgspec.Struct, frozen=True):
    """``region = "eu"``."""

    field: Field
    op: Operator
    value: Value


class In(msgspec.Struct, frozen=True):
    """``region in ("eu", "us")``."""

    field: Field
    values: tuple[Value, ...]


class Like(msgspec.Struct, frozen=True):
    """``name like "ord%"``: ``%`` any characters, ``_`` one, a backslash takes the next one as it
    is."""

    field: Field
    pattern: str


class Prefix(msgspec.Struct, frozen=True):
    """``name prefix "ord"``."""

    field: Field
    text: str


class Exists(msgspec.Struct, frozen=True):
    """``region exists``."""

    field: Field


class Not(msgspec.Struct, frozen=True):
    """``not``: the part does not hold."""

    part: Predicate


class All(msgspec.Struct, frozen=True):
    """``and``: every part holds."""

    parts: tuple[Predicate, ...]


class Some(msgspec.Struct, frozen=True):
    """``or``: a part holds."""

    parts: tuple[Predicate, ...]


Predicate = Compare | In | Like | Prefix | Exists | Not | All | Some


class Step(msgspec.Struct, frozen=True):
    """One level: children called ``name`` (None: any) for which ``where`` holds (None: always)."""

    name: str | None = None
    where: Predicate | None = None


class Query(msgspec.Struct, frozen=True):
    """A catalog by name, and at least one level below it. ``files``: it asks for the files of the
    tables that the levels lead to, of which this predicate in SQL may hold (empty: all of them);
    the planner parses it.
    """

    catalog: str
    steps: tuple[Step, ...]
    files: str | None = None


class Candidate(msgspec.Struct, frozen=True):
    """The known facts about an entry, on which a predicate is evaluated. An attribute of its kind
    that is not among ``attributes`` is unknown, or absent when ``whole``; ``properties`` are None
    while they are unknown.
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
        return (False, None) if self.properties is None else (True, self.properties.get(field.name))


def holds(predicate: Predicate | None, candidate: Candidate) -> bool | None:
    """Whether ``predicate`` holds for ``candidate``; None when that depends on unknown facts."""
    match predicate:
        case None:
            return True
        case Not(part):
            held = holds(part, candidate)
            return None if held is None else not held
        case All(parts) | Some(parts):
            results = {holds(part, candidate) for part in parts}
            decisive = isinstance(predicate, Some)
            return decisive if decisive in results else None if None in results else not decisive
    known, value = candidate.value(predicate.field)
    if not known:
        return None
    return value is not None and _compare(predicate, value)


def _compare(test: Compare | In | Like | Prefix | Exists, value: Value) -> bool:
    folded = not test.field.quoted and test.field.name in _FOLDED
    match test:
        case Exists():
            return True
        case Compare(_, op, literal):
            return _is_ordered(value, op, literal, folded=folded)
        case In(_, literals):
            return any(_is_ordered(value, "=", literal, folded=folded) for literal in literals)
        case Like(_, pattern):
            return isinstance(value, str) and like(*_fold_name(value, pattern, folded=folded))
        case Prefix(_, text):
            return isinstance(value, str) and str.startswith(*_fold_name(value, text, folded=folded))


_OPERATORS: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _is_ordered(value: Value, op: Operator, literal: Value, *, folded: bool) -> bool:
    if isinstance(literal, str):
        return isinstance(value, str) and _OPERATORS[op](*_fold_name(value, literal, folded=folded))
    left = _parse_property(value, literal) if isinstance(value, str) else value
    return left is not None and isinstance(left, bool) == isinstance(literal, bool) and _OPERATORS[op](left, literal)


def _parse_property(text: str, literal: float) -> float | None:
    """A property, which is a text, as a value of the literal's type; None when it cannot be one."""
    if isinstance(literal, bool):
        return {"true": True, "false": False}.get(text.lower())
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else None


def _fold_name(left: str, right: str, *, folded: bool) -> tuple[str, str]:
    return (fold(left), fold(right)) if folded else (left, right)


def to_text(query: Query) -> str:
    """Returns the query as ``parser.parse`` reads it, in one spelling: equal queries have equal
    texts."""
    levels = [query.catalog]
    for step in query.steps:
        levels.append(f"{step.name or ''}[{_predicate(step.where)}]" if step.where else step.name or "*")
    if query.files is not None:
        levels.append(f"files[{query.files}]")
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
    return "`" + _escape(field.name, "`") + "`" if field.quoted else field.name


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + _escape(value, '"') + '"'
    return format(Decimal(str(value)), "f")  # never with an exponent, which the grammar does not have


def _escape(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)
