"""The decision on a proposal: the answer of a HEAD to *may this be version v?* or *may this be the
next version?*

``decide(head, proposal)`` is pure. The conditional writes of ``writes.ratify`` accept exactly when
it returns a fresh Ratified; when a write is refused, the returned row and this function make the
answer, without another read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from turnstile.delta.core.head import (
    ACTIVE,
    DROPPED,
    LEAVING,
    PINNED,
    READ_ONLY,
    RECOVERING,
    ROWS_UNREAD,
    STUCK,
    Entry,
    PlacedCommit,
    TableHead,
    cost,
    tail_by_version,
)
from turnstile.delta.core.reservations import LEASE_MOST_MS
from turnstile.store.core.errors import ErrorType
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.core.terms import is_over


class Proposal(msgspec.Struct, frozen=True):
    """One attempt to extend a table.

    Attributes:
        version: the proposed version; None asks for a ticket (the next one, blind appends only).
        base: newest version known not to contain this transaction.
        entry: the row's entry for it.
        apps: hashed streaming application ids of its ``txn`` actions.
        asserts: metadata id that must still be current (etag), if it asserts or changes metadata.
        metadata: metadata id that becomes current, if it changes metadata.
        recalled: set after the identity index had no entry for this identity: the ``tail_from`` of
            the row that was looked at. Identities evicted before that position are known not to be
            this one.
        room: the most bytes of the tail with it (I11): how long a backlog may grow before it is
            refused.
        holder: of the reservation that its transaction has; empty for none.
    """

    version: int | None
    base: int
    entry: Entry
    apps: tuple[str, ...] = ()
    asserts: str | None = None
    metadata: str | None = None
    recalled: int | None = None
    room: int = ROW_BUDGET
    holder: str = ""

    @property
    def oldest_needed(self) -> int:
        """The tail must still carry everything from this version on (I3). The identity index can
        stand in for evicted transaction ids, but nothing remembers evicted streaming applications:
        a ticket with a ``txn`` needs every entry since its base.
        """
        return self.base + 1 if self.version is None and self.apps else self.identities_needed

    @property
    def identities_needed(self) -> int:
        """The tail must still carry identities from this version on; older ones were looked up in
        the index (I3)."""
        return max(self.base + 1, self.recalled or 0)


class Ratified(msgspec.Struct, frozen=True, tag=True):
    """The proposal is version ``version`` now; ``replayed`` when it already was (I3). ``place`` is
    its entry, while the tail has it. ``head`` is the row after the write (None where the caller has
    the row that decided).
    """

    place: PlacedCommit | None
    version: int
    latest: int
    metadata: str
    replayed: bool = False
    head: TableHead | None = None


RESERVED_RETRY_MS: Final = 1_000
"""After how long a commit on a reserved table may be tried again, at most."""

Because = Literal["version", "metadata", "application", "read"]


class Conflict(msgspec.Struct, frozen=True, tag=True):
    """Another commit is that version. ``winners`` are the commits since the proposal's base that
    the tail still has, newest first; versions up to ``published`` are in ``_delta_log``."""

    latest: int
    published: int
    winners: tuple[PlacedCommit, ...]
    because: Because = "version"


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Not possible at any version; ``details`` is data for programs."""

    kind: ErrorType
    message: str
    remedy: str
    field: str | None = None
    details: Mapping[str, int | str | None] = {}


class Recall(msgspec.Struct, frozen=True, tag=True):
    """The row no longer has all identities among which this one may be: look in the identity index,
    then decide again."""

    tail_from: int


class Spill(msgspec.Struct, frozen=True, tag=True):
    """The row has no room for the inline bytes: write them as an obj, then decide again with a
    reference."""


Decision = Ratified | Conflict | Refused | Recall | Spill


def find_identity(tail: tuple[PlacedCommit, ...], txn: str, name: str = "") -> PlacedCommit | None:
    """Returns the entry with this txn id or this staged name; neither is ever empty in a tail. The
    name counts only where the txn id is not known: a file may be written anew, with another
    transaction, under the same name.
    """
    for place in tail:
        if place.entry.txn == txn or (name and place.name == name):  # a name is computed: only where one is looked for
            return place
    return None


