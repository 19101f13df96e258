"""Clients of scripted servers, with short pauses."""

from __future__ import annotations

import pytest

from turnstile_http import http


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client pauses for a hundredth of the time before it tries again."""
    wait = http._wait
    monkeypatch.setattr(http, "_wait", lambda state: wait(state) / 100)
