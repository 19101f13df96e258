"""Transactions over tables over HTTP: a group of commits, all or none (I8,
docs/transactions.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Guard
from turnstile.api.conflicts import note_conflicts
from turnstile.api.http.authorization import authorized_by_view, guard, table_guards
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.api.v1.commits import Commit, CommitBody, commit_answer, commit_error, conflict_details, to_request
from turnstile.delta.core.decide import Conflict, Ratified
from turnstile.delta.core.reservations import holder_of
from turnstile.delta.proposals import GroupRequest, ReadVersion
from turnstile.delta.transactions.groups import GroupRatified, GroupRefused, RefusedMember, check_group
from turnstile.rights.rules import modify_table, read_table
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.names import check_uuid

routes = Blueprint(__name__)

NAMED_MAX: Final = 100
"""Members that a refusal names, with their winners: with a thousand tables an answer could not hold
more."""


class MemberBody(CommitBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A commit of the group: a single commit's body, and the table."""

    table_id: str


class TransactionBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"id", "commits": [{"table_id", ...}], "reads"?: [{"table_id", "version", "slack"?,
    "predicate"?}]}``. ``id``: a uuid that the client makes, one for each transaction. ``reads``:
    the tables that must still have ``version`` as the latest one, or at most ``slack`` versions
    more; with a ``predicate`` later versions are allowed if they changed no row that satisfies it
    (I20). ``journal``: whether it was announced, and is committed together with its entry.
    ``reservation``: the id of the caller's reservation of tables.
    """

    id: str
    commits: list[MemberBody]
    reads: list[ReadVersion] = []
    journal: bool = False
    reservation: str = ""


class Member(msgspec.Struct, frozen=True):
    """A ratified commit of the group."""

    table_id: str
    commit: Commit
    latest: int
    etag: str


class Transaction(msgspec.Struct, frozen=True):
    """The answer to a group that is ratified; commits in the order of the request."""

    outcome: Literal["ratified", "replayed"]
    id: str
    commits: list[Member]


@routes.route("/v1/transactions", methods=["POST"])
@authorized_by_view("modify_table of each table that is written, read_table of each that is read")
def transact() -> Transaction:
    Query()
    sent = body(TransactionBody)
    group = group_of(sent.id, sent.commits, sent.reads, sent.reservation)
    check_group(group)
    guards = authorize_tables(group)
    guard().mark_authorized()
    decision = services().journal.commit(group) if sent.journal else services().groups.commit(group)
    return answer_of(group, decision, guards)


def group_of(
    id: str, commits: Sequence[MemberBody], reads: Sequence[ReadVersion], reservation: str = ""
) -> GroupRequest:
    """Returns the group that a body describes; ``reservation``: the id of the one that the caller
    has. Raises InvalidRequest."""
    by = guard()
    holder = holder_of(by.principal.name, check_uuid(reservation, "reservation")) if reservation else ""
    requests = (to_request(check_uuid(commit.table_id), commit, by.principal.name) for commit in commits)
    return GroupRequest(
        check_uuid(id, "id"),
        tuple(msgspec.structs.replace(request, holder=holder) for request in requests),
        tuple(msgspec.structs.replace(read, table_id=check_uuid(read.table_id)) for read in reads),
    )


class GroupGuards(msgspec.Struct, frozen=True):
    """Authorized guards of the tables of a group, by table id."""

    written: dict[str, Guard]
    read: dict[str, Guard]

    @classmethod
    def of(cls, written: Sequence[str], read: Sequence[str]) -> GroupGuards:
        """Returns the guards of these tables; raises PermissionDenied or NotFound."""
        return cls(
            dict(zip(written, table_guards([modify_table], written), strict=True)),
            dict(zip(read, table_guards([read_table], read), strict=True)),
        )


def authorize_tables(group: GroupRequest) -> GroupGuards:
    """Returns the guards of a group's tables. Its predicates are parsed only after that, because
    that is work for principals that may read the tables. Raises PermissionDenied, NotFound;
    InvalidRequest for an invalid predicate.
    """
    guards = GroupGuards.of([commit.table_id for commit in group.commits], [read.table_id for read in group.reads])
    predicates = {
        f"reads[{index}].predicate": read.predicate for index, read in enumerate(group.reads) if read.predicate
    }
    if predicates:
        from turnstile.planning.reads import check_predicates  # with the parser, which takes long to import

        check_predicates(predicates)
    return guards


def answer_of(group: GroupRequest, decision: GroupRatified | GroupRefused, guards: GroupGuards) -> Transaction:
    """Returns the answer to a group that is ratified; raises that of one that was refused."""
    note(transaction=group.id, tables=len(group.commits))
    if isinstance(decision, GroupRefused):
        raise _refusal(group, decision, guards)
    return _transaction_of(group, decision, guards)


def _transaction_of(group: GroupRequest, decision: GroupRatified, guards: GroupGuards) -> Transaction:
    outcome: Literal["ratified", "replayed"] = "replayed" if decision.replayed else "ratified"
    note(outcome=outcome)
    may_read = [guards.written[request.table_id].may(read_table) for request in group.commits]
    return Transaction(outcome, group.id, ratified_members(group, decision.members, may_read))


def _refusal(group: GroupRequest, decision: GroupRefused, guards: GroupGuards) -> StateConflict:
    note_refused(group, decision)
    return conflict(refused_members(group, decision, guards), len(decision.members))


def note_refused(group: GroupRequest, decision: GroupRefused) -> None:
    """Notes the members that refused, for the log."""
    lost = [(member.table_id, member.decision) for member in decision.members if isinstance(member.decision, Conflict)]
    note_conflicts(lost, group.id)
    note(refused=len(decision.members))


# -- the same in transactions of a catalog (``v1.transactions.catalogs``) ----------------------------------------------


def ratified_members(group: GroupRequest, ratified: Sequence[Ratified], may_read: Sequence[bool]) -> list[Member]:
    """Returns the part of an answer about ratified commits; raises as ``commit_answer``."""
    members = []
    for request, decision, readable in zip(group.commits, ratified, may_read, strict=True):
        answer = commit_answer(services(), request, decision, may_read=readable)
        members.append(Member(request.table_id, answer.commit, answer.latest, answer.etag))
    return members


def refused_members(group: GroupRequest, decision: GroupRefused, guards: GroupGuards) -> list[dict[str, Any]]:
    """Returns the part of an answer about commits and reads that were refused, of the first
    ``NAMED_MAX``."""
    members = []
    for member in decision.members[:NAMED_MAX]:
        own = (guards.read if member.was_read else guards.written)[member.table_id]
        members.append(_member(group, member, may_read=own.may(read_table)))
    return members


def conflict(members: Sequence[dict[str, Any]], refused: int) -> StateConflict:
    """Returns the refusal of a transaction, for these reasons. ``refused``: how many members
    refused it."""
    first = members[0]
    more = f", and {refused - 1} more" if refused > 1 else ""
    what = f"table {first['table_id']}" if "table_id" in first else f"'{first['name']}'"
    return StateConflict(
        ErrorType.TRANSACTION_CONFLICT,
        f"nothing was applied: {what}: {first['message']}{more}",
        field=first["field"],
        remedy="rebase each named member on its latest version, and send a new transaction",
        members=list(members),
    )


def _member(group: GroupRequest, member: RefusedMember, *, may_read: bool) -> dict[str, Any]:
    """The part of an answer about a refused member: the error of a single commit, with the
    table."""
    where: dict[str, Any] = {"table_id": member.table_id}
    if member.was_read and isinstance(member.decision, Conflict):
        read = group.reads[member.index]
        return {
            **where,
            "type": ErrorType.COMMIT_VERSION_CONFLICT,
            "message": f"version {read.version} was read, and {_later(read, member)}",
            "field": f"reads[{member.index}].version",
            **conflict_details(services(), member.table_id, member.decision, may_read=may_read),
        }
    error = commit_error(services(), group.commits[member.index], member.decision, may_read=may_read)
    place = f"{'reads' if member.was_read else 'commits'}[{member.index}]"
    field = f"{place}.{error.field}" if error.field else place
    return {**where, "type": error.type, "message": error.message, "field": field, **error.details}


def _later(read: ReadVersion, member: RefusedMember) -> str:
    """The versions after the one that was read."""
    change = member.change
    if change is not None:
        file = f" (file {change.path})" if change.path else ""
        return f"version {change.version} may have changed it: {change.reason}{file}"
    assert isinstance(member.decision, Conflict)
    behind = f", more than its slack of {read.slack} later" if read.slack else ""
    return f"version {member.decision.latest} is the latest{behind}"
