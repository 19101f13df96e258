"""The summary at the end."""

from __future__ import annotations

from typing import Any

from turnstile_cli.demo.meter import quantile
from turnstile_cli.demo.stage import SCHEMA, Stage


def show(stage: Stage) -> None:
    """Print what happened to each table, how long everything took, and the verdict."""
    stage.console.print()
    stage.console.print(_tables(stage))
    stage.console.print(_times(stage))
    for note in stage.notes:
        stage.console.print(f" * {note}")
    commits = [attempt.ms for attempt in stage.attempts]
    stage.console.print(
        f" * {len(commits)} proposals answered in {quantile(commits, 0.5):.0f} ms (median),"
        f" {quantile(commits, 0.95):.0f} ms (95 %)"
    )
    stage.console.print()
    for problem in stage.problems:
        stage.console.print(f"[red]{problem}[/red]")
    if stage.problems:
        stage.console.print(f"[bold red]{len(stage.problems)} checks failed[/bold red]")
    else:
        stage.console.print("[bold green]All checks passed: rows and sums, versions, and every published byte[/]")


def _tables(stage: Stage) -> Any:
    from rich.table import Table

    table = Table(title=f"lake.{SCHEMA}")
    table.add_column("table")
    for title in ("rows", "versions", "inline", "staged", "conflicts", "bytes equal", "lag ms p50", "lag ms max"):
        table.add_column(title, justify="right")
    for name, found in stage.ledgers.items():
        table_id = stage.lake.table(f"{SCHEMA}.{name}").id
        mine = [attempt for attempt in stage.attempts if attempt.table_id == table_id]
        table.add_row(
            name,
            f"{stage.rows[name]:,}",
            str(found.latest + 1),
            str(sum(attempt.won and attempt.kind == "inline" for attempt in mine)),
            str(sum(attempt.won and attempt.kind == "staged" for attempt in mine)),
            str(sum(not attempt.won for attempt in mine)),
            f"{found.equal} of {found.latest}",
            f"{quantile(found.lags, 0.5):.0f}",
            f"{max(found.lags, default=0):.0f}",
        )
    return table


def _times(stage: Stage) -> Any:
    from rich.table import Table

    table = Table(title="times")
    table.add_column("scene")
    table.add_column("seconds", justify="right")
    for title, seconds in stage.seconds.items():
        table.add_row(title, f"{seconds:.1f}")
    table.add_row("[bold]all[/bold]", f"[bold]{sum(stage.seconds.values()):.1f}[/bold]")
    return table
