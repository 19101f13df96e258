"""Which delete files belong to a data file, what entries inherit, and values of partitions in
JSON."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest

from tests.support.iceberg.scan_metadata import FIELDS, metadata_of
from turnstile.iceberg.core.files import content_files, manifests
from turnstile.iceberg.core.files.content_files import ContentFile, DeleteFiles, FileTasks, files_of, json_value
from turnstile.iceberg.core.partition import PartitionField, PartitionSpec
from turnstile.store.core.errors import TooLarge, UnsupportedTable

M = manifests
METADATA = metadata_of(FIELDS)


def file(path: str, sequence: int, content: int = 0, spec: int = 0, day: int | None = None, **more: Any) -> ContentFile:
    record = {
        M.FILE_PATH: path, M.FILE_CONTENT: content, M.FILE_FORMAT: "PARQUET", M.RECORD_COUNT: 3, M.FILE_BYTES: 9,
        M.PARTITION: {} if day is None else {1000: day},
    }  # fmt: skip
    record |= {getattr(M, name.upper()): value for name, value in more.items()}
    return ContentFile(record, spec, sequence, 1)


def belonging(data: ContentFile, *deletes: ContentFile) -> list[str]:
    found = DeleteFiles(frozenset((0,)))
    for delete in deletes:
        found.add(delete)
    return [each.path for each in found.of(data)]


@pytest.mark.parametrize(("content", "sequences"), [(M.POSITION_DELETES, (5, 6)), (M.EQUALITY_DELETES, (6,))])
def test_sequence_numbers(content: int, sequences: tuple[int, ...]) -> None:
    deletes = [file(f"d{n}", n, content) for n in (4, 5, 6)]
    assert belonging(file("a", 5), *deletes) == [f"d{n}" for n in sequences]


def test_partitions() -> None:
    data = file("a", 1, spec=1, day=7)
    for content in (M.POSITION_DELETES, M.EQUALITY_DELETES):
        deletes = [file("same", 2, content, 1, 7), file("day", 2, content, 1, 8), file("spec", 2, content, 2, 7)]
        assert belonging(data, *deletes) == ["same"]
    assert belonging(data, file("all", 2, M.EQUALITY_DELETES)) == ["all"], "without a partition: of all files"
    assert belonging(data, file("other", 2, M.POSITION_DELETES)) == [], "positions are of one partition"


def test_position_deletes_of_one_file() -> None:
    def bounds(low: str, high: str) -> dict[str, Any]:
        made = {}
        for name, member, path in (("lower_bounds", M.LOWER_BOUNDS, low), ("upper_bounds", M.UPPER_BOUNDS, high)):
            key, value = M.MAP_IDS[member]
            made[name] = [{key: M.DELETED_PATH, value: path.encode()}]
        return made

    named = file("named", 2, M.POSITION_DELETES, referenced_file="a")
    bounded = file("bounded", 2, M.POSITION_DELETES, **bounds("a", "a"))
    wide = file("wide", 2, M.POSITION_DELETES, **bounds("a", "c"))
    assert belonging(file("a", 1), named, bounded, wide) == ["wide", "named", "bounded"]
    assert belonging(file("b", 1), named, bounded, wide) == ["wide"]
    assert belonging(file("a", 3), named) == []


def test_a_deletion_vector_stands_for_all_position_deletes() -> None:
    vector = file("v", 3, M.POSITION_DELETES, referenced_file="a", file_format="PUFFIN", content_offset=4)
    old = file("p", 2, M.POSITION_DELETES)
    equality = file("e", 9, M.EQUALITY_DELETES)
    assert belonging(file("a", 1), vector, old, equality) == ["e", "v"]
    assert belonging(file("b", 1), vector, old, equality) == ["e", "p"]
    assert belonging(file("a", 4), vector, equality) == ["e"]
    for wrong in (vector, file("w", 3, M.POSITION_DELETES, file_format="puffin")):
        with pytest.raises(UnsupportedTable, match="deletion vector"):
            belonging(file("a", 1), vector, wrong)
    with pytest.raises(UnsupportedTable, match="among the delete files"):
        belonging(file("a", 1), file("b", 1))


def test_no_more_delete_files_than_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_files, "MAX_DELETES", 2)
    deletes = [file(f"d{n}", 2, M.POSITION_DELETES) for n in range(3)]
    assert len(belonging(file("a", 1), *deletes[:2])) == 2
    with pytest.raises(TooLarge, match="more than 2 delete files"):
        belonging(file("a", 1), *deletes)


def entry(status: int = M.ADDED, records: int = 3, row_id: int | None = None, **more: Any) -> dict[int, Any]:
    record = {M.FILE_PATH: "f", M.RECORD_COUNT: records, M.FIRST_ROW_ID: row_id}
    return {M.STATUS: status, M.DATA_FILE: record, **{getattr(M, name.upper()): value for name, value in more.items()}}


def test_what_entries_inherit() -> None:
    manifest = {M.SPEC_ID: 4, M.SEQUENCE: 8, M.ADDED_SNAPSHOT: 77, M.LIST_FIRST_ROW_ID: 100}
    listed = [
        entry(), entry(M.REMOVED, 50), entry(M.EXISTING, 5, entry_sequence=2, entry_snapshot=6),
        entry(row_id=9, entry_sequence=0),
        entry(),
    ]  # fmt: skip
    found = [
        each and (each.spec_id, each.sequence, each.snapshot_id, each.first_row_id)
        for each in files_of(manifest, listed)
    ]
    assert found == [(4, 8, 77, 100), None, (4, 2, 6, 103), (4, 0, 77, 9), (4, 8, 77, 108)]
    (plain,) = files_of({}, [entry(M.EXISTING)])
    assert plain is not None and (plain.spec_id, plain.sequence, plain.first_row_id) == (0, 0, None), "of format 1"


@pytest.mark.parametrize(("wrong", "problem"), [
    (entry(M.EXISTING), "no sequence number of 'f'"), ({M.STATUS: M.ADDED}, "without a file"),
    ({M.STATUS: M.ADDED, M.DATA_FILE: {M.FILE_PATH: None}}, "without a file"),
    ({M.STATUS: M.ADDED, M.DATA_FILE: {M.FILE_PATH: "f", M.FILE_KEY_METADATA: b"k"}}, "encrypted"),
])  # fmt: skip
def test_entries_that_cannot_be_planned(wrong: dict[int, Any], problem: str) -> None:
    with pytest.raises(UnsupportedTable, match=problem):
        list(files_of({M.SEQUENCE: 3}, [wrong]))


def test_partition_values_in_json() -> None:
    types = {"n": "long", "b": "boolean", "d": "date", "c": "time", "t": "timestamp", "z": "timestamptz", "u": "uuid",
             "y": "binary",
             "f": "double", "x": "decimal(9, 2)"}  # fmt: skip
    fields = [
        {"id": n, "name": name, "type": kind, "required": False} for n, (name, kind) in enumerate(types.items(), 1)
    ]
    values: list[tuple[int, str, Any, Any]] = [
        (1, "identity", 5, 5), (1, "bucket[4]", 3, 3), (1, "truncate[10]", 20, 20), (1, "void", None, None),
        (2, "identity", True, True), (3, "identity", 1, "1970-01-02"), (3, "day", 1, "1970-01-02"),
        (3, "month", 14, 14),
        (4, "identity", 1_500_000, "00:00:01.500000"), (5, "identity", 1, "1970-01-01T00:00:00.000001"),
        (6, "identity", -1, "1969-12-31T23:59:59.999999+00:00"), (6, "day", 1, "1970-01-02"), (6, "hour", 30, 30),
        (6, "year", -1, -1),
        (7, "identity", uuid.UUID(int=5).bytes, str(uuid.UUID(int=5))), (8, "identity", b"\x0a\xff", "0AFF"),
        (9, "identity", 0.5, 0.5), (10, "identity", b"\x01\x00", "2.56"),
    ]  # fmt: skip
    spec = PartitionSpec(
        tuple(PartitionField(id, f"p{n}", kind, 1000 + n) for n, (id, kind, *_) in enumerate(values)), 0
    )
    metadata = METADATA.__class__(**{
        **{name: getattr(metadata_of(fields), name) for name in METADATA.__struct_fields__}, "partition_specs": (spec,),
    })  # fmt: skip
    data = file("a", 1)
    data.record[M.PARTITION] = {1000 + n: stored for n, (_, _, stored, _) in enumerate(values)}
    (task,) = FileTasks(metadata, True).tasks([data], DeleteFiles(frozenset())).file_scan_tasks
    assert task["data-file"]["partition"] == [shown for *_, shown in values]
    data.record[M.PARTITION] = {1009: float("nan")}
    assert isinstance(task["residual-filter"], bool)


@pytest.mark.parametrize(("type", "value", "shown"), [
    ("timestamp_ns", 1_000_000_001, "1970-01-01T00:00:01.000000001"),
    ("timestamptz_ns", 5, "1970-01-01T00:00:00.000000005+00:00"),
    ("decimal(9,2)", Decimal("1.50"), "1.50"), ("fixed[2]", b"\x01\x02", "0102"), ("int", 4, 4), ("string", "x", "x"),
    ("float", 1, 1.0),
])  # fmt: skip
def test_values_in_json(type: str, value: Any, shown: Any) -> None:
    assert json_value(type, value) == shown


def test_a_partition_that_json_cannot_hold_is_named() -> None:
    for values, spec_id, problem in (({1000: 10**9}, 0, "partition value"), ({}, 3, "partition spec 3")):
        spec = PartitionSpec((PartitionField(3, "p", "day", 1000),), 0)
        metadata = METADATA.__class__(**{
            **{name: getattr(METADATA, name) for name in METADATA.__struct_fields__}, "partition_specs": (spec,),
        })  # fmt: skip
        data = file("a", 1, spec=spec_id)
        data.record[M.PARTITION] = values
        with pytest.raises(UnsupportedTable, match=f"'a' .*{problem}"):
            FileTasks(metadata, True).tasks([data], DeleteFiles(frozenset()))
    with pytest.raises(ValueError, match="nan"):
        json_value("double", float("nan"))
    with pytest.raises(TypeError):
        json_value("variant", 5)


def test_a_delete_file_is_reported_once() -> None:
    deletes = DeleteFiles(frozenset((0,)))
    for each in (file("p", 2, M.POSITION_DELETES), file("e", 2, M.EQUALITY_DELETES, equality_ids=[1])):
        deletes.add(each)
    found = FileTasks(metadata_of(FIELDS), True).tasks([file("a", 1), file("b", 2)], deletes)
    assert [task["delete-file-references"] for task in found.file_scan_tasks] == [[0, 1], [1]]
    assert [each["file-path"] for each in found.delete_files] == ["e", "p"]
    assert found.delete_files[0]["equality-ids"] == [1] and "first-row-id" not in found.delete_files[0]
