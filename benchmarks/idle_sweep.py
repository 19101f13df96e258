"""What a sweep costs where nothing happens: ``python -m benchmarks.idle_sweep 1000 100000`` on
dynoxide.

For each number of tables: HEADs of the usual size are written, and the units, requests and
processor time of a sweep that looks at all of them and of one whose part is bounded are counted
(decision 53). A month has 43,200 sweeps.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.delta_table import table_id
from tests.support.store.backends import DYNOXIDE, REFS_TABLE, Backend, Counter
from tests.support.store.rows import head_row
from tests.support.store.servers import dynoxide
from turnstile.adapters import FileStorages, SystemClock
from turnstile.adapters.dynamo.models import model_of, to_item
from turnstile.adapters.machine import RandomIds
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

REALM = "idle"
BATCH = 25
ROWS_MAX = 64
SWEEPS = 43_200
FOR_EVER = 10**15
READ_UNIT_DOLLARS = 0.125e-6


def filled(backend: Backend, first: int, last: int) -> None:
    """Writes the HEADs of the tables ``first`` to ``last`` (excluded) of the usual size."""
    space = Space(REALM)

    def batch(start: int) -> None:
        puts = []
        for number in range(start, min(start + BATCH, last)):
            key = space.table(table_id(number))
            row = head_row(key, location=f"s3://lake/{'x' * 400}")
            puts.append({"PutRequest": {"Item": to_item(model_of(key), row)}})
        left = {REFS_TABLE: puts}
        while left:
            left = backend.client.batch_write_item(RequestItems=left).get("UnprocessedItems") or {}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(batch, range(first, last, BATCH)))


def measured(backend: Backend, sweep: Callable[[Sweeper], Any]) -> tuple[int, float, float]:
    """Requests, read units and processor seconds of a second sweep of a process."""
    sent = Counter()
    world = World(
        backend.refs(sent, realm=REALM), backend.objs(), FileStorages(), SystemClock(), RandomIds(), Space(REALM)
    )
    sweeper = Sweeper(world, Publisher(world))
    sweep(sweeper)
    del sent.sent[:]
    began = time.process_time()
    sweep(sweeper)
    return len(sent.sent), sent.units, time.process_time() - began


def main(counts: list[int]) -> None:
    """Prints a line for each number of tables and kind of sweep."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        os.environ.setdefault(f"AWS_{name}", value)
    with tempfile.TemporaryDirectory() as folder, dynoxide(Path(folder)) as url:
        backend = Backend(DYNOXIDE, url)
        backend.make_tables()
        there = 0
        print(f"{'tables':>8} {'sweep':>6} {'requests':>9} {'units':>9} {'CPU ms':>8} {'$ a month':>10}")
        for count in counts:
            filled(backend, there, count)
            there = count
            for name, sweep in (
                ("all", lambda sweeper: sweeper.sweep(until_ms=FOR_EVER, each_ms=FOR_EVER)),
                ("part", lambda sweeper: sweeper.sweep_part(until_ms=FOR_EVER, each_ms=FOR_EVER, rows_max=ROWS_MAX)),
            ):
                requests, units, cpu_s = measured(backend, sweep)
                dollars = units * READ_UNIT_DOLLARS * SWEEPS
                print(f"{count:8} {name:>6} {requests:9} {units:9.1f} {cpu_s * 1000:8.1f} {dollars:10.3f}", flush=True)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1_000, 10_000, 100_000])
