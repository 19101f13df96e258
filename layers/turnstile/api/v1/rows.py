"""Rows over HTTP: the rows of a request become one commit of a Delta table (docs/rows.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Need, Target
from turnstile.api.http.authorization import guard, needs, needs_table
from turnstile.api.http.request import BodyLimit, Query, current, idempotency_key, note, pause
from turnstile.api.services import services
from turnstile.api.v1.commits import commit_error
from turnstile.api.v1.paths import TABLE, TABLE_BY_ID, table_names, table_of_path, uuid_of_path
from turnstile.catalog.core.entities import without_head
from turnstile.catalog.core.paths import Path
from turnstile.catalog.load import RegisteredTable
from turnstile.delta.proposals import CommitRequest
from turnstile.rights.rules import create_table, modify_table
from turnstile.store.core.errors import InvalidRequest, NotFound, PermissionDenied, TurnstileError, UnsupportedTable
from turnstile.store.core.names import check_uuid

if TYPE_CHECKING:
    from turnstile.ingest.budget import Share
    from turnstile.ingest.turns import Appended

routes = Blueprint(__name__)

BODIES: Final = BodyLimit(4 * 1024 * 1024, "send fewer rows in one request, or compress them", is_text=False)
MEDIA: Final = frozenset(
    (
        "application/json",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "text/csv",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
    )
)
"""As ``turnstile.ingest.core.bodies.FORMATS``, which a start does not import: it needs pyarrow."""

_WAIT_S: Final = 10.0
_LOOK_S: Final = 0.1


class RejectedRow(msgspec.Struct, frozen=True):
    """A row that does not fit: its place in the request, the column at fault, where it is one, and
    the problem."""

    place: str
    column: str
    problem: str


class RejectedRows(msgspec.Struct, frozen=True):
    """The ``rows`` that do not fit are in the table of rejected rows, ``table_id``. ``problems``:
    of the first ones. Both are absent of a request that was answered before."""

    rows: int
    table_id: str | UnsetType = UNSET
    problems: list[RejectedRow] | UnsetType = UNSET


class RowsAdded(msgspec.Struct, frozen=True):
    """The rows are in ``version``. ``rows``: how many, absent of a request that was answered
    before; ``rejected``: about rows that do not fit, if there are some; ``published``: whether
    ``_delta_log`` has the version, where the request waits for it."""

    table_id: str
    outcome: Literal["added", "replayed"]
    version: int
    rows: int | UnsetType = UNSET
    rejected: RejectedRows | UnsetType = UNSET
    published: bool | UnsetType = UNSET


@routes.route(TABLE_BY_ID + "/rows", methods=["POST"])
@needs_table(modify_table, of=uuid_of_path)
def append_rows(table_id: str) -> RowsAdded:
    id = check_uuid(table_id)
    return _append(services().ratifier.heads.facts(id).catalog, id, functools.partial(_path_of, id))


@routes.route(TABLE + "/rows", methods=["POST"])
@needs((modify_table, table_of_path))
def append_rows_by_name(catalog: str, namespace: str, table: str) -> RowsAdded:
    here = services()
    names = table_names(catalog, namespace, table)
    resolved = here.reader.resolve(*names)
    if not here.ratifier.heads.has_facts(resolved.table_id):
        found = here.loader.find(*names)
        if isinstance(found, RegisteredTable):
            raise without_head(found.table, "write it where its commits are made, or import it")
        here.ratifier.heads.remember(found)
    return _append(resolved.catalog, resolved.table_id, lambda: (*names[1], names[2]))


def _path_of(table_id: str) -> Path:
    """The name of a table in its catalog, by its HEAD. Raises UnsupportedTable where it has
    another one."""
    here = services()
    head = here.ratifier.heads.read(table_id)
    catalog, *path = head.name.split(".")
    with suppress(NotFound):
        if len(path) > 1 and here.open_reader.resolve(catalog, tuple(path[:-1]), path[-1]).table_id == table_id:
            return tuple(path)
    problem = "rows do not fit, and the table for them is found by the name of this one"
    raise UnsupportedTable(problem, field="on_error", remedy="send the rows by the table's name")


class _RejectedTable:
    """The table for rows of the present request that do not fit, by the rights of its principal.
    ``path_of``: returns the name of the table that they are for; ``share``: the principal's memory
    for rows; ``size``: of the body."""

    def __init__(self, catalog: str, path_of: Callable[[], Path], share: Share, size: int) -> None:
        self._share = share
        self._size = size
        self._catalog = catalog
        self._path_of = path_of
        self.table_id = ""

    def __call__(self) -> str:
        """Returns its id; creates it where there is none. Raises PermissionDenied, and as
        ``RejectedTables.table_of``."""
        from turnstile.ingest.core.rejects import bytes_max
        from turnstile.ingest.rejected import RejectedTables

        here = services()
        catalog = here.open_catalog
        tables = RejectedTables(here.world, here.open_reader, catalog.staging, catalog.registrar)
        *namespace, name = self._path_of()
        names = self._catalog, tuple(namespace)

        def may_append(rejected: str) -> None:
            try:
                here.guard_of(Need(modify_table, Target(*names, rejected))).authorize_now()
            except PermissionDenied as error:
                remedy = "ask for the right to create tables in the namespace; or send the rows that fit"
                raise PermissionDenied(f"rows do not fit, and {error.message}", remedy=remedy) from None

        def may_create(rejected: str) -> None:
            try:
                here.guard_of(Need(create_table, Target(*names))).authorize_now()
            except PermissionDenied:
                may_append(rejected)  # the refusal is the same where the table is there
                raise

        self._share.grow(self._size + bytes_max(self._size))
        self.table_id = tables.table_of(*names, name, may_append=may_append, may_create=may_create)
        return self.table_id


def _append(catalog: str, table_id: str, path_of: Callable[[], Path]) -> RowsAdded:
    from turnstile.ingest.core.bodies import FORMATS
    from turnstile.ingest.core.compression import plain_body
    from turnstile.ingest.core.identity import PRODUCER, SEQUENCE, identity_of
    from turnstile.ingest.turns import Appended, RowsRequest  # with pyarrow, which takes long to import

    query = Query("wait", "schema", "on_error")
    wait = query.text("wait")
    schema = query.text("schema")
    on_error = query.text("on_error")
    for name, value, known in (
        ("wait", wait, "publish"),
        ("schema", schema, "evolve"),
        ("on_error", on_error, "quarantine"),
    ):
        if value not in (None, known):
            raise InvalidRequest(f"{name} is {value[:40]!r}", field=name, remedy=f"leave it out, or {name}={known}")
    if schema is not None and on_error is not None:
        problem = "schema=evolve and on_error=quarantine are both there: a row with a new column does not fit"
        raise InvalidRequest(problem, field="on_error", remedy="send one of the two")
    request = current()
    headers = request.headers
    identity = identity_of(
        guard().principal.name, idempotency_key(), headers.get(PRODUCER.lower()), headers.get(SEQUENCE.lower())
    )
    media = headers.get("content-type", "").split(";")[0].strip().lower()
    if media not in FORMATS:
        raise InvalidRequest("the request has no body", field="body", remedy="send rows")
    here = services()
    with here.row_appender.budget.share_of(request.principal.name) as share:
        share.grow(len(request.body))
        plain = plain_body(request.body, headers.get("content-encoding", ""))
        share.grow(len(plain))
        rows = RowsRequest(table_id, plain, media, identity, evolves=schema is not None)
        quarantine = None if on_error is None else _RejectedTable(catalog, path_of, share, len(plain))
        answer = here.row_appender.append(catalog, rows, quarantine)
    if not isinstance(answer, Appended):
        raise commit_error(here, CommitRequest(table_id, None), answer, may_read=False)
    outcome: Literal["added", "replayed"] = "replayed" if answer.replayed else "added"
    note(table_id=table_id, version=answer.version, rows=answer.rows, rejected=answer.rejected, outcome=outcome)
    published = UNSET if wait is None else _wait_until_published(table_id, answer.version)
    added = UNSET if answer.rows is None else answer.rows
    rejected_id = "" if quarantine is None else quarantine.table_id
    return RowsAdded(table_id, outcome, answer.version, added, _describe_rejects(answer, rejected_id), published)


def _describe_rejects(answer: Appended, table_id: str) -> RejectedRows | UnsetType:
    """The part of the answer about rows that do not fit."""
    if not answer.rejected:
        return UNSET
    if answer.replayed:
        return RejectedRows(answer.rejected)
    problems = [RejectedRow(one.place, one.column, one.problem) for one in answer.problems]
    return RejectedRows(answer.rejected, table_id, problems)


def _wait_until_published(table_id: str, version: int) -> bool:
    """Whether the version is in ``_delta_log``, after some seconds at most. A failure to read is no
    failure of the request, whose rows were added."""
    left_s = _WAIT_S
    with suppress(TurnstileError):
        while services().commits.head(table_id).floor < version:
            if left_s <= 0:
                return False
            pause(_LOOK_S)
            left_s -= _LOOK_S
        return True
    return False
