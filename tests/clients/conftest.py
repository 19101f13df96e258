"""Servers of this folder beside the usual one: one that publishes nothing, one that vends keys, one
that asks for tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clients import kernel_rs
from tests.support.clients.engine import READER_TOKEN
from tests.support.downloads import Missing
from tests.support.server import VENDING_ROLE, resting_background, server_on_s3
from tests.support.store.backends import MINISTACK

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

    from tests.support.flaky import Flaky
    from tests.support.server import ServerOnS3
    from tests.support.store.servers import Servers
    from turnstile_server import Server

JAVA = {"jvm", "spark"}
SLOW = {"jvm", "program", "vending_server"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a JVM goes with the tests that have a Spark session; what is compiled or has a JVM
    of its own is slow."""
    for item in items:
        if "/tests/clients/" in str(item.path):
            fixtures = set(getattr(item, "fixturenames", ()))
            if fixtures & SLOW:
                item.add_marker(pytest.mark.slow)
            if fixtures & JAVA:
                item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def held_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that ratifies and never publishes: what a client reads, it reads from staged
    commits."""
    from turnstile_server import Server

    with Server.start(tmp_path_factory.mktemp("held"), 0) as running, resting_background(running):
        yield running


@pytest.fixture(scope="session")
def vending_server(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOnS3]:
    """A server with its tables in S3, which gives clients keys: sessions of a role, narrowed to a
    table."""
    endpoint = servers.get(MINISTACK).url
    role = {"TURNSTILE_VENDING_ROLE": VENDING_ROLE}
    with server_on_s3(tmp_path_factory.mktemp("vending"), endpoint, variables=role) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks every request for its token; beside the operator's there is a reader's."""
    from turnstile_server import Server

    reader = {hashlib.sha256(READER_TOKEN.encode()).hexdigest(): {"name": "reader", "roles": []}}
    home = tmp_path_factory.mktemp("guarded")
    environment = {"TURNSTILE_TOKENS": json.dumps(reader)}
    with Server.start(home, 0, "a token for tests", environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def jvm() -> Iterator[JavaGateway]:
    """A JVM with Delta's released clients on its class path."""
    from tests.support.clients import delta_jvm

    gateway = delta_jvm.start()
    yield gateway
    gateway.shutdown()


@pytest.fixture
def flaky(server: Server) -> Iterator[Flaky]:
    """A proxy in front of the usual server, which loses answers on request."""
    from tests.support.flaky import Flaky

    proxy = Flaky(server.url)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return kernel_rs.build()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: delta-kernel-rs; {missing}")
