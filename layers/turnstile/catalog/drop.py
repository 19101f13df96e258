"""Drops tables and namespaces: a name leads nowhere and the HEAD is dropped, in one transaction
(I9). Nothing is deleted.

The name can be used again at once, by another table with another uuid. gc purges the files of a
managed table after a grace period, if the location still belongs to the dropped uuid; the files of
an imported table it leaves alone. The log of an imported table stays in use elsewhere, so
everything ratified is published before the drop (I11). A clone has no files; its drop releases the
files of its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstile.catalog.awaited import AwaitedDrops
from turnstile.catalog.changes.commit import CatalogChange, Committer
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.core.branches import InheritedTable, is_inherited
from turnstile.catalog.core.entities import ICEBERG_KINDS, TABLE, Table, is_awaited
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.describe import not_active
from turnstile.catalog.external import Externals
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.writes.state import drop_head, drop_published_head
from turnstile.delta.publish import Publisher
from turnstile.delta.undecided import is_settled
from turnstile.store.core.errors import ErrorType, NotFound, StateConflict, UnsupportedTable
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, World

TABLES_PER_CHANGE: Final = TRANSACT_MAX - 10
"""Tables that are dropped in one transaction."""

_Item = tuple[Path, IndexEntry]


class Dropper:
    """Drops tables, including tables without a HEAD."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, publisher: Publisher) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._publisher = publisher
        self._externals = Externals(world, reader, committer)
        self._awaited = AwaitedDrops(world, committer)

    def drop(self, catalog: str, namespace: Path, name: str) -> None:
        """Three requests when warm; an imported table is published and read first. Raises NotFound;
        StateConflict ``TableNotActive``, or ``ConcurrentChange`` if the name leads to another table
        meanwhile.
        """
        full = dotted_name(catalog, *namespace, name)
        row = self._world.refs.read(self._reader.key(catalog))
        present = View(self._reader.at(catalog, row), self._reader.store)
        try:
            table = present.table(namespace, name)
        except InheritedTable as inherited:
            self._reader.store.make_own(catalog, inherited.path)
            self.drop(catalog, namespace, name)
            return
        table_id = table.table_id
        if is_awaited(table):
            self._awaited.drop(catalog, namespace, name, table_id)
            return
        if table.external is not None:
            self._externals.drop(catalog, namespace, name, table_id)
            return
        imported = not table.managed and table.clone is None
        head = published_head(self._world, self._publisher, table_id, full) if imported else None
        released = let_go_of(self._world.space, [table])

        def change(view: View) -> Edit:
            if view.tree.table(namespace, name).table_id != table_id:
                raise _another_table(full)
            key = self._world.space.table(table_id)
            now = self._world.clock.now_ms()
            write = drop_head(key, now) if head is None else drop_published_head(head, now)
            return Edit(f"drop table {full}", remove=((*namespace, name),), writes=(write, *released))

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            nonlocal head
            if 0 not in failed:
                return
            refused = failed[0]
            if is_settled(self._world, refused):
                return
            if head is None or refused is None or refused["state"] not in ("active", "stuck"):
                raise not_active(full, refused)
            head = published_head(self._world, self._publisher, table_id, full)

        self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)

    def prepare(self, catalog: str, namespace: Path, name: str) -> CatalogChange:
        """The drop of a managed table or a clone, to be committed with others; no request. It
        raises as ``drop``, and UnsupportedTable for another table: an imported one is published
        first, and a registered one is looked up by its location.
        """
        full = dotted_name(catalog, *namespace, name)
        path = (*namespace, name)
        first: list[str] = []  # the uuid that the name led to first

        def change(view: View) -> Edit:
            table = view.table(namespace, name)
            if table.external is not None or not (table.managed or table.clone is not None):
                problem = f"table '{full}' is not managed, and cannot be dropped together with other changes"
                raise UnsupportedTable(problem, field="table", remedy="drop it alone")
            if first and table.table_id != first[0]:
                raise _another_table(full)
            first[:] = [table.table_id]
            write = drop_head(self._world.space.table(table.table_id), self._world.clock.now_ms())
            released = let_go_of(self._world.space, [table])
            return Edit(f"drop table {full}", remove=(path,), writes=(write, *released))

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise not_active(full, failed[0])

        return CatalogChange(change, on_rejected)


def _another_table(full: str) -> StateConflict:
    problem = f"'{full}' became another table meanwhile"
    remedy = "send the request again if that one is meant too"
    return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy=remedy, retry_after_ms=0)


def published_head(world: World, publisher: Publisher, table_id: str, full: str) -> TableHead:
    """Publishes everything ratified, and returns the HEAD after that. Raises NotFound, or
    StateConflict ``TableNotActive`` if it cannot be published now."""
    published = publisher.publish(table_id)
    if published.problem is not None:
        problem = f"table '{full}' cannot be published: {published.problem.message}"
        remedy = published.problem.remedy or "publish it first"
        raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, field="table", remedy=remedy, state=published.state)
    row = world.refs.read(world.space.table(table_id))
    if row is None:
        raise NotFound("table", full, field="table")
    return TableHead.from_row(row)


