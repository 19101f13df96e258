"""DuckDB's Iceberg extension, unmodified, with tables in files: it makes no folder for its
manifests."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.downloads import Missing, environment
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from turnstile_local import Stack

STORY = ROOT / "tests/support/iceberg/duck_story.py"
VERSION = "1.5.5"
PACKAGES = ("duckdb", "duckdb-extension-avro", "duckdb-extension-httpfs", "duckdb-extension-iceberg")


def python() -> Path:
    """An interpreter with DuckDB and the extensions, which are of one version; raises Missing where
    it cannot be made."""
    return environment(f"duckdb-iceberg-{VERSION}", *(f"{package}=={VERSION}" for package in PACKAGES))


def test_duckdb_creates_a_table_from_a_query_and_inserts_into_it(stack: Stack, tmp_path: Path) -> None:
    try:
        interpreter = python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    command = [interpreter, STORY, f"{stack.url}/iceberg", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [[1, "a"], [2, "b"]]
