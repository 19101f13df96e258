"""What ``create`` takes of a schema, ``append`` takes of its data, and the rows come back; the rest
is refused at once, with a remedy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile_client.errors import DataMismatch
from turnstile_client.files import Writer, stream_of
from turnstile_client.reading import FileReader
from turnstile_client.storage import Storage
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import new_definition
from turnstile_rows.schemas import delta_schema

DAY = dt.date(2026, 11, 27)
MOMENT = dt.datetime(2026, 11, 27, 1, 2, 3)
NUMBER = Decimal("12.50")
SIMPLE: Final[list[tuple[pa.DataType, list[Any]]]] = [
    (pa.bool_(), [True, False]),
    *((type, [0, 1, 100]) for type in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
                                       pa.uint32())),
    (pa.int64(), [-(2**63), 2**63 - 1]), (pa.uint64(), [0, 2**64 - 1]),
    *((type, [0.0, 1.5, -2.0]) for type in (pa.float16(), pa.float32(), pa.float64())),
    *((type, ["", "a", "ü" * 40]) for type in (pa.string(), pa.large_string(), pa.string_view())),
    *((type, [b"", b"abc"]) for type in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), [b"abc", b"\x00\x01\x02"]),
    *((type, [DAY]) for type in (pa.date32(), pa.date64())),
    *((pa.timestamp(unit, zone), [MOMENT.replace(tzinfo=dt.UTC if zone else None)])
      for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Zurich")),
    *((type, [NUMBER, -NUMBER]) for type in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(38, 2),
                                             pa.decimal256(38, 2))),
]  # fmt: skip
NOT_TAKEN: Final = [
    pa.null(), pa.time32("s"), pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(39, 2),
    pa.decimal128(5, -2), pa.struct([]), pa.list_(pa.null()), pa.struct([("x", pa.struct([]))]),
    pa.map_(pa.string(), pa.duration("s")),
    pa.run_end_encoded(pa.int32(), pa.string()), pa.bool8(), pa.uuid(), pa.sparse_union([pa.field("a", pa.int64())]),
]  # fmt: skip

Kind = tuple[pa.DataType, st.SearchStrategy[Any]]


def simple() -> st.SearchStrategy[Kind]:
    plain = st.sampled_from(SIMPLE).map(lambda kind: (kind[0], st.sampled_from(kind[1])))
    keys = st.sampled_from(
        [kind for kind in SIMPLE if not pa.types.is_float16(kind[0]) and not pa.types.is_boolean(kind[0])]
    )
    index = st.sampled_from([pa.int8(), pa.uint32()])
    words = st.tuples(keys, index).map(lambda of: (pa.dictionary(of[1], of[0][0]), st.sampled_from(of[0][1])))
    return plain | words


def nested(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    def of_lists(kind: Kind) -> st.SearchStrategy[Kind]:
        type, values = kind
        makers = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
        free = st.sampled_from(makers).map(lambda make: (make(type), st.lists(st.none() | values, max_size=3)))
        return free | st.just((pa.list_(type, 2), st.lists(st.none() | values, min_size=2, max_size=2)))

    def of_structs(kinds: list[Kind]) -> Kind:
        names = [f"f{at}" for at in range(len(kinds))]
        members = {name: st.none() | values for name, (_, values) in zip(names, kinds, strict=True)}
        fields = [(name, type) for name, (type, _) in zip(names, kinds, strict=True)]
        return pa.struct(fields), st.fixed_dictionaries(members)

    def of_maps(kind: Kind) -> Kind:
        pairs = st.lists(
            st.tuples(st.sampled_from("abc"), st.none() | kind[1]), max_size=2, unique_by=lambda pair: pair[0]
        )
        return pa.map_(pa.string_view(), kind[0]), pairs

    return inner.flatmap(of_lists) | st.lists(inner, min_size=1, max_size=2).map(of_structs) | inner.map(of_maps)


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    """As Arrow makes it, also of dictionaries in lists and structs, of which it makes none."""
    if pa.types.is_dictionary(type):
        words = [value for at, value in enumerate(values) if value is not None and value not in values[:at]]
        indices = [None if value is None else words.index(value) for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(indices, type.index_type), array(words, type.value_type))
    if pa.types.is_struct(type):
        members = [
            array([None if value is None else value[field.name] for value in values], field.type) for field in type
        ]
        return pa.StructArray.from_arrays(
            members, fields=list(type), mask=pa.array([value is None for value in values], pa.bool_())
        )
    if pa.types.is_map(type):
        pairs = [pair for value in values for pair in value or ()]
        keys = array([key for key, _ in pairs], type.key_type)
        items = array([item for _, item in pairs], type.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type, mask=_mask(values))
    if pa.types.is_fixed_size_list(type):
        flat = [element for value in values for element in (value or [None] * type.list_size)]
        return pa.FixedSizeListArray.from_arrays(array(flat, type.value_type), type=type, mask=_mask(values))
    for is_kind, make in (
        (pa.types.is_list, pa.ListArray), (pa.types.is_large_list, pa.LargeListArray),
        (pa.types.is_list_view, pa.ListViewArray), (pa.types.is_large_list_view, pa.LargeListViewArray),
    ):  # fmt: skip
        if is_kind(type):
            flat = array([element for value in values for element in value or ()], type.value_type)
            if make in (pa.ListArray, pa.LargeListArray):
                size = pa.int32() if make is pa.ListArray else pa.int64()
                return make.from_arrays(_offsets(values).cast(size), flat, type=type, mask=_mask(values))
            size = pa.int32() if make is pa.ListViewArray else pa.int64()
            sizes = pa.array([len(value or ()) for value in values], size)
            return make.from_arrays(_offsets(values).cast(size)[:-1], sizes, flat, type=type, mask=_mask(values))
    if pa.types.is_decimal(type):
        return pa.array(values, pa.decimal128(38, 2)).cast(type)
    return pa.array(values, type)


def _offsets(values: list[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    return pa.array(offsets, pa.int32())


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def appended(data: pa.Table, folder: Path) -> list[Any]:
    """The rows of the data's column after they were written by the client and read by it."""
    definition = new_definition(delta_schema(data.schema), (), {}, ())
    storage = Storage(folder.as_uri(), {}, lambda: None)
    conformer = Conformer(data.schema, definition.schema)
    writer = Writer(storage, definition)
    for batch in data.to_batches():
        for rows in conformer.conform(batch):
            rows.validate(full=True)
            writer.write(rows)
    writer.close()
    planned = [{"path": file.path, "partitionValues": {}, "size": file.size} for file in writer.files]
    return [
        row["c"] for batch in FileReader(storage, definition, ["c"], None).rows(planned) for row in batch.to_pylist()
    ]


