"""The judgement of many files at once equals the judgement of each: no file with a matching row is
dropped (I16)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.spark_client import judged_files as files
from turnstile.planning.judging import (
    HAS_NAN,
    HAS_NULLS,
    HAS_VALUES,
    MAX_CHARACTERS,
    Bounds,
    may_match,
    range_row,
    storage_type,
    successor,
)
from turnstile_predicates.predicates import (
    TRUE,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Range,
    StartsWith,
    Value,
    outcomes,
)

SCHEMA = files.schema()


def scale(type: str) -> int:
    match = re.fullmatch(r"decimal\(\d+,(\d+)\)", type)
    return int(match[1]) if match else 0


def judged(predicate: Predicate, adds: list[dict[str, Any]]) -> list[bool]:
    return judge_of(adds)(predicate)


def judge_of(adds: list[dict[str, Any]]) -> Callable[[Predicate], list[bool]]:
    bounds = {}
    for column, field in SCHEMA.fields.items():
        digits = scale(field.type)
        ranges = [SCHEMA.ranges_of(add) for add in adds]
        kept = [(None, None, 0) if of is None else range_row(of(column), field.kind, digits) for of in ranges]
        low, high, flags = zip(*kept, strict=True)
        kind = storage_type(field.kind)
        bounds[column] = Bounds(
            field.kind, digits, pa.array(low, kind), pa.array(high, kind), pa.array(flags, pa.uint8())
        )
    ones = pa.array([True] * len(adds))
    return lambda predicate: may_match(predicate, bounds.get, ones).to_pylist()


_left_out = st.sets(st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount", "all", "NaN"]), max_size=2)
_file = st.tuples(files.rows, files.partition_values, _left_out.map(frozenset))


@settings(max_examples=examples(100))
@given(st.lists(_file, min_size=1, max_size=6), files.predicates)
def test_no_file_is_dropped_that_has_a_row_which_satisfies(drawn, predicate) -> None:
    rows_of = [[{**row, files.PARTITION: partition or None} for row in rows] for rows, partition, _ in drawn]
    adds = [
        files.add(f"f{at}", rows, partition, left_out=left_out)
        for at, (rows, (_, partition, left_out)) in enumerate(zip(rows_of, drawn, strict=True))
    ]
    for add, rows, may in zip(adds, rows_of, judged(predicate, adds), strict=True):
        range_of = SCHEMA.ranges_of(add)
        scalar = range_of is not None and bool(outcomes(predicate, range_of) & TRUE)
        assert may or not scalar
        assert may or not any(files.evaluate(predicate, row) is True for row in rows)


@settings(max_examples=examples(100))
@given(files.close_calls())
def test_rows_next_to_the_literal_are_never_missed(drawn) -> None:
    rows, partition, predicate = drawn
    rows = [{**row, files.PARTITION: partition or None} for row in rows]
    (may,) = judged(predicate, [files.add("f", rows, partition)])
    assert may or not any(files.evaluate(predicate, row) is True for row in rows)


def i(operator: Any, value: int) -> Comparison:
    return Comparison(("i",), operator, Value("integer", value))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (i("=", 5), [False, True, False]),
        (i("<", 5), [True, False, False]),
        (i("<=", 5), [True, True, False]),
        (i(">", 5), [False, False, True]),
        (i(">=", 5), [False, True, True]),
        (Not(i("=", 5)), [True, False, True]),
        (Not(i(">", 5)), [True, True, False]),
        (i("<", 2**70), [True, True, True]),
        (i(">", 2**70), [False, False, False]),
        (i(">", -(2**70)), [True, True, True]),
        (i("<=", -(2**70)), [False, False, False]),
        (Comparison(("i",), "<", Value("decimal", files.Decimal("5.5"))), [True, True, False]),
        (Comparison(("i",), "=", Value("decimal", files.Decimal("5.5"))), [False, False, False]),
        (Comparison(("i",), "=", None), [False, False, False]),
        (Comparison(("i",), "<=>", None), [False, False, False]),
        (In(("i",), (Value("integer", 1), Value("integer", 9))), [True, False, True]),
        (Not(In(("i",), (Value("integer", 1), Value("integer", 9)))), [False, True, False]),
        (Not(In(("i",), (Value("integer", 1), None))), [False, False, False]),
        (And((i(">", 0), i("<", 6))), [True, True, False]),
        (Or((i("<", 2), i(">", 8))), [True, False, True]),
        (And(()), [True, True, True]),
        (Or(()), [False, False, False]),
        (StartsWith(("s",), "ab"), [True, False, True]),
        (Not(StartsWith(("s",), "ab")), [False, True, False]),
    ],
)
def test_clear_cases_are_judged_exactly(predicate, expected) -> None:
    empty = {column: None for column, _, _ in files.COLUMNS}
    texts = {1: "abc", 5: "b", 9: "ab"}
    adds = [files.add(f"f{n}", [{**empty, ("i",): n, ("s",): texts[n]}], "a") for n in (1, 5, 9)]
    assert judged(predicate, adds) == expected


def test_a_column_that_is_not_known_excludes_nothing() -> None:
    ones = pa.array([True, True])
    for predicate in (
        i("=", 5),
        In(("i",), ()),
        StartsWith(("i",), "a"),
        Not(i("=", 5)),
        Comparison(("i",), "<=>", None),
    ):
        expected = [not isinstance(predicate, In)] * 2
        assert may_match(predicate, lambda _: None, ones).to_pylist() == expected


def test_bounds_of_other_types_than_the_literal_exclude_nothing() -> None:
    bounds = Bounds("string", 0, pa.array(["a"]), pa.array(["b"]), pa.array([HAS_VALUES | HAS_NULLS], pa.uint8()))
    assert may_match(i("=", 5), lambda _: bounds, pa.array([True])).to_pylist() == [True]


LONG = "a" * MAX_CHARACTERS
RANGES = [
    (Range("string", "a", "b"), "string", ("a", "b")),
    (Range("string", "a", "b", is_prefix=True), "string", ("a", "c")),
    (Range("string", LONG, LONG), "string", (LONG, LONG)),
    (Range("string", LONG + "a", LONG + "a"), "string", (LONG, LONG[:-1] + "b")),
    (Range("string", "a", None), "string", ("a", None)),
    (Range("string", None, "\U0010ffff", is_prefix=True), "string", (None, None)),
    (Range("integer", 1, 2), "string", (None, None)),
    (Range("string", "a", "b"), "integer", (None, None)),
    (Range("string", "a", "b"), None, (None, None)),
    (Range(None, "a", "b"), None, (None, None)),
    (Range("float", 1.5, 2.5), "float", (1.5, 2.5)),
    (Range("decimal", files.Decimal("1.255"), files.Decimal("1.251")), "decimal", (125, 126)),
    (Range("integer", -(2**63), 2**63 - 1), "integer", (-(2**63), 2**63 - 1)),
    (Range("integer", -(2**63) - 1, 2**63), "integer", (None, None)),
]


@pytest.mark.parametrize(("values", "kind", "bounds"), RANGES)
def test_bounds_are_kept_outwards_and_those_that_cannot_be_kept_are_not_known(values, kind, bounds) -> None:
    assert range_row(values, kind, 2 if kind == "decimal" else 0)[:2] == bounds


def test_the_successor_leaves_out_what_is_no_character() -> None:
    assert successor("a\ud7ff") == "a\ue000"
    assert successor("a\U0010fffe") == "a\U0010ffff"
    assert successor("a\U0010ffff") == "b"


def of_floats(predicate: Predicate, flags: int) -> list[bool]:
    bounds = Bounds("float", 0, pa.array([1.0]), pa.array([2.0]), pa.array([HAS_VALUES | flags], pa.uint8()))
    return may_match(predicate, lambda _: bounds, pa.array([True])).to_pylist()


def test_nan_is_more_than_every_number() -> None:
    more, less = (Comparison(("f",), operator, Value("float", 5.0)) for operator in (">", "<"))
    assert of_floats(more, HAS_NAN) == [True]
    assert of_floats(more, 0) == [False]
    assert of_floats(Not(less), HAS_NAN) == [True]
    assert of_floats(Not(less), 0) == [False]
    assert of_floats(In(("f",), (Value("float", 5.0),)), HAS_NAN) == [False]


@pytest.mark.parametrize("predicate", [IsNull(("x",)), Not(IsNull(("x",)))])
def test_whether_a_column_that_is_not_known_has_nulls_is_not_known(predicate) -> None:
    assert may_match(predicate, lambda _: None, pa.array([True])).to_pylist() == [True]


def test_a_literal_of_text_is_not_compared_with_numbers() -> None:
    bounds = Bounds("integer", 0, pa.array([1]), pa.array([2]), pa.array([HAS_VALUES], pa.uint8()))
    for predicate in (StartsWith(("i",), "a"), Comparison(("i",), "=", Value("string", "a"))):
        assert may_match(predicate, lambda _: bounds, pa.array([True])).to_pylist() == [True]


@settings(max_examples=examples(200))
@given(st.text(max_size=4), st.text(max_size=3))
def test_the_successor_is_greater_than_every_text_with_the_prefix(prefix, rest) -> None:
    following = successor(prefix)
    if following is None:
        assert set(prefix) <= {"\U0010ffff"}
    else:
        assert prefix + rest < following
        assert following.encode() > (prefix + rest).encode()
        assert len(following) <= len(prefix)


def _random_files(rng: random.Random, count: int) -> tuple[list[dict[str, Any]], list[list[dict[Any, Any]]]]:
    """Files of three rows whose values are near to each other and to the literals below, as those
    of a clustered table are."""
    adds = []
    rows_of = []
    for number in range(count):
        base = rng.randrange(50)
        partition = rng.choice(["", "a", "b", None])
        rows = []
        for _ in range(3):
            near = base + rng.randrange(4)
            values: dict[Any, Any] = {
                ("i",): near, ("d",): files.Decimal(near) / 4, ("w",): files.Decimal(10**20 + near),
                ("f",): rng.choice([near / 2, math.nan]),
                ("g",): near / 2, ("s",): "a" * rng.choice([1, 31, 40]) + chr(97 + near % 26), ("b",): near % 2 == 0,
                ("day",): near,
                ("t",): near * 700, ("n",): near * 700, ("in", "x"): near,
            }  # fmt: skip
            row = {column: value if rng.random() < 0.9 else None for column, value in values.items()}
            rows.append({**row, files.PARTITION: partition or None})
        adds.append(files.add(f"f{number}", rows, partition))
        rows_of.append(rows)
    return adds, rows_of


def _random_predicate(rng: random.Random, rows: list[dict[Any, Any]], depth: int = 0) -> Predicate:
    if depth < 3 and rng.random() < 0.5:
        parts = tuple(_random_predicate(rng, rows, depth + 1) for _ in range(rng.randrange(1, 4)))
        return rng.choice([And(parts), Or(parts), Not(parts[0])])
    column = rng.choice(list(files.VALUES))
    values = [row[column] for row in rows if row[column] is not None and row[column] == row[column]]
    if not values or rng.random() < 0.1:
        return IsNull(column)
    literals = [Value(files.KINDS[column], value) for value in rng.sample(values, min(3, len(values)))]
    if files.KINDS[column] == "string" and rng.random() < 0.3:
        return StartsWith(column, literals[0].value[: rng.randrange(34)])
    if rng.random() < 0.2:
        return In(column, tuple(literals))
    return Comparison(column, rng.choice(["=", "<=>", "<", "<=", ">", ">="]), literals[0])


def _pairs(seed: int, count: int, predicates: int) -> tuple[int, int]:
    """Judges every file by every predicate; returns how many pairs there were, and how many files
    were excluded."""
    rng = random.Random(seed)
    adds, rows_of = _random_files(rng, count)
    everything = [row for rows in rows_of for row in rows]
    excluded = 0
    judge = judge_of(adds)
    for _ in range(predicates):
        predicate = _random_predicate(rng, everything)
        for rows, may in zip(rows_of, judge(predicate), strict=True):
            excluded += not may
            assert may or not any(files.evaluate(predicate, row) is True for row in rows), predicate
    return count * predicates, excluded


def test_thousands_of_pairs_of_files_and_predicates() -> None:
    pairs, excluded = _pairs(17, 60, 100)
    assert excluded > pairs // 10


@pytest.mark.slow
def test_millions_of_pairs_of_files_and_predicates() -> None:
    assert sum(_pairs(seed, 500, 400)[0] for seed in range(10)) == 2_000_000
