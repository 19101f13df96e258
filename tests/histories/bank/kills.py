"""Processes of a server that a campaign kills with SIGKILL or freezes for a while."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.support.server import alive, children, processes
from turnstile_local import Stack
from turnstile_server import Server

KINDS: Final = ("http", "http", "background", "everything", "frozen")
"""Chosen from at random; ``frozen`` is a process that is stopped and goes on with what it was
doing."""
STALLED_S: Final = 120.0


class Killer:
    """Kills processes of the server in ``server``, and starts it again on the same home where all
    of it is gone."""

    def __init__(self, server: Server, workers: int, seed: int) -> None:
        self.server = server
        self._workers = workers
        self._rng = random.Random(f"kills {seed}")
        self.counts: Counter[str] = Counter()
        self.back_s: list[float] = []

    def kill(self, kind: str | None = None) -> None:
        """Returns when the processes are gone; after ``everything`` when another server answers."""
        kind = kind or self._rng.choice(KINDS)
        names = processes(self.server)
        if kind == "everything":
            self._everything()
        elif kind == "frozen":
            pid = self._rng.choice([pid for pid, name in names.items() if name != "main"])
            freeze(pid, 0.2 + self._rng.random())
        else:
            pids = [pid for pid, name in names.items() if name == kind]
            _end(pids if self._rng.random() < 0.5 else pids[:1])
        self.counts[kind] += 1

    def _everything(self) -> None:
        began = time.monotonic()
        _end(self.server.pids)
        self.server = Server.start(self.server.home, self.server.port, workers=self._workers)
        self.back_s.append(time.monotonic() - began)


def freeze(pid: int, seconds: float) -> None:
    """Stops a process for so long."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            if alive(pid):
                os.kill(pid, signal.SIGCONT)


FUNCTIONS: Final = ("Commit", "Commit", "Publish", "Events", "Catalog", "frozen")
"""Functions of the emulated deployment that are killed, chosen from at random; ``frozen`` is any of
them."""


class FunctionKiller:
    """Kills and freezes the sandboxes of functions of an emulated deployment, which makes another
    one for the next request."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self._stack = stack
        self._rng = random.Random(f"kills {seed}")
        self.counts: Counter[str] = Counter()
        self.back_s: list[float] = []

    def kill(self, kind: str | None = None) -> None:
        """Returns when the process is gone, or goes on. A function that has no process now is not
        killed."""
        kind = kind or self._rng.choice(FUNCTIONS)
        pids = [pid for pid, name in self._sandboxes().items() if kind in (name, "frozen")]
        if not pids:
            return
        if kind == "frozen":
            freeze(self._rng.choice(pids), 0.2 + self._rng.random())
        else:
            _end(pids)
        self.counts[kind] += 1

    def _sandboxes(self) -> dict[int, str]:
        """The processes of functions, each with its function's name."""
        named = ((pid, _FUNCTION.search(command)) for pid, command in children(self._stack.state.pid).items())
        return {pid: match[1] for pid, match in named if match}


_FUNCTION: Final = re.compile(r"-(\w+)Function-[^/]*/_worker\.py")


def _end(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Stalled(Exception):
    """Nothing was acknowledged for ``STALLED_S``."""


@dataclass(frozen=True)
class Progress:
    """How many groups were ``acknowledged``, and whether the campaign is ``over`` before its
    time."""

    acknowledged: Callable[[], int]
    over: threading.Event

    def more(self, count: int) -> None:
        """Waits until so many more are acknowledged, or it is over. Raises Stalled."""
        goal = self.acknowledged() + count
        last = -1
        since = time.monotonic()
        while (now := self.acknowledged()) < goal and not self.over.is_set():
            if now > last:
                last = now
                since = time.monotonic()
            if time.monotonic() > since + STALLED_S:
                raise Stalled(f"nothing was acknowledged for {STALLED_S:.0f} s")
            self.over.wait(0.02)

    def wait_until(self, moment_s: float) -> None:
        """Waits until that moment of the monotonic clock, or it is over."""
        self.over.wait(max(0.0, moment_s - time.monotonic()))


def play_kills(
    killer: Killer | FunctionKiller | None,
    kinds: Iterable[str | None],
    progress: Progress,
    *,
    seconds: float,
    between: int,
    seed: int,
) -> None:
    """Kills once for each of ``kinds`` (None: any), spread at random over ``seconds``, and after at
    least ``between`` more groups were acknowledged. Returns when so many were after the last kill,
    and the time is up. Raises Stalled."""
    rng = random.Random(f"moments {seed}")
    kinds = list(kinds)
    began = time.monotonic()
    share = seconds / (len(kinds) + 1)
    for number, kind in enumerate(kinds, 1):
        progress.more(between)
        progress.wait_until(began + (number + rng.random() - 0.5) * share)
        progress.over.wait(rng.random() * 0.1)  # not just after an answer
        if killer is not None and not progress.over.is_set():
            killer.kill(kind)
    progress.more(between)
    progress.wait_until(began + seconds)
