"""Steps of the ratification of a commit before and between its writes (``ratify``): validates the
proposal, and makes the conditional write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.content import (
    Content,
    TableRules,
    Uses,
    check_uses,
    expectation_properties,
    read_content,
    rules_of,
)
from turnstile.delta.core.decide import (
    CONTENDED,
    Conflict,
    Proposal,
    Ratified,
    Recall,
    Refused,
    Spill,
    decide,
    find_identity,
)
from turnstile.delta.core.definition import check_definition
from turnstile.delta.core.head import INLINE_IN_ROW, PlacedCommit, TableHead, digest_of_pieces, tail_by_version
from turnstile.delta.core.metadata import DeltaMetadata, apply
from turnstile.delta.core.writes.ratify import named_change, ticket_change
from turnstile.delta.heads import SeenHeads
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.metadata import MetadataStore, with_effects
from turnstile.delta.proposals import CommitRequest, Describe, check_request, name_below, proposal_of
from turnstile.delta.soundness.first_look import FirstLook
from turnstile.store.cache import Lru
from turnstile.store.core.errors import (
    ErrorType,
    InvalidCommit,
    NotFound,
    OutcomeUnknown,
    StorageFault,
    Throttled,
    TooLarge,
)
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import staged_path
from turnstile.store.core.rows import INLINE, inline_obj
from turnstile.store.core.writes import Change
from turnstile.store.ports import Obj, World
from turnstile.store.retry import Pause, no_pause

_RULES: Final = 10_000
"""Metadata with cached rules."""


class TimestampAhead(InvalidCommit):
    """An in-commit timestamp too far ahead of the server's clock."""

    type = ErrorType.TIMESTAMP_AHEAD


def timestamp_ahead(ict: int, now: int, clock_skew_ms: int) -> TimestampAhead | None:
    """Returns why the in-commit timestamp of a commit is refused; None if it is not too far ahead
    of ``now``."""
    if ict <= now + clock_skew_ms:
        return None
    return TimestampAhead(
        f"in-commit timestamp {ict} is {(ict - now) // 1000} s ahead of the server's clock",
        field="commitInfo.inCommitTimestamp",
        remedy="correct the writer's clock; all later commits would need later timestamps",
        server=now,
    )


class Prepared(msgspec.Struct, frozen=True):
    """A proposal that was validated and may be written. ``uses``: the needs of its commit on the
    table, if it is validated again after the metadata has changed. ``clock_behind``: the form of a
    ticket (``ticket_change``).
    """

    request: CommitRequest
    proposal: Proposal
    uses: Uses | None = None
    clock_behind: bool = False

    @property
    def table_id(self) -> str:
        return self.request.table_id


Member = Prepared | Ratified | Conflict | Refused
"""A member while the group is decided: to be written, or decided."""


class NewRows(msgspec.Struct, frozen=True):
    """The files of a commit, and the table by which their rows are checked; ``metadata``: the id of
    ``table``, empty for metadata that the commit itself has; ``name``: the table's full name."""

    table: DeltaMetadata
    metadata: str
    location: str
    uses: Uses
    principal: str
    name: str


Refusal = InvalidCommit | Throttled | StorageFault
"""The refusal of a commit that does not fit its table, or that is to be sent again."""


class RowsCheck(Protocol):
    """Checks the new rows of commits by the expectations of their tables (I29)."""

    def refusal(self, rows: NewRows) -> Refusal | None:
        """Returns why a commit with these rows is refused; None if it is not."""


