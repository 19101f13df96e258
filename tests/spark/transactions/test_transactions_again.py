"""Transactions that are run again when they lose: functions, scripts, micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict

pytestmark = pytest.mark.slow  # transactions that run several times


def disturbed(lake: Any, sql: Any, table: str, times: int) -> Any:
    """A function that writes row 0 of ``table`` anew from another thread, the first ``times`` times
    that it is called."""
    left = [times]

    def disturb() -> None:
        if left[0] > 0:
            left[0] -= 1
            elsewhere(lambda: sql(f"UPDATE lake.{table} SET id = id WHERE id = 0"))

    return disturb


def test_i8_what_lost_is_run_again_from_a_new_cut(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    disturb = disturbed(lake, sql, a, 2)

    def move(txn: Any) -> Any:
        sql(f"INSERT INTO lake.{b} SELECT count(*) FROM lake.{a}")
        disturb()
        sql(f"DELETE FROM lake.{a} WHERE id = 0")
        return txn

    txn = lake.retry(move)
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([], [0, 1])
    assert (txn.summary().retries, txn.state) == (2, "committed")


def test_i8_runs_are_bounded_and_other_errors_end_them(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    runs = []

    @lake.transactional(attempts=3)
    def loses() -> None:
        runs.append(1)
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"DELETE FROM lake.{a}")
        elsewhere(lambda: sql(f"UPDATE lake.{a} SET id = id + 1"))

    with pytest.raises(TransactionConflict):
        loses()
    assert len(runs) == 3

    @lake.transactional
    def outer() -> None:
        runs.append(1)
        inner(7)
        raise KeyError("ours")

    @lake.transactional
    def inner(value: int) -> None:
        sql(f"INSERT INTO lake.{b} VALUES ({value})")

    with pytest.raises(KeyError):
        outer()
    assert len(runs) == 4
    assert sql.ids(f"lake.{b}") == [0]
    inner(8)
    assert sql.ids(f"lake.{b}") == [0, 8]
    with pytest.raises(ValueError, match="at least 1"):
        lake.retry(lambda _: None, attempts=0)


def test_i8_a_script_is_a_transaction(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    disturb = disturbed(lake, sql, a, 1)
    original = lake._runner._spark.sql
    lake._runner._spark.sql = lambda text: (original(text), disturb())[0]
    try:
        last = lake.sql(
            f"""-- BEGIN ATOMIC; in a comment
            begin atomic
              DECLARE n BIGINT DEFAULT 5;
              INSERT INTO lake.{a} SELECT length('; END; ''x') /* ; */;
              UPDATE lake.{a} SET id = 0 WHERE id = 0;
              IF n > 3 THEN INSERT INTO lake.{b} VALUES (n); END IF;
              SELECT count(*) AS n FROM lake.{a};
            END"""
        )
    finally:
        del lake._runner._spark.sql
    assert [row.n for row in last.collect()] == [2]
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 9], [0, 5])
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        lake.sql(f"BEGIN ATOMIC INSERT INTO lake.{b} VALUES (6); SELECT CAST('x' AS INT); END")
    assert [row.id for row in lake.sql(f"SELECT id FROM lake.{b} WHERE id > 4").collect()] == [5]


def test_i8_a_micro_batch_is_one_group_and_changes_nothing_when_it_is_run_again(
    lake: Any, sql: Any, spark: Any, two: tuple[str, str], tmp_path: Path
) -> None:
    a, b = two
    fails = [True]

    def split(batch: Any, number: int) -> None:
        batch.selectExpr("value AS id").write.insertInto(f"lake.{a}")
        batch.sparkSession.sql(f"INSERT INTO lake.{b} SELECT max(id) FROM lake.{a}")
        batch.selectExpr("value + 1000 AS id").write.insertInto(f"lake.{a}")

    write = lake.foreach_batch(split)

    def crashes(batch: Any, number: int) -> None:
        write(batch, number)
        if number == 1 and fails.pop():
            raise RuntimeError("after the commit, before the stream knows of it")

    source = tmp_path / "in"
    source.mkdir()

    def run(number: int) -> Any:
        spark.range(number, number + 1).selectExpr("id AS value").coalesce(1).write.mode("append").parquet(str(source))
        stream = spark.readStream.schema("value BIGINT").parquet(str(source))
        query = stream.writeStream.foreachBatch(crashes).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return query.trigger(availableNow=True).start()

    run(1).awaitTermination()
    with pytest.raises(Exception, match="before the stream knows"):
        run(2).awaitTermination()
    versions = [lake.table(t).head().latest for t in two]
    assert versions == [3, 3]
    fails.append(False)
    run(3).awaitTermination()
    assert sql.ids(f"lake.{a}") == [0, 1, 2, 3, 1001, 1002, 1003]
    assert sql.ids(f"lake.{b}") == [0, 1, 1001, 1002]
    assert [lake.table(t).head().latest for t in two] == [4, 4]
