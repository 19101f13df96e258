"""Decisions as answers."""

from __future__ import annotations

from wiring import Services

from turnstile.access.core.rules import read_table
from turnstile.api.http import errors
from turnstile.api.http.handler import note
from turnstile.api.http.rights import guard
from turnstile.api.v1 import wire
from turnstile.delta.commits import inline_contents
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import final_bytes
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, StorageFault, Throttled, TurnstileError


def reply(services: Services, request: CommitRequest, decision: Ratified | Conflict | Refused) -> wire.Committed:
    """The answer to a proposal.

    Raises:
        OutcomeUnknown: it was ratified before, and what was ratified could not be read.
        TurnstileError: the proposal was refused, or lost.
    """
    if isinstance(decision, Refused):
        raise errors.refusal(decision)
    if isinstance(decision, Conflict):
        raise _conflict(services, request, decision)
    note(outcome="replayed" if decision.replayed else "ratified", version=decision.version, table_id=request.table_id)
    try:
        commit = _replayed(services, request, decision) if decision.replayed else _fresh(request, decision)
    except (StorageFault, Throttled) as error:  # either would say that nothing was ratified (I3)
        raise OutcomeUnknown(
            f"version {decision.version} is this commit, but it cannot be shown: {error.message}"
        ) from error
    return wire.Committed(
        outcome="replayed" if decision.replayed else "ratified",
        commit=commit,
        latest=decision.latest,
        etag=decision.metadata,
    )


def _fresh(request: CommitRequest, decision: Ratified) -> wire.Commit:
    place = decision.place
    if place is None:
        raise TurnstileError("a fresh commit without its place")
    if not place.entry.ticket:
        return wire.commit(place)
    return wire.commit(place, content=final_bytes(place, request.content or b""))


def _replayed(services: Services, request: CommitRequest, decision: Ratified) -> wire.Commit:
    """As the first answer was (I3): a ticket's bytes are those that were ratified, not those sent again. Whoever may
    not read the table gets none: that it knows an identity does not make the content its own (I12)."""
    place, ticket, may_read = decision.place, request.version is None, guard().may(read_table)
    if place is not None and not (ticket or place.entry.ticket):
        return wire.commit(place)
    earlier = services.commits.earlier(request.table_id, decision.version)
    if earlier.place is not None:
        may_read = may_read and (ticket or earlier.place.entry.ticket)
        return wire.commit(earlier.place, content=earlier.raw if may_read else None)
    return wire.published_commit(
        decision.version,
        earlier.raw or request.content or b"",
        whole=earlier.whole,
        size=earlier.size,
        staged=request.staged,
        with_content=ticket and may_read,
    )


def _conflict(services: Services, request: CommitRequest, lost: Conflict) -> StateConflict:
    note(outcome="conflict", because=lost.because, latest=lost.latest, table_id=request.table_id)
    catalog = services.ratifier.about(request.table_id).catalog
    budget = services.limits.winners_bytes if guard().may(read_table) else 0
    contents = inline_contents(services.world, catalog, lost.winners, budget)
    asked = f"version {request.version}" if request.version is not None else "the next version"
    return StateConflict(
        "CommitVersionConflict",
        f"{asked} is not free: {_REASONS[lost.because]} (latest is {lost.latest})",
        field="version" if request.version is not None else "base",
        remedy="read the winners, check for logical conflicts, rebase and propose again",
        latest=lost.latest,
        published_to=lost.published,
        because=lost.because,
        winners=[wire.commit(place, content=contents.get(place.version)) for place in lost.winners],
    )


_REASONS = {
    "version": "another commit is that version",
    "metadata": "the table's metadata changed after the base",
    "application": "the same streaming application committed after the base",
}
