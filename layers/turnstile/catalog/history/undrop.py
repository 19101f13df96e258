"""Brings one dropped table or view back, by a commit of the catalog; everything else stays
unchanged (I9).

The parts that a drop removed come back in one transaction with the name:

    Delta, managed     the HEAD, as long as gc has not begun to purge the table (I10)
    Delta, imported    the HEAD, as long as no other import has taken the location and its log has
                       not gone on
    a clone            the HEAD, and the hold on the location of its source
    registered only    the location and the row that leads there, if nothing else has the location
    Iceberg            the location, or, after a drop with the files, the end of the tombstone; the
                       holds of a clone

A table that was stuck when it was dropped is stuck again. The table gets the rights that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.entities import IcebergTable, IcebergView, Table
from turnstile.catalog.core.location_rows import (
    HeldLocation,
    Location,
    claim,
    conflict,
    hold,
    keys_above,
    owner_row,
    still_owned,
)
from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.core.rows import new_external
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.describe import not_active
from turnstile.catalog.history.core import AsOf, report_field
from turnstile.catalog.history.dropped import Droppable, DroppedTables, PastTable
from turnstile.catalog.history.reset import held_again
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, TableHead, gone_for_good
from turnstile.delta.core.writes.state import forget_head, restore_head
from turnstile.delta.undecided import is_settled
from turnstile.store.core.errors import AlreadyExists, ErrorType, NotFound, StateConflict
from turnstile.store.core.names import check_name, published_path
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import World

Rights = Callable[[Tree, Path, PastTable | None], None]
"""Raises PermissionDenied unless the principal may bring back the entity of the path, by the
present tree and the past one."""

_NOT_DROPPED: Final = "was not dropped within the kept history"
_REGISTER: Final = "register it again, or import it, if its files are elsewhere"


class Undropper:
    """Brings dropped tables and views back. ``rights`` are the rights of the request; ``elsewhere``
    raises PermissionDenied if it may not use locations that the catalog did not choose."""

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        committer: Committer,
        dropped: DroppedTables,
        *,
        rights: Rights,
        elsewhere: Callable[[], None],
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._dropped = dropped
        self._rights = rights
        self._elsewhere = elsewhere

    def undrop(self, catalog: str, path: Path, target: Path, at: AsOf | None = None) -> Path:
        """Gives the last dropped entity of the name ``path`` the name ``target`` (by default the
        same), and returns it as it is written. ``at``: a moment at which it was there, or later;
        needed if more than ``LOOK_BACK`` commits followed.

        Raises:
            PermissionDenied: see ``Rights``.
            NotFound: nothing was dropped there within the kept history; the namespace of ``target``
                is gone.
            AlreadyExists: the name is taken.
            StateConflict: ``CannotUndrop``: gc has removed it, or has begun to, or its location has
                another owner; ``LocationOwned``; ``TableNotActive``.
        """
        check_path(target[:-1])
        check_name(target[-1], "name")
        now = self._reader.current(catalog)
        with report_field("at"):
            past = self._dropped.last(now, path, at)
        self._rights(now, path, past)
        if past is None:
            remedy = "see the catalog's log; a drop before its kept history cannot be undone"
            raise NotFound("table", dotted_name(catalog, *path), field="table", remedy=remedy, problem=_NOT_DROPPED)
        self._require_files(past)
        name = past.entity.name if target == path else target[-1]
        reasons: dict[str, str] = {}

        def change(view: View) -> Edit:
            self._rights(view.tree, path, past)
            view.tree.parent(target[:-1])
            self._require_free(view, target)
            full = dotted_name(view.tree.catalog, *view.written_levels(target[:-1]), name)
            entity = msgspec.structs.replace(past.entity, name=name)
            writes = self._writes(view.tree.catalog, past, full, reasons)
            return Edit(f"undrop {dotted_name(*path)}", put={target: entity}, writes=tuple(writes))

        def on_rejected(rejected: Mapping[int, Row | None]) -> None:
            if past.head is None or 0 not in rejected:
                return  # a location's row has changed since it was read: the change is computed again
            row = rejected[0]
            head = TableHead.from_row(row) if row is not None else None
            if head is None or gone_for_good(head):
                raise _already_removed(past)
            if head.state == DROPPED and reasons.get("", "") != head.reason:
                reasons[""] = head.reason  # it was stuck when it was dropped, and is so again
            elif not is_settled(self._world, row):
                raise not_active(past.full, row)

        tree = self._committer.commit(catalog, change, on_rejected=on_rejected)
        return (*View(tree, self._reader.store).written_levels(target[:-1]), name)

    def _require_free(self, view: View, target: Path) -> None:
        """As ``require_free``, with the remedy for an undrop."""
        try:
            require_free(view, target, "name")
        except AlreadyExists as error:
            error.remedy = "give it another name, or rename the entity that has the name now"
            raise

    def _require_files(self, past: PastTable) -> None:
        """Raises StateConflict ``CannotUndrop`` where gc, or another writer, has come between: at
        once, before anything waits."""
        entity = past.entity
        head = past.head
        if isinstance(entity, Table):
            if entity.external is None and (head is None or gone_for_good(head)):
                raise _already_removed(past)
            imported = entity.external is None and not entity.managed and entity.clone is None
            if imported and head is not None:
                following = published_path(head.latest + 1)
                if self._world.storages.open(entity.location).stat(following) is not None:
                    raise _refusal(past, f"its log went on without it: {following} is there", "import it again")
            return
        if head is not None and gone_for_good(head):
            raise _already_removed(past)
        folder, _, name = entity.metadata.rpartition("/")
        if self._world.storages.open(folder).stat(name) is None:
            raise _already_removed(past)

    def _writes(self, catalog: str, past: PastTable, full: str, reasons: Mapping[str, str]) -> list[Write]:
        """The writes beside the catalog's own; that of the HEAD is the first."""
        entity = past.entity
        now_ms = self._world.clock.now_ms()
        key = self._world.space.table(entity.table_id)
        if isinstance(entity, IcebergTable | IcebergView):
            return self._iceberg_writes(catalog, past, entity, now_ms)
        if entity.external is not None:
            row = self._world.space.external(entity.table_id)
            return [
                *self._claim(catalog, entity, now_ms),
                new_external(row, entity.table_id, catalog, entity.location, now_ms),
            ]
        state = ACTIVE if entity.clone is None else PINNED
        writes: list[Write] = [restore_head(key, full, now_ms, state, reason=reasons.get("", ""))]
        if entity.clone is not None:
            writes += held_again(self._world, [entity], [], room=MAX_ROWS - 1)
        elif not entity.managed:
            location = self._world.space.location(entity.location)
            owner = self._world.refs.read(location)
            if owner is None or owner.get("table_id") != entity.table_id or owner.get("importing"):
                raise _refusal(past, f"its location {entity.location} belongs to another table by now", _REGISTER)
            writes.append(still_owned(location, entity.table_id))
        return writes

    def _iceberg_writes(
        self, catalog: str, past: PastTable, entity: IcebergTable | IcebergView, now_ms: int
    ) -> list[Write]:
        if past.head is not None:
            writes: list[Write] = [forget_head(past.head)]
        elif entity.managed:
            key = self._world.space.location(entity.location)
            if self._world.refs.read(key) is not None:
                raise _refusal(
                    past, f"its location {entity.location} has an owner by now", "rename or drop that one first"
                )
            writes = [owner_row(self._world.space, entity.location, entity.table_id, catalog, now_ms)]
        else:
            writes = self._claim(catalog, entity, now_ms)
        return [*writes, *self._holds(past, needs_of(entity)[1:], entity.table_id)]

    def _claim(self, catalog: str, entity: Droppable, now_ms: int) -> list[Write]:
        """The writes that claim a location which the drop has released."""
        self._elsewhere()
        space = self._world.space
        location = entity.location
        rows = self._world.refs.read_many(keys_above(space, location))
        if (refusal := conflict(space, location, rows)) is not None:
            raise refusal
        return claim(space, location, rows, table_id=entity.table_id, catalog=catalog, now=now_ms)

    def _holds(self, past: PastTable, needs: tuple[HeldLocation, ...], table_id: str) -> list[Write]:
        """The writes that keep the files of its source for an Iceberg clone."""
        keys = {held: self._world.space.location(held.location) for held in needs}
        rows = self._world.refs.read_many(sorted(set(keys.values()))) if keys else {}
        for held, key in keys.items():
            if key not in rows or not Location.from_row(rows[key]).keeps(held):
                raise _refusal(past, f"files that it shows, in {held.location}, are gone or being removed", _REGISTER)
        return [hold(self._world.space, held, [table_id]) for held in keys]


def _already_removed(past: PastTable) -> StateConflict:
    return _refusal(
        past, "gc has removed its files, or has begun to", "restore them from a backup, and import or register them"
    )


def _refusal(past: PastTable, why: str, remedy: str) -> StateConflict:
    return StateConflict(
        ErrorType.CANNOT_UNDROP, f"'{past.full}' cannot be brought back: {why}", field="table", remedy=remedy
    )
