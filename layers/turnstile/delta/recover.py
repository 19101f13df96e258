"""A table whose HEAD was restored from a backup behind its own log: adopt what is published (design 2.7).

    1  publish    what the restored HEAD knows; from here on the log agrees with it up to ``latest``
    2  begin      one conditional write, if the log goes on after ``latest``: no commits any more
    3  adopt      for v = latest+1 ..: read ``_delta_log/<v>.json``, judge it as the proposal it was, write its metadata
                  snapshot if it changes metadata, and one conditional write that names v
    4  end        nothing more is published: commits again. Or stuck, at the version that cannot be adopted

1, 3 and 4 are the publisher's work (stream, sweeper, ``turnstile repair``); 2 is asked for by an operator, since nobody
else knows of the restore. A crash after any step leaves nothing to undo: the next publisher goes on from the row.

A commit that was ratified after the restore has a later in-commit timestamp than everything before it, so the rule that
timestamps increase (I7) also keeps two histories from being mixed: what was published before the restore is not adopted
on top of what was ratified after it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from turnstile.delta.adoptable import NotAdoptable, Unknowns
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.recover import RECOVERING, adopt, begin_recovery, end_recovery, give_up_recovery, may_recover
from turnstile.delta.core.stuck import stuck_at
from turnstile.delta.effects import with_effects
from turnstile.delta.limits import Limits
from turnstile.delta.metadata import Snapshots
from turnstile.store.core.errors import NotFound, Throttled
from turnstile.store.core.writes import Change
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import Accepted
from turnstile.store.world import World

AT_ONCE: Final = 32
"""Versions adopted before the publisher trims the tail again, so that the row stays within its budget."""


class Advanced(msgspec.Struct, frozen=True):
    """``head`` afterwards, whoever changed it; ``adopted`` versions of this call; ``problem`` why it is stuck now."""

    head: TableHead
    adopted: int
    problem: NotAdoptable | None = None


class Recoverer:
    """Adopts published versions. Any number may work on a table at once; no state between calls."""

    def __init__(self, world: World, limits: Limits | None = None, *, faults: Faults = no_faults) -> None:
        self._world, self._faults = world, faults
        self._unknowns = Unknowns(world, limits)
        self._snapshots = Snapshots(world.objs, world.space)

    def begin(self, table_id: str) -> bool:
        """Step 2: whether the table is recovering now. A table that got stuck in an earlier recovery tries again.

        Raises:
            NotFound: no such table.
            StorageFault: the log could not be listed.
            Throttled, OutcomeUnknown: the store; call again.
        """
        row = self._world.refs.read(self._world.space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        head = TableHead.from_row(row)
        if may_recover(head) and (stuck_at(head) is not None or self._unknowns.after(head)):
            head = self._write(head, begin_recovery(head, self._world.clock.now_ms()), "recover.begun")
        return head.state == RECOVERING

    def advance(self, head: TableHead, *, until_ms: int | None = None) -> Advanced:
        """Steps 3 and 4 of a recovering table, as far as one listing and ``AT_ONCE`` versions lead.

        Args:
            until_ms: begin no version after it.

        Raises:
            NotFound: no such table any more.
            StorageFault: storage could not be read; what was adopted stays adopted.
            Throttled, OutcomeUnknown: the store; call again.
        """
        unknown = self._unknowns.after(head)
        if not unknown:
            return Advanced(self._write(head, end_recovery(head, self._world.clock.now_ms()), "recover.ended"), 0)
        adopted = 0
        for version in islice(unknown, AT_ONCE):
            now = self._world.clock.now_ms()
            if head.state != RECOVERING or head.latest >= version or (until_ms is not None and now >= until_ms):
                break
            try:
                after = self._adopt(head, version)
            except NotAdoptable as error:
                head = self._write(head, give_up_recovery(head, error.message, now), "recover.stuck")
                return Advanced(head, adopted, error if stuck_at(head) == head.latest + 1 else None)
            if after.state == RECOVERING and after.latest < version:
                raise Throttled("the HEAD changed while a version was adopted")
            head, adopted = after, adopted + (after.latest == version)
        return Advanced(head, adopted)

    def _adopt(self, head: TableHead, first: int) -> TableHead:
        """Step 3 for the version after ``latest``; ``first`` is the first one that is published."""
        found, now = self._unknowns.judged(head, first), self._world.clock.now_ms()
        proposal = found.proposal
        if found.content.changes_metadata or not found.content.whole:
            proposal = with_effects(self._snapshots, head, proposal, found.content, request=found.request, now_ms=now)
            self._faults("recover.described")
        return self._write(head, adopt(head.key, proposal, now), "recover.adopted")

    def _write(self, head: TableHead, change: Change, point: str) -> TableHead:
        """The HEAD after ``change``, or as it is where somebody else was faster."""
        answer = self._world.refs.write(change)
        if answer.row is None:
            raise NotFound("table", head.table_id, field="table_id", remedy="load the table by name again")
        if isinstance(answer, Accepted):
            self._faults(point)
        return TableHead.from_row(answer.row)
