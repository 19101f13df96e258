"""Processes of members, from outside: their reports, and how to kill, freeze and end them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fleet.systems import Opened, System

READY_S = 120.0
Event = dict[str, Any]


@dataclass
class Settings:
    """What all members have in common. ``alone_beats``: how much more slowly a member of
    Turnstile's beats while it is alone."""

    granules: int
    beat_ms: int = 1_000
    batch: int = 90
    in_flight: int = 1
    alone_beats: int = 15


@dataclass
class Running:
    """One process and its members' names."""

    names: list[str]
    process: subprocess.Popen[str]
    statistics: list[Event] = field(default_factory=list)


class Members:
    """All processes of one heat. What they report is in ``events``, in the order in which it
    came."""

    def __init__(self, opened: Opened, settings: Settings) -> None:
        self._opened = opened
        self._settings = settings
        self.events = list[Event]()
        self.running = list[Running]()
        self._changed = threading.Condition()
        self.owned = dict[str, int]()
        self.seen = dict[str, int]()
        self.joined = set[str]()
        self._ready = 0

    def prepare(self, groups: Sequence[Sequence[str]]) -> list[Running]:
        """Processes that are ready to join, one for each group of names."""
        started = []
        ready = self._ready + len(groups)
        for names in groups:
            options = {
                **self._opened.options, "names": list(names), "granules": self._settings.granules,
                "batch": self._settings.batch,
                "beat_ms": self._settings.beat_ms, "in_flight": self._settings.in_flight,
                "alone_beats": self._settings.alone_beats,
                "first": self.running[0].names[0] if self.running else names[0],
            }  # fmt: skip
            command = [sys.executable, "-m", "benchmarks.fleet.members", json.dumps(options)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, **self._opened.env}
            )  # fmt: skip
            running = Running(list(names), process)
            threading.Thread(target=self._read, args=(running,), daemon=True).start()
            started.append(running)
            self.running.append(running)
        self.wait(lambda: self._ready >= ready, READY_S, "processes are ready")
        return started

    def send(self, running: Sequence[Running], line: str) -> float:
        """Sends a line to processes; returns when."""
        at_s = time.monotonic()
        for one in running:
            assert one.process.stdin is not None
            one.process.stdin.write(line + "\n")
            one.process.stdin.flush()
        return at_s

    def signal(self, name: str, number: int) -> float:
        """Sends a signal to the process of a member; returns when."""
        (running,) = [one for one in self.running if name in one.names]
        at_s = time.monotonic()
        running.process.send_signal(number)
        return at_s

    def forget(self, name: str) -> None:
        """Expects nothing of a member any more."""
        with self._changed:
            for known in (self.owned, self.seen):
                known.pop(name, None)
            self.joined.discard(name)

    def wait(self, holds: Callable[[], bool], most_s: float, what: str) -> float:
        """Waits until something holds; returns when that was. Raises TimeoutError."""
        end_s = time.monotonic() + most_s
        with self._changed:
            while not holds():
                if not self._changed.wait(max(0.0, end_s - time.monotonic())) and time.monotonic() > end_s:
                    raise TimeoutError(f"not within {most_s:.0f} s: {what}")
        return time.monotonic()

    def since(self, at_s: float, *kinds: str) -> list[Event]:
        """What was reported after a time."""
        with self._changed:
            return [event for event in self.events if event["at_s"] >= at_s and event["event"] in kinds]

    def statistics(self, from_s: float, to_s: float) -> dict[str, float]:
        """Sums over a time: requests, rows, processor seconds of members; and their beats."""
        sums = dict[str, float]()
        beats = list[float]()
        with self._changed:
            for running in self.running:
                inside = [one for one in running.statistics if from_s <= one["at_s"] <= to_s]
                for one in inside:
                    beats += one["beats_ms"]
                for name in ("requests", "rows_read", "rows_written", "transactions", "transactions_s", "cpu_s"):
                    values = [one[name] for one in inside if name in one]
                    sums[name] = sums.get(name, 0.0) + (values[-1] - values[0] if values else 0.0)
        beats.sort()

        def share(part):
            return round(beats[min(len(beats) - 1, int(part * len(beats)))], 1) if beats else 0.0

        span_s = to_s - from_s
        return {
            **{name: round(value, 2) for name, value in sums.items()}, "beats_per_s": round(len(beats) / span_s, 1),
            "beat_p50_ms": share(0.5), "beat_p99_ms": share(0.99), "span_s": round(span_s, 2),
        }  # fmt: skip

    def close(self) -> None:
        """Ends all processes, frozen ones too."""
        for running in self.running:
            if running.process.poll() is None:
                running.process.kill()
        for running in self.running:
            running.process.wait()

    def _read(self, running: Running) -> None:
        assert running.process.stdout is not None
        for line in running.process.stdout:
            event = json.loads(line)
            with self._changed:
                self._take(running, event)
                self._changed.notify_all()

    def _take(self, running: Running, event: Event) -> None:
        name = event["member"]
        match event["event"]:
            case "ready":
                self._ready += 1
            case "statistics":
                running.statistics.append(event)
                return
            case "joined":
                self.joined.add(name)
            case "owned":
                self.owned[name] = event["owned"]
            case "members":
                self.seen[name] = event["count"]
            case "died" | "failed":
                print(f"{running.names[0]}: {event}", file=sys.stderr, flush=True)
        self.events.append(event)


@contextmanager
def heat(system: System, settings: Settings) -> Iterator[tuple[Opened, Members]]:
    """The system, empty and started, and no members yet. Raises Missing where it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="turnstile-fleet-") as folder, system.open(Path(folder)) as opened:
        members = Members(opened, settings)
        try:
            yield opened, members
        finally:
            members.close()


FREEZE = signal.SIGSTOP
GO_ON = signal.SIGCONT
KILL = signal.SIGKILL
