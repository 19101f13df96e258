"""What one commit takes of a server, beside the bare floor of the same machine:
``python -m benchmarks.hot_path``.

    floor             the same HTTP server (granian, WSGI), one synced insert into SQLite a request
    1 on 1            one client, commits one after the other
    8 on 8            eight clients, each with a table of its own
    8 on 1            eight clients that name versions of one table, and rebase after a conflict
    groups            one request over 1, 10, 100 and 1,000 tables, one after the other

Servers take turns within each round, so all of them see the same machine: the checkout that this
runs in, and those of ``--checkout NAME=FOLDER``, each by its own ``.venv``. A figure is the median
of the rounds. CPU is from ``/proc``, of the processes that answer, of the one that publishes, and
of the one for light work. The clients are on the same cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import cpu_s
from benchmarks.racing.table import append, create
from benchmarks.server_commits import Connection, bare, bare_server, heat
from benchmarks.transactions import Writer

GROUPS = (1, 10, 100, 1_000)
GROUP_ROUNDS = {1: 40, 10: 40, 100: 10, 1_000: 2}
"""Requests of each size in a round."""

DRAIN_S = 60.0


class Processes(NamedTuple):
    """The processes of one server by their work."""

    answering: tuple[int, ...]
    publishing: tuple[int, ...] = ()
    light: tuple[int, ...] = ()


class Target(NamedTuple):
    """A server under measurement; ``url`` is empty for the floor."""

    name: str
    port: int
    url: str
    processes: Processes


@contextmanager
def checkout(name: str, folder: str, home: str) -> Iterator[Target]:
    """A server of the code in ``folder``."""
    command = [f"{folder}/.venv/bin/turnstile", "serve", "--home", home, "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        state = _started(Path(home) / "server.json")
        main, *others = state["pids"]
        answering = others[:-2]
        processes = Processes((main, *answering), (others[-2],), (others[-1],))
        yield Target(name, state["port"], state["url"], processes)
    finally:
        process.terminate()
        process.wait()


def _started(path: Path) -> dict[str, Any]:
    """The state of a server once all of its processes are named in it."""
    deadline_s = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError, ValueError):
            state: dict[str, Any] = json.loads(path.read_bytes())
            if len(state["pids"]) >= 4:
                return state
        time.sleep(0.05)
    raise RuntimeError(f"no server has started: {path}")


class Figures:
    """Figures of all rounds by server and name."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], list[float]] = {}

    def add(self, server: str, name: str, value: float) -> None:
        self.values.setdefault((server, name), []).append(value)

    def median(self, server: str, name: str) -> float:
        return statistics.median(self.values[server, name])


def named(port: int, table_id: str, count: int) -> tuple[list[float], Counter[str]]:
    """Commits that name their version, with timestamps that increase; a conflict says the latest
    version."""
    connection = Connection(port)
    ms: list[float] = []
    refused: Counter[str] = Counter()
    version = 1
    ict = 0
    while len(ms) < count:
        ict = max(ict + 1, int(time.time() * 1000))
        content = append(uuid.uuid4().hex, ict, version - 1, row_tracking=False)
        body = json.dumps({"version": version, "base": version - 1, "inline": {"content": content}}).encode()
        began_s = time.perf_counter()
        status, answer = connection.post(f"/v1/tables/{table_id}/commits", body)
        if status == 200:
            ms.append((time.perf_counter() - began_s) * 1000)
            version += 1
            continue
        error = json.loads(answer)["error"]
        refused[error["type"]] += 1
        version = error["latest"] + 1
        ict = max(ict, error.get("last", 0))
        if error["type"] == "BacklogFull":
            time.sleep(error["retry_after_ms"] / 1000)
    return ms, refused


