"""Filters that PyIceberg makes, rows for them, and what they say of a row by Iceberg's and by SQL's
evaluation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg import expressions as ice
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestamptzType

TYPES = {"n": "long", "s": "string", "d": "date", "t": "timestamp", "p": "string", "x": "decimal(10,2)"}
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DateType()),
    NestedField(4, "t", TimestamptzType()),
    NestedField(5, "p", StringType()),
    NestedField(6, "x", DecimalType(10, 2)),
)
DAY = date(2026, 11, 1)
MOMENT = datetime(2026, 11, 1, tzinfo=UTC)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "s": st.sampled_from(["", "a", "ab", "b", "é"]),
    "d": st.integers(0, 3).map(lambda days: DAY + timedelta(days=days)),
    "t": st.integers(0, 3).map(lambda hours: MOMENT + timedelta(hours=hours)),
    "p": st.sampled_from(["eu", "us", "a/b"]),
    "x": st.integers(-200, 200).map(lambda cents: Decimal(cents).scaleb(-2)),
}
COMPARISONS = (
    ice.EqualTo, ice.NotEqualTo, ice.LessThan, ice.LessThanOrEqual, ice.GreaterThan, ice.GreaterThanOrEqual,
)  # fmt: skip


def as_literal(value: Any) -> Any:
    """What PyIceberg takes as the value of a filter."""
    return value.isoformat() if isinstance(value, date) else value


@st.composite
def leaves(draw: st.DrawFn) -> ice.BooleanExpression:
    name = draw(st.sampled_from(sorted(TYPES)))
    value = VALUES[name].map(as_literal)
    match draw(st.integers(0, 5)):
        case 0:
            return draw(st.sampled_from([ice.IsNull, ice.NotNull]))(name)
        case 1:
            made = draw(st.lists(value, min_size=2, max_size=3, unique=True))
            return draw(st.sampled_from([ice.In, ice.NotIn]))(name, set(made))
        case 2 if name in ("s", "p"):
            return draw(st.sampled_from([ice.StartsWith, ice.NotStartsWith]))(name, draw(value))
        case _:
            return draw(st.sampled_from(COMPARISONS))(name, draw(value))


FILTERS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(ice.And, inner, inner), st.builds(ice.Or, inner, inner), st.builds(ice.Not, inner)
    ),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items() if name != "p"})


def sql(node: Any, row: dict[str, Any]) -> bool | None:
    """A filter in JSON, on a row, as SQL evaluates it: None is null."""
    if isinstance(node, bool):
        return node
    kind = node["type"]
    if kind in ("and", "or"):
        sides = [sql(node["left"], row), sql(node["right"], row)]
        decisive = kind == "or"
        return decisive if decisive in sides else None if None in sides else not decisive
    if kind == "not" or kind.startswith("not-"):
        inner = node["child"] if kind == "not" else {**node, "type": _POSITIVE[kind]}
        found = sql(inner, row)
        return None if found is None else not found
    value = row[node["term"]]
    if kind == "is-null":
        return value is None
    if value is None:
        return None
    if kind == "in":
        return any(value == typed(node["term"], each) for each in node["values"])
    if kind == "starts-with":
        return bool(value.startswith(node["value"]))
    return bool(_COMPARED[kind](value, typed(node["term"], node["value"])))


_POSITIVE = {"not-eq": "eq", "not-in": "in", "not-starts-with": "starts-with", "not-null": "is-null"}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "lt-eq": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gt-eq": lambda a, b: a >= b,
}


def typed(name: str, value: Any) -> Any:
    match name:
        case "d":
            return date.fromisoformat(value)
        case "t":
            return datetime.fromisoformat(value)
        case "x":
            return Decimal(str(value))
        case _:
            return value


def iceberg(expression: ice.BooleanExpression, row: dict[str, Any]) -> bool:
    """The filter on a row, as PyIceberg evaluates it."""
    stored = {
        **row,
        "d": None if row["d"] is None else (row["d"] - date(1970, 1, 1)).days,
        "t": None if row["t"] is None else int(row["t"].timestamp() * 1_000_000),
    }
    return bool(expression_evaluator(SCHEMA, expression, True)(Record(*(stored[f.name] for f in SCHEMA.fields))))
