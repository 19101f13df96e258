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

from turnstile.catalog.attempts import Attempts
from turnstile.catalog.backoff import STARVING, Backoff, Pause, no_pause
from turnstile.catalog.change import ChangeFunction, Judge, View
from turnstile.catalog.core.catalog_rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.turns import Turn
from turnstile.store.core.writes import Row
from turnstile.store.world import World

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
