"""Group commit: changes of one catalog that wait in a process are applied together, in one swap of its HEAD (I21).

    a change comes     1  it joins the line of its catalog
                       2  the first of the line leads; the others wait, and find their outcome there
    the leader         1  takes the changes that wait, up to a limit
                       2  reads the catalog's row, unless it knows the row that its last swap left
                       3  judges each change in the state that those before it leave: a chain of commits (``core.grouping``)
                       4  writes the objs of all of them: one batch
                       5  swaps the HEAD for the last of them: one conditional write, or one transaction with their rows
                       6  tells outcomes; whoever has none stays in the line
                       7  when its own change has an outcome, the next of the line leads

One that is refused spoils nothing: the change after it is judged as if it had not been there. A writer of another process that bypasses the
line makes the swap lose, and all changes are judged again. A crash loses what a crash of each alone would lose.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

import msgspec

from turnstile.catalog.core.grouping import GROUP_CHANGES, Judgement, Swap, Telling, joins, telling
from turnstile.catalog.core.rows import CatalogHead, head_after
from turnstile.catalog.core.tree import Tree
from turnstile.store.core.errors import OutcomeUnknown, Throttled, TooLarge
from turnstile.store.core.writes import Row

if TYPE_CHECKING:
    from turnstile.catalog.commit import CommitAttempts, DraftCommit, Edit, LostSwap, RejectionHandler
    from turnstile.catalog.reader import CatalogReader
    from turnstile.catalog.retry import Backoff, PriorityClaim
    from turnstile.store.ports import World

WAITING_MOST: Final = 1024
"""Changes that wait in one line at most; another one is told to come again later."""

RETRY_MS: Final = 500

FREE_ROUNDS: Final = 2
"""Attempts after which a leader pauses in any case: the second one has read the row, and tells whatever the first could not."""

Judge = Callable[[Tree | None], "Edit | None"]
"""Authorizes a change in a tree and computes it; None: there is no such catalog. Raises what refuses the change."""


class LeftLine(Exception):
    """The line did not move: the change has left it, and nothing of it was applied."""


def _copy_of(error: Exception) -> Exception:
    """Returns the same error for another change: whoever gets it may add to it."""
    twin = type(error).__new__(type(error), *error.args)
    twin.__dict__.update(error.__dict__)
    return twin


class WaitingChange:
    """A change in a line.

    Args:
        judge: called in any thread, as often as the swap needs, with the context of the thread that made this.
        on_rejected: as of ``Committer.commit``.
        row: the catalog's, if it was read after the change was asked for.
        since: when the first thing that the change depends on was read or written (ms).

    Attributes:
        alone: it has to be committed alone, to find out whether it is the one that is too large.
    """

    def __init__(self, judge: Judge, on_rejected: RejectionHandler | None, row: Row | None, since: int) -> None:
        self.row, self.since = row, since
        self._judge, self._on_rejected, self._context = judge, on_rejected, copy_context()
        self._outcome: Tree | BaseException | None = None
        self.turn, self.taken, self.alone = threading.Event(), False, False

    @property
    def settled(self) -> bool:
        return self._outcome is not None

    def judge(self, tree: Tree | None) -> Edit | None:
        return self._context.run(self._judge, tree)

    def rejected(self, rows: Mapping[int, Row | None]) -> None:
        """Tells the change which of its rows refused. Raises what refuses it."""
        if self._on_rejected is not None:
            self._context.run(self._on_rejected, rows)

    def settle(self, outcome: Tree | BaseException) -> None:
        """Gives the change its outcome; the first one counts."""
        if self._outcome is None:
            self._outcome = outcome

    def outcome(self) -> Tree:
        """Returns the tree that has the change, or raises what it was refused with."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


class Line:
    """The changes of one catalog that wait, in the order in which they came. ``row``: the catalog's after the last swap, which may be old by
    now; None where nobody knows it."""

    def __init__(self) -> None:
        self.waiting: list[WaitingChange] = []
        self.row: Row | None = None


Lead = Callable[[Line], None]