def decide(head: TableHead, proposal: Proposal) -> Decision:
    """Decides ``proposal`` from ``head`` alone. A fresh Ratified: the write would be accepted.

    The order of the questions is part of the contract: identity, memory, state, an undecided group,
    version, a reservation, metadata, timestamp, rows, room.
    """
    tail = tail_by_version(head)
    place = find_identity(tail, proposal.entry.txn)
    if place is not None:
        return Ratified(place, place.version, latest=head.latest, metadata=head.metadata, replayed=True)
    if proposal.identities_needed < head.tail_from:  # I3: also for a table that is no longer active
        return Recall(tail_from=head.tail_from)
    if head.state != ACTIVE:
        return not_active(head)
    if head.undecided:
        return undecided_refusal(head)
    if proposal.oldest_needed < head.tail_from:
        return _conflict(head, tail, proposal.base + 1, "application")
    return _ticket(head, proposal, tail) if proposal.version is None else _decide_named(head, proposal, tail)


def _decide_named(head: TableHead, proposal: Proposal, tail: tuple[PlacedCommit, ...]) -> Decision:
    version = proposal.version or 0
    entry = proposal.entry
    if version > head.latest + 1:
        why = f"version {version} cannot follow version {head.latest}"
        remedy = f"propose version {head.latest + 1} after reading the table again"
        return Refused(ErrorType.VERSION_GAP, why, remedy, "version", {"latest": head.latest})
    if version <= head.latest:
        return _conflict(head, tail, version)
    if _is_reserved(head, proposal.holder, entry.ratified_ms):
        return _reserved_refusal(head, entry.ratified_ms)
    if proposal.asserts is not None and proposal.asserts != head.metadata:
        return _stale(head)
    if entry.ict <= head.last_ict:
        why = f"in-commit timestamp {entry.ict} is not later than {head.last_ict} of version {head.latest}"
        remedy = f"use {head.last_ict + 1} or later"
        details = {"last": head.last_ict, "latest": head.latest}
        return Refused(ErrorType.TIMESTAMP_NOT_INCREASING, why, remedy, "commitInfo.inCommitTimestamp", details)
    if entry.hwm >= -1 and head.row_hwm is not None and entry.hwm < head.row_hwm < ROWS_UNREAD:
        why = f"row ids up to {head.row_hwm} are assigned already; the commit says up to {entry.hwm}"
        remedy = "load the table again and assign row ids after its high-water mark"
        details = {"row_id_high_water_mark": head.row_hwm, "latest": head.latest}
        return Refused(ErrorType.INVALID_COMMIT, why, remedy, "domainMetadata.configuration", details)
    return _room(head, proposal) or Ratified(None, version, version, proposal.metadata or head.metadata)


def _ticket(head: TableHead, proposal: Proposal, tail: tuple[PlacedCommit, ...]) -> Decision:
    if proposal.base > head.latest:
        why = f"base {proposal.base} is later than the table's latest version {head.latest}"
        return Refused(ErrorType.VERSION_GAP, why, "load the table again", "base", {"latest": head.latest})
    if head.epoch > proposal.base:
        return _conflict(head, tail, proposal.base + 1, "metadata")
    if any(head.apps.get(app, 0) > proposal.base for app in proposal.apps):
        return _conflict(head, tail, proposal.base + 1, "application")
    if proposal.asserts is not None and proposal.asserts != head.metadata:
        return _stale(head)
    if (head.row_hwm is None) != (proposal.entry.rows < 0):
        why = "row tracking is on: every add needs stats.numRecords and the delta.rowTracking domain"
        if head.row_hwm is None:
            why = "row tracking is off: the delta.rowTracking domain does not belong here"
        return Refused(ErrorType.INVALID_COMMIT, why, "build the commit from the table's current protocol", "content")
    if head.row_hwm is not None and head.row_hwm > MAX_ROW_ID - proposal.entry.rows:
        why = "the table's row-id high-water mark is not known here (a very large commit set it)"
        remedy = "name the version and assign the row ids yourself"
        return Refused(ErrorType.INVALID_COMMIT, why, remedy, "version", {"latest": head.latest})
    return _room(head, proposal) or Ratified(None, head.latest + 1, head.latest + 1, head.metadata)


def _room(head: TableHead, proposal: Proposal) -> Decision | None:
    if head.bytes + cost(proposal.entry) <= proposal.room:
        return None
    if proposal.entry.data:
        return Spill()
    why = f"{head.latest - head.floor} ratified commits wait for publication"
    remedy = "send the same proposal again when the publisher has caught up"
    details = {"latest": head.latest, "floor": head.floor, "retry_after_ms": 500}
    return Refused(ErrorType.BACKLOG_FULL, why, remedy, details=details)


def _stale(head: TableHead) -> Refused:
    why = "the table's metadata changed since it was read"
    remedy = "load the table again and rebase"
    return Refused(ErrorType.STALE_METADATA, why, remedy, "etag", {"etag": head.metadata, "latest": head.latest})


def _is_reserved(head: TableHead, holder: str, now: int) -> bool:
    return head.reserved_by not in ("", holder) and not is_over(head.reserved_until, now, LEASE_MOST_MS)


