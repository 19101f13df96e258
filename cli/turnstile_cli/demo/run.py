"""The demo from start to end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from turnstile_cli.demo import data, report, scenes
from turnstile_cli.demo.meter import watch
from turnstile_cli.demo.session import start
from turnstile_cli.demo.stage import Stage


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
        The summary of ``report.summary``; ``ok`` is False when a check failed.
    """
    from rich.console import Console

    import turnstile_spark

    console = Console(quiet=quiet)
    folder = Path(home).absolute() / "demo"
    began = time.perf_counter()
    console.print("[bold]A Spark session with unmodified Delta, attached to the stack[/bold]")
    frames = data.load()
    spark = start(folder, "session", cores=2, memory="2g")
    try:
        with turnstile_spark.attach(spark, name="lake", uri=url, token=token) as lake:
            stage = Stage(spark, lake, console, url, token, folder, frames, writers, batches, watch(lake))
            stage.seconds["session"] = time.perf_counter() - began
            console.print(f"   [green]done[/green] in {stage.seconds['session']:.1f} s")
            play(stage)
            told = report.summary(stage)
            report.show(console, told)
            return told
    finally:
        spark.stop()


def play(stage: Stage) -> None:
    """All scenes."""
    with stage.scene("Four small tables"):
        scenes.load_small_tables(stage)
    with stage.scene("336,776 flights, month by month"):
        scenes.load_flights(stage)
    loaded, before = stage.latest("flights"), stage.frames["flights"]
    with stage.scene(f"{stage.writers} processes write to one table at once"):
        scenes.race(stage)
    with stage.scene("MERGE, UPDATE, ALTER, DELETE"):
        scenes.change_flights(stage)
    with stage.scene("Time travel"):
        scenes.travel(stage, loaded, before)
    with stage.scene("Checks"):
        scenes.verify(stage)
