"""Maintenance: the work that is due on a table, its reasons, and the policies behind it."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.markup import escape
from typer.core import TyperGroup

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import command_group, with_api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import CATALOG, TableName, namespace_path
from turnstile_cli.output import Format

_PREFIX: Final = "turnstile.maintenance."

Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="catalog.namespace.table, or namespace.table in 'main'.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the due work with reasons. Nothing changes.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A catalog (main), a namespace (main.sales) or a table (main.sales.orders), all levels named.",
    ),
]
Policy = Annotated[str, typer.Argument(metavar="POLICY", help="Such as target-file-size; 'show' lists them.")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="Such as 128mb, 'interval 7 days', true, 0.2.")]


class _TableFirst(TyperGroup):
    """Takes a name that is no command for a table: ``maintain TABLE``. Tables have a namespace, so
    no table is named like a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["table", *args]
        return super().parse_args(ctx, args)


maintain = command_group("The due work on a table with reasons, and the policies behind it.", cls=_TableFirst)
policy = command_group("Policies of maintenance: of a catalog, a namespace or a table, inherited from above.")
maintain.add_typer(policy, name="policy")


@maintain.command("table")
@with_api
def table_(api: Api, *, table: Table, dry_run: DryRun = False, output: Format) -> None:
    """Show the work that is due on a table, and why: 'turnstile maintain TABLE --dry-run' is short
    for it.

    A worker rewrites files, with Spark or without: without --dry-run it prints the commands.
    """
    name = TableName.parse(table)
    if not dry_run:
        catalog = "" if name.catalog == CATALOG else f" --catalog {name.catalog}"
        raise usage(
            f"'turnstile maintain {table}' rewrites no files by itself: a worker does",
            f"python -m turnstile_client.maintenance run {name.namespace}.{name.table}{catalog} --uri {api.url}; "
            f"with Spark: python -m turnstile_spark.maintenance run {name.namespace}.{name.table}{catalog} --uri "
            f"{api.url}; or give --dry-run",
        )
    answer = api.get(f"/v1/tables/{name.table_id(api)}/maintenance")
    if output is Format.JSON:
        out.emit_json(answer)
        return
    _show_files(answer)
    rows = [(job["operation"], "due", job["files"], out.size(job["bytes"]), _why(job)) for job in answer["due"]]
    rows += [
        (each["operation"], "not due", each["files"], out.size(each["bytes"]), each["reason"])
        for each in answer["not_due"]
    ]
    light = answer["light"]
    why = f"from version {light['next_version']} on; the service does it by itself"
    if light["reason"]:
        why = f"failed {light['failures']} times: {light['reason']}"
    rows.append(("checkpoint", "due" if light["due"] else "not due", "", "", why))
    out.table("", ("work", "", "#files", "#size", "why"), rows, empty="nothing")
    _show_runs(answer["runs"])
    _show_follow_ups(answer["follow_ups"])
    _show_ignored(answer["ignored"])


def _why(job: dict[str, Any]) -> str:
    where = f" where {job['where']}" if job.get("where") and len(job["where"]) < 200 else ""
    rest = "" if job["complete"] else "; the rest in another run"
    return f"{job['reason']}{where}{rest}"


def _show_files(answer: dict[str, Any]) -> None:
    files = answer["files"]
    enabled = next(each for each in answer["policy"] if each["name"] == "enabled")
    of = f" of {enabled['set_on']}" if enabled["set_on"] else " by default"
    pairs = [
        ("table", f"{answer['name']}   version {answer['version']}"),
        ("files", f"{files['files']} of {out.size(files['bytes'])}, {files['small_files']} are small"),
        ("enabled", f"{enabled['value']}{of}"),
    ]
    if files["deletion_vector_files"]:
        pairs.append(("deleted", f"{files['deleted_rows']} rows in {files['deletion_vector_files']} files"))
    if not files["complete"]:
        pairs.append(("looked at", "not all files: that would have taken too long for an answer"))
    if files["left_out"]:
        pairs.append(("left out", f"{files['left_out']} partitions: there are too many"))
    for label, value in pairs:
        out.say(f"[bold]{label:<10}[/bold] {escape(str(value))}")


def _show_runs(runs: dict[str, Any]) -> None:
    if runs["running_until_ms"]:
        out.say(f"run {runs['attempt']} is at work; its lease ends {out.when(runs['running_until_ms'])}")
    if runs["failures"]:
        at = f", set aside until {out.when(runs['again_ms'])}" if runs["again_ms"] > time.time() * 1000 else ""
        out.say(f"[bold red]failed[/bold red] {runs['failures']} times{at}: {escape(runs['reason'])}")
    rows = (
        (run["operation"], run["version"], out.when(run["ended_ms"]), run["files"], out.size(run["bytes"]))
        for run in runs["last"]
    )
    if runs["last"]:
        out.table("", ("last run", "#version", "ended", "#files", "#size"), rows, empty="")


def _show_follow_ups(follow_ups: list[dict[str, Any]]) -> None:
    rows = (
        (
            each["action"],
            each["commits"],
            each["version"],
            out.when(each["done_ms"]),
            f"failed {each['failures']} times, again {out.when(each['again_ms'])}: {each['reason']}"
            if each["failures"]
            else "",
        )
        for each in follow_ups
    )
    if follow_ups:
        out.table("", ("follow-up", "#commits", "#asked for up to", "at", ""), rows, empty="")


def _show_ignored(ignored: list[dict[str, Any]]) -> None:
    for each in ignored:
        text = f"{each['property']} of {each['source']} {each['set_on']}: {each['problem']}"
        out.say(f"[bold yellow]ignored[/bold yellow] {escape(text)}")


@policy.command("show")
@with_api
def show(api: Api, *, target: Target, output: Format) -> None:
    """Show the effective policies of a catalog, a namespace or a table, and the source of each
    value."""
    _show(api.get(_path(api, target)), output)


@policy.command("set")
@with_api
def set_(api: Api, *, target: Target, name: Policy, value: Value, output: Format) -> None:
    """Set a policy. Entities below inherit it, unless they have a value of their own."""
    _show(api.change("PATCH", _path(api, target), {"set": {name.removeprefix(_PREFIX): value}}), output)


@policy.command("unset")
@with_api
def unset(api: Api, *, target: Target, name: Policy, output: Format) -> None:
    """Unset a policy: the inherited value holds again."""
    _show(api.change("PATCH", _path(api, target), {"unset": [name.removeprefix(_PREFIX)]}), output)


def _path(api: Api, target: str) -> str:
    """The path of the policy of a catalog, a namespace or a table. A name of two levels or more may
    be either; a table counts first."""
    catalog, _, rest = target.partition(".")
    if not rest:
        return f"/v1/catalogs/{quote(catalog, safe='')}/maintenance-policy"
    parent, _, _ = rest.rpartition(".")
    if parent:
        name = TableName.parse(target)
        try:
            name.table_id(api)
        except CliError as error:
            if error.exit is not Exit.NOT_FOUND:
                raise
        else:
            return f"{name.path}/maintenance-policy"
    return f"{namespace_path(catalog, rest)}/maintenance-policy"


def _show(answer: dict[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(answer)
        return
    rows = ((each["name"], each["value"], each["source"], each["set_on"]) for each in answer["policy"])
    out.table(answer["name"], ("policy", "value", "from", ""), rows, empty="no policies")
    _show_ignored(answer["ignored"])
