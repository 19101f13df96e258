"""The older commits endpoint, ``delta/preview/commits``: engines before Delta 4.3, and the
streaming source.

Source: Unity Catalog open API, ``getCommits``: a GET with a JSON body, which some gateways drop;
the same members are therefore taken from the query too. Unknown members are ignored: this API is
not ours.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from chalice.app import Blueprint

from turnstile.api.http.authorization import guard, needs_table
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import requests
from turnstile.api.unity.columns import ColumnInfo, to_fields
from turnstile.api.unity.errors import PREFIX
from turnstile.api.unity.requests import require_no_clone
from turnstile.api.unity.responses import unpublished_commits
from turnstile.api.unity.table_update import TableUpdate, check_published, checked_commit
from turnstile.catalog.core.entities import Table, without_head
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.core.head import TableHead
from turnstile.rights.rules import modify_table, read_table
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.limits import NonNegativeExact
from turnstile.store.core.locations import normalise, of_path
from turnstile.store.core.names import MAX_VERSION, check_uuid

routes = Blueprint(__name__)


class ListBody(msgspec.Struct, frozen=True):
    """``GET``: versions from ``start_version`` to ``end_version``, both included; ``table_uri`` is
    not looked at."""

    table_id: str
    start_version: int
    end_version: int | None = None
    table_uri: str | None = None


class CommitInfo(msgspec.Struct, frozen=True):
    """A staged commit; times in ms, size in bytes."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class UnityCommits(msgspec.Struct, frozen=True):
    """Unpublished commits in ascending order, and the table's latest version."""

    commits: list[CommitInfo]
    latest_table_version: int


class Columns(msgspec.Struct, frozen=True):
    """All columns."""

    columns: list[ColumnInfo]


class Properties(msgspec.Struct, frozen=True):
    """All properties."""

    properties: dict[str, str]


class Metadata(msgspec.Struct, frozen=True):
    """Metadata that the commit changes; properties are all there are."""

    description: str | None = None
    schema: Columns | None = None
    properties: Properties | None = None


class Iceberg(msgspec.Struct, frozen=True):
    """UniForm's conversion state; the time in ISO 8601."""

    metadata_location: str
    converted_delta_version: NonNegativeExact
    converted_delta_timestamp: str
    base_converted_delta_version: NonNegativeExact | None = None


class Uniform(msgspec.Struct, frozen=True):
    """Conversions that ride with a commit."""

    iceberg: Iceberg | None = None


class CommitBody(msgspec.Struct, frozen=True):
    """``POST``: a commit, a claimed backfill, or both."""

    table_id: str
    table_uri: str
    commit_info: CommitInfo | None = None
    latest_backfilled_version: int | None = None
    metadata: Metadata | None = None
    uniform: Uniform | None = None


PREVIEW: Final = PREFIX + "/delta/preview/commits"


@routes.route(PREVIEW, methods=["GET"])
@needs_table(read_table, of=lambda _: _list_body().table_id)
def preview_commits() -> UnityCommits:
    request = _list_body()
    end = MAX_VERSION if request.end_version is None else request.end_version
    found = _find(request.table_id)
    if isinstance(found, Table):
        return UnityCommits([], 0)  # the reference's answer for a table without commits
    head = require_no_clone(found)
    listing = services().commits.of(head, request.start_version, end)
    return UnityCommits(unpublished_commits(listing, CommitInfo), listing.head.latest)


@routes.route(PREVIEW, methods=["POST"])
@needs_table(modify_table, of=lambda _: check_uuid(body(CommitBody).table_id))
def preview_commit() -> dict[str, str]:
    request = body(CommitBody)
    update = update_of(request)
    found = _find(update.uuid)
    if isinstance(found, Table):
        raise without_head(found, "")
    head = require_no_clone(found)
    if head.state == "dropped":
        raise NotFound("table", head.table_id, field="table_id", remedy="the table was dropped")
    if normalise(of_path(request.table_uri)) != head.location:
        raise InvalidRequest("table_uri is not the table's location", field="table_uri")
    services().updater.update(head, update, guard().principal.name)
    return {}


def _find(table_id: str) -> TableHead | Table:
    """Returns the HEAD of a table, which an awaited table may get now, or the table while its
    version 0 is awaited. Raises NotFound."""
    try:
        return services().commits.head(table_id)
    except NotFound:
        return services().adoption.adopt_by_id(table_id) or services().commits.head(table_id)


def _list_body() -> ListBody:
    """The members of a request for a listing, from the body or the query."""
    request = body(ListBody) if current().body else _from_query()
    for field, value in (("start_version", request.start_version), ("end_version", request.end_version)):
        if value is not None and not 0 <= value <= MAX_VERSION:
            raise InvalidRequest(f"{field} must be a version, not {value}", field=field)
    if request.end_version is not None and request.end_version < request.start_version:
        raise InvalidRequest("end_version is before start_version", field="end_version")
    return msgspec.structs.replace(request, table_id=check_uuid(request.table_id))


def _from_query() -> ListBody:
    query = requests.query()
    table_id = query.text("table_id")
    start = query.integer("start_version")
    if table_id is None or start is None:
        missing = "table_id" if table_id is None else "start_version"
        raise InvalidRequest(f"{missing} is missing", field=missing, remedy="send it in the body or in the query")
    return ListBody(table_id, start, query.integer("end_version"))


def update_of(request: CommitBody) -> TableUpdate:
    """Returns the update in a body; raises InvalidRequest for a missing or impossible one."""
    info = request.commit_info
    metadata = request.metadata
    if info is None and request.latest_backfilled_version is None:
        raise InvalidRequest("give commit_info, latest_backfilled_version, or both", field="commit_info")
    if info is None and (metadata is not None or request.uniform is not None):
        raise InvalidRequest("metadata and uniform are only allowed with a commit", field="metadata")
    if metadata == Metadata():
        raise InvalidRequest("metadata has no members", field="metadata")
    table_id = check_uuid(request.table_id)
    metadata = metadata or Metadata()
    properties = None if metadata.properties is None else metadata.properties.properties
    if properties is not None and properties.get(UUID_PROPERTY) != table_id:
        raise InvalidRequest(f"metadata.properties must have {UUID_PROPERTY} {table_id}", field="metadata.properties")
    commit = None if info is None else checked_commit(requests.Commit(*msgspec.structs.astuple(info)))
    check_published(request.latest_backfilled_version, commit)
    iceberg = request.uniform.iceberg if request.uniform is not None else None
    return TableUpdate(
        uuid=table_id,
        commit=commit,
        published=request.latest_backfilled_version,
        uniform=None if iceberg is None else _convert(iceberg),
        columns=None if metadata.schema is None else list(to_fields(metadata.schema.columns)[0]),
        comment=msgspec.UNSET if metadata.description is None else metadata.description,
        set={key: value for key, value in (properties or {}).items() if key != UUID_PROPERTY},
        replace=properties is not None,
    )


def _convert(iceberg: Iceberg) -> requests.Iceberg:
    try:
        time_ms = int(datetime.fromisoformat(iceberg.converted_delta_timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidRequest("converted_delta_timestamp must be a time in ISO 8601", field="uniform.iceberg") from None
    return requests.Iceberg(
        iceberg.metadata_location, iceberg.converted_delta_version, time_ms, iceberg.base_converted_delta_version
    )
