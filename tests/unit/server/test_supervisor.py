"""When the main process gives up starting a process anew, and when a process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from turnstile_server import children
from turnstile_server.children import SHORTEST_S, Children
from turnstile_server.settings import ServerSettings
from turnstile_server.supervisor import StartTimes


@pytest.fixture
def settings(tmp_path: Path) -> ServerSettings:
    return ServerSettings(str(tmp_path), runtime=str(tmp_path))


@pytest.fixture
def times(settings: ServerSettings) -> StartTimes:
    """Two workers, with the pids 10 and 11, started anew at 5.0 and 6.0."""
    server = SimpleNamespace(wrks=[SimpleNamespace(inner=SimpleNamespace(pid=pid)) for pid in (10, 11)])
    times = StartTimes(server, settings)
    times.update({0: 5.0, 1: 6.0})
    return times


def test_a_worker_that_was_ready_is_always_started_anew(times: StartTimes, settings: ServerSettings) -> None:
    settings.ready_file(10).touch()
    assert (times.get(0, 0), times.get(1, 0)) == (0, 6.0)


def test_workers_that_cannot_start_are_not_started_anew_in_turns_for_ever(times: StartTimes) -> None:
    times.clear()  # granian, when the other one dies
    assert (times.get(0, 0), times.get(1, 0)) == (5.0, 6.0)


def test_a_process_beside_that_ends_is_started_anew_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    started = list[float]()
    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    ended = SimpleNamespace(is_alive=lambda: False, exitcode=1)

    def start(self: Children, name: str) -> None:
        started.append(now_s[0])
        self._processes[name] = ended  # type: ignore[assignment]
        self._started_s[name] = now_s[0]

    monkeypatch.setattr(Children, "_start", start)
    beside = Children({"background": "turnstile_server.background"})
    beside.start()
    for now_s[0] in (0.1, SHORTEST_S - 0.1, SHORTEST_S, SHORTEST_S + 0.5, 2 * SHORTEST_S):
        beside.mend()
    assert started == [0.0, SHORTEST_S, 2 * SHORTEST_S]
    monkeypatch.setattr(ended, "is_alive", lambda: True)
    now_s[0] = 10.0
    beside.mend()
    assert len(started) == 3


STOPPED_EARLY = """
import multiprocessing, os, signal, sys, time
from turnstile_server.children import reset_signals_in_children
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: None)  # as granian's main process does
reset_signals_in_children()
def child(ready):
    os.kill(os.getpid(), signal.SIGINT)
    ready.set()
    time.sleep(60)  # loads its modules
context = multiprocessing.get_context("fork")
ready = context.Event()
process = context.Process(target=child, args=(ready,))
process.start()
ready.wait()
process.terminate()
process.join(30)
os.kill(os.getpid(), signal.SIGTERM)  # the main process keeps its handler
print(process.exitcode)
process.kill()
"""


def test_a_process_that_is_stopped_before_it_has_a_handler_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED_EARLY], capture_output=True, text=True, check=True)
    assert done.stdout == "-15\n"
