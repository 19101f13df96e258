"""Transactions over several tables: all of one or nothing, seen by no other session before, and
nothing left of one that is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TransactionOutcomeUnknown, TurnstileError


class Stop(Exception):
    """Errors that end a transaction from within."""


def held_logs(lake: Any) -> list[str]:
    """The file system options of the logs of scopes that Delta has in its cache."""
    cache = lake.jvm.module("org.apache.spark.sql.delta.DeltaLog")
    keys = cache.getOrCreateCache(lake.spark._jsparkSession.sessionState().conf()).asMap().keySet().toArray()
    return [str(key.fsOptions()) for key in keys if "fs.turnstile.scope" in str(key.fsOptions())]


def test_i8_all_statements_are_there_at_once_in_one_version_of_each_table(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two
    with lake.transaction() as txn:
        sql(f"INSERT INTO lake.{a} VALUES (1), (2)")
        sql(f"UPDATE lake.{a} SET id = id + 10 WHERE id = 1")
        sql(f"INSERT INTO lake.{b} SELECT id FROM lake.{a}")
        sql(f"DELETE FROM lake.{a} WHERE id = 2")
        sql(
            f"MERGE INTO lake.{b} t USING lake.{a} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET id = t.id + 100 WHEN NOT MATCHED THEN INSERT *"
        )
        assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 11], [2, 100, 100, 111])
        assert elsewhere(lambda: (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}"))) == ([0], [0])
        assert sql(f"SELECT count(*) AS n FROM lake.{a} VERSION AS OF 2")[0].n == 3
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 11], [2, 100, 100, 111])
    assert [lake.table(t).head().latest for t in two] == [2, 2]
    assert lake.table(a).history(1)[0].operation == "TRANSACTION"
    summary = txn.summary()
    assert summary.state == "committed"
    assert {t: (s["read"], s["version"], s["statements"]) for t, s in summary.tables.items()} == {
        a: (1, 2, 3),
        b: (1, 2, 2),
    }
    assert held_logs(lake) == []


def _commits(log: Path) -> set[str]:
    """The commits in a log, less staged ones, which gc removes. The server's light work may write
    other files there at any time."""
    return {file.name for file in log.glob("*.json*")}


@pytest.mark.parametrize("ended", ["exception", pytest.param("abort", marks=pytest.mark.slow)])
def test_i8_nothing_remains_of_a_transaction_that_is_given_up(
    lake: Any, sql: Any, two: tuple[str, str], ended: str, log_of: Any
) -> None:
    """I2: another commit becomes the version that was held, and is read right by old and new
    readers."""
    a, b = two
    log = log_of(a)
    before = _commits(log)
    with pytest.raises(Stop), lake.transaction() as txn:
        sql(f"ALTER TABLE lake.{a} ADD COLUMN phantom STRING")
        sql(f"INSERT INTO lake.{a} VALUES (1, 'x')")
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        assert lake.spark.table(f"lake.{a}").columns == ["id", "phantom"]
        if ended == "abort":
            txn.abort()
            with pytest.raises(TurnstileError, match="is over"):
                sql(f"INSERT INTO lake.{b} VALUES (2)")
        raise Stop
    assert txn.state == "aborted"
    assert _commits(log) == before
    assert held_logs(lake) == []
    sql(f"INSERT INTO lake.{a} VALUES (5)")
    for _ in range(2):
        assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 5], [0])
        assert lake.spark.table(f"lake.{a}").columns == ["id"]
        lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # and as a newcomer reads it
    assert [lake.table(t).head().latest for t in two] == [2, 1]


def test_i8_commits_of_others_are_not_seen_also_when_they_are_published(lake: Any, sql: Any, name: str) -> None:
    """I6: Delta lists the files in ``_delta_log``; a transaction's versions come after its cut, not
    after the newest file."""
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")

    def disturb(value: int) -> None:
        elsewhere(lambda: sql(f"INSERT INTO lake.{name} VALUES ({value})"))
        lake.table(name).publish()

    with lake.transaction() as txn:
        sql(f"INSERT INTO lake.{name} VALUES (1)")
        disturb(100)
        assert sql.ids(f"lake.{name}") == [0, 1]
        here = txn.savepoint()
        sql(f"UPDATE lake.{name} SET id = 2 WHERE id = 1")
        disturb(101)
        assert sql.ids(f"lake.{name}") == [0, 2]
        txn.rollback_to(here)
        assert sql.ids(f"lake.{name}") == [0, 1]
        sql(f"DELETE FROM lake.{name} WHERE id = 0")
        assert sql.ids(f"lake.{name}") == [1]
        assert elsewhere(lambda: sql.ids(f"lake.{name}")) == [0, 100, 101]
    assert sql.ids(f"lake.{name}") == [1, 100, 101]
    assert (txn.state, lake.table(name).head().latest) == ("committed", 4)


def test_a_transaction_of_one_statement_sends_what_the_statement_alone_sends(
    lake: Any, shaky: Any, flaky: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, _ = two

    def sent(statement: str, inside: bool) -> list[str]:
        del flaky.seen[:]
        if inside:
            with shaky.transaction():
                sql(statement)
        else:
            sql(statement)
        return [s.split("?")[0].split(" ")[0] for s in flaky.seen]

    for statement in (f"INSERT INTO shaky.{a} VALUES (1)", f"UPDATE shaky.{a} SET id = 7 WHERE id = 0"):
        alone = sent(statement, inside=False)
        assert len(sent(statement.replace("(1)", "(2)").replace("= 0", "= 1"), inside=True)) <= len(alone)
    assert sql.ids(f"lake.{a}") == [2, 7, 7]


def test_i6_a_snapshot_is_one_moment_for_all_its_tables(lake: Any, sql: Any, two: tuple[str, str], name: str) -> None:
    """I8: a transaction that is committed meanwhile is not in it, in none of its tables."""
    a, b = two
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    with lake.snapshot(a, b) as cut:
        assert cut.versions == {a: 1, b: 1}

        def other() -> None:
            with lake.transaction():
                sql(f"INSERT INTO lake.{a} VALUES (1)")
                sql(f"INSERT INTO lake.{b} VALUES (1)")
            for table in two:
                lake.table(table).publish()

        elsewhere(other)
        assert (sql.ids(f"lake.{a}"), [row.id for row in cut.table(b).collect()]) == ([0], [0])
        assert elsewhere(lambda: sql.ids(f"lake.{a}")) == [0, 1]
        with pytest.raises(TurnstileError, match="for reading"):
            sql(f"INSERT INTO lake.{a} VALUES (2)")
        with pytest.raises(TurnstileError, match="is not in this snapshot"):
            sql.ids(f"lake.{name}")
        late = cut.table(a)
    with pytest.raises(TurnstileError, match="is over"):
        late.collect()
    assert sql.ids(f"lake.{a}") == [0, 1]
    assert held_logs(lake) == []


def test_i8_a_table_joins_the_cut_only_while_the_others_are_as_they_were(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two
    with lake.transaction() as txn:
        assert sql.ids(f"lake.{a}") == [0]
        elsewhere(lambda: sql(f"INSERT INTO lake.{b} VALUES (1)"))  # before b is read: it joins as it is now
        assert sql.ids(f"lake.{b}") == [0, 1]
        assert txn.versions == {a: 1, b: 2}
    with lake.transaction() as txn, pytest.raises(TurnstileError, match="cannot join") as caught:
        assert sql.ids(f"lake.{a}") == [0]
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (1)"))
        sql.ids(f"lake.{b}")
    assert caught.value.condition == "TURNSTILE_TRANSACTION_CONFLICT"
    with lake.transaction(tables=two) as txn:
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (2)"))
        elsewhere(lambda: sql(f"INSERT INTO lake.{b} VALUES (2)"))
        assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 1], [0, 1])


def test_i8_serializable_refuses_write_skew_and_snapshot_isolation_does_not(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two

    def skew(isolation: str) -> None:
        with lake.transaction(isolation):
            total = sql(f"SELECT sum(id) AS s FROM lake.{b}")[0].s
            sql(f"INSERT INTO lake.{a} VALUES ({total + 1})")
            elsewhere(lambda: sql(f"INSERT INTO lake.{b} VALUES (5)"))

    with pytest.raises(TransactionConflict):
        skew("serializable")
    assert sql.ids(f"lake.{a}") == [0]
    skew("snapshot")
    assert sql.ids(f"lake.{a}") == [0, 6]
    with pytest.raises(ValueError, match="one of"):
        lake.transaction("chaos")


@pytest.mark.slow
def test_i3_a_lost_answer_applies_the_transaction_once(
    lake: Any, shaky: Any, flaky: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two
    flaky.lose_answers("POST /v1/transactions", times=2)
    with shaky.transaction():
        sql(f"INSERT INTO shaky.{a} VALUES (1)")
        sql(f"INSERT INTO shaky.{b} VALUES (1)")
    assert [lake.table(t).head().latest for t in two] == [2, 2]
    assert [s.split("?")[0] for s in flaky.seen].count("POST /v1/transactions") == 3


@pytest.mark.slow
def test_i3_an_outcome_without_evidence_is_unknown_until_it_is_asked_again(
    lake: Any, shaky: Any, flaky: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two
    flaky.lose_answers("POST /v1/transactions", times=1000)
    txn = shaky.transaction()
    with pytest.raises(TransactionOutcomeUnknown) as caught, txn:
        sql(f"INSERT INTO shaky.{a} VALUES (1)")
        sql(f"INSERT INTO shaky.{b} VALUES (1)")
    assert (caught.value.condition, caught.value.id, txn.state) == ("TURNSTILE_OUTCOME_UNKNOWN", txn.id, "unknown")
    del flaky.rules[:]
    txn.commit()
    assert txn.state == "committed"
    assert [lake.table(t).head().latest for t in two] == [2, 2]
    assert sql.ids(f"lake.{a}") == [0, 1]


def test_what_was_made_outside_is_refused_inside(lake: Any, sql: Any, spark: Any, two: tuple[str, str]) -> None:
    """I8: a DataFrame or DeltaTable from before would read, and write, past the transaction."""
    from delta.tables import DeltaTable

    a, b = two
    frame = spark.table(f"lake.{a}")
    table = DeltaTable.forName(spark, f"lake.{b}")
    with lake.transaction() as txn:
        with pytest.raises(TurnstileError, match="made outside"):
            frame.collect()
        with pytest.raises(TurnstileError, match="made outside"):
            table.delete()
        DeltaTable.forName(spark, f"lake.{b}").delete()
        spark.range(7, 8).write.insertInto(f"lake.{b}")
        assert sql.ids(f"lake.{b}") == [7]
        with pytest.raises(TurnstileError, match="do not nest"), lake.transaction():
            pass
    assert txn.state == "committed"
    assert (sql.ids(f"lake.{b}"), frame.count()) == ([7], 1)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE lake.{0}_c (id INT)",
        pytest.param("DROP TABLE lake.{0}", marks=pytest.mark.slow),
        pytest.param("CREATE SCHEMA lake.{1}", marks=pytest.mark.slow),
        pytest.param("ALTER TABLE lake.{0} RENAME TO {0}_d", marks=pytest.mark.slow),
    ],
)
def test_changes_of_the_catalog_are_refused_in_a_snapshot_before_anything_happened(
    lake: Any, sql: Any, two: tuple[str, str], statement: str
) -> None:
    a, _ = two
    with lake.snapshot(a), pytest.raises(Exception, match="in a transaction or snapshot"):
        sql(statement.format(a, a.rpartition(".")[2]))
    assert sql.ids(f"lake.{a}") == [0]


@pytest.mark.slow
def test_large_commits_travel_as_files(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    before = lake.context.inline_limit
    lake.context.inline_limit = 0
    try:
        with lake.transaction():
            sql(f"INSERT INTO lake.{a} VALUES (1)")
            sql(f"INSERT INTO lake.{b} VALUES (1)")
            sql(f"INSERT INTO lake.{b} VALUES (2)")
    finally:
        lake.context.inline_limit = before
    assert [lake.table(t).commits()[-1].kind for t in two] == ["staged", "staged"]
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 1], [0, 1, 2])
