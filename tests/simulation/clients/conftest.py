"""Processes that try again do not pause: their clock is the simulation's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from turnstile.api import services


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The services of a process do not sleep."""
    monkeypatch.setattr(services, "time", SimpleNamespace(sleep=lambda _seconds: None))
