"""Files of an Iceberg table while its expectations are checked: statistics first, then rows; what
delete files concern is not guessed (I28)."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, TimestamptzType
from pyroaring import BitMap64

from tests.support.examples import examples
from tests.support.fakes.rows import parquet_body
from tests.support.iceberg.client import Iceberg
from tests.support.iceberg.planned_table import PlannedTable
from turnstile.catalog.core.entities import IcebergTable
from turnstile.expectations import table_check
from turnstile.expectations.core.conditions import NotEvaluated, expectations_of
from turnstile.expectations.table_check import TableCheck
from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.content_files import ContentFile
from turnstile.iceberg.core.files.file_ranges import current_columns
from turnstile.iceberg.core.metadata import TableMetadata, parse
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.schema import Field, StructType
from turnstile.iceberg.expectations import deleted_rows
from turnstile.iceberg.expectations import source as source_module
from turnstile.iceberg.expectations.source import IcebergSource, Reads
from turnstile.planning.file_rows import TableFiles
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.errors import InvalidRequest
from turnstile_rows.errors import TableError

HOUR_US = 3_600_000_000


class Checked:
    """An Iceberg table whose files have rows, and its states."""

    def __init__(self, *, by_day: bool = False) -> None:
        self.table = PlannedTable(Iceberg(), by_day=by_day)
        self.names = 0
        self.rows = ReadBudget(10**6, small_files=True)
        self.manifests = ReadBudget(10**6)

    def file(
        self, *ids: int | None, stats: bool = True, at_us: int | None = None, field_ids: bool = True, **more: Any
    ) -> DataFile:
        """A data file with these rows."""
        self.names += 1
        path = f"{self.table.location}/data/{self.names}.parquet"

        def field(name: str, type: pa.DataType, id: int) -> pa.Field:
            return pa.field(name, type, metadata={"PARQUET:field_id": str(id)} if field_ids else None)

        schema = pa.schema([field("id", pa.int64(), 1), field("region", pa.string(), 2)])
        content = parquet_body(pa.table([pa.array(ids, pa.int64()), ["x"] * len(ids)], schema=schema))
        self.table.files[path] = (content, 0)
        there = [id for id in ids if id is not None]
        lower = {1: to_bytes(LongType(), min(there))} if there and stats else {}
        upper = {1: to_bytes(LongType(), max(there))} if there and stats else {}
        if at_us is not None:
            upper[3] = to_bytes(TimestamptzType(), at_us)
        made = DataFile.from_args(**{
            "content": DataFileContent.DATA, "file_path": path, "file_format": FileFormat.PARQUET,
            "partition": Record(), "record_count": len(ids), "file_size_in_bytes": len(content),
            "value_counts": {1: len(ids), 3: len(ids)} if stats else {},
            "null_value_counts": {1: len(ids) - len(there), 3: 0} if stats else {},
            "lower_bounds": lower, "upper_bounds": upper, **more,
        })  # fmt: skip
        made.spec_id = 0
        return made

    def deletes(self, kind: str, *, rows: dict[str, Any] | None = None, **more: Any) -> DataFile:
        """A delete file of the whole table; ``rows``: the columns of one that is there."""
        self.names += 1
        made = self.table.file(f"d{self.names}.parquet", content=kind, **more)
        if rows is not None:
            self.table.files[made.file_path] = (parquet_body(pa.table(rows)), 0)
        return made

    def positions(self, deleted: dict[str, list[Any]]) -> DataFile:
        """Position deletes of data files, by their paths."""
        pairs = [(path, row) for path, rows in deleted.items() for row in rows]
        paths = pa.array([path for path, _ in pairs], pa.string())
        return self.deletes(
            "position", rows={"file_path": paths, "pos": pa.array([row for _, row in pairs], pa.int64())}
        )

    def state(self) -> TableMetadata:
        entity = self.table.client.services.open_catalog.reader
        tree = entity.current("main")
        entry = tree.find(("sales", "i1"))
        assert entry is not None
        found = entity.store.entity("main", entry.obj)
        assert isinstance(found, IcebergTable)
        return parse(self.table.files[found.metadata][0])

    def source(self, base: TableMetadata | None = None, *more: Field) -> IcebergSource:
        """The table as it is now, with ``more`` columns."""
        reads = Reads(self.table.client.world.storages, self.rows, self.manifests)
        state = self.state()
        schema = msgspec.structs.replace(state.schema, fields=(*state.schema.fields, *more))
        return IcebergSource(reads, self.table.location, msgspec.structs.replace(state, schemas=(schema,)), base)

    def problem(self, text: str, base: TableMetadata | None = None, *more: Field, now_ms: int = 0) -> str | None:
        """How the files that are not in ``base`` break a condition."""
        source = self.source(base, *more)
        (expectation,) = expectations_of({"turnstile.expect.e": text})
        return TableCheck(source, now_ms).problem(expectation.condition, None if base is None else source.added_files)


PREDICATES: dict[str, Any] = {
    "id >= 0": lambda value: value is not None and value >= 0,
    "id IS NOT NULL": lambda value: value is not None,
    "id IN (1, 2) OR id < 0": lambda value: value is not None and (value in {1, 2} or value < 0),
    "id IS NULL OR region LIKE '%y'": lambda value: value is None,
}
ROWS = st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4)
FILES = st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=3)


@given(FILES, FILES, st.booleans(), st.sampled_from(sorted(PREDICATES)))
@settings(max_examples=examples(60), deadline=None)
def test_i28_rows_are_counted_in_exactly_the_files_that_the_base_does_not_have(
    old: list[tuple[list[int | None], bool]], new: list[tuple[list[int | None], bool]], merged: bool, text: str
) -> None:
    checked = Checked()
    before = [checked.file(*ids, stats=stats) for ids, stats in old]
    checked.table.append(*before)
    base = checked.state()
    added = [checked.file(*ids, stats=stats) for ids, stats in new]
    checked.table.append(*added, *(before[1:] if merged else ()), kept=[] if merged else None)
    broken = sum(not PREDICATES[text](id) for ids, _ in new for id in ids)
    found = checked.problem(text, base)
    assert found is None if not broken else str(found).startswith(f"{broken} rows in "), found
    there = [*old[1:], *new] if merged else [*old, *new]
    rows = [id for ids, _ in there for id in ids]
    assert checked.problem(f"row_count = {len(rows)}") is None
    keys = [id for id in rows if id is not None]
    assert (checked.problem("unique(id)") is None) == (len(keys) == len({*keys}))
    if all(stats for _, stats in there):
        fraction = f"null_fraction(id) <= {(len(rows) - len(keys)) / len(rows)}"
        assert checked.problem(fraction) is None


def test_i28_manifests_that_both_snapshots_have_are_not_read() -> None:
    checked = Checked()
    for _ in range(5):
        checked.table.append(checked.file(-1))
    base = checked.state()
    checked.table.append(checked.file(1))
    requests = checked.table.client.world.storages.requests
    source = checked.source(base)
    requests.clear()
    assert [file.rows() for file in source.added_files()] == [1]
    assert len(requests) == 3, "two lists and a manifest"
    requests.clear()
    assert [file.rows() for file in source.added_files()] == [1] and not requests, "a manifest is read once"


def test_i28_statistics_decide_without_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked()
    checked.rows = ReadBudget(0, small_files=True)
    checked.table.append(checked.file(1, 2))
    assert checked.problem("id > 0") is None
    with pytest.raises(TableError, match="more than 0 bytes"):
        checked.problem("region = 'x'")
    monkeypatch.setattr(table_check, "has_parquet", lambda: False)
    assert checked.problem("id > 0") is None and checked.problem("row_count = 2") is None
    for text in ("region = 'x'", "unique(id)"):
        with pytest.raises(NotEvaluated, match="no files are read here"):
            checked.problem(text)


def test_i28_what_equality_deletes_concern_is_decided_by_statistics_or_not_checked() -> None:
    checked = Checked()
    checked.table.append(checked.file(1, 2), checked.file(3, 4, stats=False))
    checked.table.append(checked.deletes("equality"))
    assert [file.has_deleted_rows for file in checked.source().files()] == [True, True]
    for text, problem in (("id > 0", "equality deletes .*d3.parquet"), ("unique(id)", "equality deletes"),
                          ("row_count > 0", "delete files"), ("null_fraction(id) = 0", "delete files")):  # fmt: skip
        with pytest.raises(NotEvaluated, match=problem):
            checked.problem(text)
    other = Checked()
    other.table.append(other.file(1, 2))
    other.table.append(other.deletes("equality"))
    assert other.problem("id > 0") is None
    other.table.append(other.file(7))
    assert [file.has_deleted_rows for file in other.source().files()] == [False, True]


DELETED = st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=3)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=5, max_size=5), min_size=1, max_size=3), DELETED)
@settings(max_examples=examples(60), deadline=None)
def test_i28_rows_that_position_deletes_name_are_left_out(files: list[list[int]], deleted: list[set[int]]) -> None:
    checked = Checked()
    base = checked.state()
    added = [checked.file(*ids, stats=False) for ids in files]
    checked.table.append(*added)
    paths = [file.file_path for file in added]
    for rows in deleted:
        checked.table.append(checked.positions({paths[0]: sorted(rows), "elsewhere": [0]}))
        checked.table.append(checked.positions({paths[-1]: [4]}))
    gone = {(0, row) for rows in deleted for row in rows} | {(len(files) - 1, 4)}
    left = [id for at, ids in enumerate(files) for row, id in enumerate(ids) if (at, row) not in gone]
    broken = sum(id < 0 for id in left)
    found = checked.problem("id >= 0", base)
    assert found is None if not broken else str(found).startswith(f"{broken} rows in "), found
    assert (checked.problem("unique(id)") is None) == (len(left) == len({*left}))


@pytest.mark.parametrize(
    ("rows", "more", "problem"),
    [
        (None, {}, "it is gone"),
        (None, {"file_format": FileFormat.AVRO}, "d2.parquet' are no Parquet file"),
        ({"file_path": ["a"]}, {}, "lack a column"),
        ({"file_path": ["a"], "pos": [-1]}, {}, "a position that is none"),
        ({"file_path": ["a"], "pos": pa.array([None], pa.int64())}, {}, "a position that is none"),
    ],
)
def test_i28_position_deletes_that_are_not_read_here_leave_their_files_unchecked(
    rows: dict[str, Any] | None, more: dict[str, Any], problem: str
) -> None:
    checked = Checked()
    checked.table.append(checked.file(1, stats=False))
    checked.table.append(checked.deletes("position", rows=rows, **more))
    with pytest.raises((NotEvaluated, TableError), match=problem):
        checked.problem("id > 0")


def test_i28_position_deletes_are_read_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_rows, "POSITIONS_MAX", 3)
    checked = Checked()
    file = checked.file(-1, 2, stats=False)
    checked.table.append(file)
    checked.table.append(checked.positions({file.file_path: [0], "elsewhere": [0, 1]}))
    assert checked.problem("id > 0") is None
    checked.table.append(checked.positions({"elsewhere": [2]}))
    with pytest.raises(NotEvaluated, match="more than 3 position deletes"):
        checked.problem("id > 0")


def test_i28_a_file_of_deletes_is_read_once_and_within_the_bound_of_the_promotion() -> None:
    checked = Checked()
    first, second = (checked.file(1, -1, stats=False) for _ in range(2))
    checked.table.append(first, second)
    checked.table.append(checked.positions({first.file_path: [1], second.file_path: [1]}))
    requests = checked.table.client.world.storages.requests
    requests.clear()
    assert checked.problem("id > 0") is None
    assert len(requests) == 6, "a list, two manifests, two data files, a file of deletes"
    checked.rows = ReadBudget(1_000, small_files=True)
    with pytest.raises(TableError, match="more than 1000 bytes"):
        checked.problem("id > 0")


def vector(rows: list[int], **members: Any) -> tuple[ContentFile, bytes]:
    """A deletion vector in a Puffin file after four other bytes, and the content of the file."""
    bitmap = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
    blob = struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    record = {
        manifests.FILE_PATH: "file:///lake/t/data/v.puffin", manifests.FILE_FORMAT: "PUFFIN",
        manifests.FILE_CONTENT: manifests.POSITION_DELETES, manifests.RECORD_COUNT: len(rows),
        manifests.REFERENCED_FILE: "a", manifests.CONTENT_OFFSET: 4, manifests.CONTENT_BYTES: len(blob),
    }  # fmt: skip
    return ContentFile(record | {getattr(manifests, name): value for name, value in members.items()}, 0, 1, 1), blob


def read_vector(delete: ContentFile, blob: bytes) -> list[int]:
    checked = Checked()
    checked.table.files["file:///lake/t/data/v.puffin"] = (b"PFA1" + blob + b"footer", 0)
    files = TableFiles(checked.table.client.world.storages, "file:///lake/t", ReadBudget(10**6))
    return list(deleted_rows.DeletedRows(files).of("a", [delete]))


def test_i28_rows_of_a_deletion_vector_are_left_out() -> None:
    assert read_vector(*vector([0, 7, 2**33])) == [0, 7, 2**33]
    for members, problem in (
        ({"CONTENT_OFFSET": None}, "place of the deletion vector"),
        ({"CONTENT_OFFSET": -1}, "place of the deletion vector"),
        ({"CONTENT_BYTES": None}, "place of the deletion vector"),
        ({"CONTENT_OFFSET": 0}, "size or checksum"),
        ({"CONTENT_BYTES": 8}, "place of the deletion vector"),
        ({"CONTENT_BYTES": 10**7}, "more than 1000000 bytes"),
        ({"CONTENT_OFFSET": 5}, "size or checksum"),
        ({"RECORD_COUNT": 2}, "has 3 rows"),
    ):
        with pytest.raises((NotEvaluated, TableError), match=problem):
            read_vector(*vector([0, 7, 9], **members))
    damaged = struct.pack("<i", 1681511377) + b"x" * 20
    blob = struct.pack(">i", len(damaged)) + damaged + struct.pack(">I", zlib.crc32(damaged))
    with pytest.raises(NotEvaluated, match="is damaged"):
        read_vector(vector([0], CONTENT_BYTES=len(blob))[0], blob)


def test_a_deletion_vector_says_how_many_rows_are_left() -> None:
    checked = Checked()
    checked.table.append(checked.file(1, 2, 3), checked.file(4, None))
    source = checked.source()
    first, second = (file.file for file in source.files())
    columns = current_columns(checked.state())
    with_vector = source_module.IcebergFile(first, columns, PartitionSpec(()), [vector([0, 1])[0]])
    column = source.columns.find_column("id")
    assert (with_vector.rows(), with_vector.nulls(column)) == (1, 0)
    with pytest.raises(NotEvaluated, match="how many nulls"):
        source_module.IcebergFile(second, columns, PartitionSpec(()), [vector([0])[0]]).nulls(column)


def test_the_newest_value_is_that_of_statistics_and_not_of_a_partition() -> None:
    now_ms = 10 * 24 * 3_600_000
    checked = Checked()
    checked.table.append(checked.file(1, at_us=now_ms * 1000 - HOUR_US), checked.file(2, at_us=0))
    assert checked.problem("freshness(at) < interval 2 hours", now_ms=now_ms) is None
    assert "is 3600 s old" in str(checked.problem("freshness(at) < interval 1 hour", now_ms=now_ms))
    with pytest.raises(InvalidRequest, match="another type"):
        checked.problem("freshness(id) < interval 1 hour")
    by_day = Checked(by_day=True)
    by_day.table.append(by_day.file(1, partition=Record(9)))
    with pytest.raises(NotEvaluated, match="which value is its newest"):
        by_day.problem("freshness(at) < interval 1 day", now_ms=now_ms)
    empty = Checked()
    empty.table.append(empty.file())
    assert empty.problem("freshness(at) < interval 1 day") == "at has no value"
    assert empty.problem("id > 5") is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"field_ids": False}, "columns without ids of fields"),
        ({"file_format": FileFormat.ORC}, "is no Parquet file"),
        ({"file_path": "file:///elsewhere/1.parquet"}, "outside of the table's folder"),
        ({"file_path": "gone"}, "outside of the table's folder|it is gone"),
    ],
)
def test_i28_a_file_that_is_not_read_here_is_not_checked(more: dict[str, Any], problem: str) -> None:
    checked = Checked()
    checked.table.append(checked.file(1, stats=False, **more))
    with pytest.raises((NotEvaluated, TableError), match=problem):
        checked.problem("id > 0")


def test_i28_manifests_are_read_up_to_bounds_and_damage_is_not_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Checked()
    checked.table.append(checked.file(1), checked.file(2))
    checked.manifests = ReadBudget(100)
    with pytest.raises(TableError, match="more than 100 bytes"):
        checked.problem("id > 0")
    checked.manifests = ReadBudget(10**6)
    monkeypatch.setattr(source_module, "MANIFESTS_MAX", 1)
    with pytest.raises(NotEvaluated, match="more than 1 manifests"):
        checked.problem("id > 0")
    monkeypatch.undo()
    monkeypatch.setattr(source_module, "FILES_MAX", 1)
    with pytest.raises(NotEvaluated, match="more than 1 files"):
        checked.problem("id > 0")
    monkeypatch.undo()
    (manifest,) = (path for path in checked.table.files if path.endswith("-data.avro"))
    checked.table.files[manifest] = (b"Obj", 0)
    with pytest.raises(NotEvaluated, match="is damaged"):
        checked.problem("id > 0")


def test_examples_show_columns_with_values_that_compare() -> None:
    checked = Checked()
    checked.table.append(checked.file(1, -2))
    found = checked.problem("id > 0")
    assert json.loads(str(found).partition("such as ")[2]) == {"id": -2, "region": "x", "at": None}


def test_a_table_without_a_snapshot_has_no_files() -> None:
    checked = Checked()
    assert checked.problem("row_count = 0") is None and checked.problem("id > 5") is None
    base = checked.state()
    checked.table.append(checked.file(1))
    assert str(checked.problem("id > 5", base)).startswith("1 rows in 1 of 1 files")


def test_files_without_values_or_rows_have_no_newest_value() -> None:
    checked = Checked()
    checked.table.append(
        checked.file(stats=False), checked.file(1, null_value_counts={1: 0, 3: 1}), checked.file(1, at_us=HOUR_US)
    )
    assert checked.problem("freshness(at) < interval 2 hours", now_ms=3_600_000) is None
    checked.table.append(checked.file(1))
    with pytest.raises(NotEvaluated, match="which value is its newest"):
        checked.problem("freshness(at) < interval 2 hours")


def test_nulls_are_those_of_statistics_and_not_of_members_of_structs() -> None:
    inside = Field(4, "inside", StructType((Field(5, "n", "int", False),)), False)
    checked = Checked()
    checked.table.append(checked.file(1, null_value_counts={1: 0, 5: 0}))
    assert checked.problem("null_fraction(id) = 0", None, inside) is None
    for column in ("inside.n", "region"):
        with pytest.raises(NotEvaluated, match="how many nulls"):
            checked.problem(f"null_fraction({column}) = 0", None, inside)
    assert "inside" not in checked.source(None, inside).shown_names
    assert "n" not in checked.source(None, inside).shown_names


@pytest.mark.parametrize(
    ("field", "is_read"),
    [
        (Field(7, "late", "int", False), True),
        (Field(7, "late", "int", False, initial_default=3), False),
        (Field(7, "late", StructType((Field(8, "n", "int", False, initial_default=3),)), False), False),
        (Field(7, "late", StructType((Field(8, "n", "int", False),)), False), True),
        (Field(7, "late", "uuid", False), True),
    ],
)
def test_a_column_that_a_file_lacks_is_null_unless_it_has_an_initial_default(field: Field, is_read: bool) -> None:
    checked = Checked()
    checked.table.append(checked.file(1, 2))
    if is_read:
        assert checked.problem("late IS NULL", None, field) is None
        assert str(checked.problem("late IS NOT NULL", None, field)).startswith("2 rows")
    else:
        with pytest.raises(NotEvaluated, match="values of 'late' that are elsewhere"):
            checked.problem("late IS NULL", None, field)
