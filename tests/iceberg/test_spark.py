"""Spark 4.1 with Iceberg's own runtime, unmodified, in an environment of its own: this project's
Spark is a newer one, for which Iceberg has none yet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_server import Server

STORY = ROOT / "tests/support/iceberg/spark_story.py"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_every_kind_of_statement(server: Server, python: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    done = subprocess.run(
        [python, STORY, server.url, "spark_story", answers],
        capture_output=True, text=True, check=False, timeout=900, cwd=tmp_path,
    )  # fmt: skip
    if "UNRESOLVED DEPENDENCIES" in done.stdout + done.stderr:
        pytest.skip("NOT TESTED: Iceberg's runtime for Spark cannot be fetched")
    said = [
        line for line in done.stderr.splitlines() if "Error" in line or "Exception" in line or "spark_story" in line
    ]
    assert done.returncode == 0, "\n".join(line[:300] for line in said[:30])
    assert json.loads(answers.read_text()) == {
        "rows": [[1], [2], [3], [4]],
        "changed": [[1, "eu", 1.5], [3, "eu", None], [4, "us", 9.0]],
        "branch": [[4]],
        "main": [[3]],
        "replaced": [[10], [30], [40]],
        "view": [[3], [4]],
        "tables": ["copy", "orders"],
        "after expiry": [[3]],
        "renamed": [[4]],
        "not empty": True,
        "compacted": {
            "rows": True,
            "manifests": [True, 1],
            "files": True,
            "pruned": [[11]],
            "data files": [True, True, True],
            "after all": True,
        },
        "left": [],
        "past tables": ["copy", "orders"],
        "past": [[3]],
        "past views": ["recent"],
        "past is read only": True,
    }
