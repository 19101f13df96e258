"""Expectations of a table: conditions that its rows have to satisfy before a branch is promoted.
They are properties of the table. Pure.

    turnstile.expect.positive = amount >= 0                     every row satisfies the predicate
    turnstile.expect.filled = null_fraction(email) < 0.01       of all rows of the table
    turnstile.expect.size = row_count between 1 and 1000000
    turnstile.expect.key = unique(id)
    turnstile.expect.positive.unchecked = allow                 where it cannot be checked; else it
                                                                refuses
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from turnstile.store.core.errors import InvalidRequest

PREFIX: Final = "turnstile.expect."
MAX_EXPECTATIONS: Final = 50
"""Of one table."""
_UNCHECKED: Final = ".unchecked"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_COUNT: Final = re.compile(rf"row_count\s*(<=|>=|<|>|=)\s*{_NUMBER}", re.IGNORECASE)
_BETWEEN: Final = re.compile(rf"row_count\s+between\s+{_NUMBER}\s+and\s+{_NUMBER}", re.IGNORECASE)
_FRACTION: Final = re.compile(rf"null_fraction\s*\(([^()]+)\)\s*(<=|<|=)\s*{_NUMBER}", re.IGNORECASE)
_UNIQUE: Final = re.compile(r"unique\s*\(([^()]+)\)", re.IGNORECASE)
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


class RowCount(msgspec.Struct, frozen=True):
    """The number of rows compares with each of these bounds."""

    bounds: tuple[tuple[str, float], ...]

    def holds(self, rows: int) -> bool:
        """Whether a table with so many rows satisfies it."""
        return all(_COMPARE[sign](rows, bound) for sign, bound in self.bounds)


class NullFraction(msgspec.Struct, frozen=True):
    """The part of the rows in which ``column`` is null; of a table without rows it is 0."""

    column: str
    sign: str
    bound: float

    def holds(self, nulls: int, rows: int) -> bool:
        """Whether a table satisfies it in which ``nulls`` of ``rows`` rows have no value."""
        return _COMPARE[self.sign](nulls / rows if rows else 0.0, self.bound)


class Unique(msgspec.Struct, frozen=True):
    """No two rows have the same values in ``columns``; rows with a null among them do not count."""

    columns: tuple[str, ...]


class EveryRow(msgspec.Struct, frozen=True):
    """Every row satisfies ``predicate``, a text of SQL: null is no satisfaction."""

    predicate: str


Condition = RowCount | NullFraction | Unique | EveryRow


class Expectation(msgspec.Struct, frozen=True):
    """An expectation of a table. ``unchecked``: whether a promotion refuses or allows it where it
    cannot be checked."""

    name: str
    text: str
    condition: Condition
    unchecked: Literal["refuse", "allow"] = "refuse"


def expectations_of(properties: Mapping[str, str]) -> list[Expectation]:
    """Returns the expectations among the properties of a table, by name. Raises InvalidRequest for
    a property that is none."""
    given = {key.removeprefix(PREFIX): value for key, value in properties.items() if key.startswith(PREFIX)}
    names = sorted(key for key in given if not key.endswith(_UNCHECKED))
    if len(names) > MAX_EXPECTATIONS:
        problem = f"the table has {len(names)} expectations"
        raise InvalidRequest(problem, field="branch", remedy=f"keep {MAX_EXPECTATIONS}")
    for key in given:
        name = key.removesuffix(_UNCHECKED)
        if not _NAME.fullmatch(name) or name not in given:
            raise _refusal(key, "is no expectation", "name it with letters, digits, _ and -")
    return [
        Expectation(name, given[name], _condition(given[name]), _policy(name, given.get(name + _UNCHECKED, "refuse")))
        for name in names
    ]


def _policy(name: str, text: str) -> Literal["refuse", "allow"]:
    if text not in ("refuse", "allow"):
        raise _refusal(name + _UNCHECKED, f"is {text[:50]!r}", "set it to refuse or allow")
    return "allow" if text == "allow" else "refuse"


def _condition(text: str) -> Condition:
    text = text.strip()
    if found := _BETWEEN.fullmatch(text):
        return RowCount(((">=", float(found[1])), ("<=", float(found[2]))))
    if found := _COUNT.fullmatch(text):
        return RowCount(((found[1], float(found[2])),))
    if found := _FRACTION.fullmatch(text):
        return NullFraction(found[1].strip(), found[2], float(found[3]))
    if found := _UNIQUE.fullmatch(text):
        return Unique(tuple(name.strip() for name in found[1].split(",")))
    return EveryRow(text)


def _refusal(key: str, problem: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"property '{PREFIX}{key[:100]}' {problem}", field="branch", remedy=remedy)
