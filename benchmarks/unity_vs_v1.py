"""Load and commit over HTTP, through Unity's API and through ``/v1``, side by side:
``python -m benchmarks.unity_vs_v1``.

Two tables made alike on one embedded stack, one for each API; every round does each operation once,
in an order that changes from round to round, so that what disturbs one disturbs all. A commit
counts from the content in memory to the answer: a staged one writes its file first. Prints medians,
the answers' sizes, and the requests that one INSERT makes.

    load      the table by name: metadata and the commits that are not published yet
    commit    one file added, version named; staged through both APIs, and inline through /v1
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.racing import table
from turnstile_local import Stack

WARM_UP = 10
UNITY = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/default/tables"
V1 = "/v1/catalogs/main/namespaces/default/tables"


@dataclass
class Taken:
    """What one operation cost: milliseconds of each, requests and bytes of all answers."""

    ms: list[float] = field(default_factory=list)
    requests: int = 0
    bytes: int = 0

    def line(self, name: str) -> str:
        times = sorted(self.ms)
        count = len(self.ms)
        p50 = statistics.median(times)
        p95 = times[int(count * 0.95)]
        each = self.requests / count
        size = self.bytes / count
        return f"{name:16} p50 {p50:6.1f} ms   p95 {p95:6.1f} ms   {each:.0f} request, {size:6.0f} bytes answered"


class Writer:
    """One table and its next version. Requests are counted where they leave."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.name = name
        self.version = 0
        self.table = table.create(stack.url, stack.token, name)
        self.http = self.table.http()
        self.http.event_hooks = {"request": [self._count]}
        self.sent = 0

    def _count(self, _: httpx.Request) -> None:
        self.sent += 1

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self.http.request(method, path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{method} {path} answered {answer.status_code}: {answer.text}")
        return answer

    def _next(self) -> tuple[int, int, str]:
        """The next version, its in-commit timestamp and its content."""
        self.version += 1
        stamp = int(time.time() * 1000)
        return self.version, stamp, table.append(str(uuid.uuid4()), stamp, self.version - 1, row_tracking=False)

    def _stage(self, version: int, text: str) -> tuple[str, int]:
        """Write the staged file; its name and modification time in ms."""
        file = Path(self.table.log) / "_staged_commits" / f"{version:020d}.{uuid.uuid4()}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file.name, int(file.stat().st_mtime * 1000)

    def load_unity(self) -> httpx.Response:
        return self._ask("GET", f"{UNITY}/{self.name}")

    def load_v1(self) -> httpx.Response:
        return self._ask("GET", f"{V1}/{self.name}")

    def commit_unity(self) -> httpx.Response:
        version, stamp, text = self._next()
        name, modified = self._stage(version, text)
        commit = {
            "version": version,
            "timestamp": stamp,
            "file-name": name,
            "file-size": len(text),
            "file-modification-timestamp": modified,
        }
        body = {
            "requirements": [{"type": "assert-table-uuid", "uuid": self.table.table_id}],
            "updates": [{"action": "add-commit", "commit": commit}],
        }
        return self._ask("POST", f"{UNITY}/{self.name}", body)

    def commit_v1_staged(self) -> httpx.Response:
        version, _, text = self._next()
        name, modified = self._stage(version, text)
        staged = {"name": name, "size": len(text), "modified": modified}
        return self._ask("POST", f"/v1/tables/{self.table.table_id}/commits", {"version": version, "staged": staged})

    def commit_v1_inline(self) -> httpx.Response:
        version, _, text = self._next()
        inline = {"content": text}
        return self._ask("POST", f"/v1/tables/{self.table.table_id}/commits", {"version": version, "inline": inline})


def measure(stack: Stack, rounds: int) -> dict[str, Taken]:
    """Every operation ``rounds`` times; the first :data:`WARM_UP` rounds do not count."""
    unity = Writer(stack, "unity")
    v1 = Writer(stack, "v1")
    operations: list[tuple[str, Writer, Callable[[], httpx.Response]]] = [
        ("unity load", unity, unity.load_unity),
        ("v1 load", v1, v1.load_v1),
        ("unity commit", unity, unity.commit_unity),
        ("v1 staged", v1, v1.commit_v1_staged),
        ("v1 inline", v1, v1.commit_v1_inline),
    ]
    taken: dict[str, Taken] = collections.defaultdict(Taken)
    for number in range(WARM_UP + rounds):
        at = number % len(operations)
        for name, writer, operation in operations[at:] + operations[:at]:
            sent = writer.sent
            began = time.perf_counter()
            answer = operation()
            spent = (time.perf_counter() - began) * 1000
            if number >= WARM_UP:
                taken[name].ms.append(spent)
                taken[name].requests += writer.sent - sent
                taken[name].bytes += len(answer.content)
    for writer, load in ((unity, unity.load_unity), (v1, v1.load_unity)):
        latest = load().json()["latest-table-version"]
        if latest != writer.version:
            raise RuntimeError(f"table {writer.name} is at version {latest}, {writer.version} were acknowledged")
    return {name: taken[name] for name, _, _ in operations}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Stack.start(home=home, port=0) as stack:
        taken = measure(stack, options.rounds)
    medians = {name: round(statistics.median(one.ms), 2) for name, one in taken.items()}
    if options.output == "json":
        print(json.dumps({"rounds": options.rounds, "p50_ms": medians}, indent=2))
        return 0
    for name, one in taken.items():
        print(one.line(name))
    print(f"load: Unity's API takes {medians['unity load'] / medians['v1 load']:.2f} of /v1")
    print(f"staged commit: Unity's API takes {medians['unity commit'] / medians['v1 staged']:.2f} of /v1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
