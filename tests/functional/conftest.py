"""What the tests of functions share: our API on fakes, and a catalog on real tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.world import fake_world
from tests.support.store.backends import DYNOXIDE, MINISTACK, Backend
from tests.support.store.realm import StoredRealm
from tests.support.store.servers import Servers
from tests.support.v1 import CatalogApi, catalog_http
from turnstile.catalog import services as bootstrap


@pytest.fixture
def api() -> CatalogApi:
    """Our own API, with the catalog ``main`` and its namespace ``default``."""
    world = fake_world()
    bootstrap.ensure(world, lake_root="file:///lake")
    return CatalogApi(catalog_http(world), world)


@pytest.fixture(
    params=[pytest.param(DYNOXIDE, id=DYNOXIDE), pytest.param(MINISTACK, id=MINISTACK, marks=pytest.mark.slow)]
)
def backend(request: pytest.FixtureRequest, servers: Servers) -> Backend:
    """Real tables."""
    return servers.get(request.param)


@pytest.fixture
def stored_realm(backend: Backend, tmp_path: Path) -> StoredRealm:
    """A realm of its own on real tables."""
    return StoredRealm(backend, tmp_path)
