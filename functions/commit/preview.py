"""The older commits endpoint, ``delta/preview/commits``: engines before Delta 4.3, and the streaming source.

Source: Unity Catalog open API, ``getCommits``: a GET with a JSON body, which some gateways drop; the same members are
therefore taken from the query too. Unknown members are ignored: this API is not ours.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from turnstile.api.http.request import Query, current, decode
from turnstile.api.unity import requests
from turnstile.api.unity.columns import ColumnInfo, Count, to_fields
from turnstile.api.unity.plan import Plan, check_published, checked_commit
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.commits import Listing
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import MAX_VERSION, check_uuid


class Asked(msgspec.Struct, frozen=True):
    """Versions from ``start_version`` to ``end_version``, both included. ``table_uri`` identifies nothing here."""

    table_id: str
    start_version: int
    end_version: int | None = None
    table_uri: str | None = None


class UnityCommit(msgspec.Struct, frozen=True):
    """A staged commit; times in ms, size in bytes."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class UnityCommits(msgspec.Struct, frozen=True):
    """Unpublished commits in ascending order, and the table's latest version."""

    commits: list[UnityCommit]
    latest_table_version: int


def asked() -> Asked:
    """What the current request asks for.

    Raises:
        InvalidRequest: a member is missing, of the wrong type, or out of range.
    """
    found = decode(current().body, Asked) if current().body else _from_query()
    for field, value in (("start_version", found.start_version), ("end_version", found.end_version)):
        if value is not None and not 0 <= value <= MAX_VERSION:
            raise InvalidRequest(f"{field} must be a version, not {value}", field=field)
    if found.end_version is not None and found.end_version < found.start_version:
        raise InvalidRequest("end_version is before start_version", field="end_version")
    return msgspec.structs.replace(found, table_id=check_uuid(found.table_id))


def _from_query() -> Asked:
    query = Query(*current().query)  # whatever else is there is not ours to judge
    table_id, start = query.text("table_id"), query.integer("start_version")
    if table_id is None or start is None:
        missing = "table_id" if table_id is None else "start_version"
        raise InvalidRequest(f"{missing} is missing", field=missing, remedy="send it in the body or in the query")
    return Asked(table_id, start, query.integer("end_version"))


def rendered(listing: Listing) -> UnityCommits:
    """The listing in Unity's words. Published commits are read from ``_delta_log``, so they are left out."""
    return UnityCommits(
        commits=[
            UnityCommit(
                version=place.version,
                timestamp=place.ict,
                file_name=place.name,
                file_size=listing.sizes[place.version],
                file_modification_timestamp=place.modified,
            )
            for place in listing.places
            if not place.published
        ],
        latest_table_version=listing.head.latest,
    )


class CommitInfo(msgspec.Struct, frozen=True):
    """A staged commit; times in ms, size in bytes."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


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
    converted_delta_version: Count
    converted_delta_timestamp: str
    base_converted_delta_version: Count | None = None


class Uniform(msgspec.Struct, frozen=True):
    """Conversions that ride with a commit."""

    iceberg: Iceberg | None = None


class Posted(msgspec.Struct, frozen=True):
    """``POST``: a commit, a claimed backfill, or both."""

    table_id: str
    table_uri: str
    commit_info: CommitInfo | None = None
    latest_backfilled_version: int | None = None
    metadata: Metadata | None = None
    uniform: Uniform | None = None


class Placed(Plan, frozen=True):
    """An update with the place its table is claimed to be at."""

    uri: str = ""


def posted(asked: Posted) -> Placed:
    """The update that the body asks for.

    Raises:
        InvalidRequest: nothing is asked for, or what cannot be.
    """
    info, said = asked.commit_info, asked.metadata
    if info is None and asked.latest_backfilled_version is None:
        raise InvalidRequest("give commit_info, latest_backfilled_version, or both", field="commit_info")
    if info is None and (said is not None or asked.uniform is not None):
        raise InvalidRequest("metadata and uniform ride with a commit", field="metadata")
    if said is not None and said == Metadata():
        raise InvalidRequest("metadata says nothing", field="metadata")
    table_id = check_uuid(asked.table_id)
    properties = said.properties.properties if said is not None and said.properties is not None else None
    if properties is not None and properties.get(UUID_PROPERTY) != table_id:
        raise InvalidRequest(f"metadata.properties must have {UUID_PROPERTY} {table_id}", field="metadata.properties")
    commit = None
    if info is not None:
        commit = checked_commit(
            requests.Commit(
                info.version, info.timestamp, info.file_name, info.file_size, info.file_modification_timestamp
            )
        )
    check_published(asked.latest_backfilled_version, commit)
    iceberg = asked.uniform.iceberg if asked.uniform is not None else None
    return Placed(
        uuid=table_id,
        uri=asked.table_uri,
        commit=commit,
        published=asked.latest_backfilled_version,
        uniform=None if iceberg is None else _converted(iceberg),
        columns=list(to_fields(said.schema.columns)[0]) if said is not None and said.schema is not None else None,
        comment=said.description if said is not None and said.description is not None else msgspec.UNSET,
        set={key: value for key, value in (properties or {}).items() if key != UUID_PROPERTY},
        replace=properties is not None,
    )


def _converted(iceberg: Iceberg) -> requests.Iceberg:
    try:
        at = datetime.fromisoformat(iceberg.converted_delta_timestamp)
        milliseconds = int(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidRequest("converted_delta_timestamp must be a time in ISO 8601", field="uniform.iceberg") from None
    return requests.Iceberg(
        iceberg.metadata_location,
        iceberg.converted_delta_version,
        milliseconds,
        iceberg.base_converted_delta_version,
    )


def check_place(head: TableHead, asked: Placed) -> None:
    """The table is in use and is where the client thinks it is.

    Raises:
        NotFound: it was dropped.
        InvalidRequest: it is elsewhere.
    """
    if head.state == "dropped":
        raise NotFound("table", head.table_id, field="table_id", remedy="the table was dropped")
    if normalise(asked.uri) != head.location:
        raise InvalidRequest("table_uri is not the table's location", field="table_uri")
