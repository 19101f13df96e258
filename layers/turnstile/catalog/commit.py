"""Changing a catalog: write objs, then swap one HEAD (design 2.4).

    1  the catalog's row          read, or given by the caller's batch, or by the refusal of the attempt before
    2  its tree                   cached, or one read
    3  the change, computed       a function without side effects; refusals are raised here
    4  objs                       the new commit, and entities that no earlier attempt wrote: one batch
    5  the swap                   one conditional write; one transaction if other rows change with it
    6  refused                    the returned row says whether this very commit landed before its answer was lost;
                                  otherwise 2 again, at first from that row, later after a pause and a fresh look

A crash before 5 leaves unreachable objs; at 5 the change is there entirely or not at all (I9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnstile.catalog.change import ChangeFunction, Edit, Judge, View
from turnstile.catalog.core.entities import Entity, Table, kind_of
from turnstile.catalog.core.index import Index, IndexEntry, LayeredIndex, pack_directory
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.core.rows import CatalogHead, swap_head
from turnstile.catalog.core.spill import Spilled, spill
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.retry import STARVING, Backoff, Pause, Turn, no_pause
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected, World

DEADLINE_MS = 10_000


class Committer:
    """Applies changes to catalogs. As many as are wanted per sandbox; safe for threads.

    Args:
        reader: the sandbox's reader; its store is written through.
        pause: how to wait between attempts.
        deadline_ms: time for all attempts of one change.
        in_line: whether changes stand in the line of the sandbox (``reader.store.line``). Not where an earlier one may
            never end.
        starving: the part of the deadline after which a change asks to go first; 1, in measurements, for never.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        *,
        pause: Pause = no_pause,
        deadline_ms: int = DEADLINE_MS,
        in_line: bool = True,
        starving: float = STARVING,
    ) -> None:
        self._world, self._reader = world, reader
        self._pause, self._deadline_ms, self._starving = pause, deadline_ms, starving
        self._line = reader.store.line if in_line else None

    def commit(
        self, catalog: str, change: ChangeFunction, *, row: Row | None = None, judge: Judge | None = None
    ) -> Tree:
        """Apply ``change`` and return the tree that has it.

        Args:
            catalog: its name.
            row: the catalog's row, if the caller just read it.
            judge: what to do when other rows of the change refuse; without one it is computed anew from what they are
                now.

        Raises:
            NotFound: no such catalog.
            StateConflict: ``ConcurrentChange``: others were faster until the deadline; nothing was applied.
            Throttled: the change was held up for longer than a function may take; nothing was applied.
            TooLarge: the catalog's index does not fit into one obj; nothing was applied.
            OutcomeUnknown: the swap's answer was lost until the deadline.
            TurnstileError: whatever ``change`` and ``judge`` raise; nothing was applied.
        """
        if self._line is None:
            return self._commit(catalog, change, row, judge)
        with self._line.stand(self._reader.key(catalog), self._deadline_ms // 2):
            return self._commit(catalog, change, row, judge)

    def _commit(self, catalog: str, change: ChangeFunction, row: Row | None, judge: Judge | None) -> Tree:
        world, key = self._world, self._reader.key(catalog)
        backoff = Backoff(world.clock, world.ids, self._pause, deadline_ms=self._deadline_ms, starving=self._starving)
        attempts, turn = Attempts(world, self._reader.store, backoff, self._since()), Turn(world)
        row = row or world.refs.read(key)
        lost = 0
        try:
            while True:
                while turn.others(row):
                    if not backoff.hold_back(turn.look_ms):
                        raise backoff.gave_up(catalog)
                    row = world.refs.read(key)
                tree = self._reader.at(catalog, row)
                edit = change(View(tree, self._reader.store))
                if edit is None:
                    return tree
                assert row is not None
                answer = attempts.swap(CatalogHead.from_row(row), tree, edit, turn.id)
                if isinstance(answer, Tree):
                    self._reader.adopt(answer)
                    return answer
                row = answer.row
                if answer.failed and judge is not None:
                    judge(answer.failed)
                lost += 1
                if not backoff.again():
                    raise backoff.gave_up(catalog)
                if backoff.starving:
                    row = turn.ask(key)
                elif lost > 1:  # after a pause the row is an old one, and an attempt from it would be lost as well
                    row = world.refs.read(key)
        finally:
            attempts.tidy()

    def _since(self) -> int:
        """When the first was looked at, or written, of what a change that begins now goes by (ms)."""
        return self._world.clock.now_ms()


# -- attempts ---------------------------------------------------------------------------------------------------------
# The attempts of one catalog change: what was written, what may be used again, what may be deleted.
#
# HEAD ids are used once. So as soon as the row has moved past the id that an attempt expected, that attempt can never
# land any more, whatever became of its answer: only then are its objs deleted here. In every other case gc does it.


class Lost(msgspec.Struct, frozen=True):
    """The swap was refused: the catalog's row now, and the other rows that refused by position in ``Edit.writes``."""

    row: Row | None
    failed: Mapping[int, Row | None] = {}


OUTLIVED_MS: Final = 15 * 60_000
"""As long as any function may take. A change that is older was frozen with its sandbox, and what it would make reachable
may be as old: entities of an earlier attempt, files that its function wrote, an obj whose parts are gone by now. gc counts
on a commit's objs to be written within ``gc_plan.SETTLED_MS`` of the time that the commit carries (I10). What freezes later,
on its way into the store, is met by a condition of the swap (``core.catalog_rows``)."""


class Attempts:
    """One change, attempt by attempt.

    Args:
        since: when the first was looked at, or written, of what the change goes by (ms).
    """

    def __init__(self, world: World, store: CatalogStore, backoff: Backoff, since: int) -> None:
        self._world, self._store, self._backoff, self._since = world, store, backoff, since
        self._memo: dict[tuple[str, str], tuple[Entity, str]] = {}
        self._stored: set[str] = set()
        self._dead: set[str] = set()
        self._catalog = ""

    def swap(self, at: CatalogHead, tree: Tree, edit: Edit, turn: str = "") -> Tree | Lost:
        """Write the objs of ``edit`` and make them the HEAD, if the HEAD still is ``at``; that ends ``turn``.

        Raises:
            Throttled: nothing was applied: by the store, or the change is older than ``OUTLIVED_MS``.
            OutcomeUnknown: the answer was lost until the deadline.
        """
        self._catalog = at.name
        placed = self._place(tree, edit)
        embedded = tree.index.with_changes(
            {**edit.entries, **{key: entry for key, (_, entry) in placed.items()}},
            [key_of(path) for path in edit.remove],
        )
        id, now = self._store.new_commit_id(), self._world.clock.now_ms()
        index = self._spilled(tree, embedded, id)
        segments = pack_directory(index.directory)
        access = tree.commit.access if edit.access is None else edit.access
        commit = CatalogCommit(
            seq=at.seq + 1,
            parents=parents_after(at.seq, at.head, tree.commit.parents),
            message=edit.message,
            at=max(now * 1000, tree.commit.at + 1),  # of two servers' clocks one is behind; the log goes forwards
            embedded=index.embedded.packed,
            segments=segments,
            access=access,
            restores=edit.restores,
            restored_by=tree.head if tree.commit.restores else tree.commit.restored_by,
        )
        entities = {entry.obj: entity for entity, entry in placed.values()}
        self._dead -= entities.keys()  # used again: until an answer says otherwise this attempt may make them reachable
        fresh = {obj: one for obj, one in entities.items() if obj not in self._stored}
        self._store.write(at.name, id, commit, fresh, index.written)
        self._stored |= entities.keys()
        held_up = self._world.clock.now_ms() - self._since
        if held_up > OUTLIVED_MS:
            self._dead |= {id, *entities, *index.written}
            raise Throttled(f"the change of catalog '{at.name}' was held up for {held_up // 1000} s")
        answer = self._send(at, id, [swap_head(at, id, now, segments, turn=turn, replaced=edit.replaced), *edit.writes])
        if not isinstance(answer, Lost) or self._landed(answer.row, id, commit.seq):
            layered = LayeredIndex(index.embedded, index.directory, self._store.segments(at.name))
            return Tree(at.name, id, commit, layered)
        if answer.row is not None and answer.row["head"] != at.head:
            self._dead |= {id, *entities, *index.written}
        return answer

    def tidy(self) -> None:
        """Delete what can never be reached."""
        for id in self._dead:
            try:
                self._store.delete(self._catalog, id)
            except Exception:  # the change's own outcome is what the caller must hear; gc finds what stays behind
                return

    def _spilled(self, tree: Tree, embedded: Index, id: str) -> Spilled:
        """The index as the commit ``id`` has it. Writers wait differently long before they spill: of many that do so at
        once all but one would have written a segment for nothing."""
        store = self._store
        return spill(
            embedded,
            tree.index.directory,
            store.limits,
            load=store.segments(tree.catalog).load,
            new_id=store.new_segment_id,
            patience=int(id[-4:], 16) / 0x1_0000,
        )

    def _place(self, tree: Tree, edit: Edit) -> dict[str, tuple[Entity, IndexEntry]]:
        """Index entries of the entities; under the id of an earlier attempt when that wrote the same entity over the
        same obj."""
        placed: dict[str, tuple[Entity, IndexEntry]] = {}
        for path, entity in edit.put.items():
            before = tree.find(path)
            slot = (key_of(path), before.obj if before else "")
            known = self._memo.get(slot)
            id = known[1] if known is not None and known[0] == entity else self._store.new_entity_id()
            self._memo[slot] = (entity, id)
            table_id = entity.table_id if isinstance(entity, Table) else ""
            placed[slot[0]] = (entity, IndexEntry(kind_of(entity), id, table_id))
        return placed

    def _send(self, at: CatalogHead, id: str, writes: list[Write]) -> Accepted | AllAccepted | Lost:
        """Send until there is an answer. Sending the same swap again is harmless: it is applied now, or refused by a
        row that tells whether it was applied before.

        Raises:
            Throttled: nothing was applied.
            OutcomeUnknown: the answer was lost until the deadline, or nobody took the swap that was sent again (I3).
        """
        unknown: OutcomeUnknown | None = None
        answer: Accepted | Rejected | AllAccepted | SomeRejected
        while True:
            try:
                if len(writes) == 1:
                    answer = self._world.refs.write(writes[0])
                else:
                    answer = self._world.refs.transact(writes, id)
            except OutcomeUnknown as lost:
                unknown = lost
                if not self._backoff.again():
                    raise
                continue
            except Throttled:
                if unknown is None:
                    raise
                raise unknown from None  # what is known of the last try says nothing of the one before
            if isinstance(answer, Accepted | AllAccepted):
                return answer
            return self._refused(at, answer, uncertain=unknown is not None or answer.uncertain)

    def _refused(self, at: CatalogHead, answer: Rejected | SomeRejected, *, uncertain: bool) -> Lost:
        """Who refused. ``uncertain``: an answer to the same swap was lost before. That one can no longer land once the HEAD
        has moved, and whether it did is in the history; but while the HEAD stands still, whatever refused may pass (I3).
        """
        if isinstance(answer, Rejected):
            lost = Lost(answer.row)
        else:
            failed = {position - 1: row for position, row in answer.failed.items() if position}
            try:
                lost = Lost(answer.failed[0] if 0 in answer.failed else self._world.refs.read(at.key), failed)
            except (StorageFault, Throttled) as error:
                if not uncertain:
                    raise
                raise OutcomeUnknown(f"an answer was lost, and the HEAD could not be read: {error.message}") from error
        if uncertain and (lost.row is None or lost.row["head"] == at.head):
            raise OutcomeUnknown(f"an answer to a change of catalog '{at.name}' was lost; the same, again, was refused")
        return lost

    def _landed(self, row: Row | None, id: str, seq: int) -> bool:
        """Whether commit ``id`` became the HEAD some time ago (I3: an answer lost and found is a success)."""
        if row is None:
            return False
        head = CatalogHead.from_row(row)
        if id in head.recent or head.seq - len(head.recent) < seq:
            return id in head.recent
        parent = head.recent[-1]
        while True:  # more commits came in between than the row remembers: walk back
            try:
                tree = self._store.find_tree(head.name, parent)
            except (StorageFault, Throttled) as error:
                raise OutcomeUnknown(f"whether catalog commit {id} was applied could not be read") from error
            if tree is None:
                raise OutcomeUnknown(f"the answer to catalog commit {id} was lost, and its successors are gone")
            if tree.commit.seq <= seq or not tree.commit.parents:
                return parent == id
            parent = tree.commit.parents[0]
