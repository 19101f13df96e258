"""Changes of the catalog inside transactions: tables renamed and dropped, namespaces created, with
commits of other tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TransactionOutcomeUnknown, TurnstileError


def test_i8_a_table_takes_the_place_of_another_with_the_commit_that_counts_it(
    shaky: Any, flaky: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    old, new = two
    log = f"{name}_log"
    sql(f"CREATE TABLE lake.{log} (id BIGINT)")
    sql(f"INSERT INTO lake.{new} VALUES (5)")
    with shaky.transaction() as txn:
        sql(f"DROP TABLE shaky.{old}")
        assert sql.names(name, "shaky") == {"_b", "_log"}
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"SELECT * FROM shaky.{old}")
        sql(f"ALTER TABLE shaky.{new} RENAME TO {old}")
        assert sql.names(name, "shaky") == {"_a", "_log"}
        assert sql.ids(f"shaky.{old}") == [0, 5]
        sql(f"INSERT INTO shaky.{log} SELECT count(*) FROM shaky.{old}")
        assert elsewhere(lambda: (sql.ids(f"lake.{old}"), sql.ids(f"lake.{log}"))) == ([0], [])
        assert elsewhere(lambda: sql.names(name)) == {"_a", "_b", "_log"}
        del flaky.seen[:]
    changing = [seen for seen in flaky.seen if "/transactions" in seen]
    assert len(changing) == 1, flaky.seen
    assert txn.state == "committed"
    assert sql.names(name) == {"_a", "_log"}
    assert (sql.ids(f"lake.{old}"), sql.ids(f"lake.{log}")) == ([0, 5], [2])


def test_i8_a_namespace_is_created_with_the_table_that_moves_into_it(
    lake: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    space = f"{name.replace('.', '_')}_space"
    with lake.transaction():
        sql(f"CREATE NAMESPACE lake.{space} COMMENT 'ours' WITH DBPROPERTIES (k = 'v')")
        sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{space}")
        with pytest.raises(Exception, match="SCHEMA_ALREADY_EXISTS"):
            sql(f"CREATE NAMESPACE lake.{space}")
        assert space in {row.namespace for row in sql("SHOW NAMESPACES IN lake")}
        assert sql(f"SHOW TABLES IN lake.{space}") == []
        sql(f"ALTER TABLE lake.{a} RENAME TO {space}.moved")
        sql(f"INSERT INTO lake.{b} SELECT id + 1 FROM lake.{space}.moved")
        assert space not in elsewhere(lambda: {row.namespace for row in sql("SHOW NAMESPACES IN lake")})
    assert (sql.ids(f"lake.{space}.moved"), sql.ids(f"lake.{b}")) == ([0], [0, 1])
    described = {row.info_name: row.info_value for row in sql(f"DESCRIBE NAMESPACE lake.{space}")}
    assert described["Comment"] == "ours"


def test_i8_nothing_of_the_changes_remains_after_an_exception_and_a_savepoint_takes_them_back(
    lake: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with pytest.raises(KeyError), lake.transaction() as txn:
        sql(f"DROP TABLE lake.{a}")
        sql(f"ALTER TABLE lake.{b} RENAME TO {a}")
        raise KeyError
    assert (txn.state, sql.names(name)) == ("aborted", {"_a", "_b"})
    with lake.transaction() as txn:
        sql(f"ALTER TABLE lake.{a} RENAME TO {a}_x")
        point = txn.savepoint()
        sql(f"DROP TABLE lake.{b}")
        txn.rollback_to(point)
        sql(f"INSERT INTO lake.{b} VALUES (1)")
    assert sql.names(name) == {"_a_x", "_b"}
    assert sql.ids(f"lake.{b}") == [0, 1]


def test_i8_a_table_is_either_written_or_moved_and_a_name_that_is_taken_is_refused(
    lake: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with lake.transaction():
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        for statement in (f"DROP TABLE lake.{a}", f"ALTER TABLE lake.{a} RENAME TO {a}_x"):
            with pytest.raises(TurnstileError, match="is written, renamed or dropped"):
                sql(statement)
        with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            sql(f"ALTER TABLE lake.{b} RENAME TO {a}")
        sql(f"ALTER TABLE lake.{b} RENAME TO {b}_x")
        for statement in (f"INSERT INTO lake.{b}_x VALUES (1)", f"DROP TABLE lake.{b}_x"):
            with pytest.raises(Exception, match="is written, renamed or dropped"):
                sql(statement)
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"DROP TABLE lake.{b}")
        sql(f"DROP TABLE IF EXISTS lake.{b}")
    assert (sql.names(name), sql.ids(f"lake.{a}")) == ({"_a", "_b_x"}, [0, 1])


def test_i8_a_change_that_lost_refuses_the_commits_and_commits_of_others_are_no_conflict(
    lake: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with pytest.raises(TransactionConflict), lake.transaction() as txn:
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"ALTER TABLE lake.{a} RENAME TO {a}_x")
        elsewhere(lambda: sql(f"CREATE TABLE lake.{a}_x (id BIGINT)"))
    assert (txn.state, sql.names(name), sql.ids(f"lake.{b}")) == ("conflict", {"_a", "_a_x", "_b"}, [0])
    with pytest.raises(TransactionConflict), lake.transaction() as txn:
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"DROP TABLE lake.{a}_x")
        elsewhere(lambda: sql(f"DROP TABLE lake.{a}_x"))
    assert (txn.state, sql.names(name), sql.ids(f"lake.{b}")) == ("conflict", {"_a", "_b"}, [0])
    with lake.transaction() as txn:
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"DROP TABLE lake.{a}")
        elsewhere(lambda: sql(f"INSERT INTO lake.{b} VALUES (2)"))
    assert (txn.state, sql.names(name), sql.ids(f"lake.{b}")) == ("committed", {"_b"}, [0, 1, 2])


def test_i3_a_lost_answer_makes_the_changes_once(
    shaky: Any, flaky: Any, sql: Any, two: tuple[str, str], name: str
) -> None:
    a, b = two
    with shaky.transaction():
        sql(f"INSERT INTO shaky.{b} VALUES (1)")
        sql(f"ALTER TABLE shaky.{a} RENAME TO {a}_x")
        flaky.lose_answers("/transactions", times=2)
    assert (sql.names(name), sql.ids(f"lake.{b}")) == ({"_a_x", "_b"}, [0, 1])
    txn = shaky.transaction()
    with pytest.raises(TransactionOutcomeUnknown), txn:
        sql(f"DROP TABLE shaky.{a}_x")
        flaky.lose_answers("/transactions", times=1000)
    assert txn.state == "unknown"
    del flaky.rules[:]
    txn.commit()
    assert (txn.state, sql.names(name)) == ("committed", {"_b"})
