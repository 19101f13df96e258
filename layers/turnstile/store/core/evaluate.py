"""Conditional writes evaluated on rows in memory: a function with the semantics of DynamoDB's
rendered expressions.

Stores without expressions of their own use it (the SQLite adapter, the fake of the tests), so one
evaluation of clauses and actions is checked by the contract suite against DynamoDB and serves
everywhere else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
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
    if kind is set:
        return set(value)
    return copy.deepcopy(value) if kind in _CONTAINERS else value


def clauses_of(write: Write) -> tuple[Clause, ...]:
    """Returns the clauses under which a store applies ``write``: its own, and that the row's format
    is known."""
    return (*write.clauses, KNOWN_FORMAT)


def accepts(row: Row | None, write: Write) -> bool:
    """Whether every clause of ``write`` holds on ``row`` (None: there is no row), and its format is
    known (I22)."""
    present = row or {}
    for clause in clauses_of(write):  # a loop, as every commit waits for it: a generator takes twice as long
        test = clause.test
        if not _HOLDS[type(test)](present, test):
            return False
    return True


def row_after(row: Row | None, write: Write) -> Row | None:
    """The row after an accepted ``write``; None where no row is left. ``row`` stays as it is, and
    members that the write does not name are in both: rows are never changed in place."""
    match write:
        case Change(actions=actions):
            if row is None:
                raise ValueError(f"a change of {write.key} needs a clause that implies the row")
            return apply_actions(row, actions)
        case Insert(row=new):
            return dict(clone(new))
        case Erase():
            return None
    return row


def holds(row: Row, test: Test) -> bool:
    """Whether ``test`` holds on ``row`` (an empty dict when there is no row)."""
    return _HOLDS[type(test)](row, test)


def _below(row: Row, test: writes.Below) -> bool:
    number = _number(row, test.path)
    return number is not None and number < test.value


def _at_most(row: Row, test: writes.AtMost) -> bool:
    number = _number(row, test.path)
    return number is not None and number <= test.value


def _at_least(row: Row, test: writes.AtLeast) -> bool:
    number = _number(row, test.path)
    return number is not None and number >= test.value


def _lacks(row: Row, test: writes.Lacks) -> bool:
    stored = _at(row, test.path)
    return stored is _MISSING or test.value not in stored


def _either(row: Row, test: writes.Either) -> bool:
    for alternative in test.tests:  # noqa: SIM110 - as in ``accepts``
        if _HOLDS[type(alternative)](row, alternative):
            return True
    return False


_HOLDS: Final[dict[type[Any], Callable[[Row, Any], bool]]] = {
    writes.Equals: lambda row, test: bool(_at(row, test.path) == test.value),
    writes.Below: _below,
    writes.AtMost: _at_most,
    writes.AtLeast: _at_least,
    writes.Absent: lambda row, test: _at(row, test.path) is _MISSING,
    writes.Present: lambda row, test: _at(row, test.path) is not _MISSING,
    writes.Lacks: _lacks,
    writes.Either: _either,
}
"""How each kind of test is evaluated."""


def apply_actions(row: Row, actions: Sequence[Action]) -> Row:
    """The row after ``actions``, each of which sees the values from before the write. Members that
    no action names are those of ``row``, which itself stays as it is."""
    new: Row = dict(row)
    drops: list[Path] = []
    for action in actions:
        match action:
            case writes.Set(path, value):
                _place(new, row, path)[path[-1]] = clone(value) if type(value) in _CONTAINERS else value
            case writes.SetSum(path, source, plus):
                _place(new, row, path)[path[-1]] = _at(row, source) + plus
            case writes.Append(path, values):
                _place(new, row, path)[path[-1]] = [*_at(row, path), *values]
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
        parent = _place(new, row, path)
        if isinstance(parent, list):
            parent.pop(int(path[-1]))
        elif parent is not _MISSING:
            parent.pop(path[-1], None)
    return new


def _place(new: Row, row: Row, path: Path) -> Any:
    """The container in ``new`` that the end of ``path`` is in. It is not one of ``row``: a member
    is copied before the first change in it."""
    if len(path) == 1:
        return new
    first = str(path[0])
    if first in row and new.get(first) is row[first]:
        new[first] = clone(row[first])
    return _at(new, path[:-1])


def _at(row: Any, path: Path) -> Any:
    if len(path) == 1 and type(row) is dict:
        return row.get(path[0], _MISSING)
    for step in path:
        try:
            row = row[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return row


def _number(row: Row, path: Path) -> int | None:
    value = _at(row, path)
    return value if isinstance(value, int) else None
