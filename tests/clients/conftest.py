"""Two stacks of this folder: the usual one, and one whose publisher rests, so that commits stay unpublished."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clients import kernel_rs
from tests.support.clients.engine import READER_TOKEN
from tests.support.downloads import Missing
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

    from tests.support.flaky import Flaky
    from turnstile_local import Stack

FUNCTIONS = ROOT / "functions"
JAVA = {"jvm", "spark"}
RESTING = "def handle(event, context):\n    return {}\non_refs = sweep = collect = handle\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs a stack; what needs a JVM goes with the tests that have a Spark session."""
    for item in items:
        if "/tests/clients/" in str(item.path):
            item.add_marker(pytest.mark.stack)
            item.add_marker(pytest.mark.slow)
            if JAVA & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def held_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that ratifies and never publishes: what a client reads, it reads from staged commits."""
    from turnstile_local import Stack

    home = tmp_path_factory.mktemp("held")
    for name in ("commit", "catalog"):
        shutil.copytree(FUNCTIONS / name, home / "functions" / name)
    for name in ("publish", "gc"):
        (home / "functions" / name).mkdir()
        (home / "functions" / name / "app.py").write_text(RESTING)
    with Stack.start(home / "stack", port=0, functions=home / "functions") as running:
        yield running


@pytest.fixture(scope="session")
def vending_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with its tables in the emulated S3, which gives clients keys: sessions of a role, narrowed to a table."""
    from turnstile_local import Stack

    home, role = tmp_path_factory.mktemp("vending"), "arn:aws:iam::000000000000:role/vending"
    with Stack.start(home, port=0, lake="s3://lake/warehouse", parameters={"VendingRole": role}) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that asks every request for its token; beside the operator's there is a reader's."""
    from turnstile_local import Stack

    reader = {hashlib.sha256(READER_TOKEN.encode()).hexdigest(): {"name": "reader", "roles": []}}
    home, parameters = tmp_path_factory.mktemp("guarded"), {"StaticTokens": json.dumps(reader)}
    with Stack.start(home, port=0, token="a token for tests", parameters=parameters) as running:
        yield running


@pytest.fixture(scope="session")
def jvm() -> Iterator[JavaGateway]:
    """A JVM with Delta's released clients on its class path."""
    from tests.support.clients import delta_jvm

    gateway = delta_jvm.start()
    yield gateway
    gateway.shutdown()


@pytest.fixture
def flaky(stack: Stack) -> Iterator[Flaky]:
    """A proxy in front of the usual stack, which loses answers on request."""
    from tests.support.flaky import Flaky

    proxy = Flaky(stack.url)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return kernel_rs.build()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: delta-kernel-rs; {missing}")
