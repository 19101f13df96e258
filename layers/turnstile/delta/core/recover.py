"""A HEAD that was restored behind its own log (design 2.7): the writes that bring it up to what is published.

    active or stuck  ->  recovering          no commits any more; everything the HEAD knows is published
    recovering       ->  recovering          one published version adopted: ratified and published in the same write
    recovering       ->  active              nothing more is published
    recovering       ->  stuck               the next published version cannot be one of this table

Each names the version that it was planned for, so any number of recoverers may work side by side.
"""

from __future__ import annotations

from typing import Final

from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.proposal import Proposal
from turnstile.delta.core.ratify import named_change
from turnstile.delta.core.stuck import STUCK, reason_of, stuck_at
from turnstile.store.core.writes import Change, Clause, Drop, Equals, Set

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
