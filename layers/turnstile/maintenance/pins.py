"""The pinned versions of a Delta table: the one place that decides (I10, ADR 30).

Used by vacuum and clean-up of the log (``Pins.of``, exact), by the purge of dropped tables, and for
engines with their own upkeep (``holders.holders_of``: whether older versions have holders, without
a read of the log).

A failed read is an error, never "no pins": then nothing is removed. A holder of an unknown version
holds all of them. A transaction with a damaged row holds all versions of the tables that were
announced under its id. Where these are not kept any more, it may hold any table, and there are no
pins of any: the error names the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from turnstile.catalog.core.location_rows import Location, Reader
from turnstile.catalog.history.core import AsOf, NamedSnapshot
from turnstile.catalog.history.log import History
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import OPEN, JournalRow
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.past import version_at
from turnstile.maintenance.core.pins import Pin
from turnstile.maintenance.core.retention import FILES, LOG, retention_ms
from turnstile.maintenance.holders import MARGIN_MS, live, snapshots_with
from turnstile.store.core.errors import (
    ErrorType,
    NotFound,
    StateConflict,
    UnreadableObj,
    UnreadableRow,
    UnsupportedTable,
)
from turnstile.store.core.locations import normalise
from turnstile.store.ports import DamagedRow, World, parse_row, parse_rows

_UNKNOWN: Final = "which tables a transaction needs is not known, so nothing of any table is removed"


class TablePins(msgspec.Struct, frozen=True):
    """All pins of a table as of one read of its location's ``owner``, which was read after
    everything that brings new pins into that row. ``writing_since`` (ms): when the oldest of the
    open transactions was announced that write the table; None: there is none.
    """

    pins: tuple[Pin, ...]
    owner: Location
    writing_since: int | None = None


class Pins:
    """Reads pins. Cheap: one per request, or shared. ``reader`` is not a request's: rights are no
    reason to remove files that a holder needs. ``history_ms``: for how long the catalog's past is
    kept (``Grace.history_ms``).
    """

    def __init__(self, world: World, reader: CatalogReader, metadata: MetadataStore, *, history_ms: int) -> None:
        self._world = world
        self._reader = reader
        self._metadata = metadata
        self._history_ms = history_ms

    def of(self, head: TableHead, *, files_ms: int | None = None) -> TablePins:
        """Returns the pins of a table by its HEAD, which was just read. Costs a scan of the
        journal, and a few reads of its log for each moment of the past.

        Args:
            files_ms: the requested time travel, instead of the table's
                ``delta.deletedFileRetentionDuration``.

        Raises:
            StateConflict: ``TableNotActive``: it is a clone, which has another table's log; or its
                location is not its own.
        """
        now = self._world.clock.now_ms()
        kept_ms = self.files_ms(head) if files_ms is None else files_ms
        damaged = list[DamagedRow]()
        open_entries = list(self._transactions(head, damaged))
        prefix = self._world.space.transaction("")
        by_id = {row.key.removeprefix(prefix): row for row in damaged}
        unknown = [id for id, row in by_id.items() if head.table_id in self._unknown_tables(id, row)]
        tree = self._reader.current(head.catalog)
        snapshots = list(snapshots_with(head, tree, self._reader.store))
        owner = self.owner(head)  # the last: a clone of a snapshot is in it before the snapshot loses its name
        pins = (
            Pin(head.latest, None, "latest"),
            Pin(self._since(head, kept_ms, now), None, "retention"),
            Pin(self._since(head, retention_ms(self._properties(head), LOG), now), None, "log"),
            *self._moments(head, now),
            *(self._snapshot(head, snapshot) for snapshot in snapshots),
            *(_base_pin(head, entry) for entry in open_entries),
            *(Pin(0, None, "transaction", id) for id in unknown),
            *self._clones(owner),
            *(_registered_pin(reader) for reader in live(owner, now)),
        )
        since = [entry.created for entry in open_entries if head.table_id in entry.written] + [0 for _ in unknown]
        return TablePins(pins, owner, min(since, default=None))

    def _properties(self, head: TableHead) -> dict[str, str]:
        return dict(self._metadata.get(head.catalog, head.metadata).metadata.get("configuration") or {})

    def _since(self, head: TableHead, kept_ms: int | None, now: int) -> int:
        """The version that was the latest that long ago."""
        return 0 if kept_ms is None else self._version(head, now - kept_ms)

    def _version(self, head: TableHead, at_ms: int) -> int:
        """The version at a moment; 0 where the log does not say, as of a table that is younger."""
        try:
            return version_at(self._world, head, at_ms).version
        except (NotFound, UnsupportedTable):
            return 0

    def _moments(self, head: TableHead, now: int) -> Iterator[Pin]:
        """Every version since the kept history began; and the one of the HEAD that the catalog had
        then, which is as old as the change that made it, and can be named by its number as long as
        it is kept.
        """
        began = now - self._history_ms - MARGIN_MS
        yield Pin(self._version(head, max(began, head.created)), None, "moment")
        try:
            edge = History(self._reader).tree(head.catalog, AsOf(time=began)).commit
        except NotFound:  # the catalog is younger than that
            return
        if head.created * 1000 <= edge.at < began * 1000:
            version = self._version(head, edge.at // 1000)
            yield Pin(version, version, "moment", f"{head.catalog}@seq:{edge.seq}")

    def _snapshot(self, head: TableHead, snapshot: NamedSnapshot) -> Pin:
        version = snapshot.versions.get(head.table_id)
        if version is None:
            version = self._version(head, snapshot.at // 1000)
        return Pin(version, version, "snapshot", snapshot.name)

    def _transactions(self, head: TableHead, damaged: list[DamagedRow]) -> Iterator[JournalRow]:
        """Announced transactions that may still be committed, also transactions past their end that
        are not aborted yet; adds those that cannot be read to ``damaged``."""
        for entry in parse_rows(JournalRow, self._world.refs.scan(JournalRow.kind), damaged):
            if entry.state == OPEN and (head.table_id in entry.written or head.table_id in entry.read):
                yield entry

    def _unknown_tables(self, id: str, row: DamagedRow) -> frozenset[str]:
        """The tables that a transaction with a damaged row may name. Raises UnreadableRow where
        that is not known: it may name any."""
        from turnstile.delta.transactions.journal import tables_announced  # loaded for damaged rows alone

        try:
            tables = tables_announced(self._world, id)
        except UnreadableObj as error:
            raise UnreadableRow(row.key, error.message, effect=_UNKNOWN) from error
        if not tables:
            raise UnreadableRow(row.key, "its commits are not kept any more", effect=_UNKNOWN)
        return tables

    def files_ms(self, head: TableHead) -> int | None:
        """For how long the table keeps files that were removed, by its properties; None where they
        cannot be read."""
        return retention_ms(self._properties(head), FILES)

    def owner(self, head: TableHead) -> Location:
        """The row of the table's location. Raises StateConflict (``TableNotActive``) if that is
        another's, as a clone's is."""
        row = self._world.refs.read(self._world.space.location(normalise(head.location)))
        owner = Location.from_row(row) if row is not None else None
        if owner is None or owner.table_id != head.table_id:
            problem = f"the files of '{head.name}' are not its own: their holders are not known here"
            remedy = "leave them as they are; of a clone, ask for its source"
            raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, field="table", remedy=remedy, state=head.state)
        return owner

    def _clones(self, owner: Location) -> Iterator[Pin]:
        rows = self._world.refs.read_many([self._world.space.table(clone) for clone in sorted(owner.clones)])
        for clone in sorted(owner.clones):
            row = rows.get(self._world.space.table(clone))
            pinned = parse_row(TableHead, row, []) if row is not None else None
            if pinned is None:
                yield Pin(0, None, "clone", clone)
            else:
                yield Pin(pinned.latest, pinned.latest, "clone", clone)


def _base_pin(head: TableHead, entry: JournalRow) -> Pin:
    """The version that a transaction was read from, or writes after: it may be read again until the
    transaction is settled."""
    read = entry.read.get(head.table_id)
    written = entry.written.get(head.table_id)
    first = min(version for version in (read, None if written is None else written - 1) if version is not None)
    return Pin(first, None, "transaction", entry.id, entry.until, entry.owner)


def _registered_pin(reader: Reader) -> Pin:
    last = None if reader.last < 0 else reader.last
    return Pin(reader.first, last, "reader", reader.holder, reader.until, reader.principal)
