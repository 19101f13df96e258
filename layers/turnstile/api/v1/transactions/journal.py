"""The journal of transactions over HTTP: announce, list, show, resume, abort
(docs/transactions.md).

An entry is visible to principals that may write every table which its transaction writes, and read
every table that it only read (I12). Like a table's uuid, its uuid cannot be guessed: its existence
is no secret, its content is.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import authorized_by_view, guard
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.api.v1.transactions.tables import (
    GroupGuards,
    MemberBody,
    Transaction,
    answer_of,
    authorize_tables,
    group_of,
)
from turnstile.catalog.paging import page_size
from turnstile.delta.core.journal_rows import USUAL_TTL_MS, JournalRow
from turnstile.delta.proposals import ReadVersion
from turnstile.delta.transactions.journal import Announcement
from turnstile.rights.rules import write_files
from turnstile.store.core.errors import InvalidRequest, NotFound, PermissionDenied, UnreadableRow
from turnstile.store.core.names import check_uuid
from turnstile.store.ports import DamagedRow

routes = Blueprint(__name__)
listing = Blueprint(__name__)
"""Reads any entry; not for the hot path."""

BY_ID = "/v1/transactions/{transaction_id}"
NEEDS = "modify_table of each table that is written, read_table of each that is read"

EntryState = Literal["open", "committed", "aborted"]


class AnnouncementBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"commits", "reads"?, "attempt"?, "isolation"?, "ttl_ms"?}``: the transaction as it will be
    sent."""

    commits: list[MemberBody]
    reads: list[ReadVersion] = []
    attempt: int = 1
    isolation: Annotated[str, msgspec.Meta(max_length=40)] = ""
    ttl_ms: int = USUAL_TTL_MS


class TableVersion(msgspec.Struct, frozen=True):
    """A table, with the version that it becomes, or was read at."""

    table_id: str
    version: int


class TableRead(TableVersion, frozen=True):
    """A table that was only read; ``slack``: by how many versions it may be behind, where that was
    declared."""

    slack: int | UnsetType = UNSET


class Entry(msgspec.Struct, frozen=True):
    """An entry of the journal; times in ms. ``catalog``: the one that it changes, or read, as
    well."""

    id: str
    state: EntryState
    commits: list[TableVersion]
    reads: list[TableRead]
    isolation: str
    owner: str
    attempt: int
    created: int
    until: int
    settled: int | UnsetType = UNSET
    catalog: str | UnsetType = UNSET


class Entries(msgspec.Struct, frozen=True):
    """A page of entries, by id; ``unreadable``: the damaged rows of all pages, for administrators
    alone, since a damaged row has no readable owner."""

    transactions: list[Entry]
    next_page_token: str | UnsetType = UNSET
    unreadable: list[DamagedRow] | UnsetType = UNSET


@routes.route(BY_ID, methods=["PUT"])
@authorized_by_view(NEEDS)
def announce(transaction_id: str) -> Entry:
    Query()
    sent = body(AnnouncementBody)
    group = group_of(check_uuid(transaction_id, "transaction_id"), sent.commits, sent.reads)
    authorize_tables(group)
    guard().mark_authorized()
    owner = guard().principal.name
    row = services().journal.announce(Announcement(group, sent.attempt, sent.isolation, owner, sent.ttl_ms))
    note(transaction=group.id, tables=len(group.commits), attempt=row.attempt)
    return entry_of(row)


@routes.route(BY_ID, methods=["GET"])
@authorized_by_view(NEEDS)
def show(transaction_id: str) -> Entry:
    Query()
    return entry_of(authorized_entry(transaction_id)[0])


@routes.route(BY_ID + "/resume", methods=["POST"])
@authorized_by_view(NEEDS)
def resume(transaction_id: str) -> Transaction:
    Query()
    row, guards = authorized_entry(transaction_id)
    group, decision = services().journal.resume(row)
    return answer_of(group, decision, guards)


@routes.route(BY_ID, methods=["DELETE"])
@authorized_by_view(NEEDS)
def abort(transaction_id: str) -> Entry:
    Query()
    row, guards = authorized_entry(transaction_id)
    aborted = services().journal.abort(row, lambda table_id: guards.written[table_id].may(write_files))
    note(transaction=row.id, outcome="aborted", freed=len(aborted.freed))
    return entry_of(aborted)


@listing.route("/v1/transactions", methods=["GET"])
@authorized_by_view(NEEDS)
def entries() -> Entries:
    """A page of entries in the order of their ids. Every page is a scan: this is for people, not
    for programs."""
    query = Query("state", "page_token", "max_results")
    state = query.text("state")
    token = query.text("page_token")
    size = page_size(query.integer("max_results"))
    if state not in (None, "open", "committed", "aborted"):
        raise InvalidRequest(f"no state {state[:40]!r}", field="state", remedy="open, committed or aborted")
    after = check_uuid(token, "page_token") if token else ""
    guard().mark_authorized()
    damaged = list[DamagedRow]()
    rows = [row for row in services().journal.entries(damaged) if row.id > after and state in (None, row.state)]
    page: list[JournalRow] = []
    for row in sorted(rows, key=lambda row: row.id):
        if _is_visible(row):
            page.append(row)
        if len(page) > size:
            break
    more = page[size - 1].id if len(page) > size else UNSET
    unreadable = damaged if damaged and guard().principal.admin else UNSET
    return Entries([entry_of(row) for row in page[:size]], more, unreadable)


def authorized_entry(id: str) -> tuple[JournalRow, GroupGuards]:
    """The entry, and the guards of its tables. Raises NotFound, PermissionDenied."""
    row = services().journal.entry(check_uuid(id, "transaction_id"))
    guards = _guards(row)
    if guards is None:
        problem = f"'{guard().principal.name}' may not commit transaction {row.id}"
        raise PermissionDenied(
            problem, remedy="ask for MODIFY on every table that it writes, and SELECT on those it read"
        )
    guard().mark_authorized()
    return row, guards


def _is_visible(row: JournalRow) -> bool:
    """Whether the principal may commit the transaction; not where the row of a table is damaged,
    since the rights on it are not known then. Admins see all."""
    try:
        return _guards(row) is not None
    except UnreadableRow:
        return False


def _guards(row: JournalRow) -> GroupGuards | None:
    """The guards of the tables of an entry; None if the principal lacks rights of the transaction.
    An entry that changes or read a catalog is for its owner, and admins: the rights for its changes
    depend on the changes before them.
    """
    principal = guard().principal
    if row.catalog and not principal.admin and row.owner != principal.name:
        return None
    try:
        return GroupGuards.of(list(row.written), list(row.read))
    except (PermissionDenied, NotFound):
        return None


def entry_of(row: JournalRow) -> Entry:
    """Returns the visible part of an entry."""
    return Entry(
        id=row.id,
        state=row.state,
        commits=[TableVersion(id, version) for id, version in row.written.items()],
        reads=[TableRead(id, version, row.slack.get(id) or UNSET) for id, version in row.read.items()],
        isolation=row.isolation,
        owner=row.owner,
        attempt=row.attempt,
        created=row.created,
        until=row.until,
        settled=row.settled or UNSET,
        catalog=row.catalog or UNSET,
    )
