"""Commands on references: named values that change by compare-and-swap only. Who may do what with one: ``turnstile grants --on ref``."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.codes import EPILOG
from turnstile_cli.options import Format
from turnstile_cli.service import talking

PATH: Final = "/v1/refs"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the reference.")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="Text of up to 1024 bytes.")]
Expected = Annotated[str, typer.Argument(metavar="EXPECTED", help="Token of the value to be replaced; 'get' shows it.")]
Request = Annotated[
    str | None,
    typer.Option("--request-id", help="Identifies the request, so that the same command again is no other change."),
]

refs = typer.Typer(
    help="Read and swap references: a pointer per application, changed by compare-and-swap.",
    no_args_is_help=True,
    epilog=EPILOG,
    rich_markup_mode="markdown",
)


@refs.command("get")
@talking
def get(api: Api, *, name: Name, output: Format) -> None:
    """Show a reference's value and its token."""
    _show(api.get(_path(name)), output)


@refs.command("create")
@talking
def create(api: Api, *, name: Name, value: Value, request_id: Request = None, output: Format) -> None:
    """Create a reference."""
    _show(api.post(PATH, {"name": name, "value": value, "request_id": request_id}), output)


@refs.command("swap")
@talking
def swap(api: Api, *, name: Name, expected: Expected, value: Value, request_id: Request = None, output: Format) -> None:
    """Replace a value, if it is still that of the token."""
    _show(api.post(_path(name), {"token": expected, "value": value, "request_id": request_id}), output)


@refs.command("history")
@talking
def history(api: Api, *, name: Name, output: Format) -> None:
    """Show the recent values of a reference, newest first."""
    told = api.get(f"{_path(name)}/history")
    if output is Format.JSON:
        out.emit_json(told)
        return
    rows = ((one["version"], out.when(one["at"]), one["value"], one["token"]) for one in told["values"])
    out.table(name, ("#version", "written", "value", "token"), rows, empty="no values")


def _path(name: str) -> str:
    return f"{PATH}/{quote(name, safe='')}"


def _show(told: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(told)
        return
    pairs = (("value", told["value"]), ("version", told["version"]), ("token", told["token"]))
    for label, value in (*pairs, ("written", out.when(told["at"]))):
        out.say(f"[bold]{label:<8}[/bold] {escape(str(value))}")
