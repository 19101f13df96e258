"""Dropping a namespace: empty, or with everything below it.

A namespace with up to ``AT_ONCE`` managed tables goes in one change. A larger one is emptied first, so many tables a
change, because one transaction holds at most a hundred rows; imported tables go one by one, since each is published
before. A crash or a refusal in between leaves a smaller namespace, and dropping it again goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstile.catalog.change import MAX_ROWS, Edit, View
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.committer import Committer
from turnstile.catalog.core.entities import TABLE, Table
from turnstile.catalog.core.iceberg_entities import KINDS
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted, path_of
from turnstile.catalog.core.table_heads import drop_head
from turnstile.catalog.drop import Dropper
from turnstile.catalog.heads import not_active
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.writes import Row, Write
from turnstile.store.world import World

_Named = tuple[Path, IndexEntry]

AT_ONCE: Final = 90
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

        def judge(failed: Mapping[int, Row | None]) -> None:
            for position, found in failed.items():
                if position < len(going):
                    raise not_active(dotted(catalog, *going[position][0]), found)

        self._committer.commit(catalog, change, row=row, judge=judge)
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
    found = next((name for name, entry in below if entry.kind in KINDS), None)
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