class NamespaceDropper:
    """Drops namespaces, empty or with everything below them.

    A namespace with up to ``TABLES_PER_CHANGE`` managed tables is dropped in one change. A larger
    one is emptied first, by that many tables a change; imported tables are dropped one by one,
    since each is published before. After a crash or a refusal in between the namespace is smaller,
    and another drop continues.
    """

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, dropper: Dropper) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._dropper = dropper

    def drop(self, catalog: str, path: Path, *, cascade: bool = False) -> None:
        """With ``cascade`` also everything below it. Raises NotFound; StateConflict
        ``TableNotActive`` for a table below it, and ``NamespaceNotEmpty`` as ``_droppable``."""
        while not self._step(catalog, path, cascade=cascade):
            pass

    def _step(self, catalog: str, path: Path, *, cascade: bool) -> bool:
        """Makes one change; returns whether it dropped the namespace."""
        row = self._world.refs.read(self._reader.key(catalog))
        if cascade:
            view = View(self._reader.at(catalog, row), self._reader.store)
            for imported, _ in _tables(view, _droppable(view, path))[1]:
                self._dropper.drop(catalog, imported[:-1], imported[-1])
                row = None
        tables: list[_Item] = []  # dropped by the edit
        owned: list[_Item] = []  # those with HEADs of this catalog, in the order of its writes
        last = False

        def change(view: View) -> Edit | None:
            nonlocal tables, last
            below = _droppable(view, path, cascade=cascade)
            managed, imported = _tables(view, below)
            tables, released = self._first(view, managed)
            last = not imported and len(tables) == len(managed)
            if imported and not tables:
                return None
            gone = [name for name, _ in (below if last else tables)]
            owned[:] = [(name, entry) for name, entry in tables if not is_inherited(view.tree, entry)]
            now = self._world.clock.now_ms()
            return Edit(
                f"drop namespace {dotted_name(*path)}" + ("" if last else f": {len(tables)} tables first"),
                remove=(*gone, path) if last else tuple(gone),
                writes=(*(drop_head(self._world.space.table(entry.table_id), now) for _, entry in owned), *released),
                more=not last,
            )

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            for position, refused in failed.items():
                if position < len(owned) and not is_settled(self._world, refused):
                    raise not_active(dotted_name(catalog, *owned[position][0]), refused)

        self._committer.commit(catalog, change, row=row, on_rejected=on_rejected)
        return last

    def _first(self, view: View, managed: list[_Item]) -> tuple[list[_Item], list[Write]]:
        """Returns the tables that one change drops, and the writes that release the locations which
        clones among them need."""
        first = managed[:TABLES_PER_CHANGE]
        while True:
            entities = view.entities([entry.obj for _, entry in first])
            released = let_go_of(self._world.space, entities.values())
            if len(first) + len(released) <= MAX_ROWS:
                return first, released
            first = first[: len(first) // 2]


def _droppable(view: View, path: Path, *, cascade: bool = True) -> list[_Item]:
    """Returns everything below a namespace. Raises StateConflict ``NamespaceNotEmpty`` without
    ``cascade``, or if something of Iceberg is there: its tables and views own locations, and
    whether their files go with them is a choice of their own API.
    """
    view.tree.namespace(path)
    below = [(path_of(key), entry) for key, entry in view.tree.subtree(path)]
    if below and not cascade:
        name = dotted_name(view.tree.catalog, *path)
        remedy = "drop its tables and namespaces first, or ask for cascade"
        raise StateConflict(
            ErrorType.NAMESPACE_NOT_EMPTY, f"namespace '{name}' is not empty", field="namespace", remedy=remedy
        )
    iceberg = next((name for name, entry in below if entry.kind in ICEBERG_KINDS), None)
    if iceberg is not None:
        problem = f"'{dotted_name(*iceberg)}' is an Iceberg table or view"
        remedy = "drop it through the Iceberg API first"
        raise StateConflict(ErrorType.NAMESPACE_NOT_EMPTY, problem, field="namespace", remedy=remedy)
    return below


def _tables(view: View, below: list[_Item]) -> tuple[list[_Item], list[_Item]]:
    """Returns the managed tables and clones, and the tables among ``below`` that are dropped one by
    one."""
    items = [(name, entry) for name, entry in below if entry.kind == TABLE]
    entities = view.entities([entry.obj for _, entry in items])
    managed = list[_Item]()
    imported = list[_Item]()
    for item in items:
        table = entities[item[1].obj]
        assert isinstance(table, Table)
        alone = is_awaited(table) or not (table.managed or table.clone is not None)
        (imported if alone else managed).append(item)
    return managed, imported
