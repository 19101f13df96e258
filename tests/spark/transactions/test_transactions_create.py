"""Tables that are created and replaced inside transactions, with all else of the transaction or not
at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TransactionOutcomeUnknown


@pytest.mark.slow
def test_i8_tables_are_created_filled_and_read_inside_and_appear_with_the_commits_of_others(
    shaky: Any, flaky: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, _ = two
    with shaky.transaction() as txn:
        sql(f"CREATE TABLE shaky.{name}_c (id BIGINT, day STRING) PARTITIONED BY (day)")
        sql(f"INSERT INTO shaky.{name}_c VALUES (1, 'x'), (2, 'y')")
        sql(f"CREATE TABLE shaky.{name}_d AS SELECT id + 10 AS id FROM shaky.{name}_c")
        sql(f"DELETE FROM shaky.{name}_c WHERE id = 1")
        sql(f"INSERT INTO shaky.{a} SELECT id FROM shaky.{name}_c")
        assert (sql.ids(f"shaky.{name}_c"), sql.ids(f"shaky.{name}_d")) == ([2], [11, 12])
        assert sql.names(name, "shaky") == {"_a", "_b", "_c", "_d"}
        with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            sql(f"CREATE TABLE shaky.{name}_c (id BIGINT)")
        assert elsewhere(lambda: sql.names(name)) == {"_a", "_b"}
        del flaky.seen[:]
    assert len([seen for seen in flaky.seen if "/transactions" in seen]) == 1, flaky.seen
    assert txn.state == "committed"
    assert sql.names(name) == {"_a", "_b", "_c", "_d"}
    assert (sql.ids(f"lake.{name}_c"), sql.ids(f"lake.{name}_d"), sql.ids(f"lake.{a}")) == ([2], [11, 12], [0, 2])
    assert [row.version for row in sql(f"DESCRIBE HISTORY lake.{name}_c")] == [0]
    sql(f"INSERT INTO lake.{name}_c VALUES (3, 'z')")
    assert (sql.ids(f"lake.{name}_c"), sql.ids(f"shaky.{name}_c")) == ([2, 3], [2, 3])


@pytest.mark.parametrize("isolation", [pytest.param("snapshot", marks=pytest.mark.slow), "serializable"])
def test_i9_a_namespace_and_tables_in_it_appear_together_or_not_at_all(
    lake: Any, sql: Any, two: tuple[str, str], name: str, isolation: str
) -> None:
    a = two[0]
    space = f"{name.replace('.', '_')}_{isolation}"
    with pytest.raises(KeyError), lake.transaction(isolation):
        sql(f"CREATE NAMESPACE lake.{space}")
        sql(f"CREATE TABLE lake.{space}.c AS SELECT 1L AS id")
        raise KeyError
    with lake.transaction(isolation):
        sql(f"CREATE NAMESPACE lake.{space}")
        sql(f"CREATE TABLE lake.{space}.c (id BIGINT)")
        sql(f"INSERT INTO lake.{space}.c SELECT id + 1 FROM lake.{a}")
        sql(f"CREATE TABLE IF NOT EXISTS lake.{space}.d AS SELECT id + 1 AS id FROM lake.{space}.c")
        assert sql.names(f"{space}.") == {"c", "d"}
        assert not elsewhere(lambda: lake.spark.catalog.databaseExists(f"lake.{space}"))
    assert (sql.names(f"{space}."), sql.ids(f"lake.{space}.c"), sql.ids(f"lake.{space}.d")) == ({"c", "d"}, [1], [2])


def test_i8_nothing_of_a_created_table_remains_after_an_exception_or_a_savepoint(
    lake: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with pytest.raises(KeyError), lake.transaction():
        sql(f"CREATE TABLE lake.{name}_c AS SELECT 1L AS id")
        sql(f"DROP TABLE lake.{a}")
        sql(f"CREATE TABLE lake.{a} AS SELECT 7L AS id")
        assert sql.ids(f"lake.{a}") == [7]
        raise KeyError
    assert (sql.names(name), sql.ids(f"lake.{a}")) == ({"_a", "_b"}, [0])
    with lake.transaction() as txn:
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"CREATE TABLE lake.{name}_c AS SELECT 1L AS id")
        point = txn.savepoint()
        sql(f"INSERT INTO lake.{name}_c VALUES (2)")
        sql(f"CREATE TABLE lake.{name}_d (id BIGINT)")
        txn.rollback_to(point)
        sql(f"CREATE TABLE lake.{name}_d AS SELECT id + 1 AS id FROM lake.{name}_c")
    lake.sql(
        f"BEGIN ATOMIC CREATE TABLE lake.{name}_e (id BIGINT); INSERT INTO lake.{name}_e SELECT id FROM lake.{name}_d; "
        f"END"
    )
    assert sql.ids(f"lake.{name}_e") == [2]
    assert (sql.ids(f"lake.{name}_c"), sql.ids(f"lake.{name}_d"), sql.ids(f"lake.{b}")) == ([1], [2], [0, 1])


def test_i8_a_table_is_replaced_as_a_commit_of_it_and_a_dropped_name_is_given_to_a_new_table(
    lake: Any, sql: Any, spark: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with lake.transaction():
        sql(f"CREATE OR REPLACE TABLE lake.{a} AS SELECT id, 'x' AS day FROM lake.{b}")
        sql(f"INSERT INTO lake.{a} VALUES (5, 'y')")
        sql(f"CREATE OR REPLACE TABLE lake.{name}_c (id BIGINT)")
        spark.range(3).write.mode("overwrite").saveAsTable(f"lake.{name}_c")
        sql(f"DROP TABLE lake.{b}")
        sql(f"CREATE TABLE lake.{b} LIKE lake.{a}")
        for statement in (f"DROP TABLE lake.{b}", f"ALTER TABLE lake.{b} RENAME TO {b}_x"):
            with pytest.raises(Exception, match="created by it"):
                sql(statement)
        assert elsewhere(lambda: (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}"))) == ([0], [0])
    assert sql.values(f"SELECT * FROM lake.{a}") == [(0, "x"), (5, "y")]
    assert (sql.ids(f"lake.{name}_c"), sql.values(f"SELECT * FROM lake.{b}")) == ([0, 1, 2], [])
    assert [row.version for row in sql(f"DESCRIBE HISTORY lake.{a}")] == [2, 1, 0]


def test_i3_a_created_table_is_refused_or_applied_with_the_whole_and_put_on_top_of_others(
    shaky: Any, flaky: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, _ = two
    with pytest.raises(TransactionConflict), shaky.transaction() as txn:
        sql(f"INSERT INTO shaky.{a} VALUES (1)")
        sql(f"CREATE TABLE shaky.{name}_c AS SELECT 1L AS id")
        elsewhere(lambda: sql(f"CREATE TABLE lake.{name}_c (id BIGINT)"))
    assert (txn.state, sql.ids(f"lake.{a}"), sql.ids(f"lake.{name}_c")) == ("conflict", [0], [])
    with shaky.transaction():
        sql(f"INSERT INTO shaky.{a} VALUES (1)")
        sql(f"CREATE TABLE shaky.{name}_d AS SELECT id FROM shaky.{a}")
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (2)"))
        flaky.lose_answers("/transactions", times=1)
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{name}_d")) == ([0, 1, 2], [0, 1])
    times = [sql(f"DESCRIBE HISTORY lake.{t}")[0].timestamp for t in (a, f"{name}_d")]
    assert times[0] == times[1]


@pytest.mark.slow
def test_i3_a_created_table_with_an_unknown_outcome_is_there_after_the_second_commit(
    shaky: Any, flaky: Any, sql: Any, name: str
) -> None:
    txn = shaky.transaction()
    with pytest.raises(TransactionOutcomeUnknown), txn:
        sql(f"CREATE TABLE shaky.{name}_e AS SELECT 1L AS id")
        flaky.lose_answers("/transactions", times=1000)
    del flaky.rules[:]
    txn.commit()
    assert sql.ids(f"lake.{name}_e") == [1]
