"""Ratification: the hot path.

    1  read the content           inline: from the request; staged: one storage read
    2  judge it                   protocol, contract, timestamps (I7), before anything is written
    3  metadata, if it changes    read HEAD and snapshot, write the new snapshot as an obj
    4  one conditional write      accepted: done
    5  refused                    decide(returned row, proposal) answers; Recall and Spill send it round once more

A crash after any step leaves at most an unreferenced obj or staged file for gc. An answer lost at 4 is Unknown to the
client, who sends the same proposal again and gets a replay (I3). So is a refusal at 5 behind a lost answer, unless it
says that the attempt before it cannot land any more either (``core.finality``).
"""

from __future__ import annotations

import dataclasses

import msgspec

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
from turnstile.store.core.keys import inline_obj
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import staged_path
from turnstile.store.core.obj_types import INLINE
from turnstile.store.core.writes import Change
from turnstile.store.ports import Accepted, Obj, World


class TimestampAhead(InvalidCommit):
    """An in-commit timestamp too far ahead of the server's clock."""

    type = ErrorType.TIMESTAMP_AHEAD


class Known(msgspec.Struct, frozen=True):
    """What never changes about a table, cached per sandbox."""

    catalog: str
    location: str


@dataclasses.dataclass
class _Lost:
    """Whether the answer to a write of this request was lost."""

    answer: bool = False


