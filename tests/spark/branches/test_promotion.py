"""Spark writes to a branch as to any catalog; a promotion makes it the catalog's (I28)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import turnstile_spark

TRACKED = (
    "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true',"
    " 'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')"
)


@pytest.fixture
def dev(spark: Any, server: Any, lake: Any, name: str) -> Iterator[Any]:
    """A branch of the test's own; it is made by ``dev()``, which returns its lake."""
    branch = f"b{name.rpartition('.')[2]}"
    lakes: list[Any] = []

    def make(**options: Any) -> Any:
        made = lake.branches.create(branch, **options)
        lakes.append(turnstile_spark.attach(spark, "dev", server.url, catalog=made.full_name))
        return lakes[0]

    make.promote = lambda: lake.branches.promote(branch)  # type: ignore[attr-defined]
    make.update = lambda: lake.branches.update(branch)  # type: ignore[attr-defined]
    yield make
    for each in lakes:
        each.detach()
    if branch in [each.name for each in lake.branches]:
        lake.branches.drop(branch)


def test_i28_spark_changes_a_branch_and_the_catalog_shows_it_after_the_promotion(
    lake: Any, sql: Any, dev: Any, name: str
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    sql(f"INSERT INTO lake.{name} SELECT id FROM range(5)")
    dev()
    sql(f"DELETE FROM dev.{name} WHERE id = 2")
    sql(f"INSERT INTO dev.{name} VALUES (10)")
    assert (sql.ids(f"dev.{name}"), sql.ids(f"lake.{name}")) == ([0, 1, 3, 4, 10], [0, 1, 2, 3, 4])
    dev.update()
    sql(f"UPDATE dev.{name} SET id = 11 WHERE id = 10")
    assert sql.ids(f"dev.{name}") == [0, 1, 3, 4, 11]
    assert dev.promote().tables[0]["operations"] == ["DELETE", "WRITE", "UPDATE"]
    with pytest.raises(turnstile_spark.TurnstileError, match="NoSuchBranch"):
        dev.promote()
    assert sql.ids(f"lake.{name}") == [0, 1, 3, 4, 11]
    assert [row.operation for row in sql(f"DESCRIBE HISTORY lake.{name}")][:2] == ["PROMOTE BRANCH", "WRITE"]


def test_i28_spark_reads_and_writes_tables_with_branches_in_deltas_registry(
    lake: Any, sql: Any, dev: Any, name: str, log_of: Any
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, p STRING) {TRACKED}")
    sql(f"INSERT INTO lake.{name} SELECT id, 'a' FROM range(5)")
    dev(delta_registry=True)
    sql(f"DELETE FROM dev.{name} WHERE id = 2")
    sql(f"INSERT INTO dev.{name} VALUES (10, 'b')")
    assert sql.ids(f"dev.{name}") == [0, 1, 3, 4, 10]
    dev.promote()
    assert sql.ids(f"lake.{name}") == [0, 1, 3, 4, 10]
    sql(f"INSERT INTO lake.{name} VALUES (11, 'c')")
    sql(f"DELETE FROM lake.{name} WHERE id = 0")
    sql(f"OPTIMIZE lake.{name}")
    sql(f"CREATE OR REPLACE TEMPORARY VIEW {name.rpartition('.')[2]}_v AS SELECT id FROM lake.{name} VERSION AS OF 2")
    assert sql.ids(f"lake.{name}") == [1, 3, 4, 10, 11]
    found = [json.loads(line) for file in sorted(log_of(name).glob("*.json")) for line in file.read_text().splitlines()]
    domains = [each["domainMetadata"] for each in found if "domainMetadata" in each]
    texts = [each["configuration"] for each in domains if each["domain"] == "delta.tableBranching"]
    assert [[entry["status"] for entry in json.loads(text)["branches"]] for text in texts] == [["published"]]


@pytest.mark.slow
def test_i28_spark_reads_and_changes_rows_that_an_update_brought(lake: Any, sql: Any, dev: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, p STRING) {TRACKED}")
    sql(f"INSERT INTO lake.{name} SELECT id, 'x' FROM range(5)")
    dev()
    sql(f"INSERT INTO dev.{name} VALUES (10, 'x')")
    sql(f"INSERT INTO lake.{name} VALUES (20, 'x'), (21, 'x')")
    sql(f"DELETE FROM lake.{name} WHERE id = 2")
    dev.update()
    assert sql.ids(f"dev.{name}") == [0, 1, 3, 4, 10, 20, 21]
    assert sql.values(f"SELECT count(DISTINCT _metadata.row_id) FROM dev.{name}") == [(7,)]
    of_both = f"SELECT d.id FROM dev.{name} d JOIN lake.{name} l ON d._metadata.row_id = l._metadata.row_id"
    assert sorted(sql.values(of_both)) == [(0,), (1,), (3,), (4,), (20,), (21,)]
    sql(f"DELETE FROM dev.{name} WHERE id IN (0, 20)")
    sql(f"INSERT INTO lake.{name} VALUES (30, 'x')")
    with pytest.raises(turnstile_spark.TurnstileError, match="BranchConflict"):
        dev.update()
    assert sql.ids(f"dev.{name}") == [1, 3, 4, 10, 21]
    assert [row.operation for row in sql(f"DESCRIBE HISTORY dev.{name}")][:3] == ["DELETE", "UPDATE BRANCH", "WRITE"]


@pytest.mark.slow
def test_i28_rows_ids_and_changes_of_every_statement_are_kept_by_a_promotion(
    lake: Any, sql: Any, dev: Any, name: str
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, p STRING) {TRACKED}")
    sql(f"INSERT INTO lake.{name} SELECT id, 'a b%' || (id % 2) FROM range(20)")
    sql(f"DELETE FROM lake.{name} WHERE id = 3")
    dev()
    sql(f"INSERT INTO dev.{name} VALUES (100, 'x')")
    sql(f"DELETE FROM dev.{name} WHERE id = 5")
    sql(f"UPDATE dev.{name} SET id = id + 1000 WHERE id = 7")
    sql(f"MERGE INTO dev.{name} t USING (SELECT 8L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    sql(f"ALTER TABLE dev.{name} RENAME COLUMN p TO q")
    sql(f"CREATE TABLE dev.{name}_made AS SELECT id FROM range(3)")
    tracked = "SELECT id, q, _metadata.row_id FROM {}"
    before = sql.values(tracked.format(f"dev.{name}"))
    assert [row.version for row in sql(f"DESCRIBE HISTORY dev.{name}")] == [7, 6, 5, 4, 3, 2]
    dev.promote()
    assert sql.values(tracked.format(f"lake.{name}")) == before
    changes = sql(f"SELECT _change_type, id FROM table_changes('lake.{name}', 3)")
    found = sorted((row[0], row.id) for row in changes)
    assert found == [("delete", 5), ("delete", 7), ("delete", 8), ("insert", 100), ("insert", 1007)]
    sql(f"INSERT INTO lake.{name}_made VALUES (5)")
    sql(f"OPTIMIZE lake.{name}")
    sql(f"DELETE FROM lake.{name} WHERE id = 100")
    assert sql.ids(f"lake.{name}_made") == [0, 1, 2, 5]
    assert len(sql.ids(f"lake.{name}")) == len(before) - 1
