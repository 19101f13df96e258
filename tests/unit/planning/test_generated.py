"""A predicate on a column excludes files by a partition column that is generated from it, and never
one that has a row which satisfies it (I16)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.unit.planning.tables import field
from tests.unit.spark_client import judged_files as files
from turnstile.planning.core.generated import with_generated
from turnstile.planning.core.predicates import And, Not, Or, Predicate, TableColumns, outcomes
from turnstile_predicates.predicates import TRUE, StartsWith

NOW = datetime(2026, 11, 23, 10, 20, 30)


def columns(source: str, partition: str, expression: str) -> TableColumns:
    generated = {**field("p", partition), "metadata": {"delta.generationExpression": expression}}
    inner = {**field("s", ""), "type": {"type": "struct", "fields": [field("d", "date")]}}
    struct = {"type": "struct", "fields": [field("at", source), field("x", "long"), inner, generated]}
    action = {**delta.metadata()["metaData"], "schemaString": json.dumps(struct), "partitionColumns": ["p"]}
    return TableColumns(action)


def micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def days(at: date) -> int:
    return (at - date(1970, 1, 1)).days


#: What the expression makes of a local time, as a row of ``judged_files`` has it.
CASES: dict[str, tuple[str, str, Callable[[datetime], Any]]] = {
    "CAST(at AS DATE)": ("timestamp", "date", lambda at: days(at.date())),
    "to_date( `at` )": ("timestamp_ntz", "date", lambda at: days(at.date())),
    "YEAR(at)": ("timestamp", "integer", lambda at: at.year),
    "year(`at`)": ("date", "integer", lambda at: at.year),
    "DATE_FORMAT(at, 'yyyy-MM')": ("timestamp", "string", lambda at: at.strftime("%Y-%m")),
    "date_format(at,'yyyy-MM-dd-HH')": ("timestamp_ntz", "string", lambda at: at.strftime("%Y-%m-%d-%H")),
    "date_trunc('HOUR', at)": (
        "timestamp",
        "timestamp",
        lambda at: micros(at.replace(minute=0, second=0, microsecond=0)),
    ),
    "DATE_TRUNC('month', at)": ("timestamp", "timestamp", lambda at: micros(datetime(at.year, at.month, 1))),
    "trunc(at, 'YEAR')": ("date", "date", lambda at: days(date(at.year, 1, 1))),
    "SUBSTRING(at, 0, 2)": ("string", "string", lambda at: text(at)[:2] or None),
    "left(at,3)": ("string", "string", lambda at: text(at)[:3] or None),
    "at": ("string", "string", lambda at: text(at) or None),
}


def text(at: datetime) -> str:
    return "" if at.second < 6 else f"{at.month:x}{at.day:02}{at.hour}"


def moment(rng: random.Random) -> datetime:
    return NOW + timedelta(
        microseconds=rng.randrange(-400 * 86_400, 400 * 86_400) * 1_000_000 + rng.randrange(1_000_000)
    )


def literal(source: str, at: datetime) -> Any:
    return {"timestamp": at.replace(tzinfo=UTC), "timestamp_ntz": at, "date": at.date(), "string": text(at)}[source]


def stored(source: str, at: datetime) -> Any:
    return {"timestamp": micros(at), "timestamp_ntz": micros(at), "date": days(at.date()), "string": text(at)}[source]


def random_predicate(rng: random.Random, table: TableColumns, source: str, depth: int = 2) -> Predicate:
    column = table.find_column("at")
    x = table.find_column("x")
    kind = rng.randrange(9)
    if depth and kind < 3:
        parts = tuple(random_predicate(rng, table, source, depth - 1) for _ in range(rng.choice((1, 2, 3))))
        return rng.choice((And, Or))(parts)
    if depth and kind == 3:
        return Not(random_predicate(rng, table, source, depth - 1))
    if kind == 4:
        return rng.choice((column.is_null(), x.compare("=", 1)))
    if kind == 5:
        return column.is_in(
            [literal(source, moment(rng)) for _ in range(rng.randrange(1, 4))] + [None] * rng.randrange(2)
        )
    if kind == 6 and source == "string":
        return column.starts_with(text(moment(rng))[: rng.randrange(5)])
    return column.compare(rng.choice(("=", "!=", "<=>", "<", "<=", ">", ">=")), literal(source, moment(rng)))


@pytest.mark.parametrize("expression", CASES)
@pytest.mark.parametrize("seed", range(examples(2)))
def test_i16_what_is_derived_holds_for_every_row_that_satisfies_the_predicate(expression: str, seed: int) -> None:
    source, partition, make = CASES[expression]
    rng = random.Random(f"{expression}/{seed}")
    table = columns(source, partition, expression)
    satisfied = 0
    derived = 0
    for _ in range(150):
        predicate = random_predicate(rng, table, source)
        more = with_generated(predicate, table)
        derived += more != predicate
        for _ in range(20):
            at = moment(rng)
            zone = timedelta(minutes=rng.randrange(-18 * 60, 18 * 60)) if source == "timestamp" else timedelta()
            value = make(at + zone)
            if partition == "timestamp":
                value -= zone // timedelta(microseconds=1)
            row = {
                ("at",): stored(source, at),
                ("x",): rng.randrange(2),
                ("p",): rng.choice((value, value, value, None)),
            }
            if rng.random() < 0.1:
                row |= {("at",): None, ("p",): None}
            if files.evaluate(predicate, row) is True:
                satisfied += 1
                assert files.evaluate(more, row) is True, (str(predicate), str(more), row)
    assert satisfied > 200 and derived > 50


def may_match(table: TableColumns, predicate: Predicate, value: str | None) -> bool:
    range_of = table.schema.ranges_of({"path": "f", "partitionValues": {"p": value}, "stats": '{"numRecords": 1}'})
    assert range_of is not None
    return bool(outcomes(with_generated(predicate, table), range_of) & TRUE)


@pytest.mark.parametrize(
    ("expression", "source", "partition", "operator", "literal", "kept", "left_out"),
    [
        ("CAST(at AS DATE)", "timestamp", "date", ">=", "2026-11-03 00:00:00", "2026-11-02", "2026-11-01"),
        ("CAST(at AS DATE)", "timestamp_ntz", "date", ">=", "2026-11-03 00:00:00", "2026-11-03", "2026-11-02"),
        ("CAST(at AS DATE)", "timestamp_ntz", "date", "<", "2026-11-03 00:00:00", "2026-11-03", "2026-11-04"),
        ("year(at)", "date", "integer", "=", "2026-11-03", "2026", "2025"),
        ("year(at)", "date", "integer", "<=>", "2026-11-03", "2026", "2027"),
        ("substring(at, 1, 2)", "string", "string", "=", "abc", "ab", "ac"),
        ("at", "string", "string", ">", "b", "c", "a"),
    ],
)  # fmt: skip
def test_files_of_other_partitions_are_left_out(  # noqa: PLR0917 - a table
    expression: str, source: str, partition: str, operator: Any, literal: str, kept: str, left_out: str
) -> None:
    table = columns(source, partition, expression)
    predicate = table.find_column("AT").compare(operator, literal)
    assert may_match(table, predicate, kept) and may_match(table, predicate, None)
    assert not may_match(table, predicate, left_out)
    assert may_match(table, Not(predicate), left_out)


@pytest.mark.parametrize(
    ("expression", "source", "partition"),
    [
        ("month(at)", "date", "integer"),
        ("CAST(at AS DATE)", "timestamp", "string"),
        ("CAST(other AS DATE)", "timestamp", "date"),
        ("x", "date", "date"),
        ("rand()", "date", "date"),
        ("date_format(at, 'dd-MM')", "date", "string"),
        ("year(at)", "string", "integer"),
        ("CAST(s AS DATE)", "date", "date"),
    ],
)
def test_of_other_expressions_nothing_is_derived(expression: str, source: str, partition: str) -> None:
    table = columns(source, partition, expression)
    predicate = table.find_column("at").compare("=", "2026-11-03")
    assert with_generated(predicate, table) == predicate
    assert with_generated(table.find_column("s").is_null(), table) == table.find_column("s").is_null()


def test_predicates_on_other_columns_say_nothing_of_it() -> None:
    table = columns("long", "long", "at")
    x = table.find_column("x")
    for predicate in (
        x.compare("=", 1),
        x.is_null(),
        x.is_in([1, 2]),
        x.compare("<", 5),
        table.find_column("at").compare("=", "10.5"),
    ):
        assert with_generated(predicate, table) == predicate
    texts = columns("string", "string", "at")
    other = StartsWith(("other",), "a")
    assert with_generated(other, texts) == other


@pytest.mark.parametrize(
    ("type", "literal", "kept", "left_out"),
    [
        ("date", "2026-11-03", "2026-11-03", "2026-11-04"),
        ("timestamp", "2026-11-03T10:00:00Z", "2026-11-03 10:00:00", "2026-11-05 10:00:00"),
        ("timestamp_ntz", "2026-11-03 10:00:00", "2026-11-03 10:00:00", "2026-11-03 10:00:01"),
        ("long", 7, "7", "8"),
    ],
)
def test_a_copy_of_a_column_has_its_values(type: str, literal: Any, kept: str, left_out: str) -> None:
    table = columns(type, type, "`at`")
    predicate = table.find_column("at").compare("=", literal)
    assert may_match(table, predicate, kept) and not may_match(table, predicate, left_out)


def test_a_list_says_something_only_if_all_of_its_values_do() -> None:
    table = columns("date", "string", "date_format(at, 'yyyy')")
    column = table.find_column("at")
    assert not may_match(table, column.is_in(["2026-01-01", "2024-01-01"]), "2025")
    for values in (["2026-01-01", "0999-01-01"], ["2026-01-01", None]):
        assert with_generated(column.is_in(values), table) == column.is_in(values)
    hundred = column.is_in([date(2026, 1, 1) + timedelta(days=n) for n in range(100)])
    assert not may_match(table, hundred, "2027")


def test_values_that_have_no_partition_value_derive_nothing() -> None:
    table = columns("date", "string", "date_format(at, 'yyyy')")
    for value in ("0001-01-01", "0999-12-31"):
        predicate = table.find_column("at").compare("=", value)
        assert with_generated(predicate, table) == predicate
    many = table.find_column("at").is_in([date(2026, 1, 1) + timedelta(days=n) for n in range(101)])
    assert with_generated(many, table) == many
    first = columns("timestamp", "date", "cast(at as date)")
    lowest = first.find_column("at").compare("=", "0001-01-01T00:00:00Z")
    assert with_generated(lowest, first) == lowest
