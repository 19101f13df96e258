"""Attempts to commit changes to a catalog: each writes the objs of one change or of a group, and
then swaps the HEAD."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from turnstile.catalog.changes.retry import Backoff
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Table, kind_of
from turnstile.catalog.core.index import Index, IndexEntry, LayeredIndex, pack_directory
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.core.rows import CatalogHead, end_sweep, is_swept, swap_head, swept_ahead
from turnstile.catalog.core.spill import spill
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.errors import NewerFormat, NotFound, OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected, World

OUTLIVED_MS: Final = 15 * 60_000
"""The longest time a function may run. An older change ran in a sandbox that was frozen; the objs
and files that it would reference may already be collected: entities of an earlier attempt, files
that its function wrote, an obj without its parts. gc expects the objs of a commit to be written
within ``gc.core.SETTLED_MS`` of the time that the commit carries (I10). Clauses of its own refuse a
swap that is delayed later, on its way into the store (``core.rows``: ``not swept``, ``same
sweeps``).
"""

_LOGGER: Final = logging.getLogger("turnstile.catalog")


class LostSwap(msgspec.Struct, frozen=True):
    """The swap was refused: the catalog's row now, and the other rows that refused by position in
    ``Edit.writes``."""

    row: Row | None
    failed: Mapping[int, Row | None] = {}


EntityIds = dict[tuple[str, str], tuple[Entity, str]]
"""Entities of earlier attempts of a change with their ids, by key and by the obj that each
replaces."""


@dataclass(frozen=True, slots=True)
class DraftCommit:
    """A commit that is computed and not written yet: the tree that has it, the edit that it was
    made from, and its new entities and index segments by id."""

    tree: Tree
    edit: Edit
    entities: Mapping[str, Entity]
    segments: Mapping[str, Index]


class CommitAttempts:
    """The attempts of one change, or of a group of them: written objs, reusable objs, and objs that
    may be deleted.

    HEAD ids are used once. So once the row has moved past the HEAD that an attempt expected, that
    attempt can never be accepted any more, also if its answer was lost. Only then are its objs
    deleted here; in all other cases gc deletes them.
    """

    def __init__(self, world: World, store: CatalogStore, backoff: Backoff) -> None:
        self._world = world
        self._store = store
        self._backoff = backoff
        self._ids: EntityIds = {}
        self._stored: set[str] = set()
        self._unreachable: set[str] = set()
        self._catalog = ""

    def require_kept(self, edit: Edit, row: Row) -> None:
        """Raises NotFound where ``edit`` brings back a tree that gc may have removed, by the
        catalog's ``row``."""
        replaced = edit.replaced
        if replaced is None or not is_swept(row, replaced, self._world.clock.now_ms()):
            return
        at = datetime.fromtimestamp(replaced / 1000, UTC).isoformat(timespec="milliseconds")
        remedy = (
            "list the catalog's log, and go back to a later HEAD or to a named snapshot: gc has collected older ones"
        )
        raise NotFound("catalog commit", f"{row['name']} at the HEAD that was replaced at {at}", remedy=remedy)

    def draft(self, tree: Tree, edit: Edit) -> DraftCommit:
        """Returns the commit that follows ``tree``, with ``edit``. Nothing is written yet."""
        return draft_commit(self._store, self._world.clock.now_ms(), tree, edit, self._ids)

    def swap(self, at: CatalogHead, drafts: Sequence[DraftCommit], since: int, turn: str = "") -> LostSwap | None:
        """Writes the objs of ``drafts``, each of which follows the one before it, and makes the
        last one the HEAD, if the HEAD is still ``at``: all of them are in the history then, or
        none. Returns the refusal of the swap, if it was refused. ``since``: when the first value
        that they depend on was read or written (ms). Raises as ``Committer.commit``.
        """
        self._catalog = at.name
        last = drafts[-1].tree
        entities = {obj: entity for draft in drafts for obj, entity in draft.entities.items()}
        segments = {id: index for draft in drafts for id, index in draft.segments.items()}
        objs = {*(draft.tree.head for draft in drafts), *entities, *segments}
        self._unreachable -= entities.keys()  # used again: this attempt may make them reachable
        fresh = {obj: entity for obj, entity in entities.items() if obj not in self._stored}
        before = {draft.tree.head: draft.tree.commit for draft in drafts[:-1]}
        self._store.write(at.name, last.head, last.commit, fresh, segments, before=before)
        self._stored |= entities.keys()
        now = self._world.clock.now_ms()
        age_ms = now - since
        if age_ms > OUTLIVED_MS:
            self._unreachable |= objs
            raise Throttled(f"the change of catalog '{at.name}' was held up for {age_ms // 1000} s")
        swap = swap_head(
            at,
            last.head,
            now,
            last.commit.segments,
            turn=turn,
            replaced=min((draft.edit.replaced for draft in drafts if draft.edit.replaced is not None), default=None),
            before=tuple(draft.tree.head for draft in reversed(drafts[:-1])),
        )
        outcome = self._send(at, last.head, [swap, *(write for draft in drafts for write in draft.edit.writes)])
        if not isinstance(outcome, LostSwap) or self._has_landed(outcome.row, last.head, last.commit.seq):
            return None
        if outcome.row is not None and outcome.row["head"] != at.head:
            self._unreachable |= objs
        return self._swept(at, outcome)

    def _swept(self, at: CatalogHead, lost: LostSwap) -> LostSwap:
        """The reason why the swap was refused, after a look at the sweep mark. A mark that is ahead
        of this clock was written by another clock that is ahead, and would refuse every change
        until then: it is taken back. That run of gc may be removing objs that were written before:
        the next attempt writes them again.
        """
        row = lost.row
        now = self._world.clock.now_ms()
        ahead_ms = swept_ahead(row, now)
        if row is None or (row.get("taken_back", 0) == at.taken_back and not ahead_ms):
            return lost
        self._ids.clear()
        self._stored.clear()
        if not ahead_ms:
            return lost
        _LOGGER.warning(
            "gc's mark in catalog %s is %d s ahead of this clock: the clock of that run was ahead; the mark is taken "
            "back",
            at.name, ahead_ms // 1000,
        )  # fmt: skip
        try:
            ended = self._world.refs.write(end_sweep(CatalogHead.from_row(row), now))
        except OutcomeUnknown:  # the next attempt sees whether it was
            return lost
        return msgspec.structs.replace(lost, row=ended.row)

    def tidy(self) -> None:
        for id in self._unreachable:
            try:
                self._store.delete(self._catalog, id)
            except Exception:  # the caller must get the outcome of its change; gc deletes what is left
                return

    def _send(self, at: CatalogHead, id: str, writes: list[Write]) -> Accepted | AllAccepted | LostSwap:
        """Sends the swap until there is an answer. Sending the same swap again is harmless: it is
        applied now, or refused by a row that tells whether it was applied before. Raises Throttled
        if nothing was applied; OutcomeUnknown if an answer was lost until the deadline, or the swap
        that was sent again was not accepted (I3).
        """
        unknown: OutcomeUnknown | None = None
        answer: Accepted | Rejected | AllAccepted | SomeRejected
        while True:
            try:
                if len(writes) == 1:
                    answer = self._world.refs.write(writes[0])
                else:
                    answer = self._world.refs.transact(writes, id)
            except OutcomeUnknown as error:
                unknown = error
                if not self._backoff.again():
                    raise
                continue
            except (NewerFormat, Throttled):
                if unknown is None:
                    raise
                raise unknown from None  # the last try was not applied, the one before may have been
            if isinstance(answer, Accepted | AllAccepted):
                return answer
            return self._lost_swap(at, answer, uncertain=unknown is not None or answer.uncertain)

    def _lost_swap(self, at: CatalogHead, answer: Rejected | SomeRejected, *, uncertain: bool) -> LostSwap:
        """Returns which rows refused. ``uncertain``: an answer to the same swap was lost before.
        That swap can no longer land once the HEAD has moved, and the history says whether it did;
        while the HEAD stands still it may still land: OutcomeUnknown (I3).
        """
        if isinstance(answer, Rejected):
            lost = LostSwap(answer.row)
        else:
            failed = {position - 1: row for position, row in answer.failed.items() if position}
            try:
                row = answer.failed[0] if 0 in answer.failed else self._world.refs.read(at.key)
            except (StorageFault, Throttled) as error:
                if not uncertain:
                    raise
                problem = f"an answer was lost, and the HEAD could not be read: {error.public_message}"
                raise OutcomeUnknown(problem) from error
            lost = LostSwap(row, failed)
        if uncertain and (lost.row is None or lost.row["head"] == at.head):
            raise OutcomeUnknown(f"an answer to a change of catalog '{at.name}' was lost; the same, again, was refused")
        return lost

    def _has_landed(self, row: Row | None, id: str, seq: int) -> bool:
        """Returns whether commit ``id`` was the HEAD at some time (I3: a lost answer that is found
        is a success)."""
        if row is None:
            return False
        head = CatalogHead.from_row(row)
        if id in head.recent or head.seq - len(head.recent) < seq:
            return id in head.recent
        parent = head.recent[-1]
        while True:  # there were more commits since than the row remembers: walk back
            try:
                tree = self._store.find_tree(head.name, parent)
            except (StorageFault, Throttled) as error:
                raise OutcomeUnknown(f"whether catalog commit {id} was applied could not be read") from error
            if tree is None:
                raise OutcomeUnknown(f"the answer to catalog commit {id} was lost, and the log no longer has it")
            if tree.commit.seq <= seq or not tree.commit.parents:
                return parent == id
            parent = tree.commit.parents[0]


