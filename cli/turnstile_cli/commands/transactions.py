"""Commands on announced transactions: show the outcome of one, and finish or undo it after its
client died."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.output import Format

_PATH: Final = "/v1/transactions"


class State(StrEnum):
    """The outcome of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


Id = Annotated[str, typer.Argument(metavar="ID", help="The transaction's id; 'list' shows them.")]
Only = Annotated[State | None, typer.Option("--state", help="Only transactions in this state.")]

transactions = command_group("Transactions that their client announced in the journal: finish or undo them by id.")


@transactions.command("list")
@with_api
def list_(api: Api, *, state: Only = None, output: Format) -> None:
    """List the transactions that one may commit, by id."""
    query = {} if state is None else {"state": state.value}
    damaged = list[dict[str, Any]]()
    entries = list(api.pages(_PATH, "transactions", damaged, **query))
    if output is Format.JSON:
        out.emit_json({"transactions": entries, **({"unreadable": damaged} if damaged else {})})
        return
    rows = (
        (entry["id"], entry["state"], len(entry["commits"]), out.when(entry["created"]), out.when(entry["until"]))
        for entry in entries
    )
    out.table("", ("transaction", "state", "#tables", "announced", "open until"), rows, empty="no transactions")
    out.say_unreadable(damaged)


@transactions.command("show")
@with_api
def show(api: Api, *, id: Id, output: Format) -> None:
    """Show the outcome of a transaction: open, committed (with its versions) or aborted."""
    _show(api.get(_path(id)), output)


@transactions.command("resume")
@with_api
def resume(api: Api, *, id: Id, output: Format) -> None:
    """Finish a transaction: send its commits again; one that is committed already stays as it
    is."""
    catalog = api.get(_path(id)).get("catalog")
    at_catalog = f"/v1/catalogs/{quote(catalog, safe='')}/transactions/{quote(id, safe='')}" if catalog else _path(id)
    answer = api.post(f"{at_catalog}/resume", {})
    if output is Format.JSON:
        out.emit_json(answer)
        return
    done = "was committed already" if answer["outcome"] == "replayed" else "is committed now"
    out.say(f"transaction {escape(str(answer['id']))} {done}")
    rows = ((member["table_id"], member["commit"]["version"]) for member in answer["commits"])
    out.table("", ("table", "#version"), rows, empty="no tables")


@transactions.command("abort")
@with_api
def abort(api: Api, *, id: Id, output: Format) -> None:
    """Undo a transaction: nothing of it is applied any more, also if its client lives and sends
    it."""
    _show(api.change("DELETE", _path(id)), output)


@transactions.command("reservations")
@with_api
def reservations(api: Api, *, output: Format) -> None:
    """List the reservations of tables that you may write: the owner of each, and the transactions
    that wait."""
    listed = api.get("/v1/reservations")
    if output is Format.JSON:
        out.emit_json(listed)
        return
    rows = (
        (entry["id"], entry["state"], len(entry["held"]), len(entry["wanted"]), out.when(entry["until"]))
        for entry in listed["reservations"]
    )
    out.table("", ("reservation", "state", "#held", "#wanted", "lease until"), rows, empty="no reservations")


def _path(id: str) -> str:
    return f"{_PATH}/{quote(id, safe='')}"


def _show(entry: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(entry)
        return
    pairs = [
        ("transaction", entry["id"]),
        ("state", entry["state"]),
        ("announced", f"{out.when(entry['created'])}   by {entry['owner'] or 'no owner'}, attempt {entry['attempt']}"),
        ("open until", out.when(entry["until"])),
        ("settled", out.when(entry.get("settled"))),
        ("isolation", entry["isolation"]),
        ("catalog", entry.get("catalog")),
    ]
    for label, value in pairs:
        if value:
            out.say(f"[bold]{label:<12}[/bold] {escape(str(value))}")
    tables = [(member["table_id"], "writes", member["version"]) for member in entry["commits"]]
    tables += [(member["table_id"], _read(member), member["version"]) for member in entry["reads"]]
    out.table("", ("table", "", "#version"), tables, empty="no tables")


def _read(member: dict[str, Any]) -> str:
    """How a table was read, with its slack where one was declared."""
    return f"read, slack {member['slack']}" if "slack" in member else "read"
