"""Sail's tests of Unity Catalog, as its wheel has them, run against a server in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.downloads import Missing, alone, cache

if TYPE_CHECKING:
    from turnstile_server import Server

HERE: Final = Path(__file__).parent
PACKAGE: Final = "pysail.tests.spark.catalog.unity"
TABLES: Final = "__unitystorage/tables"
"""Where the tests look for managed tables, below their root."""


def python() -> Path:
    """Returns an interpreter with Sail and its tests; raises Missing where it cannot be made."""
    home = cache("sail-0.7.2")
    made = home / "bin" / "python"
    complete = home / "complete"
    uv = Path(sys.executable).with_name("uv")
    locked = HERE / "requirements.txt"
    with alone(home):
        if not complete.exists() or complete.read_bytes() != locked.read_bytes():
            for command in (
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
                [uv, "pip", "install", "--quiet", "--python", made, "--require-hashes", "-r", locked],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Missing(f"no environment with Sail: {done.stderr[-300:]}")
            complete.write_bytes(locked.read_bytes())
    return made


def run(interpreter: Path, server: Server, root: Path) -> dict[str, str]:
    """Returns the outcome of each test by its name: passed, failed or expected.

    ``root`` holds the server's lake, at ``TABLES``.
    """
    report = root / "report.xml"
    fixtures = {
        "unity_rest_url": f"{server.url}/api/2.1/unity-catalog",
        "unity_storage_root": str(root),
        "unity_container": "none",
    }
    environment = {**os.environ, "TURNSTILE_SAIL_FIXTURES": json.dumps(fixtures), "PYTHONPATH": str(HERE)}
    command = [interpreter, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-m", "integration", "-q"]
    done = subprocess.run(
        [*command, f"--junitxml={report}", "--pyargs", PACKAGE],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return {case.attrib["name"]: _outcome(case) for case in ET.parse(report).iter("testcase")}


def _outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "expected"
