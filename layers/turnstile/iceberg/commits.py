"""Commits: requirements checked and updates applied to one table or to several, all or nothing.

    1  the catalog's tree          one read
    2  per table: its metadata     cached, or one read
    3  requirements, updates       pure; refusals are raised here
    4  new metadata files          one write a table
    5  the swap of the HEAD        one conditional write, whatever the number of tables

When the HEAD moved on between 1 and 5, everything is computed again from the new tree. A table that did not change
meanwhile keeps the file that was written for it, so changes of other tables cost another swap and nothing else. Files
that lost are deleted here as soon as the outcome is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from turnstile.access.core.grants import Access, owner_for
from turnstile.catalog.commit import Edit, View
from turnstile.catalog.core.entities import Entity, IcebergTable
from turnstile.catalog.core.paths import Path, dotted, key_of
from turnstile.iceberg.append_merger import AppendMerger
from turnstile.iceberg.context import Context
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import CommitFailed, TableRequirement, check, creates
from turnstile.iceberg.core.table_updates import applied, created
from turnstile.iceberg.locations import LocationClaim, check_paths
from turnstile.iceberg.tables import LoadedTable, entity_at, lost_place
from turnstile.store.core.errors import InvalidRequest, StateConflict
from turnstile.store.core.writes import Row, Write

MAX_TABLES: Final = 100
"""Tables of one transaction."""

MAX_NEW: Final = 30
"""Tables that one transaction creates: each takes two rows of the hundred that change together, or a row for every
folder above a location of its own choice."""


class TableChange(msgspec.Struct, frozen=True):
    """What to change of the table ``path``."""

    path: Path
    requirements: tuple[TableRequirement, ...]
    updates: tuple[u.TableUpdate, ...]


class Commits:
    """Commits of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def commit(self, catalog: str, changes: Sequence[TableChange]) -> list[LoadedTable]:
        """Apply ``changes``, all or none, and return the tables after them.

        Raises:
            CommitFailed: a requirement does not hold, or an update was computed from an older state. Nothing changed.
            InvalidRequest: an update that cannot be applied; a table named twice.
            NotFound: no such catalog, namespace or table.
            StateConflict: ``LocationOwned``: a new table's location is another's.
            OutcomeUnknown: it may have happened.
        """
        if not 1 <= len(changes) <= MAX_TABLES:
            raise InvalidRequest(f"a transaction changes 1 to {MAX_TABLES} tables", field="table-changes")
        if len({key_of(one.path) for one in changes}) != len(changes):
            raise InvalidRequest("a table is named twice", field="table-changes", remedy="put its changes together")
        if sum(creates(one.requirements) for one in changes) > MAX_NEW:
            raise InvalidRequest(f"a transaction creates at most {MAX_NEW} tables", field="table-changes")
        run = _Run(self._context, changes, [self._place(catalog, one) for one in changes])
        try:
            with self._context.sweeping(run.written):
                self._context.commit(catalog, run.change, run.on_rejected)
        except StateConflict as error:
            if error.type == "ConcurrentChange":
                raise CommitFailed(error.message) from error
            raise
        kept = {file for made in run.latest for file in made.files}
        self._context.forget([file for file in run.written if file not in kept])
        return [LoadedTable(made.entity, made.metadata) for made in run.latest]

    def _place(self, catalog: str, asked: TableChange) -> LocationClaim | None:
        """Where the commit creates its table; None when it changes one."""
        if not creates(asked.requirements):
            return None
        _require_new(self._context.view(catalog), asked.path)
        uuid = next((one.uuid for one in asked.updates if isinstance(one, u.AssignUuid)), "")
        location = next((one.location for one in reversed(asked.updates) if isinstance(one, u.SetLocation)), "")
        if not location:
            raise InvalidRequest("the commit gives the new table no location", field="updates")
        uuid = uuid or self._context.world.ids.uuid()
        return self._context.places.staged(uuid, location, catalog, self._context.principal)


class _Made(msgspec.Struct, frozen=True):
    """A table after its change; ``before`` is the metadata file it was computed from, empty for a new table; ``files``
    were written for it."""

    entity: IcebergTable
    metadata: TableMetadata
    before: str
    files: tuple[str, ...] = ()


