"""Commands on the catalog: namespaces, entries, import, export."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import moments
from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.moments import AsOf
from turnstile_cli.names import CATALOG, TableName, catalog_path
from turnstile_cli.options import Format, Table
from turnstile_cli.service import talking

Catalog = Annotated[str, typer.Argument(metavar="[CATALOG]", help="Name of the catalog.")]
Location = Annotated[str, typer.Argument(metavar="LOCATION", help="Folder of the table: s3://... or file:///...")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]


@talking
def namespaces(api: Api, *, catalog: Catalog = CATALOG, as_of: AsOf = None, output: Format) -> None:
    """List the namespaces of a catalog."""
    found = list(api.pages(catalog_path(catalog), "namespaces", **moments.query(as_of)))
    if output is Format.JSON:
        out.emit_json({"catalog": catalog, "namespaces": found})
        return
    rows = ((n["name"], n.get("comment"), out.when(n.get("created"))) for n in found)
    out.table("", ("namespace", "comment", "created"), rows, empty=f"no namespaces in {escape(catalog)}")


@talking
def describe(api: Api, *, table: Table, as_of: AsOf = None, output: Format) -> None:
    """Show what the catalog says of a table or view of any format, now or at a moment of its past.

    A Delta table's content is in its own log: its version is told as of a snapshot, which knows it.
    """
    told = api.get(f"{TableName.parse(table).path}/entry", **moments.query(as_of))
    if output is Format.JSON:
        out.emit_json(told)
        return
    for member, value in told.items():
        shown = out.when(value) if member == "created" else value
        if isinstance(value, dict):
            shown = ", ".join(f"{name}={value[name]}" for name in sorted(value))
        out.say(f"[bold]{member.replace('_', ' '):<18}[/bold] {escape(str(shown))}")


@talking
def import_(api: Api, *, table: Table, location: Location, dry_run: DryRun = False, output: Format) -> None:
    """Bring an existing filesystem-based Delta table under the catalog, where it lies.

    One commit upgrades its protocol; from then on its writers must go through the service. A second import of the
    same table finishes what a first one began.
    """
    name = TableName.parse(table)
    body = {"name": name.table, "location": location, "dry_run": dry_run}
    told = api.post(f"{name.namespace_path}/imports", body)
    _report(told, output, "would import" if dry_run else "imported", f"{location} as {name}")


@talking
def export(api: Api, *, table: Table, dry_run: DryRun = False, output: Format) -> None:
    """Hand a table back to the file system: publish everything and give up the catalog's control of it."""
    name = TableName.parse(table)
    told = api.post(f"{name.path}/export", {"dry_run": dry_run})
    _report(told, output, "would export" if dry_run else "exported", str(name))


def _report(told: dict[str, Any], output: Format, verb: str, what: str) -> None:
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"{verb} {escape(what)}")
    for member, value in told.items():
        if not isinstance(value, dict | list):
            out.say(f"  [bold]{escape(member)}[/bold] {escape(str(value))}")
        elif value:
            out.say(f"  [bold]{escape(member)}[/bold] {len(value)} entries")
