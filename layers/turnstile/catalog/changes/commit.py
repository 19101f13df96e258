"""Commits changes to a catalog: writes objs, then swaps one HEAD (design 2.4).

A change is a function without side effects that computes an ``Edit`` from a ``View`` of the present
tree. ``Committer`` calls it as often as the swap of the HEAD needs:

    1  the catalog's row          read, or given by the caller, or returned by the refused swap
                                  before
    2  its tree                   cached, or one read
    3  the change function        refusals are raised here
    4  objs                       the new commit, and entities that no earlier attempt wrote: one
                                  batch
    5  the swap                   one conditional write; one transaction if other rows change with
                                  it
    6  if the swap is refused     the returned row says whether this very commit landed before its
                                  answer was lost;
                                  otherwise again from 2, at first with that row, later after a
                                  pause and a fresh read

A crash before 5 leaves unreachable objs; at 5 the change is made entirely or not at all (I9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from turnstile.catalog.changes.group_commit import ChangeQueue, GroupTurn, WaitingChange
from turnstile.catalog.changes.retry import STARVING, Backoff, PriorityClaim
from turnstile.catalog.core.entities import Entity, Table, kind_of
from turnstile.catalog.core.index import Index, IndexEntry, LayeredIndex, pack_directory
from turnstile.catalog.core.paths import Path, key_of
from turnstile.catalog.core.rows import CatalogHead, end_sweep, is_swept, swap_head, swept_ahead
from turnstile.catalog.core.spill import spill
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.store import CatalogStore
from turnstile.rights.grants import Access
from turnstile.store.core.errors import NewerFormat, NotFound, OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Rejected, SomeRejected, World
from turnstile.store.queue import LeftLine, Line
from turnstile.store.retry import Pause, no_pause

DEADLINE_MS: Final = 10_000

MAX_ROWS: Final = TRANSACT_MAX - 2
"""Writes that an edit has at most. One row of the transaction is the catalog's, and one may
remember a request that carries an idempotency key."""

OUTLIVED_MS: Final = 15 * 60_000
"""The longest time a function may run. An older change ran in a sandbox that was frozen; the objs
and files that it would reference may already be collected: entities of an earlier attempt, files
that its function wrote, an obj without its parts. gc expects the objs of a commit to be written
within ``gc.core.SETTLED_MS`` of the time that the commit carries (I10). Clauses of its own refuse a
swap that is delayed later, on its way into the store (``core.rows``: ``not swept``, ``same
sweeps``).
"""

_LOGGER: Final = logging.getLogger("turnstile.catalog")


class Edit(msgspec.Struct, frozen=True):
    """A change computed from one tree.

    Attributes:
        message: one line for the history.
        put: entities by full name, new or in place of others.
        remove: full names that lead nowhere afterwards; applied after ``put``.
        writes: writes on other rows, in the same transaction as the HEAD: at most ``MAX_ROWS``.
        access: the catalog's own rights from now on; None keeps them.
        entries: index entries by key, of entities that exist already and get another name.
        restores: whether it brings back entities that the changed tree may not lead to.
        replaced: when the tree of the past that is brought back was replaced (ms), if only the kept
            history still protects it from gc: the change is refused once gc has swept entities that
            were replaced then.
        more: whether the same request makes another change after this one.
    """

    message: str
    put: Mapping[Path, Entity] = {}
    remove: tuple[Path, ...] = ()
    writes: tuple[Write, ...] = ()
    access: Access | None = None
    entries: Mapping[str, IndexEntry] = {}
    restores: bool = False
    replaced: int | None = None
    more: bool = False


ChangeFunction = Callable[[View], Edit | None]
"""Returns the change, or None if nothing needs changing; raises the reason for refusing it. Called
again with a newer tree when the catalog was changed meanwhile, so only real conflicts are refused.
"""

RejectionHandler = Callable[[Mapping[int, Row | None]], None]
"""Called with the rows that refused, by position in ``Edit.writes``. Raises the operation's error,
or returns to try again."""


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """A change that is prepared: to be committed alone, or with others in one swap
    (``catalog.changes.composed``).

    Attributes:
        apply, on_rejected: as ``Committer.commit`` takes them.
        settled: called once when the outcome is known, with whether the change was applied. Not
            called where it is unknown.
    """

    apply: ChangeFunction
    on_rejected: RejectionHandler | None = None
    settled: Callable[[bool], None] = lambda _applied: None


class Committer:
    """Applies changes to catalogs. Safe for threads; a sandbox may have several. ``queued``:
    changes of the same sandbox that come at the same time are applied together (``group_commit``);
    not where an earlier one may never end. ``starving``: the part of the deadline after which a
    change claims priority; 1, in measurements, for never.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        *,
        pause: Pause = no_pause,
        deadline_ms: int = DEADLINE_MS,
        queued: bool = True,
        starving: float = STARVING,
    ) -> None:
        self._world = world
        self._reader = reader
        self._pause = pause
        self._deadline_ms = deadline_ms
        self._starving = starving
        self._queue = reader.store.queue if queued else None

    def commit(
        self,
        catalog: str,
        change: ChangeFunction,
        *,
        row: Row | None = None,
        on_rejected: RejectionHandler | None = None,
    ) -> Tree:
        """Applies ``change`` and returns the tree that has it. ``row`` is the catalog's, if the
        caller has just read it. Without ``on_rejected`` the change is computed again when other
        rows of it refuse.

        Raises NotFound; StateConflict ``ConcurrentChange``: others were faster until the deadline;
        Throttled: it was delayed for longer than a function may run; TooLarge: the index does not
        fit into one obj; the errors of ``change`` and ``on_rejected``. Then nothing was applied.
        OutcomeUnknown: the swap's answer was lost until the deadline.
        """
        change, on_rejected = self.extend(change, on_rejected)
        if self._queue is None:
            return self._commit(catalog, change, row, on_rejected)

        waiting = self.waiting(catalog, change, row, on_rejected)
        lead = partial(self.lead, self._queue, catalog, waiting)
        try:
            return self._queue.commit(self._reader.key(catalog), waiting, lead, self._deadline_ms // 2)
        except LeftLine:
            return self._commit(catalog, change, None, on_rejected)

    def waiting(
        self, catalog: str, change: ChangeFunction, row: Row | None = None, on_rejected: RejectionHandler | None = None
    ) -> WaitingChange:
        """Returns the change as it waits in a line."""

        def judge(tree: Tree | None) -> Edit | None:
            if tree is None:
                tree = self._reader.at(catalog, None)  # raises what is told of a catalog that does not exist
            elif self._reader.authorizer is not None:
                self._reader.authorizer.authorize(tree)
            return change(View(tree, self._reader.store))

        return WaitingChange(judge, on_rejected, row, self.since())

    def lead(self, queue: ChangeQueue, catalog: str, own: WaitingChange, line: Line[WaitingChange]) -> None:
        """Applies the changes of a line until ``own``, its first, has an outcome."""
        world = self._world
        backoff = Backoff(world.clock, world.ids, self._pause, deadline_ms=self._deadline_ms, starving=self._starving)
        attempts = CommitAttempts(world, self._reader.store, backoff, own.since)
        GroupTurn(
            world, self._reader, catalog, queue=queue, line=line, own=own, attempts=attempts, backoff=backoff,
            priority=PriorityClaim(world),
        ).run()  # fmt: skip

    def _commit(
        self, catalog: str, change: ChangeFunction, row: Row | None, on_rejected: RejectionHandler | None
    ) -> Tree:
        world = self._world
        key = self._reader.key(catalog)
        backoff = Backoff(world.clock, world.ids, self._pause, deadline_ms=self._deadline_ms, starving=self._starving)
        attempts = CommitAttempts(world, self._reader.store, backoff, self.since())
        priority = PriorityClaim(world)
        row = row or world.refs.read(key)
        losses = 0
        try:
            while True:
                while priority.held_by_other(row):
                    if not backoff.hold_back(priority.look_ms):
                        raise backoff.gave_up(catalog)
                    row = world.refs.read(key)
                tree = self._reader.at(catalog, row)
                edit = change(View(tree, self._reader.store))
                if edit is None:
                    return tree
                assert row is not None
                attempts.require_kept(edit, row)
                outcome = attempts.swap(CatalogHead.from_row(row), tree, edit, priority.id)
                if isinstance(outcome, Tree):
                    self._reader.adopt(outcome)
                    return outcome
                row = outcome.row
                if outcome.failed and on_rejected is not None:
                    on_rejected(outcome.failed)
                losses += 1
                if not backoff.again():
                    raise backoff.gave_up(catalog)
                if backoff.starving:
                    row = priority.claim(key)
                elif losses > 1:  # the row is old after a pause: an attempt from it would lose as well
                    row = world.refs.read(key)
        finally:
            attempts.tidy()

    def extend(
        self, change: ChangeFunction, on_rejected: RejectionHandler | None = None
    ) -> tuple[ChangeFunction, RejectionHandler | None]:
        """Returns ``change`` and ``on_rejected`` as they are committed: with what this committer
        adds to each of its changes."""
        return change, on_rejected

    def since(self) -> int:
        """Returns when the first thing that a change depends on was read or written (ms), for a
        change that begins now."""
        return self._world.clock.now_ms()


class LostSwap(msgspec.Struct, frozen=True):
    """The swap was refused: the catalog's row now, and the other rows that refused by position in
    ``Edit.writes``."""

    row: Row | None
    failed: Mapping[int, Row | None] = {}


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

    def __init__(self, world: World, store: CatalogStore, backoff: Backoff, since: int) -> None:
        self._world = world
        self._store = store
        self._backoff = backoff
        self._since = since
        self._ids: dict[tuple[str, str], tuple[Entity, str]] = {}
        self._stored: set[str] = set()
        self._unreachable: set[str] = set()
        self._catalog = ""

    def swap(self, at: CatalogHead, tree: Tree, edit: Edit, turn: str = "") -> Tree | LostSwap:
        """Writes the objs of ``edit`` and makes them the HEAD, if the HEAD is still ``at``; that
        ends the priority claim ``turn``. Raises as ``Committer.commit``."""
        draft = self.draft(at.seq, tree, edit)
        outcome = self.swap_all(at, [draft], self._since, turn)
        return draft.tree if outcome is None else outcome

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

    def draft(self, seq: int, tree: Tree, edit: Edit) -> DraftCommit:
        """Returns the commit that follows ``tree``, number ``seq``, with ``edit``. Nothing is
        written yet."""
        placed = self._place(tree, edit)
        embedded = tree.index.with_changes(
            {**edit.entries, **{key: entry for key, (_, entry) in placed.items()}},
            [key_of(path) for path in edit.remove],
        )
        id = self._store.new_commit_id()
        now = self._world.clock.now_ms()
        index = spill(
            embedded,
            tree.index.directory,
            self._store.limits,
            load=self._store.segments(tree.catalog).load,
            new_id=self._store.new_segment_id,
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
        )
        entities = {entry.obj: entity for entity, entry in placed.values()}
        layered = LayeredIndex(index.embedded, index.directory, self._store.segments(tree.catalog))
        return DraftCommit(Tree(tree.catalog, id, commit, layered), edit, entities, index.written)

    def swap_all(self, at: CatalogHead, drafts: Sequence[DraftCommit], since: int, turn: str = "") -> LostSwap | None:
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

    def _place(self, tree: Tree, edit: Edit) -> dict[str, tuple[Entity, IndexEntry]]:
        """Returns the entities of the edit with their index entries, by key. An entity keeps the id
        of an earlier attempt that put the same entity in place of the same obj."""
        placed: dict[str, tuple[Entity, IndexEntry]] = {}
        for path, entity in edit.put.items():
            before = tree.find(path)
            slot = (key_of(path), before.obj if before else "")
            earlier = self._ids.get(slot)
            id = earlier[1] if earlier is not None and earlier[0] == entity else self._store.new_entity_id()
            self._ids[slot] = (entity, id)
            table_id = entity.table_id if isinstance(entity, Table) else ""
            placed[slot[0]] = (entity, IndexEntry(kind_of(entity), id, table_id))
        return placed

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
