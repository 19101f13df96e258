"""Serializable transactions and the catalog: its reads are checked at the commit, and its changes
are held back until then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TurnstileError


@pytest.fixture
def space(lake: Any, sql: Any, name: str) -> str:
    """A namespace with the tables ``a`` and ``b``, with one row each."""
    namespace = name.replace(".", "_")
    sql(f"CREATE NAMESPACE lake.{namespace}")
    for table in ("a", "b"):
        sql(f"CREATE TABLE lake.{namespace}.{table} AS SELECT 0L AS id")
    return namespace


def test_i9_a_list_that_others_changed_refuses_the_transaction_and_other_changes_do_not(
    lake: Any, sql: Any, space: str
) -> None:
    def count(other: str) -> Any:
        with lake.transaction(isolation="serializable") as txn:
            tables = sql(f"SHOW TABLES IN lake.{space}")
            sql(f"INSERT INTO lake.{space}.a VALUES ({len(tables)})")
            elsewhere(lambda: sql(other))
            assert len(sql(f"SHOW TABLES IN lake.{space}")) == len(tables), "one HEAD answers all"
        return txn

    assert count(f"CREATE NAMESPACE lake.{space}_other").state == "committed"
    with pytest.raises(TransactionConflict, match=f"{space}.c appeared"):
        count(f"CREATE TABLE lake.{space}.c (id BIGINT)")
    with pytest.raises(TransactionConflict, match="b renamed"):
        count(f"ALTER TABLE lake.{space}.b RENAME TO {space}.d")
    assert sql.ids(f"lake.{space}.a") == [0, 2]


def test_i9_a_serializable_transaction_creates_and_drops_and_its_names_and_queries_are_checked(
    lake: Any, sql: Any, space: str
) -> None:
    with lake.transaction(isolation="serializable") as txn:
        assert [entry["name"] for entry in lake.find(f"/main/{space}/b")] == [f"main.{space}.b"]
        sql(f"CREATE TABLE lake.{space}.c AS SELECT id + 1 AS id FROM lake.{space}.a")
        sql(f"DROP TABLE lake.{space}.b")
        elsewhere(lambda: sql(f"CREATE TABLE lake.{space}.unrelated (id BIGINT)"))
    assert (txn.state, sql.ids(f"lake.{space}.c")) == ("committed", [1])
    assert sql.names(f"{space}.") == {"a", "c", "unrelated"}
    with pytest.raises(TransactionConflict, match="gone"), lake.transaction(isolation="serializable"):
        sql(f"CREATE TABLE lake.{space}.d AS SELECT id FROM lake.{space}.a")
        elsewhere(lambda: sql(f"ALTER TABLE lake.{space}.a RENAME TO {space}.z"))
    with pytest.raises(TransactionConflict), lake.transaction(isolation="serializable"):
        sql(f"CREATE TABLE lake.{space}.d AS SELECT sum(id) AS id FROM lake.{space}.z")
        elsewhere(lambda: sql(f"INSERT INTO lake.{space}.z VALUES (7)"))
    with pytest.raises(TurnstileError, match="and read by it"), lake.transaction(isolation="serializable"):
        sql(f"CREATE TABLE lake.{space}.d AS SELECT id FROM lake.{space}.z")
        sql(f"DROP TABLE lake.{space}.z")
    assert sql.names(f"{space}.") == {"z", "c", "unrelated"}


@pytest.mark.slow
def test_i9_that_a_table_is_not_there_is_a_read_too(lake: Any, sql: Any, spark: Any, space: str) -> None:
    with pytest.raises(TransactionConflict, match="late appeared"), lake.transaction(isolation="serializable"):
        assert not spark.catalog.tableExists(f"lake.{space}.late")
        sql(f"INSERT INTO lake.{space}.a VALUES (1)")
        elsewhere(lambda: sql(f"CREATE TABLE lake.{space}.late (id BIGINT)"))
    with lake.transaction(isolation="serializable") as txn:
        assert not spark.catalog.tableExists(f"lake.{space}.later")
        sql(f"INSERT INTO lake.{space}.a VALUES (1)")
        elsewhere(lambda: sql(f"CREATE TABLE lake.{space}.elsewhere (id BIGINT)"))
    assert (txn.state, sql.ids(f"lake.{space}.a")) == ("committed", [0, 1])
