"""Time travel, change data, and that a read is never behind."""

from __future__ import annotations

from typing import Any

import pytest

import turnstile_spark


def test_time_travel_by_version_and_by_time(stored: Any, sql: Any, name: str) -> None:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT)")
    for n in range(3):
        sql(f"INSERT INTO {table} VALUES ({n})")
    assert sql.ids(f"{table} VERSION AS OF 2") == [0, 1]
    moment = stored.table(name).history()[1].timestamp
    assert sql.ids(f"{table} TIMESTAMP AS OF '{moment}'") == [0, 1]


@pytest.mark.slow
def test_restore_goes_back_and_keeps_history(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 0 AS id")
    sql(f"INSERT INTO lake.{name} VALUES (1)")
    sql(f"RESTORE TABLE lake.{name} TO VERSION AS OF 0")
    assert sql.ids(f"lake.{name}") == [0]
    assert lake.table(name).head().latest == 2


def test_change_data_tells_what_each_version_did(stored: Any, sql: Any, name: str) -> None:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    sql(f"INSERT INTO {table} VALUES (1), (2)")
    sql(f"UPDATE {table} SET id = 20 WHERE id = 2")
    sql(f"DELETE FROM {table} WHERE id = 1")
    changes = sql.values(f"SELECT _commit_version, _change_type, id FROM table_changes('{table}', 1)")
    assert changes == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "update_postimage", 20),
        (2, "update_preimage", 2),
        (3, "delete", 1),
    ]


@pytest.mark.slow
def test_a_dataframe_made_earlier_shows_what_others_wrote_since(
    lake: Any, sql: Any, spark: Any, file_server: Any, name: str
) -> None:
    """I6: nothing that was answered for the DataFrame's making answers for its later execution."""
    sql(f"CREATE TABLE lake.{name} AS SELECT 0 AS id")
    old = spark.table(f"lake.{name}")
    assert old.count() == 1
    with turnstile_spark.attach(spark, "other", file_server.url, token=file_server.token):
        sql(f"INSERT INTO other.{name} VALUES (1)")
        assert old.count() == 2
        sql(f"INSERT INTO other.{name} VALUES (2)")
        # The old DataFrame is read inside an INSERT, which may answer its own target's questions
        # from its own load only.
        sql(f"CREATE TABLE lake.{name}x (n BIGINT)")
        pending = old.selectExpr("count(*) AS n")
        sql(f"INSERT INTO other.{name} VALUES (3)")
        pending.writeTo(f"lake.{name}x").append()
        assert sql(f"SELECT n FROM lake.{name}x")[0].n == 4


def test_an_insert_takes_one_load_and_one_commit(lake: Any, sql: Any, name: str) -> None:
    """The number of requests is the client's part of what a commit costs."""
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")
    lake.api.http.requests.clear()
    sql(f"INSERT INTO lake.{name} VALUES (1)")
    assert dict(lake.api.http.requests) == {"load": 1, "commit": 1}


def test_the_python_api_tells_the_same_as_sql(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    for n in range(4):
        sql(f"INSERT INTO lake.{name} VALUES ({n})")
    table = lake.table(name)
    head = table.head()
    assert (head.latest, head.state, head.table_id) == (4, "active", table.id)
    assert [commit.version for commit in table.commits(2, 3)] == [2, 3]
    assert [row.version for row in table.history(2)] == [4, 3]
    assert table.publish()["floor"] == 4
    last = table.commits()[-1]
    assert last.operation == "WRITE"
    assert table.outcome(4, txn_id=last.txn_id).outcome == "ratified"
    assert name.split(".")[1] in lake.tables()


def test_every_published_file_has_the_bytes_that_were_committed(lake: Any, sql: Any, name: str) -> None:
    """I4: published bytes equal ratified bytes; the client's own copy of an inline commit is that,
    too."""
    from pathlib import Path

    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    for n in range(3):
        sql(f"INSERT INTO lake.{name} VALUES ({n})")
    table = lake.table(name)
    commits = table.commits()
    location = table.head().location
    table.publish()
    log = Path(location.removeprefix("file://").removeprefix("file:")) / "_delta_log"
    assert [commit.version for commit in commits] == [1, 2, 3]
    for commit in commits:
        staged = (log / "_staged_commits" / commit.name).read_bytes()
        assert len(staged) == commit.size
        assert staged == (log / f"{commit.version:020d}.json").read_bytes()


@pytest.mark.slow
def test_views_and_cached_tables_work(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    view = name.replace(".", "_")
    sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT id + 1 AS id FROM lake.{name}")
    assert sql.ids(view) == [2]
    sql(f"CACHE TABLE lake.{name}")
    try:
        sql(f"INSERT INTO lake.{name} VALUES (5)")
        assert sql.ids(f"lake.{name}") == [1, 5]
    finally:
        sql(f"UNCACHE TABLE lake.{name}")
