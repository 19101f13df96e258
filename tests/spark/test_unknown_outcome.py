"""A commit with a lost answer is committed once, or its writer gets an unknown outcome."""

from __future__ import annotations

from typing import Any

import pytest

from turnstile_spark import TurnstileError


@pytest.fixture
def table(lake: Any, shaky: Any, sql: Any, name: str) -> str:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")
    return name


def test_a_lost_answer_does_not_commit_twice(lake: Any, flaky: Any, sql: Any, table: str) -> None:
    """I2, I3: the proposal is sent again and gets the version that it has."""
    flaky.lose_answers("POST", times=2)
    sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert sql.ids(f"lake.{table}") == [0, 1]
    assert lake.table(table).head().latest == 2
    assert len([seen for seen in flaky.seen if seen.startswith("POST") and "/commits" in seen]) == 3


def test_a_staged_commit_whose_answer_is_lost_is_there_once(
    lake: Any, shaky: Any, flaky: Any, sql: Any, table: str
) -> None:
    """I3."""
    shaky.context.inline_limit = 0
    flaky.lose_answers("POST")
    sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert sql.ids(f"lake.{table}") == [0, 1]
    assert lake.table(table).commits()[-1].kind == "staged"


def test_unknown_to_the_server_is_settled_before_delta_hears_of_it(lake: Any, flaky: Any, sql: Any, table: str) -> None:
    """I3: the server did not know whether its write had happened; it had not."""
    flaky.fail("POST /v1/tables", 500, "CommitStateUnknown", times=2)
    sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert sql.ids(f"lake.{table}") == [0, 1]
    assert lake.table(table).head().latest == 2


def test_a_refusal_after_a_lost_answer_is_checked_against_the_outcome(
    lake: Any, flaky: Any, sql: Any, table: str
) -> None:
    """I3: the second attempt is refused for a reason that says nothing about the first, which had
    landed."""
    flaky.lose_answers("POST")
    flaky.fail("POST", 409, "ReloadRequired")
    sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert sql.ids(f"lake.{table}") == [0, 1]
    assert lake.table(table).head().latest == 2


@pytest.mark.slow
def test_a_lost_answer_to_a_lost_race_rebases_once(lake: Any, flaky: Any, sql: Any, table: str) -> None:
    """I1, I3: somebody else has the version; the repeated proposal learns that, and only then Delta
    rebases."""
    flaky.first("POST /v1/tables", lambda: sql(f"INSERT INTO lake.{table} VALUES (5)"))
    flaky.rules[-1].lose_answer = True
    sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert sql.ids(f"lake.{table}") == [0, 1, 5]
    assert lake.table(table).head().latest == 3


def test_the_writer_gets_an_unknown_outcome_and_delta_does_not_retry(
    lake: Any, flaky: Any, sql: Any, table: str
) -> None:
    """I2: no second version of the same data; the message says how to find out."""
    flaky.lose_answers("POST", times=1000)
    with pytest.raises(TurnstileError) as caught:
        sql(f"INSERT INTO shaky.{table} VALUES (1)")
    assert caught.value.condition == "TURNSTILE_OUTCOME_UNKNOWN"
    message = str(caught.value)
    txn_id = message.split("transaction ")[1].split(")", maxsplit=1)[0]
    assert "version 2" in message
    found = lake.table(table).outcome(2, txn_id=txn_id)
    assert (found.outcome, found.version) == ("ratified", 2)
    assert sql.ids(f"lake.{table}") == [0, 1]
    assert lake.table(table).head().latest == 2


def test_the_file_of_an_inline_commit_that_the_client_could_not_write_is_written_by_the_server(
    lake: Any, sql: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands: the client asks the server for its file instead of reporting a failure."""

    def broken(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(lake.context.files, "write", broken)
    sql(f"INSERT INTO lake.{table} VALUES (1)")
    monkeypatch.undo()
    assert sql.ids(f"lake.{table}") == [0, 1]
