"""Kills a whole server again and again under senders of rows, and looks for every row.

    python -m tests.histories.kill_rows --kills 20

Producers send batches and, after a lost answer, the same batch again. At the end the table has each
row that was sent, once: a row that was acknowledged is there (I6), and none is there twice (I26).
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from tests.histories.kill_server import Report, kill_and_start
from tests.support.stack import until
from turnstile_client import connect
from turnstile_client.errors import ApiError, OutcomeUnknown
from turnstile_client.rows import Producer
from turnstile_server import Server

TABLES = ("default.first", "default.second")


def campaign(home: Path, kills: int, *, senders: int = 6, seed: int = 1) -> Report:
    """Plays ``kills`` kills under ``senders`` producers of two tables."""
    report = Report()
    rng = random.Random(seed)
    server = Server.start(home, 0)
    try:
        with connect(server.url, token=server.token) as lake:
            for table in TABLES:
                lake.create(table, pa.schema([("id", pa.int64())]))
        stop = threading.Event()
        sent = [list[int]() for _ in range(senders)]
        threads = [
            threading.Thread(target=_send, args=(server, number, sent[number], stop, report))
            for number in range(senders)
        ]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            _wait_for_rows(sent, 30)
            time.sleep(rng.random() / 2)
            server = kill_and_start(server, report)
        _wait_for_rows(sent, 30)
        stop.set()
        for thread in threads:
            thread.join()
        _check(server, sent, report)
    finally:
        server.stop()
    return report


def _wait_for_rows(sent: list[list[int]], count: int) -> None:
    """Waits until ``count`` more rows are acknowledged: a kill meets senders at work."""
    before = sum(map(len, sent))
    until(lambda: sum(map(len, sent)) >= before + count, f"{count} more rows")


def _send(server: Server, number: int, sent: list[int], stop: threading.Event, report: Report) -> None:
    """One producer; its rows have ids of their own."""
    with connect(server.url, token=server.token, deadline=5) as lake:
        producer = lake.table(TABLES[number % len(TABLES)]).producer(f"sender-{number}", sequence=1)
        while not stop.is_set():
            ids = [number * 1_000_000 + len(sent) + at for at in range(3)]
            producer.add(*({"id": id} for id in ids))
            _flush(producer, report)
            sent += ids


def _flush(producer: Producer, report: Report) -> None:
    """Flushes until the batch was added; a server that is down is waited for."""
    while True:
        try:
            producer.flush()
            return
        except OutcomeUnknown:
            report.unknown += 1
        except ApiError as error:
            if error.transient:  # the server is down
                continue
            report.problems.append(f"{producer.name}: {error}")
            return


def _check(server: Server, sent: list[list[int]], report: Report) -> None:
    wanted = {id for ids in sent for id in ids}
    found = Counter[int]()
    with connect(server.url, token=server.token) as lake:
        for table in TABLES:
            found.update(lake.table(table).read(["id"])["id"].to_pylist())
            report.versions += lake.table(table).version()
    report.acknowledged = len(wanted)
    report.problems += [f"row {id} was acknowledged and is not there" for id in sorted(wanted - found.keys())[:5]]
    report.problems += [f"row {id} is there {count} times" for id, count in found.items() if count > 1][:5]
    report.problems += [f"row {id} was not sent" for id in sorted(found.keys() - wanted)[:5]]


def main() -> None:
    """Plays a campaign and says how it went; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Kill a server again and again under senders of rows.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--senders", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        report = campaign(Path(folder) / "home", options.kills, senders=options.senders, seed=options.seed)
    sys.stdout.write("\n".join([str(report), *report.problems]) + "\n")
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
