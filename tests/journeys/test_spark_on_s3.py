"""Spark, and Delta's Java clients without it, with their tables in S3, in each way of running: as
``test_on_s3.py``."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import turnstile_spark
from tests.support.clients.delta_jvm import Client, Kernel, Table
from tests.support.fakes import delta
from tests.support.journeys.origins import SCHEMA, rows
from tests.support.journeys.stores import (
    LASTING,
    PASSING,
    Stored,
    check_after_a_lasting_fault,
    check_after_a_passing_fault,
)
from tests.support.server import REGION

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["s3_up", "s3_serve", "s3_dynamodb", "s3_emulated"])
def stored(request: pytest.FixtureRequest) -> Stored:
    place: Stored = request.getfixturevalue(request.param)
    return place


@pytest.fixture(scope="module")
def lake(spark: Any, stored: Stored) -> Iterator[Any]:
    """The lake of a server whose S3 Spark reaches by the proxy of clients."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    for name, value in _s3a(stored).items():
        conf.set(name, value)
    attached = turnstile_spark.attach(spark, "journeys_s3", stored.place.url, token=stored.place.token or None)
    attached.jvm.cls("org.apache.hadoop.fs.FileSystem").closeAll()
    yield attached
    attached.detach()


def _s3a(stored: Stored) -> dict[str, str]:
    """Settings of S3A, for the keys of the place."""
    return {
        "fs.s3a.endpoint": stored.clients.url,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": stored.keys[0],
        "fs.s3a.secret.key": stored.keys[1],
    }


class SparkTable:
    """A table of the lake, as a session uses it."""

    def __init__(self, spark: Any, lake: Any, stored: Stored) -> None:
        self._spark = spark
        self._name = f"{lake.name}.default.{stored.place.fresh('spark')}"
        spark.sql(f"CREATE TABLE {self._name} (id BIGINT)")
        self.append(1)

    def append(self, id: int) -> None:
        self._spark.sql(f"INSERT INTO {self._name} VALUES ({id})")

    def ids(self) -> list[int]:
        return sorted(row.id for row in self._spark.sql(f"SELECT id FROM {self._name}").collect())


class JavaTable:
    """A table of the plain client, as Delta's coordinator commits to it and its kernel reads it."""

    def __init__(self, spark: Any, lake: Any, stored: Stored) -> None:
        self._name = stored.place.fresh("java")
        with stored.lake() as plain:
            plain.create(f"default.{self._name}", SCHEMA).append(rows([1]))
        self._client = Client(spark.sparkContext._gateway, stored.place.url, stored.place.token)
        settings = _s3a(stored) | {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
        for name, value in settings.items():
            self._client.conf.set(name, value)
        self._client.store = self._client.new("io.delta.storage.S3SingleDriverLogStore", self._client.conf)
        self._files = pafs.S3FileSystem(
            endpoint_override=stored.clients.target, region=REGION, access_key=stored.keys[0], secret_key=stored.keys[1]
        )

    def append(self, id: int) -> None:
        """The data file passes no proxy: only the commit is Delta's work."""
        table = Table.existing(self._client, "default", self._name)
        _, latest = table.commits()
        name = f"{uuid.uuid4()}.parquet"
        path = f"{table.location.removeprefix('s3://')}/{name}"
        pq.write_table(rows([id]), path, filesystem=self._files)
        add = delta.add(name, 1, size=self._files.get_file_info(path).size)
        assert table.commit(latest + 1, add).getCommit().getVersion() == latest + 1

    def ids(self) -> list[int]:
        return sorted(Kernel(self._client).ids(f"default.{self._name}"))


TABLES: Final[dict[str, Callable[[Any, Any, Stored], SparkTable | JavaTable]]] = {
    "spark": SparkTable,
    "java": JavaTable,
}


@pytest.fixture
def table(request: pytest.FixtureRequest, spark: Any, lake: Any, stored: Stored) -> Iterator[SparkTable | JavaTable]:
    yield TABLES[request.param](spark, lake, stored)
    stored.clients.come_back()


OF_APPENDS: Final = {"spark": {"PUT": 3, "HEAD": 2, "GET": 1}, "java": {"PUT": 3, "HEAD": 12, "GET": 12}}
"""The requests to S3 of an append of one row. Spark writes a checksum, a data file and a staged
commit. Delta's coordinator also publishes in the background, in part for the append before; the
data file of its table is not counted."""
OF_READS: Final = {"spark": {"PUT": 1, "HEAD": 5, "GET": 6}, "java": {"PUT": 1, "HEAD": 30, "GET": 30}}
"""The requests to S3 of a read of two rows, of two files. The work of an append after its answer,
a checksum or its publishing, may be among them."""


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_read_and_an_append_send_no_more_requests_than_these(
    request: pytest.FixtureRequest, table: SparkTable | JavaTable, stored: Stored
) -> None:
    kind = request.node.callspec.params["table"]
    table.append(2)
    for act, most in ((table.ids, OF_READS), (partial(table.append, 3), OF_APPENDS)):
        stored.clients.seen.clear()
        act()
        assert not stored.clients.methods() - Counter(most[kind]), stored.clients.seen


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_rows_are_right_after_a_fault_that_passes(table: SparkTable | JavaTable, stored: Stored, fault: str) -> None:
    check_after_a_passing_fault(fault, stored.clients, table.append, table.ids)


@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_fault_that_lasts_is_an_error_and_afterwards_rows_are_right(
    table: SparkTable | JavaTable, stored: Stored, fault: str
) -> None:
    """Spark's is one line, with the kind of the error."""
    caught = check_after_a_lasting_fault(fault, stored.clients, table.append, table.ids)
    if isinstance(table, SparkTable):
        assert "TURNSTILE_STORAGE" in str(caught.value).splitlines()[0], str(caught.value)[:1000]
