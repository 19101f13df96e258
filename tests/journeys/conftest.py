"""Turnstile in each of its ways of running; what needs a Spark session goes with the tests that
have one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.cli import TURNSTILE, Program
from tests.support.journeys.lakes import Lakes
from tests.support.journeys.places import Place
from tests.support.stack import eventually
from tests.support.store.backends import DYNOXIDE, OBJS_TABLE, REFS_TABLE
from tests.support.store.servers import Servers
from turnstile_server import Server

TOKEN = "a token of journeys"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/journeys/" in str(item.path) and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """``turnstile up``, as a user types it."""
    home = tmp_path_factory.mktemp("up") / "home"
    program = Program(home)
    assert program.run("up", "--port", "0").returncode == 0
    yield Place(Server.attach(home).url, "", home.parent)
    assert program.run("down").returncode == 0


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """``turnstile serve`` in the foreground, which asks for a token."""
    home = tmp_path_factory.mktemp("serve") / "home"
    with _serving(Program(home), "--token", TOKEN) as url:
        yield Place(url, TOKEN, home.parent)


@pytest.fixture(scope="session")
def dynamodb(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The same on two tables of DynamoDB's API."""
    home = tmp_path_factory.mktemp("dynamodb") / "home"
    backend = servers.get(DYNOXIDE)
    store = ("--store", f"dynamodb:{REFS_TABLE},{OBJS_TABLE}", "--store-endpoint", backend.url or "")
    with _serving(Program(home), "--realm", f"r{uuid4().hex[:8]}", *store) as url:
        yield Place(url, "", home.parent)


@pytest.fixture(scope="session")
def emulated(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The emulated deployment."""
    return Place(stack.url, stack.token or "", tmp_path_factory.mktemp("stack-work"))


class _serving:
    """``turnstile serve`` in a process of its own; the block has its address."""

    def __init__(self, program: Program, *arguments: str) -> None:
        command = [TURNSTILE, "serve", "--port", "0", *arguments]
        keys = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "HTTP_PROXY": "",
        }
        self._log = (program.home.parent / "serve.log").open("w")
        self.process = subprocess.Popen(
            command, env={**program.environment, **keys}, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def __enter__(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        url = found[0]
        eventually(lambda: _answers(url), what="it answers")
        return url

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def lakes(request: pytest.FixtureRequest, spark: Any) -> Iterator[Lakes]:
    with ExitStack() as stack:
        yield Lakes(request, spark, stack)
