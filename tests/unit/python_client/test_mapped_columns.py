"""Reads of tables with column mapping, and of columns with widened types. The names and types in a
file do not change the rows (Delta protocol, "Column Mapping", "Type Widening")."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.delta_table import inline_vector
from turnstile_client import Unsupported
from turnstile_client.core.filters import Filter
from turnstile_client.reading import FileReader
from turnstile_client.storage import Storage
from turnstile_rows.definitions import Definition, check_appendable, check_overwritable, check_readable
from turnstile_rows.schemas import FIELD_ID


def column(name: str, type: Any, id: int, stored: str) -> dict[str, Any]:
    metadata = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": stored}
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


INNER: Final = struct_of(column("first name", "string", 5, "f"), column("n", "long", 6, "col-6"))
FIELDS: Final = (
    column("the id", "long", 1, "id"),
    column("p", "date", 2, "col-2"),
    column("who", INNER, 3, "s"),
    column("tags", {"type": "array", "elementType": INNER, "containsNull": True}, 7, "col-7"),
    column("by", {"type": "map", "keyType": "string", "valueType": INNER, "valueContainsNull": True}, 8, "col-8"),
    column("id", "string", 9, "col-9"),
)
"""The first column was renamed: files have it as ``id``. The last column has the name ``id``
now."""

DAY: Final = dt.date(2026, 1, 2)
PERSON: Final = {"first name": "Ada", "n": 3}
ROWS: Final = [
    {"the id": 1, "p": DAY, "who": PERSON, "tags": [PERSON, None], "by": [("x", PERSON)], "id": "one"},
    {"the id": 2, "p": DAY, "who": None, "tags": [], "by": [], "id": None},
    {"the id": 3, "p": DAY, "who": {"first name": None, "n": 4}, "tags": None, "by": None, "id": "three"},
]


def definition(
    mode: str, fields: tuple[dict[str, Any], ...] = FIELDS, partitions: tuple[str, ...] = ("p",)
) -> Definition:
    features = frozenset({"columnMapping"})
    return Definition(fields, partitions, {"delta.columnMapping.mode": mode}, features, features)


def with_ids(schema: pa.Schema, fields: Any) -> pa.Schema:
    """The schema with ids, as a writer of Delta tables leaves it in Parquet."""

    def of(arrow: pa.Field, field: Any) -> pa.Field:
        metadata = {FIELD_ID: str(field["metadata"]["delta.columnMapping.id"])}
        return pa.field(arrow.name, typed(arrow.type, field["type"]), metadata=metadata)

    def typed(arrow: pa.DataType, type: Any) -> pa.DataType:
        if isinstance(type, str):
            return arrow
        if type["type"] == "struct":
            return pa.struct([of(inner, field) for inner, field in zip(arrow, type["fields"], strict=True)])
        if type["type"] == "array":
            return pa.list_(pa.field("element", typed(arrow.value_type, type["elementType"])))
        return pa.map_(arrow.key_type, pa.field("value", typed(arrow.item_type, type["valueType"])))

    return pa.schema([of(arrow, field) for arrow, field in zip(schema, fields, strict=True)])


def renamed(value: Any, type: Any) -> Any:
    """A value with the names that files have."""
    if value is None or isinstance(type, str):
        return value
    if type["type"] == "struct":
        stored = {field["metadata"]["delta.columnMapping.physicalName"]: field for field in type["fields"]}
        return {name: renamed(value[field["name"]], field["type"]) for name, field in stored.items()}
    if type["type"] == "array":
        return [renamed(each, type["elementType"]) for each in value]
    return [(key, renamed(each, type["valueType"])) for key, each in value]


class Folder:
    """A table's folder with one file of ``ROWS``, without the partition column."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.definition = definition(mode)
        self.storage = Storage(folder.as_uri(), {}, lambda: None)
        self._path = folder / "1.parquet"
        whole = pa.Table.from_pylist([renamed(row, struct_of(*FIELDS)) for row in ROWS], self._schema())
        self.table = whole.drop_columns(["col-2"])

    def _schema(self) -> pa.Schema:
        stored = self.definition.stored_schema
        return with_ids(pa.schema([pa.field(column.name, column.type) for column in stored]), FIELDS)

    def file(self, table: pa.Table, **more: Any) -> dict[str, Any]:
        pq.write_table(table, self._path)
        values = {"col-2": DAY.isoformat()}
        return {"path": self._path.as_uri(), "partitionValues": values, "size": self._path.stat().st_size, **more}

    def read(self, file: dict[str, Any], *names: str, where: Any = None) -> list[dict[str, Any]]:
        made = self.definition
        filter = None if where is None else Filter(where, made.fields, made.schema, made.stored_schema)
        reader = FileReader(self.storage, made, names or made.schema.names, filter)
        assert all(batch.schema == reader.schema for batch in reader.rows([file]))
        return pa.Table.from_batches(reader.rows([file]), reader.schema).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_rows_have_the_names_of_the_table_at_every_level(mode: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, mode)
    assert folder.read(folder.file(folder.table)) == ROWS
    assert folder.read(folder.file(folder.table), "id", "the id") == [
        {"id": row["id"], "the id": row["the id"]} for row in ROWS
    ]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ([("the id", ">=", 2)], [2, 3]),
        ([("id", "=", "one")], [1]),
        ([("id", "!=", None), ("the id", "<", 3)], [1]),
        ([("p", "=", DAY)], [1, 2, 3]),
        ([("p", ">", DAY)], []),
        ([("ID", "in", ["one", "three"])], [1, 3]),
    ],
)
def test_a_filter_names_columns_as_the_table_does(mode: str, where: Any, ids: list[int], tmp_path: Path) -> None:
    folder = Folder(tmp_path, mode)
    assert [row["the id"] for row in folder.read(folder.file(folder.table), "the id", where=where)] == ids


