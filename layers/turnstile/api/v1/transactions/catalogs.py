"""Transactions of a catalog over HTTP: changes of it and commits of its tables, all or none (I8,
docs/transactions.md).

The transaction's ``id`` is its idempotency key: the row that remembers it is written in the
transaction itself, also that of a refusal (I3). The entries in the tables' logs have an id that is
made of it and of the request, so commits that were sent without these changes are never taken for
this transaction.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Guard, Need, Target
from turnstile.api.http import idempotency
from turnstile.api.http.authorization import authorized_by_view, guard, table_guards
from turnstile.api.http.request import Query, body, current, note
from turnstile.api.http.responses import status_of
from turnstile.api.services import services
from turnstile.api.v1.paths import CATALOG
from turnstile.api.v1.transactions.journal import Entry, authorized_entry, entry_of
from turnstile.api.v1.transactions.members import Change, PreparedMember, member_of, prepare_changes
from turnstile.api.v1.transactions.tables import (
    GroupGuards,
    Member,
    MemberBody,
    authorize_tables,
    conflict,
    group_of,
    note_refused,
    ratified_members,
    refused_members,
)
from turnstile.catalog.changes.announced import AnnouncedTransactions
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.composed import RefusedChange
from turnstile.catalog.changes.transactions import Applied, CatalogTransactions, NotApplied, check_transaction, earlier
from turnstile.catalog.core.paths import fold
from turnstile.catalog.query.reads import CatalogRead, CatalogReads
from turnstile.delta.core.journal_rows import USUAL_TTL_MS
from turnstile.delta.proposals import GroupRequest, ReadVersion
from turnstile.delta.transactions.journal import Announcement, CatalogPart
from turnstile.rights.rules import read_table, use_catalog
from turnstile.store.core.errors import ErrorType, NotFound, PermissionDenied, StateConflict
from turnstile.store.core.names import check_identifier, check_uuid

routes = Blueprint(__name__)

_ROUNDS: Final = 8


class CatalogTransactionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"id", "changes": [{"change", ...}], "commits"?, "reads"?, "catalog_reads"?}``. ``id``: a
    uuid that the client makes, one for each transaction. ``changes``: in their order, each computed
    in the catalog as the changes before it leave it. ``catalog_reads``: queries of the catalog that
    must have the same answers. The others: as in ``POST /v1/transactions``.
    """

    id: str
    changes: list[Change]
    commits: list[MemberBody] = []
    reads: list[ReadVersion] = []
    catalog_reads: list[CatalogRead] = []
    journal: bool = False
    reservation: str = ""


class CatalogAnnouncementBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The transaction as it will be sent with ``journal``; the others as of ``PUT
    /v1/transactions/{transaction_id}``."""

    changes: list[Change] = []
    commits: list[MemberBody] = []
    reads: list[ReadVersion] = []
    catalog_reads: list[CatalogRead] = []
    attempt: int = 1
    isolation: Annotated[str, msgspec.Meta(max_length=40)] = ""
    ttl_ms: int = USUAL_TTL_MS


class CatalogTransaction(msgspec.Struct, frozen=True):
    """The answer to a transaction that is applied; commits in the order of the request. ``seq``:
    the number of the catalog's commit that has the changes, absent where it is not remembered any
    more.
    """

    outcome: Literal["applied", "replayed"]
    id: str
    commits: list[Member]
    seq: int | UnsetType = UNSET


@routes.route(CATALOG + "/transactions", methods=["POST"])
@authorized_by_view(
    "the needs of each change alone, modify_table of each table that is written, read_table of each read, use_catalog"
)
def transact_catalog(catalog: str) -> CatalogTransaction:
    Query()
    body_sent = body(CatalogTransactionBody)
    of = check_identifier(catalog, "catalog")
    if body_sent.journal:
        sent, part = _check_announced(of, body_sent.id, body_sent)
        return _commit_announced(sent, part)
    id = sent_entry_id(check_uuid(body_sent.id, "id"), current().path, current().body)
    sent = _check_sent(of, body_sent.id, id, body_sent)
    by = _guard_of(sent)
    here = services().catalog_for(by)
    reads = CatalogReads(of, sent.catalog_reads, here.reader, here.as_of_reader)
    return idempotency.once(
        sent.id,
        of,
        lambda committer: _first(sent, by, reads, committer),
        lambda seq: _again(sent, seq),
        world=here.world,
        reader=here.reader,
        guard=guard(),
        status_of=lambda error: 0 if error.type == ErrorType.CONCURRENT_CHANGE else status_of(error),
    )


# -- in the journal ----------------------------------------------------------------------------------------------------


@routes.route(CATALOG + "/transactions/{transaction_id}", methods=["PUT"])
@authorized_by_view(
    "the needs of the first change alone, modify_table of each table that is written, read_table of each read"
)
def announce_catalog(catalog: str, transaction_id: str) -> Entry:
    Query()
    asked = body(CatalogAnnouncementBody)
    of = check_identifier(catalog, "catalog")
    sent, part = _check_announced(of, check_uuid(transaction_id, "transaction_id"), asked)
    by = _guard_of(sent)
    here = services().catalog_for(by)
    CatalogReads(of, sent.catalog_reads, here.reader, here.as_of_reader)  # that they are queries
    _authorize(sent, by)
    here.reader.current(of)  # that there is such a catalog
    owner = guard().principal.name
    announcement = Announcement(sent.group, asked.attempt, asked.isolation, owner, asked.ttl_ms, part)
    return entry_of(services().journal.announce(announcement))


@routes.route(CATALOG + "/transactions/{transaction_id}/resume", methods=["POST"])
@authorized_by_view("owner of the entry, and the needs of the transaction")
def resume_catalog(catalog: str, transaction_id: str) -> CatalogTransaction:
    Query()
    of = check_identifier(catalog, "catalog")
    for _ in range(_ROUNDS):
        row, _guards = authorized_entry(transaction_id)
        if fold(row.catalog) != fold(of):
            raise NotFound(
                "transaction",
                f"{row.id} of catalog '{of}'",
                field="transaction_id",
                remedy="resume it in the catalog that its entry names",
            )
        group, part = services().journal.content(row)
        assert part is not None, "it is of a catalog"
        changes = msgspec.json.decode(part.changes, type=list[Change])
        members = [member_of(part.catalog, at, change) for at, change in enumerate(changes)]
        reads = msgspec.json.decode(part.reads, type=list[CatalogRead])
        try:
            return _commit_announced(_Sent(part.catalog, row.id, group, members, reads), part)
        except StateConflict as error:
            if error.type != ErrorType.TRANSACTION_SUPERSEDED:
                raise
    raise StateConflict(  # its client was at work: it announced other content since, each time
        ErrorType.CONCURRENT_CHANGE,
        "the transaction changed during every attempt",
        remedy="send the same request again",
        retry_after_ms=100,
    )


def _check_announced(
    catalog: str, id: str, asked: CatalogTransactionBody | CatalogAnnouncementBody
) -> tuple[_Sent, CatalogPart]:
    """The transaction, under its own id, and the parts of its entry besides commits."""
    sent = _check_sent(catalog, id, check_uuid(id, "id"), asked)
    encode = msgspec.json.encode
    return sent, CatalogPart(fold(catalog), encode(asked.changes), encode(asked.catalog_reads))


def _commit_announced(sent: _Sent, part: CatalogPart) -> CatalogTransaction:
    authorized_entry(sent.id)
    by = _guard_of(sent)
    here = services().catalog_for(by)
    announced = AnnouncedTransactions(services().journal, services().groups, here.committer)
    replay = announced.find_replay(sent.group, part)
    if replay is not None:
        guard().mark_replayed()
        return _answer(sent, replay, [_may_read(commit.table_id) for commit in sent.group.commits])
    reads = CatalogReads(sent.catalog, sent.catalog_reads, here.reader, here.as_of_reader)
    guards = _authorize(sent, by)
    outcome = announced.commit(sent.group, part, lambda: prepare_changes(sent.changes, by), reads)
    return _outcome(sent, outcome, guards)


# -- parts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request that was read."""

    catalog: str
    id: str
    group: GroupRequest
    changes: Sequence[PreparedMember]
    catalog_reads: Sequence[CatalogRead]


