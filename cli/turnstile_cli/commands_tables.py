"""Commands that look at tables: tables, head, log."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import history
from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.names import TableName
from turnstile_cli.options import Format, Table
from turnstile_cli.service import talking

Prefix = Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only tables whose full name starts with this.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many versions.")]


@talking
def tables(api: Api, *, prefix: Prefix = "", output: Format) -> None:
    """List the tables with their latest and their published version."""
    found = [head for head in api.pages("/v1/tables", "tables") if (head["name"] or "").startswith(prefix)]
    found.sort(key=lambda head: str(head["name"]))
    if output is Format.JSON:
        out.emit_json({"tables": found})
        return
    rows = ((h["name"], h["state"], h["latest"], h["floor"], h["location"]) for h in found)
    out.table("", ("table", "state", "#latest", "#published", "location"), rows, empty="no tables")


@talking
def head(api: Api, *, table: Table, output: Format) -> None:
    """Show a table's HEAD: its latest version, what is published, and what it carries."""
    name = TableName.parse(table)
    loaded = name.load(api)
    told = {"name": str(name), **api.get(f"/v1/tables/{loaded['table_id']}/head")}
    if output is Format.JSON:
        out.emit_json(told)
        return
    tail = told["tail"]
    inline = sum(1 for commit in tail if commit["kind"] == "inline")
    pairs: list[tuple[str, Any]] = [
        ("table", told["name"]),
        ("id", told["table_id"]),
        ("state", told["state"]),
        ("latest", f"{told['latest']}   {out.when(told.get('timestamp'))}"),
        ("published", f"{told['floor']}   ({told['latest'] - told['floor']} to go)"),
        ("tail", f"{len(tail)} commits, {inline} inline, {out.size(told.get('bytes') or 0)} in the row"),
        ("row ids", told.get("row_id_high_water_mark")),
        ("etag", told["etag"]),
        ("location", told["location"]),
    ]
    for label, value in pairs:
        if value is not None:
            out.say(f"[bold]{label:<10}[/bold] {escape(str(value))}")


@talking
def log(api: Api, *, table: Table, limit: Limit = 20, output: Format) -> None:
    """Show a table's commits, newest first: version, time, operation, kind, and whether it is published.

    Versions that the HEAD no longer carries are read from _delta_log if it can be reached from here.
    """
    name = TableName.parse(table)
    loaded = name.load(api)
    carried = api.get(f"/v1/tables/{loaded['table_id']}/head")
    told = history.newest(carried, limit, api.home)
    if output is Format.JSON:
        out.emit_json({"name": str(name), "latest": carried["latest"], "floor": carried["floor"], "commits": told})
        return
    now = time.time() * 1000
    rows = (
        (
            commit["version"],
            out.when(commit["timestamp"]),
            commit["operation"],
            commit["kind"] or "-",
            "published" if commit["published"] else f"waits {out.span(now - (commit['timestamp'] or now))}",
        )
        for commit in told
    )
    out.table(str(name), ("#version", "when", "operation", "kind", "publication"), rows, empty="no commits")
    if told and told[-1]["version"] > 0 and len(told) < limit:
        out.say(f"[dim]older versions: {escape(carried['location'])}/_delta_log[/dim]")