def commits(target: Target, tables: int, clients: int, count: int, figures: Figures) -> None:
    """One heat of single commits; CPU of publishing until everything is published."""
    title = f"{clients} on {tables}"
    new = [create(target.url, "", f"t{uuid.uuid4().hex[:10]}") for _ in range(tables)]
    ids = [table.table_id for table in new] * (clients // tables)
    before = [cpu_s(pids) for pids in target.processes]
    result = heat(f"{target.name}: {title}", named, target.port, ids, count // clients, pids=target.processes.answering)
    answered = cpu_s(target.processes.answering)
    _drain(target.port, ids)
    after = [answered, cpu_s(target.processes.publishing), cpu_s(target.processes.light)]
    done = count // clients * clients
    figures.add(target.name, f"{title}: p50", result["p50_ms"])
    figures.add(target.name, f"{title}: p99", result["p99_ms"])
    figures.add(target.name, f"{title}: a second", result["per_s"])
    for what, first, last in zip(("answering", "publishing", "light work"), before, after, strict=True):
        figures.add(target.name, f"{title}: CPU of {what}", (last - first) * 1000 / done)


def _drain(port: int, table_ids: list[str]) -> None:
    """Waits until every commit is published."""
    connection = Connection(port)
    deadline_s = time.monotonic() + DRAIN_S
    for table_id in dict.fromkeys(table_ids):
        while time.monotonic() < deadline_s:
            status, answer = connection.request("GET", f"/v1/tables/{table_id}/head")
            head = json.loads(answer)
            if status == 200 and head["latest"] == head["floor"]:
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"{table_id} was not published")


def floor(target: Target, clients: int, count: int, figures: Figures) -> None:
    """One heat on the bare endpoint."""
    before = cpu_s(target.processes.answering)
    pids = target.processes.answering
    result = heat(f"floor: {clients} clients", bare, target.port, [""] * clients, count // clients, pids=pids)
    figures.add("floor", f"{clients}: p50", result["p50_ms"])
    figures.add("floor", f"{clients}: p99", result["p99_ms"])
    figures.add("floor", f"{clients}: a second", result["per_s"])
    figures.add("floor", f"{clients}: CPU", (cpu_s(pids) - before) * 1000 / count)


def groups(target: Target, writer: Writer, sizes: tuple[int, ...], figures: Figures) -> None:
    """Groups of each size in turns with single commits, p50 of a round."""
    writer.connection = Connection(target.port)  # the server may have closed one that was idle
    for size in sizes:
        singles = []
        together = []
        for _ in range(GROUP_ROUNDS[size]):
            singles.append(writer.alone(writer.tables[0]))
            together.append(writer.group(size))
            time.sleep(0.02)
        figures.add(target.name, f"group of {size}", statistics.median(together))
        figures.add(target.name, f"single beside group of {size}", statistics.median(singles))
        _drain(target.port, writer.tables[:size])


def report(figures: Figures) -> None:
    """Prints the medians."""
    names = dict.fromkeys(name for server, name in figures.values if server != "floor")
    servers = list(dict.fromkeys(server for server, _ in figures.values if server != "floor"))
    print(
        f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians of rounds, ms where nothing else is said"
    )
    for clients in (1, 8):
        if ("floor", f"{clients}: p50") not in figures.values:
            continue
        line = ", ".join(
            f"{what} {figures.median('floor', f'{clients}: {what}'):.2f}" for what in ("p50", "p99", "a second", "CPU")
        )
        print(f"floor, {clients} clients: {line}")
    print(f"{'':44}" + "".join(f"{server:>12}" for server in servers))
    for name in names:
        print(f"{name:44}" + "".join(f"{figures.median(server, name):12.2f}" for server in servers))
    ratios = [figures.median(server, "1 on 1: p50") / figures.median("floor", "1: p50") for server in servers]
    print(f"{'p50 of a commit, of the floor':44}" + "".join(f"{ratio:12.2f}" for ratio in ratios))
    for size in GROUPS:
        if (servers[0], f"group of {size}") not in figures.values:
            continue
        ratios = [
            figures.median(server, f"group of {size}") / figures.median(server, f"single beside group of {size}")
            for server in servers
        ]
        print(f"{f'group of {size}, of a single commit':44}" + "".join(f"{ratio:12.2f}" for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1_600, help="commits of each heat (1600)")
    parser.add_argument("--rounds", type=int, default=5, help="how often all heats are played (5)")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER", help="another checkout")
    parser.add_argument("--groups", default=",".join(map(str, GROUPS)), help="tables of a group; empty: no groups")
    parser.add_argument("--only", choices=("1", "8", "all"), default="all", help="1: one client only")
    options = parser.parse_args()
    sizes = tuple(int(size) for size in options.groups.split(",") if size)
    figures = Figures()
    places = dict(place.split("=", 1) for place in options.checkout) | {"this": str(Path(__file__).parents[1])}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder, ExitStack() as stack:
        bare_port, bare_pids = stack.enter_context(bare_server("wsgi", folder))
        bare_target = Target("floor", bare_port, "", Processes(bare_pids))
        targets = [stack.enter_context(checkout(name, place, f"{folder}/{name}")) for name, place in places.items()]
        time.sleep(1)
        for target in targets:
            commits(target, 1, 1, 400, Figures())
        for _ in range(options.rounds):
            for target in targets:
                commits(target, 1, 1, options.commits, figures)
                floor(bare_target, 1, options.commits // len(targets), figures)
            for target in targets if options.only == "all" else ():
                commits(target, 8, 8, options.commits, figures)
                commits(target, 1, 8, options.commits // 2, figures)
                floor(bare_target, 8, options.commits // len(targets), figures)
        if sizes:
            writers = {}
            for target in targets:
                new = [create(target.url, "", f"g{number}").table_id for number in range(max(sizes))]
                writers[target.name] = Writer(target.port, new)
                groups(target, writers[target.name], sizes[:1], Figures())
            for _ in range(options.rounds):
                for target in targets:
                    groups(target, writers[target.name], sizes, figures)
    report(figures)


if __name__ == "__main__":
    main()
