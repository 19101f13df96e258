"""The tables that a group of commits only read, while it is decided: the condition on each, and the
check of a changed one (I8, I20).

    reads = GroupReads(group.reads, judge)
    reads.writes(key, now)                  # the conditions of the group's write
    reads.decide_refused({at: head})        # from the rows that refused it: valid reads move to the
                                            later version
    reads.stale                             # invalid reads: the group is refused

A read without a predicate is valid while its table has not changed (I8). A read with one is valid
while no later commit may have changed a row that satisfies it (I20): when the table has changed,
the commits since are checked, and the group is sent again with the last checked version. The answer
follows from the commits alone, so a read that was refused once is refused for ever: no earlier
attempt with a lost answer can be accepted any more. A table that the group hands over is read, too,
and dropped by the group (I28). Source: TreeCat, precision locking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from turnstile.delta.core.decide import Conflict, Refused, changed_since
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.undecided import Beginning, has_changed, hold, hold_ending
from turnstile.delta.core.writes.ratify import hand_over_head, unchanged_check
from turnstile.delta.proposals import SLACK_MAX, HandOver, ReadVersion
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.core.names import MAX_VERSION
from turnstile.store.core.writes import Change, Check

if TYPE_CHECKING:
    from turnstile_predicates.conflicts import ChangedRead


class Judgement(Protocol):
    """A read with a predicate, judged by the commits since (``planning.reads``)."""

    def change(self, head: TableHead, upto: int) -> ChangedRead | None:
        """Returns the first possible change by the versions up to ``upto``; None for none. Raises
        the errors of reading commits."""


Judge = Callable[[str, int], Judgement]
"""Makes the judgement of a read by its predicate and the version that was read."""


class StaleRead(msgspec.Struct, frozen=True):
    """Why a read does not hold: the HEAD that refused it, and the commit that may have changed its
    rows, where it was judged."""

    head: TableHead
    change: ChangedRead | None = None


class GroupReads:
    """The reads of one group. ``stale``: the invalid ones, by index."""

    def __init__(self, reads: Sequence[ReadVersion], judge: Judge | None = None) -> None:
        self._read = tuple(reads)
        self._judgements = {
            at: judge(read.predicate, read.version) for at, read in enumerate(reads) if read.predicate and judge
        }
        self._holds = [read.version for read in reads]
        self.stale: dict[int, StaleRead] = {}

    def __len__(self) -> int:
        return len(self._read)

    def writes(self, key: Callable[[str], str], now: int) -> list[Check | Change]:
        """The conditions of the group's write, and the ends of the tables that it hands over."""
        return [self._write(at, key(read.table_id), now) for at, read in enumerate(self._read)]

    def _write(self, at: int, key: str, now: int) -> Check | Change:
        """The condition on the row of one table: it is as in the version in which the read holds,
        or behind by its slack."""
        read = self._read[at]
        if isinstance(read, HandOver):
            return hand_over_head(key, read.version, now)
        return unchanged_check(key, self._holds[at], read.slack)

    def hold(self, beginning: Beginning, at: int, key: str, now: int) -> Change:
        """The write that holds the table until a large group is decided."""
        read = self._read[at]
        if isinstance(read, HandOver):
            return hold_ending(beginning, key, read.version, now)
        return hold(beginning, key, self._holds[at], read.slack)

    def decide_refused(self, heads: Mapping[int, TableHead]) -> None:
        """Decides the reads that refused the group by their rows, by their index. Raises
        InvalidRequest for a predicate that does not fit the table, and the errors of reading
        commits.
        """
        self.stale = {}
        for at, head in sorted(heads.items()):
            read = self._read[at]
            upto = head.latest - self._read[at].slack
            judgement = self._judgements.get(at)
            if judgement is not None and upto > self._holds[at]:
                try:
                    change = judgement.change(head, upto)
                except TurnstileError as error:
                    error.field = f"reads[{at}].predicate"
                    raise
                if change is not None:
                    self.stale[at] = StaleRead(head, change)
                    continue
                self._holds[at] = upto
            is_over = isinstance(read, HandOver) and head.state != ACTIVE
            if is_over or has_changed(head, self._holds[at], read.slack):
                self.stale[at] = StaleRead(head)

    def decision(self, at: int) -> Conflict | Refused:
        """Why a stale read refuses the group."""
        stale = self.stale[at]
        read = self._read[at]
        since = read.version if stale.change is not None else self._holds[at]
        return changed_since(stale.head, since, 0 if stale.change is not None else read.slack)

    def is_final(self, at: int) -> bool:
        """Whether a stale read can never become valid again, nor have been valid in an attempt with
        a lost answer."""
        return self.stale[at].head.latest > self._holds[at] + self._read[at].slack


def check_reads(reads: Sequence[ReadVersion]) -> None:
    """Checks ranges; raises InvalidRequest naming the read."""
    for index, read in enumerate(reads):
        if not 0 <= read.version <= MAX_VERSION:
            raise InvalidRequest(f"{read.version} is no version", field=f"reads[{index}].version")
        if not 0 <= read.slack <= SLACK_MAX:
            raise InvalidRequest(
                f"a slack of {read.slack} versions; it may be 0 to {SLACK_MAX}",
                field=f"reads[{index}].slack",
                remedy="leave it out where the read has to be of the latest version",
            )
