"""Patches of the emulator whose effect is a count in one process; tests/e2e shows the others on a
stack."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.core import lambda_runtime

from turnstile_local import patches


class Clock:
    """The time of the emulator's module; pauses are counted, and take no time."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.pauses = 0

    def time(self) -> float:
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of an emulator that is as it was before the test when the test ends."""
    monkeypatch.setattr(lambda_runtime.Worker, "_drain_stderr_bounded", lambda_runtime.Worker._drain_stderr_bounded)
    made = Clock()
    monkeypatch.setattr(lambda_runtime, "time", made)
    return made


def invoked() -> Any:
    """The answer of a running function that logs nothing."""
    worker = lambda_runtime.Worker("f", {}, b"")
    answer = io.StringIO(json.dumps({"status": "ok"}) + "\n")
    worker._proc = SimpleNamespace(poll=lambda: None, stdin=io.StringIO(), stdout=answer)
    return worker.invoke({}, "request-1")


def test_a_function_that_logs_nothing_does_not_wait_for_log_lines(clock: Clock) -> None:
    assert invoked()["status"] == "ok"
    assert clock.pauses > 0, "the emulator alone waits: without this the patch is not needed any more"
    clock.pauses = 0
    patches.no_wait_for_log_lines()
    assert (invoked()["status"], clock.pauses) == ("ok", 0)
