"""The HTTP apps, each built from the blueprints of its routes: for the functions of a deployment,
and for servers.

    app = commit()             of a deployment: opens its services from the environment at the first
                               request
    app = commit(services)     on existing services

The gateway decides which app serves a request (template.yaml); every app answers a path without a
route with 404 or 405. View modules are imported by the app that serves them, so that each function
loads only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chalice.app import Blueprint

from turnstile.api import settings
from turnstile.api.auth.bearer import authentication
from turnstile.api.http.handler import App, Later, Routes, Telemetry, routes_of
from turnstile.api.services import Services
from turnstile.api.settings import Settings


def commit(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the hot path: commits, also of several tables, and their journal, loads, cuts, and
    the same in Unity's APIs."""
    from turnstile.api.unity.errors import PREFIX, render
    from turnstile.api.v1 import commits, load

    def of_groups() -> Iterable[Blueprint]:
        from turnstile.api.v1.transactions import journal
        from turnstile.api.v1.transactions import tables as transactions

        return transactions.routes, journal.routes

    def of_cuts() -> Iterable[Blueprint]:
        from turnstile.api.v1.transactions import snapshots

        return (snapshots.routes,)

    def of_unity() -> Iterable[Blueprint]:
        from turnstile.api.unity import delta_commits, preview_commits

        return delta_commits.routes, preview_commits.routes

    later = [Later(("/v1/transactions",), of_groups), Later(("/v1/snapshots",), of_cuts), Later((PREFIX,), of_unity)]
    return App(
        "commit",
        commits.routes,
        load.routes,
        *_at_once(services, later),
        later=later if services is None else (),
        services=_opener(services, settings.commit, "ratifier", "authorizers", "open_loader"),
        authentication=authentication(),
        telemetry=telemetry,
        renders={PREFIX: render},
    )


def catalog(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the app of all other routes of our own API and of Unity's. It also gets requests
    without a route."""
    from turnstile.api.unity.errors import PREFIX, render
    from turnstile.api.v1 import branches, history, namespaces, permissions, policies, tables
    from turnstile.api.v1.transactions import catalogs as catalog_transactions

    def of_operators() -> Iterable[Blueprint]:
        from turnstile.api.v1 import operators, pins

        return operators.routes, pins.routes

    def of_events() -> Iterable[Blueprint]:
        from turnstile.api.v1 import events

        return (events.routes,)

    def of_coordination() -> Iterable[Blueprint]:
        from turnstile.api.v1 import references
        from turnstile.api.v1.transactions import journal, reservations

        return references.routes, reservations.routes, journal.listing

    def of_unity() -> Iterable[Blueprint]:
        from turnstile.api.unity import credentials, delta_tables, older_catalogs, older_tables
        from turnstile.api.unity import permissions as unity_permissions

        modules = (delta_tables, older_catalogs, older_tables, credentials, unity_permissions)
        return [module.routes for module in modules]

    later = [
        Later(("/v1/checks", "/v1/gc", "/v1/tables"), of_operators, ends=("/file-verification",)),
        Later(("/v1/events", "/v1/fleet"), of_events),
        Later(("/v1/refs", "/v1/reservations", "/v1/transactions"), of_coordination),
        Later((PREFIX,), of_unity),
    ]
    own = (namespaces, tables, catalog_transactions, history, branches, policies, permissions)
    return App(
        "catalog",
        *(module.routes for module in own),
        *_at_once(services, later),
        later=later if services is None else (),
        services=_opener(services, settings.catalog, "open_catalog", "open_loader", "authorizers", "vendor"),
        authentication=authentication(),
        telemetry=telemetry,
        elsewhere=_elsewhere,
        renders={PREFIX: render},
    )


def _elsewhere() -> Iterable[Routes]:
    """The routes of the other apps with paths among ours."""
    from turnstile.api.tokens import clients, endpoint
    from turnstile.api.unity import delta_commits, preview_commits
    from turnstile.api.v1 import branches, commits, load, maintenance, planning, rows
    from turnstile.api.v1.transactions import journal, snapshots
    from turnstile.api.v1.transactions import tables as transactions

    return [
        routes_of(branches.changes),
        *(
            routes_of(module.routes)
            for module in (
                commits,
                transactions,
                journal,
                snapshots,
                load,
                maintenance,
                planning,
                rows,
                delta_commits,
                preview_commits,
                endpoint,
                clients,
            )
        ),
    ]


def plans(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the app of operations that read all files of a table: maintenance by policy, and
    plans of scans. Parquet checkpoints need pyarrow, which its function carries."""
    from turnstile.api.v1 import maintenance, planning

    return App(
        "plans",
        maintenance.routes,
        planning.routes,
        services=_opener(services, settings.plans, "authorizers", "maintenance_runs", "maintainer"),
        authentication=authentication(),
        telemetry=telemetry,
    )


def branches(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the app that compares, updates and promotes branches. Expectations may need rows of
    data files, so its function carries pyarrow."""
    from turnstile.api.v1 import branches

    return App(
        "branches",
        branches.changes,
        services=_opener(services, settings.branches, "open_catalog", "authorizers", "groups"),
        authentication=authentication(),
        telemetry=telemetry,
    )


def ingest(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the app that takes rows. Data files need pyarrow, which its function carries."""
    from turnstile.api.v1 import rows

    return App(
        "ingest",
        rows.routes,
        services=_opener(services, settings.ingest, "ratifier", "authorizers", "open_loader"),
        authentication=authentication(),
        telemetry=telemetry,
        bodies=rows.BODIES,
        media=rows.MEDIA,
    )


def iceberg(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the Iceberg REST catalog."""
    from turnstile.api.iceberg import delta_plans, namespaces, plans, tables, views
    from turnstile.api.iceberg.context import BODIES
    from turnstile.api.iceberg.errors import DELTA_PREFIX, PREFIX, render

    return App(
        "iceberg",
        *(module.routes for module in (namespaces, tables, plans, views, delta_plans)),
        services=_opener(
            services,
            settings.iceberg,
            *("open_catalog", "metadata_files", "append_queue", "vendor", "authorizers", "source_rights"),
        ),
        authentication=authentication(),
        telemetry=telemetry,
        renders={PREFIX: render, DELTA_PREFIX: render},
        bodies=BODIES,
        slashed=("namespace", "table", "view"),
        answer_bytes=None if services is None else services.settings.answer_bytes,
    )


def tokens(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the token endpoint and the operations on its clients."""
    from turnstile.api.tokens import clients, endpoint

    return App(
        "tokens",
        endpoint.routes,
        clients.routes,
        services=_opener(services, settings.tokens, "clients", "signed_tokens"),
        authentication=authentication(),
        telemetry=telemetry,
        public=(endpoint.TOKEN, endpoint.EXCHANGE),
        renders={"/oauth": endpoint.render, "/api/1.0/unity-control": endpoint.render},
    )


def _at_once(services: Services | None, later: Iterable[Later]) -> Iterable[Blueprint]:
    """The routes of ``later``, where services are there already: a server imports all before its
    first request."""
    return [] if services is None else [routes for part in later for routes in part.blueprints()]


def _opener(services: Services | None, read: Callable[[], Settings], *parts: str) -> Callable[[], Services]:
    """Returns a function that opens an app's services, with ``parts`` built: existing services, or
    services by the settings."""

    def open_services() -> Services:
        here = services or Services.open(read())
        here.prepare(*parts)
        return here

    return open_services
