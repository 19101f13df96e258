"""What Iceberg's statistics and partitions say: no file and no manifest is left out that has a row
which the filter wants.

PyIceberg makes the filters, the binary bounds and the partition values; filters are evaluated on
rows as Iceberg and as SQL do.
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions as ice
from pyiceberg.conversions import to_bytes
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)

from tests.support.examples import examples
from tests.support.iceberg.filters import FILTERS, ROWS, SCHEMA, TYPES, VALUES, iceberg, sql
from tests.support.iceberg.scan_metadata import metadata_of
from turnstile.iceberg.core.expressions import parse
from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.file_ranges import ScanColumns, single_value
from turnstile.iceberg.core.partition import PartitionField, PartitionSpec
from turnstile.planning.core.predicates import TRUE, outcomes
from turnstile_predicates.predicates import ANYTHING, Range

ICEBERG_TYPES = {"n": "long", "s": "string", "d": "date", "t": "timestamptz", "p": "string", "x": "decimal(10, 2)"}
IDS = {field.name: field.field_id for field in SCHEMA.fields}
FIELDS = [{"id": IDS[name], "name": name, "type": kind, "required": False} for name, kind in ICEBERG_TYPES.items()]
TRANSFORMS: dict[str, Transform[Any, Any]] = {
    "identity": IdentityTransform(), "day": DayTransform(), "month": MonthTransform(), "year": YearTransform(),
    "hour": HourTransform(),
}  # fmt: skip
SPECS = [
    (), (("p", "identity"),), (("n", "identity"), ("d", "month")), (("d", "identity"),), (("d", "year"), ("t", "day")),
    (("t", "hour"),), (("t", "identity"),), (("x", "identity"), ("s", "identity")), (("d", "day"), ("t", "month")),
]  # fmt: skip


METADATA = metadata_of(FIELDS)
COLUMNS = ScanColumns(METADATA, METADATA.schema)


def stored(name: str, value: Any) -> Any:
    """A value as Avro has it."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def binary(name: str, value: Any) -> bytes:
    return bytes(to_bytes(SCHEMA.find_field(name).field_type, stored(name, value)))


def entries(member: int, values: dict[str, Any]) -> list[dict[int, Any]]:
    key, value = manifests.MAP_IDS[member]
    return [{key: IDS[name], value: each} for name, each in values.items()]


def file_of(rows: list[dict[str, Any]], *, with_bounds: bool) -> dict[int, Any]:
    """The record of a file with these rows."""
    if not with_bounds:
        return {manifests.PARTITION: {}}
    present = {name: [row[name] for row in rows if row[name] is not None] for name in TYPES}
    counts = dict.fromkeys(TYPES, len(rows))
    return {
        manifests.PARTITION: {},
        manifests.VALUE_COUNTS: entries(manifests.VALUE_COUNTS, counts),
        manifests.NULL_COUNTS: entries(manifests.NULL_COUNTS, {n: len(rows) - len(v) for n, v in present.items()}),
        manifests.LOWER_BOUNDS: entries(
            manifests.LOWER_BOUNDS, {n: binary(n, min(v)) for n, v in present.items() if v}
        ),
        manifests.UPPER_BOUNDS: entries(
            manifests.UPPER_BOUNDS, {n: binary(n, max(v)) for n, v in present.items() if v}
        ),
    }


def partition_of(row: dict[str, Any], spec: tuple[tuple[str, str], ...]) -> tuple[Any, ...]:
    found = []
    for name, transform in spec:
        made = TRANSFORMS[transform].transform(SCHEMA.find_field(name).field_type)
        found.append(made(stored(name, row[name])))
    return tuple(found)


def summary(values: list[Any], name: str, transform: str) -> dict[int, Any]:
    """The summary of a partition field over the files of a manifest."""
    present = [value for value in values if value is not None]
    made: dict[int, Any] = {manifests.CONTAINS_NULL: len(present) < len(values)}
    if present:
        result = TRANSFORMS[transform].result_type(SCHEMA.find_field(name).field_type)
        made[manifests.LOWER_BOUND] = bytes(to_bytes(result, min(present)))
        made[manifests.UPPER_BOUND] = bytes(to_bytes(result, max(present)))
    return made


def may_match(filters: Any, range_of: Any) -> bool:
    return bool(outcomes(filters.inclusive, range_of) & TRUE)


