"""A conditional write as data: named clauses and actions on one row.

The core gives the conditions and the changes; the DynamoDB adapter renders them as expressions, and
other stores evaluate them (``store.core.evaluate``). So models and simulations exercise the same
clauses as production, and a test must notice when any one of them is removed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Path = tuple[str | int, ...]
Row = dict[str, Any]
"""One item: str, int, bytes, bool, list, dict (str keys) and non-empty sets of str."""


class Equals(msgspec.Struct, frozen=True):
    """The stored value is there and equal."""

    path: Path
    value: Any


class Below(msgspec.Struct, frozen=True):
    """The stored number is there and smaller than ``value``."""

    path: Path
    value: int


class AtMost(msgspec.Struct, frozen=True):
    """The stored number is there and not larger than ``value``."""

    path: Path
    value: int


class AtLeast(msgspec.Struct, frozen=True):
    """The stored number is there and not smaller than ``value``."""

    path: Path
    value: int


class Absent(msgspec.Struct, frozen=True):
    """Nothing is stored under the path."""

    path: Path


class Present(msgspec.Struct, frozen=True):
    """Something is stored under the path."""

    path: Path


class Lacks(msgspec.Struct, frozen=True):
    """The stored set does not contain ``value`` (also when there is no set)."""

    path: Path
    value: str


class Either(msgspec.Struct, frozen=True):
    """One of the tests holds."""

    tests: tuple[Test, ...]


Test = Equals | Below | AtMost | AtLeast | Absent | Present | Lacks | Either


class Clause(msgspec.Struct, frozen=True):
    """One named condition. ``invariant`` is the one that breaks without it; ``says`` is the
    condition in words."""

    name: str
    invariant: str
    says: str
    test: Test


class Set(msgspec.Struct, frozen=True):
    """Store ``value``."""

    path: Path
    value: Any


class SetSum(msgspec.Struct, frozen=True):
    """Store the old value of ``source`` plus ``plus``."""

    path: Path
    source: Path
    plus: int


class Append(msgspec.Struct, frozen=True):
    """Append ``values`` to a stored list."""

    path: Path
    values: tuple[Any, ...]


class Include(msgspec.Struct, frozen=True):
    """Add strings to a stored set (which need not exist yet). Top-level attributes only."""

    path: Path
    values: frozenset[str]


class Exclude(msgspec.Struct, frozen=True):
    """Remove strings from a stored set."""

    path: Path
    values: frozenset[str]


class Drop(msgspec.Struct, frozen=True):
    """Remove an attribute, a map member or a list element. Indexes mean positions before the
    write."""

    path: Path


Action = Set | SetSum | Append | Include | Exclude | Drop


class Change(msgspec.Struct, frozen=True):
    """Change an existing row (the clauses must imply that it exists)."""

    key: str
    clauses: tuple[Clause, ...]
    actions: tuple[Action, ...]


class Insert(msgspec.Struct, frozen=True):
    """Write a whole row; by default only where there is none."""

    row: Row
    clauses: tuple[Clause, ...]

    @property
    def key(self) -> str:
        return str(self.row["key"])


class Erase(msgspec.Struct, frozen=True):
    """Delete a row under clauses."""

    key: str
    clauses: tuple[Clause, ...]


class Check(msgspec.Struct, frozen=True):
    """Require clauses of a row that a transaction does not change."""

    key: str
    clauses: tuple[Clause, ...]


Write = Change | Insert | Erase | Check


def new_row(invariant: str) -> Clause:
    """The clause of a first write: there is no row under this key."""
    return Clause("new", invariant, "the row does not exist yet", Absent(("key",)))


# -- the format of a row -----------------------------------------------------------------------------------------------
# A release understands every format up to ``KNOWN``. A row that needs more says so in its attribute
# ``format``, and the format of a row never falls. Code that does not know a row's format neither
# reads the row nor changes it (I22):
#
#     every conditional write     carries ``KNOWN_FORMAT``, besides its own clauses: the stores add
# it (``evaluate.clauses_of``)
#     a write that it refuses     raises NewerFormat, or OutcomeUnknown after an answer that was
# lost (``rows.require_known``)
#     parsing                     raises NewerFormat (``StoredRow.from_row``)
#
# What old code may safely ignore needs no new format: an attribute that is not declared stays in
# the row, because rows are changed by attribute, and a tail's entry keeps members that are not
# known (``delta.core.head.LaterEntry``). Everything else needs one: another meaning of an
# attribute, a new member of any other packed struct or of an obj that the row leads to. Then one
# release knows the format and a later one writes it, so that a rollback by one release is always
# possible (ADR 48).

FIRST: Final = 1
"""The format of a row without the attribute."""

KNOWN: Final = 1
"""The newest format that this release understands."""

FORMAT: Final = ("format",)
"""Where a row says its format. The write that first gives a row something which needs a format sets
it."""


KNOWN_FORMAT: Final = Clause(
    "known format",
    "I22",
    "no newer release has given the row a meaning that this one does not know",
    Either((Absent(FORMAT), AtMost(FORMAT, KNOWN))),
)
"""Of every write: the row, if there is one, is of no newer format than this release knows."""
