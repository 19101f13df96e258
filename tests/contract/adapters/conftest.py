"""A file of SQLite for the tests of its adapter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from turnstile.adapters.sqlite.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty one, open."""
    opened = Database(tmp_path / "turnstile.db")
    yield opened
    opened.close()
