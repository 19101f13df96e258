"""Streams read from and write to a lake; their sessions have it too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException


@pytest.fixture
def source(stored: Any, sql: Any, name: str) -> str:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    for n in range(3):
        sql(f"INSERT INTO {table} VALUES ({n})")
    return table


def test_a_stream_copies_a_table_and_goes_on_where_it_stopped(
    source: str, sql: Any, spark: Any, tmp_path: Path
) -> None:
    def run() -> list[int]:
        stream = spark.readStream.table(source).writeStream.format("delta").trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path)).toTable(source + "sink").awaitTermination()
        return sql.ids(source + "sink")  # type: ignore[no-any-return]

    assert run() == [0, 1, 2]
    sql(f"INSERT INTO {source} VALUES (3)")
    assert run() == [0, 1, 2, 3]


def test_a_stream_reads_change_data(source: str, sql: Any, spark: Any, tmp_path: Path) -> None:
    sql(f"DELETE FROM {source} WHERE id = 1")
    stream = spark.readStream.option("readChangeFeed", "true").option("startingVersion", 1).table(source).writeStream
    query = source.replace(".", "_")
    stream.format("memory").queryName(query).trigger(availableNow=True).start().awaitTermination()
    assert sql.values(f"SELECT _change_type, id FROM {query}") == [
        ("delete", 1),
        ("insert", 0),
        ("insert", 1),
        ("insert", 2),
    ]


@pytest.mark.slow
def test_foreach_batch_writes_each_batch_once(source: str, sql: Any, spark: Any, tmp_path: Path) -> None:
    """The application's transaction id makes a repeated batch a no-op."""
    sql(f"CREATE TABLE {source}sink (id BIGINT)")
    seen = []

    def write(batch: Any, number: int) -> None:
        for _ in range(2):  # as after a failure between the write and the stream's own record of it
            batch.writeTo(source + "sink").option("txnAppId", "app").option("txnVersion", number).append()
        seen.append(batch.sparkSession.sql(f"SELECT count(*) AS n FROM {source}sink").collect()[0].n)

    stream = spark.readStream.table(source).writeStream.foreachBatch(write).trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert sql.ids(source + "sink") == [0, 1, 2]
    assert seen == [3]


def test_a_name_without_a_catalog_is_in_a_batch_what_it_is_in_the_session(
    lake: Any, sql: Any, spark: Any, name: str, tmp_path: Path
) -> None:
    schema = f"{name.split('.')[1]}batches"
    sql(f"CREATE SCHEMA lake.{schema}")
    sql(f"USE lake.{schema}")
    try:
        sql("CREATE TABLE source AS SELECT 1L AS id")
        stream = spark.readStream.table("source").writeStream.trigger(availableNow=True)
        stream.foreachBatch(lambda batch, _: batch.write.saveAsTable("sink"))
        stream.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    finally:
        sql("USE spark_catalog.default")
    assert lake.tables(schema) == ["sink", "source"]


def test_a_stream_in_another_format_gets_the_remedy_to_name_delta(
    lake: Any, sql: Any, spark: Any, name: str, tmp_path: Path
) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1L AS id")
    sql(f"CREATE TABLE lake.{name}sink (id BIGINT)")
    spark.conf.set("spark.sql.sources.default", "parquet")  # Spark's own default
    try:
        for sink in ("sink", "new"):
            stream = spark.readStream.table(f"lake.{name}").writeStream.trigger(availableNow=True)
            with pytest.raises(PySparkException, match=r"\.format\(\"delta\"\)"):
                stream.option("checkpointLocation", str(tmp_path / sink)).toTable(f"lake.{name}{sink}")
    finally:
        spark.conf.set("spark.sql.sources.default", "delta")


@pytest.mark.slow
def test_a_new_session_has_the_lake_and_its_streams_too(
    lake: Any, sql: Any, spark: Any, name: str, tmp_path: Path
) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    other = spark.newSession().newSession()
    other.sql(f"INSERT INTO lake.{name} VALUES (2)")
    assert sql.ids(f"lake.{name}") == [1, 2]
    stream = other.readStream.table(f"lake.{name}").writeStream.format("delta").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path)).toTable(f"lake.{name}sink").awaitTermination()
    assert sorted(row.id for row in other.table(f"lake.{name}sink").collect()) == [1, 2]
