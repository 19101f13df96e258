"""Delivery of events while their consumers are killed: ``python -m benchmarks.event_delivery``.

Writers commit to their tables at a steady pace. Three consumers are processes of their own and keep
what they get in files: one follows ``GET /v1/events``, one reads server-sent events, one is a
webhook. With ``--kill-s`` one of them is killed with SIGKILL every so many seconds and started
again; with ``--outage-s`` the webhook answers 503 for so long. At the end every version of every
table must have reached every consumer, in order. Lag is the time from a version's in-commit
timestamp to the moment when a consumer had kept it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import socket
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
from httpx_sse import EventSource

from benchmarks.racing.table import append, create
from turnstile_server import Server

SECRET: Final = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
PROGRESS_S: Final = 10.0
QUIET_S: Final = 120.0
"""How long nothing may come before a consumer counts as having missed what it lacks."""


# -- consumers, each a process of its own ------------------------------------------------------------------------------


def keep(events: list[dict[str, Any]], kept: Path) -> None:
    """Appends ``events`` to the file ``kept``, each with the time at which it is there, and syncs
    it."""
    with kept.open("a") as file:
        file.write("\n")  # a kill may have cut the last line
        for event in events:
            file.write(
                json.dumps([time.time() * 1000, event["id"], event["type"], event["subject"], event["data"]]) + "\n"
            )
        file.flush()
        os.fsync(file.fileno())


def poll(url: str, kept: Path) -> None:
    """Follows by long polls. The cursor is kept after the events that it is behind."""

    def read(client: httpx.Client, cursor: str) -> tuple[list[dict[str, Any]], str]:
        after = {"after": cursor} if cursor else {}
        page = client.get("/v1/events", params={"catalog": "main", "wait_s": 10, **after}).raise_for_status().json()
        return page["events"], page["cursor"]

    _follow(url, kept, read)


def stream(url: str, kept: Path) -> None:
    """Follows by server-sent events."""

    def read(client: httpx.Client, cursor: str) -> tuple[list[dict[str, Any]], str]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {})
        answer = client.get("/v1/events", params={"catalog": "main"}, headers=headers).raise_for_status()
        *messages, end = EventSource(answer).iter_sse()
        return [message.json() for message in messages], end.id

    _follow(url, kept, read)


def _follow(url: str, kept: Path, read: Callable[[httpx.Client, str], tuple[list[dict[str, Any]], str]]) -> None:
    place = kept.with_suffix(".cursor")
    cursor = place.read_text() if place.exists() else ""
    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                events, cursor = read(client, cursor)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            keep(events, kept)
            beside = place.with_suffix(".new")
            beside.write_text(cursor)
            beside.replace(place)


def webhook(port: int, kept: Path, fails_until_s: float) -> None:
    """Serves a webhook that answers 503 until ``fails_until_s`` (Unix time), then keeps what it
    gets."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            events = json.loads(self.rfile.read(int(self.headers["content-length"])))
            failing = time.time() < fails_until_s
            if not failing:
                keep(events, kept)
            self.send_response(503 if failing else 204)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    ThreadingHTTPServer.allow_reuse_address = True
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


@dataclass
class Consumer:
    """A consumer's process, which can be killed and started again."""

    name: str
    kept: Path
    target: Callable[..., None]
    arguments: tuple[Any, ...]

    def start(self) -> None:
        self.process = multiprocessing.Process(target=self.target, args=self.arguments, daemon=True)
        self.process.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def events(self) -> Iterator[tuple[float, str, str, str, dict[str, Any]]]:
        """What it kept; a line that was cut by a kill is not among it."""
        if self.kept.exists():
            for line in self.kept.read_text().splitlines():
                try:
                    yield tuple(json.loads(line))
                except json.JSONDecodeError:
                    continue


# -- writers -----------------------------------------------------------------------------------------------------------


def write(url: str, table_id: str, commits: int, pause_s: float) -> None:
    """Commits versions 1 to ``commits``, one after the other, each sent again until it is
    acknowledged."""
    with httpx.Client(base_url=url, timeout=60) as client:
        for version in range(1, commits + 1):
            begun_s = time.monotonic()
            content = append(uuid.uuid4().hex, int(time.time() * 1000), version - 1, row_tracking=False)
            body = {"version": version, "base": version - 1, "inline": {"content": content}}
            while True:
                answer = client.post(f"/v1/tables/{table_id}/commits", json=body)
                if answer.status_code == 200:
                    break
                assert answer.status_code == 429, answer.text
                time.sleep(0.05)
            time.sleep(max(0.0, pause_s - (time.monotonic() - begun_s)))


# -- the run -----------------------------------------------------------------------------------------------------------


