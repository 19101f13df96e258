"""Commits a second on one catalog's HEAD, and what each costs:
``python -m benchmarks.catalog_commits``.

Every writer changes a property of a namespace of its own, again and again without a break: nothing
conflicts but the HEAD. Writers are threads of one process, in line or not, and then sandboxes, as
Lambda has them: processes where there is a URL to meet at, threads that share nothing on the fake.
After that one writer of large changes among seven others, with turns and without. All of one run,
so that ratios count where the machine is busy; every log is checked in the end.

    fake               in memory, with the latency of a service in a network, in virtual time: no matter how busy the
                       machine is (benchmarks/catalog_racing)
    dynoxide   DynamoDB's API; clients and server share this machine, so its processors set the limit
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.catalog_racing import heats
from benchmarks.catalog_racing.heats import Heat, Mode, Race
from benchmarks.catalog_racing.worlds import credentials
from benchmarks.catalog_racing.writers import Kind
from tests.support.store import servers
from tests.support.store.backends import DYNOXIDE, FAKE, MINISTACK, Backend
from turnstile.catalog.changes.retry import STARVING


class On(StrEnum):
    """Backends."""

    FAKE = FAKE
    MINISTACK = MINISTACK
    DYNOXIDE = DYNOXIDE


_WIDTH = 170  # of the tables, in characters
NEVER = 2.0  # of the deadline: nobody asks for a turn


@contextmanager
def started(on: On) -> Iterator[Backend]:
    """A backend of one's own."""
    if on is On.FAKE:
        yield Backend(FAKE)
        return
    credentials()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = servers.dynoxide(folder) if on is On.DYNOXIDE else servers.ministack(folder)
        with server as url:
            backend = Backend(on.value, url)
            backend.make_tables()
            yield backend


def races(writers: Iterable[int], seconds: float, names: int, *, apart: Mode) -> Iterator[Race]:
    """Every way to share times every number of writers, then the ones for turns."""
    kind: Kind = "update"
    modes: tuple[Mode, ...] = ("line", "no line", apart)
    for count in writers:
        for mode in modes:
            yield Race(mode, (kind,) * count, seconds=seconds, names=names)
    for starving in (STARVING, NEVER):
        yield Race(apart, ("large", *(kind,) * 7), seconds=2 * seconds, names=names, starving=starving)


def figures(heat: Heat) -> dict[str, Any]:
    """What a heat showed; sums are for each acknowledged commit."""
    counts = heat.counts
    commits = max(1, heat.commits)
    each = {
        "attempts": counts.attempts,
        "requests": sum(counts.requests.values()),
        "write_units": counts.write_units,
        "objs_written": counts.written,
        "objs_deleted": counts.deleted,
        "bytes_written": counts.bytes,
    }
    return {
        "mode": heat.race.mode,
        "writers": len(heat.race.kinds),
        "large": heat.race.kinds.count("large"),
        "turns": heat.race.starving < 1,
        "per_second": round(heat.per_second, 1),
        **{name: round(total / commits, 2) for name, total in each.items()},
        "ms_p50": round(heat.ms(0.5), 1),
        "ms_p95": round(heat.ms(0.95), 1),
        "ms_longest": round(heat.ms(1), 1),
        "large_commits": sum(
            len(report.ms) for report, kind in zip(heat.reports, heat.race.kinds, strict=True) if kind == "large"
        ),
        "large_ms_p50": round(heat.ms(0.5, "large"), 1),
        "given_up": sum(report.put_off for report in heat.reports),
        "violations": heat.violations,
    }


def ratios(rows: list[dict[str, Any]]) -> None:
    """Add to each its commits a second as a multiple of the first one's."""
    base = rows[0]["per_second"] or 1
    for row in rows:
        row["ratio"] = round(row["per_second"] / base, 2)


_COLUMNS = {
    "writers": "writers",
    "mode": "how",
    "per_second": "commits/s",
    "ratio": "ratio",
    "attempts": "attempts",
    "requests": "requests",
    "write_units": "write units",
    "objs_written": "objs",
    "objs_deleted": "tidied",
    "bytes_written": "bytes",
    "ms_p50": "p50 ms",
    "ms_p95": "p95 ms",
    "ms_longest": "longest",
    "given_up": "given up",
}
_TURNS = {
    "turns": "turns",
    "per_second": "commits/s",
    "attempts": "attempts",
    "requests": "requests",
    "large_commits": "large commits",
    "large_ms_p50": "their p50 ms",
    "ms_p95": "p95 ms of all",
    "ms_longest": "longest",
    "given_up": "given up",
}


def table(title: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> Table:
    """Figures side by side."""
    grid = Table(title=title, title_justify="left")
    for heading in columns.values():
        grid.add_column(heading, justify="left" if heading == "how" else "right")
    for row in rows:
        grid.add_row(*(_cell(row[name]) for name in columns))
    return grid


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if isinstance(value, float) and value >= 100 else str(value)


def run(
    *,
    on: Annotated[On, typer.Option(help="What the catalog is stored in.")] = On.FAKE,
    writers: Annotated[list[int] | None, typer.Option(min=1, help="How many; may be given several times.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of each heat; twice that for turns.")] = 5.0,
    names: Annotated[int, typer.Option(min=0, help="Namespaces that are in the catalog before.")] = 50,
    latency: Annotated[float, typer.Option(min=0, help="Times the assumed latency, on the fake.")] = 1.0,
    output: Annotated[str, typer.Option(help="text or json")] = "text",
) -> None:
    """Race for one catalog's HEAD and print what a commit costs."""
    console = Console(width=max(_WIDTH, Console().width))
    rows = []
    with started(on) as backend:
        apart: Mode = "processes" if backend.real else "sandboxes"
        for race in races(writers or [1, 8, 32], seconds, names, apart=apart):
            load = os.getloadavg()[0]
            rows.append(
                {
                    **figures(heats.run(backend, race, latency=0 if backend.real else latency)),
                    "load_before": round(load, 1),
                }
            )
    ratios(rows)
    violations = [violation for row in rows for violation in row["violations"]]
    if output == "json":
        typer.echo(json.dumps({"on": on.value, "seconds": seconds, "names": names, "heats": rows}, indent=2))
    else:
        alike = [row for row in rows if not row["large"]]
        mixed = [row for row in rows if row["large"]]
        console.print(table(f"{on.value}: each row is for one commit", _COLUMNS, alike))
        console.print(table("one writer of a hundred entities a commit among seven of one", _TURNS, mixed))
        loads = [row["load_before"] for row in rows]
        console.print(f"{os.cpu_count()} processors, load {min(loads)} to {max(loads)} (the benchmark's own included)")
    for violation in violations:
        console.print(f"VIOLATED: {violation}", style="red")
    raise typer.Exit(1 if violations else 0)


def main() -> None:
    """Parse the command line and run."""
    typer.run(run)


if __name__ == "__main__":
    main()
