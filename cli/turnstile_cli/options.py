"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="text for people; json prints one object, errors as JSON on standard error."),
]
Home = Annotated[
    Path, typer.Option("--home", envvar="TURNSTILE_HOME", help="Folder of the stack: its tables, state and log.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", envvar="TURNSTILE_PORT", min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one."),
]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="TURNSTILE_TOKEN", help="Bearer token. By default the one of the stack in --home."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", envvar="TURNSTILE_URL", help="Base URL of a deployed Turnstile instead of a local stack."),
]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.namespace.table, or namespace.table in 'main'.")]

DEFAULT_HOME = Path(".turnstile")
