"""Cuts of the past: several tables as they were at one time, with all of every transaction or
nothing (I8)."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from tests.support.threads import elsewhere
from turnstile_spark import TurnstileError


def timestamps(lake: Any, tables: tuple[str, str]) -> list[int]:
    """In-commit timestamps (ms) of the latest versions."""
    return [entry.timestamp for entry in lake.context.api.cut(list(tables))]


@pytest.mark.slow
def test_i8_the_commits_of_a_transaction_have_one_time_and_a_cut_of_before_has_neither(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    a, b = two
    with lake.transaction():
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        time.sleep(0.02)
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        sql(f"INSERT INTO lake.{b} VALUES (2)")
    at, same = timestamps(lake, two)
    assert at == same
    sql(f"INSERT INTO lake.{a} VALUES (9)")
    for moment, expected in ((at - 1, ([0], [0])), (at, ([0, 1], [0, 1, 2]))):
        with lake.snapshot(a, b, at=moment) as cut:
            assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == expected
            assert [row.id for row in cut.table(b).sort("id").collect()] == expected[1]
    assert cut.versions == {a: 2, b: 2}
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 1, 9], [0, 1, 2])


@pytest.mark.slow
def test_i8_a_transaction_put_on_top_of_others_has_one_time_as_well(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    with lake.transaction():
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        sql(f"INSERT INTO lake.{b} VALUES (1)")
        time.sleep(0.02)
        elsewhere(lambda: sql(f"INSERT INTO lake.{b} VALUES (5)"))
    assert len(set(timestamps(lake, two))) == 1
    assert (sql.ids(f"lake.{a}"), sql.ids(f"lake.{b}")) == ([0, 1], [0, 1, 5])


@pytest.mark.slow
def test_a_past_cut_has_the_columns_of_then(lake: Any, sql: Any, two: tuple[str, str]) -> None:
    a, b = two
    at = max(timestamps(lake, two))
    sql(f"ALTER TABLE lake.{a} ADD COLUMN colour STRING")
    sql(f"INSERT INTO lake.{a} VALUES (1, 'red')")
    moment = datetime.fromtimestamp(at / 1000)
    for same in (moment, str(moment)):
        with lake.snapshot(a, b, at=same):
            assert lake.spark.table(f"lake.{a}").columns == ["id"]
            assert sql.ids(f"lake.{a}") == [0]
    with lake.snapshot(a, at=at + 30_000):
        assert lake.spark.table(f"lake.{a}").columns == ["id", "colour"]


@pytest.mark.slow
def test_a_time_before_a_table_and_one_that_is_none_are_errors_that_say_so(
    lake: Any, sql: Any, two: tuple[str, str]
) -> None:
    for at, problem in ((1000, "is younger"), (timestamps(lake, two)[0] + 3_600_000, "no moment of the past")):
        with pytest.raises(TurnstileError, match=problem), lake.snapshot(*two, at=at):
            pass
    with pytest.raises(Exception, match="yesterdayish"), lake.snapshot(*two, at="yesterdayish"):
        pass
    assert lake.context.scopes.current() is None
    assert sql.ids(f"lake.{two[0]}") == [0]
