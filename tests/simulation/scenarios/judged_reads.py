"""The scenario of checked reads: as ``groups``, with transactions whose reads have predicates
(I20)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.engine.plans import KINDS, Plan
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.groups import Groups
from turnstile.delta.transactions.group_reads import GroupReads
from turnstile.planning.reads import ReadInCommits
from turnstile_predicates.conflicts import ReadJudge


class JudgedReads(Groups):
    """Three or four actors that commit groups, most of which read a table that others write; some
    are large groups."""

    name = "judged-reads"

    def plan(self, seed: int) -> Plan:
        rng = random.Random(f"judged/{seed}")
        writers = [f"judged-{number}" for number in range(rng.choice((3, 3, 4)))]
        rest = [name for name in ("pump", "sweeper", "gc", "cut-1") if rng.random() < 0.5]
        return Plan(
            seed=seed,
            actors=(*writers, *rest),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((200, 400)),
            row_tracking=False,
            keep=rng.choice((0, 1, 3)),
            slow=False,
        )


class LargeJudgedReads(JudgedReads):
    """The same where one write changes one table, so that reads are held until the group is
    decided."""

    name = "large-judged-reads"
    part = 1


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _judged_by_the_last_commit() -> Any:
    """Commits between the version that was read and the latest one are not checked."""

    def judging(change: Callable[..., Any]) -> Callable[..., Any]:
        def by_the_last(self: ReadInCommits, head: Any, upto: int) -> Any:
            self._upto = upto - 1
            return change(self, head, upto)

        return by_the_last

    return swapped("turnstile.planning.reads.ReadInCommits.change", judging)


def _adds_do_not_count() -> Any:
    change = ReadJudge.change

    def of_adds(self: ReadJudge, version: int, actions: Any) -> Any:
        return change(self, version, [action for action in actions if "add" not in action])

    return patch.object(ReadJudge, "change", of_adds)


def _judged_and_then_unchecked() -> Any:
    """A read that was checked once is taken as valid in every later version."""

    def checking(check: Callable[..., Any]) -> Callable[..., Any]:
        def loosely(self: GroupReads, at: int, key: str, now: int) -> Any:
            read = self._read[at]
            if self._holds[at] == read.version:
                return check(self, at, key, now)
            return unchanged_check(key, read.version, 1_000)

        return loosely

    from turnstile.delta.core.writes.ratify import unchanged_check

    return swapped("turnstile.delta.transactions.group_reads.GroupReads._write", checking)


JUDGED_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "judged: only the last commit": (_judged_by_the_last_commit, "I20"),
    "judged: what is added does not count": (_adds_do_not_count, "I20"),
    "judged: and then unchecked": (_judged_and_then_unchecked, "I20"),
}
"""The planted mistake, and the invariant that it breaks."""
