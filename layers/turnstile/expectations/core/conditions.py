"""Expectations: conditions that the rows of a table have to satisfy. They are properties of the
table, or of a namespace above it. Pure.

    turnstile.expect.positive = amount >= 0                     every row satisfies the predicate
    turnstile.expect.filled = null_fraction(email) < 0.01       of all rows of the table
    turnstile.expect.size = row_count between 1 and 1000000
    turnstile.expect.key = unique(id)
    turnstile.expect.fresh = freshness(ts) < interval 1 day     the age of the newest value
    turnstile.expect.positive.on = commit                       each commit is checked, too, and not
                                                                only a promotion
    turnstile.expect.positive.unchecked = allow                 where it cannot be checked; else it
                                                                refuses
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from turnstile.delta.core.content import EXPECTATION as PREFIX
from turnstile.delta.core.content import EXPECTATION_STEM as STEM
from turnstile.delta.core.content import ON_COMMIT as _ON
from turnstile.delta.core.metadata import interval_ms
from turnstile.store.core.errors import InvalidRequest

__all__ = [
    "MAX_EXPECTATIONS", "PREFIX", "Condition", "EveryRow", "Expectation", "Freshness", "NotEvaluated", "NullFraction",
    "RowCount", "Unique", "expectations_of", "read_expectations",
]  # fmt: skip

MAX_EXPECTATIONS: Final = 50
"""Of one table, or of one namespace."""
_UNCHECKED: Final = ".unchecked"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_COUNT: Final = re.compile(rf"row_count\s*(<=|>=|<|>|=)\s*{_NUMBER}", re.IGNORECASE)
_BETWEEN: Final = re.compile(rf"row_count\s+between\s+{_NUMBER}\s+and\s+{_NUMBER}", re.IGNORECASE)
_FRACTION: Final = re.compile(rf"null_fraction\s*\(([^()]+)\)\s*(<=|<|=)\s*{_NUMBER}", re.IGNORECASE)
_FRESHNESS: Final = re.compile(r"freshness\s*\(([^()]+)\)\s*(<=|<)\s*(interval\s.+)", re.IGNORECASE)
_UNIQUE: Final = re.compile(r"unique\s*\(([^()]+)\)", re.IGNORECASE)
_FORMS: Final = {
    "unique(": "unique(id), or unique(a, b)",
    "null_fraction(": "null_fraction(email) < 0.01, or <= or =",
    "freshness(": "freshness(ts) < interval 1 day, or <=; weeks, days, hours, minutes or seconds",
}
"""Beginnings of conditions that no predicate has, with their forms."""
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


class NotEvaluated(Exception):
    """A condition, or a part of it, is not evaluated. The text says which, or why."""


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


class Freshness(msgspec.Struct, frozen=True):
    """The newest value of ``column`` is less than ``most_ms`` old; with the sign ``<=`` at most. A
    table without values does not satisfy it."""

    column: str
    sign: str
    most_ms: int

    def holds(self, age_ms: float) -> bool:
        """Whether a newest value of this age satisfies it."""
        return _COMPARE[self.sign](age_ms, self.most_ms)


class EveryRow(msgspec.Struct, frozen=True):
    """Every row satisfies ``predicate``, a text of SQL: null is no satisfaction."""

    predicate: str


Condition = RowCount | NullFraction | Unique | Freshness | EveryRow


class Expectation(msgspec.Struct, frozen=True):
    """An expectation of a table. ``unchecked``: whether a promotion, or a commit, is refused or
    allowed where it cannot be checked; ``at_commit``: whether each commit is checked, too."""

    name: str
    text: str
    condition: Condition
    unchecked: Literal["refuse", "allow"] = "refuse"
    at_commit: bool = False


def read_expectations(properties: Mapping[str, str]) -> tuple[list[Expectation], list[InvalidRequest]]:
    """Returns the expectations among properties, by name, and a refusal for each property that is
    none."""
    given = {key.removeprefix(PREFIX): value for key, value in properties.items() if key.startswith(PREFIX)}
    names = sorted(key for key in given if not key.endswith((_UNCHECKED, _ON)))
    if len(names) > MAX_EXPECTATIONS:
        problem = f"there are {len(names)} expectations"
        remedy = f"a table or namespace has {MAX_EXPECTATIONS} at most"
        return [], [InvalidRequest(problem, field="properties", remedy=remedy)]
    found: list[Expectation] = []
    refusals = [
        _refusal("", f"is misspelled: {key[:100]!r}", f"write {PREFIX}<name>") for key in _similar_names(properties)
    ]
    for key in sorted(given):
        name = key.removesuffix(_UNCHECKED).removesuffix(_ON)
        if not _NAME.fullmatch(name):
            refusals.append(_refusal(key, "is no expectation", "name it with letters, digits, _ and -"))
        elif name not in given:
            refusals.append(_refusal(key, f"belongs to no expectation '{name}'", f"set {PREFIX}{name}, too"))
        elif key == name:
            try:
                found.append(_expectation(name, given))
            except InvalidRequest as error:
                refusals.append(error)
    return found, refusals


def expectations_of(properties: Mapping[str, str]) -> list[Expectation]:
    """Returns the expectations among properties, by name. Raises InvalidRequest for a property that
    is none."""
    found, refusals = read_expectations(properties)
    if refusals:
        raise refusals[0]
    return found


def _similar_names(properties: Mapping[str, str]) -> list[str]:
    """The properties with names that look like an expectation's, with a mistake."""
    return [key for key in properties if key.lower().startswith(STEM) and not key.startswith(PREFIX)]


