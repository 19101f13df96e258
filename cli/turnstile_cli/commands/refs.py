"""Commands on references: named values that change by compare-and-swap only.

``turnstile grants --on ref`` shows and changes the rights to use one.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.output import Format

_PATH: Final = "/v1/refs"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the reference.")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="Text of up to 1024 bytes.")]
Expected = Annotated[str, typer.Argument(metavar="EXPECTED", help="Token of the value to be replaced; 'get' shows it.")]
Request = Annotated[
    str | None,
    typer.Option("--request-id", help="Identifies the request, so that the same command again is no other change."),
]

refs = command_group("Read and swap references: a pointer per application, changed by compare-and-swap.")


@refs.command("get")
@with_api
def get(api: Api, *, name: Name, output: Format) -> None:
    """Show a reference's value and its token."""
    _show(api.get(_path(name)), output)


@refs.command("create")
@with_api
def create(api: Api, *, name: Name, value: Value, request_id: Request = None, output: Format) -> None:
    """Create a reference."""
    _show(api.post(_PATH, {"name": name, "value": value, "request_id": request_id}), output)


@refs.command("swap")
@with_api
def swap(api: Api, *, name: Name, expected: Expected, value: Value, request_id: Request = None, output: Format) -> None:
    """Replace a value, if it is still that of the token."""
    _show(api.post(_path(name), {"token": expected, "value": value, "request_id": request_id}), output)


@refs.command("history")
@with_api
def history(api: Api, *, name: Name, output: Format) -> None:
    """Show the recent values of a reference, newest first."""
    response = api.get(f"{_path(name)}/history")
    if output is Format.JSON:
        out.emit_json(response)
        return
    rows = ((row["version"], out.when(row["at"]), row["value"], row["token"]) for row in response["values"])
    out.table(name, ("#version", "written", "value", "token"), rows, empty="no values")


def _path(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"


def _show(response: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(response)
        return
    pairs = (("value", response["value"]), ("version", response["version"]), ("token", response["token"]))
    for label, value in (*pairs, ("written", out.when(response["at"]))):
        out.say(f"[bold]{label:<8}[/bold] {escape(str(value))}")
