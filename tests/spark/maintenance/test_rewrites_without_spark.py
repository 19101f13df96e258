"""``turnstile_client`` puts files of Spark's tables together: Spark finds the same rows, with their
ids and versions, and goes on writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.rewritten_tables import KINDS, count_files, fill
from turnstile_client import Table, Unsupported, connect

BOTH_IDS = {
    "row tracking and mapping by id": "(id BIGINT, k INT) TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
    "'delta.columnMapping.mode' = 'id')",
    "row tracking in partitions": "(id BIGINT, k INT) PARTITIONED BY (k)"
    " TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name')",
}
MADE = {kind: text for kind, text in KINDS.items() if kind != "clustering"} | BOTH_IDS


@pytest.fixture
def client(file_server: Any, name: str) -> Iterator[Table]:
    with connect(file_server.url, file_server.token) as connected:
        yield connected.table(name)


def rows(sql: Any, table: str, *, tracked: bool) -> list[Any]:
    ids = ", _metadata.row_id, _metadata.row_commit_version" if tracked else ""
    return sql.values(f"SELECT *{ids} FROM {table}")  # type: ignore[no-any-return]


def is_tracked(sql: Any, table: str) -> bool:
    properties = {row.key: row.value for row in sql(f"SHOW TBLPROPERTIES {table}")}
    return properties.get("delta.enableRowTracking") == "true"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*MADE])
def test_i27_rows_keep_their_values_ids_and_versions(lake: Any, sql: Any, name: str, client: Table, kind: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} {MADE[kind]}")
    fill(sql, table)
    fill(sql, table)
    if kind != "append only":
        sql(f"DELETE FROM {table} WHERE id % 5 = 0")
        sql(f"UPDATE {table} SET k = k WHERE id % 7 = 1")
    tracked = is_tracked(sql, table)
    before = rows(sql, table, tracked=tracked)
    files = count_files(sql, table)
    parts = 2 if "PARTITIONED" in MADE[kind] else 1
    done = client.optimize()
    assert (done.files_before, done.files_after, done.left_files) == (files, parts, 0), done
    assert rows(sql, table, tracked=tracked) == before
    assert count_files(sql, table) == parts
    # the engine goes on, and so does the client
    fill(sql, table)
    if kind != "append only":
        sql(f"DELETE FROM {table} WHERE id % 3 = 0")
    before = rows(sql, table, tracked=tracked)
    assert client.optimize().files_after == parts
    assert client.reorg().left_files == 0
    assert rows(sql, table, tracked=tracked) == before
    lake.table(name).optimize()
    assert rows(sql, table, tracked=tracked) == before


@pytest.mark.slow
def test_deleted_rows_are_purged(sql: Any, name: str, client: Table) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    fill(sql, table, 2)
    sql(f"DELETE FROM {table} WHERE id % 4 = 0")
    before = rows(sql, table, tracked=is_tracked(sql, table))
    done = client.reorg()
    assert done.rewritten_files == 2 and done.files_after == 1
    assert rows(sql, table, tracked=is_tracked(sql, table)) == before
    assert client.reorg().versions == []


def test_a_change_feed_shows_no_change(sql: Any, name: str, client: Table) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    fill(sql, table)
    first = client.optimize().versions[0]
    assert sql(f"SELECT * FROM table_changes('{table}', {first})") == []


def test_a_clustered_table_is_left_to_an_engine(sql: Any, name: str, client: Table) -> None:
    sql(f"CREATE TABLE lake.{name} {KINDS['clustering']}")
    fill(sql, f"lake.{name}")
    with pytest.raises(Unsupported, match="clustered by"):
        client.optimize()
