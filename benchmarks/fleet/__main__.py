"""Measures: see the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.fleet import cost as costs
from benchmarks.fleet import heats
from benchmarks.fleet import modelled as modelled_store
from benchmarks.fleet.driver import Settings
from benchmarks.fleet.systems import SYSTEMS, System
from tests.support.downloads import Missing
from turnstile_cost.model import prices

SIZES = [1, 2, 4, 8, 16, 64, 160]
app = typer.Typer(help="The fleet's membership and ownership beside ZooKeeper and etcd.", no_args_is_help=True)
progress = Console(stderr=True)

Only = Annotated[
    list[str], typer.Option("--only", help="a system: " + ", ".join(one.name for one in SYSTEMS) + " (again for more)")
]
Out = Annotated[Path | None, typer.Option("--out", help="a file that gets a line of JSON for each result, too")]
Granules = Annotated[int, typer.Option(help="granules of the fleet")]
BeatMs = Annotated[
    int,
    typer.Option(help="a member's beat; after five without a sign of life it is silent, and a session or lease ends"),
]
Batch = Annotated[int, typer.Option(help="granules that change hands in one transaction", min=1, max=90)]
Patience = Annotated[float, typer.Option(help="seconds after which a heat has failed")]


def _each(only: list[str], out: Path | None, measure: Callable[[System], Iterator[dict[str, Any]]]) -> None:
    """Measures the systems one after the other, and prints a table of all results."""
    unknown = set(only) - {system.name for system in SYSTEMS}
    if unknown:
        raise typer.BadParameter(f"no system: {', '.join(sorted(unknown))}", param_hint="--only")
    _measure([system for system in SYSTEMS if not only or system.name in only], out, measure)


def _measure(
    systems: Sequence[System], out: Path | None, measure: Callable[[System], Iterator[dict[str, Any]]]
) -> None:
    results = []
    for system in systems:
        progress.print(f"{system.title} ...")
        try:
            for result in measure(system):
                rounded = {
                    name: round(value, 2) if isinstance(value, float) else value for name, value in result.items()
                }
                at = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load": heats.load()}
                line = {"system": system.name, "title": system.title, **rounded, **at}
                results.append(line)
                progress.print_json(json.dumps(line), indent=None)
                if out:
                    with out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
        except Missing as missing:
            progress.print(f"[yellow]{system.title} is left out: {missing}")
        except TimeoutError as error:
            progress.print(f"[red]{system.title}: {error}")
    _print(results)


def _print(results: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for result in results for name in result if name not in ("system", "at")))
    table = Table()
    for name in names:
        table.add_column(name.replace("_", " "))
    for result in results:
        table.add_row(
            *(
                ""
                if result.get(name) is None
                else f"{result[name]:,}"
                if isinstance(result[name], int | float)
                else str(result[name])
                for name in names
            )
        )
    Console(width=240).print(table)


@app.command("scale-out")
def scale_out(  # noqa: PLR0917 - each is an option
    granules: Granules = 100_000,
    members: Annotated[int, typer.Option(help="members at the end: a power of two")] = 16,
    batch: Batch = 90,
    in_flight: Annotated[
        int, typer.Option(help="transactions that a member of ZooKeeper's and etcd's fleet has under way")
    ] = 1,
    beat_ms: BeatMs = 1_000,
    alone_beats: Annotated[
        int, typer.Option(help="how much more slowly a member of Turnstile's beats that is alone")
    ] = 15,
    patience_s: Patience = 600,
    only: Only = [],  # noqa: B006
    out: Out = None,
) -> None:
    """1 to 2, 2 to 4, ... members: how fast granules change hands, and when each member has its
    part."""
    settings = Settings(granules, beat_ms, batch, in_flight, alone_beats)
    _each(only, out, lambda system: heats.scale_out(system, settings, members, patience_s))


@app.command()
def failover(  # noqa: PLR0917 - each is an option
    granules: Granules = 10_000,
    members: Annotated[int, typer.Option(help="members, of which one is killed and one frozen", min=4)] = 4,
    beat_ms: BeatMs = 1_000,
    patience_s: Patience = 300,
    only: Only = [],  # noqa: B006
    out: Out = None,
) -> None:
    """A member is killed, then another one frozen: how long its granules have no owner."""
    settings = Settings(granules, beat_ms)
    _each(only, out, lambda system: heats.failover(system, settings, members, patience_s))


@app.command()
def crowd(  # noqa: PLR0917 - each is an option
    members: Annotated[int, typer.Option(help="members, as threads of some processes")] = 160,
    processes: Annotated[int, typer.Option(help="processes")] = 8,
    granules: Granules = 64,
    beat_ms: BeatMs = 1_000,
    steady_s: Annotated[float, typer.Option(help="seconds in which nobody comes or goes")] = 20,
    churn_s: Annotated[
        float, typer.Option(help="how often each member leaves and joins again, for twice as long; 0: never")
    ] = 15,
    patience_s: Patience = 300,
    only: Only = [],  # noqa: B006
    out: Out = None,
) -> None:
    """Many members on one system table: what a beat takes, and when all know of a new one."""
    settings = Settings(granules, beat_ms)
    _each(only, out, lambda system: heats.crowd(system, settings, members, processes, steady_s, churn_s, patience_s))


@app.command()
def modelled(
    granules: Granules = 20_000,
    members: Annotated[int, typer.Option(help="members at the end: a power of two")] = 16,
    beat_ms: BeatMs = 1_000,
    alone_beats: Annotated[int, typer.Option(help="how much more slowly a member beats that is alone")] = 15,
    out: Out = None,
) -> None:
    """Scale-out on a store that answers as DynamoDB does, in virtual time."""
    system = System("modelled", "Turnstile, DynamoDB modelled", SYSTEMS[1].open)
    _measure([system], out, lambda _: modelled_store.scale_out(granules, members, beat_ms, alone_beats))


@app.command()
def cost(
    members: Annotated[
        list[int] | None, typer.Option(help="a size of the fleet (again for more; else seven sizes)")
    ] = None,
    out: Out = None,
) -> None:
    """Requests, capacity units and dollars on DynamoDB, beside three small servers. Counted, not
    measured."""
    system = System("dynamodb", f"DynamoDB, prices of {prices().as_of}", SYSTEMS[1].open)
    _measure([system], out, lambda _: costs.results(members or SIZES))


if __name__ == "__main__":
    app()
