"""How tables stand after a repair, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from turnstile_cli import output as out

_COLUMNS = ("table", "state", "finding", "#latest", "#published", "#adopted", "what")


def healthy(one: dict[str, Any]) -> bool:
    """Whether nothing is left to do for a table."""
    return "error" not in one and one["diagnosis"]["finding"] == "healthy"


def show(told: Sequence[dict[str, Any]], *, alone: bool, dry_run: bool) -> None:
    """Print what the service told of each table; of one that was named, everything."""
    if alone:
        _in_full(told[0], dry_run=dry_run)
        return
    out.table("", _COLUMNS, map(_row, told), empty="no tables")
    left = [one for one in told if not healthy(one)]
    for one in left:
        remedy = (one.get("error") or one["diagnosis"]).get("remedy") or "look at the service's log"
        out.say(f"[bold]{escape(one['name'])}[/bold]: {escape(remedy)}")
    if told and not left:
        out.say(f"{len(told)} healthy")


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    if "error" in one:
        return (one["name"], None, one["error"]["type"], None, None, None, one["error"]["message"])
    said = one["diagnosis"]
    figures = (said["latest"], one.get("published"), one.get("adopted"))
    return (one["name"], said["state"], said["finding"], *figures, said["message"])


def _in_full(one: dict[str, Any], *, dry_run: bool) -> None:
    said = one["diagnosis"]
    pairs: list[tuple[str, Any]] = [
        ("table", one["name"]),
        ("state", f"{said['state']}, published {said['floor']} of {said['latest']}"),
        ("finding", said["finding"] + ("" if said["version"] is None else f", at version {said['version']}")),
        ("what", said["message"]),
    ]
    if not dry_run:
        pairs.append(("done", f"{one['published']} published, {one['adopted']} adopted"))
    pairs += [(name.replace("_", " "), value) for name, value in said["facts"].items() if value not in (None, "")]
    if not healthy(one):
        pairs.append(("remedy", said["remedy"]))
    for label, value in pairs:
        out.say(f"[bold]{label:<18}[/bold] {escape(str(value))}")
