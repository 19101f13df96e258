"""Upkeep: what its queries return, not how they run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def upkeep(planned_at_once: None) -> None:
    """All tests of this folder plan their queries at once."""
