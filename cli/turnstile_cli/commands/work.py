"""A worker: background work for a store, by a process that answers no requests."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.commands.server import (
    SERVER_NEEDS,
    Realm,
    S3AccessKeyId,
    S3Endpoint,
    S3SecretAccessKey,
    StoreEndpoint,
    StoreUrl,
    need,
    on_server,
    set_s3,
    set_variables,
)
from turnstile_cli.connection import DEFAULT_HOME, Home

Roles = Annotated[
    str,
    typer.Option("--roles", envvar="TURNSTILE_ROLES", help="Its roles: all, or some of publish,sweep,events,maintain."),
]


@out.report_errors
def work(
    home: Home = DEFAULT_HOME,
    *,
    roles: Roles = "all",
    store: StoreUrl = "",
    store_endpoint: StoreEndpoint = "",
    realm: Realm = "default",
    s3_endpoint: S3Endpoint = None,
    s3_access_key_id: S3AccessKeyId = None,
    s3_secret_access_key: S3SecretAccessKey = None,
    log_level: Annotated[
        str, typer.Option("--log-level", envvar="TURNSTILE_LOG_LEVEL", help="INFO logs the work of each minute.")
    ] = "INFO",
) -> None:
    """Do background work for a store without answering requests, until Ctrl-C or SIGTERM:
    publishing, sweeping, events, light maintenance.

    It joins the store's fleet and shares the work with its servers (serve --fleet) and other
    workers: one of them works on each table. Run as many as you like, in containers or on a Spark
    cluster's driver. On SIGTERM it hands over its work.
    """
    need(SERVER_NEEDS, "server", "a worker")
    from turnstile_server.settings import ServerSettings, read_roles
    from turnstile_server.worker import work as run

    set_variables(TURNSTILE_LOG_LEVEL=log_level.upper())
    set_s3(s3_endpoint, s3_access_key_id, s3_secret_access_key)

    def start() -> None:
        settings = ServerSettings(
            home=str(home), store=store, store_endpoint=store_endpoint, realm=realm, roles=read_roles(roles), fleet=True
        )
        worked = ", ".join(settings.roles)
        run(settings, ready=lambda: out.say(f"Turnstile works for {worked}   (store {escape(settings.store)})"))

    on_server(start)
