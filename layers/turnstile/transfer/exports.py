"""Export of a table: back to a filesystem-based Delta table (design 2.4).

    1  resolve     name, HEAD; a dry run ends here with its report
    2  leaving     no commit is ratified any more
    3  publish     everything ratified into ``_delta_log``
    4  release     version latest + 1, put-if-absent: no catalog decides any more. In-commit
                   timestamps stay
    5  tombstone   name gone, HEAD dropped, location without an owner, in one transaction

A crash after any step is healed by running the export again: the HEAD says leaving, and the release
commit carries a txn id that follows from the table's uuid. A table that cannot be published takes
commits again; so after publishing, the HEAD is checked to be leaving still: then it can only be
exported, and there is no race. Files are never touched. Files of a managed table have no owner
afterwards, so they are never purged (I10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.branches import refuse_branch
from turnstile.catalog.core.entities import Table, without_head
from turnstile.catalog.core.location_rows import keys_above, release
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.describe import not_active
from turnstile.catalog.drop import published_head
from turnstile.catalog.locations import require_served
from turnstile.catalog.reader import ResolvedTable, View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import ACTIVE, DROPPED, EXPORTED, LEAVING, TableHead
from turnstile.delta.core.protocols import protocol_without_catalog
from turnstile.delta.core.writes.state import leave_head, left_head, stay_head
from turnstile.delta.log.files import read_commit
from turnstile.delta.undecided import is_settled
from turnstile.store.core.errors import ErrorType, NotFound, StateConflict
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Rejected
from turnstile.transfer import commits
from turnstile.transfer.reports import ExportReport, export_report, problem

EXPORTING: Final = "export"

_NOTES: Final = (
    "the files stay where they are and have no owner afterwards: they are never purged",
    "the catalog's name, grants and history of the table end; its versions and in-commit timestamps stay",
)


class Exporter:
    """Exports tables. Run it again after any failure."""

    def __init__(self, services: CatalogServices) -> None:
        self._services = services
        self._world = services.world

    def dry_run(self, catalog: str, namespace: Path, name: str) -> ExportReport:
        """The report of a dry run; nothing is written. Raises NotFound, or UnsupportedTable for an
        external table."""
        refuse_branch(catalog, "exports")
        head = self._head(self._services.reader.resolve(catalog, namespace, name))
        problems = []
        try:
            _require_exportable(head)
            self._release_location(head)
        except (NotFound, StateConflict) as error:
            problems = [problem(error)]
        after = protocol_without_catalog(self._services.metadata.get(head.catalog, head.metadata).protocol)
        return export_report(head, dry_run=True, protocol_after=after, problems=problems, notes=list(_NOTES))

    def run(self, catalog: str, namespace: Path, name: str) -> ExportReport:
        """Export the table.

        Raises:
            NotFound, UnsupportedTable: as ``dry_run``.
            StateConflict: ``TableNotActive``: it is stuck or recovering, it cannot be published, or
                another export could
                not publish it and made it active again; ``TableHasClones``.
            StorageFault, OutcomeUnknown: run it again.
        """
        refuse_branch(catalog, "exports")
        before = self._leave(self._head(self._services.reader.resolve(catalog, namespace, name)))
        try:
            head = published_head(self._world, self._services.publisher, before.table_id, before.name)
        except StateConflict:
            self._world.refs.write(stay_head(before, EXPORTING, self._world.clock.now_ms()))
            raise
        _require_final(head)
        protocol_after = self._release(head)
        self._tombstone(catalog, (*namespace, name), head)
        dropped = msgspec.structs.replace(before, state=DROPPED)
        return export_report(dropped, dry_run=False, protocol_after=protocol_after, problems=[], notes=list(_NOTES))

    def _head(self, resolved: ResolvedTable) -> TableHead:
        row = self._world.refs.read(self._world.space.table(resolved.table_id))
        if row is not None:
            head = TableHead.from_row(row)
            require_served(head.location, self._services.lake_root)
            return head
        table = self._services.reader.store.entity(resolved.catalog, resolved.entity)
        if isinstance(table, Table) and table.external is not None:
            remedy = "there is nothing to export: drop it through Unity Catalog's API, its files stay"
            raise without_head(table, remedy)
        raise NotFound("table", resolved.table_id, field="table", remedy="check the name")

    def _release_location(self, head: TableHead) -> list[Write]:
        """The writes that give the location up; raises StateConflict while clones need its
        files."""
        rows = self._world.refs.read_many(keys_above(self._world.space, head.location))
        return release(self._world.space, head.location, head.table_id, rows)

    def _leave(self, head: TableHead) -> TableHead:
        """Step 2; the HEAD afterwards."""
        _require_exportable(head)
        if head.state == LEAVING:
            return head
        self._release_location(head)
        response = self._world.refs.write(leave_head(head, EXPORTING, self._world.clock.now_ms()))
        if response.row is None:
            raise NotFound("table", head.name, field="table")
        after = TableHead.from_row(response.row)
        if isinstance(response, Rejected):
            _require_exportable(after)
            if is_settled(self._world, response.row):
                return self._leave(after)
            if after.undecided:
                raise not_active(head.name, response.row)
        return after

    def _release(self, head: TableHead) -> dict[str, Any]:
        """Step 4; the protocol afterwards. Raises StateConflict when that version was written past
        the catalog."""
        metadata = self._services.metadata.get(head.catalog, head.metadata)
        version = head.latest + 1
        storage = self._world.storages.open(head.location)
        ict = max(self._world.clock.now_ms(), head.last_ict + 1)
        content = commits.release(head.latest, metadata.protocol, metadata.metadata, head.table_id, ict)
        if not storage.put_if_absent(published_path(version), content):
            commit = read_commit(storage, version)
            if commit.info.get("txnId") != commits.export_txn(head.table_id):
                raise StateConflict(
                    ErrorType.TABLE_NOT_ACTIVE,
                    f"version {version} of '{head.name}' was written past the catalog",
                    field="table",
                    remedy=f"move {published_path(version)} away, keep what it added in mind, and export again",
                    state=head.state,
                )
            return commit.protocol or {}
        return protocol_without_catalog(metadata.protocol)

    def _tombstone(self, catalog: str, path: Path, head: TableHead) -> None:
        """Step 5. Location rows that changed meanwhile (neighbours share their markers) are read
        again."""
        location_writes = self._release_location(head)

        def change(view: View) -> Edit:
            full = dotted_name(view.tree.catalog, *path)
            if view.tree.table(path[:-1], path[-1]).table_id != head.table_id:
                raise NotFound("table", full, field="table", remedy="it was replaced")
            writes = (left_head(head, EXPORTED, self._world.clock.now_ms()), *location_writes)
            return Edit(f"export table {full}", remove=(path,), writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            nonlocal location_writes
            if 0 in failed:
                raise not_active(head.name, failed[0])
            location_writes = self._release_location(head)

        self._services.committer.commit(catalog, change, on_rejected=on_rejected)


def _require_exportable(head: TableHead) -> None:
    """Raises NotFound or StateConflict for a table that is not active. One that is leaving has an
    export to finish."""
    if head.state != ACTIVE and (head.state, head.reason) != (LEAVING, EXPORTING):
        raise not_active(head.name, {"state": head.state, "reason": head.reason})


def _require_final(head: TableHead) -> None:
    """Raises NotFound or StateConflict unless nothing is ratified after ``head`` any more: the
    table is leaving and published. From there the only next state is dropped, by an export, so the
    release may be written however much later (I2, I4).
    """
    if (head.state, head.reason) == (LEAVING, EXPORTING) and head.floor == head.latest:
        return
    if head.state == ACTIVE:
        raise StateConflict(
            ErrorType.TABLE_NOT_ACTIVE,
            f"table '{head.name}' is active again: another export could not publish it and gave it back",
            field="table",
            remedy="run the export again",
            state=head.state,
        )
    raise not_active(head.name, {"state": head.state, "reason": head.reason})
