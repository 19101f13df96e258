"""DuckDB's Iceberg extension, unmodified, with tables in files: it makes no folder for its manifests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.downloads import Missing, alone, cache
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_local import Stack

STORY = ROOT / "tests/support/iceberg/duck_story.py"
VERSION = "1.5.5"
PACKAGES = ("duckdb", "duckdb-extension-avro", "duckdb-extension-httpfs", "duckdb-extension-iceberg")


def python() -> Path:
    """An interpreter with DuckDB and the extensions, which are of one version; raises Missing where it cannot be made."""
    home = cache(f"duckdb-iceberg-{VERSION}")
    made = home / "bin" / "python"
    complete = home / "complete"
    uv = Path(sys.executable).with_name("uv")
    packages = [f"{package}=={VERSION}" for package in PACKAGES]
    with alone(home):
        if not complete.exists():
            for command in (
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
                [uv, "pip", "install", "--quiet", "--python", made, *packages],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Missing(f"no environment with DuckDB's Iceberg extension: {done.stderr[-300:]}")
            complete.touch()
    return made


def test_duckdb_creates_a_table_from_a_query_and_inserts_into_it(stack: Stack, tmp_path: Path) -> None:
    try:
        interpreter = python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    command = [interpreter, STORY, f"{stack.url}/iceberg", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [[1, "a"], [2, "b"]]
