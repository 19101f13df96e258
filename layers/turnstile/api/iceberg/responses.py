"""Bodies of responses, as the specification has them; entity tags."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from turnstile.api.iceberg.requests import SEPARATOR
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.iceberg.core import metadata
from turnstile.iceberg.listing import Names
from turnstile.iceberg.scans.delta_scans import LoadedDelta, PlannedPage, location_of
from turnstile.iceberg.tables import LoadedTable
from turnstile.iceberg.views import LoadedView
from turnstile.store.core.errors import TooLarge
from turnstile.store.core.limits import PAGE_BYTES, response_size
from turnstile.store.ports import VendedCredentials

SESSION: Final = "s3.session-token"
SESSION_EXPIRY: Final = "s3.session-token-expires-at-ms"
REFRESH_ENDPOINT: Final = "client.refresh-credentials-endpoint"
"""Properties of Java's ``S3FileIOProperties`` and ``AwsClientProperties``, version 1.11."""

PLANNING_MODE: Final = "scan-planning-mode"
"""The property of a loaded table by which a client learns that the catalog plans its scans."""

COMMENT: Final = "comment"
LOCATION: Final = "location"
"""The property that Iceberg's engines read as a namespace's comment."""

KEY_LIFETIME: Final = "PT30M"
"""How long an idempotency key may be used; it is kept for longer
(``catalog.core.request_rows``)."""

_NAMESPACES: Final = "/v1/{prefix}/namespaces"
_NAMESPACE: Final = _NAMESPACES + "/{namespace}"
_TABLE: Final = _NAMESPACE + "/tables/{table}"
_METHODS: Final = {
    _NAMESPACES: "GET POST",
    _NAMESPACE: "GET HEAD DELETE",
    _NAMESPACE + "/properties": "POST",
    _NAMESPACE + "/tables": "GET POST",
    _TABLE: "GET HEAD POST DELETE",
    _TABLE + "/unregister": "POST",
    _TABLE + "/credentials": "GET",
    _TABLE + "/metrics": "POST",
    _TABLE + "/plan": "POST",
    _TABLE + "/plan/{plan-id}": "GET DELETE",
    _TABLE + "/tasks": "POST",
    _NAMESPACE + "/register": "POST",
    _NAMESPACE + "/register-view": "POST",
    "/v1/{prefix}/tables/rename": "POST",
    "/v1/{prefix}/transactions/commit": "POST",
    _NAMESPACE + "/views": "GET POST",
    _NAMESPACE + "/views/{view}": "GET HEAD POST DELETE",
    "/v1/{prefix}/views/rename": "POST",
}

ENDPOINTS: Final = tuple(f"{method} {path}" for path, methods in _METHODS.items() for method in methods.split())
"""The operations that are served, as the specification writes them. Clients use no others."""

READING: Final = tuple(
    endpoint
    for endpoint in ENDPOINTS
    if endpoint.endswith("/metrics") or not (endpoint.startswith(("POST", "DELETE")) or "/plan" in endpoint)
)
"""The operations that are served for a catalog's past."""


def config(prefix: str, endpoints: Sequence[str] = ENDPOINTS) -> dict[str, Any]:
    """The configuration of a client of the catalog, or its past, that ``prefix`` names."""
    return {
        "defaults": {},
        "overrides": {"prefix": prefix},
        "endpoints": list(endpoints),
        "idempotency-key-lifetime": KEY_LIFETIME,
    }


def namespace(named: NamedNamespace, location: str) -> dict[str, Any]:
    """A namespace and its properties, with its comment. ``location``, the folder of its new tables,
    is one of them unless the namespace has another."""
    return {"namespace": list(named.name), "properties": {LOCATION: location, **properties(named)}}


def properties(named: NamedNamespace) -> dict[str, str]:
    """Properties of a namespace, its comment among them."""
    comment = named.entity.comment
    return {**named.entity.properties, **({} if comment is None else {COMMENT: comment})}


def namespaces(page: Names) -> dict[str, Any]:
    """A page of namespaces."""
    return {"namespaces": [[*page.namespace, name] for name in page.names], "next-page-token": page.next_token}


def identifiers(page: Names) -> dict[str, Any]:
    """A page of tables or views."""
    names = [{"namespace": list(page.namespace), "name": name} for name in page.names]
    return {"identifiers": names, "next-page-token": page.next_token}


class Credentials(msgspec.Struct, frozen=True):
    """Storage credentials for a table's files: one for each location, none where clients need none
    or have their own; and the path of the endpoint for new ones, relative to the catalog's address,
    if there is one.
    """

    vended: tuple[VendedCredentials, ...] = ()
    refresh_path: str = ""


def table(loaded: LoadedTable, vended: Credentials | None = None, *, refs_only: bool = False) -> dict[str, Any]:
    """A table with its metadata, and credentials for its files. Credentials of a single location
    are in ``config`` as well, for clients that do not know ``storage-credentials``."""
    shown = loaded.metadata.without_unreferenced_snapshots() if refs_only else loaded.metadata
    body: dict[str, Any] = {"metadata": metadata.document(shown), "config": {}}
    if loaded.entity is not None:
        body = {"metadata-location": loaded.entity.metadata, **body}
    if vended is not None:
        body |= credentials(vended)
        if len(vended.vended) == 1:
            body["config"] = body["storage-credentials"][0]["config"]
    return body