class Preparer:
    """Validates proposals, and makes their conditional writes. No state between requests but
    caches."""

    def __init__(
        self,
        world: World,
        heads: SeenHeads,
        limits: Limits,
        metadata: MetadataStore | None = None,
        *,
        pause: Pause = no_pause,
        looks: bool = False,
        rows_check: RowsCheck | None = None,
    ) -> None:
        """
        Args:
            looks: whether the log of a table is looked at before its first commit (``first_look``):
                for a process that lives long.
            rows_check: None: expectations of rows are not checked.
        """
        self.world = world
        self.heads = heads
        self.pause = pause
        self.attempts = limits.attempts  # writes of a commit, before it is refused since the table changes too often
        self._clock = world.clock
        self._limits = limits
        self._identities = IdentityIndex(world.objs, world.space, world.clock, limits.identity_days)
        self._metadata = metadata or MetadataStore(world.objs, world.space)
        self._rules = Lru[str, TableRules](_RULES)
        self._rows_check = rows_check
        self._first_look = FirstLook(world.storages, heads.read) if looks else None

    def look(self, heads: Iterable[TableHead]) -> None:
        """Looks at the logs of tables, several at once, where no commit of this process has looked
        yet. Call it after the HEADs were read."""
        if self._first_look is not None:
            self._first_look.look(heads)

    def prepare(self, request: CommitRequest, group: str = "") -> Prepared | Ratified | Conflict | Refused:
        """Steps 1 to 3: the proposal as a member of ``group``, to be written; or the decision,
        where the table has been read on the way and it is clear from its HEAD. Raises as
        ``Ratifier.commit``; nothing was written but objs.
        """
        check_request(request)
        read = self._content(request)
        if isinstance(read, Ratified):
            return read
        content, raw, digest = read
        proposal = proposal_of(request, content, raw, self._clock.now_ms(), digest=digest, group=group)
        proposal = msgspec.structs.replace(proposal, room=self._limits.backlog_bytes)
        refusal = name_below(request) or timestamp_ahead(content.ict, self._clock.now_ms(), self._limits.clock_skew_ms)
        if refusal is None and content.whole and not content.changes_metadata and not request.always:
            fitted = self._fit(request, proposal, content.uses)
            return self._prepare_looked(request, fitted, content.uses) if isinstance(fitted, Proposal) else fitted
        head = self.heads.read(request.table_id)
        if refusal is not None:  # a replay is answered whatever the clock says by now, and whatever its name is (I3)
            decision = self._decide_only(head, proposal)
            if isinstance(decision, Ratified):
                return decision
            raise refusal
        if request.version != head.latest + 1:  # without its table metadata the proposal must never be written
            return self._decide_only(head, proposal)
        now = self._clock.now_ms()
        if not content.changes_metadata and (
            misfit := self._misfit(request, head.catalog, head.metadata, proposal, content.uses)
        ):
            raise misfit
        judged = msgspec.structs.replace(request, describe=self._judging_describe(request))
        described = with_effects(self._metadata, head, proposal, content, request=judged, now_ms=now)
        return self._prepare_looked(request, described)

    def redecide(self, prepared: Prepared, head: TableHead) -> Prepared | Ratified | Conflict | Refused:
        """Step 5: the decision from ``head``, which the store returned, or the next write. Raises
        as ``Ratifier.commit``."""
        proposal = prepared.proposal
        decision = self._decide(head, proposal)
        if prepared.uses is not None and prepared.request.etag is None and _is_stale(decision):
            decision = self._fit(prepared.request, proposal, prepared.uses)
        if not isinstance(decision, Proposal):
            return decision
        # The same one: a ticket whose form did not fit.
        behind = head.last_ict >= proposal.entry.ict if decision is proposal else prepared.clock_behind
        return msgspec.structs.replace(prepared, proposal=decision, clock_behind=behind)

    def change(self, prepared: Prepared) -> Change:
        """The conditional write of step 4."""
        proposal = prepared.proposal
        key = self.world.space.table(prepared.table_id)
        now = self._clock.now_ms()
        if proposal.version is None:
            return ticket_change(key, proposal, now, clock_behind=prepared.clock_behind)
        return named_change(key, proposal, now)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _content(self, request: CommitRequest) -> tuple[Content, bytes | None, int] | Ratified:
        """The content, its bytes when it came inline, and their digest when it is a file: the file
        may be overwritten from here on, and only the validated bytes count (I4). Of a large file
        the beginning is validated, and all of it is read for the digest, piece by piece.
        """
        if request.content is not None:
            size = len(request.content)
            limit = self._limits.inline_bytes
            if size > limit:
                raise TooLarge(
                    f"inline content of {size} bytes is over the limit",
                    field="inline.content",
                    remedy="stage the commit as a file instead",
                    limit=limit,
                    size=size,
                )
            return read_content(request.content), request.content, 0
        if request.size > self._limits.staged_max_bytes:
            return self._too_large(request)
        storage = self.world.storages.open(self.heads.facts(request.table_id).location)
        path = staged_path(request.staged)
        file = storage.read(path, limit=self._limits.staged_bytes)
        if file is None:
            return self._replayed_content(request)
        raw, stat = file
        if stat.size != request.size:
            raise InvalidCommit(
                f"staged file {request.staged} has {stat.size} bytes, not {request.size}",
                field="staged.size",
                remedy="propose the file after it is written completely, with its true size",
            )
        content = read_content(raw, whole=len(raw) == stat.size)
        most = self._limits.first_line_bytes
        if len(raw) > most and raw.find(b"\n", 0, most) < 0:
            raise InvalidCommit(
                f"the first line of staged file {request.staged} has more than {most} bytes",
                field="commitInfo",
                remedy="shorten commitInfo, protocol and metaData",
            )
        return content, None, digest_of_pieces(pieces_of(storage, path, raw, stat))

    def _too_large(self, request: CommitRequest) -> Ratified:
        """A commit that is too large to be published; one that was ratified when there was no limit
        is answered (I3)."""
        try:
            return self._replayed_content(request)
        except NotFound:
            limit = self._limits.staged_max_bytes
            raise TooLarge(
                f"staged file {request.staged} has {request.size} bytes, and a commit may have {limit}",
                field="staged.size",
                remedy="split the change into several commits: a commit with fewer files is smaller",
                limit=limit,
                size=request.size,
            ) from None

    def _replayed_content(self, request: CommitRequest) -> Ratified:
        """A staged file that is gone: perhaps it was ratified, published and collected long ago
        (I3)."""
        head = self.heads.read(request.table_id)  # the tail first: what leaves it afterwards is in the index already
        place = find_identity(tail_by_version(head), "", request.staged)
        if place is not None:
            return _replay(head, place.version, place)
        version = self._recall(head, [request.staged])
        if version is None:
            remedy = "write the file before proposing it"
            raise NotFound("staged file", request.staged, field="staged.name", remedy=remedy)
        return _replay(head, version)

    def _fit(self, request: CommitRequest, proposal: Proposal, uses: Uses) -> Proposal | Ratified | Conflict | Refused:
        """The proposal of a commit that changes no metadata, with the metadata that it was
        validated by: the write asserts that it is still current (I2). Without a request if this
        sandbox has cached the table's metadata and the commit fits it. Otherwise from the HEAD: a
        replay, or a conflict, is answered for any present metadata (I3).

        Raises InvalidCommit if the commit does not fit the table.
        """
        proposal = msgspec.structs.replace(proposal, asserts=request.etag)
        seen = self.heads.last(request.table_id)
        misfit = None
        judged = ""
        if seen is not None and request.etag in (None, seen.metadata):
            catalog = self.heads.facts(request.table_id).catalog
            judged = seen.metadata
            misfit = self._misfit(request, catalog, judged, proposal, uses)
            if misfit is None:
                return msgspec.structs.replace(proposal, asserts=judged)
        head = self.heads.read(request.table_id)
        if head.metadata != judged:
            misfit = None
        if request.etag in (None, head.metadata):
            if head.metadata != judged:
                misfit = self._misfit(request, head.catalog, head.metadata, proposal, uses)
            if misfit is None:
                return msgspec.structs.replace(proposal, asserts=head.metadata)
        decision = self._decide_only(head, proposal)
        if misfit is None or decision is not CONTENDED:
            return decision
        raise misfit

    def _misfit(
        self, request: CommitRequest, catalog: str, metadata: str, proposal: Proposal, uses: Uses
    ) -> Refusal | None:
        """Why a commit does not fit a table with this metadata; None if it does."""
        rules = self._rules.get(metadata)
        if rules is None:
            try:
                table = self._metadata.get(catalog, metadata)
            except (StorageFault, Throttled) as error:  # the proposal may have been ratified long ago
                raise OutcomeUnknown(f"the table's metadata could not be read: {error.public_message}") from error
            rules = rules_of(table.protocol, table.metadata)
            self._rules.put(metadata, rules)
        try:
            check_uses(uses, rules, ticket=proposal.version is None)
        except InvalidCommit as error:
            return error
        if not rules.expects or not (uses.files or not uses.whole):
            return None
        return self._rows_refusal(request, self._metadata.get(catalog, metadata), metadata, uses)

    def _rows_refusal(self, request: CommitRequest, table: DeltaMetadata, metadata: str, uses: Uses) -> Refusal | None:
        if self._rows_check is None or request.checked:
            return None
        facts = self.heads.facts(request.table_id)
        return self._rows_check.refusal(NewRows(table, metadata, facts.location, uses, request.principal, facts.name))

    def _judging_describe(self, request: CommitRequest) -> Describe:
        """``request.describe``, which refuses a commit that does not fit the table as it is
        afterwards."""
        describe = request.describe

        def describe_judged(id: str, before: DeltaMetadata, content: Content, version: int) -> DeltaMetadata:
            after = describe(id, before, content, version) if describe else apply(before, content, version)
            if content.changes_metadata:
                check_definition(after.protocol, after.metadata)
            rules = rules_of(after.protocol, after.metadata)
            check_uses(content.uses, rules)
            expected = expectation_properties(after.metadata)
            is_checked = rules.expects or expected != expectation_properties(before.metadata)
            refusal = self._rows_refusal(request, after, "", content.uses) if is_checked else None
            if refusal is not None:
                raise refusal
            return after

        return describe_judged

    def _prepare_looked(
        self, request: CommitRequest, proposal: Proposal, uses: Uses | None = None
    ) -> Prepared | Ratified | Conflict | Refused:
        """``_prepare``, unless the table's log has versions after its HEAD's. A replay is answered
        all the same (I3)."""
        refused = None if self._first_look is None else self._first_look.refusal(request.table_id)
        if refused is None:
            return self._prepare(request, proposal, uses)
        decision = self._decide_only(self.heads.read(request.table_id), proposal)
        return decision if isinstance(decision, Ratified) else refused

    def _prepare(self, request: CommitRequest, proposal: Proposal, uses: Uses | None = None) -> Prepared:
        """Returns the commit for the next write. With ``uses`` the proposal is judged again if the
        metadata changes before that write."""
        if len(proposal.entry.data) > INLINE_IN_ROW:
            proposal = self._spill(request.table_id, proposal)
        seen = self.heads.last(request.table_id)
        return Prepared(request, proposal, uses, seen is not None and proposal.entry.ict <= seen.last_ict)

    def _decide_only(self, head: TableHead, proposal: Proposal) -> Ratified | Conflict | Refused:
        """The decision of ``head``, for a proposal that must not be written. Never a fresh
        Ratified."""
        for _ in range(self._limits.attempts):
            decision = self._decide(head, proposal)
            if not isinstance(decision, Proposal):
                return decision
            proposal = decision
        return CONTENDED

    def _decide(self, head: TableHead, proposal: Proposal) -> Ratified | Conflict | Refused | Proposal:
        """Step 5: the decision of ``head``; or the proposal to be sent next, which is the same one
        if it would be accepted."""
        match decide(head, proposal):
            case Recall():
                version = self._recall(head, [proposal.entry.txn])
                if version is not None:
                    return _replay(head, version)
                if proposal.entry.ict < self._clock.now_ms() - (self._limits.identity_days - 1) * 86_400_000:
                    return _forgotten(head)
                # Not in the index, which has all that left the tail, nor in this row's tail: in no
                # version up to its latest.
                return msgspec.structs.replace(proposal, recalled=head.latest + 1)
            case Spill():
                return self._spill(head.table_id, proposal)
            case Ratified(replayed=False):
                return proposal
            case Ratified() as replay:
                return msgspec.structs.replace(replay, head=head)
            case decision:
                return decision

    def _recall(self, head: TableHead, identities: list[str]) -> int | None:
        """The version in the identity index. While that cannot be read, the proposal may have been
        ratified long ago."""
        try:
            return self._identities.recall(head.catalog, head.table_id, identities)
        except (StorageFault, Throttled) as error:
            raise OutcomeUnknown(f"past transactions could not be read: {error.public_message}") from error

    def _spill(self, table_id: str, proposal: Proposal) -> Proposal:
        """Moves inline bytes to an obj, which is written before the row refers to it."""
        space = self.world.space.objs(self.heads.facts(table_id).catalog)
        entry = proposal.entry
        now = self._clock.now_ms()
        id = inline_obj(table_id, now, entry.data)
        self.world.objs.put(Obj(space, id, INLINE.name, entry.data, created_us=now * 1000))
        return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(entry, data=b"", obj=id))


def _is_stale(decision: object) -> bool:
    return isinstance(decision, Refused) and decision.kind == ErrorType.STALE_METADATA


def _replay(head: TableHead, version: int, place: PlacedCommit | None = None) -> Ratified:
    return Ratified(place, version, latest=head.latest, metadata=head.metadata, replayed=True, head=head)


def _forgotten(head: TableHead) -> Refused:
    """The identity index keeps entries for some days only: whether this one was ratified before is
    not known (I3)."""
    why = "the proposal is older than the memory of past transactions"
    remedy = "load the table, look for this transaction in its history, and build the commit anew"
    return Refused(
        ErrorType.RELOAD_REQUIRED, why, remedy, "commitInfo.inCommitTimestamp", details={"latest": head.latest}
    )
