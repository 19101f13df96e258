"""Commits of a table over HTTP, the hot path: propose, list, HEAD, outcome; and the description of
the service (docs/api.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from turnstile.api.conflicts import note_conflicts
from turnstile.api.http.authorization import guard, needs_table, open_to_all
from turnstile.api.http.request import MAX_BODY, Query, body, note
from turnstile.api.http.responses import refusal
from turnstile.api.services import Services, services
from turnstile.api.v1.paths import TABLE_BY_ID, uuid_of_path
from turnstile.delta.commits import Listing, inline_contents
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import PlacedCommit, final_bytes, tail_by_version
from turnstile.delta.proposals import CommitRequest
from turnstile.rights.rules import modify_table, read_table, see_table
from turnstile.store.core.errors import (
    ErrorType,
    InvalidRequest,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.names import MAX_VERSION, check_uuid, inline_unique, staged_file
from turnstile_release import version

routes = Blueprint(__name__)


class Staged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the client has written; ``modified`` in ms, 0 for the in-commit timestamp."""

    name: str
    size: int
    modified: int = 0


class Inline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content in the request; ``name`` is the staged name it will have, empty for the derived
    one."""

    content: str
    name: str = ""


class CommitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"version", "base"?, "staged" | "inline", "etag"?}``; a null version asks for the next
    one."""

    version: int | None
    base: int | None = None
    staged: Staged | None = None
    inline: Inline | None = None
    etag: Annotated[str, msgspec.Meta(max_length=512)] | None = None


def to_request(table_id: str, body: CommitBody, principal: str) -> CommitRequest:
    """Returns the proposal for the ratifier, which validates ranges and names. Raises
    InvalidRequest where not exactly one of ``staged`` and ``inline`` is there."""
    staged = body.staged
    inline = body.inline
    if (staged is None) == (inline is None):
        raise InvalidRequest("give either staged or inline", field="staged", remedy="exactly one of the two")
    if staged is not None and not staged.name:
        remedy = "<20 digits of the version>.<uuid>.json"
        raise InvalidRequest("staged.name is empty", field="staged.name", remedy=remedy)
    request = CommitRequest(
        table_id=table_id,
        version=body.version,
        base=body.base,
        etag=body.etag,
        principal=principal,
    )
    if staged is not None:
        return replace(request, staged=staged.name, size=staged.size, modified_ms=staged.modified)
    assert inline is not None
    return replace(request, content=inline.content.encode(), inline_name=inline.name)


class Commit(msgspec.Struct, frozen=True):
    """One ratified commit. ``size`` is absent where it is not known any more (a published ticket);
    ``content`` is there only where it is promised; ``principal`` is absent for the operator, and
    for commits that the HEAD does not carry any more."""

    version: int
    timestamp: int
    name: str
    modified: int
    kind: Literal["staged", "inline"]
    txn_id: str
    operation: str
    changed: str
    published: bool
    size: int | UnsetType = UNSET
    content: str | UnsetType = UNSET
    principal: str | UnsetType = UNSET


class Committed(msgspec.Struct, frozen=True):
    """The answer to an accepted proposal."""

    outcome: Literal["ratified", "replayed"]
    commit: Commit
    latest: int
    etag: str


class CommitList(msgspec.Struct, frozen=True):
    """Ratified commits a table still carries."""

    commits: list[Commit]
    latest: int
    floor: int
    etag: str


class Head(msgspec.Struct, frozen=True):
    """A HEAD as operators see it."""

    table_id: str
    name: str
    state: str
    latest: int
    floor: int
    timestamp: int
    etag: str
    location: str
    tail: list[Commit]
    bytes: int
    row_id_high_water_mark: int | None
    reason: str | UnsetType = UNSET


class OutcomeResponse(msgspec.Struct, frozen=True):
    """The outcome of a proposal."""

    outcome: Literal["ratified", "never", "open"]
    latest: int
    version: int | UnsetType = UNSET


