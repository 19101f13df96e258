"""Branches of catalogs: ``turnstile branch`` (docs/branches.md)."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.errors import Exit
from turnstile_cli.names import MOMENT_WORDS, moment_body
from turnstile_cli.output import Format
from turnstile_http.names import short_branch_name

Catalog = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the catalog.")]
Branch = Annotated[str, typer.Argument(metavar="BRANCH", help="Name of the branch: dev or main@dev.")]
From = Annotated[
    str | None,
    typer.Option("--from", help=f"The moment that the branch shows: {MOMENT_WORDS}; by default the present."),
]
Days = Annotated[int, typer.Option("--days", min=1, max=366, help="Days until the branch ends.")]
State = Annotated[
    str | None, typer.Option("--state", help="Promote only the changes that diff showed with this state.")
]
Tables = Annotated[
    str | None, typer.Option("--tables", help="Promote only these changed Delta tables, by commas; the branch stays.")
]
Registry = Annotated[
    bool,
    typer.Option("--delta-registry", help="Name the branch in the Delta logs, by a proposal for Delta's protocol."),
]
Comment = Annotated[str | None, typer.Option("--comment", help="A comment.")]

DAYS = 30

branch = command_group("Branches of a catalog: write to many tables, check, and promote them at once.")


@branch.command("create")
@with_api
def create(
    api: Api, *, catalog: Catalog, name: Branch, source: From = None, days: Days = DAYS, comment: Comment = None,
    delta_registry: Registry = False, output: Format,
) -> None:  # fmt: skip
    """Make a branch of a catalog: CATALOG@BRANCH is the name of a catalog for every client."""
    body: dict[str, Any] = {"name": short_branch_name(catalog, name), "days": days, "comment": comment}
    body["from"] = moment_body(source) if source else "head"
    body |= {"delta_registry": True} if delta_registry else {}
    made = api.change("POST", _branches(catalog), body)
    if output is Format.JSON:
        out.emit_json(made)
        return
    out.say(f"{escape(made['full_name'])} shows {escape(catalog)} as of {out.when(made['at'] // 1000)}")
    out.say(f"it ends {out.when(made['until'])}")


@branch.command("list")
@with_api
def list_branches(api: Api, *, catalog: Catalog, output: Format) -> None:
    """List the branches of a catalog."""
    found = api.get(_branches(catalog))
    if output is Format.JSON:
        out.emit_json(found)
        return
    rows = (
        (each["full_name"], out.when(each["at"] // 1000), out.when(each["until"]), each["owner"], each.get("comment"))
        for each in found["branches"]
    )
    out.table("", ("branch", "as of", "ends", "owner", "comment"), rows, empty=f"no branches of {escape(catalog)}")


@branch.command("renew")
@with_api
def renew(api: Api, *, catalog: Catalog, name: Branch, days: Days = DAYS, output: Format) -> None:
    """Move the end of a branch to so many days from now."""
    renewed = api.change("PATCH", _branch(catalog, name), {"days": days})
    if output is Format.JSON:
        out.emit_json(renewed)
    else:
        out.say(f"{escape(renewed['full_name'])} ends {out.when(renewed['until'])}")


@branch.command("diff")
@with_api
def diff(api: Api, *, catalog: Catalog, name: Branch, output: Format) -> None:
    """Show the changes that a promotion of a branch would make, and its conflicts."""
    found = _compare(api, catalog, name)
    if output is Format.JSON:
        out.emit_json(found)
        return
    _show(found)
    for conflict in found["conflicts"]:
        out.say(f"conflict: {escape(conflict)}")
    out.say(f"state: {found['state']}")


@branch.command("check")
@with_api
def check(api: Api, *, catalog: Catalog, name: Branch, output: Format) -> None:
    """Check the expectations of the tables that a branch changes. Exit with 4 where one refuses a
    promotion."""
    checks = _compare(api, catalog, name)["checks"]
    if output is Format.JSON:
        out.emit_json({"checks": checks})
    else:
        rows = (
            (
                each["table"],
                each["version"],
                each["expectation"],
                each["condition"],
                f"{each['outcome']}, by {each['by']}" if each.get("by") else each["outcome"],
                each["problem"],
            )
            for each in checks
        )
        columns = ("table", "#version", "expectation", "condition", "outcome", "problem")
        out.table("", columns, rows, empty="no expectations of tables that the branch changes")
    if any(each["refuses"] for each in checks):
        raise typer.Exit(int(Exit.REFUSED))


@branch.command("update")
@with_api
def update(api: Api, *, catalog: Catalog, name: Branch, output: Format) -> None:
    """Take over all changes of the catalog since the base of the branch."""
    with out.progress(f"updating {catalog}@{short_branch_name(catalog, name)}"):
        done = api.change("POST", f"{_branch(catalog, name)}/update")
    if output is Format.JSON:
        out.emit_json(done)
        return
    rows = ((table["name"], table["base"], table["version"]) for table in done["tables"])
    out.table("", ("table", "#version of the catalog", "#version"), rows, empty="no table has changes of both sides")
    updated = done["branch"]
    out.say(f"{escape(updated['full_name'])} shows {escape(catalog)} as of {out.when(updated['at'] // 1000)}")


@branch.command("promote")
@with_api
def promote(
    api: Api, *, catalog: Catalog, name: Branch, state: State = None, tables: Tables = None, output: Format
) -> None:
    """Make the changes of a branch changes of its catalog, all at once, and end the branch."""
    body: dict[str, Any] = {} if state is None else {"state": state}
    body |= {} if tables is None else {"tables": [table.strip() for table in tables.split(",")]}
    with out.progress(f"promoting {catalog}@{short_branch_name(catalog, name)}"):
        done = api.change("POST", f"{_branch(catalog, name)}/promote", body)
    if output is Format.JSON:
        out.emit_json(done)
        return
    if done["seq"] is None:
        out.say(f"{escape(done['branch'])} has no changes, and stays")
        return
    _show(done)
    out.say(f"{escape(done['branch'])} is number {done['seq']} of the log of {escape(catalog)}")
    if tables is not None:
        out.say(f"{escape(done['branch'])} stays with its other changes, updated to this number")


@branch.command("drop")
@with_api
def drop(api: Api, *, catalog: Catalog, name: Branch, output: Format) -> None:
    """Drop a branch with everything that was changed on it."""
    api.change("DELETE", _branch(catalog, name))
    if output is Format.JSON:
        out.emit_json({})
    else:
        out.say(f"dropped {escape(catalog)}@{escape(short_branch_name(catalog, name))}")


def _compare(api: Api, catalog: str, name: str) -> dict[str, Any]:
    """Returns the changes of a branch. The service reads the commits of all changed tables."""
    with out.progress(f"comparing {catalog}@{short_branch_name(catalog, name)}"):
        return api.get(f"{_branch(catalog, name)}/diff")


def _show(changes: dict[str, Any]) -> None:
    rows = [
        (
            table["name"],
            ", ".join(table["operations"]),
            table["files_added"],
            table["files_removed"],
            table["rows_added"],
            table["rows_removed"],
            table.get("version"),
        )
        for table in changes["tables"]
    ]
    rows += [(each["name"], _name_change(each), *[None] * 5) for each in changes["names"]]
    columns = ("name", "change", "#files added", "#files removed", "#rows added", "#rows removed", "#version")
    out.table("", columns, rows, empty="no changes")


def _name_change(name: dict[str, Any]) -> str:
    change = f"{name['change']} {name['kind']}"
    return f"{change} {name['old_name']}" if "old_name" in name else change


def _branches(catalog: str) -> str:
    return f"/v1/catalogs/{quote(catalog, safe='')}/branches"


def _branch(catalog: str, name: str) -> str:
    return f"{_branches(catalog)}/{quote(short_branch_name(catalog, name), safe='')}"
