"""Kills a whole server in the midst of work that takes more than one write, and starts it again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Final

import httpx

from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import decode, encode
from turnstile.store.core.writes import Row
from turnstile_server import Server

HOUR_MS: Final = 3_600_000
MINUTES_S: Final = 600.0
"""Work that was interrupted is done by then."""


@dataclass
class Report:
    """The observations of one kind of work. Times in seconds."""

    kind: str
    kills: int = 0
    in_the_midst: int = 0
    done: int = 0
    back_s: list[float] = field(default_factory=list)
    last_s: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        back = f"{median(self.back_s):.1f} / {max(self.back_s):.1f}" if self.back_s else "-"
        return (
            f"| {self.kind:11s} | {self.kills:5d} | {self.in_the_midst:12d} | {self.done:12d} | {back:11s} | "
            f"{self.last_s:13.1f} | {len(self.problems):8d} |"
        )


HEADING: Final = """\
| work        | kills | in the midst | acknowledged | back (s)    | whole again (s) | problems |
| ----------- | ----- | ------------ | ------------ | ----------- | --------------- | -------- |"""


class Work(ABC):
    """Work of one kind on one server.

    Attributes:
        kind: its name.
        moments_s: the kill comes at a random moment between these, after the work began.
    """

    kind: ClassVar[str]
    moments_s: ClassVar[tuple[float, float]] = (0.0, 0.3)

    def __init__(self, server: Server, rng: random.Random, report: Report) -> None:
        self.server = server
        self.rng = rng
        self.report = report
        self.api: httpx.Client = server.client(timeout=120.0)

    @abstractmethod
    def prepare(self) -> None:
        """Makes something to do; called before each kill."""

    @abstractmethod
    def work(self) -> bool:
        """Does it; True if it was acknowledged. May raise httpx.TransportError: the server was
        killed."""

    @abstractmethod
    def whole(self) -> bool:
        """Ends the interrupted work; whether all is done by now. Asked again and again."""

    @abstractmethod
    def check(self) -> Iterator[str]:
        """Yields the faults once all is done."""

    def down(self, *, last: bool) -> None:  # noqa: B027 - for those that need it
        """Called while the server is down after a kill."""

    def begun(self) -> None:  # noqa: B027 - likewise
        """Returns when the work has begun."""

    def close(self) -> None:
        self.api.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def rows(self, change: Callable[[Row], Row | None]) -> None:
        """Changes rows of the store while no server has it open; None leaves a row as it is."""
        database = Database(self.server.home / "turnstile.db", create=False)
        try:
            found = {key: change(decode(key, data)) for key, data in database.rows("SELECT key, row FROM refs")}
            changed = [(encode(row), key) for key, row in found.items() if row is not None]
            statement = "UPDATE refs SET row = ? WHERE key = ?"
            database.write(lambda connection: connection.executemany(statement, changed).fetchall())
        finally:
            database.close()


def campaign(home: Path, kind: type[Work], kills: int, *, seed: int = 1) -> Report:
    """Plays ``kills`` kills in the midst of one kind of work; ends at the first problem."""
    report = Report(kind.kind)
    rng = random.Random(f"{kind.kind}/{seed}")
    server = Server.start(home, 0, environment=ENVIRONMENT)
    work = kind(server, rng, report)
    try:
        while report.kills < kills and not report.problems:
            work.prepare()
            server = work.server = _interrupted(work, last=report.kills + 1 == kills)
            if report.kills < kills:
                report.problems += _settled(work)
        began = time.monotonic()
        report.problems += _settled(work)
        report.last_s = time.monotonic() - began
        report.problems += list(work.check())
    finally:
        work.close()
        server.stop()
    return report


ENVIRONMENT: Final = {"TURNSTILE_STAGED_GRACE_HOURS": "1", "TURNSTILE_DROP_GRACE_HOURS": "1"}


def _interrupted(work: Work, *, last: bool) -> Server:
    """Lets the work begin, kills the server in its midst, and starts it again."""
    ended = threading.Event()
    faults = list[BaseException]()

    def run() -> None:
        try:
            work.report.done += work.work()
        except httpx.TransportError:
            work.report.in_the_midst += 1
        except BaseException as fault:  # told below
            faults.append(fault)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    work.begun()
    ended.wait(work.rng.uniform(*work.moments_s))
    began = time.monotonic()
    for pid in work.server.pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    work.report.kills += 1
    thread.join()
    work.report.problems += [repr(fault)[:500] for fault in faults]
    work.down(last=last)
    server = Server.start(work.server.home, work.server.port, environment=ENVIRONMENT)
    work.report.back_s.append(time.monotonic() - began)
    return server


def _settled(work: Work) -> Iterator[str]:
    deadline = time.monotonic() + MINUTES_S
    while not work.whole():
        if time.monotonic() > deadline:
            yield f"{work.kind}: it is not done after {MINUTES_S:.0f} s"
            return
        time.sleep(0.1)
