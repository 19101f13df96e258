"""Backends of the contract suite, each started once a session and only if a test asks for it.

``-m "not slow"`` leaves DynamoDB Local out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.store import backends, servers
from tests.support.store import places as storages
from tests.support.store.backends import FAKE, LOCAL_2, LOCAL_3, MINISTACK, REALM, Backend
from turnstile.store.ports import LogStorage

_NAMES = itertools.count()
_SKIPPED: list[str] = []

_REAL = [
    pytest.param(MINISTACK, id=MINISTACK),
    pytest.param(LOCAL_2, id=LOCAL_2, marks=pytest.mark.slow),
    pytest.param(LOCAL_3, id=LOCAL_3, marks=pytest.mark.slow),
]


class Servers:
    """Starts what is asked for and keeps it for the session."""

    def __init__(self, stack: ExitStack, folders: Path) -> None:
        self._stack, self._folders = stack, folders
        self._backends: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        if name not in self._backends:
            self._backends[name] = self._start(name)
        return self._backends[name]

    def _start(self, name: str) -> Backend:
        if name == FAKE:
            return Backend(name)
        folder = self._folders / name
        folder.mkdir(exist_ok=True)
        match name:
            case backends.MINISTACK:
                server = servers.ministack(folder)
            case backends.LOCAL_2:
                server = servers.dynamodb_local(servers.LOCAL_2, folder)
            case _:
                server = servers.dynamodb_local(servers.LOCAL_3, folder)
        backend = Backend(name, self._stack.enter_context(server))
        backend.make_tables()
        return backend


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        os.environ.setdefault(f"AWS_{name}", value)
    with ExitStack() as stack:
        yield Servers(stack, tmp_path_factory.mktemp("servers"))


def _get(running: Servers, name: str) -> Backend:
    try:
        return running.get(name)
    except servers.Missing as missing:
        _SKIPPED.append(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(params=[pytest.param(FAKE, id=FAKE), *_REAL])
def backend(request: pytest.FixtureRequest, running: Servers) -> Backend:
    """Every implementation, the fake included."""
    return _get(running, request.param)


@pytest.fixture(params=_REAL)
def service(request: pytest.FixtureRequest, running: Servers) -> Backend:
    """What speaks DynamoDB's API: for limits, capacity and streams, which the fake does not have."""
    return _get(running, request.param)


@pytest.fixture
def stack(running: Servers) -> Backend:
    """MiniStack alone: DynamoDB and S3 behind one endpoint."""
    return running.get(MINISTACK)


@pytest.fixture
def key() -> str:
    """A refs key of kind ``table`` that no other test uses."""
    return fresh_key()


def fresh_key(kind: str = "table") -> str:
    return f"{REALM}/{kind}/{next(_NAMES):06d}"


@pytest.fixture
def space() -> str:
    """An objs partition that no other test uses."""
    return f"{REALM}/{next(_NAMES):06d}"


@pytest.fixture(params=["fake", "file", "s3"])
def place(request: pytest.FixtureRequest, running: Servers, tmp_path: Path) -> storages.Place:
    """Every kind of log storage."""
    match request.param:
        case "fake":
            return storages.fake_place()
        case "file":
            return storages.file_place(tmp_path)
    return storages.s3_place(running.get(MINISTACK))


@pytest.fixture
def storage(place: storages.Place) -> LogStorage:
    """An empty table location."""
    return place.storages.open(place.location())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for reason in sorted(set(_SKIPPED)):
        terminalreporter.write_line(f"NOT CHECKED: {reason}", red=True, bold=True)