EARLY = st.dates(date(1968, 1, 1), date(1972, 1, 1))
TIMES = st.datetimes(datetime(1968, 1, 1), datetime(1972, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
MORE_ROWS = st.builds(
    lambda row, p, d, t: {**row, "p": p, **({} if d is None else {"d": d}), **({} if t is None else {"t": t})},
    ROWS, st.none() | VALUES["p"], st.none() | EARLY, st.none() | TIMES,
)  # fmt: skip


@given(FILTERS, st.lists(MORE_ROWS, min_size=1, max_size=6), st.sampled_from(SPECS), st.booleans(), st.data())
@settings(max_examples=examples(150))
def test_no_file_and_no_manifest_with_a_wanted_row_is_left_out(
    expression: ice.BooleanExpression,
    rows: list[dict[str, Any]],
    spec: tuple[tuple[str, str], ...],
    with_bounds: bool,
    data: st.DataObject,
) -> None:
    if data.draw(st.booleans()):  # a filter by what is there is more often at an edge
        name = data.draw(st.sampled_from(["d", "t"]))
        value = next((row[name] for row in rows if row[name] is not None), None)
        if value is not None:
            kind = data.draw(st.sampled_from([ice.EqualTo, ice.LessThanOrEqual, ice.GreaterThanOrEqual, ice.LessThan]))
            expression = (
                ice.And(kind(name, value.isoformat()), expression)
                if data.draw(st.booleans())
                else kind(name, value.isoformat())
            )
    node = json.loads(expression.model_dump_json())
    filters = parse(node, COLUMNS.table)
    fields = [PartitionField(IDS[name], f"f{n}", kind, 1000 + n) for n, (name, kind) in enumerate(spec)]
    made = PartitionSpec(tuple(fields), 0)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(partition_of(row, spec), []).append(row)
    wanted_at_all = False
    for partition, group in groups.items():
        file = file_of(group, with_bounds=with_bounds)
        file[manifests.PARTITION] = {1000 + n: value for n, value in enumerate(partition)}
        wanted = any(sql(node, row) is True or iceberg(expression, row) for row in group)
        assert may_match(filters, COLUMNS.ranges_of_file(file, made)) or not wanted
        wanted_at_all = wanted_at_all or wanted
    summaries = [summary([key[n] for key in groups], *each) for n, each in enumerate(spec)]
    assert may_match(filters, COLUMNS.ranges_of_manifest({manifests.PARTITIONS: summaries}, made)) or not wanted_at_all


ROW = dict.fromkeys(TYPES) | {"n": 5, "s": "b", "d": date(1970, 3, 4), "t": datetime(1970, 3, 4, 5, 30, tzinfo=UTC)}


@pytest.mark.parametrize(("name", "transform", "low", "high"), [
    ("d", "day", 62, 62), ("d", "month", 59, 89), ("d", "year", -365, 364), ("d", "identity", 62, 62),
    ("n", "identity", 5, 5),
    ("t", "hour", (62 * 24 + 5) * 3_600_000_000, (62 * 24 + 6) * 3_600_000_000 - 1),
    ("t", "day", 62 * 86_400_000_000, 63 * 86_400_000_000 - 1),
])  # fmt: skip
def test_a_partition_value_bounds_its_source(name: str, transform: str, low: int, high: int) -> None:
    """Of the year 1970, whose number is 0, the year before as well: writers once rounded towards
    it."""
    spec = PartitionSpec((PartitionField(IDS[name], "f", transform, 1000),), 0)
    (value,) = partition_of(ROW, ((name, transform),))
    found = COLUMNS.ranges_of_file({manifests.PARTITION: {1000: value}}, spec)((name,))
    assert (found.low, found.high, found.has_nulls) == (low, high, False)
    summaries = [summary([value], name, transform)]
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: summaries}, spec)((name,)) == found


def test_null_of_a_partition_is_null_of_its_source_but_of_a_bucket() -> None:
    def found(name: str, transform: str) -> Range:
        spec = PartitionSpec((PartitionField(IDS[name], "f", transform, 1000),), 0)
        return COLUMNS.ranges_of_file({manifests.PARTITION: {1000: None}}, spec)((name,))

    assert not found("t", "day").has_values and not found("n", "identity").has_values
    for other in ("void", "bucket[4]", "truncate[2]"):
        assert found("n", other).has_values


def test_what_partitions_do_not_say() -> None:
    for name, transform, value in (
        ("n", "bucket[4]", 2), ("s", "truncate[1]", "b"), ("t", "identity", 9), ("n", "identity", "x"),
        ("d", "year", 10**6),
        ("d", "day", "x"),
        ("s", "day", 5),
    ):  # fmt: skip
        spec = PartitionSpec((PartitionField(IDS[name], "f", transform, 1000),), 0)
        found = COLUMNS.ranges_of_file({manifests.PARTITION: {1000: value}}, spec)((name,))
        assert (found.low, found.high, found.has_nulls, found.has_values) == (None, None, True, True)


