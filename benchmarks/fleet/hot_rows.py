"""Changes a second of one hot row, by real servers that share a store:
``python -m benchmarks.fleet.hot_rows``.

    --of catalog    writers change a property of a namespace of their own: nothing conflicts but the catalog's HEAD
    --of table      writers append to one table by tickets: nothing conflicts but the table's HEAD

Writers send again and again without a break, through the HTTP API. Their connections are spread
over the servers.

    direct     servers that know nothing of each other: each applies the changes that it receives, and their groups race
    owner      servers of a fleet: each asks the owner of the row's granule, where all changes share writes of the HEAD

The servers share a SQLite file, or tables of dynoxide. That has no limit of what a row takes;
``benchmarks.table_commits`` and ``benchmarks.catalog_commits`` model one, in virtual time. In the
end the history must have as many commits as changes were acknowledged.
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
from enum import StrEnum
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.catalog_racing.worlds import credentials
from tests.support.fakes import delta
from tests.support.stack import Table as HotTable
from tests.support.store.backends import DYNOXIDE, OBJS_TABLE, REFS_TABLE, Backend
from tests.support.store.servers import dynoxide
from turnstile.fleet.read import FleetReader
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

CATALOG: Final = "main"
TABLE: Final = "/v1/tables/"
TIMEOUT_S: Final = 60.0
PROCESSES: Final = 4
"""Processes that the writers are threads of."""


class On(StrEnum):
    """Stores."""

    SQLITE = "sqlite"
    DYNOXIDE = DYNOXIDE


class Of(StrEnum):
    """Rows."""

    CATALOG = "catalog"
    TABLE = "table"


@dataclass
class Written:
    """What some writers did: how long each acknowledged change took, and what else was answered."""

    ms: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


class Writer:
    """Changes one namespace over one connection."""

    def __init__(self, url: str, name: str, what: str = CATALOG) -> None:
        self._what = what
        self._base = 0
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
        self._name = name
        self._number = 0

    def send(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self._connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        response = self._connection.getresponse()
        return response.status, response.read()

    def create(self) -> None:
        if TABLE in self._what:
            return
        status, body = self.send("POST", f"/v1/catalogs/{CATALOG}/namespaces", {"name": self._name})
        if status not in (201, 409):
            raise AssertionError(f"namespace {self._name}: {status} {body[:300]!r}")

    def write_until(self, end_s: float, written: Written) -> None:
        while time.monotonic() < end_s:
            self._number += 1
            began_s = time.monotonic()
            status, body = self._change()
            if status == 200:
                self._base = json.loads(body).get("latest", 0)
                written.ms.append((time.monotonic() - began_s) * 1000)
            else:
                written.statuses[f"{status} {json.loads(body)['error']['type']}"] += 1

    def _change(self) -> tuple[int, bytes]:
        if TABLE not in self._what:
            properties = {"set": {"number": str(self._number)}}
            return self.send("PATCH", f"/v1/catalogs/{CATALOG}/namespaces/{self._name}", properties)
        content = delta.append(f"{self._name}.{self._number}", time.time_ns() // 1_000_000).decode()
        body = {"version": None, "base": self._base, "inline": {"content": content}}
        return self.send("POST", f"{self._what}/commits", body)


def _write(urls: Sequence[str], named: tuple[str, Sequence[str]], seconds: float, together: Any, results: Any) -> None:
    """What one process of writers does. ``named``: what they write to, and the writers."""
    what, names = named
    writers = [Writer(urls[number % len(urls)], name, what) for number, name in enumerate(names)]
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


def race(urls: Sequence[str], what: str, writers: int, seconds: float) -> Written:
    """Returns what all writers did together. ``what``: the path of the table that they append to,
    or the catalog."""
    context = get_context("spawn")
    count = min(PROCESSES, writers)
    together = context.Barrier(count)
    results = context.Queue()
    names = [f"w{number:03d}" for number in range(writers)]
    processes = [
        context.Process(
            target=_write,
            args=([*urls[at % len(urls) :], *urls[: at % len(urls)]], (what, names[at::count]), seconds, together,
                  results),
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
def servers(folder: Path, count: int, endpoint: str, *, fleet: bool, workers: int) -> Iterator[list[Server]]:
    """Servers of one SQLite file, or of one realm of dynoxide; of a fleet when each of them owns
    its part."""
    store = f"dynamodb:{REFS_TABLE},{OBJS_TABLE}" if endpoint else f"sqlite:{folder / 'shared.db'}"
    realm = f"r{uuid4().hex[:8]}" if endpoint else "default"
    lake = (folder / "lake").as_uri()
    with ExitStack() as stack:
        started = []
        for number in range(count):
            settings = ServerSettings(
                str(folder / f"home{number}"),
                store=store,
                store_endpoint=endpoint,
                realm=realm,
                fleet=fleet,
                workers=workers,
                threads=64,
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


@contextmanager
def store(on: On) -> Iterator[str]:
    """Returns where dynoxide listens, which ends with the benchmark; empty for SQLite."""
    if on is On.SQLITE:
        yield ""
        return
    credentials()
    with tempfile.TemporaryDirectory() as name, dynoxide(Path(name)) as url:
        Backend(DYNOXIDE, url).make_tables()
        yield url


def newest(url: str, what: str) -> int:
    """Returns the number of the row's newest commit."""
    if TABLE in what:
        return int(json.loads(Writer(url, "reader").send("GET", f"{what}/head", {})[1])["latest"])
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
    *,
    of: Annotated[Of, typer.Option(help="Whose HEAD is hot.")] = Of.CATALOG,
    on: Annotated[On, typer.Option(help="What the servers share.")] = On.SQLITE,
    writers: Annotated[list[int] | None, typer.Option(min=1, help="How many; may be given several times.")] = None,
    count: Annotated[int, typer.Option("--servers", min=1, help="Servers that share the store.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Processes of each that answer requests.")] = 1,
    direct: Annotated[bool, typer.Option("--direct/--no-direct", help="Race without a fleet as well.")] = True,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each race.")] = 8.0,
) -> None:
    """Race for one HEAD through real servers, with and without a fleet."""
    table = Table(
        "how",
        "writers",
        "changes/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "other answers",
        "owner",
        title=f"{of.value}, {on.value}, {count} servers",
    )
    with store(on) as endpoint:
        for fleet in (False, True) if direct else (True,):
            for number in writers or [1, 8, 32, 128]:
                with (
                    tempfile.TemporaryDirectory() as name,
                    servers(Path(name), count, endpoint, fleet=fleet, workers=workers) as started,
                ):
                    urls = [server.url for server in started]
                    what = CATALOG if of is Of.CATALOG else f"{TABLE}{HotTable(started[0]).id}"
                    before = newest(urls[0], what) + (number if of is Of.CATALOG else 0)
                    total = race(urls, what, number, seconds)
                    acknowledged = len(total.ms)
                    committed = newest(urls[0], what) - before
                    unknown = sum(answers for status, answers in total.statuses.items() if "Unknown" in status)
                    if not acknowledged <= committed <= acknowledged + unknown:
                        raise AssertionError(f"{acknowledged} changes were acknowledged, and there are {committed}")
                    table.add_row(
                        "owner" if fleet else "direct", str(number), f"{acknowledged / seconds:.1f}",
                        *(f"{quantile(total.ms, part):.1f}" for part in (0.5, 0.95, 0.99)),
                        ", ".join(f"{answers} {status}" for status, answers in total.statuses.items()),
                        ", ".join(f"{answers} {outcome}" for outcome, answers in asked(urls).items()),
                    )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} (the benchmark's own included)")


if __name__ == "__main__":
    typer.run(main)
