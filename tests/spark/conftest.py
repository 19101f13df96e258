"""One Spark session for this folder, with lakes on ``file:`` and ``s3:`` attached, and a proxy that
misbehaves.

``TURNSTILE_URL`` (and ``TURNSTILE_S3_URL``, ``TURNSTILE_S3_ENDPOINT``) point the tests at servers
that run already; otherwise they use the servers of ``tests/conftest.py``, one for each kind of
storage.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import turnstile_spark
from tests.support.flaky import Flaky
from turnstile_client import connect

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs Spark; tests that need an object store as well are slow."""
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)
            stored = getattr(item, "callspec", None) and item.callspec.params.get("stored")
            if stored == "s3" or {"bucket", "s3_server"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def file_server(request: pytest.FixtureRequest) -> Any:
    """A server with tables on ``file:``."""
    if url := os.environ.get("TURNSTILE_URL"):
        return SimpleNamespace(url=url, token=os.environ.get("TURNSTILE_TOKEN"), s3=None)
    server = request.getfixturevalue("server")
    return SimpleNamespace(url=server.url, token=server.token or None, s3=None)


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> Any:
    """A server with tables on ``s3:``."""
    if url := os.environ.get("TURNSTILE_S3_URL"):
        return SimpleNamespace(url=url, token=None, s3=os.environ["TURNSTILE_S3_ENDPOINT"], env=os.environ)
    if os.environ.get("TURNSTILE_URL"):
        pytest.skip("TURNSTILE_URL is set and TURNSTILE_S3_URL is not")
    server = request.getfixturevalue("server_on_s3")
    return SimpleNamespace(url=server.url, token=server.token or None, s3=server.s3_endpoint, env=server.env)


@pytest.fixture(scope="session")
def lake(spark: Any, file_server: Any) -> Any:
    """The lake on ``file:``."""
    return turnstile_spark.attach(spark, "lake", file_server.url, token=file_server.token)


@pytest.fixture(scope="session")
def bucket(spark: Any, s3_server: Any) -> Any:
    """The lake on ``s3:``."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    keys = {"access.key": s3_server.env["AWS_ACCESS_KEY_ID"], "secret.key": s3_server.env["AWS_SECRET_ACCESS_KEY"]}
    plain = {"endpoint": s3_server.s3, "path.style.access": "true", "connection.ssl.enabled": "false"}
    for key, value in (plain | keys).items():
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
    """An unused table name, without its catalog."""
    return f"default.spark{os.getpid()}_{next(_numbers)}"


class Sql:
    """Short ways to run SQL and read the result."""

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

    def names(self, table: str, lake: str = "lake") -> set[str]:
        """The tables with names that begin as the name of ``table``, without that beginning."""
        namespace, _, prefix = table.rpartition(".")
        rows = self(f"SHOW TABLES IN {lake}.{namespace} LIKE '{prefix}*'")
        return {row.tableName.removeprefix(prefix) for row in rows}


@pytest.fixture
def sql(spark: Any) -> Sql:
    """Runs SQL in the one session."""
    return Sql(spark)


@pytest.fixture(scope="session")
def create(file_server: Any) -> Iterator[Callable[..., None]]:
    """Creates a table with a column ``id``, and appends rows to it in one commit. By the plain
    client, which takes a tenth of the time of Spark."""
    with connect(file_server.url, token=file_server.token) as client:

        def table(name: str, *ids: int) -> None:
            made = client.create(name, pa.schema([("id", pa.int64())]))
            if ids:
                made.append(pa.table({"id": pa.array(ids, pa.int64())}))

        yield table


@pytest.fixture
def two(lake: Any, create: Any, name: str) -> tuple[str, str]:
    """Two tables with one row each, without their catalog."""
    tables = f"{name}_a", f"{name}_b"
    for table in tables:
        create(table, 0)
    return tables


@pytest.fixture
def log_of(sql: Any) -> Callable[[str], Path]:
    """Where the log of a table without its catalog is, on the local disk."""
    return lambda table: Path(sql(f"DESCRIBE DETAIL lake.{table}")[0].location.removeprefix("file:")) / "_delta_log"
