"""Real Iceberg clients against a server."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.support.downloads import Missing
from tests.support.iceberg import spark41
from tests.support.iceberg.pyarrow_tables import Connect

if TYPE_CHECKING:
    from turnstile_server import Server

_numbers = itertools.count(1)


@pytest.fixture
def connect(server: Server) -> Connect:
    """Makes PyIceberg clients of catalog ``main``, as a user would."""

    def made(**more: Any) -> RestCatalog:
        return RestCatalog("main", uri=f"{server.url}/iceberg", warehouse="main", **more)

    return made


@pytest.fixture
def namespace(connect: Connect) -> str:
    """A namespace that nobody else uses."""
    name = f"py{next(_numbers)}"
    connect().create_namespace(name, {"owner": "tests"})
    return name


@pytest.fixture(scope="session")
def python() -> Path:
    """The environment's interpreter; the test is skipped, with the reason, where it cannot be
    made."""
    try:
        return spark41.python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: Iceberg's Spark: {missing}")
