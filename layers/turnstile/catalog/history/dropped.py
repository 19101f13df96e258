"""Finds a dropped table or view in the catalog's past: the last tree in which its name led to it.

The search goes back from the present, a commit at a time, so the newest drop of a name is found,
and a table that got another name before it was dropped is found under that one. Each commit is one
read; a search that begins at a moment at which the table was there takes a few reads, however long
ago that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from turnstile.catalog.core.entities import IcebergTable, IcebergView, Table, id_of, is_awaited
from turnstile.catalog.core.paths import Path, dotted_name, fold, stored_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.log import History
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import DROPPED, TableHead
from turnstile.store.core.errors import ErrorType, NotFound, StateConflict
from turnstile.store.ports import World

LOOK_BACK: Final = 1000
"""Commits that one search reads: some seconds on DynamoDB."""

Droppable = Table | IcebergTable | IcebergView


class PastTable(msgspec.Struct, frozen=True):
    """A table or view as it was in ``tree``, the last one in which ``path`` led to it. ``head``: of
    a Delta table, or of an Iceberg table that was dropped with its files; None where a drop leaves
    no row.
    """

    tree: Tree
    path: Path
    entity: Droppable
    head: TableHead | None

    @property
    def full(self) -> str:
        return dotted_name(self.tree.catalog, *self.path)


class _Step(msgspec.Struct, frozen=True):
    """Two trees of which the second followed the first."""

    tree: Tree
    after: Tree


class DroppedTables:
    """Finds dropped tables. ``history_ms`` is for how long gc leaves a catalog's past."""

    def __init__(self, world: World, reader: CatalogReader, history: History, history_ms: int) -> None:
        self._world = world
        self._reader = reader
        self._history = history
        self._history_ms = history_ms

    def last(self, now: Tree, path: Path, at: AsOf | None) -> PastTable | None:
        """Returns the last dropped entity of the name ``path``; None if there was none in the kept
        history. ``at``: a moment at which the name led to it, or later. Raises NotFound: no such
        moment in the kept history, or no drop within ``LOOK_BACK`` commits; StateConflict
        ``CannotUndrop``: the entity of ``at`` has another name now, or went on after it.
        """
        begin = None if at is None else self._kept_tree(now, at)
        there = self._at(now, path)
        passed = set[str]() if there is None else {id_of(there)}
        if begin is not None and (entity := self._at(begin, path)) is not None and id_of(entity) not in passed:
            found = self._find_dropped(self._end(now, path, begin, entity), path)
            if found is None:
                problem = f"what '{dotted_name(now.catalog, *path)}' led to then was not dropped under this name"
                remedy = "it is there, or was dropped, under another name: see the catalog's log"
                raise StateConflict(ErrorType.CANNOT_UNDROP, problem, field="at", remedy=remedy)
            self._require_last(found)
            return found
        for step in self._back(now if begin is None else begin):
            entity = self._at(step.tree, path)
            if entity is None or id_of(entity) in passed:
                continue
            if (found := self._find_dropped(step, path)) is not None:
                return found
            passed.add(id_of(entity))
        return None

    def _back(self, begin: Tree) -> Iterator[_Step]:
        """Yields the steps of the log before ``begin``, newest first, of trees that gc leaves
        alone."""
        since_us = self._since_ms() * 1000
        after = begin
        for _ in range(LOOK_BACK):
            if not after.commit.parents or after.commit.at < since_us:
                return
            id = after.commit.parents[0]
            commit = self._reader.store.find_commit(begin.catalog, id)
            if commit is None:
                return
            tree = Tree.of(begin.catalog, id, commit, self._reader.store.segments(begin.catalog))
            yield _Step(tree, after)
            after = tree
        problem = f"drop in the {LOOK_BACK} commits before number {begin.commit.seq}"
        remedy = "say at which moment the table was there: a time, or a number of the catalog's log"
        raise NotFound("catalog commit", problem, field="at", remedy=remedy)

    def _end(self, now: Tree, path: Path, begin: Tree, entity: Droppable) -> _Step:
        """Returns an end of the time in which ``path`` led to ``entity``, which it did in ``begin``
        and does not ``now``. Raises NotFound if that time ended before the kept history: ``begin``
        may be older, as the tree of a named snapshot."""
        first = begin
        after = begin.commit.seq
        end = now
        gone: NotFound | None = None
        while end.commit.seq - after > 1:
            seq = (after + end.commit.seq) // 2
            try:
                middle = self._kept_tree(now, AsOf(seq=seq))
            except NotFound as error:
                gone = error
                after = seq
                continue
            there = self._at(middle, path)
            if there is not None and id_of(there) == id_of(entity):
                first = middle
                after = seq
            else:
                end = middle
        if gone is not None and first.commit.seq != after:
            raise gone
        return _Step(first, end)

    def _kept_tree(self, now: Tree, at: AsOf) -> Tree:
        """Returns the tree of a moment. Raises NotFound where gc may be removing it."""
        return self._history.kept_tree(now, at, self._since_ms()).tree

    def _since_ms(self) -> int:
        return self._world.clock.now_ms() - self._history_ms

    def _at(self, tree: Tree, path: Path) -> Droppable | None:
        entry = tree.find(path)
        entity = self._reader.store.entity(tree.catalog, entry.obj) if entry is not None else None
        return entity if isinstance(entity, Droppable) else None

    def _find_dropped(self, step: _Step, path: Path) -> PastTable | None:
        """The entity of ``path`` before the step, if the step dropped it and did not rename it."""
        entity = self._at(step.tree, path)
        world = self._world
        assert entity is not None
        if is_awaited(entity):
            return None
        keys = {
            world.space.table(entity.table_id), world.space.external(entity.table_id),
            world.space.location(entity.location)
        }  # fmt: skip
        rows = world.refs.read_many(sorted(keys))
        row = rows.get(world.space.table(entity.table_id))
        head = TableHead.from_row(row) if row is not None else None
        if head is not None and head.state != DROPPED:
            return None
        names = {fold(named(step.tree.catalog, *path)) for named in (dotted_name, stored_name)}
        if head is not None and fold(head.name or "") not in names:
            return None
        if head is None:
            owner = rows.get(world.space.location(entity.location))
            owned = owner is not None and owner.get("table_id") == entity.table_id
            has_head = isinstance(entity, Table) and entity.external is None
            if (owned and not has_head) or self._has_moved(step, path, entity):
                return None
        return PastTable(step.tree, path, entity, head)

    def _has_moved(self, step: _Step, path: Path, entity: Droppable) -> bool:
        """Whether the step gave the table another name. Reads every entry of both trees."""
        before = {entry.obj for _, entry in step.tree.subtree(())}
        own = step.tree.find(path)
        entries = [entry for _, entry in step.after.subtree(())]
        if own is not None and any(entry.obj == own.obj for entry in entries):
            return True
        new = [entry.obj for entry in entries if entry.obj not in before]
        found = self._reader.store.entities(step.after.catalog, new)
        return any(id_of(other) == id_of(entity) for other in found.values())

    def _require_last(self, found: PastTable) -> None:
        """Raises StateConflict where an Iceberg table has newer metadata than it had at the moment
        that was named: it was dropped, restored and dropped again."""
        entity = found.entity
        if isinstance(entity, Table):
            return
        folder, _, name = entity.metadata.rpartition("/")
        if not name.partition("-")[0].isdigit():
            return
        parent, _, last = folder.rpartition("/")
        number = int(name.partition("-")[0])
        for file in self._world.storages.open(parent).list(f"{last}/"):
            other = file.path.rpartition("/")[2].partition("-")[0]
            if file.path.endswith(".metadata.json") and other.isdigit() and int(other) > number:
                problem = f"'{found.full}' went on after the drop that followed this moment"
                remedy = "name a later moment at which it was there, or register its newest metadata file"
                raise StateConflict(ErrorType.CANNOT_UNDROP, problem, field="at", remedy=remedy)
