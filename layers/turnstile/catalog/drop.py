"""Drop: the name leads nowhere and the HEAD says dropped, in one transaction (I9). Nothing is deleted here.

The name can be used again at once, by another table with another uuid. gc purges the files of a managed table after a
grace period, as long as the location still belongs to the dropped uuid; those of an imported table it leaves alone.
An imported table's log stays in use elsewhere, so everything ratified is published before it goes (I11). A clone has no
files; it lets go of those of its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.commit import MAX_ROWS, Committer, Edit, View
from turnstile.catalog.core.entities import ICEBERG_KINDS, TABLE, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted, path_of
from turnstile.catalog.describe import not_active
from turnstile.catalog.external import Externals
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.state_writes import drop_head, drop_published_head
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import NotFound, StateConflict
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, World


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

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if 0 not in failed:
                return
            found = failed[0]
            if state["head"] is None or found is None or found["state"] not in ("active", "stuck"):
                raise not_active(full, found)
            state["head"] = published_head(self._world, self._publisher, first.table_id, full)

        self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)


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


# -- drop namespace ---------------------------------------------------------------------------------------------------
# Dropping a namespace: empty, or with everything below it.
#
# A namespace with up to ``AT_ONCE`` managed tables goes in one change. A larger one is emptied first, so many tables a
# change, because one transaction holds at most a hundred rows; imported tables go one by one, since each is published
# before. A crash or a refusal in between leaves a smaller namespace, and dropping it again goes on.


_Named = tuple[Path, IndexEntry]

AT_ONCE: Final = TRANSACT_MAX - 10
"""Tables dropped in one transaction, which holds at most 100 rows."""


class NamespaceDropper:
    """Drops namespaces.

    Args:
        dropper: drops the imported tables below them.
    """

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, dropper: Dropper) -> None:
        self._world, self._reader, self._committer, self._dropper = world, reader, committer, dropper

    def drop(self, catalog: str, path: Path, *, cascade: bool = False) -> None:
        """Drop a namespace; with ``cascade`` also what is below it.

        Raises:
            NotFound: no such catalog or namespace.
            StateConflict: ``NamespaceNotEmpty``: something is below it and ``cascade`` is not set;
                ``TableNotActive``: a table below it cannot be dropped now.
        """
        while not self._step(catalog, path, cascade=cascade):
            pass

    def _step(self, catalog: str, path: Path, *, cascade: bool) -> bool:
        """One change; whether the namespace is gone with it."""
        row = self._world.refs.read(self._reader.key(catalog))
        if cascade:
            view = View(self._reader.at(catalog, row), self._reader.store)
            below = _below(view, path)
            _refuse_iceberg(below)
            for imported, _ in _tables(view, below)[1]:
                self._dropper.drop(catalog, imported[:-1], imported[-1])
                row = None
        going: list[_Named] = []
        done = [False]

        def change(view: View) -> Edit | None:
            below = _below(view, path)
            if below and not cascade:
                raise StateConflict(
                    "NamespaceNotEmpty",
                    f"namespace '{dotted(view.tree.catalog, *path)}' is not empty",
                    field="namespace",
                    remedy="drop what is in it first, or ask for cascade",
                )
            _refuse_iceberg(below)
            managed, imported = _tables(view, below)
            going[:], released = self._at_once(view, managed)
            done[0] = not imported and len(going) == len(managed)
            if imported and not going:
                return None
            gone = [name for name, _ in (below if done[0] else going)]
            now = self._world.clock.now_ms()
            return Edit(
                f"drop namespace {dotted(*path)}" + ("" if done[0] else f": {len(going)} tables first"),
                remove=(*gone, path) if done[0] else tuple(gone),
                writes=(*(drop_head(self._world.space.table(entry.table_id), now) for _, entry in going), *released),
                more=not done[0],
            )

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            for position, found in failed.items():
                if position < len(going):
                    raise not_active(dotted(catalog, *going[position][0]), found)

        self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)
        return done[0]

    def _at_once(self, view: View, managed: list[_Named]) -> tuple[list[_Named], list[Write]]:
        """As many of the tables as one change drops: a HEAD each. And the writes that the clones among them need: the row of
        the owner of the location where one lies."""
        going = managed[:AT_ONCE]
        while True:
            found = view.entities([entry.obj for _, entry in going])
            released = let_go_of(self._world.space, found.values())
            if len(going) + len(released) <= MAX_ROWS:
                return going, released
            going = going[: len(going) // 2]


def _below(view: View, path: Path) -> list[_Named]:
    """Everything below a namespace; raises NotFound."""
    view.tree.namespace(path)
    return [(path_of(key), entry) for key, entry in view.tree.subtree(path)]


def _refuse_iceberg(below: list[_Named]) -> None:
    """Iceberg's tables and views own locations, and whether their files go with them nobody has said: they are dropped
    one by one through their own API."""
    found = next((name for name, entry in below if entry.kind in ICEBERG_KINDS), None)
    if found is not None:
        raise StateConflict(
            "NamespaceNotEmpty",
            f"'{dotted(*found)}' is an Iceberg table or view",
            field="namespace",
            remedy="drop it through the Iceberg API first",
        )


def _tables(view: View, below: list[_Named]) -> tuple[list[_Named], list[_Named]]:
    """The managed tables and clones, and the imported tables among ``below``."""
    tables = [(name, entry) for name, entry in below if entry.kind == TABLE]
    found = view.entities([entry.obj for _, entry in tables])
    managed = {obj for obj, one in found.items() if isinstance(one, Table) and (one.managed or one.clone is not None)}
    return [one for one in tables if one[1].obj in managed], [one for one in tables if one[1].obj not in managed]
