"""Sail's tests of catalogs, as its wheel has them, run against a server in an environment of their
own."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.clients.sail.plugin import FIXTURES
from tests.support.downloads import environment

if TYPE_CHECKING:
    from turnstile_server import Server

HERE: Final = Path(__file__).parent
UNITY: Final = "pysail.tests.spark.catalog.unity"
ICEBERG: Final = "pysail.tests.spark.catalog.iceberg_rest"
TABLES: Final = "__unitystorage/tables"
"""Where the tests of Unity Catalog look for managed tables, below their root."""


def python() -> Path:
    """Returns an interpreter with Sail and its tests; raises Missing if it cannot be made."""
    return environment("sail", locked=HERE / "requirements.txt")


def unity(interpreter: Path, server: Server, root: Path) -> dict[str, str]:
    """Returns the outcome of each test of Unity Catalog by its name: passed, failed or expected.

    ``root`` holds the server's lake, at ``TABLES``.
    """
    fixtures = {
        "unity_rest_url": f"{server.url}/api/2.1/unity-catalog",
        "unity_storage_root": str(root),
        "unity_container": "none",
    }
    return _run(interpreter, UNITY, fixtures, root)


def iceberg(interpreter: Path, server: Server, s3: str, root: Path) -> dict[str, str]:
    """As ``unity``, of the tests of Iceberg's REST API, for a server whose lake is in a bucket of
    the emulator at ``s3``. Reports are in ``root``."""
    fixtures = {
        "iceberg_rest_endpoint": f"{server.url}/iceberg",
        "nessie_iceberg_rest_endpoint": f"{server.url}/iceberg",
        "seaweedfs_host_endpoint": s3,
        "_create_s3_bucket": "there",
    } | dict.fromkeys(("docker_network", "seaweedfs_container", "iceberg_rest_container", "nessie_container"), "none")
    return _run(interpreter, ICEBERG, fixtures, root)


def _run(interpreter: Path, package: str, fixtures: dict[str, Any], root: Path, *options: str) -> dict[str, str]:
    report = root / "report.xml"
    environment = {**os.environ, FIXTURES: json.dumps(fixtures), "PYTHONPATH": str(HERE)}
    command = [interpreter, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-m", "integration", "-q"]
    done = subprocess.run(
        [*command, *options, f"--junitxml={report}", "--pyargs", package],
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