def _reserved_refusal(head: TableHead, now: int) -> Refused:
    """The refusal while another transaction has reserved the table: it passes when that is over, or
    with its lease (I18)."""
    left_ms = head.reserved_until - now
    why = f"a transaction has reserved the table, for {left_ms} ms more if it does not end before"
    remedy = "send the same request again, or append without naming a version"
    details = {"latest": head.latest, "retry_after_ms": min(left_ms, RESERVED_RETRY_MS)}
    return Refused(ErrorType.CONCURRENT_CHANGE, why, remedy, details=details)


def undecided_refusal(head: TableHead) -> Refused:
    """The refusal while a group waits for its decision on the table: it passes, within seconds."""
    why = "a transaction over many tables is being decided on this table"
    remedy = "send the same request again"
    details = {"latest": head.latest, "retry_after_ms": 200}
    return Refused(ErrorType.CONCURRENT_CHANGE, why, remedy, details=details)


def changed_since(head: TableHead, version: int, slack: int = 0) -> Conflict | Refused:
    """The decision of a HEAD that is not at ``version``, nor at most ``slack`` versions further, on
    a group which read that version, and does not write the table (I8)."""
    if version <= head.latest <= version + slack and head.undecided:
        return undecided_refusal(head)
    if version <= head.latest:
        return _conflict(head, tail_by_version(head), version + 1, "read")
    why = f"version {version} was read, and the latest is {head.latest}"
    return Refused(ErrorType.VERSION_GAP, why, "load the table again", "version", {"latest": head.latest})


def _conflict(head: TableHead, tail: tuple[PlacedCommit, ...], since: int, because: Because = "version") -> Conflict:
    winners = tuple(place for place in reversed(tail) if place.version >= since)
    return Conflict(head.latest, head.floor, winners, because)


CONTENDED: Final = Refused(
    ErrorType.CONCURRENT_CHANGE,
    "the table changed during every attempt",
    "send the same proposal again",
    details={"retry_after_ms": 100},
)
"""The refusal after the last attempt. The proposal may be accepted yet."""


def not_active(head: TableHead) -> Refused:
    """The refusal of a table in another state than active."""
    remedies = {
        DROPPED: "the table was dropped; reload the catalog",
        LEAVING: "the table is leaving the catalog; write to it through the file system once it has left",
        STUCK: "a ratified commit cannot be published; run 'turnstile repair'",
        RECOVERING: "the coordinator was restored and is catching up with storage; try again shortly",
        PINNED: READ_ONLY,
    }
    why = f"the table is {head.state}" + (f": {head.reason}" if head.reason else "")
    remedy = remedies.get(head.state, "reload the table")
    return Refused(ErrorType.TABLE_NOT_ACTIVE, why, remedy, details={"state": head.state, "latest": head.latest})


# -- after a lost response --------------------------------------------------------------------------------------------

_FOR_EVER: Final = {ErrorType.RELOAD_REQUIRED}
"""``remembered`` fails: ``tail_from`` never falls."""

_WHILE_NEXT: Final = {ErrorType.TIMESTAMP_NOT_INCREASING, ErrorType.INVALID_COMMIT}
"""Of a named commit: ``later`` fails, and ``last_ict`` never falls; or ``fresh rows`` fails.
``row_hwm`` can change by a commit only, which takes the version that was named: then ``next`` fails
for ever.
"""


def excludes_earlier(decision: Decision, *, is_named: bool) -> bool:
    """Whether an earlier attempt of the same proposal (``is_named``: it names its version), whose
    response was lost, can have no other outcome than ``decision`` (I3).

    That attempt may still be on its way. "Refused" is true of it only if it can never be accepted
    any more: a clause of it fails on this row and on every row that may follow. Otherwise the
    outcome is unknown, and the proposer sends the same proposal again. It was not accepted *before*
    this refusal, since ``decide`` looks for its identity first.

    A conflict is final: ``latest`` and ``epoch`` never fall, so neither ``next`` nor ``same epoch``
    holds again; and a row that forgets a streaming application has raised ``tail_from`` above the
    value that a ticket with one needs (``remembered``).

    Everything else may pass. A table that is stuck, leaving, recovering or dropped may be active
    again, a full row is emptied, a gap is filled by others, earlier metadata may become current
    again, and a mark of row ids that a ticket cannot follow may be replaced by one that it can.
    """
    match decision:
        case Ratified() | Conflict():
            return True
        case Refused(kind=kind):
            return kind in _FOR_EVER or (is_named and kind in _WHILE_NEXT)
        case _:
            return False
