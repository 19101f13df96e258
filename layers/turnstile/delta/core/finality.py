"""Which refusals also speak for an earlier attempt whose answer was lost (I3).

The same proposal was sent before, and may still be on its way. To tell its proposer "refused" is the truth only if that
attempt can never be accepted any more: a clause of it fails on this row, and on every row that may follow. Otherwise the
outcome is unknown, and the proposer sends the same again. That it was not accepted *before* this refusal, the refusal
itself says: identity is judged first (``decide``).
"""

from __future__ import annotations

from typing import Final

from turnstile.delta.core.decision import Conflict, Ratified, Recall, Refused, Spill
from turnstile.delta.core.proposal import Proposal

_FOR_EVER: Final = {"ReloadRequired"}
"""``remembered`` fails: ``tail_from`` never falls."""

_WHILE_NEXT: Final = {"TimestampNotIncreasing", "InvalidCommit"}
"""Of a named commit: ``later`` fails, and ``last_ict`` never falls; or ``fresh rows`` does. ``row_hwm`` may change, but by
a commit only, which takes the version that was named: then ``next`` fails, and for ever."""


def excludes_earlier(answer: Ratified | Conflict | Refused | Recall | Spill, proposal: Proposal) -> bool:
    """Whether an earlier attempt of ``proposal`` can have no other outcome than ``answer``.

    A conflict does: ``latest`` and ``epoch`` never fall, so neither ``next`` nor ``same epoch`` holds again; and a row
    that forgets a streaming application has raised ``tail_from`` above what a ticket with one needs (``remembered``).

    Everything else may pass. A table that is stuck, leaving, recovering or dropped may be active again, a full row is
    emptied, a gap is filled by others, metadata may be described as it was before, and a mark of row ids that a ticket
    cannot follow is replaced by one that it can.
    """
    match answer:
        case Ratified() | Conflict():
            return True
        case Refused(kind=kind):
            return kind in _FOR_EVER or (proposal.version is not None and kind in _WHILE_NEXT)
        case _:
            return False
