"""The scenario of groups that are prepared table by table and decided in a row of their own (ADR
24): among the same others as groups that are one write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.mistakes.tables import NAMED, swapped, without
from tests.simulation.scenarios.groups import Groups
from turnstile.delta.core.undecided import Beginning, without_entry
from turnstile.delta.transactions.large_groups import LargeGroups as Coordinator


class LargeGroups(Groups):
    """Three tables, each of which is prepared by a write of its own (I1 to I8, I10, I11)."""

    name = "large-groups"
    part = 1


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _one_prepare_is_enough() -> Any:
    def hasty(self: Any, run: Any) -> Any:
        return self._prepare_some(run, set(run.order()[:1]))

    return patch.object(Coordinator, "_prepare", hasty)


def _open_counts_as_aborted() -> Any:
    def presumed(verdict: Callable[..., str]) -> Callable[..., str]:
        return lambda *arguments: {"open": "aborted"}.get(verdict(*arguments), verdict(*arguments))

    return swapped("turnstile.delta.undecided.verdict", presumed)


def _readers_ignore_entries() -> Any:
    return swapped("turnstile.delta.commits.seen_one", lambda _: lambda _world, head: without_entry(head))


def _cuts_ignore_entries() -> Any:
    return swapped("turnstile.delta.transactions.cuts.verdicts", lambda _: lambda _world, _heads: {})


def _any_beginning_counts() -> Any:
    return patch.object(Beginning, "owns", lambda self, entry: entry is not None and entry.ref == self.ref)


LARGE_GROUP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "large group: one prepare is enough": (_one_prepare_is_enough, "I8"),
    "large group: an open group counts as aborted": (_open_counts_as_aborted, "I6"),
    "large group: committed after it was aborted": (
        without("turnstile.delta.transactions.large_groups.decision_writes", "open group"),
        "I8",
    ),
    "large group: reads are not held": (
        lambda: swapped("turnstile.delta.transactions.group_reads.hold", _unheld),
        "I8",
    ),
    "large group: others commit over an entry": (without(NAMED, "settled"), "I1"),
    "large group: readers ignore entries": (_readers_ignore_entries, "I6"),
    "large group: cuts ignore entries": (_cuts_ignore_entries, "I8"),
    "large group: entries of any beginning count": (_any_beginning_counts, "I8"),
}
"""The planted mistake, and the invariant that it breaks."""


def _unheld(hold: Callable[..., Any]) -> Callable[..., Any]:
    """A table that was read is checked, and not kept unchanged: its entry is one that any process
    removes."""

    def looked_at(beginning: Beginning, key: str, version: int, slack: int = 0) -> Any:
        return hold(Beginning(beginning.id, beginning.ref, "another"), key, version, slack)

    return looked_at
