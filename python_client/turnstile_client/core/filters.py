"""Filters as pyarrow, pandas and Polars' readers write them: ``[("day", ">=", date(2026, 11, 1)),
("city", "in", ["Bern", "Basel"])]``.

A list of conditions that all hold, or a list of such lists, of which one holds. A condition on a
null value never holds, except ``("day", "=", None)`` and ``("day", "!=", None)``, which test for
null. Numbers compare as in Spark's SQL and in the server's plans: NaN equals NaN and is greater
than every other number, and the two zeros are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile_client.errors import DataMismatch
from turnstile_predicates.file_stats import kind_of
from turnstile_predicates.predicates import (
    UNKNOWN,
    And,
    Comparison,
    In,
    IsNull,
    Kind,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
)
from turnstile_predicates.sql import sql_of

Condition = tuple[str, str, Any]
Where = Sequence[Condition] | Sequence[Sequence[Condition]]
Test = Callable[[pc.Expression], pc.Expression]
#: From a column to what Arrow judges its values by.
_OPERATORS: Final = frozenset(("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in"))


class Filter:
    """A filter on the columns of a table. ``fields``: the columns as Delta's JSON has them, of
    ``schema`` in Arrow, and of ``stored`` in files (by default as in the table). Raises
    :class:`DataMismatch`, naming the condition, for an invalid one."""

    def __init__(
        self,
        where: Where,
        fields: Sequence[Mapping[str, Any]],
        schema: pa.Schema,
        stored: pa.Schema | None = None,
    ) -> None:
        names = dict(zip(schema.names, (stored or schema).names, strict=True))
        self._columns = {str(column["name"]).lower(): (column, schema.field(at)) for at, column in enumerate(fields)}
        if not where:
            raise DataMismatch("where: no condition; leave it out to mean all rows")
        if isinstance(cast(object, where), str):
            raise DataMismatch(f"where={where!r}: write conditions, as in where=[('id', '=', 1)]")
        alternatives = [where] if isinstance(where[0], tuple) else where
        parts = [[self._condition(each) for each in cast(Sequence[Any], conditions)] for conditions in alternatives]
        if not all(parts):
            raise DataMismatch("where: a list without conditions; leave it out to mean all rows")
        self.columns = frozenset(name for conditions in parts for name, _, _ in conditions)
        #: What Arrow judges rows by.
        self.expression = _any([_all([test(pc.field(name)) for name, test, _ in conditions]) for conditions in parts])
        prunable = [
            [test(pc.field(names[name])) for name, test, _ in conditions if _has_exact_bounds(schema.field(name).type)]
            for conditions in parts
        ]
        #: What Arrow may leave out groups of rows by: true wherever the filter is. None: nothing
        #: can be left out.
        self.pruning = _any([_all(conditions) for conditions in prunable]) if all(prunable) else None
        self._predicate: Predicate = Or(
            tuple(And(tuple(predicate for _, _, predicate in conditions)) for conditions in parts)
        )

    @property
    def sql(self) -> str | None:
        """A predicate for the server's plans, true wherever the filter is; None where there is
        none."""
        return sql_of(self._predicate)

    def _condition(self, given: Any) -> tuple[str, Test, Predicate]:
        if not (isinstance(given, tuple) and len(given) == 3 and isinstance(given[0], str) and given[1] in _OPERATORS):
            operators = ", ".join(sorted(_OPERATORS))
            raise DataMismatch(
                f"where: {str(given)[:200]} is no condition (column, operator, value) with one of {operators}"
            )
        name, operator, value = given
        if name.lower() not in self._columns:
            raise DataMismatch(f"where: the table has no column {name[:200]!r}")
        column, field = self._columns[name.lower()]
        if not isinstance(column["type"], str):
            raise DataMismatch(f"where: the column {name!r} is no single value, and is not compared")
        operator = "=" if operator == "==" else operator
        if operator in ("in", "not in"):
            value = [None] if isinstance(value, str | bytes) or not hasattr(value, "__iter__") else list(value)
            if any(each is None for each in value):
                raise DataMismatch(f"where: {name!r} {operator}: give a list of values, without None")
            return field.name, *_membership(
                field, operator, _scalars(value, field), _values(column["type"], value, field)
            )
        if value is None:
            if operator not in ("=", "!="):
                raise DataMismatch(f"where: nothing is {operator} None, column {name!r}")
            null = IsNull((field.name,))
            if operator == "=":
                return field.name, lambda stored: stored.is_null(), null
            return field.name, lambda stored: ~stored.is_null(), Not(null)
        [scalar] = _scalars([value], field)
        [literal] = _values(column["type"], [value], field)
        compared = _compared_as_float if types.is_floating(field.type) else _compare
        return (
            field.name,
            lambda stored: compared(stored, operator, scalar),
            _comparison(field.name, operator, literal),
        )


def _scalars(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as e:
        raise DataMismatch(f"where: column {field.name!r} is {field.type}: {e}") from None


def _values(type: str, values: list[Any], field: pa.Field) -> list[Value | None]:
    """Literals of predicates; None for one that has no counterpart there."""
    kind = kind_of(type)
    return [_literal(kind, value) for value in _scalars(values, field)]


def _literal(kind: Kind | None, value: pa.Scalar) -> Value | None:
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return Value(kind, value.value)
    python = value.as_py()
    return (
        None if kind is None or (isinstance(python, float) and math.isnan(python)) else Value(kind, python)
    )  # NaN compares otherwise in SQL


def _compare(column: pc.Expression, operator: str, value: pa.Scalar) -> pc.Expression:
    match operator:
        case "=":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
    return column >= value


def _compared_as_float(column: pc.Expression, operator: str, value: pa.Scalar) -> pc.Expression:
    """NaN equals NaN, and is greater than all else (Spark SQL, "NaN Semantics")."""
    is_nan = pc.is_nan(column)
    is_number = column.is_valid() & ~pc.is_nan(column)
    if math.isnan(value.as_py()):
        nothing = column.is_valid() & ~column.is_valid()
        by_operator = {
            "=": is_nan,
            "!=": is_number,
            "<": is_number,
            "<=": column.is_valid(),
            ">": nothing,
            ">=": is_nan,
        }
        return by_operator[operator]
    compared = _compare(column, operator, value)
    return compared | is_nan if operator in (">", ">=") else compared


def _has_exact_bounds(type: pa.DataType) -> bool:
    """Whether Parquet's bounds of a column of this type hold for all its values, with any units in
    the files. Bounds of floating-point numbers leave NaN out, and files may store times and
    decimals differently from the table.
    """
    return bool(types.is_integer(type) or types.is_boolean(type) or types.is_string(type) or types.is_date32(type))


def _comparison(name: str, operator: str, value: Value | None) -> Predicate:
    if value is None:
        return UNKNOWN
    if operator == "!=":
        return Not(Comparison((name,), "=", value))
    return Comparison((name,), cast(Operator, operator), value)


def _membership(
    field: pa.Field, operator: str, values: pa.Array, literals: list[Value | None]
) -> tuple[Test, Predicate]:
    def is_member(stored: pc.Expression) -> pc.Expression:
        return _is_one_of_floats(stored, values) if types.is_floating(field.type) else stored.isin(values)

    member: Predicate = UNKNOWN if None in literals or not literals else In((field.name,), tuple(literals))
    if operator == "in":
        return is_member, member
    return lambda stored: stored.is_valid() & ~is_member(stored), UNKNOWN if member is UNKNOWN else Not(member)


def _is_one_of_floats(column: pc.Expression, values: pa.Array) -> pc.Expression:
    numbers = [value for value in values.to_pylist() if not math.isnan(value)]
    both_zeros = [0.0, -0.0] if 0.0 in numbers else []
    is_number = column.isin(pa.array([*numbers, *both_zeros], values.type))
    return is_number | pc.is_nan(column) if len(numbers) < len(values) else is_number


def _all(parts: list[pc.Expression]) -> pc.Expression:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


def _any(parts: list[pc.Expression]) -> pc.Expression:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole | part
    return whole