def _expectation(name: str, given: Mapping[str, str]) -> Expectation:
    condition = _condition(name, given[name])
    unchecked = given.get(name + _UNCHECKED, "refuse")
    on = given.get(name + _ON, "promote")
    if unchecked not in ("refuse", "allow"):
        raise _refusal(name + _UNCHECKED, f"is {unchecked[:50]!r}", "set it to refuse or allow")
    if on not in ("promote", "commit"):
        raise _refusal(name + _ON, f"is {on[:50]!r}", "set it to promote or commit")
    if on == "commit" and not isinstance(condition, EveryRow):
        problem = f"is commit, and '{given[name][:100]}' is about the whole table"
        raise _refusal(name + _ON, problem, f"remove '{PREFIX}{name}{_ON}': promotions of branches check it")
    return Expectation(
        name, given[name], condition, "allow" if unchecked == "allow" else "refuse", at_commit=on == "commit"
    )


def _condition(name: str, text: str) -> Condition:
    text = text.strip()
    if found := _BETWEEN.fullmatch(text):
        if float(found[1]) > float(found[2]):
            raise _refusal(name, f"is {text!r}, which no table satisfies", "write the smaller number first")
        return RowCount(((">=", float(found[1])), ("<=", float(found[2]))))
    if found := _COUNT.fullmatch(text):
        return RowCount(((found[1], float(found[2])),))
    if found := _FRACTION.fullmatch(text):
        if float(found[3]) > 1:
            raise _refusal(name, f"is {text!r}, which every table satisfies", "write a number from 0 to 1")
        return NullFraction(found[1].strip(), found[2], float(found[3]))
    if found := _UNIQUE.fullmatch(text):
        return Unique(tuple(name.strip() for name in found[1].split(",")))
    if found := _FRESHNESS.fullmatch(text):
        most = interval_ms(found[3])
        if most is None:
            raise _refusal(name, f"has no interval: {found[3][:50]!r}", "write interval 1 day, or 12 hours")
        return Freshness(found[1].strip(), found[2], most)
    if form := next((form for start, form in _FORMS.items() if text.lower().startswith(start)), None):
        raise _refusal(name, f"is {text[:100]!r}", f"write {form}")
    if not text:
        raise _refusal(name, "is empty", "write a predicate, such as amount >= 0")
    return EveryRow(text)


def _refusal(key: str, problem: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"property '{PREFIX}{key[:100]}' {problem}", field="properties", remedy=remedy)