@routes.route(TABLE_BY_ID + "/commits", methods=["POST"])
@needs_table(modify_table, of=uuid_of_path)
def commit(table_id: str) -> Committed:
    by = guard()
    request = to_request(check_uuid(table_id), body(CommitBody), by.principal.name)
    decision = services().ratifier.commit(request)
    _note(request, decision)
    if isinstance(decision, Ratified):
        return commit_answer(services(), request, decision, may_read=by.may(read_table))
    raise commit_error(services(), request, decision, may_read=by.may(read_table))


@routes.route(TABLE_BY_ID + "/commits", methods=["GET"])
@needs_table(read_table, of=uuid_of_path)
def commits(table_id: str) -> CommitList:
    query = Query("start", "end", "content")
    start = query.integer("start", 0)
    end = query.integer("end", MAX_VERSION)
    if end < start:
        raise InvalidRequest(f"end {end} is before start {start}", field="end", remedy="leave it out, or raise it")
    listing = services().commits.of_present_head(check_uuid(table_id), start, end, content=query.flag("content"))
    head = listing.head
    return CommitList(commits_of(listing), head.latest, head.floor, head.metadata)


@routes.route(TABLE_BY_ID + "/head", methods=["GET"])
@needs_table(see_table, of=uuid_of_path)
def head(table_id: str) -> Head:
    Query()
    head = services().commits.head(check_uuid(table_id))
    return Head(
        table_id=head.table_id,
        name=head.name,
        state=head.state,
        latest=head.latest,
        floor=head.floor,
        timestamp=head.last_ict,
        etag=head.metadata,
        location=head.location,
        tail=[commit_of(place) for place in tail_by_version(head)],
        bytes=head.bytes,
        row_id_high_water_mark=head.row_hwm,
        reason=head.reason or UNSET,
    )


@routes.route(TABLE_BY_ID + "/outcome", methods=["GET"])
@needs_table(see_table, of=uuid_of_path)
def outcome(table_id: str) -> OutcomeResponse:
    query = Query("txn_id", "name", "version")
    id = check_uuid(table_id)
    txn = query.text("txn_id") or ""
    name = query.text("name") or ""
    outcome = services().outcomes.of(id, txn=txn, name=name, version=query.integer("version", least=1))
    return OutcomeResponse(outcome.outcome, outcome.latest, UNSET if outcome.version is None else outcome.version)


@routes.route("/v1", methods=["GET"])
@open_to_all
def about() -> dict[str, Any]:
    Query()
    limits = services().limits
    bounds = {
        "inline_bytes": limits.inline_bytes,
        "staged_bytes": limits.staged_bytes,
        "body_bytes": MAX_BODY,
        "answer_content_bytes": limits.winners_bytes,
    }
    return {"service": "turnstile", "version": version(), "limits": bounds}


def commit_of(place: PlacedCommit, *, size: int | None = None, content: bytes | None = None) -> Commit:
    """Returns a commit of a tail. ``size`` where it was learnt elsewhere; a ticket's own is not
    known from the row."""
    entry = place.entry
    if size is None and content is not None:
        size = len(content)
    elif size is None and not entry.ticket:
        size = entry.size
    return Commit(
        version=place.version,
        timestamp=place.ict,
        name=place.name,
        modified=place.modified_ms,
        kind="inline" if entry.inline else "staged",
        txn_id=entry.txn,
        operation=entry.operation,
        changed=entry.changed,
        published=place.published,
        size=UNSET if size is None else size,
        content=UNSET if content is None else content.decode(),
        principal=entry.principal or UNSET,
    )


def commits_of(listing: Listing) -> list[Commit]:
    """Returns the listing's commits, ascending."""
    return [
        commit_of(place, size=listing.sizes.get(place.version), content=listing.contents.get(place.version))
        for place in listing.places
    ]


def _note(request: CommitRequest, decision: Ratified | Conflict | Refused) -> None:
    """Notes the outcome for the log and the metrics."""
    if isinstance(decision, Ratified):
        outcome = "replayed" if decision.replayed else "ratified"
        note(outcome=outcome, version=decision.version, table_id=request.table_id)
    elif isinstance(decision, Conflict):
        note(because=decision.because, latest=decision.latest, table_id=request.table_id)
        note_conflicts([(request.table_id, decision)], request.staged or request.inline_name)


