"""Tables of a branch that have a log of their own and no changes: they become the catalog's again,
so that they take no part in a promotion or an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnstile.branches.comparison import ComparedTable, Comparer, Comparison
from turnstile.branches.refusals import busy
from turnstile.catalog.branches import TABLES_PER_CHANGE
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import dotted_name, key_of
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.writes.state import drop_published_head
from turnstile.store.core.writes import Row
from turnstile.store.ports import in_batches


def return_unchanged(
    services: CatalogServices, comparer: Comparer, plan: Comparison, tables: Sequence[ComparedTable]
) -> None:
    """Makes these tables the catalog's again, many in one change of the branch. A table that was
    changed since ``plan`` stays. Raises StateConflict where one got a commit meanwhile."""
    for table in tables:
        if table.own.floor < table.own.latest:
            comparer.publish(table.own.table_id, dotted_name(*table.path))
    for some in in_batches(tables, TABLES_PER_CHANGE):
        _return_some(services, plan, some)


def _return_some(services: CatalogServices, plan: Comparison, tables: Sequence[ComparedTable]) -> None:
    now = services.world.clock.now_ms()

    def change(view: View) -> Edit | None:
        entries = {}
        writes = []
        for table in tables:
            before = plan.base_tree.find(table.path)
            if before is not None and view.tree.find(table.path) == plan.branch.find(table.path):
                entries[key_of(table.path)] = before
                writes.append(drop_published_head(table.own, now))
        if not entries:
            return None
        return Edit(f"{len(entries)} tables as in the catalog", entries=entries, writes=tuple(writes))

    def on_rejected(failed: Mapping[int, Row | None]) -> None:
        if failed:
            raise busy(plan.base.branch)

    services.steps.commit(plan.base.branch, change, on_rejected=on_rejected)
