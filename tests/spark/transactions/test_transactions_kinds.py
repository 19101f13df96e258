"""Transactions on tables of every kind: a folded commit leaves the same table as a single
statement."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TurnstileError

pytestmark = pytest.mark.slow  # many statements each


def test_i2_row_ids_are_those_that_the_statements_assigned_and_are_never_assigned_again(
    lake: Any, sql: Any, name: str
) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    sql(f"INSERT INTO {table} SELECT id FROM range(3)")
    with lake.transaction():
        sql(f"INSERT INTO {table} VALUES (10), (11)")
        sql(f"UPDATE {table} SET id = 100 WHERE id = 1")
        sql(f"DELETE FROM {table} WHERE id = 10")
    sql(f"INSERT INTO {table} VALUES (12)")
    rows = sql(f"SELECT id, _metadata.row_id AS row, _metadata.row_commit_version AS version FROM {table}")
    kept = {row.id: (row.row, row.version) for row in rows}
    assert {i: kept[i] for i in (0, 2, 100, 11)} == {0: (0, 1), 2: (2, 1), 100: (1, 2), 11: (4, 2)}
    assert len({row for row, _ in kept.values()}) == len(kept)
    with lake.transaction() as txn:
        sql(f"INSERT INTO {table} VALUES (20)")
        sql(f"INSERT INTO {table} VALUES (21)")
        with pytest.raises(TurnstileError, match="row tracking"):
            sql(f"INSERT OVERWRITE {table} SELECT id + 1 FROM {table}")
        txn.abort()


def test_change_data_are_those_of_the_whole_transaction_or_it_is_refused(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    sql(f"INSERT INTO {table} VALUES (0), (1)")
    with lake.transaction():
        sql(f"INSERT INTO {table} VALUES (2)")
        sql(f"DELETE FROM {table} WHERE id = 0")
    changes = f"SELECT id, _change_type, _commit_version FROM table_changes('{table}', 2)"
    assert sql.values(changes) == [(0, "delete", 2), (2, "insert", 2)]
    with lake.transaction():
        sql(f"INSERT INTO {table} VALUES (3)")
        with pytest.raises(TurnstileError, match="change data feed"):
            sql(f"UPDATE {table} SET id = id + 10")
    assert sql.ids(table) == [1, 2, 3]


def test_identities_partitions_and_properties(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (k BIGINT GENERATED ALWAYS AS IDENTITY, id INT, day STRING) PARTITIONED BY (day)")
    with lake.transaction():
        sql(f"INSERT INTO {table} (id, day) VALUES (1, 'mon'), (2, 'tue')")
        sql(f"INSERT INTO {table} (id, day) VALUES (3, 'mon')")
        sql(f"DELETE FROM {table} WHERE day = 'tue'")
        sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('owner.team' = 'x')")
    keys = [row.k for row in sql(f"SELECT k FROM {table} ORDER BY id")]
    assert sql.values(f"SELECT id, day FROM {table}") == [(1, "mon"), (3, "mon")]
    sql(f"INSERT INTO {table} (id, day) VALUES (4, 'wed')")
    assert len({*keys, sql(f"SELECT max(k) AS k FROM {table}")[0].k}) == 3
    assert dict(sql.values(f"SHOW TBLPROPERTIES {table}"))["owner.team"] == "x"


def test_i4_no_checkpoint_of_what_is_held_and_the_cut_behind_one_of_others(
    lake: Any, sql: Any, name: str, log_of: Any
) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('delta.checkpointInterval' = '2')")

    def checkpoints() -> list[str]:
        return [file.name for file in log_of(name).iterdir() if "checkpoint" in file.name]

    with lake.transaction():
        for value in range(3):
            sql(f"INSERT INTO {table} VALUES ({value})")
        assert sql.ids(table) == [0, 1, 2]
    assert checkpoints() == []
    with lake.transaction() as txn:
        sql(f"UPDATE {table} SET id = id + 10")
        for value in range(3):
            elsewhere(lambda value=value: sql(f"INSERT INTO {table} VALUES ({value})"))
        lake.table(name).publish()
        assert checkpoints() != []
        here = txn.savepoint()
        sql(f"DELETE FROM {table} WHERE id = 10")
        assert sql.ids(table) == [11, 12]
        txn.rollback_to(here)
        assert sql.ids(table) == [10, 11, 12]
        txn.abort()
    assert sql.ids(table) == [0, 0, 1, 1, 2, 2]


def test_i8_what_is_cached_outside_stays_and_what_is_cached_inside_is_seen_by_no_other_session(
    lake: Any, sql: Any, spark: Any, name: str
) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} AS SELECT 0L AS id")
    sql(f"CACHE TABLE {table}")
    assert sql.ids(table) == [0]
    with lake.transaction() as txn:
        sql(f"INSERT INTO {table} VALUES (1)")
        assert sql.ids(table) == [0, 1]
        inside = spark.table(table).cache()
        assert inside.count() == 2
        assert elsewhere(lambda: sql.ids(table)) == [0]
        txn.abort()
    assert sql.ids(table) == [0]
    inside.unpersist()
    sql(f"UNCACHE TABLE {table}")
    assert sql.ids(table) == [0]
