"""Spark 4.2 with Unity Catalog's own connector, ``io.unitycatalog.spark.UCSingleCatalog``, and
nothing of Turnstile's.

The connector's jar for this Spark is in no registry this project installs from, so these tests run
where somebody has it: ``TURNSTILE_UC_CONNECTOR`` names the file. ``docs/clients.md`` says what they
saw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from tests.support.clients.requests import Requests
from tests.support.repository import ROOT
from turnstile_spark.session import EXCLUDED, packages_of

if TYPE_CHECKING:
    from turnstile_server import Server

JAR = os.environ.get("TURNSTILE_UC_CONNECTOR", "")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not JAR, reason="NOT TESTED: UCSingleCatalog; TURNSTILE_UC_CONNECTOR names no jar"),
]

SAW = {
    "create": ["id", "name"],
    "insert": [0, 1, 2],
    "one_insert": None,
    "one_read": [0, 1, 2, 3],
    "merge": [[0, "n0"], [1, "merged"], [2, "n2"], [3, "n3"], [9, "new"]],
    "update_and_delete": [1, 2, 3, 90],
    "time_travel": [0, 1],
    "history": [7, 6, 5, 4, 3, 2, 1, 0],
    "alter": ["id", "name", "more"],
    "race": [[0, 1, 2, 3, 4, 10, 11, 12, 13, 14], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
    "streaming": [[1, 2, 3, 90], [1, 2, 3, 90, 1000]],
    "replace": [[0, 1, 2, 3], 12],
    "create_as_select": [0, 1, 2],
    "external": [7],
    "schemas": [True, False],
    "drop": [True, False],
}


S3A_OPTIONS = {
    "spark.jars.packages": ",".join(packages_of(pyspark.__version__, s3=True)),
    "spark.jars.excludes": ",".join(EXCLUDED),
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
}


@pytest.fixture(scope="module", params=["delta-v1", "preview", "s3"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, tuple[Any, Counter[str]]]:
    """What each step saw, and which requests it made: over either API, and on S3 with keys that the
    server gave."""
    options = {"deltaRestApi.enabled": str(request.param != "preview").lower()}
    server: Server = request.getfixturevalue("vending_server" if request.param == "s3" else "server")
    if request.param == "s3":
        options |= {**S3A_OPTIONS, "spark.hadoop.fs.s3a.endpoint": server.s3_endpoint}
    work = tmp_path_factory.mktemp("uc")
    asked = Requests(server)
    found = {}
    command = [
        sys.executable,
        "-m",
        "tests.support.clients.uc_connector_story",
        server.url,
        server.token,
        JAR,
        str(work),
    ]
    command += [f"{key}={value}" for key, value in options.items()]
    pipe = subprocess.PIPE
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=nowhere) as story:
        assert story.stdin is not None and story.stdout is not None
        for _ in SAW:
            story.stdin.write("\n")
            story.stdin.flush()
            step = json.loads(story.stdout.readline())
            found[step["step"]] = (step.get("error", step.get("saw")), asked.seen())
    print(json.dumps({step: requests for step, (_, requests) in found.items()}))
    return found


@pytest.mark.parametrize("step", SAW)
def test_a_session_with_the_connector_sees_what_it_should(told: Mapping[str, Any], step: str) -> None:
    saw, requests = told[step]
    assert saw == SAW[step]
    assert not [name for name in requests if name.endswith((" 500", " 501", " 502", " 503"))], requests


def test_an_insert_costs_as_few_requests_as_at_the_reference(told: Mapping[str, Any]) -> None:
    """Three loads and an update, as recorded there; publishing in the background loads once
    more."""
    requests = told["one_insert"][1]
    assert requests["update"] + requests["POST /delta/preview/commits"] == 1
    assert sum(requests.values()) <= 10, requests
    assert sum(told["one_read"][1].values()) <= 8
