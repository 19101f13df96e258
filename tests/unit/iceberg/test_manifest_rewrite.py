"""Manifests that a rewrite puts together, and the manifest list of the result. Source: Iceberg's
table specification."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tests.support.iceberg.small_manifests import BY_REGION, SYNC, entry, entry_schema, nullable
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.files.manifest_rewrite import (
    DEFAULT_COUNT,
    DEFAULT_TARGET_BYTES,
    MAX_TARGET_BYTES,
    MIN_COUNT,
    TARGET_BYTES,
    LiveFile,
    Sizes,
    in_order,
    live_file,
    members_of,
    partition_fields,
    rewritten_snapshot,
    summaries,
)
from turnstile.iceberg.core.partition import PartitionField, PartitionSpec
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.store.core.errors import InvalidRequest

SPEC = PartitionSpec((PartitionField(2, "region", "identity", 1000),), 0)
DECIMAL = {"type": "fixed", "size": 4, "name": "d", "logicalType": "decimal", "precision": 9, "scale": 2}


def test_sizes_are_those_of_iceberg_and_bounded() -> None:
    assert Sizes.of({}) == Sizes(DEFAULT_TARGET_BYTES, DEFAULT_COUNT) == Sizes(8_388_608, 100)
    assert Sizes.of({TARGET_BYTES: "7", MIN_COUNT: "3"}) == Sizes(7, 3)
    assert Sizes.of({TARGET_BYTES: str(10**12), MIN_COUNT: "1"}) == Sizes(MAX_TARGET_BYTES, 2)
    for properties in ({TARGET_BYTES: "0"}, {MIN_COUNT: "0"}, {MIN_COUNT: "x"}):
        with pytest.raises(InvalidRequest, match="is no number"):
            Sizes.of(properties)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("string", ["b", None, "a", "ä"], (True, b"a", "ä".encode())),
        ("int", [-2, 300], (False, b"\xfe\xff\xff\xff", b"\x2c\x01\x00\x00")),
        ({"type": "int", "logicalType": "date"}, [1], (False, b"\x01\0\0\0", b"\x01\0\0\0")),
        ("long", [-1, 2], (False, b"\xff" * 8, b"\x02" + bytes(7))),
        ("boolean", [True, False], (False, b"\0", b"\x01")),
        ("boolean", [True, None], (True, b"\x01", b"\x01")),
        ("bytes", [b"\xff", b"\x01"], (False, b"\x01", b"\xff")),
        (DECIMAL, [b"\xff\xff\xff\x7f", b"\0\0\0\x80"], (False, b"\xff\x7f", b"\0\x80")),
        (DECIMAL, [b"\xff\xff\xff\x80", b"\0\0\0\0"], (False, b"\x80", b"\0")),
        ("string", [None, None], (True, None, None)),
    ],
)
def test_bounds_are_in_the_form_of_single_values(kind: Any, values: list[Any], expected: tuple[Any, ...]) -> None:
    (found,) = summaries([(value,) for value in values], [kind]) or [{}]
    assert (found[509], found[510], found[511]) == expected and found[518] is False


@pytest.mark.parametrize(
    "kind",
    [
        "float",
        "double",
        {"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"},
        {"type": "fixed", "size": 2, "name": "f"},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    ],
)
def test_a_type_without_bounds_leaves_all_of_a_manifest_without_them(kind: Any) -> None:
    """A summary without bounds would say that there is no value, and readers would pass the
    manifest over."""
    assert summaries([("a", None)], ["string", kind]) is None
    assert summaries([], []) == []


def test_files_are_sorted_by_partition_and_split_evenly() -> None:
    files = [LiveFile((value,), 1, 1, 1, 1, avro.Encoded(b"")) for value in ("b", None, "a", "b", "c")]
    parts = in_order(files, 2)
    assert [[file.partition[0] for file in part] for part in parts] == [[None, "a"], ["b", "b", "c"]]
    assert in_order(files[:1], 3) == [files[:1]] and in_order([], 1) == []


def without(schema: Any, id: int) -> Any:
    changed = copy.deepcopy(schema)
    changed["fields"] = [field for field in changed["fields"] if field["field-id"] != id]
    return changed


def typed(schema: Any, id: int, kind: Any) -> Any:
    changed = copy.deepcopy(schema)
    next(field for field in changed["fields"] if field["field-id"] == id)["type"] = kind
    return changed


def described(schema: Any, id: int) -> Any:
    changed = copy.deepcopy(schema)
    changed["fields"][-1]["type"] = without(changed["fields"][-1]["type"], id)
    return changed


def test_entries_of_format_2_can_be_written_again() -> None:
    assert partition_fields(BY_REGION, SPEC) == ("string",)
    date = {"type": "int", "logicalType": "date"}
    both = PartitionSpec((*SPEC.fields, PartitionField(3, "day", "day", 1001)), 1)
    assert partition_fields(entry_schema(nullable("r", 1000, "string"), nullable("d", 1001, date)), both) == (
        "string",
        date,
    )
    assert partition_fields(entry_schema(), PartitionSpec((), 0)) == ()
    assert partition_fields(entry_schema({"name": "r", "type": "long", "field-id": 1000}), SPEC) == ("long",)


@pytest.mark.parametrize(
    "schema",
    [
        *(without(BY_REGION, id) for id in (0, 1, 2, 3, 4)),
        typed(BY_REGION, 0, ["null", "int"]),
        *(typed(BY_REGION, id, kind) for id in (1, 3, 4) for kind in ("long", ["long", "null"])),
        typed(BY_REGION, 2, "string"),
        described(BY_REGION, manifests.PARTITION),
        described(BY_REGION, manifests.RECORD_COUNT),
        entry_schema(),
        entry_schema(nullable("region", 1001, "string")),
        entry_schema(nullable("region", 1000, "string"), nullable("day", 1001, "int")),
        {**BY_REGION, "fields": [*BY_REGION["fields"], nullable("new", 9, "long")]},
        {"type": "record", "name": "x"},
        "string",
    ],
)
def test_entries_with_other_members_are_not(schema: Any) -> None:
    assert partition_fields(schema, SPEC) is None


MANIFEST = {manifests.PATH: "m.avro", manifests.ADDED_SNAPSHOT: 9, manifests.SEQUENCE: 8}


def read(record: avro.Record) -> tuple[avro.Record, avro.Encoded]:
    raw = avro.write([record], BY_REGION, {}, SYNC)
    (found,) = avro.with_content(raw, members_of(SPEC), manifests.DATA_FILE)
    return found


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [({}, (9, 8, 8)), ({"snapshot": 1}, (1, 8, 8)), ({"sequence": 0}, (9, 0, 8)), ({"file_sequence": 2}, (9, 8, 2))],
)
def test_added_files_inherit_what_they_do_not_say(numbers: Any, expected: tuple[int, ...]) -> None:
    record, content = read(entry("a", "eu", rows=7, **numbers))
    assert live_file(record, content, MANIFEST, SPEC) == LiveFile(("eu",), *expected, 7, content)


def test_existing_files_say_it_themselves_and_removed_ones_are_no_more() -> None:
    numbers = {"snapshot": 3, "sequence": 2, "file_sequence": 1}
    record, content = read(entry("a", status=manifests.EXISTING, **numbers))
    assert live_file(record, content, MANIFEST, SPEC) == LiveFile((None,), 3, 2, 1, 1, content)
    assert live_file(*read(entry("a", status=manifests.REMOVED)), MANIFEST, SPEC) is None
    for missing in numbers:
        some = {name: number for name, number in numbers.items() if name != missing}
        with pytest.raises(InvalidRequest, match=r"m[.]avro has an entry of status 0"):
            live_file(*read(entry("a", status=manifests.EXISTING, **some)), MANIFEST, SPEC)
    with pytest.raises(InvalidRequest, match="status 3"):
        live_file(*read(entry("a", status=3, **numbers)), MANIFEST, SPEC)


def test_descriptions_are_copied_byte_by_byte() -> None:
    records = [entry(f"data/{number}", "eu") for number in range(3)]
    raw = avro.write(records, BY_REGION, {"format-version": "2"}, SYNC)
    assert avro.header(raw)["format-version"] == b"2"
    assert msgspec.json.decode(avro.header(raw)["avro.schema"]) == BY_REGION
    found = list(avro.with_content(raw, members_of(SPEC), manifests.DATA_FILE))
    again = avro.write([{**record, manifests.DATA_FILE: content} for record, content in found], BY_REGION, {}, SYNC)
    assert avro.read(again) == avro.read(raw)
    with pytest.raises(avro.Unreadable, match="no member 77"):
        list(avro.with_content(raw, members_of(SPEC), 77))
    with pytest.raises(avro.Unreadable, match="magic"):
        avro.header(b"none of this")


def test_the_snapshot_has_the_totals_of_the_one_before_and_is_not_older() -> None:
    summary = {"operation": "append", "added-records": "3", "total-records": "9"}
    current = Snapshot(5, 100, 4, 5, "l5", summary=summary)
    counts = {"created": 1, "kept": 2, "gone": 3, "entries": 4}
    for now_ms, at_ms in ((50, 100), (150, 150)):
        found = rewritten_snapshot(
            current, snapshot_id=6, sequence=7, manifest_list="l6", now_ms=now_ms, schema_id=2, **counts
        )  # fmt: skip
        expected = {
            "manifests-created": "1",
            "manifests-kept": "2",
            "manifests-replaced": "3",
            "entries-processed": "4",
        }
        expected |= {"operation": "replace", "total-records": "9"}
        assert found == Snapshot(6, at_ms, 5, 7, "l6", summary=expected, schema_id=2)
