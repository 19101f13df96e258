"""Import reads tables that Spark wrote, and Spark reads tables that were exported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT


@pytest.mark.spark
@pytest.mark.slow
def test_tables_written_by_spark_come_in_and_go_out(tmp_path: Path) -> None:
    """In a process of its own: its session must not become that of other tests."""
    command = [sys.executable, "-m", "tests.support.clients.import_story", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip().endswith("OK")
