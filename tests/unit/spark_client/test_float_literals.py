"""Literals of FLOAT columns: what Spark's plan says is compared with statistics as the same number
(serializability)."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.spark_client import judged_files as files
from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import (
    FALSE,
    NULL,
    TRUE,
    UNKNOWN,
    Comparison,
    In,
    Operator,
    Predicate,
    Value,
    outcomes,
)
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner, judge
from turnstile_spark.transactions.reads.catalyst_predicates import predicate_of

COLUMN = ("x",)
FIELDS = {"fields": [{"name": "x", "type": "float", "metadata": {}}]}
SCHEMA = TableSchema(FIELDS)
PARTITIONED = TableSchema(FIELDS, ["x"])
LARGEST = struct.unpack("f", struct.pack("f", 3.4028235e38))[0]


def single(number: float) -> float:
    """The number as a FLOAT column holds it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def shortest(number: float) -> float:
    """A value of a FLOAT column as py4j passes it: its shortest text, read as a double."""
    if not math.isfinite(number):
        return number
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if struct.pack("f", float(text)) == struct.pack("f", number))


def node(name: str, type: str = "float", **methods: Any) -> Any:
    """An expression of Catalyst with what is asked of it."""
    data_type = SimpleNamespace(simpleString=lambda: type)
    expression = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: name), dataType=lambda: data_type
    )
    for method, value in methods.items():
        setattr(expression, method, lambda value=value: value)
    return expression


def collection(values: list[Any]) -> Any:
    """A collection of Scala."""
    left = list(values)
    return SimpleNamespace(iterator=lambda: SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop(0)))


def literal(number: float | None, type: str = "float") -> Any:
    return node("Literal", type, value=None if number is None else shortest(number))


ATTRIBUTE = node("AttributeReference", exprId=SimpleNamespace(id=lambda: 1))


def parsed(expression: Any) -> Predicate:
    return predicate_of(expression, {1: "x"})


SYMBOLS: dict[str, Operator] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
#: Expressions that compare the column with a number.
FORMS: dict[str, Callable[[float], Any]] = {
    **{name: lambda number, name=name: node(name, left=ATTRIBUTE, right=literal(number)) for name in SYMBOLS},
    **{
        f"{name}, mirrored": lambda number, name=name: node(name, left=literal(number), right=ATTRIBUTE)
        for name in SYMBOLS
    },
    "In": lambda number: node("In", value=ATTRIBUTE, list=collection([literal(number), literal(7.5), literal(None)])),
    "InSet": lambda number: node("InSet", child=ATTRIBUTE, hset=collection([shortest(number), 7.5])),
}
SPECIAL = (
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    LARGEST,
    -LARGEST,
    *map(single, (0.1, 0.7, 0.3, 1e-45, 1.17549435e-38)),
)
numbers = st.one_of(st.sampled_from(SPECIAL), st.floats(width=32))


def text(number: float) -> Any:
    """A number as Delta writes it into statistics."""
    if math.isfinite(number):
        return shortest(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def of_stats(values: list[float]) -> dict[str, Any]:
    ordered = sorted(values, key=lambda v: (math.isnan(v), v))
    bounds = {"minValues": {"x": text(ordered[0])}, "maxValues": {"x": text(ordered[-1])}}
    stats = {"numRecords": len(values), **bounds, "nullCount": {"x": 0}}
    return {"path": "f", "dataChange": True, "stats": json.dumps(stats)}


def of_partition(value: float) -> dict[str, Any]:
    return {"path": "f", "dataChange": True, "partitionValues": {"x": str(text(value))}}


def meant(form: str, number: float) -> Predicate:
    """What Spark takes the expression for: numbers of 32 bits on both sides."""
    value = Value("float", number)
    among = Value("float", 7.5)
    if form in ("In", "InSet"):
        return In(COLUMN, (value, among, None) if form == "In" else (value, among))
    operator = SYMBOLS[form.partition(",")[0]]
    mirrored: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    return Comparison(COLUMN, mirrored.get(operator, operator) if form.endswith("mirrored") else operator, value)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(100))
@given(st.lists(numbers, min_size=1, max_size=3), st.data())
@example([single(0.1)], None)
@example([single(0.7)], None)
@example([-0.0], None)
@example([math.nan], None)
@example([math.inf], None)
@example([LARGEST], None)
def test_i8_every_outcome_of_a_row_of_a_float_column_is_among_the_possible_ones(
    form: str, values: list[float], data: Any
) -> None:
    number = values[0] if data is None else data.draw(st.one_of(st.sampled_from(values), numbers))
    for schema, file, rows in ((SCHEMA, of_stats(values), values), (PARTITIONED, of_partition(values[0]), values[:1])):
        predicate = parsed(FORMS[form](number))
        range_of = schema.ranges_of(file)
        assert range_of is not None
        possible = outcomes(predicate, range_of)
        seen = {files.evaluate(meant(form, number), {COLUMN: value}) for value in rows}
        assert all(possible & {True: TRUE, False: FALSE, None: NULL}[outcome] for outcome in seen)
        conflict = judge(Read("t", 1, predicate), [Winner(2, [{"add": file}])], schema)
        assert conflict is not None or True not in seen


def test_a_file_whose_numbers_are_all_less_than_the_literal_is_no_conflict_with_an_equality() -> None:
    """Precision: numbers of 32 bits next to each other are told apart."""
    below = single(math.nextafter(single(0.1), 0) - 5e-9)
    assert below < single(0.1)
    file = {"add": of_stats([below])}
    assert judge(Read("t", 1, parsed(FORMS["EqualTo"](single(0.1)))), [Winner(2, [file])], SCHEMA) is None


@pytest.mark.parametrize("name", SYMBOLS)
def test_i8_a_float_column_that_is_compared_as_a_double_may_satisfy_anything(name: str) -> None:
    """Spark casts the column, or compares it with a literal of type FLOAT where that says the
    same."""
    cast = node("Cast", "double", child=ATTRIBUTE)
    assert parsed(node(name, left=cast, right=node("Literal", "double", value=0.1))) == UNKNOWN
    assert parsed(node("InSet", child=cast, hset=collection([0.1]))) == UNKNOWN
    assert parsed(node(name, left=ATTRIBUTE, right=node("Cast", "float", child=literal(0.1, "double")))) == UNKNOWN
