"""A HEAD that cannot be published refuses commits until it can (design 2.1): the two writes that say so."""

from __future__ import annotations

import re
from typing import Final

from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.ratify_writes import named_change
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


# -- recover ----------------------------------------------------------------------------------------------------------
# A HEAD that was restored behind its own log (design 2.7): the writes that bring it up to what is published.
#
#     active or stuck  ->  recovering          no commits any more; everything the HEAD knows is published
#     recovering       ->  recovering          one published version adopted: ratified and published in the same write
#     recovering       ->  active              nothing more is published
#     recovering       ->  stuck               the next published version cannot be one of this table
#
# Each names the version that it was planned for, so any number of recoverers may work side by side.


RECOVERING: Final = "recovering"

_RECOVERING: Final = Clause(
    "recovering", "I10", "nobody may extend the table but recovery", Equals(("state",), RECOVERING)
)


def may_recover(head: TableHead) -> bool:
    """Whether recovery can begin: all that the HEAD knows is published, and nobody stopped the table on purpose."""
    return head.floor == head.latest and (head.state == ACTIVE or stuck_at(head) is not None)


def begin_recovery(head: TableHead, now: int) -> Change:
    """No commits until the published versions after ``latest`` are adopted.

    Raises:
        ValueError: the HEAD may not recover.
    """
    if not may_recover(head):
        raise ValueError(f"{head.key} is {head.state} at {head.floor} of {head.latest}")
    return Change(
        head.key,
        (
            Clause("same state", "I10", "nobody dropped the table or lets it leave", Equals(("state",), head.state)),
            Clause("same latest", "I1", "nothing was ratified since the log was looked at", _at(head)),
            Clause("published", "I4", "the log holds what was ratified, up to here", Equals(("floor",), head.latest)),
        ),
        (
            Set(("state",), RECOVERING),
            Set(("reason",), f"the log goes beyond version {head.latest}: published versions are being adopted"),
            Set(("changed_at",), now),
        ),
    )


def adopt(key: str, proposal: Proposal, now: int) -> Change:
    """Make ``proposal``, read from ``_delta_log``, the next version: ratified as ever (every clause of ``named_change``
    but the state's), and published at once.

    Args:
        proposal: of the version after the latest one, in the bytes that were published.
    """
    ratify = named_change(key, proposal, now)
    version = proposal.version or 0
    return Change(
        key,
        (
            *(clause for clause in ratify.clauses if clause.name != "active"),
            _RECOVERING,
            Clause("published", "I5", "every version before it is in _delta_log", Equals(("floor",), version - 1)),
        ),
        (*ratify.actions, Set(("floor",), version)),
    )


def end_recovery(head: TableHead, now: int) -> Change:
    """Commits again: the log holds nothing after ``latest``."""
    return Change(
        head.key,
        (_RECOVERING, Clause("same latest", "I1", "nobody adopted another version since", _at(head))),
        (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)),
    )


def give_up_recovery(head: TableHead, why: str, now: int) -> Change:
    """Stuck at the version after ``latest``: what is published there cannot be adopted.

    Args:
        why: what was found, one sentence; becomes the HEAD's ``reason``.
    """
    return Change(
        head.key,
        (_RECOVERING, Clause("same latest", "I11", "nobody adopted that version meanwhile", _at(head))),
        (Set(("state",), STUCK), Set(("reason",), reason_of(head.latest + 1, why)), Set(("changed_at",), now)),
    )


def _at(head: TableHead) -> Equals:
    return Equals(("latest",), head.latest)