class _Run:
    """The attempts of one commit.

    Attributes:
        written: every file that was written so far.
        latest: the tables as the last attempt would have them.
    """

    def __init__(
        self, context: Context, changes: Sequence[TableChange], places: Sequence[LocationClaim | None]
    ) -> None:
        self._context, self._world, self._files = context, context.world, context.files
        self._changes, self._places = changes, places
        self._merger = AppendMerger(context.world.storages, context.world.ids)
        self._first: list[int] = []
        self._memo: dict[int, _Made] = {}
        self.written: list[str] = []
        self.latest: list[_Made] = []

    def change(self, view: View) -> Edit | None:
        """All changes, computed from one tree; None when they change nothing."""
        writes: list[Write] = []
        self.latest, self._first = [], []
        for position, (asked, place) in enumerate(zip(self._changes, self._places, strict=True)):
            self._first.append(len(writes))
            if place is None:
                self.latest.append(self._changed(view, asked, position))
            else:
                made = self._created(view, asked, place, position)
                writes += self._context.places.take(place, view.tree.catalog, made.entity.created)
                self.latest.append(made)
        put: dict[Path, Entity] = {
            asked.path: made.entity
            for asked, made in zip(self._changes, self.latest, strict=True)
            if made.entity.metadata != made.before
        }
        names = ", ".join(dotted(*path) for path in list(put)[:3])
        return Edit(f"commit to {names}"[:200], put=put, writes=tuple(writes)) if put else None

    def on_rejected(self, failed: Mapping[int, Row | None]) -> None:
        """Raise what a failed write of a location means; see ``lost_place``."""
        ends = [*self._first[1:], max(failed) + 1]
        for place, start, end in zip(self._places, self._first, ends, strict=True):
            if place is not None:
                lost_place(place)({at - start: row for at, row in failed.items() if start <= at < end})

    def _created(self, view: View, asked: TableChange, place: LocationClaim, position: int) -> _Made:
        _require_new(view, asked.path)
        if position in self._memo:
            return self._memo[position]
        now = self._world.clock.now_ms()
        metadata = msgspec.structs.replace(created(asked.updates, now, place.table_id), location=place.location)
        check_paths(metadata.properties, place.location)
        file = self._write(place.location, metadata)
        entity = IcebergTable(
            asked.path[-1],
            metadata.table_uuid,
            place.location,
            file,
            now,
            place.managed,
            access=Access(owner_for(self._context.principal)),
        )
        self._memo[position] = _Made(entity, metadata, "", (file,))
        return self._memo[position]

    def _changed(self, view: View, asked: TableChange, position: int) -> _Made:
        old = entity_at(view, asked.path)
        assert isinstance(old, IcebergTable)
        known = self._memo.get(position)
        if known is not None and known.before == old.metadata:
            entity = msgspec.structs.replace(known.entity, name=old.name, access=old.access)
            return msgspec.structs.replace(known, entity=entity)
        base = self._files.table(old.metadata)
        updates, files = self._updates(base, asked)
        now = self._world.clock.now_ms()
        metadata = applied(base, updates, now, old.metadata)
        if metadata.location != base.location:
            raise InvalidRequest("a table cannot be moved", field="updates", remedy="create another one and copy it")
        if metadata == base:
            return _Made(old, base, old.metadata)
        if metadata.properties != base.properties:
            check_paths(metadata.properties, old.location)
        file = self._write(old.location, metadata, old.metadata)
        entity = msgspec.structs.replace(old, metadata=file, updated=now)
        self._memo[position] = _Made(entity, metadata, old.metadata, (file, *files))
        return self._memo[position]

    def _updates(self, base: TableMetadata, asked: TableChange) -> tuple[Sequence[u.TableUpdate], tuple[str, ...]]:
        """What to apply to ``base``, and what was written for that; raises CommitFailed."""
        try:
            for requirement in asked.requirements:
                check(requirement, base)
        except CommitFailed:
            merged = self._merger.merged(base, asked.requirements, asked.updates)
            if merged is None:
                raise
            self.written.append(merged.written)
            return merged.updates, (merged.written,)
        return asked.updates, ()

    def _write(self, location: str, metadata: TableMetadata, previous: str = "") -> str:
        self.written.append(self._files.write(location, metadata, previous))
        return self.written[-1]


def _require_new(view: View, path: Path) -> None:
    """Whether ``path`` can be created now; raises CommitFailed or NotFound."""
    found = view.tree.find(path)
    if found is not None:
        raise CommitFailed(f"requirement failed: {found.kind} '{dotted(*path)}' exists")
    view.tree.parent(path[:-1])
