"""Commands on a catalog: its namespaces and entries, searching; and on its past, ``catalog``."""

from __future__ import annotations

import re
from itertools import islice
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.errors import usage
from turnstile_cli.names import (
    CATALOG,
    MOMENT_WORDS,
    AsOf,
    Table,
    TableName,
    moment_body,
    moment_query,
    namespaces_path,
)
from turnstile_cli.output import Format

Catalog = Annotated[str, typer.Argument(metavar="[CATALOG]", help="Name of the catalog.")]
Under = Annotated[str | None, typer.Option("--under", help="Namespaces in this one, instead of the top ones.")]


@with_api
def namespaces(
    api: Api, *, catalog: Catalog = CATALOG, under: Under = None, as_of: AsOf = None, output: Format
) -> None:
    """List the namespaces of a catalog, one level of them."""
    parent = {"parent": under} if under else {}
    rows = list(api.pages(namespaces_path(catalog), "namespaces", **parent, **moment_query(as_of)))
    if output is Format.JSON:
        out.emit_json({"catalog": catalog, "namespaces": rows})
        return
    cells = ((row["name"], row.get("comment"), out.when(row.get("created"))) for row in rows)
    out.table("", ("namespace", "comment", "created"), cells, empty=f"no namespaces in {escape(catalog)}")


@with_api
def describe(api: Api, *, table: Table, as_of: AsOf = None, output: Format) -> None:
    """Show the catalog's entry of a table or view of any format, now or at a moment of its past.

    A Delta table's content is in its own log: its version is known as of a named snapshot.
    """
    response = api.get(f"{TableName.parse(table).path}/entry", **moment_query(as_of))
    if output is Format.JSON:
        out.emit_json(response)
        return
    for member, value in response.items():
        shown = out.when(value) if member == "created" else value
        if isinstance(value, dict):
            shown = ", ".join(f"{name}={value[name]}" for name in sorted(value))
        out.say(f"[bold]{member.replace('_', ' '):<18}[/bold] {escape(str(shown))}")


PathQuery = Annotated[
    str, typer.Argument(metavar="QUERY", help="/catalog/level/level: each a name, *, or a predicate in [...].")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Stop after so many matches.")]


_QUOTED: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)
_FILES: Final = re.compile(r"\s*/[^/]+(?:/[^/]+)+/\s*files\s*\[", re.IGNORECASE)


@with_api
def find(api: Api, *, query: PathQuery, as_of: AsOf = None, limit: Limit = 1000, output: Format) -> None:
    """Find namespaces, tables and files by a path query: one predicate a level.

    For example `turnstile find '/main/sales/[format = "delta" and name prefix "ord"]'`. All of it
    is one view of the catalog, however long it takes. The grammar is in docs/path-queries.md. The
    version of a Delta table is known as of a snapshot. `/main/sales/*/files[day = '2026-11-01' and
    size < 16mb]` finds files of tables.
    """
    if _FILES.match(_QUOTED.sub("", query)):
        _find_files(api, query, as_of, limit, output)
        return
    matches = api.pages("/v1/find", "found", query=query, **moment_query(as_of))
    rows = list(islice(matches, limit))
    more = next(matches, None) is not None
    if output is Format.JSON:
        out.emit_json({"query": query, "found": rows, "more": more})
        return
    cells = (
        (row["name"], row["kind"], row.get("format"), row.get("version"), out.when(row["created"]), row.get("comment"))
        for row in rows
    )
    columns = ("name", "kind", "format", "#version", "created", "comment")
    out.table("", columns, cells, empty=f"nothing matches {escape(query)}")
    if more:
        out.say(f"[dim]there are more than {limit}; see --limit[/dim]")


def _find_files(api: Api, query: str, as_of: str | None, limit: int, output: Format) -> None:
    """The files that a path query leads to, and the tables that have none because they could not be
    asked."""
    if as_of is not None:
        raise usage("files of the past are not found", "use turnstile plan TABLE --version")
    rows = list[dict[str, Any]]()
    left_out = list[dict[str, str]]()
    token = None
    while True:
        wanted = {"query": query, "max_results": min(1000, limit - len(rows) + 1)}
        page = api.get("/v1/find/files", **wanted, **({"page_token": token} if token else {}))
        rows = [*rows, *page["found"]]
        left_out = [*left_out, *page["left_out"]]
        token = page.get("next_page_token")
        if token is None or len(rows) > limit:
            break
    more = len(rows) > limit or token is not None
    rows = rows[:limit]
    if output is Format.JSON:
        out.emit_json({"query": query, "found": rows, "left_out": left_out, "more": more})
        return
    cells = ((row["table"], row["version"], row["path"], out.size(row["size"]), row["records"]) for row in rows)
    out.table("", ("table", "#version", "file", "#size", "#rows"), cells, empty=f"no file matches {escape(query)}")
    for table in left_out:
        out.say(f"[dim]{escape(table['table'])} was left out: {escape(table['reason'])}[/dim]")
    if more:
        out.say(f"[dim]there are more than {limit}; see --limit[/dim]")


