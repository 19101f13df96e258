"""How many requests Spark sends to S3, by kind, counted by a proxy before the store; and what it
does not ask again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import turnstile_spark
from benchmarks.counting_proxy import CountingProxy

SWITCH = "spark.databricks.delta.writeChecksumFile.enabled"
SAME_FEATURES = """TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', 'delta.enableDeletionVectors' = 'true',
    'delta.feature.vacuumProtocolCheck' = 'supported')"""
#: Of one warm INSERT of one row. HEAD data: Spark and Delta each ask for the size of the file that
#: they wrote. LIST log: the transaction's start. PUT log: the commit's own file, and the checksum
#: when the statement is over.
OF_AN_INSERT = {("HEAD", "data"): 2, ("PUT", "data"): 1, ("LIST", "log"): 1, ("PUT", "log"): 2}


@pytest.fixture
def counted(bucket: Any, spark: Any, s3_server: Any) -> Iterator[CountingProxy]:
    """The proxy through which all file systems on S3 go that are opened from now on."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    file_systems = bucket.jvm.cls("org.apache.hadoop.fs.FileSystem")
    with CountingProxy(s3_server.s3) as proxy:
        conf.set("fs.s3a.endpoint", proxy.url)
        file_systems.closeAll()
        yield proxy
        conf.set("fs.s3a.endpoint", s3_server.s3)
        file_systems.closeAll()


@pytest.fixture
def table(bucket: Any, sql: Any, name: str) -> str:
    """A table with three rows, one for each of its versions after the first."""
    sql(f"CREATE TABLE bucket.{name} (id BIGINT)")
    for number in range(3):
        sql(f"INSERT INTO bucket.{name} VALUES ({number})")
    return name


def requests_of(proxy: CountingProxy, lake: Any, sql: Any, statement: str) -> Counter[tuple[str, str]]:
    lake.context.checksums.flush()
    proxy.clear()
    sql(statement)
    lake.context.checksums.flush()
    return proxy.counts()


def test_an_insert_sends_no_more_requests_than_these(bucket: Any, counted: CountingProxy, sql: Any, table: str) -> None:
    counts = requests_of(counted, bucket, sql, f"INSERT INTO bucket.{table} VALUES (3)")
    surplus = counts - Counter(OF_AN_INSERT)
    assert not surplus, [(r.kind, r.operation, r.path) for r in counted.requests() if (r.kind, r.area) in surplus]
    assert sql.ids(f"bucket.{table}") == [0, 1, 2, 3]


def test_an_insert_sends_a_quarter_of_the_requests_of_a_path_table(
    bucket: Any, counted: CountingProxy, sql: Any, table: str
) -> None:
    path = f"delta.`s3a://lake/paths/{table}`"
    sql(f"CREATE TABLE {path} (id BIGINT) USING delta {SAME_FEATURES}")
    for number in range(3):
        sql(f"INSERT INTO {path} VALUES ({number})")
    of_path = requests_of(counted, bucket, sql, f"INSERT INTO {path} VALUES (3)")
    of_lake = requests_of(counted, bucket, sql, f"INSERT INTO bucket.{table} VALUES (3)")
    assert of_lake.total() * 4 <= of_path.total(), (of_lake, of_path)


def test_a_load_of_the_version_that_delta_holds_lists_nothing(
    bucket: Any, counted: CountingProxy, sql: Any, table: str
) -> None:
    """I6: the server has said that it is the latest."""
    sql(f"SELECT * FROM bucket.{table}")
    assert requests_of(counted, bucket, sql, f"DESCRIBE TABLE bucket.{table}") == Counter()


def test_a_checksum_in_the_background_is_what_delta_reads(
    bucket: Any, counted: CountingProxy, spark: Any, sql: Any, table: str
) -> None:
    bucket.context.checksums.flush()
    delta_log = bucket.context.delta_logs.of(bucket.table(table).id)
    checksum = delta_log.readChecksum(3, getattr(delta_log, "readChecksum$default$2")())
    assert checksum.isDefined()
    assert checksum.get().numFiles() == len(spark.table(f"bucket.{table}").inputFiles()) == 3
    assert checksum.get().txnId().get() == bucket.table(table).commits(3, 3)[0].txn_id
    written = [r for r in counted.requests() if r.path.endswith("3.crc") and r.kind not in ("HEAD", "GET")]
    assert [(request.kind, request.operation) for request in written] == [("PUT", "op_createfile")], "by one request"


def test_a_session_with_keys_of_its_own_asks_for_none(bucket: Any, counted: CountingProxy, table: str) -> None:
    assert bucket.api.http.requests["load"] > 0
    assert "credentials" not in bucket.api.http.requests


def test_without_checksums_in_the_session_none_is_written(
    bucket: Any, counted: CountingProxy, spark: Any, sql: Any, table: str
) -> None:
    spark.conf.set(SWITCH, "false")
    try:
        requests_of(counted, bucket, sql, f"INSERT INTO bucket.{table} VALUES (3)")
    finally:
        spark.conf.unset(SWITCH)
    assert not [request for request in counted.requests() if request.path.endswith(".crc") and request.kind == "PUT"]


def test_a_detached_lake_has_written_its_checksums(
    counted: CountingProxy, spark: Any, s3_server: Any, sql: Any, table: str
) -> None:
    counted.latency = {"": 0.05}
    with turnstile_spark.attach(spark, "leaving", s3_server.url, token=s3_server.token):
        sql(f"INSERT INTO leaving.{table} VALUES (3)")
    assert [r.status for r in counted.requests() if r.kind == "PUT" and r.path.endswith("4.crc")] == [200]
