"""Conditional writes evaluated on rows in memory: a function with the semantics of DynamoDB's
rendered expressions.

Stores without expressions of their own use it (the SQLite adapter, the fake of the tests), so one
evaluation of clauses and actions is checked by the contract suite against DynamoDB and serves
everywhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from turnstile.store.core import writes
from turnstile.store.core.writes import KNOWN_FORMAT, Action, Change, Clause, Erase, Insert, Path, Row, Test, Write

_MISSING: Final = object()
_CONTAINERS: Final = (dict, list, set, frozenset, tuple)


def clone(value: Any) -> Any:
    """A copy of a row or of a part of it, as ``copy.deepcopy`` makes it, in a quarter of the
    time."""
    kind = type(value)
    if kind is dict:
        return {name: clone(member) if type(member) in _CONTAINERS else member for name, member in value.items()}
    if kind is list:
        return [clone(member) if type(member) in _CONTAINERS else member for member in value]
    return set(value) if kind is set else copy.deepcopy(value)


def clauses_of(write: Write) -> tuple[Clause, ...]:
    """Returns the clauses under which a store applies ``write``: its own, and that the row's format
    is known."""
    return (*write.clauses, KNOWN_FORMAT)


def accepts(row: Row | None, write: Write) -> bool:
    """Whether every clause of ``write`` holds on ``row`` (None: there is no row), and its format is
    known (I22)."""
    present = row or {}
    return all(holds(present, clause.test) for clause in clauses_of(write))


def written(row: Row | None, write: Write) -> Row | None:
    """The row after an accepted ``write``, sharing nothing with ``row``; None where no row is
    left."""
    match write:
        case Change(actions=actions):
            if row is None:
                raise ValueError(f"a change of {write.key} needs a clause that implies the row")
            return applied(row, actions)
        case Insert(row=new):
            return dict(clone(new))
        case Erase():
            return None
    return row


def holds(row: Row, test: Test) -> bool:
    """Whether ``test`` holds on ``row`` (an empty dict when there is no row)."""
    match test:
        case writes.Equals(path, value):
            return bool(_at(row, path) == value)
        case writes.Below(path, value):
            number = _number(row, path)
            return number is not None and number < value
        case writes.AtMost(path, value):
            number = _number(row, path)
            return number is not None and number <= value
        case writes.AtLeast(path, value):
            number = _number(row, path)
            return number is not None and number >= value
        case writes.Absent(path):
            return _at(row, path) is _MISSING
        case writes.Present(path):
            return _at(row, path) is not _MISSING
        case writes.Lacks(path, value):
            stored = _at(row, path)
            return stored is _MISSING or value not in stored
        case writes.Either(tests):
            return any(holds(row, alternative) for alternative in tests)


def applied(row: Row, actions: Sequence[Action]) -> Row:
    """A copy of ``row`` after ``actions``, each of which sees the values from before the write."""
    new: Row = clone(row)
    drops: list[Path] = []
    for action in actions:
        match action:
            case writes.Set(path, value):
                _at(new, path[:-1])[path[-1]] = clone(value)
            case writes.SetSum(path, source, plus):
                _at(new, path[:-1])[path[-1]] = _at(row, source) + plus
            case writes.Append(path, values):
                _at(new, path[:-1])[path[-1]] = [*_at(row, path), *values]
            case writes.Include(path, values):
                new[str(path[0])] = set(row.get(str(path[0]), ())) | values
            case writes.Exclude(path, values):
                left = set(row.get(str(path[0]), ())) - values
                if left:
                    new[str(path[0])] = left
                else:
                    new.pop(str(path[0]), None)
            case writes.Drop(path):
                drops.append(path)
    # Indexes mean positions before the write, so the greatest goes first.
    for path in sorted(drops, key=lambda path: path[-1] if isinstance(path[-1], int) else 0, reverse=True):
        parent = _at(new, path[:-1])
        if isinstance(parent, list):
            parent.pop(int(path[-1]))
        elif parent is not _MISSING:
            parent.pop(path[-1], None)
    return new


def _at(row: Any, path: Path) -> Any:
    for step in path:
        try:
            row = row[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return row


def _number(row: Row, path: Path) -> int | None:
    value = _at(row, path)
    return value if isinstance(value, int) else None
