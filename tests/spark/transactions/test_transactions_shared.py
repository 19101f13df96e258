"""Scopes that read one version of a table share its state; a commit on it is its transaction's
alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.threads import elsewhere


@pytest.fixture
def jobs(spark: Any) -> Iterator[Callable[[Callable[[], Any]], int]]:
    """Counts the Spark jobs of a call."""
    context = spark.sparkContext

    def count(call: Callable[[], Any]) -> int:
        group = uuid.uuid4().hex
        context.setJobGroup(group, "counted")
        call()
        return len(context.statusTracker().getJobIdsForGroup(group))

    yield count
    context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.slow
def test_i6_the_state_of_a_version_is_computed_once_for_all_scopes(
    lake: Any, sql: Any, two: tuple[str, str], jobs: Callable[[Callable[[], Any]], int]
) -> None:
    a, _ = two

    def read() -> None:
        with lake.snapshot(a) as cut:
            assert [row.id for row in cut.table(a).collect()] == [0]

    counts = [jobs(read) for _ in range(4)]
    assert counts[3] == counts[2] < counts[0], counts
    sql(f"INSERT INTO lake.{a} VALUES (1)")
    with lake.snapshot(a) as cut:
        assert sorted(row.id for row in cut.table(a).collect()) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["INSERT INTO lake.{a} VALUES (7)", "UPDATE lake.{a} SET id = 7"])
def test_i8_a_statement_on_a_shared_state_is_seen_by_its_transaction_alone(
    lake: Any, sql: Any, two: tuple[str, str], statement: str
) -> None:
    a, b = two
    for _ in range(3):
        with lake.transaction():
            assert sql.ids(f"lake.{a}") == [0]
    with lake.transaction() as txn:
        point = txn.savepoint()
        sql(statement.format(a=a))
        assert 7 in sql.ids(f"lake.{a}")
        txn.rollback_to(point)
        assert sql.ids(f"lake.{a}") == [0]
        sql(statement.format(a=a))
        sql(f"INSERT INTO lake.{b} SELECT id FROM lake.{a} WHERE id = 7")
        with_statement = sql.ids(f"lake.{a}")
        assert elsewhere(lambda: sql.ids(f"lake.{a}")) == [0]
    assert sql.ids(f"lake.{a}") == with_statement
    assert sql.ids(f"lake.{b}") == [0, 7]
