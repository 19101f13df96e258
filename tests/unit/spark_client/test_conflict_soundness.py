"""A file is never said to have no row for a predicate when it has one; and it is said where the
statistics decide (serializability)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.spark_client import judged_files as files
from turnstile_predicates.predicates import (
    ANY,
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    outcomes,
)
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner, judge

_left_out = st.sets(
    st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount", "all", "NaN"]), max_size=2
).map(frozenset)


def _with_partition(rows: list[Any], partition: str | None) -> list[Any]:
    return [{**row, files.PARTITION: partition or None} for row in rows]


@settings(max_examples=examples(500))
@given(files.close_calls(), _left_out, st.booleans())
def test_rows_next_to_the_literal_are_never_missed(drawn, left_out, mapped) -> None:
    rows, partition, predicate = drawn
    rows = _with_partition(rows, partition)
    file = files.add("f", rows, partition, mapped=mapped, left_out=left_out)
    conflict = judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema(mapped=mapped))
    if any(files.evaluate(predicate, row) is True for row in rows):
        assert conflict is not None


@settings(max_examples=examples(120))
@given(files.rows, files.partition_values, files.predicates, _left_out, st.tuples(st.booleans(), st.integers(0, 2)))
def test_a_row_that_satisfies_the_predicate_is_never_missed(rows, partition, predicate, left_out, stored) -> None:
    mapped, deleted = stored
    rows = _with_partition(rows, partition)
    file = files.add("f", rows, partition, mapped=mapped, left_out=left_out, deleted=min(deleted, len(rows)))
    conflict = judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema(mapped=mapped))
    if any(files.evaluate(predicate, row) is True for row in rows):
        assert conflict is not None


@settings(max_examples=examples(80))
@given(files.rows, files.partition_values, files.predicates)
def test_every_outcome_of_a_row_is_among_the_possible_ones(rows, partition, predicate) -> None:
    """Stronger than the above: it also holds under a NOT that is added later."""
    rows = _with_partition(rows, partition)
    range_of = files.schema().ranges_of(files.add("f", rows, partition))
    possible = 0 if range_of is None else outcomes(predicate, range_of)
    for row in rows:
        outcome = {True: TRUE, False: FALSE, None: NULL}[files.evaluate(predicate, row)]
        assert possible & outcome


@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-9, 9),
)
@example([3, 5], "=", 4)
def test_a_comparison_with_integers_is_judged_exactly_by_the_bounds(values, operator, literal) -> None:
    file = files.add("f", [_row(i=v) for v in values], "a")
    predicate = Comparison(("i",), operator, Value("integer", literal))
    low = min(values)
    high = max(values)
    expected = {
        "=": low <= literal <= high,
        "<": low < literal,
        "<=": low <= literal,
        ">": high > literal,
        ">=": high >= literal,
    }
    assert (judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema()) is not None) == expected[
        operator
    ]


@pytest.mark.parametrize(
    ("values", "predicate", "left_out"),
    [
        ([{"f": 1.0}, {"f": math.nan}], Comparison(("f",), ">", Value("float", 2.0)), frozenset({"NaN"})),
        ([{"f": 1.0}, {"f": math.nan}], Not(Comparison(("f",), "<=", Value("float", 1.0))), frozenset({"NaN"})),
        ([{"f": 1.0}], Not(Comparison(("f",), ">=", Value("float", math.nan))), frozenset()),
        ([{"i": 5}], Not(Comparison(("i",), ">", Value("integer", 5))), frozenset()),
        ([{"i": 5}], Not(Comparison(("i",), "<", Value("integer", 5))), frozenset()),
        ([{"i": None}], Not(Comparison(("i",), "<=>", Value("integer", 5))), frozenset()),
        ([{"p": ""}], IsNull(("p",)), frozenset()),
        ([{"p": ""}], Comparison(("p",), "=", Value("string", "")), frozenset()),
    ],
)
def test_the_corners_of_the_rule(values, predicate, left_out) -> None:
    file = files.add("f", [_row(**v) for v in values], values[0].get("p"), left_out=left_out)
    file["partitionValues"]["p"] = values[0].get("p")  # others than Spark may write the empty string
    assert judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema()) is not None


def _row(**values: Any) -> dict[Any, Any]:
    return {column: values.get(column[0]) for column, _, _ in files.COLUMNS}


def test_clear_cases_are_no_conflict_on_every_type() -> None:
    """Precision, counted: a file whose values all lie on one side of the literal."""
    day = 19_000
    noon = 19_000 * 86_400_000_000
    sides: dict[tuple[str, ...], tuple[Any, Any]] = {
        ("i",): (10, 20),
        ("d",): (files.Decimal("1.00"), files.Decimal("2.00")),
        ("w",): (files.Decimal("1.00"), files.Decimal("2.00")),
        ("s",): ("a" * 40, "b" * 40),
        ("day",): (day, day + 1),
        ("t",): (noon, noon + 5_000),
        ("n",): (noon, noon + 5_000),
        ("f",): (1.0, 2.0),
        ("g",): (1.5, 2.5),
    }
    verdicts: Counter[bool] = Counter()
    for column, (low, high) in sides.items():
        file = files.add("f", [{**_row(), column: low}], "a")
        for operator in (
            ("=", ">", ">=") if column not in (("f",), ("g",)) else ("=",)
        ):  # a float may be NaN, which is more
            predicate = Comparison(column, operator, Value(files.KINDS[column], high))
            verdicts[judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema()) is None] += 1
        over = files.add("f", [{**_row(), column: high}], "a")
        predicate = Comparison(column, "<", Value(files.KINDS[column], low))
        verdicts[judge(Read("t", 1, predicate), [Winner(2, [{"add": over}])], files.schema()) is None] += 1
    assert verdicts == {True: 32}


def test_most_disjoint_files_are_no_conflict() -> None:
    """Precision over ranges of a key, as fact tables are read: the rule loses nothing there."""
    read = Read(
        "t", 1, And((Comparison(("i",), ">=", Value("integer", 40)), Comparison(("i",), "<", Value("integer", 60))))
    )
    conflicts = [
        start
        for start in range(0, 100, 5)
        if judge(read, [Winner(2, [{"add": files.add("f", [_row(i=start), _row(i=start + 4)], "a")}])], files.schema())
    ]
    assert conflicts == [40, 45, 50, 55]


def test_a_disjunction_needs_one_part_and_a_conjunction_all() -> None:
    file = files.add("f", [_row(i=1, s="x")], "a")
    i = Comparison(("i",), "=", Value("integer", 1))
    s = Comparison(("s",), "=", Value("string", "y"))

    def verdict(predicate: Predicate) -> bool:
        return judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], files.schema()) is not None

    assert (verdict(And((i, s))), verdict(Or((i, s))), verdict(Not(s)), verdict(Not(i))) == (False, True, True, False)
    assert (verdict(IsNull(("i",))), verdict(IsNull(("f",))), verdict(Not(IsNull(("f",))))) == (False, True, False)
    assert (
        verdict(StartsWith(("s",), "x")),
        verdict(StartsWith(("s",), "y")),
        verdict(Not(StartsWith(("s",), "x"))),
    ) == (True, False, False)


def test_three_valued_conjunction_is_complete() -> None:
    """Every pair of outcomes, against SQL's table."""
    from turnstile_predicates.predicates import _all, _swap

    table = {TRUE: {TRUE: TRUE, FALSE: FALSE, NULL: NULL}, FALSE: dict.fromkeys((TRUE, FALSE, NULL), FALSE)}
    table[NULL] = {TRUE: NULL, FALSE: FALSE, NULL: NULL}
    for left in range(1, ANY + 1):
        for right in range(1, ANY + 1):
            expected = 0
            for a, columns in table.items():
                for b, both in columns.items():
                    if left & a and right & b:
                        expected |= both
            assert _all([left, right]) == expected
    assert [_swap(x) for x in (TRUE, FALSE, NULL, ANY, 0)] == [FALSE, TRUE, NULL, ANY, 0]