def test_by_id_the_names_in_a_file_say_nothing(tmp_path: Path) -> None:
    """As in files that were written before the table came to Delta."""
    folder = Folder(tmp_path, "id")
    other = folder.table.rename_columns(["a", "b", "c", "d", "e"])
    assert folder.read(folder.file(other)) == ROWS
    swapped = folder.table.rename_columns(["col-9", "s", "col-7", "col-8", "id"])
    assert folder.read(folder.file(swapped)) == ROWS


def test_by_id_a_column_of_another_id_is_another_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "id")
    schema = folder.table.schema
    place = schema.get_field_index("id")
    other = schema.set(place, schema.field(place).with_metadata({FIELD_ID: "77"}))
    rows = folder.read(folder.file(folder.table.cast(other)), "the id", "id")
    assert rows == [{"the id": None, "id": row["id"]} for row in ROWS]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_file_that_is_older_than_a_column_has_nulls_in_it(mode: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path, mode)
    older = folder.table.drop_columns(["col-9", "col-8"])
    assert folder.read(folder.file(older)) == [{**row, "id": None, "by": None} for row in ROWS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda metadata: metadata.pop("delta.columnMapping.physicalName"), "physicalName"),
        (lambda metadata: metadata.pop("delta.columnMapping.id"), "id"),
    ],
)
def test_a_column_without_a_name_or_an_id_is_named(change: Callable[[Any], Any], message: str) -> None:
    metadata = dict(FIELDS[0]["metadata"])
    change(metadata)
    damaged = definition("name", ({**FIELDS[0], "metadata": metadata},), ())
    with pytest.raises(Unsupported, match=f"'the id' has no delta.columnMapping.{message}"):
        _ = damaged.stored_schema


def test_a_mode_that_is_not_known_is_refused_and_a_mapped_table_is_appended_to_and_not_overwritten() -> None:
    with pytest.raises(Unsupported, match=r"not known: delta\.columnMapping\.mode = other"):
        _ = definition("other").stored_schema
    with pytest.raises(Unsupported, match=r"not known: delta\.columnMapping\.mode = other"):
        check_appendable(definition("other"))
    check_readable(definition("id"))
    check_appendable(definition("id"))
    with pytest.raises(Unsupported, match="read and appended to here, and no files of it are replaced"):
        check_overwritable(definition("id"))


