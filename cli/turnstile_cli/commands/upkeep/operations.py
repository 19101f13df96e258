"""Commands of operation: publish, repair, gc, outcome."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import Table, TableName
from turnstile_cli.output import Format


class Side(StrEnum):
    """The side to keep: the commits that the HEAD ratified, or the commits published in
    ``_delta_log``."""

    HEAD = "head"
    LOG = "log"


_REPAIR_COLUMNS = ("table", "state", "finding", "#latest", "#published", "#adopted", "what")

_SIDES = {
    "first: operation": "operation", "engine": "engine", "transaction": "txn_id", "written": "written",
    "in-commit time": "in_commit_timestamp", "bytes": "size", "digest": "digest",
}  # fmt: skip

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list the items to delete.")]
RepairDryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the diagnosis and the remedy.")]
AdoptSide = Annotated[
    Side | None,
    typer.Option("--adopt", help="Where HEAD and _delta_log contradict each other: which of the two stays."),
]
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
    api: Api,
    *,
    table: OptionalTable = None,
    every: AllTables = False,
    dry_run: RepairDryRun = False,
    adopt: AdoptSide = None,
    output: Format,
) -> None:
    """Repair a table that is stuck, or that a backup restored to a state behind its own log.

    Publishes the commits without a conflict, adopts published versions that the HEAD does not know,
    and shows the rest with its remedy. Nothing in _delta_log is ever overwritten. The exit code is
    1 while a table is not healthy.

    If HEAD and _delta_log hold different commits of one version, both are shown and nothing is done
    until you choose: --adopt log discards the HEAD's commits and adopts the log's; --adopt head
    names the files that are in the way.
    """
    if (table is None) != every:
        raise usage("give either a table or --all", "turnstile repair namespace.table")
    if adopt is not None and (every or dry_run):
        raise usage("--adopt is a choice for one table", "turnstile repair namespace.table --adopt log")
    if table is not None:
        name = TableName.parse(table)
        table_id = name.table_id(api)
        done = _repair(api, table_id, dry_run=dry_run) if adopt is None else _adopt(api, table_id, adopt)
        results = [{"name": str(name), **done}]
    else:
        heads = api.heads()
        tables = sorted((str(head["name"]), head["table_id"]) for head in heads if head["state"] != "dropped")
        results = [_repair_one_of_many(api, name, table_id, dry_run=dry_run) for name, table_id in tables]
        results += [_unreadable(row) for row in api.unreadable_heads()]
    if output is Format.JSON:
        out.emit_json({"tables": results} if every else results[0])
    else:
        _show_repairs(results, alone=not every, dry_run=dry_run)
    if not all(_is_healthy(result) for result in results) and not dry_run:
        raise typer.Exit(int(Exit.FAILURE))


def _repair(api: Api, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """The actions of the service; with ``dry_run`` only its diagnosis."""
    path = f"/v1/tables/{table_id}/repair"
    return {"diagnosis": api.get(path)} if dry_run else api.post(path, {})


def _adopt(api: Api, table_id: str, side: Side) -> dict[str, Any]:
    """Chooses ``side`` as the diagnosis shows both now; a plain repair where there is nothing to
    choose."""
    path = f"/v1/tables/{table_id}/repair"
    sides = api.get(path).get("sides")
    if sides is None:
        return api.post(path, {})
    choice = {"side": side.value, "version": sides["log"]["version"], "digest": sides["log"]["digest"]}
    return {**api.post(path, {"adopt": choice}), "chosen_from": sides}


def _repair_one_of_many(api: Api, name: str, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """As :func:`_repair`, for one table among many: its failure must not keep the others from being
    repaired."""
    try:
        return {"name": name, **_repair(api, table_id, dry_run=dry_run)}
    except CliError as error:
        if error.exit is Exit.UNREACHABLE:
            raise
        return {"name": name, **error.document()}


def _unreadable(row: dict[str, Any]) -> dict[str, Any]:
    remedy = "restore this row from a backup: docs/operations.md, A row that cannot be read"
    return {"name": row["key"], "error": {"type": "UnreadableRow", "message": row["message"], "remedy": remedy}}


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
    pairs += [("set aside", path) for path in result.get("set_aside", ())]
    pairs += [("remove by hand", path) for path in result.get("to_remove", ())]
    if not _is_healthy(result):
        pairs.append(("remedy", diagnosis["remedy"]))
    for label, value in pairs:
        out.say(f"[bold]{label:<18}[/bold] {escape(str(value))}")
    sides = result.get("chosen_from") or diagnosis.get("sides")
    if sides is not None:
        _show_sides(sides)


def _show_sides(sides: dict[str, Any]) -> None:
    """The commits of HEAD and log, side by side."""
    columns = {"HEAD": sides["head"] or {}, "_delta_log": sides["log"]}
    rows = [
        ("versions", *(f"{side['version']} to {side['up_to']}" if side else "none" for side in columns.values())),
        *((label, *(_fact(side, member) for side in columns.values())) for label, member in _SIDES.items()),
    ]
    out.table("", ("", *columns), rows, empty="")


def _fact(side: dict[str, Any], member: str) -> str:
    value = side.get(member)
    if value is None:
        return "-"
    return out.when(value) if member in ("written", "in_commit_timestamp") else str(value)


@with_api
def gc(api: Api, *, dry_run: DryRun = False, kind: Kind = None, output: Format) -> None:
    """Delete files and rows that have been unreachable for longer than their grace period."""
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
    """Find the outcome of a commit whose answer was lost.

    'ratified' and 'never' are final. 'open' means that an earlier attempt may still be ratified;
    the exit code is 6 then.
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
        if response["outcome"] == "never":
            out.say(f"[dim]No commit of this table has {'the id' if name is None else 'the name'}: is it whole?[/dim]")
    if response["outcome"] == "open":
        raise typer.Exit(int(Exit.UNKNOWN))
