"""Evaluates a predicate on rows, with Spark's rules: three-valued, NaN equal to itself and above
all numbers. Pure; the counterpart for files is ``turnstile_predicates.predicates.outcomes``."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from turnstile.expectations.core.conditions import NotEvaluated
from turnstile_predicates.predicates import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Kind,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    comparable,
)

_DECIMAL: Final = pa.decimal256(76, 38)
_COMPARE: Final = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}

ColumnOf = Callable[[Column], tuple[Kind | None, pa.Array]]
"""The values of a column in the rows, with the kind of its type."""


def evaluate(predicate: Predicate, column_of: ColumnOf, rows: int) -> pa.Array:
    """Returns for each of ``rows`` rows whether it satisfies the predicate: true, false or null.
    Raises NotEvaluated."""
    match predicate:
        case And(parts=parts) | Or(parts=parts):
            is_and = isinstance(predicate, And)
            result = pa.repeat(pa.scalar(is_and), rows)
            combine = pc.and_kleene if is_and else pc.or_kleene
            for part in parts:
                result = combine(result, evaluate(part, column_of, rows))
            return result
        case Not(part=part):
            return pc.invert(evaluate(part, column_of, rows))
        case IsNull(column=column):
            return pc.is_null(column_of(column)[1])
        case StartsWith(column=column, prefix=prefix):
            return pc.starts_with(_texts(predicate, *column_of(column)), prefix)
        case Like(column=column, pattern=pattern):
            return pc.match_like(_texts(predicate, *column_of(column)), pattern)
        case Comparison():
            return _comparison(predicate, *column_of(predicate.column))
        case In(column=column, values=listed):
            parts = tuple(Comparison(column, "=", value) for value in listed)
            return evaluate(Or(parts), column_of, rows)
    raise NotEvaluated("a part that compares with a value of another type, or in an order that is not known")


def _texts(predicate: Predicate, kind: Kind | None, values: pa.Array) -> pa.Array:
    if kind != "string":
        raise NotEvaluated(str(predicate))
    return values


def _comparison(predicate: Comparison, kind: Kind | None, values: pa.Array) -> pa.Array:
    is_safe = predicate.operator == "<=>"
    literal = predicate.value
    if literal is None:
        return pc.is_null(values) if is_safe else pa.nulls(len(values), pa.bool_())
    if kind is None or not comparable(literal, kind):
        raise NotEvaluated(str(predicate))
    result = _compare("=" if is_safe else predicate.operator, kind, values, literal)
    return pc.fill_null(result, fill_value=False) if is_safe else result


def _compare(sign: str, kind: Kind, values: pa.Array, literal: Value) -> pa.Array:
    numbers, scalar = _comparable(kind, values, literal)
    result = pc.call_function(_COMPARE[sign], [numbers, scalar])
    if kind == "float" and sign in (">", ">="):
        return pc.or_(result, pc.is_nan(numbers))
    return result


def _comparable(kind: Kind, values: pa.Array, literal: Value) -> tuple[pa.Array, Any]:
    """The values and the literal in one type that compares as Spark does."""
    given = literal.value
    try:
        match kind:
            case "integer" | "decimal":
                if kind == "integer" and isinstance(given, int) and -(2**63) <= given < 2**63:
                    return values.cast(pa.int64()), pa.scalar(given, pa.int64())
                return values.cast(_DECIMAL), pa.scalar(Decimal(given), _DECIMAL)
            case "float":
                return values.cast(pa.float64()), pa.scalar(given, pa.float64())
            case "string":
                return values.cast(pa.string()), pa.scalar(given, pa.string())
            case "boolean":
                return values.cast(pa.int8()), pa.scalar(int(given), pa.int8())
            case "date":
                return values.cast(pa.int32()).cast(pa.int64()), pa.scalar(given, pa.int64())
            case _:
                return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()), pa.scalar(given, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise NotEvaluated(f"{literal}: {error}") from error
