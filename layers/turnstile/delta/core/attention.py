"""The work list of sweeps: the tables to look at again, and the progress of a pass over all tables.
One row of a realm (I11).

The stream names every HEAD that has something to publish. The remaining tables are found in three
ways:

* A table that was named and could not be published further is *noted* here by the process that
  tried. Every sweep tries it again.
* A look at all tables is requested: *wanted* is raised. Sweeps go on with one *full pass* until it
  is complete.
* All other tables are looked at in *parts*, a bounded number of rows a sweep; ``after`` is the
  position.

So the reads of a sweep do not grow with the number of tables while all is well. The row holds
hints: a HEAD alone says which commits to publish, and a lost or doubled note only delays or repeats
work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Action, Change, Clause, Exclude, Include, Insert, Present, Set, SetSum, new_row

RELEASES_MAX: Final = 20
"""Releases that are remembered: the newest."""

NOTES_MAX: Final = 500
"""The limit of notes in the row, for writers that read it first; tables beyond the limit are left
to a full pass."""


class Attention(StoredRow, frozen=True):
    """The row.

    Attributes:
        noted: tables to try again, each as ``note_of``.
        after: the key up to which parts have been looked at; empty: the next one begins at the
            first row.
        wanted: how often a full pass was asked for.
        done: up to which of these requests a full pass has been through.
        pass_for: the request that the full pass serves that was begun last.
        pass_after: the key up to which it has come.
        releases: versions of the code that swept this store, in the order of their first sweep,
            each
            as ``<version> <day>``. Of the sweeper's row only.
    """

    kind: ClassVar[str] = "attention"

    after: str
    wanted: int
    done: int
    pass_for: int
    pass_after: str
    noted: frozenset[str] = frozenset()
    releases: tuple[str, ...] = ()

    def swept_by(self) -> tuple[Release, ...]:
        """The versions in ``releases``."""
        parts = (one.partition(" ") for one in self.releases)
        return tuple(Release(version, day) for version, _, day in parts)

    def tables(self) -> Mapping[str, frozenset[str]]:
        """The noted tables, each with its notes."""
        notes: dict[str, set[str]] = {}
        for note in self.noted:
            notes.setdefault(note.partition(" ")[0], set()).add(note)
        return {table_id: frozenset(notes[table_id]) for table_id in sorted(notes)}


class Release(msgspec.Struct, frozen=True):
    """A version of the code that swept the store, and the day of its first sweep."""

    version: str
    since: str


class Part(msgspec.Struct, frozen=True):
    """The rows of a sweep besides the noted tables: rows behind ``after``; all of them as part of a
    full pass that serves ``request``, or a bounded number (``request`` 0)."""

    after: str
    request: int = 0

    @property
    def is_full(self) -> bool:
        return self.request > 0


class Seen(msgspec.Struct, frozen=True):
    """The result of a sweep: it looked up to the key ``last`` (empty: to the end). ``unsettled``
    are the notes of tables that it could not publish, noted before or not."""

    last: str
    unsettled: frozenset[str]


def note_of(table_id: str, mark: str) -> str:
    """Returns the note of a table. ``mark``: the table's latest version when publishing failed, or
    a unique token if the version was not read. A note that is written while another one of the
    table is being removed must stay.
    """
    return f"{table_id} {mark}"


def first(key: str) -> Insert:
    """The content of a missing row: nothing is known of the present tables, so a full pass is
    wanted."""
    return Insert(Attention(key, after="", wanted=1, done=0, pass_for=0, pass_after="").to_row(), (new_row("I11"),))


def note(attention: Attention, notes: Iterable[str]) -> Change | None:
    """Adds notes to the row that was read as ``attention``; asks for a full pass where they are too
    many. None: it has them."""
    new = frozenset(notes) - attention.noted
    if not new:
        return None
    if len(attention.noted) + len(new) > NOTES_MAX:
        return want(attention.key)
    return Change(attention.key, (_there(),), (Include(("noted",), new),))


def want(key: str) -> Change:
    """Asks for a full pass."""
    return Change(key, (_there(),), (SetSum(("wanted",), ("wanted",), 1),))


def add_release(attention: Attention, version: str, day: str) -> Change | None:
    """Adds the version of the code that sweeps, with the day of its first sweep; None where the row
    has it. Of two that are added at once one may be lost; its next process adds it again."""
    if any(one.partition(" ")[0] == version for one in attention.releases):
        return None
    releases = (*attention.releases, f"{version} {day}")[-RELEASES_MAX:]
    return Change(attention.key, (_there(),), (Set(("releases",), list(releases)),))


def next_part(attention: Attention, after: str | None) -> Part:
    """Decides where a sweep looks. ``after``: up to where this process has looked; None if it has
    not.

    A request that comes while a full pass is under way gets one of its own: the rows it is about
    may be behind it.
    """
    if attention.pass_for > attention.done:
        return Part(attention.pass_after, attention.pass_for)
    if attention.wanted > attention.done:
        return Part("", attention.wanted)
    return Part(attention.after if after is None else after)


def settle(attention: Attention, part: Part, seen: Seen, *, keep_place: bool) -> tuple[Change, ...]:
    """Returns the changes of the row after a sweep that began with ``attention``, in their order.

    A note goes only if it was read before its table was published, so that one of a later failure
    stays; of several of a table that is unsettled one stays. ``keep_place``: whether the place of a
    part is worth a write.
    """
    unsettled = {each.partition(" ")[0]: each for each in seen.unsettled}
    added = set[str]()
    removed = set[str]()
    for table_id, notes in attention.tables().items():
        removed |= notes if table_id not in unsettled else notes - {max(notes)}
    for table_id, each in unsettled.items():
        if table_id not in attention.tables():
            added.add(each)
    actions: list[Action] = []
    if part.is_full:
        if not seen.last:
            actions.append(Set(("done",), part.request))
        actions += [Set(("pass_for",), part.request), Set(("pass_after",), seen.last)]
    elif keep_place and seen.last != attention.after:
        actions.append(Set(("after",), seen.last))
    if added and len(attention.noted) - len(removed) + len(added) > NOTES_MAX:
        actions.append(SetSum(("wanted",), ("wanted",), 1))
        added = set()
    if added:
        actions.append(Include(("noted",), frozenset(added)))
    leaving = (Exclude(("noted",), frozenset(removed)),) if removed else ()
    if added and leaving:  # a write has one action a path; what is added comes first
        return (_change(attention, actions), _change(attention, leaving))
    return (_change(attention, (*actions, *leaving)),) if actions or leaving else ()


def _change(attention: Attention, actions: Sequence[Action]) -> Change:
    return Change(attention.key, (_there(),), tuple(actions))


def _there() -> Clause:
    return Clause("there", "I11", "the row of attention exists", Present(("key",)))
