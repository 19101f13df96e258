"""The demo from start to end, and the summary at its end: as data for programs, as tables for
people."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from turnstile_cli.demo import data, scenes
from turnstile_cli.demo.scenes import SCHEMA, Stage
from turnstile_cli.demo.writers import quantile, start_session, watch


def run(
    url: str, token: str | None, home: str | Path, quiet: bool = False, *, writers: int = 4, batches: int = 10
) -> dict[str, Any]:
    """Play the demo against a running stack.

    Args:
        url: base URL of the stack.
        token: its bearer token, if it has one.
        home: data folder of the stack; the demo keeps its files in ``demo`` below it.
        quiet: print nothing; the summary is for a program.
        writers: processes that write to one table at once.
        batches: appends of each.

    Returns:
        The summary of ``summary``; ``ok`` is False when a check failed.
    """
    from rich.console import Console

    import turnstile_spark

    console = Console(quiet=quiet)
    folder = Path(home).absolute() / "demo"
    began = time.perf_counter()
    console.print("[bold]A Spark session with unmodified Delta, attached to the stack[/bold]")
    frames = data.load()
    spark = start_session(folder, "session", cores=2, memory="2g")
    try:
        with turnstile_spark.attach(spark, name="lake", uri=url, token=token) as lake:
            stage = Stage(spark, lake, console, url, token, folder, frames, writers, batches, watch(lake))
            stage.seconds["session"] = time.perf_counter() - began
            console.print(f"   [green]done[/green] in {stage.seconds['session']:.1f} s")
            play(stage)
            result = summary(stage)
            show(console, result)
            return result
    finally:
        spark.stop()


def play(stage: Stage) -> None:
    """All scenes."""
    with stage.scene("Four small tables"):
        scenes.load_small_tables(stage)
    with stage.scene("336,776 flights, month by month"):
        scenes.load_flights(stage)
    loaded = stage.latest("flights")
    before = stage.frames["flights"]
    with stage.scene(f"{stage.writers} processes write to one table at once"):
        scenes.race(stage)
    with stage.scene("MERGE, UPDATE, ALTER, DELETE"):
        scenes.change_flights(stage)
    with stage.scene("Time travel"):
        scenes.travel(stage, loaded, before)
    with stage.scene("Checks"):
        scenes.verify(stage)


def summary(stage: Stage) -> dict[str, Any]:
    """The result: ``ok``, ``problems``, ``tables``, ``seconds`` by scene, ``commit_ms``,
    ``notes``."""
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
    ledger = stage.ledgers[name]
    table_id = stage.lake.table(f"{SCHEMA}.{name}").id
    attempts = [attempt for attempt in stage.attempts if attempt.table_id == table_id]
    return {
        "table": f"{SCHEMA}.{name}",
        "rows": stage.rows[name],
        "versions": ledger.latest + 1,
        "inline": sum(attempt.won and attempt.kind == "inline" for attempt in attempts),
        "staged": sum(attempt.won and attempt.kind == "staged" for attempt in attempts),
        "conflicts": sum(not attempt.won for attempt in attempts),
        "bytes_equal": ledger.equal,
        "lag_ms": {"p50": round(quantile(ledger.lags, 0.5)), "max": round(max(ledger.lags, default=0))},
    }


def show(console: Any, result: dict[str, Any]) -> None:
    """Print a summary."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    tables = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    tables.add_column("table", no_wrap=True)
    for title in ("rows", "versions", "inline", "staged", "lost", "equal", "lag ms"):
        tables.add_column(title, justify="right", no_wrap=True)
    for row in result["tables"]:
        commits = row["versions"] - 1
        lag = row["lag_ms"]
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
    for title, seconds in result["seconds"].items():
        times.add_row(title, f"{seconds:.1f}")
    times.add_row("[bold]all[/bold]", f"[bold]{sum(result['seconds'].values()):.1f}[/bold]")
    console.print()
    console.print(tables)
    console.print(" lost: proposals whose version another commit became; equal: published versions whose bytes are the")
    console.print(" ratified ones; lag ms: from a commit's own timestamp to its file in _delta_log, median..longest")
    console.print(times)
    for note in result["notes"]:
        console.print(f" * {note}", highlight=False, soft_wrap=True)
    ms = result["commit_ms"]
    console.print(
        f" * {result['proposals']} proposals, answered in {ms['p50']} ms (median), {ms['p95']} ms (95 %)\n",
        soft_wrap=True,
    )
    for problem in result["problems"]:
        console.print(f"[red]{problem}[/red]", highlight=False)
    if result["ok"]:
        console.print("[bold green]All checks passed: rows and sums, versions, and every published byte.[/]")
    else:
        console.print(f"[bold red]{len(result['problems'])} checks failed.[/]")