CatalogName = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the catalog.")]
Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Name of the snapshot.")]
ResetTo = Annotated[
    str | None,
    typer.Option("--to", help=f"A moment: {MOMENT_WORDS}. Short: commit/..., a number, a snapshot's name."),
]
SnapshotOf = Annotated[
    str | None, typer.Option("--of", help="The moment to name, as for 'reset --to'; by default the present HEAD.")
]
Source = Annotated[str, typer.Argument(metavar="FROM", help="A namespace or a table; '' for the whole catalog.")]
To = Annotated[str, typer.Argument(metavar="TO", help="The new full name, without the catalog.")]
CloneOf = Annotated[
    str | None, typer.Option("--of", help="The moment to clone, as for 'reset --to'; by default the present.")
]
Comment = Annotated[str | None, typer.Option("--comment", help="A comment.")]
MaxCommits = Annotated[int, typer.Option("--limit", "--max", "-n", min=1, max=100, help="How many commits.")]
Start = Annotated[int | None, typer.Option("--start", min=0, help="The number of the commit to begin with.")]
Oldest = Annotated[bool, typer.Option("--oldest-first", help="From the oldest that is kept.")]

catalog = command_group("A catalog as a whole: log, snapshots, going back, clones.")


@catalog.command("log")
@with_api
def log(
    api: Api,
    *,
    name: CatalogName = CATALOG,
    start: Start = None,
    oldest_first: Oldest = False,
    most: MaxCommits = 20,
    output: Format,
) -> None:
    """Show the changes of a catalog, newest first."""
    query: dict[str, Any] = {"max_results": most, "oldest_first": str(oldest_first).lower()}
    if start is not None:
        query["start"] = start
    response = api.get(f"{_catalog_path(name)}/log", **query)
    if output is Format.JSON:
        out.emit_json(response)
        return
    rows = ((row["seq"], out.when(row["at"] // 1000), row["message"], row["head"]) for row in response["commits"])
    out.table("", ("#number", "when", "what", "HEAD"), rows, empty="no commits")


@catalog.command("snapshots")
@with_api
def snapshots(api: Api, *, name: CatalogName = CATALOG, output: Format) -> None:
    """List the snapshots of a catalog."""
    rows = list(api.pages(f"{_catalog_path(name)}/snapshots", "snapshots"))
    if output is Format.JSON:
        out.emit_json({"snapshots": rows})
        return
    cells = ((row["name"], row["seq"], out.when(row["at"] // 1000), row["tables"], row.get("comment")) for row in rows)
    out.table("", ("snapshot", "#number", "as of", "#tables", "comment"), cells, empty="no snapshots")


@catalog.command("snapshot")
@with_api
def snapshot(
    api: Api, *, name: CatalogName, snapshot: Snapshot, of: SnapshotOf = None, comment: Comment = None, output: Format
) -> None:
    """Name the present HEAD of a catalog, or one of its past, so that it stays."""
    body: dict[str, Any] = {"name": snapshot, "comment": comment, "of": moment_body(of) if of else None}
    response = api.change("POST", f"{_catalog_path(name)}/snapshots", body)
    if output is Format.JSON:
        out.emit_json(response)
    else:
        out.say(f"{escape(snapshot)} is number {response['seq']} of {escape(name)}, {response['head']}")


@catalog.command("show-snapshot")
@with_api
def show_snapshot(api: Api, *, name: CatalogName, snapshot: Snapshot, output: Format) -> None:
    """Show a snapshot with the versions that its Delta tables had, by uuid."""
    response = api.get(f"{_catalog_path(name)}/snapshots/{quote(snapshot, safe='')}")
    if output is Format.JSON:
        out.emit_json(response)
        return
    out.say(f"{escape(response['name'])} is number {response['seq']} of {escape(name)}, {response['head']}")
    out.table("", ("table", "#version"), sorted(response["versions"].items()), empty="no versions of tables")


@catalog.command("drop-snapshot")
@with_api
def drop_snapshot(api: Api, *, name: CatalogName, snapshot: Snapshot, output: Format) -> None:
    """Take a snapshot's name away."""
    api.change("DELETE", f"{_catalog_path(name)}/snapshots/{quote(snapshot, safe='')}")
    if output is Format.JSON:
        out.emit_json({})
    else:
        out.say(f"dropped snapshot {escape(snapshot)} of {escape(name)}")


@catalog.command("reset")
@with_api
def reset(api: Api, *, name: CatalogName, to: ResetTo = None, output: Format) -> None:
    """Set names, properties, rights and Iceberg tables of a catalog back to a moment of its past.

    Delta tables keep their commits. Tables created since are dropped, tables dropped since come
    back while their files are there. The reset is a commit of its own: it can be reset as well.
    """
    if not to:
        raise usage("say where to go back to", "turnstile catalog reset main --to time:1770000000000")
    response = api.change("POST", f"{_catalog_path(name)}/reset", {"to": moment_body(to)})
    if output is Format.JSON:
        out.emit_json(response)
        return
    out.say(f"{escape(name)} is what it was at {response['to']}; number {response['seq']} of its log")
    for what in ("restored", "dropped", "renamed"):
        for table in response[what]:
            out.say(f"  {what} {escape(table)}")


@catalog.command("clone")
@with_api
def clone(api: Api, *, name: CatalogName, source: Source, to: To, of: CloneOf = None, output: Format) -> None:
    """Show a namespace with everything under it, or a table, under another name as well. No data is
    copied.

    Iceberg tables of a clone can be written and go their own way; Delta tables show one version,
    and are read-only.
    """
    response = api.post(
        f"{_catalog_path(name)}/clones", {"from": source, "to": to, "of": moment_body(of) if of else None}
    )
    if output is Format.JSON:
        out.emit_json(response)
        return
    out.say(
        f"{escape(response['to'])} shows {escape(source or name)} as of {response['of']}; number {response['seq']} of "
        f"the log"
    )
    for table in response["tables"]:
        version = "" if table["version"] is None else f", version {table['version']} of its source"
        out.say(f"  {table['kind']} {escape(table['name'])}{version}")


def _catalog_path(name: str) -> str:
    return f"/v1/catalogs/{quote(name, safe='')}"
