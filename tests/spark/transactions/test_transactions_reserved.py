"""Long transactions among short ones: with a reservation they are not overtaken for ever (I18,
docs/transactions.md)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TurnstileError


def test_i18_a_transaction_that_always_loses_wins_when_it_reserves_its_tables(lake: Any, sql: Any, name: str) -> None:
    """Before its first commit another one commits; in the second run, that one has to wait."""
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")
    overtakers: list[threading.Thread] = []

    def short(_: Any) -> None:
        sql(f"UPDATE lake.{name} SET id = id + 10 WHERE id < 1000")

    def long(txn: Any) -> int:
        sql(f"UPDATE lake.{name} SET id = id + 1 WHERE id < 1000")
        overtaker = threading.Thread(target=lake.retry, args=(short,))
        overtaker.start()
        overtaker.join(2 if txn.retries == 1 else None)
        overtakers.append(overtaker)
        return int(txn.retries)

    assert lake.retry(long, attempts=2, fair_after=1) == 1
    for overtaker in overtakers:
        overtaker.join()
    assert sql.ids(f"lake.{name}") == [21], "nothing is lost of what either wrote"
    assert lake.api.http.call("reservations", "GET", "/v1/reservations")["reservations"] == []


def test_i18_without_one_it_loses_and_says_so(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"INSERT INTO lake.{name} VALUES (0)")

    def long(_: Any) -> None:
        sql(f"UPDATE lake.{name} SET id = id + 1")
        elsewhere(lambda: sql(f"UPDATE lake.{name} SET id = id + 10"))

    with pytest.raises(TransactionConflict):
        lake.retry(long, attempts=2)
    with pytest.raises(ValueError, match="fair_after"):
        lake.retry(long, fair_after=0)


def test_i18_a_reservation_ends_with_its_transaction_however_that_ends(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    def listed() -> list[Any]:
        return list(lake.api.http.call("reservations", "GET", "/v1/reservations")["reservations"])

    with lake.transaction(reserve=two) as txn:
        sql(f"INSERT INTO lake.{two[0]} VALUES (1)")
        assert [len(each["held"]) for each in listed()] == [2]
        txn.abort()
    assert listed() == []
    with pytest.raises(ZeroDivisionError), lake.transaction(reserve=two):
        raise ZeroDivisionError
    with pytest.raises(TurnstileError), lake.transaction(reserve=["default.no_such_table"]):
        raise AssertionError("it does not begin")
    with pytest.raises(TurnstileError), lake.transaction(tables=["default.no_such_table"], reserve=two):
        raise AssertionError("it does not begin")
    assert listed() == []


def test_scripts_and_decorated_functions_take_slack_and_fairness(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    """Their retries are those of ``lake.retry``."""
    a, b = two
    lake.sql(
        f"BEGIN ATOMIC INSERT INTO lake.{a} SELECT id + 1 FROM lake.{b}; END",
        isolation="serializable",
        slack={b: 2},
        fair_after=2,
    )

    @lake.transactional(isolation="serializable", slack=1, fair_after=1)
    def add(value: int) -> None:
        sql(f"INSERT INTO lake.{a} VALUES ({value})")

    add(2)
    assert sql.ids(f"lake.{a}") == [0, 1, 2]
    with pytest.raises(ValueError, match="slack"):
        lake.sql(f"BEGIN ATOMIC INSERT INTO lake.{a} VALUES (3); END", slack=1)
