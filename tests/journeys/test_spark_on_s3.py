"""Spark with its tables in S3: as ``test_on_s3.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import turnstile_spark
from tests.support.journeys.stores import LASTING, PASSING, Stored

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(spark: Any, s3_up: Stored) -> Iterator[Any]:
    """The lake of a server whose S3 Spark reaches by the proxy of clients."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    settings = {
        "endpoint": s3_up.clients.url,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": s3_up.keys[0],
        "secret.key": s3_up.keys[1],
    }
    for name, value in settings.items():
        conf.set(f"fs.s3a.{name}", value)
    attached = turnstile_spark.attach(spark, "journeys_s3", s3_up.place.url)
    attached.jvm.cls("org.apache.hadoop.fs.FileSystem").closeAll()
    yield attached
    attached.detach()


@pytest.fixture
def table(lake: Any, spark: Any, s3_up: Stored) -> Iterator[str]:
    name = f"{lake.name}.default.{s3_up.place.fresh('spark')}"
    spark.sql(f"CREATE TABLE {name} (id BIGINT)")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    yield name
    s3_up.clients.come_back()


def ids(spark: Any, table: str) -> list[int]:
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {table}").collect())


@pytest.mark.parametrize("fault", PASSING)
def test_rows_are_right_after_a_fault_that_passes(s3_up: Stored, spark: Any, table: str, fault: str) -> None:
    PASSING[fault](s3_up.clients)
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert s3_up.clients.rules[0].times == 0
    s3_up.clients.lose_answers("GET /lake/")
    assert ids(spark, table) == [1, 2]


@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_that_lasts_is_one_line_and_afterwards_rows_are_right(
    s3_up: Stored, spark: Any, table: str, fault: str
) -> None:
    LASTING[fault](s3_up.clients)
    with pytest.raises(Exception) as caught:
        spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert "TURNSTILE_STORAGE" in str(caught.value).splitlines()[0], str(caught.value)[:1000]
    s3_up.clients.come_back()
    assert ids(spark, table) == [1]
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    assert ids(spark, table) == [1, 3]