WIDENED: Final[dict[str, tuple[Any, pa.DataType, list[Any], Any]]] = {
    "byte to long": ("long", pa.int8(), [1, None, -128], lambda value: value),
    "integer to long": ("long", pa.int32(), [1, None, 2**31 - 1], lambda value: value),
    "float to double": ("double", pa.float32(), [1.5, None, -0.25], lambda value: value),
    "integer to double": ("double", pa.int32(), [1, None, -7], float),
    "date to timestamp_ntz": (
        "timestamp_ntz",
        pa.date32(),
        [DAY, None, dt.date(1900, 1, 1)],
        lambda day: dt.datetime(day.year, day.month, day.day),
    ),
    "decimal to a wider one": ("decimal(20,5)", pa.decimal128(10, 2), [Decimal("1.25"), None], Decimal),
    "integer to decimal": ("decimal(20,3)", pa.int32(), [7, None, -(2**31)], Decimal),
    "in a struct": (
        struct_of(column("n", "long", 1, "n")),
        pa.struct([("n", pa.int32())]),
        [{"n": 5}, None, {"n": None}],
        lambda value: value,
    ),
    "in a list": (
        {"type": "array", "elementType": "double", "containsNull": True},
        pa.list_(pa.float32()),
        [[1.5, None], None, []],
        lambda value: value,
    ),
    "in a map": (
        {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True},
        pa.map_(pa.int16(), pa.int32()),
        [[(1, 2)], None, []],
        lambda value: value,
    ),
    "in structs of a list": (
        {"type": "array", "elementType": struct_of(column("n", "long", 1, "n")), "containsNull": True},
        pa.list_(pa.struct([("n", pa.int32())])),
        [[{"n": 5}, None], None, []],
        lambda value: value,
    ),
    "long to decimal": ("decimal(30,3)", pa.int64(), [7, None, -(2**63)], Decimal),
}


@pytest.mark.parametrize("way", ["dataset", "deletion vector"])
@pytest.mark.parametrize("kind", WIDENED)
def test_a_column_that_was_widened_has_the_values_of_before(kind: str, way: str, tmp_path: Path) -> None:
    type, before, values, expected = WIDENED[kind]
    features = frozenset({"typeWidening"})
    field = {"name": "x", "type": type, "nullable": True, "metadata": {}}
    made = Definition((field,), (), {}, features, features)
    check_readable(made)
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"x": pa.array(values, before)}), path)
    file: dict[str, Any] = {"path": path.as_uri(), "partitionValues": {}, "size": path.stat().st_size}
    if way != "dataset":
        file["deletionVector"] = inline_vector({0})
    reader = FileReader(Storage(tmp_path.as_uri(), {}, lambda: None), made, ["x"], None)
    read = pa.Table.from_batches(reader.rows([file]), reader.schema)["x"].to_pylist()
    wanted = [None if value is None else expected(value) for value in values]
    assert read == (wanted if way == "dataset" else wanted[1:])


@pytest.mark.parametrize(
    ("where", "rows"), [([("x", ">", 2**40)], []), ([("x", "<", 2**40)], [1, 2]), ([("x", "in", [2, 2**40])], [2])]
)
def test_a_filter_may_have_values_that_a_file_of_before_cannot_hold(
    where: Any, rows: list[int], tmp_path: Path
) -> None:
    made = Definition(
        ({"name": "x", "type": "long", "nullable": True, "metadata": {}},), (), {}, frozenset(), frozenset()
    )
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32())}), path)
    reader = FileReader(
        Storage(tmp_path.as_uri(), {}, lambda: None), made, ["x"], Filter(where, made.fields, made.schema)
    )
    file = {"path": path.as_uri(), "partitionValues": {}, "size": path.stat().st_size}
    assert pa.Table.from_batches(reader.rows([file]), reader.schema)["x"].to_pylist() == rows
