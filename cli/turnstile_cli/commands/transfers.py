"""``turnstile import`` and ``turnstile export``: a table, or all tables of a source or a namespace,
come under the catalog or leave it."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.bulk import BulkImport, Target, Transfer, delta_tables, require_complete, run_all, source_name
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import CATALOG, NamespaceName, TableName
from turnstile_cli.output import Format
from turnstile_cli.sources import FORMS, LogStore, SourceTable, tables_of

TableOrNone = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="catalog.namespace.table, or namespace.table in 'main'.")
]
Location = Annotated[
    str | None, typer.Argument(metavar="[LOCATION]", help="Folder of the table: s3://... or file:///...")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list the actions.")]
Source = Annotated[str | None, typer.Option("--all", metavar="SOURCE", help=f"All tables of a source: {FORMS}.")]
Into = Annotated[
    str, typer.Option("--into", help="With --all: a catalog, or catalog.namespace to put the source's namespaces in.")
]
Match = Annotated[
    list[str] | None,
    typer.Option("--match", metavar="PATTERN", help="With --all: only names in the source like this, such as sales.*"),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="With --all: how many tables at once.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="With --all: a file that gets a line of JSON for each table at once.")
]
SourceToken = Annotated[
    str, typer.Option("--source-token", envvar="TURNSTILE_SOURCE_TOKEN", help="Bearer token of a Unity Catalog.")
]
LogStoreTable = Annotated[
    str | None,
    typer.Option(
        "--log-store", metavar="TABLE", help="The DynamoDB table of Delta's S3DynamoDBLogStore, if writers use one."
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Also tables of a catalog that is lost and will never decide again (docs/operations.md)."
    ),
]
AllOf = Annotated[
    str | None, typer.Option("--all", metavar="NAMESPACE", help="All Delta tables in catalog.namespace and below.")
]


_FACTS: Final = {
    "table_id": "id",
    "version": "latest version of its log",
    "upgrade_version": "version that brings it under the catalog",
    "read_from": "protocol and metadata are read from",
    "latest": "latest version",
    "unpublished": "versions still to be published",
    "release_version": "version that gives it back to the file system",
    "state": "state",
}
"""Members of the reports, in words."""


@with_api
def import_(
    api: Api,
    *,
    table: TableOrNone = None,
    location: Location = None,
    source: Source = None,
    into: Into = CATALOG,
    match: Match = None,
    jobs: Jobs = 4,
    report: Report = None,
    source_token: SourceToken = "",
    log_store: LogStoreTable = None,
    take_over: TakeOver = False,
    dry_run: DryRun = False,
    output: Format,
) -> None:
    """Bring existing tables under the catalog, where they lie: one Delta table by name and
    location, or --all of a source.

    A Delta table gets one commit that upgrades its protocol; from then on its writers must go
    through the service, so stop the writers first. Iceberg tables of a source are registered. A
    second run finishes an interrupted one and skips tables that are imported already; `turnstile
    export` is the way back. docs/migration.md has it step by step.
    """
    if source is None:
        if table is None or location is None:
            raise usage("import needs a table and its location", "write TABLE LOCATION, or --all SOURCE")
        _import_one(api, TableName.parse(table), location, log_store, output, dry_run=dry_run, take_over=take_over)
        return
    if table is not None:
        raise usage("--all imports tables under the names that they have in the source", "leave TABLE out, see --into")
    tables = _matching(source, source_token, match or [], jobs)
    transfer = BulkImport(
        api, Target.parse(into), LogStore(log_store) if log_store else None, dry_run=dry_run, take_over=take_over
    )
    if not tables:
        raise _nothing(f"{source} has no table", "check the source's name, and --match")
    rows = transfer.prepare(tables)
    run_all(rows, transfer.run, jobs, report, f"import of {source}")
    _show(rows, output, f"import of {source}")


def _import_one(
    api: Api, name: TableName, location: str, log_store: str | None, output: Format, *, dry_run: bool, take_over: bool
) -> None:
    require_complete(LogStore(log_store) if log_store else None, location)
    body = {"name": name.table, "location": location, "dry_run": dry_run, **({"take_over": True} if take_over else {})}
    response = api.post(f"{name.namespace_path}/imports", body)
    _report(response, output, "would import" if dry_run else "imported", f"{location} as {name}")


@with_api
def export(
    api: Api,
    *,
    table: TableOrNone = None,
    all_of: AllOf = None,
    jobs: Jobs = 4,
    report: Report = None,
    dry_run: DryRun = False,
    output: Format,
) -> None:
    """Hand a table back to the file system: publish everything and give up the catalog's control of
    it. Or --all of a namespace."""
    if (table is None) == (all_of is None):
        raise usage("export needs a table, or --all and a namespace", "write TABLE, or --all catalog.namespace")
    if table is not None:
        name = TableName.parse(table)
        response = api.post(f"{name.path}/export", {"dry_run": dry_run})
        _report(response, output, "would export" if dry_run else "exported", str(name))
        return
    namespace = NamespaceName.parse(str(all_of))
    rows = [Transfer(name, str(name), location) for name, location in delta_tables(api, namespace)]

    def run(row: Transfer) -> None:
        answer = api.post(f"{row.name.path}/export", {"dry_run": dry_run})
        row.outcome = "possible" if dry_run else "exported"
        for problem in answer["problems"][:1]:
            row.refuse(problem["message"], problem["remedy"] or "")

    if not rows:
        raise _nothing(f"there is no Delta table in {namespace}", "'turnstile tables' lists all")
    run_all(rows, run, jobs, report, f"export of {namespace}")
    _show(rows, output, f"export of {namespace}")


def _report(response: dict[str, Any], output: Format, verb: str, what: str) -> None:
    if output is Format.JSON:
        out.emit_json(response)
        return
    possible = response.get("possible", True)
    out.say(f"{verb if possible else verb.replace('would', 'cannot')} {escape(what)}")
    for member, label in _FACTS.items():
        if response.get(member) not in (None, ""):
            out.say(f"  [bold]{label}[/bold] {escape(str(response[member]))}")
    if response.get("features_added"):
        out.say(f"  [bold]features that its log would name[/bold] {escape(', '.join(response['features_added']))}")
    for name, value in response.get("properties_set", {}).items():
        out.say(f"  [bold]sets the property[/bold] {escape(name)}={escape(value)}")
    for note in response.get("notes", ()):
        out.say(f"  [bold]note[/bold] {escape(note)}")
    for problem in response.get("problems", ()):
        out.say(f"  [bold red]problem[/bold red] {escape(problem['message'])}")
        out.say(f"    remedy: {escape(problem['remedy'])}")


def _matching(source: str, token: str, patterns: list[str], jobs: int) -> list[SourceTable]:
    """The tables of the source whose names match one of the patterns, if there are any."""
    tables = list[SourceTable]()
    with out.progress(f"looking for tables in {source}") as shown:
        for table in tables_of(source, token=token, jobs=max(jobs, 8)):
            if not patterns or any(fnmatchcase(source_name(table), pattern) for pattern in patterns):
                tables.append(table)
                shown(len(tables), None)
    return tables


def _nothing(message: str, remedy: str) -> CliError:
    return CliError(Exit.NOT_FOUND, message, remedy=remedy, type="NoTables")


def _show(rows: list[Transfer], output: Format, what: str) -> None:
    counts = Counter(row.outcome for row in rows)
    if output is Format.JSON:
        out.emit_json({"tables": [row.document() for row in rows], "counts": dict(counts)})
    else:
        cells = ((str(row.name), row.outcome, row.location, row.problem, row.remedy) for row in rows)
        out.table("", ("table", "outcome", "location", "problem", "remedy"), cells, empty="")
        out.say(f"{escape(what)}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    for outcome, code in (("unknown", Exit.UNKNOWN), ("failed", Exit.FAILURE), ("refused", Exit.REFUSED)):
        if counts[outcome]:
            raise typer.Exit(int(code))
