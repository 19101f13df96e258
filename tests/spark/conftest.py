"""One Spark session for this folder, with lakes on ``file:`` and ``s3:`` attached, and a proxy that misbehaves.

``TURNSTILE_URL`` (and ``TURNSTILE_S3_URL``, ``TURNSTILE_S3_ENDPOINT``) point the tests at servers that run already;
otherwise they use the embedded stacks of ``tests/conftest.py``, one for each kind of storage.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import turnstile_spark
from tests.support.flaky import Flaky

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs Spark and the stack."""
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.stack)


def _running(request: pytest.FixtureRequest, fixture: str) -> Any:
    stack = request.getfixturevalue(fixture)
    return SimpleNamespace(url=stack.url, token=stack.token or None, s3=stack.s3_endpoint)


@pytest.fixture(scope="session")
def file_server(request: pytest.FixtureRequest) -> Any:
    """A server whose tables are on ``file:``."""
    if url := os.environ.get("TURNSTILE_URL"):
        return SimpleNamespace(url=url, token=os.environ.get("TURNSTILE_TOKEN"), s3=None)
    return _running(request, "stack")


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> Any:
    """A server whose tables are on ``s3:``."""
    if url := os.environ.get("TURNSTILE_S3_URL"):
        return SimpleNamespace(url=url, token=None, s3=os.environ["TURNSTILE_S3_ENDPOINT"])
    if os.environ.get("TURNSTILE_URL"):
        pytest.skip("TURNSTILE_URL is set and TURNSTILE_S3_URL is not")
    return _running(request, "s3_stack")


@pytest.fixture(scope="session")
def lake(spark: Any, file_server: Any) -> Any:
    """The lake on ``file:``."""
    return turnstile_spark.attach(spark, "lake", file_server.url, token=file_server.token)


@pytest.fixture(scope="session")
def bucket(spark: Any, s3_server: Any) -> Any:
    """The lake on ``s3:``."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    for key, value in (("endpoint", s3_server.s3), ("path.style.access", "true"), ("connection.ssl.enabled", "false")):
        conf.set(f"fs.s3a.{key}", value)
    return turnstile_spark.attach(spark, "bucket", s3_server.url, token=s3_server.token)


@pytest.fixture(params=["file", "s3"])
def stored(request: pytest.FixtureRequest) -> Any:
    """A lake, once for each kind of storage."""
    return request.getfixturevalue("lake" if request.param == "file" else "bucket")


@pytest.fixture
def flaky(file_server: Any) -> Iterator[Flaky]:
    """A proxy in front of the server."""
    proxy = Flaky(file_server.url)
    yield proxy
    proxy.close()


@pytest.fixture
def shaky(spark: Any, flaky: Flaky, file_server: Any, lake: Any) -> Iterator[Any]:
    """A second lake on the same catalog, through the proxy, with little patience."""
    attached = turnstile_spark.attach(spark, "shaky", flaky.url, token=file_server.token, deadline=4.0)
    flaky.seen.clear()
    yield attached
    attached.detach()


@pytest.fixture
def name() -> str:
    """A table name nobody else uses, without its catalog."""
    return f"default.spark{os.getpid()}_{next(_numbers)}"


class Sql:
    """Short ways to run SQL and look at what is there."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def __call__(self, text: str) -> list[Any]:
        return self.spark.sql(text).collect()  # type: ignore[no-any-return]

    def values(self, text: str) -> list[Any]:
        """The rows as tuples, sorted."""
        return sorted(tuple(row) for row in self(text))

    def ids(self, table: str) -> list[int]:
        """The column ``id``, sorted."""
        return sorted(row.id for row in self(f"SELECT id FROM {table}"))


@pytest.fixture
def sql(spark: Any) -> Sql:
    """Runs SQL in the one session."""
    return Sql(spark)
