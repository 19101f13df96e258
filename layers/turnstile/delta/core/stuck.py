"""A HEAD that cannot be published refuses commits until it can (design 2.1): the two writes that say so."""

from __future__ import annotations

import re
from typing import Final

from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.store.core.writes import AtLeast, Change, Clause, Drop, Either, Equals, Set

STUCK: Final = "stuck"
_REASON: Final = re.compile(r"version (\d+): ")


def stuck_at(head: TableHead) -> int | None:
    """The version that could not be published, or None when the table is not stuck (or not by the publisher)."""
    match = _REASON.match(head.reason) if head.state == STUCK else None
    return int(match[1]) if match else None


def reason_of(version: int, why: str) -> str:
    """A ``reason`` that ``stuck_at`` understands."""
    return f"version {version}: {why}"


def mark_stuck(head: TableHead, version: int, why: str, now: int) -> Change:
    """No commits any more: ``version``, the first above the floor, cannot be published.

    Args:
        why: what was found, one sentence; becomes the HEAD's ``reason``.
        now: server clock (ms).
    """
    return Change(
        head.key,
        (
            Clause(
                "taking commits",
                "I11",
                "nobody dropped the table or lets it leave",
                Either((Equals(("state",), ACTIVE), Equals(("state",), STUCK))),
            ),
            Clause("same floor", "I11", "nobody published the version meanwhile", Equals(("floor",), head.floor)),
        ),
        (Set(("state",), STUCK), Set(("reason",), reason_of(version, why)), Set(("changed_at",), now)),
    )


def mark_unstuck(head: TableHead, now: int) -> Change:
    """Commits again: the version that was in the way is published.

    Raises:
        ValueError: when ``head`` is not stuck, or still is behind the version it is stuck at.
    """
    version = stuck_at(head)
    if version is None or head.floor < version:
        raise ValueError(f"{head.key} is {head.state} at floor {head.floor}: {head.reason}")
    return Change(
        head.key,
        (
            Clause("stuck", "I10", "nobody dropped the table", Equals(("state",), STUCK)),
            Clause("same reason", "I11", "it is not stuck at a later version", Equals(("reason",), head.reason)),
            Clause("past it", "I5", "the version is published", AtLeast(("floor",), version)),
        ),
        (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)),
    )
