"""Decisions of the plain Python client: statistics, partition values, filters, and the fit of
data."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile_client.core.filters import Filter
from turnstile_client.errors import DataMismatch, Unsupported
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import (
    Definition,
    check_appendable,
    check_overwritable,
    check_readable,
    new_definition,
)
from turnstile_rows.partitions import partition_text, partition_value
from turnstile_rows.schemas import arrow_schema, delta_schema
from turnstile_rows.statistics import Statistics, indexed_columns

COLUMNS = pa.schema([("i", pa.int64()), ("x", pa.float64()), ("t", pa.string()), ("d", pa.date32())])


def definition(schema: pa.Schema = COLUMNS, **more: Any) -> Definition:
    made = new_definition(delta_schema(schema), (), {}, ())
    return Definition(
        made.fields,
        **{"partitions": (), "properties": {}, "reader_features": frozenset(), "writer_features": frozenset(), **more},
    )


def bounds_of(name: str, values: pa.Array) -> tuple[Any, Any]:
    """Returns the least and the greatest value in the statistics of a file with these values."""
    statistics = Statistics(frozenset({(name,)}))
    statistics.add(pa.RecordBatch.from_arrays([values], [name]))
    told = json.loads(statistics.text())
    return told["minValues"].get(name), told["maxValues"].get(name)


@pytest.mark.parametrize("after", ["", "a", "\U0010fffe", "z" * 200])
def test_a_text_that_is_cut_in_the_bounds_lies_between_them(after: str) -> None:
    text = "m" * 32 + "b" + after
    low, high = bounds_of("t", pa.array([text, text + "x"]))
    assert low <= text and high > text + "x"
    assert len(low) <= 33 and len(high) <= 33


def test_a_greatest_text_that_cannot_be_cut_has_no_bound() -> None:
    last = "\U0010ffff" * 40
    assert bounds_of("t", pa.array([last])) == (last[:32], None)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_between_two_milliseconds_lies_between_the_bounds(zone: str | None) -> None:
    moment = dt.datetime(2026, 1, 1, 0, 0, 0, 1500, dt.UTC if zone else None)
    low, high = bounds_of("d", pa.array([moment], pa.timestamp("us", zone)))
    at = [dt.datetime.fromisoformat(text) for text in (low, high)]
    assert at[0] <= moment <= at[1] and at[1] - at[0] == dt.timedelta(milliseconds=1)
    whole = moment.replace(microsecond=1000)
    assert len(set(bounds_of("d", pa.array([whole], pa.timestamp("us", zone))))) == 1


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(),
        st.none() | st.text(max_size=50),
        st.none() | st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    ),
    min_size=1,
    max_size=20,
)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), COLUMNS, strict=True)], COLUMNS
    )


@given(ROWS)
def test_bounds_are_never_too_narrow_and_counts_are_right(rows: list[tuple[Any, ...]]) -> None:
    statistics = Statistics(indexed_columns(definition()))
    for batch in table(rows).to_batches(max_chunksize=3):
        statistics.add(batch)
    told = json.loads(statistics.text())
    assert told["numRecords"] == len(rows)
    for place, name in enumerate(COLUMNS.names):
        values = [row[place] for row in rows]
        assert told["nullCount"][name] == values.count(None)
        there = [value for value in values if value is not None]
        if name == "d":
            there = [value.isoformat() for value in there]
        least = told.get("minValues", {}).get(name)
        greatest = told.get("maxValues", {}).get(name)
        assert least is None or all(least <= value for value in there)
        assert greatest is None or all(value <= greatest for value in there)
        if name == "x" and any(map(math.isnan, there)):
            assert greatest is None, "NaN is greater than all"


@given(
    st.sampled_from([
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.decimal128(38, 9), st.decimals(-(10**29) + 1, 10**29 - 1, places=9)),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text(min_size=1)),
        (pa.date32(), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
        (pa.timestamp("us"), st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))),
        (pa.timestamp("us", "UTC"),
         st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))),
    ]).flatmap(lambda kind: st.tuples(st.just(kind[0]), st.none() | kind[1]))
)  # fmt: skip
def test_a_partition_value_comes_back_from_its_text(given: tuple[pa.DataType, Any]) -> None:
    type, value = given
    assert partition_value(partition_text(value, "p"), type, "p").as_py() == value


def test_an_empty_partition_text_is_refused_for_it_would_be_read_as_null() -> None:
    with pytest.raises(DataMismatch, match="write null"):
        partition_text("", "p")
    with pytest.raises(Unsupported, match="no int64"):
        partition_value("x", pa.int64(), "p")


@pytest.mark.parametrize(
    "where",
    [[], [[]], [("i", "~", 1)], [("i", "=")], ["i = 1"], "i = 1",
     [("nope", "=", 1)], [("i", "<", None)], [("i", "in", "ab")],
     [("i", "in", [1, None])], [("i", "=", "x")]],
)  # fmt: skip
def test_what_is_no_filter_is_refused(where: Any) -> None:
    with pytest.raises(DataMismatch, match="where"):
        Filter(where, definition().fields, COLUMNS)


@given(ROWS, st.integers(-3, 3))
def test_a_filter_in_sql_is_true_wherever_it_is_true_of_a_row(rows: list[tuple[Any, ...]], bound: int) -> None:
    """By its shape: the same conditions, or fewer where SQL has no counterpart."""
    filter = Filter([[("i", "<=", bound), ("t", "!=", None)], [("i", "not in", [bound])]], definition().fields, COLUMNS)
    kept = table(rows).filter(filter.expression).column("i").to_pylist()
    expected = [
        i for i, _, t, _ in rows if (i is not None and i <= bound and t is not None) or (i is not None and i != bound)
    ]
    assert kept == expected
    assert filter.sql is not None and filter.columns == {"i", "t"}


@pytest.mark.parametrize(
    ("feature", "is_read", "is_appended_to", "is_overwritten"),
    [
        ("catalogManaged", True, True, True),
        ("columnMapping", True, True, True),
        ("rowTracking", False, True, False),
        ("unheardOf", False, False, False),
    ],
)
def test_features_that_the_client_does_not_carry_out_are_refused_by_name(
    feature: str, is_read: bool, is_appended_to: bool, is_overwritten: bool
) -> None:
    for check, allowed in (
        (check_readable, is_read),
        (check_appendable, is_appended_to),
        (check_overwritable, is_overwritten),
    ):
        made = definition(reader_features=frozenset({feature}), writer_features=frozenset({feature}))
        if allowed:
            check(made)
        else:
            with pytest.raises(Unsupported, match=feature):
                check(made)


@pytest.mark.parametrize(
    ("metadata", "properties", "message"),
    [
        ({"delta.generationExpression": "x"}, {}, "is generated"),
        ({"delta.identity.start": 1}, {}, "identity"),
        ({"delta.invariants": "{}"}, {}, "invariant"),
        ({}, {"delta.constraints.positive": "i > 0"}, "positive"),
    ],
)
def test_columns_and_constraints_that_are_computed_are_refused(metadata: Any, properties: Any, message: str) -> None:
    made = definition(properties=properties)
    fields = ({**made.fields[0], "metadata": metadata}, *made.fields[1:])
    made = Definition(fields, (), properties, frozenset(), frozenset())
    for check in (check_appendable, check_overwritable):
        with pytest.raises(Unsupported, match=message):
            check(made)


def test_a_null_is_refused_where_the_table_takes_none_also_in_a_struct_and_a_list() -> None:
    element = pa.field("element", pa.int64(), nullable=False)
    wanted = pa.schema(
        [pa.field("s", pa.struct([pa.field("x", pa.int64(), nullable=False)])), ("l", pa.list_(element))]
    )
    loose = pa.schema([("s", pa.struct([("x", pa.int64())])), ("l", pa.list_(pa.int64()))])
    conformer = Conformer(loose, wanted)
    (fine,) = conformer.conform(pa.RecordBatch.from_pylist([{"s": None, "l": None}, {"s": {"x": 1}, "l": [1]}], loose))
    assert fine.schema == wanted
    for bad, name in (({"s": {"x": None}, "l": []}, "column 's"), ({"s": None, "l": [None]}, "l.element")):
        with pytest.raises(DataMismatch, match=name):
            list(conformer.conform(pa.RecordBatch.from_pylist([bad], loose)))


def test_a_schema_of_arrow_comes_back_from_deltas_json() -> None:
    schema = pa.schema(
        [
            ("i", pa.int32()),
            pa.field("t", pa.string(), nullable=False),
            ("l", pa.list_(pa.field("element", pa.date32()))),
        ]
    )
    assert arrow_schema(delta_schema(schema)) == schema
    with pytest.raises(DataMismatch, match="duration"):
        delta_schema(pa.schema([("d", pa.duration("s"))]))
    with pytest.raises(DataMismatch, match="a name has none of"):
        delta_schema(pa.schema([("a b", pa.int32())]))


def test_comments_of_arrow_columns_are_comments_of_the_table() -> None:
    place = pa.struct([pa.field("lat", pa.float64(), metadata={"doc": "degrees"})])
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"comment": "key"}), pa.field("place", place)])
    id, made = delta_schema(schema)["fields"]
    assert id["metadata"] == {"comment": "key"} and made["metadata"] == {}
    assert made["type"]["fields"][0]["metadata"] == {"comment": "degrees"}
