"""The HTTP apps, each built from the blueprints of its routes: what the functions deploy, and what a server may mount.

    app = commit()             of a deployment: opens its services from the environment at the first request
    app = commit(services)     on services that are there already

Which app serves a request is the gateway's decision (template.yaml); every app answers what it has no route for with 404
or 405. View modules are imported by the app that serves them, so that each function loads only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from turnstile.api import settings
from turnstile.api.auth.bearer import authentication
from turnstile.api.http.handler import App, Routes, Telemetry, routes_of
from turnstile.api.services import Services
from turnstile.api.settings import Settings


def commit(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the hot path: commits, also of several tables, and their journal, loads, cuts, and the same in Unity's APIs."""
    from turnstile.api.unity import delta_commits, preview_commits
    from turnstile.api.unity.errors import PREFIX, render
    from turnstile.api.v1 import commits, journal, load, snapshots, transactions

    return App(
        "commit",
        *(
            module.routes
            for module in (commits, transactions, journal, snapshots, load, delta_commits, preview_commits)
        ),
        services=_opener(services, settings.commit, "ratifier", "outcomes", "updater", "authorizers", "open_loader"),
        authentication=authentication(),
        telemetry=telemetry,
        renders={PREFIX: render},
    )


def catalog(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns everything else of our own API and of Unity's. It also gets what no app has a route for."""
    from turnstile.api.unity import credentials, delta_tables, older_catalogs, older_tables
    from turnstile.api.unity import permissions as unity_permissions
    from turnstile.api.unity.errors import PREFIX, render
    from turnstile.api.v1 import (
        catalog_transactions,
        events,
        fleet,
        history,
        journal,
        namespaces,
        operators,
        permissions,
        pins,
        policies,
        references,
        reservations,
        tables,
    )

    own = (
        namespaces,
        tables,
        catalog_transactions,
        history,
        pins,
        policies,
        events,
        fleet,
        references,
        reservations,
        operators,
        permissions,
    )
    unity = (delta_tables, older_catalogs, older_tables, credentials, unity_permissions)

    return App(
        "catalog",
        *(module.routes for module in (*own, *unity)),
        journal.listing,
        services=_opener(
            services, settings.catalog, "open_catalog", "open_loader", "authorizers", "vendor", "collector"
        ),
        authentication=authentication(),
        telemetry=telemetry,
        elsewhere=_elsewhere,
        renders={PREFIX: render},
    )


def _elsewhere() -> Iterable[Routes]:
    """The routes of the other apps whose paths are among ours."""
    from turnstile.api.tokens import clients, endpoint
    from turnstile.api.unity import delta_commits, preview_commits
    from turnstile.api.v1 import commits, journal, load, maintenance, planning, snapshots, transactions

    return [
        routes_of(module.routes)
        for module in (
            commits,
            transactions,
            journal,
            snapshots,
            load,
            maintenance,
            planning,
            delta_commits,
            preview_commits,
            endpoint,
            clients,
        )
    ]


def plans(services: Services | None = None, telemetry: Telemetry | None = None) -> App:
    """Returns the app of operations that scan a table's files: maintenance by policy, and plans of scans. Parquet checkpoints need pyarrow, which only this app's function carries."""
    from turnstile.api.v1 import maintenance, planning

    return App(
        "plans",
        maintenance.routes,
        planning.routes,
        services=_opener(services, settings.plans, "authorizers", "maintenance_runs", "maintainer"),
        authentication=authentication(),
        telemetry=telemetry,
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
            *("open_catalog", "metadata_files", "vendor", "authorizers", "source_rights"),
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
        services=_opener(services, settings.tokens, "clients", "signed"),
        authentication=authentication(),
        telemetry=telemetry,
        public=(endpoint.TOKEN, endpoint.EXCHANGE),
        renders={"/oauth": endpoint.render, "/api/1.0/unity-control": endpoint.render},
    )


def _opener(services: Services | None, read: Callable[[], Settings], *parts: str) -> Callable[[], Services]:
    """What opens an app's services, with ``parts`` built: those that are there, or those of the settings."""

    def opened() -> Services:
        here = services or Services.open(read())
        here.prepare(*parts)
        return here

    return opened
