"""The names that a predicate can hold for at all, so that only their part of the index is read.

An upper bound: every name for which the predicate holds is in reach, others may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

import msgspec

from turnstile.catalog.core.paths import fold
from turnstile.catalog.query.core.like import fixed_start
from turnstile.catalog.query.core.query import All, Compare, Field, In, Like, Predicate, Prefix, Some, Step

_NEXT: Final = "\x01"  # sorts after a name itself and before every longer one
_PAST: Final = "\U0010ffff"  # sorts after everything that begins with a prefix


class Reach(msgspec.Struct, frozen=True):
    """Folded names: exactly the names in ``only``; if that is None, all from ``start`` on and
    before ``stop``."""

    start: str = ""
    stop: str | None = None
    only: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        if self.only is not None:
            return name in self.only
        return self.start <= name and (self.stop is None or name < self.stop)

    def both(self, other: Reach) -> Reach:
        """Returns the names in this one and in ``other``."""
        if self.only is not None:
            return Reach(only=frozenset(name for name in self.only if name in other))
        if other.only is not None:
            return other.both(self)
        stops = [stop for stop in (self.stop, other.stop) if stop is not None]
        return Reach(max(self.start, other.start), min(stops, default=None))

    def either(self, other: Reach) -> Reach:
        """Returns at least the names in this one and in ``other``."""
        if self.only is not None and other.only is not None:
            return Reach(only=self.only | other.only)
        left = self._span()
        right = other._span()
        if left is None or right is None:
            return other if left is None else self
        stop = None if left.stop is None or right.stop is None else max(left.stop, right.stop)
        return Reach(min(left.start, right.start), stop)

    def _span(self) -> Reach | None:
        """The smallest range around it; None when it is empty."""
        if self.only is None:
            return self
        return Reach(min(self.only), max(self.only) + _NEXT) if self.only else None


EVERYTHING: Final = Reach()


def reach_of(step: Step) -> Reach:
    """Returns the names that a level can lead to."""
    within = _reach(step.where)
    return within if step.name is None else within.both(_names([step.name]))


def _reach(predicate: Predicate | None) -> Reach:
    match predicate:
        case All(parts):
            return reduce(Reach.both, map(_reach, parts))
        case Some(parts):
            return reduce(Reach.either, map(_reach, parts))
        case Compare(Field("name", False), op, str(value)):
            return _reach_of_comparison(op, fold(value))
        case In(Field("name", False), values):
            return _names(value for value in values if isinstance(value, str))
        case Like(Field("name", False), pattern):
            return _reach_of_prefix(fixed_start(pattern))
        case Prefix(Field("name", False), text):
            return _reach_of_prefix(text)
    return EVERYTHING


def _names(names: Iterable[str]) -> Reach:
    return Reach(only=frozenset(fold(name) for name in names))


def _reach_of_prefix(text: str) -> Reach:
    return Reach(fold(text), fold(text) + _PAST) if text else EVERYTHING


def _reach_of_comparison(op: str, name: str) -> Reach:
    reaches = {
        "=": _names([name]),
        "<": Reach(stop=name),
        "<=": Reach(stop=name + _NEXT),
        ">": Reach(start=name + _NEXT),
        ">=": Reach(start=name),
    }
    return reaches.get(op, EVERYTHING)