class Ratifier:
    """Decides commits of Delta tables. Holds ports and a cache of immutable facts; no per-request state."""

    def __init__(self, world: World, limits: Limits | None = None, snapshots: MetadataStore | None = None) -> None:
        self._refs, self._objs, self._storages = world.refs, world.objs, world.storages
        self._clock, self._space = world.clock, world.space
        self._limits = limits or Limits()
        self._identities = IdentityIndex(world.objs, world.space, world.clock, self._limits.identity_days)
        self._snapshots = snapshots or MetadataStore(world.objs, world.space)
        self._known: dict[str, Known] = {}

    def commit(self, request: CommitRequest) -> Ratified | Conflict | Refused:
        """Answer one proposal.

        Raises:
            InvalidRequest, InvalidCommit, TooLarge: the request is refused and nothing was written.
            NotFound: no such table or staged file.
            Throttled: nothing was applied.
            OutcomeUnknown: the write's outcome could not be learned.
        """
        check_request(request)
        found = self._content(request)
        if isinstance(found, Ratified):
            return found
        content, raw, digest = found
        proposal = proposal_of(request, content, raw, self._clock.now_ms(), digest=digest)
        proposal = msgspec.structs.replace(proposal, room=self._limits.backlog_bytes)
        ahead = self._ahead(content)
        if ahead is None and content.whole and not content.changes_metadata and not request.always:
            return self._attempt(request.table_id, proposal)
        head = self._head(request.table_id)
        if ahead is not None:  # a replay is answered whatever the clock says by now (I3)
            answer = self._attempt(request.table_id, proposal, only_judge=head)
            if isinstance(answer, Ratified):
                return answer
            raise ahead
        if request.version != head.latest + 1:  # judged from this row: without a snapshot it must never be written
            return self._attempt(request.table_id, proposal, only_judge=head)
        now = self._clock.now_ms()
        described = with_effects(self._snapshots, head, proposal, content, request=request, now_ms=now)
        return self._attempt(request.table_id, described)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _content(self, request: CommitRequest) -> tuple[Content, bytes | None, int] | Ratified:
        """What is judged, with its bytes when it came inline, and their digest when it is a file that was read whole: from
        here on the file may be written to, and what was judged is what counts (I4)."""
        if request.content is not None:
            if len(request.content) > self._limits.inline_bytes:
                raise TooLarge(
                    f"inline content of {len(request.content)} bytes is over the limit",
                    field="inline.content",
                    remedy="stage the commit as a file instead",
                    limit=self._limits.inline_bytes,
                    size=len(request.content),
                )
            return read_content(request.content), request.content, 0
        storage = self._storages.open(self.about(request.table_id).location)
        path = staged_path(request.staged)
        found = storage.read(path, limit=self._limits.staged_bytes)
        if found is None:
            return self._replayed_content(request)
        raw, stat = found
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
        mine = find_identity(positioned(head), "", request.staged)
        if mine is not None:
            return _replay(head, mine.version, mine)
        version = self._recall(head, [request.staged])
        if version is None:
            raise NotFound(
                "staged file", request.staged, field="staged.name", remedy="write the file before proposing it"
            )
        return _replay(head, version)

    def _ahead(self, content: Content) -> TimestampAhead | None:
        now = self._clock.now_ms()
        if content.ict <= now + self._limits.clock_skew_ms:
            return None
        return TimestampAhead(
            f"in-commit timestamp {content.ict} is {(content.ict - now) // 1000} s ahead of the server's clock",
            field="commitInfo.inCommitTimestamp",
            remedy="correct the writer's clock; an accepted timestamp could never be undercut again",
            server=now,
        )

    def _attempt(
        self, table_id: str, proposal: Proposal, only_judge: TableHead | None = None
    ) -> Ratified | Conflict | Refused:
        """Steps 4 and 5. With ``only_judge`` nothing is written: that row's judgement is the answer."""
        lost = _Lost()
        try:
            answer = self._rounds(table_id, proposal, only_judge, lost)
        except OutcomeUnknown:
            raise
        except TurnstileError as error:  # true of the last write, and not of the one before it
            if not lost.answer:
                raise
            raise OutcomeUnknown(f"an answer was lost, and then: {error.message}") from error
        if lost.answer and not excludes_earlier(answer, proposal):
            said = answer.message if isinstance(answer, Refused) else ""
            raise OutcomeUnknown(f"an answer was lost; the attempt after it was refused, which may pass: {said}")
        return answer

    def _rounds(
        self, table_id: str, proposal: Proposal, only_judge: TableHead | None, lost: _Lost
    ) -> Ratified | Conflict | Refused:
        key = self._space.table(table_id)
        if len(proposal.entry.data) > INLINE_IN_ROW and only_judge is None:
            proposal = self._spill(table_id, proposal)
        clock_behind = False
        for _ in range(self._limits.attempts):
            if only_judge is None:
                answer = self._refs.write(self._change(key, proposal, clock_behind))
                if answer.row is None:
                    raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
                head = self._learn(TableHead.from_row(answer.row))
                if isinstance(answer, Accepted):
                    return _accepted(head, proposal)
                lost.answer = lost.answer or answer.uncertain
            else:
                head = only_judge
            decision = decide(head, proposal)
            match decision:
                case Recall(tail_from=tail_from):
                    identities = [proposal.entry.txn, staged_name(proposal)]
                    version = self._recall(head, identities)
                    if version is not None:
                        return _replay(head, version)
                    if proposal.entry.ict < self._clock.now_ms() - (self._limits.identity_days - 1) * 86_400_000:
                        return _forgotten(head)
                    proposal = msgspec.structs.replace(proposal, recalled=tail_from)
                case Spill():
                    proposal = self._spill(table_id, proposal)
                case Ratified(replayed=False):  # a ticket whose clock form did not fit
                    clock_behind = head.last_ict >= proposal.entry.ict
                case Ratified():
                    return msgspec.structs.replace(decision, head=head)
                case _:
                    return decision
        return Refused(
            kind=ErrorType.CONCURRENT_CHANGE,
            message="the table changed during every attempt",
            remedy="send the same proposal again",
            details={"retry_after_ms": 100},
        )

    def _recall(self, head: TableHead, identities: list[str]) -> int | None:
        """What the identity index knows. As long as it does not answer, the proposal may have been ratified long ago."""
        try:
            return self._identities.recall(head.catalog, head.table_id, identities)
        except (StorageFault, Throttled) as error:
            raise OutcomeUnknown(f"past transactions could not be read: {error.message}") from error

    def _change(self, key: str, proposal: Proposal, clock_behind: bool) -> Change:
        now = self._clock.now_ms()
        if proposal.version is None:
            return ticket_change(key, proposal, now, clock_behind=clock_behind)
        return named_change(key, proposal, now)

    def _spill(self, table_id: str, proposal: Proposal) -> Proposal:
        """Move inline bytes to an obj, written before the row refers to it."""
        about = self.about(table_id)
        entry = proposal.entry
        now = self._clock.now_ms()
        obj = inline_obj(table_id, now, entry.data)
        self._objs.put(Obj(self._space.objs(about.catalog), obj, INLINE.name, entry.data, created_us=now * 1000))
        return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(entry, data=b"", obj=obj))

    # -- facts ----------------------------------------------------------------------------------------------------

    def _head(self, table_id: str) -> TableHead:
        row = self._refs.read(self._space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        return self._learn(TableHead.from_row(row))

    def _learn(self, head: TableHead) -> TableHead:
        self._known[head.table_id] = Known(catalog=head.catalog, location=head.location)
        return head

    def about(self, table_id: str) -> Known:
        """What never changes about a table: no request once it was seen. Raises NotFound."""
        known = self._known.get(table_id)
        if known is None:
            self._head(table_id)
            known = self._known[table_id]
        return known


def _accepted(head: TableHead, proposal: Proposal) -> Ratified:
    mine = find_identity(positioned(head), proposal.entry.txn)
    if mine is None:
        raise TurnstileError("an accepted commit is missing from its HEAD")
    return Ratified(mine, mine.version, latest=head.latest, metadata=head.metadata, head=head)


def _replay(head: TableHead, version: int, place: Positioned | None = None) -> Ratified:
    return Ratified(place, version, latest=head.latest, metadata=head.metadata, replayed=True, head=head)


def _forgotten(head: TableHead) -> Refused:
    """The index keeps identities for so many days: whether this one was ratified before cannot be told (I3)."""
    return Refused(
        kind=ErrorType.RELOAD_REQUIRED,
        message="the proposal is older than the memory of past transactions",
        remedy="load the table, look for this transaction in its history, and build the commit anew",
        field="commitInfo.inCommitTimestamp",
        details={"latest": head.latest},
    )
