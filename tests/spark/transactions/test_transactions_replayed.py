"""Transactions that lose, and run only the statements again that are concerned
(docs/transactions.md, ADR 35)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict

Names = tuple[str, str, str]


@pytest.fixture
def three(sql: Any, two: tuple[str, str], name: str) -> Names:
    """Two tables with a row 0, and an empty one."""
    sql(f"CREATE TABLE lake.{name}_c (id BIGINT)")
    return (*two, f"{name}_c")


def _files(sql: Any, table: str) -> set[str]:
    return {row.file for row in sql(f"SELECT DISTINCT _metadata.file_name AS file FROM lake.{table}")}


def test_i8_only_the_statements_that_are_concerned_run_again(lake: Any, sql: Any, log_of: Any, three: Names) -> None:
    a, b, c = three
    with lake.transaction(journal=True) as txn:
        assert txn.sql(f"INSERT INTO lake.{c} VALUES (100)") is None
        txn.sql(f"UPDATE lake.{a} SET id = id + 10")
        txn.sql(f"INSERT INTO lake.{c} SELECT id FROM lake.{b}")
        txn.sql(f"INSERT INTO lake.{c} SELECT id FROM lake.{a}")
        txn.sql(f"INSERT INTO lake.{b} VALUES (200)")
        before = {table: {file.name for file in log_of(table).parent.glob("*.parquet")} for table in (b, c)}
        elsewhere(lambda: [sql(f"UPDATE lake.{a} SET id = id + 1"), sql(f"INSERT INTO lake.{c} VALUES (5)")])
    assert [sql.ids(f"lake.{table}") for table in three] == [[11], [0, 200], [0, 5, 11, 100]]
    summary = txn.summary()
    assert (summary.state, summary.replays, summary.statements_kept, summary.statements_run_again) == (
        "committed",
        1,
        3,
        2,
    )
    assert _files(sql, b) <= before[b]
    assert len(before[c] & _files(sql, c)) == 2  # what was appended stays; what was read from a changed table does not
    assert [lake.table(table).head().latest for table in three] == [3, 2, 2]


def test_i8_what_was_read_by_kept_statements_and_by_the_program_still_holds(lake: Any, sql: Any, three: Names) -> None:
    a, b, c = three
    reason = "what the program did after statement 1 would have to run again"
    with pytest.raises(TransactionConflict, match=reason), lake.transaction("serializable") as txn:
        txn.sql(f"INSERT INTO lake.{b} SELECT id + 1 FROM lake.{a} WHERE id < 5")
        if sql(f"SELECT id FROM lake.{a} WHERE id < 5"):
            txn.sql(f"INSERT INTO lake.{c} VALUES (1)")
        elsewhere(lambda: sql(f"DELETE FROM lake.{a}"))
    assert [sql.ids(f"lake.{table}") for table in three] == [[], [0], []]

    with lake.transaction("serializable") as txn:
        assert sql(f"SELECT id FROM lake.{b} WHERE id < 5")  # nobody writes such rows
        txn.sql(f"INSERT INTO lake.{c} SELECT count(*) FROM lake.{a}")
        elsewhere(lambda: [sql(f"INSERT INTO lake.{a} VALUES (7)"), sql(f"INSERT INTO lake.{b} VALUES (50)")])
    assert (sql.ids(f"lake.{c}"), txn.summary().replays) == ([1], 1)


def test_i8_what_may_be_another_when_it_runs_again_is_refused(lake: Any, sql: Any, three: Names) -> None:
    a, b, _ = three
    refused = {
        f"INSERT INTO lake.{b} SELECT id + floor(rand()) FROM lake.{a}": r"statement 1 .* it depends on rand\(\)",
        f"MERGE INTO lake.{b} t USING (SELECT id, current_date() AS day FROM lake.{a}) s ON t.id = s.id WHEN MATCHED "
        "THEN UPDATE SET id = day(s.day)": r"the present time \(current_date\)",
    }
    for number, (text, reason) in enumerate(refused.items()):
        with pytest.raises(TransactionConflict, match=reason), lake.transaction() as txn:
            txn.sql(text)
            txn.sql(f"UPDATE lake.{a} SET id = id + 100")
            elsewhere(lambda: sql(f"UPDATE lake.{a} SET id = id + 1"))
        assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([number + 1], [0])
    for options in ({"replays": 0}, {"replay_deadline_s": 0.0}):
        with pytest.raises(TransactionConflict, match="not replayed"), lake.transaction(**options) as txn:
            txn.sql(f"UPDATE lake.{a} SET id = id + 100")
            elsewhere(lambda: sql(f"UPDATE lake.{a} SET id = id + 1"))
        assert txn.summary().replays == 0
    with pytest.raises(ValueError, match="0 or more"):
        lake.transaction(replays=-1)


@pytest.mark.slow
def test_i8_a_script_runs_only_what_is_concerned_again_until_it_wins(lake: Any, sql: Any, three: Names) -> None:
    a, b, c = three
    ran: list[str] = []
    original = lake.spark.sql

    def watched(text: str) -> Any:
        frame = original(text)
        ran.append(text.split(maxsplit=1)[0])
        if ran.count("UPDATE") in (1, 2) and text.startswith("UPDATE"):
            elsewhere(lambda: original(f"UPDATE lake.{a} SET id = id + 1"))
        return frame

    lake.spark.sql = watched
    try:
        lake.sql(
            f"BEGIN ATOMIC INSERT INTO lake.{b} VALUES (8); DELETE FROM lake.{c} WHERE id = 1; "
            f"UPDATE lake.{a} SET id = id * 10; END"
        )
    finally:
        del lake.spark.sql
    assert ran == ["INSERT", "DELETE", "UPDATE", "UPDATE", "UPDATE"]
    assert [sql.ids(f"lake.{table}") for table in three] == [[20], [0, 8], []]


def test_i8_a_savepoint_takes_statements_back(lake: Any, sql: Any, three: Names) -> None:
    a, b, _ = three
    with lake.transaction() as txn:
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        point = txn.savepoint()
        txn.sql(f"INSERT INTO lake.{b} SELECT id FROM lake.{a}")
        txn.rollback_to(point)
        txn.sql(f"UPDATE lake.{a} SET id = id + 10")
        txn.sql(f"INSERT INTO lake.{b} VALUES (3)")
        elsewhere(lambda: sql(f"UPDATE lake.{a} SET id = id + 1"))
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([11], [0, 1, 3])
    assert (txn.summary().statements_kept, txn.summary().statements_run_again) == (1, 1)


@pytest.mark.slow
def test_i8_row_ids_follow_one_another_after_a_replay(lake: Any, sql: Any, two: tuple[str, str], name: str) -> None:
    a, _ = two
    tracked = f"lake.{name}_rows"
    sql(f"CREATE TABLE {tracked} (id BIGINT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    with lake.transaction() as txn:
        txn.sql(f"INSERT INTO {tracked} VALUES (1), (2)")
        txn.sql(f"INSERT INTO {tracked} VALUES (3)")
        txn.sql(f"UPDATE {tracked} SET id = id + 10 WHERE id = 1")
        txn.sql(f"UPDATE lake.{a} SET id = id + 10")
        elsewhere(lambda: [sql(f"INSERT INTO {tracked} VALUES (7)"), sql(f"UPDATE lake.{a} SET id = id + 1")])
    rows = sql(f"SELECT id, _metadata.row_id AS row FROM {tracked} ORDER BY id")
    assert [row.id for row in rows] == [2, 3, 7, 11]
    assert len({row.row for row in rows}) == 4
    assert (txn.summary().statements_kept, txn.summary().statements_run_again) == (2, 2)
