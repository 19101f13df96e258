"""The summary at the end: as data for programs, as tables for people."""

from __future__ import annotations

from typing import Any

from turnstile_cli.demo.meter import quantile
from turnstile_cli.demo.stage import SCHEMA, Stage


def summary(stage: Stage) -> dict[str, Any]:
    """What happened: ``ok``, ``problems``, ``tables``, ``seconds`` by scene, ``commit_ms``, ``notes``."""
    ms = [attempt.ms for attempt in stage.attempts]
    return {
        "ok": not stage.problems,
        "problems": stage.problems,
        "tables": [_table(stage, name) for name in stage.ledgers],
        "seconds": {title: round(seconds, 1) for title, seconds in stage.seconds.items()},
        "proposals": len(ms),
        "commit_ms": {"p50": round(quantile(ms, 0.5), 1), "p95": round(quantile(ms, 0.95), 1)},
        "notes": stage.notes,
    }


def _table(stage: Stage, name: str) -> dict[str, Any]:
    found = stage.ledgers[name]
    table_id = stage.lake.table(f"{SCHEMA}.{name}").id
    mine = [attempt for attempt in stage.attempts if attempt.table_id == table_id]
    return {
        "table": f"{SCHEMA}.{name}",
        "rows": stage.rows[name],
        "versions": found.latest + 1,
        "inline": sum(attempt.won and attempt.kind == "inline" for attempt in mine),
        "staged": sum(attempt.won and attempt.kind == "staged" for attempt in mine),
        "conflicts": sum(not attempt.won for attempt in mine),
        "bytes_equal": found.equal,
        "lag_ms": {"p50": round(quantile(found.lags, 0.5)), "max": round(max(found.lags, default=0))},
    }


def show(console: Any, told: dict[str, Any]) -> None:
    """Print a summary."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    tables = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    tables.add_column("table", no_wrap=True)
    for title in ("rows", "versions", "inline", "staged", "lost", "equal", "lag ms"):
        tables.add_column(title, justify="right", no_wrap=True)
    for row in told["tables"]:
        commits, lag = row["versions"] - 1, row["lag_ms"]
        tables.add_row(
            row["table"],
            f"{row['rows']:,}",
            *(str(row[column]) for column in ("versions", "inline", "staged", "conflicts")),
            f"{row['bytes_equal']}/{commits}" if commits else "-",
            f"{lag['p50']}..{lag['max']}" if commits else "-",
        )
    times = Table(box=SIMPLE_HEAD)
    times.add_column("scene")
    times.add_column("seconds", justify="right")
    for title, seconds in told["seconds"].items():
        times.add_row(title, f"{seconds:.1f}")
    times.add_row("[bold]all[/bold]", f"[bold]{sum(told['seconds'].values()):.1f}[/bold]")
    console.print()
    console.print(tables)
    console.print(" lost: proposals whose version another commit became; equal: published versions whose bytes are the")
    console.print(" ratified ones; lag ms: from a commit's own timestamp to its file in _delta_log, median..longest")
    console.print(times)
    for note in told["notes"]:
        console.print(f" * {note}", highlight=False, soft_wrap=True)
    ms = told["commit_ms"]
    console.print(
        f" * {told['proposals']} proposals, answered in {ms['p50']} ms (median), {ms['p95']} ms (95 %)\n",
        soft_wrap=True,
    )
    for problem in told["problems"]:
        console.print(f"[red]{problem}[/red]", highlight=False)
    if told["ok"]:
        console.print("[bold green]All checks passed: rows and sums, versions, and every published byte.[/]")
    else:
        console.print(f"[bold red]{len(told['problems'])} checks failed.[/]")
