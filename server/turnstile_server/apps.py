"""The apps that a server's processes answer requests with: those of the functions, on one set of
services."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from turnstile.api import apps
from turnstile.api import settings as variables
from turnstile.api.auth import settings as auth_settings
from turnstile.api.http.handler import App
from turnstile.api.http.request import BodyLimit
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.delta.core.writes.ratify import Keep
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.limits import Limits
from turnstile_server.settings import ServerSettings
from turnstile_server.telemetry import conflicts, metrics
from turnstile_server.world import OpenStore

PARTS: Final = (
    "ratifier", "outcomes", "updater", "authorizers", "open_loader", "open_catalog", "vendor", "metadata_files",
    "append_queue", "source_rights", "clients", "signed_tokens", "publisher",
)  # fmt: skip
"""Services that are built before the first request."""

BACKLOG_BYTES: Final = 256_000
"""The size of unpublished commits that a HEAD in SQLite may carry. A transaction over a hundred
HEADs has no limit there (``ROW_BUDGET``)."""

METADATA_BYTES: Final = 32 * 1024 * 1024
"""The largest metadata file of an Iceberg table: about 33,000 snapshots. Decoded it takes some 200
MB of memory; no answer of Lambda limits it here."""

KEEP_PUBLISHED: Final = Keep(named=8, tickets=48)
"""For a store that does not charge writes by size: the HEAD alone decides the proposals of several
writers on one table."""


def open_apps(settings: ServerSettings, store: OpenStore) -> tuple[App, ...]:
    """Returns the apps that the functions deploy, on one set of services; the second one answers
    requests without a route."""
    services = Services(store.world, read_settings(settings), vendor=_vendor(store))
    services.prepare(*PARTS)
    telemetry = metrics.RequestMetrics(
        conflicts.ConflictLog(conflicts.folder(settings)),
        every=os.environ.get("TURNSTILE_LOG_LEVEL", "").upper() in ("INFO", "DEBUG"),
    )
    return (
        apps.commit(services, telemetry),
        apps.catalog(services, telemetry),
        apps.plans(services, telemetry),
        apps.ingest(services, telemetry),
        apps.branches(services, telemetry),
        apps.iceberg(services, telemetry),
        apps.tokens(services, telemetry),
    )


def read_settings(settings: ServerSettings) -> Settings:
    """Returns the services' settings: the server's own ones, and the variables that functions have,
    too."""
    own = Settings(
        lake_root=settings.lake_root,
        limits=_limits(settings),
        keep_published=KEEP_PUBLISHED if settings.store_kind == "sqlite" else None,
        grace=variables.grace(),
        vending=variables.vending(),
        event_waits=settings.threads,
        event_waits_each=max(1, settings.threads // 4),
        looks_at_logs=True,
        metadata_bytes=METADATA_BYTES,
        answer_bytes=2 * METADATA_BYTES,
    )
    # A worker answers no requests, so it gets no tokens.
    return msgspec.structs.replace(own, auth=auth_settings.Accepted()) if settings.workers else own


def _limits(settings: ServerSettings) -> Limits:
    limits = variables.limits()
    return msgspec.structs.replace(limits, backlog_bytes=BACKLOG_BYTES) if settings.store_kind == "sqlite" else limits


def _vendor(store: OpenStore) -> Any:
    return variables.vending().open(store.world)


def read_body(source: Any, limit: BodyLimit | None) -> bytes:
    """Returns the body from ``source``. Raises TooLarge before it reads more than the limit,
    InvalidRequest if the body is not UTF-8."""
    limit = limit or BodyLimit()
    body: bytes = source.read(limit.bytes + 1)
    if len(body) > limit.bytes:
        text = f"the body is over the limit of {limit.bytes} bytes"
        raise TooLarge(text, field="body", remedy=limit.remedy, limit=limit.bytes)
    try:
        if limit.is_text:
            body.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8 text", field="body", remedy="send JSON encoded as UTF-8") from None
    return body
