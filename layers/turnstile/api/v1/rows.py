"""Rows over HTTP: the rows of a request become one commit of a Delta table (docs/rows.md)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import guard, needs, needs_table
from turnstile.api.http.request import BodyLimit, Query, current, idempotency_key, note, pause
from turnstile.api.services import services
from turnstile.api.v1.commits import commit_error
from turnstile.api.v1.paths import TABLE, TABLE_BY_ID, table_names, table_of_path, uuid_of_path
from turnstile.catalog.core.entities import without_head
from turnstile.catalog.load import RegisteredTable
from turnstile.delta.proposals import CommitRequest
from turnstile.rights.rules import modify_table
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.core.names import check_uuid

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


class RowsAdded(msgspec.Struct, frozen=True):
    """The rows are in ``version``. ``rows``: how many, absent of a request that was answered
    before; ``published``: whether ``_delta_log`` has the version, where the request waits for
    it."""

    table_id: str
    outcome: Literal["added", "replayed"]
    version: int
    rows: int | UnsetType = UNSET
    published: bool | UnsetType = UNSET


@routes.route(TABLE_BY_ID + "/rows", methods=["POST"])
@needs_table(modify_table, of=uuid_of_path)
def append_rows(table_id: str) -> RowsAdded:
    id = check_uuid(table_id)
    return _append(services().ratifier.facts(id).catalog, id)


@routes.route(TABLE + "/rows", methods=["POST"])
@needs((modify_table, table_of_path))
def append_rows_by_name(catalog: str, namespace: str, table: str) -> RowsAdded:
    here = services()
    names = table_names(catalog, namespace, table)
    resolved = here.reader.resolve(*names)
    if not here.ratifier.knows(resolved.table_id):
        found = here.loader.find(*names)
        if isinstance(found, RegisteredTable):
            raise without_head(found.table, "write it where its commits are made, or import it")
        here.ratifier.learn(found)
    return _append(resolved.catalog, resolved.table_id)


def _append(catalog: str, table_id: str) -> RowsAdded:
    from turnstile.ingest.core.bodies import FORMATS, plain_body
    from turnstile.ingest.core.identity import PRODUCER, SEQUENCE, identity_of
    from turnstile.ingest.turns import Appended, RowsRequest  # with pyarrow, which takes long to import

    query = Query("wait", "schema")
    wait = query.text("wait")
    schema = query.text("schema")
    for name, value, known in (("wait", wait, "publish"), ("schema", schema, "evolve")):
        if value not in (None, known):
            raise InvalidRequest(f"{name} is {value[:40]!r}", field=name, remedy=f"leave it out, or {name}={known}")
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
        answer = here.row_appender.append(catalog, rows)
    if not isinstance(answer, Appended):
        raise commit_error(here, CommitRequest(table_id, None), answer, may_read=False)
    outcome: Literal["added", "replayed"] = "replayed" if answer.replayed else "added"
    note(table_id=table_id, version=answer.version, rows=answer.rows, outcome=outcome)
    published = UNSET if wait is None else _wait_until_published(table_id, answer.version)
    added = UNSET if answer.rows is None else answer.rows
    return RowsAdded(table_id, outcome, answer.version, added, published)


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
