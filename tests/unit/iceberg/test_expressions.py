"""Filters of Iceberg's clients: no file is left out that has a row which the filter wants, and no
row is left to nobody to filter.

PyIceberg makes the filters, writes them as JSON and evaluates them on rows as Iceberg does; SQL's
evaluation is written out here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions as ice

from tests.support.examples import examples
from tests.support.iceberg.filters import DAY, FILTERS, MOMENT, ROWS, TYPES, VALUES, iceberg, sql
from turnstile.iceberg.core.expressions import MAX_DEPTH, MAX_NODES, Filter, parse
from turnstile.planning.core.predicates import TRUE, UNKNOWN, TableColumns, outcomes
from turnstile.store.core.errors import InvalidRequest

METADATA = {
    "schemaString": json.dumps({
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()],
    }),
    "partitionColumns": ["p"],
}  # fmt: skip
COLUMNS = TableColumns(METADATA)
FILES = st.tuples(st.lists(ROWS, min_size=1, max_size=4), st.none() | VALUES["p"], st.booleans())


def as_stat(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def add_of(rows: list[dict[str, Any]], partition: str | None, *, with_stats: bool) -> dict[str, Any]:
    """The ``add`` action of a file with these rows."""
    add: dict[str, Any] = {"path": "f", "partitionValues": {"p": partition}}
    if with_stats:
        present = {name: [row[name] for row in rows if row[name] is not None] for name in TYPES if name != "p"}
        stats = {
            "numRecords": len(rows),
            "nullCount": {name: len(rows) - len(values) for name, values in present.items()},
            "minValues": {name: as_stat(min(values)) for name, values in present.items() if values},
            "maxValues": {name: as_stat(max(values)) for name, values in present.items() if values},
        }
        add["stats"] = msgspec.json.Encoder(decimal_format="number").encode(stats).decode()
    return add


def outcomes_of(filters: Filter, add: dict[str, Any]) -> tuple[bool, bool]:
    """Whether some row may satisfy the filter, and whether every row does."""
    range_of = COLUMNS.schema.ranges_of(add)
    assert range_of is not None
    return bool(outcomes(filters.inclusive, range_of) & TRUE), outcomes(filters.strict, range_of) == TRUE


@given(FILTERS, st.lists(FILES, min_size=1, max_size=4))
@settings(max_examples=examples(120))
def test_no_file_with_a_wanted_row_is_left_out_and_none_is_said_to_match_as_a_whole_that_does_not(
    expression: ice.BooleanExpression, files: list[tuple[list[dict[str, Any]], str | None, bool]]
) -> None:
    node = json.loads(expression.model_dump_json())
    filters = parse(node, COLUMNS)
    for rows, partition, with_stats in files:
        whole_rows = [{**row, "p": partition} for row in rows]
        some, every = outcomes_of(filters, add_of(rows, partition, with_stats=with_stats))
        wanted = [(sql(node, row) is True, iceberg(expression, row)) for row in whole_rows]
        assert some or not any(a or b for a, b in wanted)
        assert not every or all(a and b for a, b in wanted)


def kept(node: Any, adds: Iterable[dict[str, Any]], *, case_sensitive: bool = True) -> list[tuple[bool, bool]]:
    filters = parse(node, COLUMNS, case_sensitive=case_sensitive)
    return [outcomes_of(filters, add) for add in adds]


def row(**values: Any) -> dict[str, Any]:
    return {**dict.fromkeys(TYPES), **values}


ADDS = [
    add_of([row(n=1, d=DAY, t=MOMENT, x=Decimal("1.50"))], "eu", with_stats=True),
    add_of(
        [row(n=5, d=DAY + timedelta(days=9), t=MOMENT + timedelta(days=9), x=Decimal("9.50"))], "us", with_stats=True
    ),
]


@pytest.mark.parametrize(
    "node",
    [
        {"type": "eq", "term": "n", "value": 5},
        {"type": "gt", "term": "n", "value": 1},
        {"type": "gt-eq", "term": "n", "value": 5},
        {"type": "eq", "term": "p", "value": "us"},
        {"type": "eq", "term": {"type": "reference", "term": "p"}, "value": {"type": "literal", "value": "us"}},
        {"type": "eq", "term": "d", "value": "2026-11-10"},
        {"type": "eq", "term": "d", "value": (DAY - date(1970, 1, 1)).days + 9},
        {"type": "gt", "term": "t", "value": int(MOMENT.timestamp()) * 1_000_000 + 3_600_000_000},
        {"type": "in", "term": "d", "values": ["2026-11-10", "2027-01-01"]},
        {"type": "eq", "term": "x", "value": "9.50"},
        {"type": "not", "child": {"type": "lt", "term": "n", "value": 5}},
        {"type": "not-in", "term": "n", "values": [1, 2]},
        {"type": "starts-with", "term": "p", "value": "u"},
        {"type": "AND", "left": {"type": "NOT_NULL", "term": "n"}, "right": {"type": "gt_eq", "term": "n", "value": 5}},
        {"type": "or", "left": False, "right": {"type": "eq", "term": "n", "value": 5}},
    ],
    ids=str,
)  # fmt: skip
def test_a_filter_leaves_out_what_surely_does_not_match(node: Any) -> None:
    assert [some for some, _ in kept(node, ADDS)] == [False, True]


def test_a_file_that_matches_as_a_whole_needs_no_more_filtering() -> None:
    assert kept({"type": "eq", "term": "p", "value": "us"}, ADDS)[1] == (True, True)
    assert kept({"type": "gt", "term": "n", "value": 3}, ADDS)[1] == (True, True)
    nulls = [add_of([row(n=None), row(n=9)], "us", with_stats=True)]
    assert kept({"type": "not-eq", "term": "n", "value": 3}, nulls) == [(True, False)]


@pytest.mark.parametrize(
    "node",
    [
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "n"}, "value": 2},
        {"type": "eq", "term": "missing", "value": 2},
        {"type": "st-intersects", "term": "n", "value": 2},
        {"type": "is-nan", "term": "n"},
        {"type": "not-nan", "term": "n"},
        {"type": "starts-with", "term": "n", "value": "1"},
        {"type": "eq", "term": "n", "value": None},
        {"type": "in", "term": "n", "values": list(range(10, 10_100))},
        {"type": "in", "term": "n", "values": [None, 7]},
    ],
    ids=lambda node: str(node)[:60],
)
def test_what_is_not_understood_excludes_nothing(node: Any) -> None:
    assert kept(node, ADDS) == [(True, False)] * 2
    assert kept({"type": "not", "child": node}, ADDS) == [(True, False)] * 2


def test_a_column_whose_values_are_not_compared_excludes_nothing() -> None:
    struct = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    fields = [{"name": "a", "type": struct, "nullable": True, "metadata": {}}]
    columns = TableColumns({"schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": []})
    for node in ({"type": "eq", "term": "a", "value": 5}, {"type": "in", "term": "a", "values": [5]}):
        assert parse(node, columns).inclusive == UNKNOWN == parse(node, columns).strict
    assert parse({"type": "eq", "term": "a.x", "value": 5}, columns).inclusive != UNKNOWN


def test_the_case_of_names_counts_only_if_it_is_asked_for() -> None:
    node = {"type": "eq", "term": "N", "value": 5}
    assert [some for some, _ in kept(node, ADDS)] == [True, True]
    assert [some for some, _ in kept(node, ADDS, case_sensitive=False)] == [False, True]


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ([], "[] is no expression"),
        ({}, "has no type"),
        ({"type": "and", "left": True}, "'and' has no right"),
        ({"type": "eq", "term": "n"}, "'eq' has no value"),
        ({"type": "eq", "term": 3, "value": 3}, "the term 3 names no column"),
        ({"type": "eq", "term": "n", "value": [1]}, "[1] is no value"),
        ({"type": "eq", "term": "n", "value": {"type": "literal", "value": {}}}, "{} is no value"),
        ({"type": "eq", "term": "n", "value": {"type": "other", "value": 5}}, "is no value"),
        ({"type": "starts-with", "term": "s", "value": 3}, "3 is no beginning of a text"),
        ({"type": "in", "term": "n", "values": 3}, "'in' has no values"),
        ({"type": "literal", "value": 1}, "'literal' has no value"),
        ({"type": "eq", "term": "d", "value": "yesterday"}, "'yesterday' is no date"),
    ],
    ids=str,
)
def test_what_is_no_expression_is_refused(node: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse(node, COLUMNS)
    assert problem in refusal.value.message


def test_a_file_of_nulls_is_read_for_nulls() -> None:
    nulls = add_of([row(n=1)], None, with_stats=True)
    assert kept({"type": "is-null", "term": "p"}, [*ADDS, nulls]) == [(False, False), (False, False), (True, True)]
    assert kept({"type": "not-null", "term": "p"}, [*ADDS, nulls]) == [(True, True), (True, True), (False, False)]


def test_constants() -> None:
    for always in (True, {"type": "true"}, {"type": "literal", "value": True}):
        assert kept(always, ADDS) == [(True, True)] * 2
    for never in (False, {"type": "false"}, {"type": "literal", "value": False}):
        assert kept(never, ADDS) == [(False, False)] * 2


def chain(count: int) -> Any:
    node: Any = {"type": "eq", "term": "n", "value": 5}
    for _ in range(count):
        node = {"type": "not", "child": node}
    return node


def balanced(levels: int) -> Any:
    return {"type": "and", "left": balanced(levels - 1), "right": balanced(levels - 1)} if levels else True


def leaves_of(count: int) -> Any:
    """A conjunction of so many constants: twice as many operations, less one."""
    half = count // 2
    return {"type": "and", "left": leaves_of(half), "right": leaves_of(count - half)} if count > 1 else True


def test_the_size_of_a_filter_is_limited() -> None:
    parse(chain(MAX_DEPTH), COLUMNS)
    with pytest.raises(InvalidRequest, match="more than"):
        parse(chain(MAX_DEPTH + 1), COLUMNS)
    parse(balanced(9), COLUMNS)
    assert MAX_NODES < 2**11
    parse({"type": "not", "child": leaves_of(MAX_NODES // 2)}, COLUMNS)
    with pytest.raises(InvalidRequest, match="more than"):
        parse(leaves_of(MAX_NODES // 2 + 1), COLUMNS)
    with pytest.raises(InvalidRequest, match="more than"):
        parse(balanced(11), COLUMNS)
    wide = {"type": "in", "term": "n", "values": list(range(10, 10_010))}
    assert [some for some, _ in kept(wide, ADDS)] == [False, False], "as many values as are looked at"
    assert parse({"type": "is-nan", "term": "n"}, COLUMNS).inclusive == UNKNOWN
