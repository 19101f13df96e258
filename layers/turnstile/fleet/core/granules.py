"""What a member believes of granules: their rows as it read them last, and which of them it has to read again. Pure.

A granule leaves its owner only in a transaction that raises the owner's ``changes``. So as long as the ``changes`` of a member are the same as when
its granules were read, none of them is another's; and a look at the members' rows says which granules have to be read again, whatever their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from turnstile.fleet.core.rows import GranuleRow, MemberRow


class Granules:
    """The granules of some roles. ``get`` is safe for threads, the rest is for one.

    Args:
        names: of all granules. None has been read.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._rows: dict[str, GranuleRow] = {}
        self._owned: dict[str, dict[str, GranuleRow]] = {}
        self._unread = dict.fromkeys(names)
        self._changes: dict[str, int] = {}

    def get(self, name: str) -> GranuleRow | None:
        """Returns a granule as it was read last; None for one that was never read, or is being given away."""
        return self._rows.get(name)

    def all(self) -> list[GranuleRow]:
        """Returns all granules that were read."""
        return list(self._rows.values())

    def owned_by(self, owner: str) -> list[GranuleRow]:
        """Returns the granules of an owner; those of nobody for an empty id."""
        return list(self._owned.get(owner, {}).values())

    def unread(self, most: int) -> list[str]:
        """Returns names of granules that have to be read, at most so many."""
        return list(islice(self._unread, most))

    def put(self, row: GranuleRow) -> None:
        """Takes a row as it was read or written just now."""
        self._unread.pop(row.name, None)
        self._remove(row.name)
        self._rows[row.name] = row
        self._owned.setdefault(row.owner, {})[row.name] = row

    def drop(self, names: Iterable[str]) -> None:
        """Forgets granules: nobody is sure of their owners until they are read again."""
        for name in names:
            self._remove(name)
            self._unread[name] = None

    def doubt(self, owner: str) -> None:
        """Has the granules of an owner read again; until then they count as its own."""
        self._unread.update(dict.fromkeys(self._owned.get(owner, ())))

    def notice(self, members: Iterable[MemberRow], present: Collection[str]) -> None:
        """Doubts the granules of those ``members`` whose ``changes`` are others than when their granules were read, and of owners that are not
        ``present`` in the fleet. Requires that the rows of members were read before the granules will be."""
        for member in members:
            if self._changes.get(member.id) != member.changes:
                self.doubt(member.id)
                self._changes[member.id] = member.changes
        for gone in self._changes.keys() - set(present):
            del self._changes[gone]
        for owner in list(self._owned):
            if owner and owner not in present:
                self.doubt(owner)

    def changed(self, member: MemberRow) -> None:
        """Notes a transaction of one's own over granules of ``member``, as its row is after it: what it changed was ``put`` here."""
        self._changes[member.id] = member.changes

    def is_noticed(self, member: MemberRow) -> bool:
        """Returns whether everything is read that ``member``'s row says was changed."""
        return not self._unread and self._changes.get(member.id) == member.changes

    def _remove(self, name: str) -> None:
        before = self._rows.pop(name, None)
        if before is not None:
            owned = self._owned[before.owner]
            del owned[name]
            if not owned:
                del self._owned[before.owner]
