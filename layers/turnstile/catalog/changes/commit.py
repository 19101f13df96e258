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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from turnstile.catalog.changes.attempts import CommitAttempts
from turnstile.catalog.changes.group_commit import GroupTurn
from turnstile.catalog.changes.retry import STARVING, Backoff, PriorityClaim
from turnstile.catalog.changes.waiting import ChangeQueue, Edit, RejectionHandler, WaitingChange, own_rows_only
from turnstile.catalog.core.branches import InheritedTable
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader, View
from turnstile.store.core.writes import Row
from turnstile.store.ports import World
from turnstile.store.queue import LeftLine, Line
from turnstile.store.retry import Pause, no_pause

DEADLINE_MS: Final = 10_000

ChangeFunction = Callable[[View], Edit | None]
"""Returns the change, or None if nothing needs changing; raises the reason for refusing it. Called
again with a newer tree when the catalog was changed meanwhile, so only real conflicts are refused.
"""


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
        self._queued = queued

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
        while True:
            try:
                return self._commit(catalog, change, row, on_rejected)
            except InheritedTable as inherited:
                self._reader.store.make_own(catalog, inherited.path)
                row = None

    def _commit(
        self, catalog: str, change: ChangeFunction, row: Row | None, on_rejected: RejectionHandler | None
    ) -> Tree:
        if self._queued:
            try:
                return self._apply(self._reader.store.queue, catalog, self.waiting(catalog, change, row, on_rejected))
            except LeftLine:
                row = None
        return self._apply(ChangeQueue(), catalog, self.waiting(catalog, change, row, on_rejected))

    def _apply(self, queue: ChangeQueue, catalog: str, change: WaitingChange) -> Tree:
        """Applies a change with those that wait in ``queue``; in a new one, alone."""
        lead = partial(self.lead, queue, catalog, change)
        return queue.commit(self._reader.key(catalog), change, lead, self._deadline_ms // 2)

    def waiting(
        self, catalog: str, change: ChangeFunction, row: Row | None = None, on_rejected: RejectionHandler | None = None
    ) -> WaitingChange:
        """Returns the change as it waits in a line."""

        def judge(tree: Tree | None) -> Edit | None:
            if tree is None:
                tree = self._reader.at(catalog, None)  # raises what is told of a catalog that does not exist
            elif self._reader.authorizer is not None:
                self._reader.authorizer.authorize(tree)
            return own_rows_only(change(View(tree, self._reader.store)), tree)

        return WaitingChange(judge, on_rejected, row, self.since())

    def lead(self, queue: ChangeQueue, catalog: str, own: WaitingChange, line: Line[WaitingChange]) -> None:
        """Applies the changes of a line until ``own``, its first, has an outcome."""
        world = self._world
        backoff = Backoff(world.clock, world.ids, self._pause, deadline_ms=self._deadline_ms, starving=self._starving)
        attempts = CommitAttempts(world, self._reader.store, backoff)
        GroupTurn(
            world, self._reader, catalog, queue=queue, line=line, own=own, attempts=attempts, backoff=backoff,
            priority=PriorityClaim(world),
        ).run()  # fmt: skip

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