class ChangeQueue:
    """The lines of a process. Safe for threads."""

    def __init__(self, most: int = WAITING_MOST) -> None:
        self._most, self._mutex = most, threading.Lock()
        self._lines: dict[str, Line] = {}
        self._leading = threading.local()

    def commit(self, catalog: str, change: WaitingChange, lead: Lead, patience_ms: int) -> Tree:
        """Returns the tree that has ``change``, by whoever led it; ``lead`` is called in this thread if that is its part.

        Raises:
            Throttled: too many changes wait.
            LeftLine: the line did not move for ``patience_ms``, or this thread leads already.
            OutcomeUnknown: whoever leads has not ended.
        """
        if getattr(self._leading, "now", False):  # a change that makes another one would wait for itself
            raise LeftLine
        line, leads = self._join(catalog, change)
        if not leads and not self._wait(change, patience_ms / 1000):
            if self._leave(line, change):
                raise LeftLine
            if not self._wait(change, 4 * patience_ms / 1000):
                raise OutcomeUnknown("the change is being applied by another thread, which has not ended")
        if not change.settled:
            self._leading.now = True
            try:
                lead(line)
            finally:
                self._leading.now = False
                change.settle(OutcomeUnknown("the process that applies the change is ending"))
                self._hand_over(catalog, line)
        return change.outcome()

    def take(self, line: Line) -> list[WaitingChange]:
        """Returns the changes that make the next group; they cannot leave the line any more."""
        with self._mutex:
            group = line.waiting[:GROUP_CHANGES]
            group = group[:1] if group[0].alone else [change for change in group if not change.alone]
            for change in group:
                change.taken = True
            return group

    def release(self, line: Line, group: Sequence[WaitingChange], leader: WaitingChange) -> None:
        """Lets those of ``group`` go that have an outcome; the others stay where they were."""
        with self._mutex:
            line.waiting = [change for change in line.waiting if not change.settled]
            for change in group:
                change.taken = False
        for change in group:
            if change.settled and change is not leader:
                self._wake(change)

    def _join(self, catalog: str, change: WaitingChange) -> tuple[Line, bool]:
        with self._mutex:
            line = self._lines.get(catalog)
            leads = line is None
            if line is None:
                line = self._lines[catalog] = Line()
            if len(line.waiting) >= self._most:
                raise Throttled(f"{self._most} changes of the catalog wait in this server", retry_after_ms=RETRY_MS)
            line.waiting.append(change)
            return line, leads

    def _leave(self, line: Line, change: WaitingChange) -> bool:
        """Takes a change out of its line, unless somebody is at it, or it has an outcome, or is to lead."""
        with self._mutex:
            if change.taken or change.turn.is_set() or change not in line.waiting:
                return False
            line.waiting.remove(change)
            return True

    def _hand_over(self, catalog: str, line: Line) -> None:
        """Lets the next one lead, or closes the line."""
        with self._mutex:
            line.waiting = [change for change in line.waiting if not change.settled]
            if not line.waiting:
                del self._lines[catalog]
                return
            following = line.waiting[0]
            self._wake(following)

    def _wait(self, change: WaitingChange, seconds: float) -> bool:
        return change.turn.wait(seconds)

    def _wake(self, change: WaitingChange) -> None:
        change.turn.set()


class _Judged(msgspec.Struct, frozen=True):
    """A change of a group after an attempt: what it came to, and by what: the tree or the error that it is told. ``real`` as of
    ``core.grouping.telling``; ``rows``: the positions of its writes in the transaction."""

    change: WaitingChange
    judgement: Judgement
    outcome: Tree | Exception | None
    real: bool
    rows: range = range(0)


