"""Tables of a branch that have a log of their own and no changes: they become the catalog's again,
so that they take no part in a promotion or an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnstile.branches.comparison import ComparedTable, Comparer, Comparison
from turnstile.branches.core.entities import access_of
from turnstile.branches.refusals import busy
from turnstile.catalog.branches import TABLES_PER_CHANGE
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import dotted_name, key_of
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.catalog.store import CatalogStore
from turnstile.delta.core.writes.state import drop_published_head
from turnstile.store.core.writes import Row
from turnstile.store.ports import in_batches


def return_unchanged(services: CatalogServices, comparer: Comparer, plan: Comparison, *, ends: bool) -> bool:
    """Makes tables without changes the catalog's again, many in one change of the branch. A table
    that was changed since ``plan`` stays, and a renamed one; and one with rights of the branch's
    own, unless the branch ``ends``. Returns whether there were any. Raises StateConflict where one
    got a commit meanwhile."""
    tables = [table for table in plan.tables if table.change.is_empty and not table.is_renamed]
    if not ends:
        tables = _without_rights(services.reader.store, plan, tables)
    for table in tables:
        if table.own.floor < table.own.latest:
            comparer.publish(table.own.table_id, dotted_name(*table.path))
    for some in in_batches(tables, TABLES_PER_CHANGE):
        _return_some(services, plan, some)
    return bool(tables)


def _without_rights(store: CatalogStore, plan: Comparison, tables: Sequence[ComparedTable]) -> list[ComparedTable]:
    """The tables with the rights of the base."""
    entries = {table.path: entry for table in tables if (entry := plan.base_tree.find(table.path)) is not None}
    entities = store.entities(plan.base_tree.catalog, [entry.obj for entry in entries.values()])
    rights = {path: access_of(entities[entry.obj]) for path, entry in entries.items()}
    return [table for table in tables if rights.get(table.path) == access_of(table.entity)]


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
