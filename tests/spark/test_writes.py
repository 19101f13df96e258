"""Every way to write, on every kind of storage."""

from __future__ import annotations

from typing import Any

import pytest


def make(stored: Any, sql: Any, name: str, columns: str = "id BIGINT, kind STRING") -> str:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} ({columns})")
    return table


def test_what_was_inserted_is_read_back_at_once(stored: Any, sql: Any, name: str) -> None:
    """I6: after a success answer every later read shows it."""
    table = make(stored, sql, name)
    for n in range(3):
        sql(f"INSERT INTO {table} VALUES ({n}, 'a')")
        assert sql.ids(table) == list(range(n + 1))
    assert stored.table(name).head().latest == 3


def test_update_delete_and_merge_change_what_they_say(stored: Any, sql: Any, name: str) -> None:
    table = make(stored, sql, name)
    sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql(f"UPDATE {table} SET kind = 'z' WHERE id = 1")
    sql(f"DELETE FROM {table} WHERE id = 2")
    sql(
        f"MERGE INTO {table} t USING (SELECT * FROM VALUES (3, 'm'), (4, 'n') AS s(id, kind)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET kind = s.kind WHEN NOT MATCHED THEN INSERT *"
    )
    assert sql.values(f"SELECT * FROM {table}") == [(1, "z"), (3, "m"), (4, "n")]
    assert [row.operation for row in stored.table(name).history(4)] == ["MERGE", "DELETE", "UPDATE", "WRITE"]


@pytest.mark.slow
def test_overwrites_replace_all_a_partition_or_a_condition(stored: Any, sql: Any, name: str) -> None:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, day STRING) PARTITIONED BY (day)")
    sql(f"INSERT INTO {table} VALUES (1, 'mon'), (2, 'tue')")
    sql(f"INSERT OVERWRITE {table} PARTITION (day = 'mon') SELECT 10")
    assert sql.values(f"SELECT * FROM {table}") == [(2, "tue"), (10, "mon")]
    sql(f"INSERT INTO {table} REPLACE WHERE day = 'tue' SELECT 20, 'tue'")
    assert sql.values(f"SELECT * FROM {table}") == [(10, "mon"), (20, "tue")]
    sql(f"INSERT OVERWRITE {table} SELECT 30, 'wed'")
    assert sql.values(f"SELECT * FROM {table}") == [(30, "wed")]


@pytest.mark.slow
def test_dataframe_writers_append_and_overwrite(stored: Any, sql: Any, spark: Any, name: str) -> None:
    table = make(stored, sql, name, "id BIGINT")
    spark.range(2).write.mode("append").saveAsTable(table)
    spark.range(2, 4).writeTo(table).append()
    spark.range(4, 6).write.insertInto(table)
    assert sql.ids(table) == [0, 1, 2, 3, 4, 5]
    spark.range(9, 10).write.mode("overwrite").saveAsTable(table)
    assert sql.ids(table) == [9]


@pytest.mark.slow
def test_alter_table_changes_columns_properties_and_constraints(stored: Any, sql: Any, spark: Any, name: str) -> None:
    table = make(stored, sql, name)
    etag = stored.table(name).head().etag
    sql(f"ALTER TABLE {table} ADD COLUMN size INT")
    assert stored.table(name).head().etag != etag
    sql(f"INSERT INTO {table} VALUES (1, 'a', 5)")
    sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'owner.team' = 'x')")
    sql(f"ALTER TABLE {table} RENAME COLUMN kind TO sort")
    sql(f"ALTER TABLE {table} DROP COLUMN size")
    sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 100)")
    sql(f"COMMENT ON TABLE {table} IS 'words'")
    assert spark.table(table).columns == ["id", "sort"]
    assert sql.values(f"SELECT * FROM {table}") == [(1, "a")]
    properties = dict(sql.values(f"SHOW TBLPROPERTIES {table}"))
    assert properties["owner.team"] == "x"
    assert properties["delta.constraints.small"] == "id < 100"


def test_a_commit_over_the_inline_limit_is_staged(stored: Any, sql: Any, spark: Any, name: str) -> None:
    table = make(stored, sql, name, "id BIGINT")
    before = stored.context.inline_limit
    stored.context.inline_limit = 2000
    try:
        spark.range(400).repartition(10).writeTo(table).append()
        sql(f"INSERT INTO {table} VALUES (1000)")
    finally:
        stored.context.inline_limit = before
    kinds = {commit.version: commit.kind for commit in stored.table(name).commits()}
    assert kinds == {1: "staged", 2: "inline"}
    assert sql(f"SELECT count(*) AS n FROM {table}")[0].n == 401


def test_with_an_inline_limit_of_nothing_every_commit_is_staged(lake: Any, sql: Any, name: str) -> None:
    table = make(lake, sql, name)
    before = lake.context.inline_limit
    lake.context.inline_limit = 0
    try:
        sql(f"INSERT INTO {table} VALUES (1, 'a')")
    finally:
        lake.context.inline_limit = before
    assert [commit.kind for commit in lake.table(name).commits()] == ["staged"]
    assert sql.ids(table) == [1]


@pytest.mark.slow
def test_checkpoints_are_written_and_read(stored: Any, sql: Any, spark: Any, name: str) -> None:
    """I4, I5: a checkpoint needs everything below it published; Delta writes one at every tenth
    version."""
    table = make(stored, sql, name, "id BIGINT")
    for n in range(12):
        sql(f"INSERT INTO {table} VALUES ({n})")
    assert stored.table(name).head().floor >= 10
    log = sql(f"DESCRIBE DETAIL {table}")[0].location + "/_delta_log"
    path = spark._jvm.org.apache.hadoop.fs.Path(log)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).listStatus(path)
    assert any(".checkpoint" in f.getPath().getName() for f in files)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # read it as a newcomer does
    assert sql.ids(table) == list(range(12))