def test_bounds_and_partition_together() -> None:
    file = file_of([ROW], with_bounds=True) | {manifests.PARTITION: {1000: 2}}
    spec = PartitionSpec((PartitionField(IDS["d"], "f", "month", 1000),), 0)
    assert COLUMNS.ranges_of_file(file, spec)(("d",)).low == 62
    file[manifests.PARTITION] = {1000: 7}
    assert COLUMNS.ranges_of_file(file, spec)(("d",)) == ANYTHING, "they contradict each other"
    assert COLUMNS.ranges_of_file(file, spec)(("none",)) == ANYTHING


def test_what_contradicts_itself_or_is_not_whole() -> None:
    spec = PartitionSpec((PartitionField(IDS["n"], "f", "identity", 1000),), 0)
    file = file_of([ROW], with_bounds=True)
    assert COLUMNS.ranges_of_file(file | {manifests.PARTITION: {1000: None}}, spec)(("n",)) == ANYTHING
    assert COLUMNS.ranges_of_file(file | {manifests.PARTITION: {}}, spec)(("n",)) == Range(
        "integer", 5, 5, has_nulls=False
    )
    for missing in (manifests.LOWER_BOUNDS, manifests.UPPER_BOUNDS):
        some = {id: value for id, value in file.items() if id not in (missing, manifests.NULL_COUNTS)}
        found = COLUMNS.ranges_of_file(some | {manifests.PARTITION: {1000: None}}, spec)(("n",))
        assert not found.has_values and found.has_nulls


def test_decimals_of_partitions() -> None:
    """Avro has them as bytes."""
    spec = PartitionSpec((PartitionField(IDS["x"], "f", "identity", 1000),), 0)
    whole = Range("decimal", Decimal("2.56"), Decimal("2.56"), has_nulls=False)
    assert COLUMNS.ranges_of_file({manifests.PARTITION: {1000: b"\x01\x00"}}, spec)(("x",)) == whole
    one = {manifests.LOWER_BOUND: b"\x01\x00", manifests.UPPER_BOUND: b"\x01\x00", manifests.CONTAINS_NULL: False}
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [one]}, spec)(("x",)) == whole
    metadata = metadata_of([{"id": 1, "name": "u", "type": "uuid", "required": False}])
    plain = ScanColumns(metadata, metadata.schema)
    spec = PartitionSpec((PartitionField(1, "f", "identity", 1000),), 0)
    assert plain.ranges_of_file({manifests.PARTITION: {1000: b"1" * 16}}, spec)(("u",)).low is None


def test_a_summary_of_another_spec_says_nothing() -> None:
    spec = PartitionSpec((PartitionField(IDS["n"], "f", "identity", 1000),), 0)
    whole = summary([5], "n", "identity")
    only_high = {id: value for id, value in whole.items() if id != manifests.LOWER_BOUND}
    only_low = {id: value for id, value in whole.items() if id != manifests.UPPER_BOUND}
    for summaries in ([], [whole, whole], [{manifests.CONTAINS_NULL: True}], [only_high], [only_low]):
        assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: summaries}, spec)(("n",)) == ANYTHING
    assert COLUMNS.ranges_of_manifest({}, spec)(("n",)) == ANYTHING
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [whole]}, spec)(("none",)) == ANYTHING
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [whole]}, spec)(("s",)) == ANYTHING


def test_names_are_those_that_are_certain() -> None:
    """A name that was another column's, in any case of letters, is none; nor is one inside a
    list."""
    struct_type = {"type": "struct", "fields": [{"id": 5, "name": "b", "type": "int", "required": False}]}
    before = [
        {"id": 1, "name": "A", "type": "int", "required": False},
        {"id": 2, "name": "c", "type": "int", "required": False},
    ]
    after = [
        {"id": 1, "name": "z", "type": "int", "required": False},
        {"id": 3, "name": "a", "type": "int", "required": False},
        {"id": 2, "name": "c", "type": "long", "required": False},
        {"id": 4, "name": "s", "type": struct_type, "required": False},
        {"id": 6, "name": "u", "type": "uuid", "required": False},
        {"id": 7, "name": "l", "required": False,
         "type": {"type": "list", "element-id": 8, "element": "int", "element-required": False}},
    ]  # fmt: skip
    metadata = metadata_of(before, after)
    columns = ScanColumns(metadata, metadata.schema)
    bound = {5: struct.pack("<i", 3), 2: struct.pack("<i", 4), 6: b"0" * 16, 3: struct.pack("<i", 3)}
    key, value = manifests.MAP_IDS[manifests.LOWER_BOUNDS]
    nulls, count = manifests.MAP_IDS[manifests.NULL_COUNTS]
    file = {
        manifests.LOWER_BOUNDS: [{key: id, value: raw} for id, raw in bound.items()],
        manifests.NULL_COUNTS: [{nulls: 5, count: 0}, {nulls: 2, count: 0}],
    }
    range_of = columns.ranges_of_file(file, PartitionSpec((), 0))
    assert range_of(("a",)) == ANYTHING
    assert (range_of(("c",)).low, range_of(("c",)).has_nulls) == (4, False), "an int before it was a long"
    assert (range_of(("s", "b")).low, range_of(("s", "b")).has_nulls) == (3, True)
    assert range_of(("u",)).low is None and range_of(("u",)).kind is None
    assert columns.table.find_column("S.B", case_sensitive=False).name == ("s", "b")
    assert columns.table.find_column("l").field is None and range_of(("l",)) == ANYTHING