# -- the answers to proposals, here and in groups (``v1.transactions``) ------------------------------------------------


def commit_answer(services: Services, request: CommitRequest, decision: Ratified, *, may_read: bool) -> Committed:
    """Returns the answer to a proposal that is ratified. Raises OutcomeUnknown if it was ratified
    before and its ratified content could not be read. ``may_read``: whether the principal may read
    the table.
    """
    outcome: Literal["ratified", "replayed"] = "replayed" if decision.replayed else "ratified"
    try:
        commit = _replay(services, request, decision, may_read) if decision.replayed else _fresh(request, decision)
    except (StorageFault, Throttled) as error:  # either would say that nothing was ratified (I3)
        text = f"version {decision.version} is this commit, but it cannot be shown: {error.public_message}"
        raise OutcomeUnknown(text) from error
    return Committed(outcome, commit, decision.latest, decision.metadata)


def commit_error(
    services: Services, request: CommitRequest, decision: Conflict | Refused, *, may_read: bool
) -> TurnstileError:
    """Returns the error of a proposal that was refused, or lost. ``may_read`` as of
    ``commit_answer``."""
    if isinstance(decision, Refused):
        return refusal(decision)
    wanted = f"version {request.version}" if request.version is not None else "the next version"
    return StateConflict(
        ErrorType.COMMIT_VERSION_CONFLICT,
        f"{wanted} is not free: {_REASONS[decision.because]} (latest is {decision.latest})",
        field="version" if request.version is not None else "base",
        remedy="read the winners, check for logical conflicts, rebase and propose again",
        **conflict_details(services, request.table_id, decision, may_read=may_read),
    )


def conflict_details(services: Services, table_id: str, lost: Conflict, *, may_read: bool) -> dict[str, Any]:
    """Returns the part of an answer that describes a conflict for programs."""
    budget = services.limits.winners_bytes if may_read else 0
    catalog = services.ratifier.heads.facts(table_id).catalog
    contents = inline_contents(services.world, catalog, lost.winners, budget)
    return {
        "latest": lost.latest,
        "published_to": lost.published,
        "because": lost.because,
        "winners": [commit_of(place, content=contents.get(place.version)) for place in lost.winners],
    }


def _fresh(request: CommitRequest, decision: Ratified) -> Commit:
    place = decision.place
    if place is None:
        raise TurnstileError("a fresh commit without its place")
    content = final_bytes(place, request.content or b"") if place.entry.ticket else None
    return commit_of(place, content=content)


def _replay(services: Services, request: CommitRequest, decision: Ratified, may_read: bool) -> Commit:  # noqa: FBT001
    """The first answer again (I3): a ticket's bytes are the ratified ones, not the second
    request's. A principal that may not read the table gets none: to know an identity is no right to
    the content (I12).
    """
    place = decision.place
    ticket = request.version is None
    if place is not None and not (ticket or place.entry.ticket):
        return commit_of(place)
    earlier = services.commits.earlier(request.table_id, decision.version)
    if earlier.place is not None:
        may_read = may_read and (ticket or earlier.place.entry.ticket)
        return commit_of(earlier.place, content=earlier.raw if may_read else None)
    raw = earlier.raw or request.content or b""  # of a commit that no tail has any more
    parsed = read_content(raw, whole=earlier.whole)
    return Commit(
        version=decision.version,
        timestamp=parsed.ict,
        name=request.staged or staged_file(decision.version, inline_unique(parsed.txn)),
        modified=parsed.ict,
        kind="staged" if request.staged else "inline",
        txn_id=parsed.txn,
        operation=parsed.operation,
        changed=parsed.change_kind,
        published=True,
        size=earlier.size,
        content=raw.decode() if ticket and may_read and earlier.whole else UNSET,
    )


_REASONS = {
    "version": "another commit is that version",
    "metadata": "the table's metadata changed after the base",
    "application": "the same streaming application committed after the base",
    "read": "another commit followed the version that was read",
}
