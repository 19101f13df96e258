"""How a command finds the service: the options that commands share, and the
:class:`~turnstile_cli.api.Api` they get."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, get_type_hints

import typer
from typer.core import TyperGroup

from turnstile_cli.api import Api
from turnstile_cli.errors import EPILOG, CliError, Exit, usage
from turnstile_cli.output import Format, report_errors

Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="text for people; json prints one object, errors as JSON on standard error."),
]
Home = Annotated[
    Path, typer.Option("--home", envvar="TURNSTILE_HOME", help="Folder of the server: its store, tables and log.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", envvar="TURNSTILE_PORT", min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one."),
]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="TURNSTILE_TOKEN", help="Bearer token. By default the one of the server in --home."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", envvar="TURNSTILE_URL", help="Base URL of a deployed Turnstile instead of a local server."),
]

DEFAULT_HOME: Final = Path(".turnstile")
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]*")


def command_group(help: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Returns an empty group of commands, such as ``turnstile refs``."""
    return typer.Typer(help=help, cls=cls, no_args_is_help=True, epilog=EPILOG, rich_markup_mode="markdown")


def with_api(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say how to connect, and passes the connected Api as its
    first argument.

    The command keeps its other parameters; ``output`` is passed on as a keyword.
    """

    @report_errors
    @functools.wraps(command)
    def run(*, home: Home, port: Port, token: Token, url: Url, output: Output, **arguments: Any) -> None:
        with connect(url, home, port, token) as api:
            command(api, output=output, **arguments)

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in ("api", "output")
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in (
            ("home", DEFAULT_HOME, Home), ("port", None, Port), ("token", None, Token), ("url", None, Url),
            ("output", Format.TEXT, Output),
        )
    ]  # fmt: skip
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def connect(url: str | None, home: Path, port: int | None, token: str | None) -> Api:
    """Returns the service at ``--url``, else the server that runs in ``--home``, else the one that
    listens on ``--port``.

    ``token`` None takes the server's own. Raises CliError when none of them is there, or when the
    token cannot be sent in a header.
    """
    if token and not _HEADER_TEXT.fullmatch(token):
        raise usage(
            "the token has characters that no header can carry: not ASCII, or a line break",
            remedy="give --token, or TURNSTILE_TOKEN, exactly as it was issued",
        )
    if url:
        if not url.startswith(("http://", "https://")):
            raise usage(f"--url {url} is not an address", remedy="write http:// or https://")
        return Api(
            url.rstrip("/").removesuffix("/v1"), token or "", local=False
        )  # clients of Iceberg and Unity have a path behind
    service = running_service(home)
    if service is not None and port in (None, 0, service.port):
        return Api(service.url, service.token if token is None else token, home=home)
    if port:
        return Api(f"http://127.0.0.1:{port}", token or "")
    raise CliError(
        Exit.UNREACHABLE,
        f"no server is running in {home.absolute()}",
        remedy="start it with 'turnstile up', or name its folder with --home or its address with --url",
        type="NotRunning",
    )


class Running(Protocol):
    """A service that runs on this machine: a server, or an emulated deployment."""

    @property
    def url(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def token(self) -> str: ...
    @property
    def home(self) -> Path: ...
    @property
    def log(self) -> Path: ...
    @property
    def lake_root(self) -> str: ...
    @property
    def pids(self) -> tuple[int, ...]: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def fresh(self) -> bool: ...
    @property
    def is_emulated(self) -> bool: ...
    @property
    def authentication(self) -> str: ...
    @property
    def notices(self) -> tuple[str, ...]: ...
    def stop(self) -> None: ...


def running_service(home: Path) -> Running | None:
    """Returns the server that runs in ``home``, else the emulated deployment there or in ``aws``
    below; None if none does."""
    from turnstile_server import NotRunning, Server

    try:
        return Server.attach(home)
    except NotRunning:
        pass
    for folder in (home / "aws", home):
        if (folder / "stack.json").exists():
            from turnstile_local import Stack
            from turnstile_local.errors import NotRunning as NoStack

            try:
                return Stack.attach(folder)
            except NoStack:
                continue
    return None
