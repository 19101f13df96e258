"""Changes a second of one catalog's HEAD, by real servers that share a store: ``python -m benchmarks.hot_rows``.

Writers change a property of a namespace of their own, again and again without a break, through the HTTP API: nothing conflicts but the
HEAD. Their connections are spread over the servers.

    direct     servers that know nothing of each other: each applies the changes that it receives, and their groups race
    owner      servers of a fleet: each asks the owner of the catalog's granule, where all changes share swaps of the HEAD

In the end the log must have as many commits as changes were acknowledged.
"""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table

from turnstile.fleet.read import FleetReader
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

CATALOG: Final = "main"
TIMEOUT_S: Final = 60.0
PROCESSES: Final = 4
"""Processes that the writers are threads of."""


@dataclass
class Written:
    """What some writers did: how long each acknowledged change took, and what else was answered."""

    ms: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


class Writer:
    """Changes one namespace over one connection."""

    def __init__(self, url: str, name: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
        self._name, self._number = name, 0

    def send(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self._connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        response = self._connection.getresponse()
        return response.status, response.read()

    def create(self) -> None:
        status, body = self.send("POST", f"/v1/catalogs/{CATALOG}/namespaces", {"name": self._name})
        if status not in (201, 409):
            raise AssertionError(f"namespace {self._name}: {status} {body[:300]!r}")

    def write_until(self, end_s: float, written: Written) -> None:
        while time.monotonic() < end_s:
            self._number += 1
            began_s = time.monotonic()
            properties = {"set": {"number": str(self._number)}}
            status, body = self.send("PATCH", f"/v1/catalogs/{CATALOG}/namespaces/{self._name}", properties)
            if status == 200:
                written.ms.append((time.monotonic() - began_s) * 1000)
            else:
                written.statuses[f"{status} {json.loads(body)['error']['type']}"] += 1


def _write(urls: Sequence[str], names: Sequence[str], seconds: float, together: Any, results: Any) -> None:
    """What one process of writers does."""
    writers = [Writer(urls[number % len(urls)], name) for number, name in enumerate(names)]
    for writer in writers:
        writer.create()
    written = [Written() for _ in writers]
    together.wait(TIMEOUT_S)
    end_s = time.monotonic() + seconds
    threads = [
        threading.Thread(target=writer.write_until, args=(end_s, report))
        for writer, report in zip(writers, written, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(written)


def race(urls: Sequence[str], writers: int, seconds: float) -> Written:
    """Returns what all writers did together."""
    context = get_context("spawn")
    count = min(PROCESSES, writers)
    together, results = context.Barrier(count), context.Queue()
    names = [f"w{number:03d}" for number in range(writers)]
    processes = [
        context.Process(
            target=_write, args=([*urls[at % len(urls) :], *urls[: at % len(urls)]], names[at::count], seconds, together, results)
        )
        for at in range(count)
    ]  # fmt: skip
    for process in processes:
        process.start()
    total = Written()
    for _ in processes:
        for one in results.get(timeout=TIMEOUT_S + seconds):
            total.ms += one.ms
            total.statuses += one.statuses
    for process in processes:
        process.join()
    return total


@contextmanager
def servers(folder: Path, count: int, *, fleet: bool, workers: int) -> Iterator[list[Server]]:
    """Servers of one SQLite file; of a fleet when each of them owns its part."""
    store = f"sqlite:{folder / 'shared.db'}"
    lake = (folder / "lake").as_uri()
    with ExitStack() as stack:
        started = []
        for number in range(count):
            settings = ServerSettings(
                str(folder / f"home{number}"), store=store, fleet=fleet, workers=workers, threads=64
            )
            started.append(stack.enter_context(Server.start(settings.home, 0, lake=lake, settings=settings)))
        if fleet:
            opened = open_store(settings)
            stack.callback(opened.close)
            until_s = time.monotonic() + TIMEOUT_S
            while True:
                report = FleetReader(opened.world).report()
                if len(report.members) == count and min(member.owned for member in report.members) > 20:
                    break
                if time.monotonic() > until_s:
                    raise AssertionError(f"the fleet does not come to rest: {report}")
                time.sleep(0.2)
            time.sleep(3)  # every process has read who owns what
        yield started


def newest(url: str) -> int:
    """Returns the number of the catalog's newest commit."""
    status, body = Writer(url, "reader").send("GET", f"/v1/catalogs/{CATALOG}/log?max_results=1", {})
    if status != 200:
        raise AssertionError(f"the log: {status} {body[:300]!r}")
    return int(json.loads(body)["commits"][0]["seq"])


def asked(urls: Sequence[str]) -> Counter[str]:
    """Returns what became of the changes for which the servers asked an owner."""
    outcomes = Counter[str]()
    for url in urls:
        for line in Writer(url, "reader").send("GET", "/metrics", {})[1].decode().splitlines():
            if line.startswith("turnstile_asked_owners_total{"):
                outcomes[line.split('"')[1]] += int(float(line.rpartition(" ")[2]))
    return outcomes


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


def main(
    writers: Annotated[list[int] | None, typer.Option(min=1, help="How many; may be given several times.")] = None,
    count: Annotated[int, typer.Option("--servers", min=1, help="Servers that share the store.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Processes of each that answer requests.")] = 1,
    direct: Annotated[bool, typer.Option("--direct/--no-direct", help="Race without a fleet as well.")] = True,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each race.")] = 8.0,
) -> None:
    """Race for one catalog's HEAD through real servers, with and without a fleet."""
    table = Table(
        "how", "writers", "changes/s", "p50 ms", "p95 ms", "p99 ms", "other answers", "owner", title=f"{count} servers"
    )
    for fleet in (False, True) if direct else (True,):
        for number in writers or [1, 8, 32, 128]:
            with (
                tempfile.TemporaryDirectory() as name,
                servers(Path(name), count, fleet=fleet, workers=workers) as started,
            ):
                before = newest(started[0].url)
                total = race([server.url for server in started], number, seconds)
                acknowledged, committed = len(total.ms), newest(started[0].url) - before - number
                unknown = sum(answers for status, answers in total.statuses.items() if "Unknown" in status)
                if not acknowledged <= committed <= acknowledged + unknown:
                    raise AssertionError(f"{acknowledged} changes were acknowledged, and {committed} are in the log")
                table.add_row(
                    "owner" if fleet else "direct", str(number), f"{acknowledged / seconds:.1f}",
                    *(f"{quantile(total.ms, part):.1f}" for part in (0.5, 0.95, 0.99)),
                    ", ".join(f"{answers} {status}" for status, answers in total.statuses.items()),
                    ", ".join(f"{answers} {outcome}" for outcome, answers in asked([server.url for server in started]).items()),
                )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} (the benchmark's own included)")


if __name__ == "__main__":
    typer.run(main)