def judged(consumer: Consumer, tables: list[str], commits: int) -> dict[str, Any]:
    """What a consumer got of ``commits`` versions of each table: what is missing, what came again,
    what came out of order, lag."""
    lag_ms = list[float]()
    again = 0
    disordered = 0
    newest = dict.fromkeys(tables, 0)
    for received_ms, _, type, subject, data in consumer.events():
        if type != "turnstile.table.ratified" or subject not in newest:
            continue
        version = data["version"]
        if version <= newest[subject]:
            again += 1
            continue
        disordered += version != newest[subject] + 1
        newest[subject] = version
        lag_ms.append(received_ms - data["timestamp"])
    figures: dict[str, Any] = {
        "consumer": consumer.name,
        "events": len(lag_ms),
        "missing": commits * len(tables) - len(lag_ms),
        "came_again": again,
        "out_of_order": disordered,
    }
    if len(lag_ms) > 1:
        percentiles = statistics.quantiles(lag_ms, n=100)
        figures |= {f"lag_p{n}_ms": round(percentiles[n - 1]) for n in (50, 95, 99)} | {
            "lag_max_ms": round(max(lag_ms))
        }
    return figures


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    targets = {"TURNSTILE_EVENT_TARGETS": f"hook=http://127.0.0.1:{port}/", "TURNSTILE_EVENT_SECRET": SECRET}
    with Server.start(folder / "home", 0, environment=targets) as server:
        url = str(server.client().base_url)
        fails_until_s = time.time() + arguments.outage_s
        consumers = [
            Consumer("long polls", folder / "polls", poll, (url, folder / "polls")),
            Consumer("server-sent events", folder / "stream", stream, (url, folder / "stream")),
            Consumer("webhook", folder / "hook", webhook, (port, folder / "hook", fails_until_s)),
        ]
        for consumer in consumers:
            consumer.start()
        tables = [create(url, "", f"t{number}").table_id for number in range(arguments.tables)]
        each = arguments.commits // arguments.tables
        writers = [
            threading.Thread(target=write, args=(url, table, each, arguments.tables / arguments.per_second))
            for table in tables
        ]
        begun_s = time.monotonic()
        kills = 0
        for writer in writers:
            writer.start()
        next_kill_s = next_line_s = begun_s
        while any(writer.is_alive() for writer in writers):
            time.sleep(0.1)
            if arguments.kill_s and time.monotonic() >= next_kill_s + arguments.kill_s:
                consumer = random.choice(consumers)
                consumer.kill()
                time.sleep(random.random())
                consumer.start()
                kills = kills + 1
                next_kill_s = time.monotonic()
            if time.monotonic() >= next_line_s + PROGRESS_S:
                next_line_s = time.monotonic()
                print(f"{next_line_s - begun_s:6.0f} s, {kills} kills", flush=True)
        written_s = time.monotonic() - begun_s
        figures = await_all(consumers, tables, each, fails_until_s)
        for consumer in consumers:
            consumer.kill()
        seconds = {"written_s": round(written_s, 1), "all_s": round(time.monotonic() - begun_s, 1)}
        return {
            "commits": each * len(tables),
            "tables": len(tables),
            "kills": kills,
            **vars(arguments),
            **seconds,
            "consumers": figures,
        }


def await_all(consumers: list[Consumer], tables: list[str], commits: int, fails_until_s: float) -> list[dict[str, Any]]:
    """Waits until every consumer has every version, or nothing more comes."""
    quiet_from_s = max(time.time(), fails_until_s)
    figures = list[dict[str, Any]]()
    while True:
        judgement = [judged(consumer, tables, commits) for consumer in consumers]
        if [each["events"] for each in judgement] != [each["events"] for each in figures]:
            quiet_from_s = max(time.time(), fails_until_s)
        figures = judgement
        if not any(each["missing"] for each in figures) or time.time() > quiet_from_s + 300 + QUIET_S:
            return figures
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000, help="of all tables together")
    parser.add_argument("--tables", type=int, default=3, help="each with one writer")
    parser.add_argument("--per-second", type=float, default=100.0, help="commits a second, of all tables together")
    parser.add_argument("--kill-s", type=float, default=0.0, help="kill a consumer every so many seconds (0: never)")
    parser.add_argument("--outage-s", type=float, default=0.0, help="how long the webhook fails at first")
    parser.add_argument("--out", type=Path, help="append the figures to this file, a JSON object a line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(arguments, Path(folder))
    line = json.dumps(figures, default=str)
    print(line)
    if arguments.out:
        with arguments.out.open("a") as file:
            file.write(line + "\n")
    if any(each["missing"] or each["out_of_order"] for each in figures["consumers"]):
        raise SystemExit("events are missing or out of order")


if __name__ == "__main__":
    main()
