"""Compares the answers to appends with the metadata that a table had (I2, I9, I21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.processes import CATALOG
from tests.support.iceberg.appends import rows_of
from turnstile.catalog.core.entities import ICEBERG_TABLE, IcebergTable
from turnstile.iceberg.core.metadata import TableMetadata, check_readable, parse

if TYPE_CHECKING:
    from tests.simulation.engine.state import State


class AppendAuditor:
    """Listens to the trees' auditor: what the table is at each HEAD. An append's snapshot has the
    number of the append."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.applied = dict[int, int]()
        """By append, the number of the HEAD that had it first."""
        self.ended = set[int]()
        """Writers' appends that were refused for good."""
        self._heads = 0
        self._files = dict[str, None]()
        self.now: TableMetadata | None = None
        state.trees.listeners.append(self._changed)

    def asked(self) -> int:
        """The number of the HEAD when an append is sent."""
        return self._heads

    @audits
    def acknowledged(self, id: int, since: int, told: TableMetadata) -> None:
        if self.applied.get(id, -1) <= since:
            raise Violation("I21", f"append {id} was acknowledged and is in no state since it was asked for")
        if told.snapshot(id) is None:
            raise Violation("I21", f"the answer to append {id} is a table without it")

    @audits
    def refused(self, id: int) -> None:
        self.ended.add(id)
        if id in self.applied:
            raise Violation("I21", f"append {id} was refused and is applied")

    @audits
    def _changed(self, head: SeenHead, _before: SeenHead | None) -> None:
        if head.catalog != CATALOG:
            return
        self._heads += 1
        for entry in head.entries.values():
            table = self._state.trees.entity(head, entry.obj) if entry.kind == ICEBERG_TABLE else None
            if isinstance(table, IcebergTable) and table.metadata not in self._files:
                self._files[table.metadata] = None
                self._table(table)

    def _table(self, table: IcebergTable) -> None:
        files = self._state.storages.files
        if table.metadata not in files:
            raise Violation("I9", f"the HEAD leads to {table.metadata}, which does not exist")
        now = parse(files[table.metadata][0])
        check_readable(now)
        before = self.now
        self.now = now
        if before is not None and now.snapshots[: len(before.snapshots)] != before.snapshots:
            raise Violation("I2", "a snapshot is gone or another")
        for snapshot in now.snapshots[len(before.snapshots) if before is not None else 0 :]:
            if snapshot.snapshot_id in self.ended:
                raise Violation("I21", f"append {snapshot.snapshot_id} was refused and is applied")
            self.applied[snapshot.snapshot_id] = self._heads
        ids = [one.snapshot_id for one in now.snapshots]
        parents = [one.parent_snapshot_id for one in now.snapshots]
        sequences = [one.sequence_number for one in now.snapshots]
        if parents != [None, *ids][: len(ids)] or sequences != list(range(1, len(ids) + 1)):
            raise Violation("I2", f"the snapshots are no history: {parents}, {sequences}")
        if [one.snapshot_id for one in now.snapshot_log] != ids:
            raise Violation("I2", f"the log says {now.snapshot_log} of {ids}")
        for number, snapshot in enumerate(now.snapshots, 1):
            self._rows(table, number, snapshot.manifest_list, ids[:number])

    def _rows(self, table: IcebergTable, number: int, path: str, ids: list[int]) -> None:
        """Whether the snapshot at place ``number`` has the rows of ``ids``, each with its sequence
        number."""
        files = self._state.storages.files
        if path not in files:
            raise Violation("I9", f"the table leads to {path}, which does not exist")
        assert self.now is not None
        rows = rows_of(lambda name: files[name][0], self.now.snapshots[number - 1])
        if rows != {f"{table.location}/data/{id}.parquet": place for place, id in enumerate(ids, 1)}:
            raise Violation("I2", f"snapshot {number} has {rows}, and not the rows of {ids}")