def plain(value: Any) -> Any:
    """A value without what is not of the value: the name of a zone, and a decimal's digits."""
    match value:
        case dt.datetime():
            return value.timestamp() if value.tzinfo else value
        case Decimal():
            return value.normalize()
        case int() if not isinstance(value, bool):
            return Decimal(value).normalize()
        case list():
            return [plain(each) for each in value]
        case tuple():
            return tuple(plain(each) for each in value)
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case _:
            return value


KINDS: Final = st.recursive(simple(), nested, max_leaves=4)
ROWS: Final = KINDS.flatmap(lambda kind: st.tuples(st.just(kind[0]), st.lists(st.none() | kind[1], max_size=6)))


@given(rows=ROWS, start=st.integers(0, 3))
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_data_of_every_type_that_a_table_is_created_with_is_appended_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: tuple[pa.DataType, list[Any]], start: int
) -> None:
    type, values = rows
    data = pa.table({"c": array(values, type)}).slice(start)
    assert plain(appended(data, tmp_path_factory.mktemp("types"))) == plain(values[start:])


@pytest.mark.parametrize("type", NOT_TAKEN, ids=str)
def test_a_type_that_no_table_holds_is_refused_when_the_table_is_created_and_the_remedy_is_said(
    type: pa.DataType,
) -> None:
    for schema in (pa.schema([("c", type)]), pa.schema([("s", pa.struct([("c", type)]))])):
        with pytest.raises(DataMismatch, match=r"cast it|leave it out"):
            delta_schema(schema)


class Polars:
    """A data frame with a column of a type that only its library has: Arrow cannot read its
    stream."""

    def __arrow_c_stream__(self, requested: object = None) -> object:
        raise pa.ArrowInvalid("Invalid or unsupported format string: '_pli128'")


def test_a_type_that_arrow_has_not_is_refused_with_the_remedy() -> None:
    with pytest.raises(DataMismatch, match=r"Arrow has not.*cast it"):
        stream_of(Polars())


def test_a_value_that_would_be_changed_is_refused_by_its_column() -> None:
    data = pa.table({"c": pa.array([1], pa.timestamp("ns"))})
    definition = new_definition(delta_schema(data.schema), (), {}, ())
    with pytest.raises(DataMismatch, match=r"column 'c' holds values that timestamp\[us\] does not.*round"):
        list(Conformer(data.schema, definition.schema).conform(data.to_batches()[0]))
