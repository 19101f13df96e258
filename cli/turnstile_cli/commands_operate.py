"""Commands of operation: publish, repair, gc, outcome."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli import repairs
from turnstile_cli.api import Api
from turnstile_cli.codes import Exit
from turnstile_cli.errors import CliError, usage
from turnstile_cli.names import TableName
from turnstile_cli.options import Format, Table
from turnstile_cli.service import talking

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be deleted.")]
Look = Annotated[bool, typer.Option("--dry-run", help="Only say how it stands, and what would help.")]
Every = Annotated[bool, typer.Option("--all", help="Every table, instead of one: after a restore of the coordinator.")]
Some = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="As everywhere; or --all.")]
Kind = Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; may be given several times.")]
TxnId = Annotated[str | None, typer.Option("--txn-id", help="The transaction id of the commit.")]
StagedName = Annotated[str | None, typer.Option("--name", help="The staged file's name.")]
Version = Annotated[int | None, typer.Option("--version", min=0, help="The version that was proposed.")]


@talking
def publish(api: Api, *, table: Table, output: Format) -> None:
    """Publish a table's ratified commits to _delta_log now, without waiting for the stream."""
    name = TableName.parse(table)
    told = api.post(f"/v1/tables/{name.load(api)['table_id']}/publish", {})
    if output is Format.JSON:
        out.emit_json({"name": str(name), **told})
    else:
        out.say(f"published {told['published']}; {escape(str(name))} is at {told['floor']} of {told['latest']}")


@talking
def repair(api: Api, *, table: Some = None, every: Every = False, dry_run: Look = False, output: Format) -> None:
    """Get a table going that is stuck, or was restored from a backup behind its own log.

    Publishes what is in nobody's way, adopts published versions that the HEAD does not know, and says what is left and
    what to do about it. Nothing in _delta_log is ever overwritten. The exit code is 1 while a table is not healthy.
    """
    if (table is None) != every:
        raise usage("give either a table or --all", "turnstile repair namespace.table")
    if table is not None:
        name = TableName.parse(table)
        told = [{"name": str(name), **_repaired(api, name.table_id(api), dry_run=dry_run)}]
    else:
        heads = api.pages("/v1/tables", "tables")
        found = sorted((str(head["name"]), head["table_id"]) for head in heads if head["state"] != "dropped")
        told = [_repaired_or_not(api, name, table_id, dry_run=dry_run) for name, table_id in found]
    if output is Format.JSON:
        out.emit_json({"tables": told} if every else told[0])
    else:
        repairs.show(told, alone=not every, dry_run=dry_run)
    if not all(repairs.healthy(one) for one in told) and not dry_run:
        raise typer.Exit(int(Exit.FAILURE))


def _repaired(api: Api, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """What the service did, or what it says without doing anything."""
    path = f"/v1/tables/{table_id}/repair"
    return {"diagnosis": api.get(path)} if dry_run else api.post(path, {})


def _repaired_or_not(api: Api, name: str, table_id: str, *, dry_run: bool) -> dict[str, Any]:
    """The same of one table among many: its own failure must not keep the others waiting."""
    try:
        return {"name": name, **_repaired(api, table_id, dry_run=dry_run)}
    except CliError as error:
        if error.exit is Exit.UNREACHABLE:
            raise
        return {"name": name, **error.document()}


@talking
def gc(api: Api, *, dry_run: DryRun = False, kind: Kind = None, output: Format) -> None:
    """Delete what has been unreachable for longer than its grace period."""
    body: dict[str, Any] = {"dry_run": dry_run}
    if kind:
        body["kinds"] = kind
    told = api.post("/v1/gc", body)
    if output is Format.JSON:
        out.emit_json(told)
        return
    rows = ((i["kind"], i["id"], out.size(i["bytes"]), out.span(i["age_ms"])) for i in told["items"])
    out.table("", ("kind", "what", "#size", "#unreachable for"), rows, empty="nothing to delete")
    if told["items"]:
        verb = "would be deleted" if dry_run else f"in all, {told['deleted']} deleted"
        out.say(f"{len(told['items'])} items, {out.size(told['bytes'])} {verb}")


@talking
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
    told = api.get(f"/v1/tables/{parsed.load(api)['table_id']}/outcome", **query)
    if output is Format.JSON:
        out.emit_json({"name": str(parsed), **told})
    else:
        at = f" as version {told['version']}" if told.get("version") is not None else ""
        out.say(f"[bold]{escape(told['outcome'])}[/bold]{at}; the table is at {told['latest']}")
    if told["outcome"] == "open":
        raise typer.Exit(int(Exit.UNKNOWN))
