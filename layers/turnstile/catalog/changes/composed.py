"""Several changes of a catalog as one: each is computed from the tree that the changes before it
leave, and all of them are one swap of the HEAD (I8, I9).

    create namespace a; create table a.t; rename b.u to b.w      one edit: three names put, one
                                                                 removed, five rows

A row takes part in a transaction once, so two changes of the same row cannot be composed: a Delta
table is created, renamed or dropped once. Changes that move index entries which they do not read
(the rename of a namespace), or that change members of the catalog itself (its rights, a reset), are
not composed either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Table, kind_of
from turnstile.catalog.core.index import IndexEntry, LayeredIndex
from turnstile.catalog.core.paths import Path, key_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import View
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.core.writes import Row, Write

_MESSAGE_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change that is a member of a group. ``authorize`` raises PermissionDenied unless its
    principal may make it in the tree that it is computed from (I12)."""

    change: CatalogChange
    authorize: Callable[[View], None]


class RefusedChange(msgspec.Struct, frozen=True):
    """The change at ``index`` was refused with ``error``, in the state that commit ``seq`` of the
    catalog left."""

    index: int
    error: TurnstileError
    seq: int


class DraftView(View):
    """A tree as changes leave it that are not committed yet. Their entities have ids that are valid
    in this view only."""

    def __init__(self, view: View) -> None:
        super().__init__(view.tree, view.store)
        self._entities: dict[str, Entity] = {}
        self._put: dict[str, tuple[Path, Entity]] = {}
        self._removed: dict[str, Path] = {}

    @property
    def put(self) -> dict[Path, Entity]:
        """The put entities, under names that still lead to them."""
        return dict(self._put.values())

    @property
    def removed_paths(self) -> tuple[Path, ...]:
        return tuple(self._removed.values())

    def entity(self, obj: str) -> Entity:
        entity = self._entities.get(obj)
        return super().entity(obj) if entity is None else entity

    def entities(self, objs: Sequence[str]) -> dict[str, Entity]:
        drafts = {obj: self._entities[obj] for obj in objs if obj in self._entities}
        stored = [obj for obj in objs if obj not in drafts]
        return {**drafts, **(super().entities(stored) if stored else {})}

    def apply(self, edit: Edit) -> None:
        """Makes the view show the tree after ``edit``. Raises ValueError for an edit that cannot be
        composed."""
        if edit.entries or edit.access is not None or edit.restores or edit.replaced is not None or edit.more:
            raise ValueError(f"'{edit.message}' cannot be composed with other changes")
        entries: dict[str, IndexEntry] = {}
        for path, entity in edit.put.items():
            key = key_of(path)
            obj = f"draft/{len(self._entities)}"
            entries[key] = IndexEntry(kind_of(entity), obj, entity.table_id if isinstance(entity, Table) else "")
            self._entities[obj] = entity
            self._put[key] = (path, entity)
            self._removed.pop(key, None)
        for path in edit.remove:
            key = key_of(path)
            self._put.pop(key, None)
            self._removed[key] = path
        tree = self.tree
        embedded = tree.index.with_changes(entries, [key_of(path) for path in edit.remove])
        index = LayeredIndex(embedded, tree.index.directory, self.store.segments(tree.catalog))
        self.tree = Tree(tree.catalog, tree.head, tree.commit, index)


class Composition:
    """The changes of one group; ``apply`` and ``on_rejected`` as of one change. Only for one
    commit, which may take several attempts.

    Attributes:
        refused: the change that was refused, and so the reason of the last raised error.
    """

    def __init__(self, changes: Sequence[GroupChange]) -> None:
        self._changes = changes
        self._starts: list[int] = []  # of each change's rows among those of all
        self._seq = 0
        self.refused: RefusedChange | None = None

    def apply(self, view: View) -> Edit | None:
        """All changes in their order, computed from one tree; None if nothing changes. Raises the
        error of the first refused one, whose ``field`` begins with the change, and InvalidRequest
        if two change the same row.
        """
        self._starts = []
        self._seq = view.tree.commit.seq
        draft = DraftView(view)
        messages = list[str]()
        writes = list[Write]()
        owners: dict[str, int] = {}
        for index, member in enumerate(self._changes):
            self._starts.append(len(writes))
            with self._naming(index):
                member.authorize(draft)
                edit = member.change.apply(draft)
                if edit is None:
                    continue
                for write in edit.writes:
                    earlier = owners.setdefault(write.key, index)
                    if earlier != index:
                        raise _twice(f"changes[{earlier}]")
                draft.apply(edit)
            messages.append(edit.message)
            writes += edit.writes
        if not messages:
            return None
        message = "; ".join(messages)
        return Edit(message[:_MESSAGE_MAX], put=draft.put, remove=draft.removed_paths, writes=tuple(writes))

    def on_rejected(self, failed: Mapping[int, Row | None]) -> None:
        """Passes rejected rows to the changes that they belong to, numbered as each numbers its
        own."""
        ends = [*self._starts[1:], max(failed, default=-1) + 1]
        for index, (member, start, end) in enumerate(zip(self._changes, self._starts, ends, strict=True)):
            own = {at - start: row for at, row in failed.items() if start <= at < end}
            if own and member.change.on_rejected is not None:
                with self._naming(index):
                    member.change.on_rejected(own)

    def report_outcome(self, *, applied: bool) -> None:
        """Tells all changes the outcome."""
        for member in self._changes:
            member.change.settled(applied)

    @contextmanager
    def _naming(self, index: int) -> Iterator[None]:
        """An error of a change says which."""
        try:
            yield
        except TurnstileError as error:
            place = f"changes[{index}]"
            error.field = f"{place}.{error.field}" if error.field else place
            self.refused = RefusedChange(index, error, self._seq)
            raise


def _twice(earlier: str) -> InvalidRequest:
    problem = f"it changes the same table or location as {earlier}, and a row takes part in a transaction once"
    return InvalidRequest(problem, remedy="send one of the two in a transaction of its own")
