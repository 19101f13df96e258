"""Transactions of a catalog over HTTP: changes of it and commits of its tables, all or none (I8, docs/transactions.md).

The transaction's ``id`` is its idempotency key: the row that remembers it is written in the transaction itself, also that of a
refusal (I3). The entries in the tables' logs have an id that is made of it and of the request, so commits that were sent
without these changes are never taken for this transaction.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Guard, Need, Target
from turnstile.access.core.rules import read_table, use_catalog
from turnstile.api.http import idempotency
from turnstile.api.http.authorization import authorized_by_view, guard, table_guards
from turnstile.api.http.request import Query, body, current, note
from turnstile.api.http.responses import status_of
from turnstile.api.services import services
from turnstile.api.v1.change_members import Change, PreparedMember, member_of, prepared
from turnstile.api.v1.commits import to_request
from turnstile.api.v1.paths import CATALOG
from turnstile.api.v1.transactions import (
    GroupGuards,
    Member,
    MemberBody,
    conflict,
    ratified_members,
    refused_members,
)
from turnstile.catalog.commit import Committer
from turnstile.catalog.composed import RefusedChange
from turnstile.catalog.query.reads import CatalogRead, CatalogReads
from turnstile.catalog.transactions import Applied, CatalogTransactions, NotApplied, check_transaction, earlier
from turnstile.delta.groups import GroupRequest, ReadVersion
from turnstile.store.core.errors import ErrorType, NotFound, PermissionDenied, StateConflict
from turnstile.store.core.names import check_identifier, check_uuid

routes = Blueprint(__name__)


class CatalogTransactionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"id", "changes": [{"change", ...}], "commits"?, "reads"?, "catalog_reads"?}``: ``id`` a uuid that the client makes, one for
    each transaction; ``changes`` in their order, each in the catalog as those before it leave it; ``catalog_reads``: queries of the
    catalog whose answers must be the same; the others as of ``POST /v1/transactions``."""

    id: str
    changes: list[Change]
    commits: list[MemberBody] = []
    reads: list[ReadVersion] = []
    catalog_reads: list[CatalogRead] = []


class CatalogTransaction(msgspec.Struct, frozen=True):
    """The answer to a transaction that is applied; commits in the order of the request. ``seq``: the number of the catalog's
    commit that has the changes, absent where it is not remembered any more."""

    outcome: Literal["applied", "replayed"]
    id: str
    commits: list[Member]
    seq: int | UnsetType = UNSET


@routes.route(CATALOG + "/transactions", methods=["POST"])
@authorized_by_view(
    "of each change what it needs alone, modify_table of each table that is written, read_table of each read, use_catalog"
)
def transact_catalog(catalog: str) -> CatalogTransaction:
    Query()
    body_sent, of = body(CatalogTransactionBody), check_identifier(catalog, "catalog")
    changes = [member_of(of, at, change) for at, change in enumerate(body_sent.changes)]
    sent = _Sent(of, body_sent.id, _group(body_sent), changes, body_sent.catalog_reads)
    check_transaction(sent.group, len(sent.changes), len(sent.catalog_reads))
    # Of the first change; each is authorized where it is computed. What was read is judged as far as it may be seen.
    needs = sent.changes[0].needs if sent.changes else (Need(use_catalog, Target(of)),)
    by = services().guard_of(*needs)
    note(transaction=sent.id, tables=len(sent.group.commits), changes=len(sent.changes))
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


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request that was read."""

    catalog: str
    id: str
    group: GroupRequest
    changes: Sequence[PreparedMember]
    catalog_reads: Sequence[CatalogRead]


def _group(sent: CatalogTransactionBody) -> GroupRequest:
    return GroupRequest(
        _entry_id(check_uuid(sent.id, "id")),
        tuple(to_request(check_uuid(commit.table_id), commit) for commit in sent.commits),
        tuple(ReadVersion(check_uuid(read.table_id), read.version, read.slack) for read in sent.reads),
    )


def _entry_id(id: str) -> str:
    """The id of the entries of this very request."""
    return str(uuid.uuid5(uuid.UUID(id), hashlib.sha256(current().path.encode() + b"\n" + current().body).hexdigest()))


def _first(sent: _Sent, by: Guard, reads: CatalogReads, committer: Committer) -> CatalogTransaction:
    group = sent.group
    guards = GroupGuards.of([commit.table_id for commit in group.commits], [read.table_id for read in group.reads])
    by.authorize_now()
    guard().mark_authorized()  # of the first; a later change that is not permitted refuses all
    transactions = CatalogTransactions(services().groups, committer)
    outcome = transactions.commit(sent.catalog, group, prepared(sent.changes, by), reads)
    if isinstance(outcome, NotApplied):
        raise _refused(sent, outcome, guards)
    return _answer(sent, outcome, [guards.written[commit.table_id].may(read_table) for commit in group.commits])


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


def _refused(sent: _Sent, outcome: NotApplied, guards: GroupGuards) -> StateConflict:
    if outcome.change is not None:
        shown = [_change(sent.changes[outcome.change.index].name, outcome.change)]
    elif outcome.read is not None:
        shown = [_read(sent.catalog_reads, outcome.read)]
    else:
        assert outcome.commits is not None
        shown = refused_members(sent.group, outcome.commits, guards)
    note(outcome="conflict", refused=len(shown))
    return conflict(shown, len(shown))


def _read(reads: Sequence[CatalogRead], error: StateConflict) -> dict[str, Any]:
    """What the answer says of a read of the catalog that does not hold any more: what its query leads to now and did not, or the
    reverse."""
    at = int(str(error.field).removeprefix("catalog_reads[").removesuffix("]"))
    shown = {"name": reads[at].query[:200], "type": error.type, "message": error.message, "field": error.field}
    return {**error.details, **shown}


def _change(name: str, refused: RefusedChange) -> dict[str, Any]:
    """What the answer says of a change that was refused: the error that it gets alone, and the catalog's commit (``seq``) in
    whose state it was refused."""
    error = refused.error
    shown = {"name": name, "type": error.type, "message": error.message, "field": error.field, "seq": refused.seq}
    return {**error.details, **shown}
