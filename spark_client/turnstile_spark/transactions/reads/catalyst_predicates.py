"""Spark's filter expressions as :mod:`turnstile_predicates.predicates`.

A part that has no counterpart there, or is not of one column and literals, is unknown: any row may
satisfy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from turnstile_predicates.file_stats import round_number
from turnstile_predicates.predicates import (
    KINDS,
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Kind,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Value,
)
from turnstile_spark.jvm import JavaObject, items

_COMPARISONS: Final[dict[str, Operator]] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WIDTHS: Final = ("tinyint", "smallint", "int", "bigint")
_KINDS: Final[dict[str, Kind]] = {**KINDS, **dict.fromkeys(_WIDTHS, "integer")}

#: Attributes of one mention of a table: Spark's expression ids, and the columns they stand for.
Attributes = Mapping[int, str]


def _name(java: JavaObject) -> str:
    return str(java.getClass().getSimpleName())


def conjunction(parts: list[Predicate]) -> Predicate | None:
    """All parts, in the order of their texts (Spark has them in none); None if they say nothing."""
    flat: list[Predicate] = []
    for part in parts:
        flat += part.parts if isinstance(part, And) else (part,)
    different = sorted({part for part in flat if part != UNKNOWN}, key=str)
    if len(different) > 1:
        return And(tuple(different))
    return different[0] if different else None


def predicate_of(expression: JavaObject, attributes: Attributes) -> Predicate:
    """An expression of type boolean as a predicate on the columns in ``attributes``."""
    name = _name(expression)
    if name in ("And", "Or"):
        parts = tuple(predicate_of(side, attributes) for side in (expression.left(), expression.right()))
        return And(parts) if name == "And" else Or(parts)
    if name == "Not":
        return Not(predicate_of(expression.child(), attributes))
    if name in _COMPARISONS:
        return _comparison(_COMPARISONS[name], expression.left(), expression.right(), attributes)
    if name in ("IsNull", "IsNotNull"):
        column = _column(expression.child(), attributes)
        null: Predicate = UNKNOWN if column is None else IsNull(column)
        return Not(null) if name == "IsNotNull" else null
    if name == "StartsWith":
        column = _column(expression.left(), attributes)
        prefix = _literal(expression.right())
        if column is None or not isinstance(prefix, Value) or prefix.kind != "string":
            return UNKNOWN
        return StartsWith(column, prefix.value)
    if name in ("In", "InSet"):
        return _in(expression, attributes)
    if name == "Literal" and str(expression.dataType().simpleString()) == "boolean":
        value = expression.value()
        return UNKNOWN if value is None else And(()) if value else Or(())
    column = _column(expression, attributes)
    if column is not None and str(expression.dataType().simpleString()) == "boolean":
        return Comparison(column, "=", Value("boolean", True))
    return UNKNOWN


def _comparison(operator: Operator, left: JavaObject, right: JavaObject, attributes: Attributes) -> Predicate:
    for column_side, literal_side, direction in ((left, right, operator), (right, left, _MIRRORED[operator])):
        column = _column(column_side, attributes)
        if column is not None:
            literal = _literal(literal_side)
            return UNKNOWN if literal is _NO_LITERAL else Comparison(column, direction, literal)
    return UNKNOWN


def _in(expression: JavaObject, attributes: Attributes) -> Predicate:
    column = _column(expression.value() if _name(expression) == "In" else expression.child(), attributes)
    if column is None:
        return UNKNOWN
    if _name(expression) == "In":
        values = [_literal(item) for item in items(expression.list())]
    else:
        kind = str(expression.child().dataType().simpleString())
        values = [_value(kind, item) for item in items(expression.hset())]
    return UNKNOWN if _NO_LITERAL in values else In(column, tuple(values))


def _column(expression: JavaObject, attributes: Attributes) -> Column | None:
    """The column that an expression is, if it is one of the table's; a cast to a wider integer
    compares as its child."""
    name = _name(expression)
    if name == "AttributeReference":
        column = attributes.get(int(expression.exprId().id()))
        return None if column is None else (column,)
    if name == "GetStructField":
        parent = _column(expression.child(), attributes)
        return None if parent is None else (*parent, str(expression.extractFieldName()))
    if name == "Cast":
        narrow, wide = (str(e.dataType().simpleString()) for e in (expression.child(), expression))
        if narrow in _WIDTHS and wide in _WIDTHS and _WIDTHS.index(narrow) <= _WIDTHS.index(wide):
            return _column(expression.child(), attributes)
    return None


#: Stands for an expression that is no literal of a type that is compared here.
_NO_LITERAL: Final[Any] = object()


def _literal(expression: JavaObject) -> Any:
    """A :class:`Value`, None for null, or ``_NO_LITERAL``."""
    kind = str(expression.dataType().simpleString())
    if _name(expression) == "Literal":
        return _value(kind, expression.value())
    if _name(expression) == "Cast" and _name(expression.child()) == "Literal" and kind in _WIDTHS:
        inner = str(expression.child().dataType().simpleString())  # an analysed condition casts its literals
        is_wider = inner in _WIDTHS and _WIDTHS.index(inner) <= _WIDTHS.index(kind)
        return _value(inner, expression.child().value()) if is_wider else _NO_LITERAL
    return _NO_LITERAL


def _value(type_name: str, value: Any) -> Any:
    if value is None:
        return None
    if type_name.startswith("decimal("):
        return Value("decimal", Decimal(str(value.toString())))
    kind = _KINDS.get(type_name)
    if kind is None:
        return _NO_LITERAL
    if kind == "string":
        return Value(kind, str(value.toString()) if not isinstance(value, str) else value)
    return Value(kind, round_number(type_name, float(value)) if kind == "float" else value)
