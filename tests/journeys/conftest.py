"""Turnstile in each of its ways of running; what needs a Spark session goes with the tests that
have one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.cli import TURNSTILE, Program
from tests.support.flaky import Flaky
from tests.support.journeys.lakes import Lakes
from tests.support.journeys.places import Place
from tests.support.journeys.stores import Stored
from tests.support.server import VENDING_ROLE, aws_client
from tests.support.stack import eventually
from tests.support.store.backends import DYNOXIDE, MINISTACK, OBJS_TABLE, REFS_TABLE
from tests.support.store.servers import Servers
from turnstile_server import Server

TOKEN = "a token of journeys"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "HTTP_PROXY": "",
}


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
    with _serving(Program(home), *_on_dynamodb(servers)) as url:
        yield Place(url, "", home.parent)


@pytest.fixture(scope="session")
def emulated(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The emulated deployment."""
    return Place(stack.url, stack.token or "", tmp_path_factory.mktemp("stack-work"))


@pytest.fixture(scope="session")
def store(servers: Servers) -> str:
    """The endpoint of an S3 store, with a bucket."""
    endpoint = str(servers.get(MINISTACK).url)
    s3 = aws_client("s3", endpoint)
    if "lake" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="lake")
    return endpoint


@pytest.fixture(scope="session")
def s3_up(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """``turnstile up`` with its tables in S3."""
    with closing(Flaky(store)) as own, closing(Flaky(store)) as clients:
        home = tmp_path_factory.mktemp("s3-up") / "home"
        program = Program(home, **KEYS, **_vending(store, clients))
        assert program.run("up", "--port", "0", *_in_s3(own)).returncode == 0
        yield Stored(Place(Server.attach(home).url, "", home.parent), clients, own, ("test", "test"))
        assert program.run("down").returncode == 0


@pytest.fixture(scope="session")
def s3_serve(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with closing(Flaky(store)) as own, closing(Flaky(store)) as clients:
        home = tmp_path_factory.mktemp("s3-serve") / "home"
        program = Program(home, **_vending(store, clients))
        with _serving(program, "--token", TOKEN, *_in_s3(own)) as url:
            yield Stored(Place(url, TOKEN, home.parent), clients, own, ("test", "test"))


@pytest.fixture(scope="session")
def s3_dynamodb(store: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with closing(Flaky(store)) as own, closing(Flaky(store)) as clients:
        home = tmp_path_factory.mktemp("s3-dynamodb") / "home"
        program = Program(home, **_vending(store, clients))
        with _serving(program, *_on_dynamodb(servers), *_in_s3(own)) as url:
            yield Stored(Place(url, "", home.parent), clients, own, ("test", "test"))


@pytest.fixture(scope="session")
def s3_emulated(s3_stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """The functions reach the emulator's S3 themselves."""
    place = Place(s3_stack.url, s3_stack.token or "", tmp_path_factory.mktemp("s3-stack-work"))
    keys = (s3_stack.env["AWS_ACCESS_KEY_ID"], s3_stack.env["AWS_SECRET_ACCESS_KEY"])
    with closing(Flaky(s3_stack.s3_endpoint)) as clients:
        yield Stored(place, clients, clients, keys)


@pytest.fixture(scope="session")
def s3_vending_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """An emulated deployment that gives clients keys."""
    from turnstile_local import Stack

    home = tmp_path_factory.mktemp("s3-vending-stack")
    with Stack.start(home, port=0, lake="s3://lake/warehouse", parameters={"VendingRole": VENDING_ROLE}) as stack:
        place = Place(stack.url, stack.token or "", tmp_path_factory.mktemp("s3-vending-work"))
        keys = (stack.env["AWS_ACCESS_KEY_ID"], stack.env["AWS_SECRET_ACCESS_KEY"])
        with closing(Flaky(stack.s3_endpoint)) as clients:
            yield Stored(place, clients, clients, keys)


def _vending(store: str, clients: Flaky) -> dict[str, str]:
    """Clients get sessions of a role, for S3 behind their proxy."""
    return {
        "TURNSTILE_VENDING_ROLE": VENDING_ROLE,
        "AWS_ENDPOINT_URL_STS": store,
        "TURNSTILE_CLIENT_S3_ENDPOINT": clients.url,
    }


def _in_s3(proxy: Flaky) -> tuple[str, ...]:
    return ("--lake", f"s3://lake/{uuid4().hex[:8]}", "--s3-endpoint", proxy.url)


def _on_dynamodb(servers: Servers) -> tuple[str, ...]:
    store = ("--store", f"dynamodb:{REFS_TABLE},{OBJS_TABLE}", "--store-endpoint", servers.get(DYNOXIDE).url or "")
    return ("--realm", f"r{uuid4().hex[:8]}", *store)


class _serving:
    """``turnstile serve`` in a process of its own; the block has its address."""

    def __init__(self, program: Program, *arguments: str) -> None:
        command = [TURNSTILE, "serve", "--port", "0", *arguments]
        self._log = (program.home.parent / "serve.log").open("w")
        self.process = subprocess.Popen(
            command, env={**program.environment, **KEYS}, stdout=subprocess.PIPE, stderr=self._log, text=True
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