def _check_sent(catalog: str, id: str, entry_id: str, asked: CatalogTransactionBody | CatalogAnnouncementBody) -> _Sent:
    """The request, checked; ``entry_id`` names its group. Raises InvalidRequest."""
    changes = [member_of(catalog, at, change) for at, change in enumerate(asked.changes)]
    sent = _Sent(catalog, id, _group(entry_id, asked), changes, asked.catalog_reads)
    check_transaction(sent.group, len(changes), len(asked.catalog_reads))
    return sent


def _guard_of(sent: _Sent) -> Guard:
    """The guard of the first change; each change is authorized when it is computed. Reads are
    checked as far as the principal may see them."""
    note(transaction=sent.id, tables=len(sent.group.commits), changes=len(sent.changes))
    return services().guard_of(*(sent.changes[0].needs if sent.changes else (Need(use_catalog, Target(sent.catalog)),)))


def _authorize(sent: _Sent, by: Guard) -> GroupGuards:
    guards = authorize_tables(sent.group)
    by.authorize_now()
    guard().mark_authorized()  # of the first; a later change that is not permitted refuses all
    return guards


def _group(id: str, sent: CatalogTransactionBody | CatalogAnnouncementBody) -> GroupRequest:
    return group_of(id, sent.commits, sent.reads, getattr(sent, "reservation", ""))


def sent_entry_id(id: str, path: str, body: bytes) -> str:
    """Returns the id of the entries of the request with this path and this body, of the transaction
    ``id``."""
    return str(uuid.uuid5(uuid.UUID(id), hashlib.sha256(path.encode() + b"\n" + body).hexdigest()))


def _first(sent: _Sent, by: Guard, reads: CatalogReads, committer: Committer) -> CatalogTransaction:
    guards = _authorize(sent, by)
    transactions = CatalogTransactions(services().groups, committer)
    return _outcome(
        sent, transactions.commit(sent.catalog, sent.group, prepare_changes(sent.changes, by), reads), guards
    )


def _outcome(sent: _Sent, outcome: Applied | NotApplied, guards: GroupGuards) -> CatalogTransaction:
    if isinstance(outcome, NotApplied):
        raise _refusal(sent, outcome, guards)
    return _answer(sent, outcome, [guards.written[commit.table_id].may(read_table) for commit in sent.group.commits])


def _again(sent: _Sent, seq: int | None) -> CatalogTransaction:
    may_read = [_may_read(commit.table_id) for commit in sent.group.commits]
    return _answer(sent, earlier(services().groups, sent.group, seq), may_read)


def _may_read(table_id: str) -> bool:
    """Whether the principal may read the table now; it may be gone."""
    try:
        return table_guards([read_table], [table_id])[0].may(read_table)
    except (NotFound, PermissionDenied):
        return False


def _answer(sent: _Sent, outcome: Applied, may_read: Sequence[bool]) -> CatalogTransaction:
    shown: Literal["applied", "replayed"] = "replayed" if outcome.replayed else "applied"
    note(outcome=shown)
    seq = UNSET if outcome.seq is None else outcome.seq
    return CatalogTransaction(shown, sent.id, ratified_members(sent.group, outcome.commits, may_read), seq)


def _refusal(sent: _Sent, outcome: NotApplied, guards: GroupGuards) -> StateConflict:
    if outcome.change is not None:
        shown = [_change(sent.changes[outcome.change.index].name, outcome.change)]
    elif outcome.read is not None:
        shown = [_read(sent.catalog_reads, outcome.read)]
    else:
        assert outcome.commits is not None
        shown = refused_members(sent.group, outcome.commits, guards)
        note_refused(sent.group, outcome.commits)
    note(outcome="conflict", refused=len(shown))
    return conflict(shown, len(shown))


def _read(reads: Sequence[CatalogRead], error: StateConflict) -> dict[str, Any]:
    """The part of an answer about a read of the catalog that is no longer valid: entries that its
    query finds now and did not before, or the reverse."""
    at = int(str(error.field).removeprefix("catalog_reads[").removesuffix("]"))
    shown = {"name": reads[at].query[:200], "type": error.type, "message": error.message, "field": error.field}
    return {**error.details, **shown}


def _change(name: str, refused: RefusedChange) -> dict[str, Any]:
    """The part of an answer about a refused change: the error of the change, and the catalog's
    commit (``seq``) that refused it by its state."""
    error = refused.error
    shown = {"name": name, "type": error.type, "message": error.message, "field": error.field, "seq": refused.seq}
    return {**error.details, **shown}