def draft_commit(store: CatalogStore, now: int, tree: Tree, edit: Edit, ids: EntityIds | None = None) -> DraftCommit:
    """Returns the commit that follows ``tree``, with ``edit`` at ``now`` (ms). An entity keeps its
    id of ``ids``, which gets the new ones. Nothing is written yet."""
    placed = _place(store, tree, edit, {} if ids is None else ids)
    embedded = tree.index.with_changes(
        {**edit.entries, **{key: entry for key, (_, entry) in placed.items()}},
        [key_of(path) for path in edit.remove],
    )
    id = store.new_commit_id()
    seq = tree.commit.seq
    index = spill(
        embedded,
        tree.index.directory,
        store.limits,
        load=store.segments(tree.catalog).load,
        new_id=store.new_segment_id,
        patience=int(id[-4:], 16) / 0x1_0000,  # random, so that concurrent writers do not all spill at once
    )
    commit = CatalogCommit(
        seq=seq + 1,
        parents=parents_after(seq, tree.head, tree.commit.parents),
        message=edit.message,
        at=max(now * 1000, tree.commit.at + 1),  # the clock may be behind that of the commit before
        embedded=index.embedded.packed_bytes,
        segments=pack_directory(index.directory),
        access=tree.commit.access if edit.access is None else edit.access,
        restores=edit.restores,
        restored_by=tree.head if tree.commit.restores else tree.commit.restored_by,
        incarnation=tree.commit.incarnation,
    )
    entities = {entry.obj: entity for entity, entry in placed.values()}
    layered = LayeredIndex(index.embedded, index.directory, store.segments(tree.catalog))
    return DraftCommit(Tree(tree.catalog, id, commit, layered), edit, entities, index.written)


def _place(store: CatalogStore, tree: Tree, edit: Edit, ids: EntityIds) -> dict[str, tuple[Entity, IndexEntry]]:
    """Returns the entities of the edit with their index entries, by key. An entity keeps the id of
    an earlier attempt that put the same entity in place of the same obj."""
    placed: dict[str, tuple[Entity, IndexEntry]] = {}
    for path, entity in edit.put.items():
        before = tree.find(path)
        slot = (key_of(path), before.obj if before else "")
        earlier = ids.get(slot)
        id = earlier[1] if earlier is not None and earlier[0] == entity else store.new_entity_id(tree.catalog)
        ids[slot] = (entity, id)
        table_id = entity.table_id if isinstance(entity, Table) else ""
        placed[slot[0]] = (entity, IndexEntry(kind_of(entity), id, table_id))
    return placed
