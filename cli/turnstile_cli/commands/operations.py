"""Commands of operation: publish, repair, gc, outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format

_REPAIR_COLUMNS = ("table", "state", "finding", "#latest", "#published", "#adopted", "what")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")]
RepairDryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how it stands, and what would help.")]
AllTables = Annotated[
    bool, typer.Option("--all", help="Every table, instead of one: after a restore of the coordinator.")
]
OptionalTable = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="As everywhere; or --all.")]
Kind = Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; may be given several times.")]
TxnId = Annotated[str | None, typer.Option("--txn-id", help="The transaction id of the commit.")]
StagedName = Annotated[str | None, typer.Option("--name", help="The staged file's name.")]
Version = Annotated[int | None, typer.Option("--version", min=0, help="The version that was proposed.")]


@with_api
def publish(api: Api, *, table: Table, output: Format) -> None:
    """Publish a table's ratified commits to _delta_log now, without waiting for the stream."""
    name = TableName.parse(table)
    response = api.post(f"/v1/tables/{name.load(api)['table_id']}/publish", {})
    if output is Format.JSON:
        out.emit_json({"name": str(name), **response})
    else:
        out.say(
            f"published {response['published']}; {escape(str(name))} is at {response['floor']} of {response['latest']}"
        )


@with_api
def repair(
    api: Api, *, table: OptionalTable = None, every: AllTables = False, dry_run: RepairDryRun = False, output: Format
) -> None:
    """Get a table going that is stuck, or was restored from a backup behind its own log.

    Publishes what is in nobody's way, adopts published versions that the HEAD does not know, and says what is left and
    what to do about it. Nothing in _delta_log is ever overwritten. The exit code is 1 while a table is not healthy.
    """
    if (table is None) != every:
        raise usage("give either a table or --all", "turnstile repair namespace.table")
    if table is not None:
        name = TableName.parse(table)
        results = [{"name": str(name), **_repair(api, name.table_id(api), dry_run=dry_run)}]
    else:
        heads = api.pages("/v1/tables", "tables")
        tables = sorted((str(head["name"]), head["table_id"]) for head in heads if head["state"] != "dropped")
        results = [_repair_one_of_many(api, name, table_id, dry_run=dry_run) for name, table_id in tables]
    if output is Format.JSON:
        out.emit_json({"tables": results} if every else results[0])
    else:
        _show_repairs(results, alone=not every, dry_run=dry_run)
    if not all(_is_healthy(result) for result in results) and not dry_run:
        raise typer.Exit(int(Exit.FAILURE))


def _repair(api: Api, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """What the service did; with ``dry_run`` its diagnosis alone."""
    path = f"/v1/tables/{table_id}/repair"
    return {"diagnosis": api.get(path)} if dry_run else api.post(path, {})


def _repair_one_of_many(api: Api, name: str, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """As :func:`_repair`, for one table among many: its failure must not keep the others from being repaired."""
    try:
        return {"name": name, **_repair(api, table_id, dry_run=dry_run)}
    except CliError as error:
        if error.exit is Exit.UNREACHABLE:
            raise
        return {"name": name, **error.document()}


def _is_healthy(result: dict[str, Any]) -> bool:
    """Whether a table needs nothing more."""
    return "error" not in result and result["diagnosis"]["finding"] == "healthy"


def _show_repairs(results: Sequence[dict[str, Any]], *, alone: bool, dry_run: bool) -> None:
    """Prints a row for each table; for a table that was named, everything."""
    if alone:
        _show_in_full(results[0], dry_run=dry_run)
        return
    out.table("", _REPAIR_COLUMNS, map(_repair_row, results), empty="no tables")
    unhealthy = [result for result in results if not _is_healthy(result)]
    for result in unhealthy:
        remedy = (result.get("error") or result["diagnosis"]).get("remedy") or "look at the service's log"
        out.say(f"[bold]{escape(result['name'])}[/bold]: {escape(remedy)}")
    if results and not unhealthy:
        out.say(f"{len(results)} healthy")


def _repair_row(result: dict[str, Any]) -> tuple[Any, ...]:
    if "error" in result:
        return (result["name"], None, result["error"]["type"], None, None, None, result["error"]["message"])
    diagnosis = result["diagnosis"]
    figures = (diagnosis["latest"], result.get("published"), result.get("adopted"))
    return (result["name"], diagnosis["state"], diagnosis["finding"], *figures, diagnosis["message"])


def _show_in_full(result: dict[str, Any], *, dry_run: bool) -> None:
    diagnosis = result["diagnosis"]
    pairs: list[tuple[str, Any]] = [
        ("table", result["name"]),
        ("state", f"{diagnosis['state']}, published {diagnosis['floor']} of {diagnosis['latest']}"),
        (
            "finding",
            diagnosis["finding"] + ("" if diagnosis["version"] is None else f", at version {diagnosis['version']}"),
        ),
        ("what", diagnosis["message"]),
    ]
    if not dry_run:
        pairs.append(("done", f"{result['published']} published, {result['adopted']} adopted"))
    pairs += [(name.replace("_", " "), value) for name, value in diagnosis["facts"].items() if value not in (None, "")]
    if not _is_healthy(result):
        pairs.append(("remedy", diagnosis["remedy"]))
    for label, value in pairs:
        out.say(f"[bold]{label:<18}[/bold] {escape(str(value))}")


@with_api
def gc(api: Api, *, dry_run: DryRun = False, kind: Kind = None, output: Format) -> None:
    """Delete what has been unreachable for longer than its grace period."""
    body: dict[str, Any] = {"dry_run": dry_run}
    if kind:
        body["kinds"] = kind
    response = api.post("/v1/gc", body)
    if output is Format.JSON:
        out.emit_json(response)
        return
    rows = ((item["kind"], item["id"], out.size(item["bytes"]), out.span(item["age_ms"])) for item in response["items"])
    out.table("", ("kind", "what", "#size", "#unreachable for"), rows, empty="nothing to delete")
    if response["items"]:
        verb = "would be deleted" if dry_run else f"in all, {response['deleted']} deleted"
        out.say(f"{len(response['items'])} items, {out.size(response['bytes'])} {verb}")


@with_api
def outcome(
    api: Api, *, table: Table, txn_id: TxnId = None, name: StagedName = None, version: Version = None, output: Format
) -> None:
    """Find out what became of a commit whose answer was lost.

    'ratified' and 'never' are final. 'open' means that an earlier attempt may yet land; the exit code is 6 then.
    """
    if (txn_id is None) == (name is None):
        raise usage("give either --txn-id or --name", "the writer's log has one of them")
    query: dict[str, Any] = {"txn_id": txn_id, "name": name, "version": version}
    query = {member: value for member, value in query.items() if value is not None}
    parsed = TableName.parse(table)
    response = api.get(f"/v1/tables/{parsed.load(api)['table_id']}/outcome", **query)
    if output is Format.JSON:
        out.emit_json({"name": str(parsed), **response})
    else:
        at = f" as version {response['version']}" if response.get("version") is not None else ""
        out.say(f"[bold]{escape(response['outcome'])}[/bold]{at}; the table is at {response['latest']}")
    if response["outcome"] == "open":
        raise typer.Exit(int(Exit.UNKNOWN))
