"""Commands on the catalog: namespaces, import, export."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.names import CATALOG, TableName, catalog_path
from turnstile_cli.options import Format, Table
from turnstile_cli.service import talking

Catalog = Annotated[str, typer.Argument(metavar="[CATALOG]", help="Name of the catalog.")]
Location = Annotated[str, typer.Argument(metavar="LOCATION", help="Folder of the table: s3://... or file:///...")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]


@talking
def namespaces(api: Api, *, catalog: Catalog = CATALOG, output: Format) -> None:
    """List the namespaces of a catalog."""
    found = list(api.pages(catalog_path(catalog), "namespaces"))
    if output is Format.JSON:
        out.emit_json({"catalog": catalog, "namespaces": found})
        return
    rows = ((n["name"], n.get("comment"), out.when(n.get("created"))) for n in found)
    out.table("", ("namespace", "comment", "created"), rows, empty=f"no namespaces in {escape(catalog)}")


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
