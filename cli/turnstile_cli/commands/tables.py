"""Commands that look at tables: tables, head, log."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.connection import with_api
from turnstile_cli.errors import CliError, Exit
from turnstile_cli.names import CATALOG, Table, TableName
from turnstile_cli.output import Format

_FIRST_LINE_BYTES = 65_536
"""How much of a commit is read: commitInfo is its first line."""

Prefix = Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only tables with this prefix in their name.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest so many versions.")]


@with_api
def tables(api: Api, *, prefix: Prefix = "", output: Format) -> None:
    """List the tables with their latest and their published version."""
    heads = [head for head in api.heads() if _matches(head["name"] or "", prefix)]
    if prefix and not heads:
        raise CliError(
            Exit.NOT_FOUND,
            f"NoSuchTable: no table has a name that starts with '{prefix}'",
            remedy="names are catalog.namespace.table; 'turnstile tables' lists all",
            type="NoSuchTable",
        )
    heads.sort(key=lambda head: str(head["name"]))
    damaged = api.unreadable_heads()
    if output is Format.JSON:
        out.emit_json({"tables": heads, **({"unreadable": damaged} if damaged else {})})
        return
    rows = ((h["name"], h["state"], h["latest"], h["floor"], h["location"]) for h in heads)
    out.table("", ("table", "state", "#latest", "#published", "location"), rows, empty="no tables")
    out.say_unreadable(damaged)


def _matches(name: str, prefix: str) -> bool:
    """Whether a full name starts with ``prefix``, which may leave out the catalog 'main'."""
    return name.startswith((prefix, f"{CATALOG}.{prefix}"))


@with_api
def head(api: Api, *, table: Table, output: Format) -> None:
    """Show a table's HEAD: its latest version, its published version, and its unpublished
    commits."""
    name = TableName.parse(table)
    loaded = name.load(api)
    response = {"name": str(name), **api.get(f"/v1/tables/{loaded['table_id']}/head")}
    if output is Format.JSON:
        out.emit_json(response)
        return
    tail = response["tail"]
    inline = sum(1 for commit in tail if commit["kind"] == "inline")
    pairs: list[tuple[str, Any]] = [
        ("table", response["name"]),
        ("id", response["table_id"]),
        ("state", response["state"]),
        ("latest", f"{response['latest']}   {out.when(response.get('timestamp'))}"),
        ("published", f"{response['floor']}   ({response['latest'] - response['floor']} to go)"),
        ("tail", f"{len(tail)} commits, {inline} inline, {out.size(response.get('bytes') or 0)} in the row"),
        ("row ids", response.get("row_id_high_water_mark")),
        ("etag", response["etag"]),
        ("location", response["location"]),
    ]
    for label, value in pairs:
        if value is not None:
            out.say(f"[bold]{label:<10}[/bold] {escape(str(value))}")


@with_api
def log(api: Api, *, table: Table, limit: Limit = 20, output: Format) -> None:
    """Show a table's commits, newest first: version, time, operation, kind, and whether it is
    published.

    Versions that the HEAD no longer carries are read from _delta_log if it can be reached from
    here.
    """
    name = TableName.parse(table)
    loaded = name.load(api)
    head = api.get(f"/v1/tables/{loaded['table_id']}/head")
    commits = _newest(head, limit, api.home)
    if output is Format.JSON:
        out.emit_json({"name": str(name), "latest": head["latest"], "floor": head["floor"], "commits": commits})
        return
    now = time.time() * 1000
    rows = (
        (
            commit["version"],
            out.when(commit["timestamp"]),
            commit["operation"],
            commit["principal"] or "-",
            commit["kind"] or "-",
            "published" if commit["published"] else f"waits {out.span(now - (commit['timestamp'] or now))}",
        )
        for commit in commits
    )
    out.table(
        str(name), ("#version", "when", "operation", "principal", "kind", "publication"), rows, empty="no commits"
    )
    if commits and commits[-1]["version"] > 0 and len(commits) < limit:
        out.say(f"[dim]older versions: {escape(head['location'])}/_delta_log[/dim]")


def _newest(head: dict[str, Any], limit: int, home: Path | None) -> list[dict[str, Any]]:
    """The newest ``limit`` commits of a HEAD, newest first, without content; ``home`` is that of a
    local stack.

    Each has version, timestamp, operation, principal (None for the operator, or if it comes from
    ``_delta_log``), kind (None if it comes from ``_delta_log``), published.
    """
    carried = {commit["version"]: commit for commit in head["tail"]}
    commits: list[dict[str, Any]] = []
    for version in range(head["latest"], max(-1, head["latest"] - limit), -1):
        commit = carried.get(version)
        if commit is None:
            commit = _published_info(head["location"], version, home)
            if commit is None:
                break
        commits.append(
            {
                "version": version,
                "timestamp": commit.get("timestamp"),
                "operation": commit.get("operation"),
                "principal": commit.get("principal"),
                "kind": commit.get("kind"),
                "txn_id": commit.get("txn_id"),
                "size": commit.get("size"),
                "published": bool(commit.get("published")) or version <= head["floor"],
            }
        )
    return commits


def _published_info(location: str, version: int, home: Path | None) -> dict[str, Any] | None:
    """commitInfo of a published version, None if it cannot be read from this machine."""
    name = f"{version:020d}.json"
    parts = urlsplit(location)
    if parts.scheme == "file":
        try:
            with (Path(unquote(parts.path)) / "_delta_log" / name).open("rb") as commit:
                return _commit_info(commit.readline(_FIRST_LINE_BYTES))
        except OSError:
            return None
    if parts.scheme in ("s3", "s3a") and home is not None:
        from turnstile_local.stack import first_bytes

        content = first_bytes(
            home, parts.netloc, f"{unquote(parts.path).strip('/')}/_delta_log/{name}", _FIRST_LINE_BYTES
        )
        return _commit_info(content.split(b"\n", 1)[0]) if content is not None else None
    return None


def _commit_info(line: bytes) -> dict[str, Any]:
    try:
        action = json.loads(line)
    except ValueError:
        return {}
    info = action.get("commitInfo") if isinstance(action, dict) else None
    if not isinstance(info, dict):
        return {}
    return {
        "timestamp": info.get("inCommitTimestamp") or info.get("timestamp"),
        "operation": info.get("operation"),
        "txn_id": info.get("txnId"),
    }