def test_floats_may_be_nan_unless_they_are_counted() -> None:
    metadata = metadata_of([{"id": 1, "name": "f", "type": "float", "required": False}])
    columns = ScanColumns(metadata, metadata.schema)
    nans, count = manifests.MAP_IDS[manifests.NAN_COUNTS]
    plain = PartitionSpec((), 0)
    assert columns.ranges_of_file({}, plain)(("f",)).has_nan
    assert columns.ranges_of_file({manifests.NAN_COUNTS: [{nans: 1, count: 2}]}, plain)(("f",)).has_nan
    assert not columns.ranges_of_file({manifests.NAN_COUNTS: [{nans: 1, count: 0}]}, plain)(("f",)).has_nan
    spec = PartitionSpec((PartitionField(1, "f", "identity", 1000),), 0)
    one = {
        manifests.LOWER_BOUND: struct.pack("<f", 1.5),
        manifests.UPPER_BOUND: struct.pack("<f", 1.5),
        manifests.CONTAINS_NULL: False,
    }
    assert columns.ranges_of_manifest({manifests.PARTITIONS: [one]}, spec)(("f",)).has_nan
    known = one | {manifests.CONTAINS_NAN: False}
    assert columns.ranges_of_manifest({manifests.PARTITIONS: [known]}, spec)(("f",)) == Range(
        "float", 1.5, 1.5, has_nulls=False
    )


@pytest.mark.parametrize(("type", "raw", "value"), [
    ("boolean", b"\x01", True), ("boolean", b"\x00", False), ("boolean", b"", None), ("int", struct.pack("<i", -7), -7),
    ("long", struct.pack("<i", -7), -7), ("long", struct.pack("<q", 1 << 40), 1 << 40), ("long", b"abc", None),
    ("float", struct.pack("<f", 1.5), 1.5), ("double", struct.pack("<f", 1.5), 1.5),
    ("double", struct.pack("<d", 0.1), 0.1),
    ("double", struct.pack("<d", float("nan")), None), ("double", struct.pack("<d", float("inf")), None),
    ("double", b"abc", None),
    ("date", struct.pack("<i", 9), 9), ("date", struct.pack("<q", 9), None), ("timestamp", struct.pack("<q", 9), 9),
    ("timestamptz", struct.pack("<i", 9), None), ("decimal(9, 2)", b"\xff", Decimal("-0.01")),
    ("decimal(9,2)", b"\x01\x00", Decimal("2.56")),
    ("decimal(9,2)", b"", None), ("decimal(9,2)", b"1" * 17, None), ("string", "é".encode(), "é"),
    ("string", b"\xff", None),
    ("uuid", b"1" * 16, None), ("binary", b"1", None),
])  # fmt: skip
def test_binary_values(type: str, raw: bytes, value: Any) -> None:
    found = single_value(type, raw)
    assert found == value and (found is None) == (value is None)


def test_a_summary_with_one_bound_alone_says_nothing() -> None:
    day = PartitionSpec((PartitionField(IDS["d"], "f", "day", 1000),), 0)
    whole = summary([1, 2], "d", "day")
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [whole]}, day)(("d",)) != ANYTHING
    for bound in (manifests.LOWER_BOUND, manifests.UPPER_BOUND):
        one = {name: value for name, value in whole.items() if name != bound}
        assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [one]}, day)(("d",)) == ANYTHING


def test_a_bucket_says_nothing_of_the_dates_in_it() -> None:
    spec = PartitionSpec((PartitionField(IDS["d"], "f", "bucket[4]", 1000),), 0)
    bounds = {manifests.LOWER_BOUND: struct.pack("<i", 1), manifests.UPPER_BOUND: struct.pack("<i", 2)}
    assert COLUMNS.ranges_of_manifest({manifests.PARTITIONS: [bounds]}, spec)(("d",)) == ANYTHING
    found = COLUMNS.ranges_of_file({manifests.PARTITION: {1000: 1}}, spec)(("d",))
    assert (found.low, found.high, found.has_nulls, found.has_values) == (None, None, True, True)
