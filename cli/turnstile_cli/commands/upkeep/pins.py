"""Commands on pins: which versions of a table have to stay, and holding one for a reader."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.errors import usage
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format

_HOUR_MS: Final = 3_600_000

Holder = Annotated[str, typer.Option("--holder", help="A name of the reader's own choice; the same again renews.")]
At = Annotated[int | None, typer.Option("--version", min=0, help="One version.")]
From = Annotated[int | None, typer.Option("--from-version", min=0, help="A version and all that follow.")]
Hours = Annotated[float, typer.Option("--hours", min=0.0, max=168.0, help="For how long; a week at most.")]

pins = command_group("Versions of a table that have to stay, with holders and ends.")


@pins.command("list")
@with_api
def list_(api: Api, *, table: Table, output: Format) -> None:
    """List the pins of a table; holders that you may not see are left out."""
    name = TableName.parse(table)
    response = api.get(_path(name, api))
    if output is Format.JSON:
        out.emit_json({"name": str(name), **response})
        return
    rows = ((pin["kind"], _versions(pin), pin.get("holder", ""), out.when(pin["until_ms"])) for pin in response["pins"])
    out.table("", ("pin", "versions", "holder", "until"), rows, empty="no pins")
    if response["whole"]["readable_from"]:
        out.say(
            f"vacuums left the versions from {response['whole']['readable_from']} on, and {response['whole']['kept']}"
        )


@pins.command("hold")
@with_api
def hold(
    api: Api,
    *,
    table: Table,
    holder: Holder,
    version: At = None,
    from_version: From = None,
    hours: Hours = 1.0,
    output: Format,
) -> None:
    """Hold a version of a table, or all from one on, for a reader, until a time; the same again
    renews."""
    if (version is None) == (from_version is None):
        raise usage("give either --version or --from-version")
    name = TableName.parse(table)
    versions = {"version": version} if version is not None else {"from_version": from_version}
    pin = api.post(_path(name, api), {"holder": holder, "ttl_ms": int(hours * _HOUR_MS), **versions})
    if output is Format.JSON:
        out.emit_json(pin)
        return
    out.say(
        f"{escape(str(name))}: versions {_versions(pin)} stay for {escape(holder)} until {out.when(pin['until_ms'])}"
    )


@pins.command("release")
@with_api
def release(api: Api, *, table: Table, holder: Holder, output: Format) -> None:
    """Release the pin of a reader; a second release changes nothing."""
    name = TableName.parse(table)
    api.change("DELETE", f"{_path(name, api)}/{quote(holder, safe='')}")
    if output is Format.JSON:
        out.emit_json({"name": str(name), "holder": holder})
        return
    out.say(f"{escape(str(name))}: {escape(holder)} holds nothing")


def _path(name: TableName, api: Api) -> str:
    return f"/v1/tables/{name.load(api)['table_id']}/pins"


def _versions(pin: dict[str, Any]) -> str:
    first = pin["first"]
    last = pin["last"]
    return str(first) if first == last else f"{first}-" if last is None else f"{first}-{last}"