def delta_table(loaded: LoadedDelta, vended: Credentials | None) -> dict[str, Any]:
    """A Delta table with scans that only the catalog can plan."""
    body: dict[str, Any] = {
        "metadata-location": location_of(loaded.head),
        "metadata": metadata.document(loaded.metadata),
        "config": {PLANNING_MODE: "server"},
    }
    if vended is not None:
        body |= credentials(vended)
        if len(vended.vended) == 1:
            body["config"] |= body["storage-credentials"][0]["config"]
    return body


def scan_tasks(page: PlannedPage) -> dict[str, Any]:
    """Tasks of a scan; delete files only where tasks name them, as clients require."""
    body: dict[str, Any] = {"file-scan-tasks": page.tasks.file_scan_tasks}
    if page.tasks.delete_files:
        body["delete-files"] = page.tasks.delete_files
    if page.plan_task is not None:
        body["plan-tasks"] = [page.plan_task]
    return body


def plan_answer(page: PlannedPage, plan_id: str, vended: Credentials | None) -> dict[str, Any]:
    """The answer to a scan that was planned at once."""
    return {"plan-id": page.plan_id or plan_id, **plan_result(page, vended)}


def plan_result(page: PlannedPage, vended: Credentials | None) -> dict[str, Any]:
    """The answer to a request for a complete plan."""
    body = {"status": "completed", **scan_tasks(page)}
    return body if vended is None else body | credentials(vended)


def commit_answer(loaded: LoadedTable) -> dict[str, Any]:
    """A table after a commit."""
    assert loaded.entity is not None
    shown = msgspec.Raw(loaded.content) if loaded.content else metadata.document(loaded.metadata)
    return {"metadata-location": loaded.entity.metadata, "metadata": shown}


def view(loaded: LoadedView) -> dict[str, Any]:
    """A view with its metadata."""
    body = msgspec.to_builtins(loaded.metadata)
    return {"metadata-location": loaded.entity.metadata, "metadata": body, "config": {}}


def credentials(issued: Credentials) -> dict[str, Any]:
    """Credentials for files."""
    return {"storage-credentials": [{"prefix": each.prefix, "config": _config(each, issued)} for each in issued.vended]}


def _config(each: VendedCredentials, issued: Credentials) -> dict[str, str]:
    """A client's properties: where the store is, and the credentials with their expiry and the
    endpoint for new ones. Java's ``VendedCredentialsProvider`` requires both, only with session
    tokens, and only for a single location: it accepts nothing else when it refreshes.
    """
    config = {**each.place, **each.config}
    if SESSION not in config:
        return config
    config[SESSION_EXPIRY] = str(each.expires_ms)
    if issued.refresh_path and len(issued.vended) == 1:
        config[REFRESH_ENDPOINT] = issued.refresh_path
    return config


def credentials_path(prefix: str, namespace: Sequence[str], table: str) -> str:
    """The path of a table's credentials, relative to the address of the catalog."""
    return f"{_table_path(prefix, namespace, table)}/credentials"


def plan_path(prefix: str, namespace: Sequence[str], table: str) -> str:
    """The path of a table's plans."""
    return f"/iceberg/{_table_path(prefix, namespace, table)}/plan"


def _table_path(prefix: str, namespace: Sequence[str], table: str) -> str:
    levels = quote(SEPARATOR.join(namespace), safe="")
    name = quote(table, safe="")
    return f"v1/{quote(prefix, safe='@:')}/namespaces/{levels}/tables/{name}"


def etag(metadata_location: str, *, refs_only: bool = False) -> str:
    """The tag of a response: of the metadata file, and of how much of it the response has."""
    shown = f"{metadata_location}#{'refs' if refs_only else 'all'}"
    return f'"{hashlib.sha256(shown.encode()).hexdigest()[:32]}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Whether a request's If-None-Match names ``tag`` (RFC 9110: weak comparison, a list, or
    ``*``)."""
    tags = [text.strip().removeprefix("W/") for text in if_none_match.split(",")]
    return "*" in tags or tag in tags


def check_names(names: Sequence[str]) -> None:
    """Raises TooLarge unless a response can list these properties; called before they change."""
    size = response_size(names)
    if size > PAGE_BYTES:
        message = f"the names of the properties would take {size} bytes of the answer, and the limit is {PAGE_BYTES}"
        remedy = "name fewer of them in one request"
        raise TooLarge(message, field="removals", remedy=remedy, limit=PAGE_BYTES, size=size)


def changed_properties(before: Collection[str], updated: Sequence[str], removed: Sequence[str]) -> dict[str, Any]:
    """The outcome for the properties that a request names; ``before`` are the names that
    existed."""
    return {
        "updated": sorted(updated),
        "removed": sorted(name for name in removed if name in before),
        "missing": sorted(name for name in removed if name not in before),
    }
