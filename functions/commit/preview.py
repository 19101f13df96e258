"""The one Unity Catalog endpoint that Delta's streaming source needs: ``delta/preview/commits``.

Source: Unity Catalog open API, ``getCommits``: a GET with a JSON body, which some gateways drop; the same members are
therefore taken from the query too. Unknown members are ignored: this API is not ours.
"""

from __future__ import annotations

import msgspec

from turnstile.core.errors import InvalidRequest
from turnstile.core.names import MAX_VERSION, check_uuid
from turnstile.services.commits import Listing
from turnstile_http.bodies import decode
from turnstile_http.params import Query
from turnstile_http.request import current


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
