"""The rows that list the work of later scheduled runs (``delta.core.attention``): read one, add to
it, continue from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from turnstile.delta.core import attention as core
from turnstile.delta.core.attention import Attention, Part, Release, Seen, next_part
from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.writes import Row
from turnstile.store.ports import World

PAGE: Final = 250
"""Rows that are looked at before the place behind them counts as reached."""


def releases_of(world: World) -> tuple[Release, ...]:
    """Returns the versions of the code that swept the store, in the order of their first sweep: one
    read. Raises UnreadableRow."""
    row = world.refs.read(world.space.attention())
    return Attention.from_row(row).swept_by() if row is not None else ()


class AttentionRow:
    """One such row of a realm: the sweeper's, or that of another schedule. No state between
    calls."""

    def __init__(self, world: World, of: str = "tables") -> None:
        self._world = world
        self._key = world.space.attention(of)

    def read(self) -> Attention:
        """Returns the row; makes it where there is none."""
        row = self._world.refs.read(self._key)
        if row is None:
            insert = core.first(self._key)
            row = self._world.refs.write(insert).row or insert.row  # or as somebody else made it meanwhile
        return Attention.from_row(row)

    def readable(self) -> Attention | None:
        """Returns the row; None where it is damaged. Every run looks at all rows then, and needs no
        note."""
        try:
            return self.read()
        except UnreadableRow:
            return None

    def note(self, notes: Iterable[str]) -> None:
        """Adds the tables of ``notes`` to the next sweep. Raises as the store does: then only a
        pass over all tables finds them."""
        row = self.readable()
        change = core.note(row, notes) if row is not None else None
        if change is not None:
            self._world.refs.write(change)

    def add_release(self, before: Attention, version: str, day: str) -> None:
        """Records that this version of the code works on the store, unless the row as it was read
        has it."""
        change = core.add_release(before, version, day)
        if change is not None:
            self._world.refs.write(change)

    def want_full_pass(self) -> None:
        """Has the following sweeps look at all tables once."""
        if self.readable() is not None:
            self._world.refs.write(core.want(self._key))

    def settle(self, before: Attention, part: Part, seen: Seen, *, keep_place: bool) -> None:
        """Writes the result of a sweep that began with ``before``."""
        for change in core.settle(before, part, seen, keep_place=keep_place):
            self._world.refs.write(change)


class Rounds:
    """Reads the rows of some kinds in parts, a part a run, round and round, so that the cost of a
    schedule does not grow with the number of rows. After a request for a full pass, the following
    runs read all rows once (decision 60). No state between calls.

    Args:
        of: the schedule's name in the key of its row.
        kinds: the kinds of rows to read; rows of other kinds are only passed.
        rows_max: how many rows a run passes, unless a full pass is in progress.
    """

    def __init__(self, world: World, of: str, kinds: Collection[str], rows_max: int) -> None:
        self._world = world
        self._kinds = kinds
        self._rows_max = rows_max
        self.attention = AttentionRow(world, of)

    def run(
        self,
        look: Callable[[Sequence[Row]], Iterable[str]],
        go_on: Callable[[], bool],
        retry: Callable[[Iterable[str]], Iterable[str]] | None = None,
    ) -> None:
        """One run.

        Args:
            look: is given rows, which may be some seconds old, and returns the ids of the tables to
                look at again. It gets rows again after ``go_on`` returned False or ``look`` raised,
                so it must do no harm twice.
            go_on: whether there is time for more.
            retry: is given the ids of the tables that earlier runs left, before anything else;
                returns the rest again.

        Raises:
            UnreadableRow: the row of the schedule is damaged. All rows were looked at before, from
                the first one, as far as the time sufficed.
        """
        try:
            before = self.attention.read()
        except UnreadableRow:
            self._look_at_all(look, go_on)
            raise
        part = next_part(before, None)
        mark = self._world.ids.uuid()[:8]
        last = part.after
        passed = 0
        left = set(retry(before.tables())) if retry is not None else set[str]()
        while go_on():
            limit = PAGE if part.is_full else min(PAGE, self._rows_max - passed)
            rows, reached = self._world.refs.scan_part(self._kinds, after=last, limit=limit)
            left.update(look(rows))
            if not go_on():
                break
            last = reached
            passed = passed + limit
            if not last or (passed >= self._rows_max and not part.is_full):
                break
        if not passed:  # the place stays where it is
            part = Part(before.after)
            last = before.after
        seen = Seen(last, frozenset(core.note_of(table_id, mark) for table_id in left))
        self.attention.settle(before, part, seen, keep_place=True)

    def _look_at_all(self, look: Callable[[Sequence[Row]], Iterable[str]], go_on: Callable[[], bool]) -> None:
        """Looks at all rows, from the first one, as far as the time suffices. Notes nothing."""
        after = ""
        while go_on():
            rows, after = self._world.refs.scan_part(self._kinds, after=after, limit=PAGE)
            deque(look(rows), maxlen=0)
            if not after:
                break

    def retry(self, retry: Callable[[Iterable[str]], Iterable[str]]) -> None:
        """Tries the tables that were left, and looks at no rows; ``retry`` as of ``run``. A read
        where none was left. Does nothing where the row is damaged, which ``run`` reports."""
        try:
            before = self.attention.read()
        except UnreadableRow:
            return
        mark = self._world.ids.uuid()[:8]
        if before.noted:
            left = frozenset(core.note_of(table_id, mark) for table_id in retry(before.tables()))
            self.attention.settle(before, Part(before.after), Seen(before.after, left), keep_place=False)