class GroupTurn:
    """One leader's attempts, until its own change has an outcome. For one thread."""

    def __init__(
        self, world: World, reader: CatalogReader, catalog: str, *, queue: ChangeQueue, line: Line, own: WaitingChange,
        attempts: CommitAttempts, backoff: Backoff, priority: PriorityClaim,
    ) -> None:  # fmt: skip
        self._world, self._reader, self._catalog, self._key = world, reader, catalog, reader.key(catalog)
        self._queue, self._line, self._own = queue, line, own
        self._attempts, self._backoff, self._priority = attempts, backoff, priority
        self._row, self._knows_row = line.row, line.row is not None
        self._seen_by: set[WaitingChange] = set()  # changes that were asked for before the row was the catalog's
        if not self._knows_row and own.row is not None:
            self._row, self._knows_row, self._seen_by = own.row, True, {own}

    def run(self) -> None:
        """Settles the own change, and others on the way."""
        losses = rounds = 0
        try:
            while not self._own.settled:
                rounds += 1
                group = self._queue.take(self._line)
                try:
                    swap = self._attempt(group)
                except Exception as error:  # no change of the group was sent
                    swap = Swap.FAILED
                    for change in group:
                        change.settle(_copy_of(error))
                except BaseException:
                    for change in group:
                        change.settle(OutcomeUnknown("the process that applies the change is ending"))
                    raise
                finally:
                    self._queue.release(self._line, group, self._own)
                if (swap is Swap.LOST or rounds > FREE_ROUNDS) and not self._own.settled:
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
        """Judges the changes, sends those that were accepted, and tells what can be told."""
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
        if swap is Swap.NONE and not all(change.settled for change in group):
            self._knows_row = False
        return swap

    def _read(self, group: Sequence[WaitingChange]) -> bool:
        """Reads the catalog's row where it is not known, and holds back for others; False if the own change gave up meanwhile."""
        while not self._knows_row or self._priority.held_by_other(self._row):
            if self._knows_row and not self._backoff.hold_back(self._priority.look_ms):
                self._own.settle(self._backoff.gave_up(self._catalog))
                return False
            self._row, self._knows_row = self._world.refs.read(self._key), True
            self._seen_by = set(group)
        return True

    def _judge(
        self, group: Sequence[WaitingChange], tree: Tree | None, drafts: list[DraftCommit], judged: list[_Judged]
    ) -> None:
        """Appends to ``drafts`` the commits of the changes that make one, and to ``judged`` what each change came to."""
        store, rows, size_bytes = self._reader.store, dict[str, int](), 0
        for change in group:
            real = change in self._seen_by and not drafts
            try:
                edit = change.judge(tree)
                if edit is None:
                    judged.append(_Judged(change, Judgement.UNCHANGED, tree, real))
                    continue
                assert tree is not None
                keys = [write.key for write in edit.writes]
                if not joins(keys, rows.keys(), len(drafts), size_bytes):
                    judged.append(_Judged(change, Judgement.POSTPONED, None, real))
                    continue
                draft = self._attempts.draft(tree.commit.seq, tree, edit)
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
            lost = self._attempts.swap_all(at, drafts, since, self._priority.id)
        except TooLarge as error:
            return self._too_large(error, judged)
        except OutcomeUnknown as error:
            self._knows_row = False
            return self._tell(judged, Swap.UNKNOWN, error)
        except Exception as error:
            return self._tell(judged, Swap.FAILED, error)
        if lost is not None:
            return self._lost(lost, judged)
        last = drafts[-1].tree
        self._reader.adopt(last)
        heads, now = [draft.tree.head for draft in drafts], self._world.clock.now_ms()
        self._row = head_after(at, heads, last.commit.segments, now, self._priority.id)
        self._seen_by = {each.change for each in judged}
        return self._tell(judged, Swap.ACCEPTED)

    def _lost(self, lost: LostSwap, judged: Sequence[_Judged]) -> Swap:
        """Tells each change which of its own rows refused; all that stay are judged again."""
        self._row, self._seen_by = lost.row, {each.change for each in judged}
        for each in judged:
            own = {position - each.rows.start: row for position, row in lost.failed.items() if position in each.rows}
            if own:
                try:
                    each.change.rejected(own)
                except Exception as error:
                    each.change.settle(error)
        return self._tell([each for each in judged if not each.change.settled], Swap.LOST)

    def _too_large(self, error: TooLarge, judged: Sequence[_Judged]) -> Swap:
        """An obj does not fit into the store: nothing was written. Of several changes each is committed alone, to find out whose it is."""
        changing = [each.change for each in judged if each.judgement is Judgement.CHANGES]
        if len(changing) == 1:
            return self._tell(judged, Swap.FAILED, error)
        for change in changing:
            change.alone = True
        return Swap.LOST

    def _tell(self, judged: Sequence[_Judged], swap: Swap, error: Exception | None = None) -> Swap:
        for each in judged:
            match telling(each.judgement, swap, real=each.real):
                case Telling.OUTCOME:
                    assert each.outcome is not None
                    each.change.settle(each.outcome)
                case Telling.ERROR:
                    assert error is not None
                    each.change.settle(_copy_of(error))
                case Telling.NOTHING:
                    pass
        return swap
