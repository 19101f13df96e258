"""When the main process gives up starting a process anew."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

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
