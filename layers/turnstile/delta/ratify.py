"""Ratification of a commit: the hot path.

    1  read the content           inline: from the request; staged: one storage read
    2  validate it                protocol, contract, timestamps (I7), before anything is written
    3  metadata, if it changes    read the HEAD and its table metadata, write the new table metadata as an obj
    4  one conditional write      accepted: done
    5  refused                    ``decide`` answers from the returned row; after Recall and Spill the write is sent again

A crash after any step leaves at most an unreferenced obj or staged file for gc. When the response of 4 is lost the client
is told OutcomeUnknown, sends the same proposal again and gets a replay (I3). The same holds for a refusal at 5 after a lost
response, unless the earlier attempt cannot be accepted any more either (``excludes_earlier``).
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.delta.commits import head_after, read_head
from turnstile.delta.core.content import Content, read_content
from turnstile.delta.core.decide import (
    Conflict,
    Proposal,
    Ratified,
    Recall,
    Refused,
    Spill,
    decide,
    excludes_earlier,
    find_identity,
)
from turnstile.delta.core.head import INLINE_IN_ROW, Positioned, TableHead, digest_of, positioned
from turnstile.delta.core.ratify_writes import named_change, ticket_change
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.metadata import MetadataStore, with_effects
from turnstile.delta.proposals import CommitRequest, check_request, proposal_of, staged_name
from turnstile.store.cache import Lru
from turnstile.store.core.errors import (
    ErrorType,
    InvalidCommit,
    NotFound,
    OutcomeUnknown,
    StorageFault,
    Throttled,
    TooLarge,
    TurnstileError,
)
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import staged_path
from turnstile.store.core.rows import INLINE, inline_obj
from turnstile.store.core.writes import Change
from turnstile.store.ports import Accepted, Obj, World

_FACTS: Final = 10_000
"""Tables whose facts are remembered."""


class TimestampAhead(InvalidCommit):
    """An in-commit timestamp too far ahead of the server's clock."""

    type = ErrorType.TIMESTAMP_AHEAD


def timestamp_ahead(ict: int, now: int, clock_skew_ms: int) -> TimestampAhead | None:
    """Returns why the in-commit timestamp of a commit is refused; None if it is not too far ahead of ``now``."""
    if ict <= now + clock_skew_ms:
        return None
    return TimestampAhead(
        f"in-commit timestamp {ict} is {(ict - now) // 1000} s ahead of the server's clock",
        field="commitInfo.inCommitTimestamp",
        remedy="correct the writer's clock; an accepted timestamp could never be undercut again",
        server=now,
    )


class TableFacts(msgspec.Struct, frozen=True):
    """What never changes about a table."""

    catalog: str
    location: str


