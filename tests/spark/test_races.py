"""Writers that meet: one wins, the others rebase or are told; nothing is lost and nothing is there
twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException, ConcurrentDeleteDeleteException, MetadataChangedException


@pytest.mark.slow
def test_threads_that_insert_into_one_table_lose_nothing(stored: Any, sql: Any, spark: Any, name: str) -> None:
    """I1, I2: versions are contiguous and each is one writer's."""
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT)")

    def write(writer: int) -> None:
        session = spark.newSession() if writer else spark
        for n in range(4):
            session.sql(f"INSERT INTO {table} VALUES ({writer * 10 + n})")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert sql.ids(table) == [w * 10 + n for w in range(3) for n in range(4)]
    assert [row.version for row in stored.table(name).history()] == list(range(12, -1, -1))


def test_an_insert_that_loses_the_race_rebases(lake: Any, shaky: Any, flaky: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")
    flaky.first("POST /v1/tables", lambda: sql(f"INSERT INTO lake.{name} VALUES (1)"))
    sql(f"INSERT INTO shaky.{name} VALUES (2)")
    assert sql.ids(f"lake.{name}") == [0, 1, 2]
    assert lake.table(name).head().latest == 3


@pytest.mark.parametrize(
    ("winner", "loser", "error"),
    [
        pytest.param(  # Delta's choice among its errors
            "UPDATE lake.{0} SET id = 20 WHERE id = 1",
            "UPDATE shaky.{0} SET id = 30 WHERE id = 1",
            None,
            marks=pytest.mark.slow,
        ),
        ("INSERT INTO lake.{0} VALUES (1)", "UPDATE shaky.{0} SET id = 30 WHERE id = 1", ConcurrentAppendException),
        pytest.param(
            "ALTER TABLE lake.{0} ADD COLUMN more INT",
            "INSERT INTO shaky.{0} VALUES (9)",
            MetadataChangedException,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_writer_whose_work_the_winner_undid_gets_deltas_error(
    lake: Any, shaky: Any, flaky: Any, *, sql: Any, name: str, winner: str, loser: str, error: type[Exception] | None
) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT id FROM range(3)")
    flaky.first("POST /v1/tables", lambda: sql(winner.format(name)))
    expected = error or (ConcurrentAppendException, ConcurrentDeleteDeleteException, Exception)
    with pytest.raises(expected) as caught:
        sql(loser.format(name))
    assert "Concurrent" in type(caught.value).__name__ or error is MetadataChangedException
    assert "py4j" not in str(caught.value)
    assert lake.table(name).head().latest == 1
