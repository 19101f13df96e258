"""Reads that the server plans are those of the table: rows equal, whatever its files are like, and
no log of the table is opened for them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from turnstile_spark.errors import TurnstileError

pytestmark = pytest.mark.usefixtures("planned_in_stages")

ROWS = 400


@pytest.fixture(scope="module")
def table(spark: Any, lake: Any) -> Any:
    """A table with column mapping, files in partitions with blanks in their names, deletion
    vectors, and times."""
    own = f"planned_{uuid4().hex[:8]}"
    name = f"lake.default.{own}"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, part STRING, day DATE, at TIMESTAMP, amount DECIMAL(30, 4), nested STRUCT<x: "
        f"INT>)"
        " PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')"
    )
    for start in range(0, ROWS, 100):
        spark.range(start, start + 100, 1, 1).selectExpr(
            "id", "concat('a b/', id % 2) AS part", "date_add(DATE'2026-01-01', CAST(id AS INT)) AS day",
            "timestamp_micros(1767225600000000 + id * 3600000000) AS at", "CAST(id AS DECIMAL(30, 4)) / 7 AS amount",
            "named_struct('x', CAST(id AS INT)) AS nested",
        ).write.mode("append").insertInto(name)  # fmt: skip
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN amount TO price")
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    return lake.table(f"default.{own}")


def rows(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.select("id", "part", "day", "at", "price", "nested.x").collect()))


@pytest.mark.parametrize(
    "where",
    [
        None,
        pytest.param("id BETWEEN 120 AND 130", marks=pytest.mark.slow),
        "part = 'a b/1' AND nested.x < 150",
        pytest.param("day = '2026-02-14' OR day >= DATE'2027-01-30'", marks=pytest.mark.slow),
        pytest.param("price > 50.5 AND NOT (id IN (360, 361) OR day < '2026-06-01')", marks=pytest.mark.slow),
        pytest.param("at >= '2026-01-10 02:30:00' AND at < TIMESTAMP'2026-01-10 05:30:00'", marks=pytest.mark.slow),
        pytest.param("id % 7 = 2 AND length(part) > 3 AND id > 250", marks=pytest.mark.slow),
        pytest.param("part IS NULL", marks=pytest.mark.slow),
    ],
)
def test_rows_are_those_of_the_table(spark: Any, table: Any, where: str | None) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set(
        "spark.sql.session.timeZone", "Asia/Kolkata"
    )  # texts of times mean what the session says, also in a plan
    try:
        whole = table.to_df() if where is None else table.to_df().where(where)
        frame = table.planned(where)
        assert rows(frame) == rows(whole)
        assert frame.count() == whole.count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_only_the_planned_files_are_read_and_no_log_but_the_plans(table: Any) -> None:
    every = table.planned()
    some = table.planned("id BETWEEN 120 AND 130")
    assert 0 < len(some.inputFiles()) < len(every.inputFiles()) == len(table.to_df().inputFiles())
    assert table.name not in some._jdf.queryExecution().analyzed().toString()


def test_an_earlier_version_is_planned_with_its_columns(table: Any) -> None:
    first = table.planned("id < 100", version=1)
    assert "amount" in first.columns and "price" not in first.columns
    assert first.count() == 100


def test_a_predicate_of_no_column_and_reads_in_a_transaction_are_refused(table: Any, lake: Any) -> None:
    with pytest.raises(Exception, match="nothing"):
        table.planned("nothing = 1")
    with pytest.raises(TurnstileError, match="by its name"), lake.transaction():
        table.planned()


def test_a_table_on_s3_is_planned_with_its_deletion_vectors(spark: Any, bucket: Any, name: str) -> None:
    table = f"bucket.{name}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, part STRING) PARTITIONED BY (part)")
    spark.sql(f"INSERT INTO {table} SELECT id, concat('a b/', id % 2) FROM range(100)")
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    frame = bucket.table(name).planned("part = 'a b/1' AND id < 50")
    assert sorted(row.id for row in frame.collect()) == [n for n in range(1, 50, 2) if n % 10 != 3]
    assert all(file.startswith("s3a://") for file in frame.inputFiles())