class Ratifier:
    """Decides commits of Delta tables. No state between requests but a cache of immutable facts."""

    def __init__(self, world: World, limits: Limits | None = None, metadata: MetadataStore | None = None) -> None:
        self._world, self._clock = world, world.clock
        self._limits = limits or Limits()
        self._identities = IdentityIndex(world.objs, world.space, world.clock, self._limits.identity_days)
        self._metadata = metadata or MetadataStore(world.objs, world.space)
        self._facts = Lru[str, TableFacts](_FACTS)

    def commit(self, request: CommitRequest) -> Ratified | Conflict | Refused:
        """Decides one proposal. Raises InvalidRequest, InvalidCommit, TooLarge or NotFound (table or staged file) if it is
        refused, Throttled if nothing was applied, OutcomeUnknown if the write's outcome could not be learned."""
        check_request(request)
        read = self._content(request)
        if isinstance(read, Ratified):
            return read
        content, raw, digest = read
        proposal = proposal_of(request, content, raw, self._clock.now_ms(), digest=digest)
        proposal = msgspec.structs.replace(proposal, room=self._limits.backlog_bytes)
        ahead = timestamp_ahead(content.ict, self._clock.now_ms(), self._limits.clock_skew_ms)
        if ahead is None and content.whole and not content.changes_metadata and not request.always:
            return self._attempt(request.table_id, proposal)
        head = self._head(request.table_id)
        if ahead is not None:  # a replay is answered whatever the clock says by now (I3)
            decision = self._decide_only(head, proposal)
            if isinstance(decision, Ratified):
                return decision
            raise ahead
        if request.version != head.latest + 1:  # without its table metadata the proposal must never be written
            return self._decide_only(head, proposal)
        now = self._clock.now_ms()
        described = with_effects(self._metadata, head, proposal, content, request=request, now_ms=now)
        return self._attempt(request.table_id, described)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _content(self, request: CommitRequest) -> tuple[Content, bytes | None, int] | Ratified:
        """The content, its bytes when it came inline, and their digest when it is a file that was read whole: the file
        may be overwritten from here on, and what was validated is what counts (I4)."""
        if request.content is not None:
            size, limit = len(request.content), self._limits.inline_bytes
            if size > limit:
                raise TooLarge(
                    f"inline content of {size} bytes is over the limit",
                    field="inline.content",
                    remedy="stage the commit as a file instead",
                    limit=limit,
                    size=size,
                )
            return read_content(request.content), request.content, 0
        storage = self._world.storages.open(self.facts(request.table_id).location)
        file = storage.read(staged_path(request.staged), limit=self._limits.staged_bytes)
        if file is None:
            return self._replayed_content(request)
        raw, stat = file
        if stat.size != request.size:
            raise InvalidCommit(
                f"staged file {request.staged} has {stat.size} bytes, not {request.size}",
                field="staged.size",
                remedy="propose the file after it is written completely, with its true size",
            )
        whole = len(raw) == stat.size
        return read_content(raw, whole=whole), None, digest_of(raw) if whole else 0

    def _replayed_content(self, request: CommitRequest) -> Ratified:
        """A staged file that is gone: perhaps it was ratified, published and collected long ago (I3)."""
        head = self._head(request.table_id)  # the tail first: what leaves it afterwards is in the index already
        place = find_identity(positioned(head), "", request.staged)
        if place is not None:
            return _replay(head, place.version, place)
        version = self._recall(head, [request.staged])
        if version is None:
            remedy = "write the file before proposing it"
            raise NotFound("staged file", request.staged, field="staged.name", remedy=remedy)
        return _replay(head, version)

    def _attempt(self, table_id: str, proposal: Proposal) -> Ratified | Conflict | Refused:
        """Steps 4 and 5."""
        lost = False  # whether the response to a write of this request was lost
        try:
            if len(proposal.entry.data) > INLINE_IN_ROW:
                proposal = self._spill(table_id, proposal)
            clock_behind = False
            for _ in range(self._limits.attempts):
                response = self._world.refs.write(self._change(table_id, proposal, clock_behind))
                head = self._learn(head_after(response, table_id))
                if isinstance(response, Accepted):
                    return _accepted(head, proposal)
                lost = lost or response.uncertain
                decision = self._decide(head, proposal)
                if not isinstance(decision, Proposal):
                    break
                if decision is proposal:  # a ticket whose form did not fit
                    clock_behind = head.last_ict >= proposal.entry.ict
                proposal = decision
            else:
                decision = _CONTENDED
        except OutcomeUnknown:
            raise
        except TurnstileError as error:  # true of the last write, and not of the one before it
            if not lost:
                raise
            raise OutcomeUnknown(f"an answer was lost, and then: {error.message}") from error
        if lost and not excludes_earlier(decision, proposal):
            reason = decision.message if isinstance(decision, Refused) else ""
            raise OutcomeUnknown(f"an answer was lost; the attempt after it was refused, which may pass: {reason}")
        return decision

    def _decide_only(self, head: TableHead, proposal: Proposal) -> Ratified | Conflict | Refused:
        """The decision of ``head``, for a proposal that must not be written. Never a fresh Ratified."""
        for _ in range(self._limits.attempts):
            decision = self._decide(head, proposal)
            if not isinstance(decision, Proposal):
                return decision
            proposal = decision
        return _CONTENDED

    def _decide(self, head: TableHead, proposal: Proposal) -> Ratified | Conflict | Refused | Proposal:
        """Step 5: the decision of ``head``; or the proposal to be sent next, which is the same one if it would be
        accepted."""
        match decide(head, proposal):
            case Recall(tail_from=tail_from):
                version = self._recall(head, [proposal.entry.txn, staged_name(proposal)])
                if version is not None:
                    return _replay(head, version)
                if proposal.entry.ict < self._clock.now_ms() - (self._limits.identity_days - 1) * 86_400_000:
                    return _forgotten(head)
                return msgspec.structs.replace(proposal, recalled=tail_from)
            case Spill():
                return self._spill(head.table_id, proposal)
            case Ratified(replayed=False):
                return proposal
            case Ratified() as replay:
                return msgspec.structs.replace(replay, head=head)
            case decision:
                return decision

    def _recall(self, head: TableHead, identities: list[str]) -> int | None:
        """The version in the identity index. While that cannot be read, the proposal may have been ratified long ago."""
        try:
            return self._identities.recall(head.catalog, head.table_id, identities)
        except (StorageFault, Throttled) as error:
            raise OutcomeUnknown(f"past transactions could not be read: {error.message}") from error

    def _change(self, table_id: str, proposal: Proposal, clock_behind: bool) -> Change:
        key, now = self._world.space.table(table_id), self._clock.now_ms()
        if proposal.version is None:
            return ticket_change(key, proposal, now, clock_behind=clock_behind)
        return named_change(key, proposal, now)

    def _spill(self, table_id: str, proposal: Proposal) -> Proposal:
        """Moves inline bytes to an obj, which is written before the row refers to it."""
        space = self._world.space.objs(self.facts(table_id).catalog)
        entry, now = proposal.entry, self._clock.now_ms()
        id = inline_obj(table_id, now, entry.data)
        self._world.objs.put(Obj(space, id, INLINE.name, entry.data, created_us=now * 1000))
        return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(entry, data=b"", obj=id))

    # -- facts ----------------------------------------------------------------------------------------------------

    def facts(self, table_id: str) -> TableFacts:
        """What never changes about a table: no request once it was seen. Raises NotFound."""
        facts = self._facts.get(table_id)
        if facts is None:
            head = self._head(table_id)
            facts = TableFacts(head.catalog, head.location)
        return facts

    def _head(self, table_id: str) -> TableHead:
        return self._learn(read_head(self._world, table_id))

    def _learn(self, head: TableHead) -> TableHead:
        self._facts.put(head.table_id, TableFacts(head.catalog, head.location))
        return head


def _accepted(head: TableHead, proposal: Proposal) -> Ratified:
    place = find_identity(positioned(head), proposal.entry.txn)
    if place is None:
        raise TurnstileError("an accepted commit is missing from its HEAD")
    return Ratified(place, place.version, latest=head.latest, metadata=head.metadata, head=head)


def _replay(head: TableHead, version: int, place: Positioned | None = None) -> Ratified:
    return Ratified(place, version, latest=head.latest, metadata=head.metadata, replayed=True, head=head)


def _forgotten(head: TableHead) -> Refused:
    """The identity index keeps entries for some days only: whether this one was ratified before is not known (I3)."""
    why = "the proposal is older than the memory of past transactions"
    remedy = "load the table, look for this transaction in its history, and build the commit anew"
    return Refused(
        ErrorType.RELOAD_REQUIRED, why, remedy, "commitInfo.inCommitTimestamp", details={"latest": head.latest}
    )


_CONTENDED: Final = Refused(
    ErrorType.CONCURRENT_CHANGE,
    "the table changed during every attempt",
    "send the same proposal again",
    details={"retry_after_ms": 100},
)
