"""Predicates from text and from values: the parsed predicate, and refusals by name."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.planning.core import sql
from turnstile.planning.core.predicates import UNKNOWN, Comparison, TableColumns, Value
from turnstile.planning.core.sql import predicate_parser
from turnstile.planning.core.statistics import statistics_of_columns
from turnstile.store.core.errors import InvalidRequest


def field(name: str, type: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


NESTED = {"type": "struct", "fields": [field("city", "string"), field("no", "integer")]}
FIELDS = [
    field("day", "date"), field("id", "long"), field("name", "string"), field("at", "timestamp"),
    field("local", "timestamp_ntz"),
    field("price", "decimal(10,2)"), field("ok", "boolean"), field("f", "float"), field("g", "double"),
    field("raw", "binary"),
    field("address", NESTED), field("tags", {"type": "array", "elementType": "string", "containsNull": True}),
    field("dotted.name", "long"),
]  # fmt: skip
METADATA = {
    "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
    "partitionColumns": ["day"],
    "configuration": {},
}
COLUMNS = TableColumns(METADATA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day = '2026-11-01'", "day = 20758"),
        ("DAY >= DATE '2026-11-01'", "day >= 20758"),
        ("'2026-11-01' < day", "day > 20758"),
        ("5 >= id", "id <= 5"),
        ("id <> 3", "NOT id = 3"),
        ("id != -3", "NOT id = -3"),
        ("id = (7)", "id = 7"),
        ("id = 5.5", "id = 5.5"),
        ("id <=> NULL", "id <=> NULL"),
        ("id = NULL", "id = NULL"),
        ("id IN (1, 2, NULL)", "id IN (1, 2, NULL)"),
        ("id NOT IN (1)", "NOT id IN (1)"),
        ("id BETWEEN 1 AND 3", "(id >= 1 AND id <= 3)"),
        ("id NOT BETWEEN 1 AND 3", "NOT (id >= 1 AND id <= 3)"),
        ("name LIKE 'ab%'", "name starts with 'ab'"),
        ("name NOT LIKE 'ab%'", "NOT name starts with 'ab'"),
        ("name LIKE 'a_b'", "(name starts with 'a' AND name like 'a_b')"),
        ("name LIKE 'a%b'", "(name starts with 'a' AND name like 'a%b')"),
        (r"name LIKE 'a\\_b%'", r"(name starts with 'a' AND name like 'a\\_b%')"),
        ("name LIKE 'ab'", "name = 'ab'"),
        ("name IS NULL", "name IS NULL"),
        ("name IS NOT NULL", "NOT name IS NULL"),
        ("tags IS NULL", "tags IS NULL"),
        ("address IS NULL", "address IS NULL"),
        ("Address.City = 'x'", "address.city = 'x'"),
        ("address.no > 1", "address.no > 1"),
        ("`dotted.name` = 1", "dotted.name = 1"),
        ("ok", "ok = True"),
        ("NOT ok", "NOT ok = True"),
        ("ok = 'FALSE'", "ok = False"),
        ("price = 1.10", "price = 1.10"),
        ("price < -3", "price < -3"),
        ("at >= '2026-11-01'", "at >= 1793491200000000"),
        ("at >= TIMESTAMP '2026-11-01T01:00:00+01:00'", "at >= 1793491200000000"),
        ("local = '2026-11-01T00:00:00.000001'", "local = 1793491200000001"),
        ("g = 0.5", "g = 0.5"),
        ("f = 0.5", "f = 0.5"),
        ("f = 0.1", "?"),
        ("f IN (0.5, 0.1)", "?"),
        ("g = 9007199254740993", "?"),
        ("raw = 'x'", "?"),
        ("TRUE", "TRUE"),
        ("FALSE OR id = 1", "(FALSE OR id = 1)"),
        ("id = 1 AND ok OR NOT (name = 'a' AND id = 2)", "((id = 1 AND ok = True) OR NOT (name = 'a' AND id = 2))"),
        ("id = 1 OR id = 2 OR id = 3", "(id = 1 OR id = 2 OR id = 3)"),
    ],
)
def test_what_is_understood(text, expected) -> None:
    assert str(predicate_parser(text)(COLUMNS)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "id", "id =", "id = 1; DROP TABLE t", "nobody = 1", "address.nobody = 1", "id = 'a'", "id = TRUE",
        "day = 5",
        "day = 'x'", "day = '2026-13-01'", "name = 5", "name LIKE 5", "id LIKE 'a%'", "ok = 3",
        "local = '2026-11-01T00:00:00Z'",
        "tags = 'a'", "address = 'a'", "tags LIKE 'a%'", "id = id", "abs(id) = 1", "id + 1 = 2", "id = (SELECT 1)",
        "id IN (SELECT 1)",
        "id BETWEEN SYMMETRIC 2 AND 1", "name ILIKE 'a%'", "name RLIKE 'a'", "name LIKE 'a!%' ESCAPE '!'",
        "name LIKE ANY ('a', 'b')",
        "ok IS TRUE", "tags[0] = 'a'", "EXISTS (SELECT 1)", "id = CAST('x' AS INT)", "price = 'NaN'", "id = 1e101",
        "id = 1e-101",
        "DATE(" * 30 + "a" + ")" * 30, "STRUCT(" * 30 + "a" + ")" * 30, "MAP(" * 30 + "a" + ")" * 30, "DECIMAL(" * 30,
        "id = ARRAY(",
        "(" * 500 + "id = 1" + ")" * 500, "NOT " * 200 + "ok", "x" * 20_001,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        predicate_parser(text)(COLUMNS)
    assert refusal.value.field == "predicate"


@pytest.mark.parametrize("text", ["id === 1", "id = = 1", "(id = 1", "id = 1)", "AND", "id IN (", "'a"])
def test_a_refusal_speaks_of_the_text_and_not_of_the_parser(text) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        predicate_parser(text)(COLUMNS)
    assert "sqlglot" not in refusal.value.message and "class" not in refusal.value.message
    assert "day = '2026-11-01' AND id < 5" in str(refusal.value.remedy)


@pytest.mark.parametrize("text", ["upper(name) = 'A'", "abs(id) IN (1)"])
def test_a_refusal_of_a_function_names_the_function(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"(UPPER\(name\)|ABS\(id\)).*functions are not supported"):
        predicate_parser(text)(COLUMNS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("id = 1" + " " * 20_000, "has 20006 characters"), ("NOT " * 51 + "ok", "nested too deeply")],
)
def test_what_is_too_long_or_too_deep_is_refused_as_such(text, problem) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        predicate_parser(text)(COLUMNS)


@given(st.lists(st.sampled_from([
    "DATE", "STRUCT", "MAP", "ARRAY", "DECIMAL", "TIMESTAMP", "CAST", "CASE", "WHEN", "IN", "(", "(", "(", ")", "<",
    ">", ",", "id", "1",
    "'a'", "=", "AND", "NOT", "[", "]", "->", "AS", ".",
]), max_size=200))  # fmt: skip
@settings(max_examples=examples(100))
def test_reading_any_text_takes_a_bounded_number_of_steps(words: list[str]) -> None:
    steps = 0

    def count(self: object, times: int = 1) -> None:
        nonlocal steps
        steps += 1
        advance(self, times)

    advance = sql._Parser._advance
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(InvalidRequest):
        patch.setattr(sql._Parser, "_advance", count)
        predicate_parser(" ".join(words))(COLUMNS)
    assert steps <= 8 * len(words) + 101


def test_the_longest_and_the_deepest_are_understood() -> None:
    assert str(predicate_parser("id = 1".ljust(20_000))(COLUMNS)) == "id = 1"
    assert str(predicate_parser("NOT " * 50 + "ok")(COLUMNS)) == "NOT " * 50 + "ok = True"


def test_a_boolean_field_of_a_struct_is_a_predicate() -> None:
    inside = {"type": "struct", "fields": [field("open", "boolean")]}
    schema = json.dumps({"type": "struct", "fields": [field("shop", inside)]})
    columns = TableColumns({"schemaString": schema, "partitionColumns": [], "configuration": {}})
    assert (
        str(predicate_parser("shop.open AND NOT shop.open")(columns)) == "(shop.open = True AND NOT shop.open = True)"
    )


def test_many_parts_of_one_kind_are_no_depth() -> None:
    assert str(predicate_parser(" OR ".join(["id = 1"] * 800))(COLUMNS)).count("id = 1") == 800


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("day", date(2026, 11, 1), Value("date", 20758)),
        ("at", datetime(2026, 11, 1, tzinfo=UTC), Value("timestamp", 1793491200000000)),
        ("at", date(2026, 11, 1), Value("timestamp", 1793491200000000)),
        ("local", datetime(2026, 11, 1), Value("timestamp_ntz", 1793491200000000)),
        ("id", Decimal("5.0"), Value("integer", 5)),
        ("id", 2**70, Value("integer", 2**70)),
        ("id", "0e400000000", Value("integer", 0)),
        ("id", "1" * 5_000 + "e-4999", Value("decimal", Decimal("1" * 5_000 + "e-4999"))),
        ("id", Decimal("1e100"), Value("integer", 10**100)),
        ("price", 1.5, Value("decimal", Decimal("1.5"))),
        ("g", float("inf"), Value("float", float("inf"))),
    ],
)
def test_values_come_in_the_type_of_their_column(name, value, expected) -> None:
    assert COLUMNS.find_column(name).compare("=", value) == Comparison((name,), "=", expected)


@pytest.mark.parametrize(
    ("name", "value"), [("day", datetime(2026, 11, 1)), ("id", float("nan")), ("id", True), ("g", True), ("ok", 1)]
)
def test_values_of_other_types_are_refused(name, value) -> None:
    with pytest.raises(InvalidRequest):
        COLUMNS.find_column(name).compare("=", value)


def test_names() -> None:
    assert COLUMNS.find_column(("ADDRESS", "city")).name == ("address", "city")
    assert COLUMNS.find_column("dotted.name").name == ("dotted.name",)
    with pytest.raises(InvalidRequest):
        COLUMNS.find_column("ID", case_sensitive=True)
    assert COLUMNS.find_column("id", case_sensitive=True).name == ("id",)
    assert COLUMNS.physical("address") == [("address", "city"), ("address", "no")]
    assert COLUMNS.find_column("g").compare("=", Decimal("1e400")) is UNKNOWN
    with pytest.raises(InvalidRequest, match="10001 values"):
        COLUMNS.find_column("id").is_in(range(10_001))


def test_statistics_are_narrowed_to_columns() -> None:
    text = '{"numRecords":3,"minValues":{"a":1,"b":{"c":0.10,"d":2}},"maxValues":7,"nullCount":{"a":0}}'
    assert statistics_of_columns(text, None)["minValues"]["b"] == {"c": Decimal("0.10"), "d": 2}
    assert statistics_of_columns(text, {("b", "c")}) == {
        "numRecords": 3,
        "minValues": {"b": {"c": Decimal("0.10")}},
        "maxValues": 7,
        "nullCount": {},
    }
    assert statistics_of_columns(text, {("b",)})["minValues"] == {"b": {"c": Decimal("0.10"), "d": 2}}
    assert statistics_of_columns("nonsense", None) == {}
