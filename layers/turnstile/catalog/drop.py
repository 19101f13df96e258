"""Drop: the name leads nowhere and the HEAD says dropped, in one transaction (I9). Nothing is deleted here.

The name can be used again at once, by another table with another uuid. gc purges the files of a managed table after a
grace period, as long as the location still belongs to the dropped uuid; those of an imported table it leaves alone.
An imported table's log stays in use elsewhere, so everything ratified is published before it goes (I11). A clone has no
files; it lets go of those of its source.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnstile.catalog.change import Edit, View
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.committer import Committer
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.core.table_heads import drop_head, drop_published_head
from turnstile.catalog.external import Externals
from turnstile.catalog.heads import not_active
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import NotFound, StateConflict
from turnstile.store.core.writes import Row
from turnstile.store.world import World


class Dropper:
    """Drops tables, those without a HEAD included."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, publisher: Publisher) -> None:
        self._world, self._reader, self._committer, self._publisher = world, reader, committer, publisher
        self._externals = Externals(world, reader, committer)

    def drop(self, catalog: str, namespace: Path, name: str) -> None:
        """Drop a table. Three requests when warm; an imported one is published and read first.

        Raises:
            NotFound: no such catalog, namespace or table.
            StateConflict: ``TableNotActive``: leaving or recovering, or imported and it cannot be published.
        """
        full = dotted(catalog, *namespace, name)
        row = self._world.refs.read(self._reader.key(catalog))
        now_there = View(self._reader.at(catalog, row), self._reader.store)
        first = now_there.tree.table(namespace, name)
        table = now_there.entity(first.obj)
        assert isinstance(table, Table)
        if table.external is not None:
            self._externals.drop(catalog, namespace, name, first.table_id)
            return
        plain = table.managed or table.clone is not None
        head = None if plain else published_head(self._world, self._publisher, first.table_id, full)
        state = {"head": head}
        released = let_go_of(self._world.space, [table])

        def change(view: View) -> Edit:
            entry = view.tree.table(namespace, name)
            if entry.table_id != first.table_id:
                raise StateConflict(
                    "ConcurrentChange",
                    f"'{full}' became another table meanwhile",
                    remedy="send the request again if that one is meant too",
                    retry_after_ms=0,
                )
            now, known = self._world.clock.now_ms(), state["head"]
            key = self._world.space.table(entry.table_id)
            write = drop_head(key, now) if known is None else drop_published_head(known, now)
            return Edit(f"drop table {full}", remove=((*namespace, name),), writes=(write, *released))

        def judge(failed: Mapping[int, Row | None]) -> None:
            if 0 not in failed:
                return
            found = failed[0]
            if state["head"] is None or found is None or found["state"] not in ("active", "stuck"):
                raise not_active(full, found)
            state["head"] = published_head(self._world, self._publisher, first.table_id, full)

        self._committer.commit(catalog, change, row=row, judge=judge)


def published_head(world: World, publisher: Publisher, table_id: str, full: str) -> TableHead:
    """The HEAD after everything ratified was published.

    Raises:
        NotFound: no such HEAD.
        StateConflict: ``TableNotActive``: it cannot be published now.
    """
    done = publisher.publish(table_id)
    if done.problem is not None:
        raise StateConflict(
            "TableNotActive",
            f"table '{full}' cannot be published: {done.problem.message}",
            field="table",
            remedy=done.problem.remedy or "publish it first",
            state=done.state,
        )
    row = world.refs.read(world.space.table(table_id))
    if row is None:
        raise NotFound("table", full, field="table")
    return TableHead.from_row(row)
