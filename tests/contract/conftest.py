"""Backends of the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.store import backends as storages
from tests.support.store.backends import DYNOXIDE, FAKE, MINISTACK, MOTO, REALM, SQLITE, Backend
from tests.support.store.rows import _NAMES, fresh_key
from tests.support.store.servers import Servers
from turnstile.store.ports import LogStorage

# MiniStack's DynamoDB is slow: the tests of the emulated deployment use it all the same.
_REAL = [pytest.param(DYNOXIDE, id=DYNOXIDE), pytest.param(MINISTACK, id=MINISTACK, marks=pytest.mark.slow)]


@pytest.fixture(params=[pytest.param(FAKE, id=FAKE), pytest.param(SQLITE, id=SQLITE), *_REAL])
def backend(request: pytest.FixtureRequest, servers: Servers) -> Backend:
    """Every implementation, the fake included."""
    return servers.get(request.param)


@pytest.fixture(params=_REAL)
def service(request: pytest.FixtureRequest, servers: Servers) -> Backend:
    """What speaks DynamoDB's API: for limits, capacity and streams, which the fake does not
    have."""
    return servers.get(request.param)


@pytest.fixture
def stack(servers: Servers) -> Backend:
    """MiniStack alone: DynamoDB and S3 behind one endpoint."""
    return servers.get(MINISTACK)


@pytest.fixture
def key() -> str:
    """A refs key of kind ``table`` that no other test uses."""
    return fresh_key()


@pytest.fixture
def space() -> str:
    """An objs partition that no other test uses."""
    return f"{REALM}/{next(_NAMES):06d}"


@pytest.fixture(params=["fake", "file", "s3", pytest.param("s3-moto", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> storages.Place:
    """Every kind of log storage."""
    match request.param:
        case "fake":
            return storages.fake_place()
        case "file":
            return storages.file_place(tmp_path)
    return storages.s3_place(servers.get(MOTO if request.param == "s3-moto" else MINISTACK))


@pytest.fixture
def storage(place: storages.Place) -> LogStorage:
    """An empty table location."""
    return place.storages.open(place.location())
