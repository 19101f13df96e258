"""The fleet by its rows: servers and workers that share their work, the granules of each, and their
changes of owner."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.commands.events import After, Follow, read_log
from turnstile_cli.connection import with_api
from turnstile_cli.errors import usage
from turnstile_cli.output import Format
from turnstile_cli.screens import Count, Every, grid, repeat

QUIET_BEATS = 2
"""Signs of life that did not come between two readings until a member is said to be silent."""

_COLUMNS = ("member", "state", "works for", "load a minute", "#migrations", "joined", "last sign of life")

Events = Annotated[bool, typer.Option("--events", help="Show the events of members and granules instead.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Redraw every few seconds, and mark silent members.")]


@with_api
def fleet(
    api: Api,
    *,
    events: Events = False,
    after: After = None,
    follow: Follow = False,
    watch: Watch = False,
    every: Every = 2.0,
    count: Count = None,
    output: Format,
) -> None:
    """Show the servers and workers that share their work (serve --fleet, work), and which granules
    of it each of them owns.

    One reading cannot show whether a member is alive: --watch compares two. With --events each line
    is an event, as JSON a CloudEvent; the last one, without --follow, is {"cursor": ...} to go on
    from.
    """
    if events and watch:
        raise usage("--events and --watch are two different things", "leave one of them out")
    if not events and (follow or after is not None):
        raise usage("--follow and --after are for --events", "add --events, or use --watch")
    if events:
        read_log(api, "/v1/fleet/events", {"limit": 1000}, line, after=after, follow=follow, output=output)
    elif watch:
        repeat(
            lambda: (time.monotonic(), api.get("/v1/fleet")),
            with_silent_members,
            render,
            every=every,
            count=count,
            output=output,
        )
    else:
        _show(api.get("/v1/fleet"), output)


def with_silent_members(
    before: tuple[float, Mapping[str, Any]], after: tuple[float, Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the second of two reports with the ids of members that gave no sign of life between
    them though they should have."""
    ms = (after[0] - before[0]) * 1000
    lives = {member["id"]: member["life"] for member in before[1]["members"]}
    silent = [
        member["id"]
        for member in after[1]["members"]
        if lives.get(member["id"]) == member["life"] and ms >= QUIET_BEATS * member["beat_ms"]
    ]
    return {**after[1], "silent": silent}


def line(event: Mapping[str, Any]) -> str:
    """Returns an event as a line for people."""
    data = event["data"]
    at = str(event.get("time", "")).replace("T", " ")
    kind = event["type"].rpartition(".")[2]
    text = f"{at:<24}  {kind:<11}  {data['name'] or event['subject']}"
    if "role" in data:
        first, last = data["epochs"]
        epochs = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        text += f"  {data['count']} of {data['role']}, {epochs}"
    if "from" in data:
        text += f", from {data['from_name'] or data['from']}"
    return text


def _show(report: Mapping[str, Any], output: Format) -> None:
    if output is Format.JSON:
        out.emit_json(report)
        return
    rows = [_cells(member, report) for member in report["members"]]
    out.table("", _COLUMNS, rows, empty="no server shares its work: start them with serve --fleet")
    for sentence in _sentences(report):
        out.say(sentence)


def render(report: Mapping[str, Any]) -> RenderableType:
    """Returns the screen for people."""
    rows = grid(_COLUMNS, report["members"], lambda member: _cells(member, report))
    return Group(time.strftime("%H:%M:%S"), *rows, "", *_sentences(report))


def _cells(member: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[Any, ...]:
    owned = member["granules"]
    roles = report["roles"]
    return (
        member["name"],
        "silent" if member["id"] in report.get("silent", ()) else member["state"],
        ", ".join(f"{role} {owned[role]}/{roles.get(role, 0)}" for role in sorted(owned)),
        ", ".join(f"{role} {load}" for role, load in sorted(member["loads"].items())),
        member["migrations"],
        out.when(member["joined_at"]),
        out.when(member["shown_at"]),
    )


def _sentences(report: Mapping[str, Any]) -> list[str]:
    """The totals of all members, and the damaged rows."""
    damaged = [f"[bold red]{escape(row['message'])}[/bold red]" for row in report.get("unreadable", ())]
    if not report["members"]:
        return damaged
    unowned = sum(not granule["owner"] for granule in report["granules"])
    every = [f"granules have changed hands {report['migrations']} times; {unowned} have no owner"]
    return damaged + every + [f"[bold red]no member works for {role}[/bold red]" for role in report["without_members"]]
