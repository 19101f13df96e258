"""A transaction that lost to other commits is put on top of them, unless they changed rows that it
changed or read (I1, I2, I8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict

pytestmark = pytest.mark.usefixtures("planned_in_stages")


@pytest.fixture
def stock(lake: Any, sql: Any, name: str) -> str:
    """A table with a partition a and a partition b, one file each."""
    table = f"{name}_stock"
    sql(f"CREATE TABLE lake.{table} (shop STRING, pieces BIGINT) PARTITIONED BY (shop)")
    sql(f"INSERT INTO lake.{table} VALUES ('a', 1), ('b', 1)")
    return table


@pytest.fixture
def sales(lake: Any, sql: Any, name: str) -> str:
    """An empty table."""
    table = f"{name}_sales"
    sql(f"CREATE TABLE lake.{table} (shop STRING, pieces BIGINT)")
    return table


def rows(sql: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in sql(f"SELECT * FROM lake.{table}"))


def test_i8_a_read_may_be_behind_by_the_slack_and_what_is_written_may_not(
    lake: Any, sql: Any, stock: str, sales: str
) -> None:
    def count_then_sell(meanwhile: list[str], statement: str) -> Any:
        with lake.transaction(isolation="serializable", slack={stock.upper(): 1}) as txn:
            sql(f"SELECT sum(pieces) FROM lake.{stock} WHERE shop = 'a'")
            sql(statement)
            for shop in meanwhile:
                elsewhere(lambda shop=shop: sql(f"INSERT INTO lake.{stock} VALUES ('{shop}', 5)"))
        return txn

    sell = f"INSERT INTO lake.{sales} VALUES ('a', 1)"
    txn = count_then_sell(["a"], sell)
    assert txn.summary().tables[stock]["slack"] == 1 and "slack" not in txn.summary().tables[sales]
    assert count_then_sell(["b", "a"], sell).state == "committed", "what it read is what the version before has"
    with pytest.raises(TransactionConflict, match="may satisfy a predicate of this transaction"):
        count_then_sell(["a", "b"], sell)
    with pytest.raises(TransactionConflict, match="may satisfy a predicate of this transaction"):
        count_then_sell(["a"], f"INSERT INTO lake.{stock} VALUES ('c', 1)")
    assert rows(sql, sales) == [("a", 1), ("a", 1)]
    for wrong, isolation in (
        (True, "serializable"),
        (-1, "serializable"),
        ({"stock": 1}, "serializable"),
        (1, "snapshot"),
    ):
        with pytest.raises(ValueError, match="slack"):
            lake.transaction(isolation=isolation, slack=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_i1_appends_that_read_nothing_never_conflict(
    lake: Any, sql: Any, stock: str, sales: str, isolation: str
) -> None:
    with lake.transaction(isolation=isolation) as txn:
        sql(f"INSERT INTO lake.{stock} VALUES ('a', 10)")
        sql(f"INSERT INTO lake.{sales} VALUES ('a', 10)")
        for number in range(3):
            elsewhere(lambda number=number: sql(f"INSERT INTO lake.{stock} VALUES ('b', {100 + number})"))
    assert rows(sql, stock) == [("a", 1), ("a", 10), ("b", 1), ("b", 100), ("b", 101), ("b", 102)]
    assert rows(sql, sales) == [("a", 10)]
    assert [txn.summary().tables[table]["version"] for table in (stock, sales)] == [5, 1]


@pytest.mark.slow
def test_i2_changes_of_other_files_do_not_conflict(lake: Any, sql: Any, stock: str, sales: str) -> None:
    with lake.transaction() as txn:
        sql(f"UPDATE lake.{stock} SET pieces = pieces + 10 WHERE shop = 'a'")
        sql(f"INSERT INTO lake.{sales} VALUES ('a', 10)")
        elsewhere(lambda: sql(f"UPDATE lake.{stock} SET pieces = pieces + 100 WHERE shop = 'b'"))
    assert txn.state == "committed"
    assert rows(sql, stock) == [("a", 11), ("b", 101)]


def test_i2_changes_of_one_file_conflict_and_the_reason_names_it(lake: Any, sql: Any, stock: str, sales: str) -> None:
    with pytest.raises(TransactionConflict) as conflict, lake.transaction():
        sql(f"INSERT INTO lake.{sales} VALUES ('a', 10)")
        sql(f"UPDATE lake.{stock} SET pieces = pieces + 10 WHERE shop = 'a'")
        elsewhere(lambda: sql(f"DELETE FROM lake.{stock} WHERE shop = 'a'"))
    assert stock in str(conflict.value) and "shop=a" in str(conflict.value.reasons)
    assert (rows(sql, stock), rows(sql, sales)) == ([("b", 1)], [])


def test_i8_a_read_conflicts_only_with_rows_that_it_would_have_seen(
    lake: Any, sql: Any, stock: str, sales: str
) -> None:
    def count_then_sell(shop: str, meanwhile: str) -> Any:
        with lake.transaction(isolation="serializable") as txn:
            sql(f"SELECT sum(pieces) FROM lake.{stock} WHERE shop = '{shop}'")
            sql(f"INSERT INTO lake.{sales} VALUES ('{shop}', 1)")
            elsewhere(lambda: sql(f"INSERT INTO lake.{stock} VALUES ('{meanwhile}', 5)"))
        return txn

    assert count_then_sell("a", "b").state == "committed"
    with pytest.raises(TransactionConflict, match="may satisfy a predicate of this transaction"):
        count_then_sell("a", "a")
    assert rows(sql, sales) == [("a", 1)]


@pytest.mark.slow
def test_i8_write_skew_is_allowed_under_snapshot_and_refused_under_serializable(
    lake: Any, sql: Any, stock: str
) -> None:
    def take_if_two(isolation: str) -> None:
        """Each of two may take a piece from its shop while there are two in all."""
        with lake.transaction(isolation=isolation):
            if sql(f"SELECT sum(pieces) AS n FROM lake.{stock}")[0].n >= 2:
                sql(f"UPDATE lake.{stock} SET pieces = pieces - 1 WHERE shop = 'a'")
            elsewhere(lambda: sql(f"UPDATE lake.{stock} SET pieces = pieces - 1 WHERE shop = 'b'"))

    take_if_two("snapshot")
    assert rows(sql, stock) == [("a", 0), ("b", 0)]
    sql(f"UPDATE lake.{stock} SET pieces = 1")
    with pytest.raises(TransactionConflict):
        take_if_two("serializable")
    assert rows(sql, stock) == [("a", 1), ("b", 0)]


@pytest.mark.slow
def test_i8_serializable_sees_the_row_of_another_in_a_float_column(lake: Any, sql: Any, name: str, sales: str) -> None:
    """0.1 as a FLOAT is another number than 0.1 as a DOUBLE."""
    table = f"{name}_weights"
    sql(f"CREATE TABLE lake.{table} (weight FLOAT)")
    sql(f"INSERT INTO lake.{table} VALUES (CAST(5.0 AS FLOAT))")

    def look_then_sell(condition: str, meanwhile: str) -> None:
        with lake.transaction(isolation="serializable"):
            sql(f"SELECT * FROM lake.{table} WHERE {condition}")
            sql(f"INSERT INTO lake.{sales} VALUES ('a', 10)")
            elsewhere(lambda: sql(f"INSERT INTO lake.{table} VALUES (CAST({meanwhile} AS FLOAT))"))

    look_then_sell("weight = CAST(0.1 AS FLOAT)", "0.3")
    assert rows(sql, sales) == [("a", 10)], "a number that it did not ask for"
    for condition, meanwhile in (
        ("weight = CAST(0.1 AS FLOAT)", "0.1"),
        ("weight IN (CAST(0.1 AS FLOAT), CAST(0.7 AS FLOAT))", "0.7"),
        ("weight <= CAST(0.1 AS FLOAT)", "0.1"),
        ("weight > 0.1D", "0.1"),  # as a double it is 0.10000000149
    ):
        with pytest.raises(TransactionConflict, match="may satisfy a predicate of this transaction"):
            look_then_sell(condition, meanwhile)
    assert rows(sql, sales) == [("a", 10)]


def test_i2_a_change_of_the_definition_conflicts_with_every_write(lake: Any, sql: Any, stock: str, sales: str) -> None:
    with pytest.raises(TransactionConflict, match="definition"), lake.transaction():
        sql(f"INSERT INTO lake.{sales} VALUES ('a', 10)")
        sql(f"INSERT INTO lake.{stock} VALUES ('a', 10)")
        elsewhere(lambda: sql(f"ALTER TABLE lake.{stock} ADD COLUMN colour STRING"))
    assert rows(sql, sales) == []


def test_i2_row_ids_follow_those_of_the_winners(lake: Any, sql: Any, name: str, sales: str) -> None:
    table = f"{name}_rows"
    sql(f"CREATE TABLE lake.{table} (id BIGINT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    sql(f"INSERT INTO lake.{table} VALUES (1), (2)")
    with lake.transaction():
        sql(f"INSERT INTO lake.{table} VALUES (3), (4), (5)")
        sql(f"INSERT INTO lake.{sales} VALUES ('a', 1)")
        elsewhere(lambda: sql(f"INSERT INTO lake.{table} VALUES (6), (7)"))
    ids = sql(f"SELECT id, _metadata.row_id AS row, _metadata.row_commit_version AS version FROM lake.{table}")
    assert sorted(row.row for row in ids) == list(range(7))
    assert {row.id: row.version for row in ids} == {1: 1, 2: 1, 6: 2, 7: 2, 3: 3, 4: 3, 5: 3}


@pytest.mark.slow
def test_i20_a_read_that_is_overtaken_again_and_again_is_judged_by_the_server(
    lake: Any, sql: Any, stock: str, sales: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer adds rows of another shop before each request. The client judges the first
    conflict, and the server all later ones."""
    sent = list[list[dict[str, Any]]]()
    transact = lake.api.transact

    def overtaken(body: dict[str, Any]) -> Any:
        sent.append(body["reads"])
        elsewhere(lambda: sql(f"INSERT INTO lake.{stock} VALUES ('c', 5)"))
        return transact(body)

    monkeypatch.setattr(lake.api, "transact", overtaken)
    with lake.transaction(isolation="serializable") as txn:
        (row,) = sql(f"SELECT sum(pieces) AS pieces FROM lake.{stock} WHERE shop = 'a'")
        sql(f"INSERT INTO lake.{sales} VALUES ('a', {row.pieces})")
    assert txn.state == "committed" and rows(sql, sales) == [("a", 1)]
    (first,), (second,) = sent
    assert "predicate" not in first
    assert (
        second["predicate"] == "(((NOT `shop` IS NULL) AND `shop` = 'a'))" and second["version"] == first["version"] + 1
    )
