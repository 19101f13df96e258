"""Commands on a catalog's past: its log, named snapshots, going back."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import moments
from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.codes import EPILOG
from turnstile_cli.errors import usage
from turnstile_cli.names import CATALOG
from turnstile_cli.options import Format
from turnstile_cli.service import talking

Name = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the catalog.")]
Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Name of the snapshot.")]
When = Annotated[
    str | None,
    typer.Option("--to", help=f"A moment: {moments.WORDS}. Short: commit/..., a number, a snapshot's name."),
]
Of = Annotated[str | None, typer.Option("--of", help="What to name, as for 'reset --to'; by default the present HEAD.")]
Source = Annotated[str, typer.Argument(metavar="FROM", help="A namespace or a table; '' for the whole catalog.")]
To = Annotated[str, typer.Argument(metavar="TO", help="The new full name, without the catalog.")]
Moment = Annotated[str | None, typer.Option("--of", help="What to clone, as for 'reset --to'; by default what is now.")]
Comment = Annotated[str | None, typer.Option("--comment", help="What it is for.")]
Most = Annotated[int, typer.Option("--max", min=1, max=100, help="How many commits.")]
Start = Annotated[int | None, typer.Option("--start", min=0, help="The number of the commit to begin with.")]
Oldest = Annotated[bool, typer.Option("--oldest-first", help="From the oldest that is kept.")]

catalog = typer.Typer(
    help="A catalog as a whole: log, snapshots, going back, clones.",
    no_args_is_help=True,
    epilog=EPILOG,
    rich_markup_mode="markdown",
)


@catalog.command("log")
@talking
def log(
    api: Api,
    *,
    name: Name = CATALOG,
    start: Start = None,
    oldest_first: Oldest = False,
    most: Most = 20,
    output: Format,
) -> None:
    """Show what changed in a catalog, newest first."""
    query: dict[str, Any] = {"max_results": most, "oldest_first": str(oldest_first).lower()}
    if start is not None:
        query["start"] = start
    told = api.get(f"{_path(name)}/log", **query)
    if output is Format.JSON:
        out.emit_json(told)
        return
    rows = ((one["seq"], out.when(one["at"] // 1000), one["message"], one["head"]) for one in told["commits"])
    out.table("", ("#number", "when", "what", "HEAD"), rows, empty="no commits")


@catalog.command("snapshots")
@talking
def snapshots(api: Api, *, name: Name = CATALOG, output: Format) -> None:
    """List the snapshots of a catalog."""
    found = list(api.pages(f"{_path(name)}/snapshots", "snapshots"))
    if output is Format.JSON:
        out.emit_json({"snapshots": found})
        return
    rows = ((one["name"], one["seq"], out.when(one["at"] // 1000), one["tables"], one.get("comment")) for one in found)
    out.table("", ("snapshot", "#number", "as of", "#tables", "comment"), rows, empty="no snapshots")


@catalog.command("snapshot")
@talking
def snapshot(
    api: Api, *, name: Name, snapshot: Snapshot, of: Of = None, comment: Comment = None, output: Format
) -> None:
    """Name the present HEAD of a catalog, or one of its past, so that it stays."""
    body: dict[str, Any] = {"name": snapshot, "comment": comment, "of": moments.body(of) if of else None}
    told = api.change("POST", f"{_path(name)}/snapshots", body)
    if output is Format.JSON:
        out.emit_json(told)
    else:
        out.say(f"{escape(snapshot)} is number {told['seq']} of {escape(name)}, {told['head']}")


@catalog.command("show-snapshot")
@talking
def show_snapshot(api: Api, *, name: Name, snapshot: Snapshot, output: Format) -> None:
    """Show a snapshot with the versions that its Delta tables had, by uuid."""
    told = api.get(f"{_path(name)}/snapshots/{quote(snapshot, safe='')}")
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"{escape(told['name'])} is number {told['seq']} of {escape(name)}, {told['head']}")
    out.table("", ("table", "#version"), sorted(told["versions"].items()), empty="no versions of tables")


@catalog.command("drop-snapshot")
@talking
def drop_snapshot(api: Api, *, name: Name, snapshot: Snapshot, output: Format) -> None:
    """Take a snapshot's name away."""
    api.change("DELETE", f"{_path(name)}/snapshots/{quote(snapshot, safe='')}")
    if output is Format.JSON:
        out.emit_json({})
    else:
        out.say(f"dropped snapshot {escape(snapshot)} of {escape(name)}")


@catalog.command("reset")
@talking
def reset(api: Api, *, name: Name, to: When = None, output: Format) -> None:
    """Make names, properties, rights and Iceberg tables of a catalog what they were.

    Delta tables keep their commits. Tables created since are dropped, tables dropped since come back while their files
    are there. The reset is a commit of its own: it can be reset as well.
    """
    if not to:
        raise usage("say where to go back to", "turnstile catalog reset main --to time:1770000000000")
    told = api.change("POST", f"{_path(name)}/reset", {"to": moments.body(to)})
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"{escape(name)} is what it was at {told['to']}; number {told['seq']} of its log")
    for what in ("restored", "dropped", "renamed"):
        for table in told[what]:
            out.say(f"  {what} {escape(table)}")


@catalog.command("clone")
@talking
def clone(api: Api, *, name: Name, source: Source, to: To, of: Moment = None, output: Format) -> None:
    """Show a namespace with everything under it, or a table, under another name as well. No data is copied.

    Iceberg tables of a clone can be written and go their own way; Delta tables show one version, and are read-only.
    """
    told = api.post(f"{_path(name)}/clones", {"from": source, "to": to, "of": moments.body(of) if of else None})
    if output is Format.JSON:
        out.emit_json(told)
        return
    out.say(f"{escape(told['to'])} shows {escape(source or name)} as of {told['of']}; number {told['seq']} of the log")
    for table in told["tables"]:
        version = "" if table["version"] is None else f", version {table['version']} of its source"
        out.say(f"  {table['kind']} {escape(table['name'])}{version}")


def _path(name: str) -> str:
    return f"/v1/catalogs/{quote(name, safe='')}"
