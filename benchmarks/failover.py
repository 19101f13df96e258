"""How long ratified versions wait for their publication while servers of a fleet fail:
``python -m benchmarks.failover``.

Real servers share a store (SQLite, or dynoxide with its stream). Clients commit to several Delta
tables by way of all of them, and change the catalog. In turn a server, or its background process,
is killed, frozen or restarted; it stays away for longer than the others wait before they take over,
and comes back.

A version's lag is the time from its ratification to its name in ``_delta_log``, as seen from
outside (``tests.histories.lags``). It counts for the failure that it waited in, if there was any.
``victim's`` are the tables whose owner failed: the versions of others are not concerned. Everything
that the test of the same campaign checks is checked here, too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tests.histories.kill_fleet import FAILURES, Phase, Report, Work, campaign
from tests.support.store.backends import DYNOXIDE
from tests.support.store.dynoxide import VERSION
from tests.support.store.fleets import Fleet
from tests.support.store.servers import Servers

PLAYED = ("kill server", "freeze server", "kill background", "freeze background", "restart server")
CALM = "calm"
THROUGH = "through failovers"
STORES = ("sqlite", DYNOXIDE)
QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def summary(values: Sequence[float]) -> dict[str, int]:
    """How many lags there are, and quantiles of them in ms."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "versions": len(ordered),
        **{name: round(ordered[min(last,
                                   int(len(ordered) * part))]) if ordered else 0 for name, part in QUANTILES.items()},
    }  # fmt: skip


def by_phase(reports: Sequence[Report]) -> dict[str, dict[str, Any]]:
    """Lags by the name of the phase that a version waited in: the first one that is not calm, if
    there is any."""
    seconds, every, victims = (defaultdict[str, list[float]](list) for _ in range(3))
    for report in reports:
        for phase in report.phases:
            for name in names_of(phase):
                seconds[name].append((phase.ended_ms - phase.began_ms) / 1000)
        for lag in report.lags:
            met = [
                phase
                for phase in report.phases
                if phase.began_ms <= lag.published_ms and lag.ratified_ms < phase.ended_ms
            ]
            for phase in sorted(met, key=lambda phase: (phase.name == CALM, phase.began_ms))[:1]:
                for name in names_of(phase):
                    every[name].append(lag.ms)
                    if lag.table in phase.tables:
                        victims[name].append(lag.ms)
    return {
        name: {
            "phases": len(seconds[name]), "seconds": round(sum(seconds[name]), 1), "all": summary(every[name]),
            "victims": summary(victims[name]),
        }
        for name in sorted(seconds, key=lambda name: (name == THROUGH, name.removeprefix("back after "), name))
    }  # fmt: skip


def names_of(phase: Phase) -> list[str]:
    return [phase.name] if phase.name == CALM else [phase.name, THROUGH]


@contextmanager
def fleet(store: str, servers: int, beat_ms: int) -> Iterator[Fleet]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = folder / "store"
        place.mkdir()
        endpoint = "" if store == "sqlite" else Servers(stack, place).get(DYNOXIDE).url or ""
        yield stack.enter_context(Fleet(folder, servers, endpoint=endpoint, beat_ms=beat_ms))


def main(  # noqa: PLR0917 - options
    store: Annotated[str, typer.Option(help="sqlite, or dynoxide.")] = "sqlite",
    rounds: Annotated[int, typer.Option(min=1, help="How often each failure is played.")] = 3,
    servers: Annotated[int, typer.Option(min=2)] = 3,
    beat_ms: Annotated[
        int, typer.Option(min=100, help="How often a server shows life; a server's default is 1000.")
    ] = 1000,
    away_s: Annotated[float, typer.Option(min=0.5, help="How long a victim is away.")] = 8.0,
    tables: Annotated[int, typer.Option(min=1)] = 9,
    clients: Annotated[int, typer.Option(min=1)] = 6,
    rest_s: Annotated[float, typer.Option(min=0, help="A client's pause between two requests.")] = 0.1,
    failure: Annotated[
        list[str] | None, typer.Option(help=f"Any of: {', '.join(FAILURES)}; may be given several times.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Where the figures go as JSON, too.")] = None,
) -> None:
    """Measure the lag of publishing while servers of a fleet are killed, frozen and restarted."""
    if store not in STORES or not set(failure or ()) <= set(FAILURES):
        raise typer.BadParameter(f"stores are {', '.join(STORES)}; failures are {', '.join(FAILURES)}")
    work = Work(tables=tables, clients=clients, changers=1, rest_s=rest_s, away_s=away_s, calm_s=3.0)
    began = os.getloadavg()[0]
    console = Console(width=150)
    with fleet(store, servers, beat_ms) as started:
        reports = [campaign(started, failure or PLAYED, work) for _ in range(rounds)]
    problems = [problem for report in reports for problem in report.problems]
    phases = by_phase(reports)
    table = Table(
        "phase",
        "times",
        "seconds",
        "versions",
        "p50 ms",
        "p99 ms",
        "max ms",
        "victim's",
        "p50 ms",
        "p99 ms",
        "max ms",
        title=f"{servers} servers, {store}",
    )
    for name, phase in phases.items():
        table.add_row(
            name,
            str(phase["phases"]),
            str(phase["seconds"]),
            *(str(value) for part in ("all", "victims") for value in phase[part].values()),
        )
    console.print(table)
    longest = max(report.longest_look_s for report in reports)
    load = f"{os.cpu_count()} processors, load {began:.1f} to {os.getloadavg()[0]:.1f} (the benchmark's own included)"
    console.print(
        f"beat {beat_ms} ms; looks at most {longest * 1000:.0f} ms apart, by which lags may be too long; {load}"
    )
    console.print(*map(str, reports), *problems, sep="\n")
    if output is not None:
        settings = {
            "store": store,
            "release": VERSION if store != "sqlite" else "",
            "servers": servers,
            "beat_ms": beat_ms,
            "away_s": away_s,
            "clients": clients,
        }
        output.write_text(
            json.dumps(
                {
                    "settings": settings,
                    "load": load,
                    "longest_look_ms": round(longest * 1000),
                    "phases": phases,
                    "problems": problems,
                },
                indent=2,
            )
        )
    sys.exit(bool(problems))


if __name__ == "__main__":
    typer.run(main)
