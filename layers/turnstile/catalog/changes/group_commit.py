"""Group commit: changes of one catalog that wait in a process are applied together, in one swap of
its HEAD (I21).

    a change comes     1  it joins the line of its catalog
                       2  the first of the line leads; the others wait, and find their outcome there
    the leader         1  takes the changes that wait, up to a limit
                       2  reads the catalog's row, unless it knows the row that its last swap left
                       3  computes each change in the state that the changes before it leave: a
                          chain of commits (``core.grouping``)
                       4  writes the objs of all of them: one batch
                       5  swaps the HEAD for the last of them: one conditional write, or one
                          transaction with their rows
                       6  completes the changes that have a certain outcome; the others stay in the
                          line
                       7  when its own change has an outcome, the next of the line leads

A refused change has no effect on the change after it. If a writer of another process changes the
HEAD first, the swap loses, and all changes are computed again. A crash loses the same changes as a
crash of each alone would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.catalog.changes.attempts import CommitAttempts, DraftCommit, LostSwap
from turnstile.catalog.changes.retry import Backoff, PriorityClaim
from turnstile.catalog.changes.waiting import ChangeQueue, WaitingChange
from turnstile.catalog.core.grouping import Completion, Judgement, Swap, completion_of, joins
from turnstile.catalog.core.rows import CatalogHead, head_after
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import OutcomeUnknown, TooLarge
from turnstile.store.ports import World
from turnstile.store.queue import Line, copy_of

FREE_ROUNDS: Final = 2
"""Attempts after which a leader pauses in any case: the second one has read the row, and completes
every change that the first could not."""


class _Judged(msgspec.Struct, frozen=True):
    """A change of a group after an attempt: its result, and the tree or the error of its answer.
    ``real`` as of ``core.grouping.completion_of``; ``rows``: the positions of its writes in the
    transaction.
    """

    change: WaitingChange
    judgement: Judgement
    outcome: Tree | Exception | None
    real: bool
    rows: range = range(0)


class GroupTurn:
    """One leader's attempts, until its own change has an outcome. For one thread."""

    def __init__(
        self, world: World, reader: CatalogReader, catalog: str, *, queue: ChangeQueue, line: Line[WaitingChange],
        own: WaitingChange,
        attempts: CommitAttempts, backoff: Backoff, priority: PriorityClaim,
    ) -> None:  # fmt: skip
        self._world = world
        self._reader = reader
        self._catalog = catalog
        self._key = reader.key(catalog)
        self._queue = queue
        self._line = line
        self._own = own
        self._attempts = attempts
        self._backoff = backoff
        self._priority = priority
        self._row = line.row
        self._knows_row = line.row is not None
        self._seen_by: set[WaitingChange] = set()  # changes that were asked for before the row was the catalog's
        if not self._knows_row and own.row is not None:
            self._row = own.row
            self._knows_row = True
            self._seen_by = {own}

    def run(self) -> None:
        """Settles the own change, and others on the way."""
        losses = rounds = 0
        try:
            while not self._own.is_settled:
                rounds += 1
                group = self._queue.take(self._line)
                try:
                    swap = self._attempt(group)
                except Exception as error:  # no change of the group was sent
                    swap = Swap.FAILED
                    for change in group:
                        change.settle(copy_of(error))
                except BaseException:
                    for change in group:
                        change.settle(OutcomeUnknown("the process that applies the change is ending"))
                    raise
                finally:
                    self._queue.release(self._line, group, self._own)
                if (swap is Swap.LOST or rounds > FREE_ROUNDS) and not self._own.is_settled:
                    losses += 1
                    self._pause(losses)
        finally:
            self._attempts.tidy()
            self._line.row = self._row if self._knows_row else None

    def _pause(self, losses: int) -> None:
        """Waits before the next attempt, as one change alone does."""
        if not self._backoff.again():
            self._own.settle(self._backoff.gave_up(self._catalog))
        elif self._backoff.starving:
            self._row = self._priority.claim(self._key)
        elif losses > 1:  # the row is old after a pause: an attempt from it would lose as well
            self._knows_row = False

    def _attempt(self, group: Sequence[WaitingChange]) -> Swap:
        """Evaluates the changes, commits the accepted ones, and completes the changes that have a
        certain outcome."""
        if not self._read(group):
            return Swap.NONE
        tree = None if self._row is None else self._reader.unauthorized_at(self._catalog, self._row)
        drafts: list[DraftCommit] = []
        judged: list[_Judged] = []
        try:
            self._judge(group, tree, drafts, judged)
            if not drafts:
                swap = Swap.NONE
                self._tell(judged, swap)
            else:
                swap = self._swap(drafts, judged)
        finally:
            self._reader.store.hide([draft.tree for draft in drafts])
        if swap is Swap.NONE and not all(change.is_settled for change in group):
            self._knows_row = False
        return swap

    def _read(self, group: Sequence[WaitingChange]) -> bool:
        """Reads the catalog's row where it is not known, and holds back for others; False if the
        own change gave up meanwhile."""
        while not self._knows_row or self._priority.held_by_other(self._row):
            if self._knows_row and not self._backoff.hold_back(self._priority.look_ms):
                self._own.settle(self._backoff.gave_up(self._catalog))
                return False
            self._row = self._world.refs.read(self._key)
            self._knows_row = True
            self._seen_by = set(group)
        return True

    def _judge(
        self, group: Sequence[WaitingChange], tree: Tree | None, drafts: list[DraftCommit], judged: list[_Judged]
    ) -> None:
        """Appends to ``drafts`` the commits of the changes that make one, and to ``judged`` the
        result of each change."""
        store = self._reader.store
        rows = dict[str, int]()
        size_bytes = 0
        for change in group:
            real = change in self._seen_by and not drafts
            try:
                edit = change.judge(tree)
                if edit is None:
                    judged.append(_Judged(change, Judgement.UNCHANGED, tree, real))
                    continue
                assert tree is not None
                assert self._row is not None
                self._attempts.require_kept(edit, self._row)
                keys = [write.key for write in edit.writes]
                if not joins(keys, rows.keys(), len(drafts), size_bytes):
                    judged.append(_Judged(change, Judgement.POSTPONED, None, real))
                    continue
                draft = self._attempts.draft(tree, edit)
            except Exception as error:
                judged.append(_Judged(change, Judgement.REFUSED, error, real))
                continue
            first = sum(len(each.edit.writes) for each in drafts)
            positions = range(first, first + len(keys))
            rows.update(zip(keys, positions, strict=True))
            judged.append(_Judged(change, Judgement.CHANGES, draft.tree, real, positions))
            drafts.append(draft)
            store.show(draft.tree, draft.entities, draft.segments)
            size_bytes += len(draft.tree.commit.embedded)
            tree = draft.tree

    def _swap(self, drafts: Sequence[DraftCommit], judged: Sequence[_Judged]) -> Swap:
        assert self._row is not None
        at = CatalogHead.from_row(self._row)
        since = min(each.change.since for each in judged if each.judgement is Judgement.CHANGES)
        try:
            lost = self._attempts.swap(at, drafts, since, self._priority.id)
        except TooLarge as error:
            return self._too_large(error, judged)
        except OutcomeUnknown as error:
            self._knows_row = False
            return self._tell(judged, Swap.UNKNOWN, error)
        except Exception as error:
            return self._tell(judged, Swap.FAILED, error)
        if lost is not None:
            return self._lose(lost, judged)
        last = drafts[-1].tree
        self._reader.adopt(last)
        heads = [draft.tree.head for draft in drafts]
        now = self._world.clock.now_ms()
        self._row = head_after(at, heads, last.commit.segments, now, self._priority.id)
        self._seen_by = {each.change for each in judged}
        return self._tell(judged, Swap.ACCEPTED)

    def _lose(self, lost: LostSwap, judged: Sequence[_Judged]) -> Swap:
        """Tells each change which of its own rows refused; all that stay are judged again."""
        self._row = lost.row
        self._seen_by = {each.change for each in judged}
        for each in judged:
            own = {position - each.rows.start: row for position, row in lost.failed.items() if position in each.rows}
            if own:
                try:
                    each.change.handle_rejection(own)
                except Exception as error:
                    each.change.settle(error)
        return self._tell([each for each in judged if not each.change.is_settled], Swap.LOST)

    def _too_large(self, error: TooLarge, judged: Sequence[_Judged]) -> Swap:
        """An obj does not fit into the store: nothing was written. Of several changes each is
        committed alone, to find the one with that obj."""
        changing = [each.change for each in judged if each.judgement is Judgement.CHANGES]
        if len(changing) == 1:
            return self._tell(judged, Swap.FAILED, error)
        for change in changing:
            change.alone = True
        return Swap.LOST

    def _tell(self, judged: Sequence[_Judged], swap: Swap, error: Exception | None = None) -> Swap:
        for each in judged:
            match completion_of(each.judgement, swap, real=each.real):
                case Completion.OUTCOME:
                    assert each.outcome is not None
                    each.change.settle(each.outcome)
                case Completion.ERROR:
                    assert error is not None
                    each.change.settle(copy_of(error))
                case Completion.NOTHING:
                    pass
        return swap
