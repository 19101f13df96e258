"""A member's cache of granules: the rows as it last read them, and the reads that would complete
them. Pure.

A granule leaves its owner only in a transaction that raises the owner's ``moves`` and adds an entry
to its log. So a read of the members' rows shows which entries are missing, for any number of
granules. While ``moves`` of a member equals the number of the last entry read, every granule cached
as its own is still its own. If an entry is gone (entries live for an hour), every granule of that
member is read again.

Epochs order the reads: an entry or a row of an earlier epoch changes nothing. An entry does not
clear a pending re-read of a granule: its new owner may already have passed the granule on in an
entry that was skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from turnstile.fleet.core.rows import GranuleRow, MemberRow, MovesRow

PROBED: Final = 8
"""Entries that are read at once from the log of a member that has left, because the end of that log
is unknown."""

Entry = tuple[str, int]
"""An entry of a log: the member's id, and the number."""


class Granules:
    """The granules of some roles. ``get`` is safe for threads, the rest is for one.

    Args:
        me: the id of this member.
        names: of all granules. None has been read.
        key_of: the key of a granule's row, by its name.
    """

    def __init__(
        self, me: str = "", names: Iterable[str] = (), key_of: Callable[[str], str] = lambda name: name
    ) -> None:
        self._me = me
        self._key_of = key_of
        self._rows: dict[str, GranuleRow] = {}
        self._owned: dict[str, dict[str, GranuleRow]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._unread = dict.fromkeys(names)
        self._names = frozenset(self._unread)
        self._dropped = set[str]()
        self._changes = -1
        self._moves = dict[str, int]()
        self._behind = dict[str, int | None]()
        self._gaps = set[str]()
        self._begun = False

    def get(self, name: str) -> GranuleRow | None:
        """Returns a granule as it was read last; None for one that was never read, or is being
        given away."""
        return self._rows.get(name)

    def all(self) -> list[GranuleRow]:
        """Returns all granules that were read."""
        return list(self._rows.values())

    def owned_by(self, owner: str) -> list[GranuleRow]:
        """Returns the granules of an owner; for an empty id the granules without an owner."""
        return list(self._owned.get(owner, {}).values())

    def counts(self, owner: str) -> Mapping[str, int]:
        """Returns how many granules of each role an owner has, where it has any."""
        return self._counts.get(owner, {})

    def unread(self, most: int) -> list[str]:
        """Returns names of granules that have to be read, at most so many."""
        return list(islice(self._unread, most))

    def entries(self, most: int) -> list[Entry]:
        """Returns entries that have to be read, before any granule, at most so many."""
        wanted = (
            (id, number)
            for id, last in self._behind.items()
            for number in range(self._moves[id] + 1, 1 + (self._moves[id] + PROBED if last is None else last))
        )
        return list(islice(wanted, most))

    def put(self, row: GranuleRow) -> None:
        """Takes a row as it was read or written just now."""
        self._unread.pop(row.name, None)
        self._dropped.discard(row.name)
        self._remove(row.name)
        self._rows[row.name] = row
        self._owned.setdefault(row.owner, {})[row.name] = row
        self._counts.setdefault(row.owner, Counter())[row.role] += 1

    def apply(self, wanted: Sequence[Entry], entries: Mapping[Entry, MovesRow]) -> None:
        """Applies the ``entries`` that were read of the ``wanted`` ones. Entries that no longer
        exist are missing in ``entries``."""
        for id, number in wanted:
            if id not in self._behind or number != self._moves[id] + 1:
                continue
            last = self._behind[id]
            entry = entries.get((id, number))
            if entry is not None:
                self._move(entry)
                self._moves[id] = number
                if number == last:
                    del self._behind[id]
                continue
            del self._behind[id]
            self.doubt(id)
            if last is None:  # it left the fleet, and this was the end of its log
                del self._moves[id]
                self._gaps.discard(id)
            else:
                self._moves[id] = last
                self._gaps.add(id)

    def drop(self, names: Iterable[str]) -> None:
        """Forgets granules: their owners are unknown until they are read again."""
        for name in names:
            self._remove(name)
            self._unread[name] = None
            self._dropped.add(name)

    def doubt(self, owner: str) -> None:
        """Has the granules of an owner read again; until then they count as its own."""
        self.read_again(self._owned.get(owner, ()))

    def read_again(self, names: Iterable[str]) -> None:
        """Marks granules to be read again. Until then the cached rows stay in use."""
        self._unread.update(dict.fromkeys(names))

    def skip(self, names: Iterable[str]) -> None:
        """Notes that the rows of these granules cannot be read: their owners stay unknown."""
        for name in names:
            self._unread.pop(name, None)
            self._remove(name)

    def notice(self, me: MemberRow, members: Iterable[MemberRow], present: Collection[str]) -> None:
        """Marks logs to be read: of members with more ``moves`` than were read, and of members that
        are not ``present`` in the fleet any more.

        Requires that the rows were read before the entries and granules are read. Requires the rows
        of all ``members`` if ``changes`` of ``me`` differs from the last call.
        """
        for member in (me, *members):
            if member.moves > self._moves.setdefault(member.id, 0 if self._begun else member.moves):
                self._behind[member.id] = member.moves
        self._begun = True
        self._changes = me.changes
        for gone in self._moves.keys() - set(present):
            if gone in self._owned:
                self._behind[gone] = None
            else:
                del self._moves[gone]
                self._behind.pop(gone, None)
                self._gaps.discard(gone)
        for owner in list(self._owned):
            if owner and owner not in self._moves:
                self.doubt(owner)

    def record_transaction(self, me: MemberRow) -> None:
        """Records a transaction of this member. ``me`` is its row after the transaction, whose
        granules were ``put`` already."""
        self._changes = me.changes
        self._moves[me.id] = me.moves

    def took(self, source: MemberRow) -> None:
        """Notes a transaction of one's own that took granules from ``source``, as its row is after
        it."""
        self._moves[source.id] = source.moves

    def is_noticed(self, me: MemberRow) -> bool:
        """Returns whether everything is read that the own row says was changed."""
        return not self._unread and not self._behind and self._changes == me.changes

    def _move(self, entry: MovesRow) -> None:
        for name, epoch in entry.granules.items():
            if name not in self._names:
                continue
            row = self._rows.get(name)
            if row is not None and row.epoch >= epoch:
                continue
            if entry.to == self._me:  # what leaves this member it knows first
                is_certain = name not in self._dropped
            else:
                is_certain = row is not None and name not in self._unread and entry.to not in self._gaps
            if not is_certain:
                self._unread[name] = None
            elif row is None:
                self.put(GranuleRow(self._key_of(name), name, entry.to, epoch, entry.at))
            else:
                self.put(replace(row, owner=entry.to, epoch=epoch, since=entry.at))

    def _remove(self, name: str) -> None:
        before = self._rows.pop(name, None)
        if before is not None:
            owned = self._owned[before.owner]
            del owned[name]
            self._counts[before.owner][before.role] -= 1
            if not owned:
                del self._owned[before.owner], self._counts[before.owner]
