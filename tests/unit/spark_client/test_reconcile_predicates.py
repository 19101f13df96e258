"""What a transaction tells the server of the rows that it read: never less than it read (I20)."""

from __future__ import annotations

import pytest

from turnstile_predicates.predicates import UNKNOWN, And, Comparison, Predicate, Value
from turnstile_spark.transactions.conflicts.conflict_check import Read
from turnstile_spark.transactions.recovery.reconcile import predicate_of_reads


def at(value: int) -> Predicate:
    return Comparison(("id",), "=", Value("integer", value))


@pytest.mark.parametrize(
    ("reads", "predicate"),
    [
        ([], ""),
        ([Read("t", 3, at(5))], "(`id` = '5')"),
        ([Read("t", 3, at(5)), Read("t", 2, at(6)), Read("t", 3, at(5))], "(`id` = '5' OR `id` = '6')"),
        ([Read("t", 3, at(5)), Read("t", 3)], ""),
        ([Read("t", 3, And((UNKNOWN, at(5))))], "((`id` = '5'))"),
        ([Read("t", 3, UNKNOWN), Read("t", 3, at(5))], ""),
        ([Read("t", 2, is_time_travel=True), Read("t", 3, at(5))], "(`id` = '5')"),
        ([Read("t", 2, is_time_travel=True)], ""),
        ([Read("t", 3, is_stale_allowed=True), Read("t", 3, at(5))], "(`id` = '5')"),
    ],
)
def test_i20_all_reads_of_a_table_are_in_its_predicate(reads: list[Read], predicate: str) -> None:
    assert predicate_of_reads(reads, 3) == predicate
