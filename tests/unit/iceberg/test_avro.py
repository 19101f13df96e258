"""Manifest lists and manifests as PyIceberg writes and reads them; and bytes that nobody wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from tests.support.iceberg.manifests import Lake
from turnstile.iceberg.core.files import avro, manifests

SYNC = bytes(range(16))
ENTRY: avro.Record = {
    manifests.PATH: "file:///lake/t/metadata/a.avro",
    501: 7_000,
    manifests.SPEC_ID: 0,
    manifests.CONTENT: 0,
    manifests.SEQUENCE: 1,
    manifests.MIN_SEQUENCE: 1,
    manifests.ADDED_SNAPSHOT: 2**62,
    504: 1,
    505: 0,
    506: 0,
    512: 3,
    513: 0,
    514: 0,
    507: [{509: True, 518: None, 510: b"\x00\xff", 511: b""}],
    519: None,
}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_what_pyiceberg_writes_is_read(tmp_path: Path, codec: Any) -> None:
    lake = Lake(tmp_path, codec)
    snapshot = lake.append(1, None, 1, files=2)
    (entry,) = avro.read(lake.bytes(snapshot.manifest_list))
    assert (entry[manifests.ADDED_SNAPSHOT], entry[manifests.SEQUENCE], entry[504], entry[505]) == (1, 1, 2, 0)
    files = avro.read(lake.bytes(entry[manifests.PATH]))
    assert [one[manifests.STATUS] for one in files] == [1, 1] and {one[manifests.ENTRY_SEQUENCE] for one in files} == {
        None
    }


def test_what_is_written_pyiceberg_reads_and_so_do_we(tmp_path: Path) -> None:
    raw = avro.write(
        [ENTRY, {**ENTRY, 507: None, manifests.ADDED_SNAPSHOT: -5}], manifests.SCHEMA, {"snapshot-id": "1"}, SYNC
    )
    assert avro.read(raw) == [ENTRY, {**ENTRY, 507: None, manifests.ADDED_SNAPSHOT: -5}]
    file = tmp_path / "list.avro"
    file.write_bytes(raw)
    first, second = read_manifest_list(PyArrowFileIO().new_input(f"file://{file}"))
    assert (
        first.manifest_path == ENTRY[manifests.PATH]
        and first.added_snapshot_id == 2**62
        and first.added_rows_count == 3
    )
    assert first.partitions is not None and first.partitions[0].lower_bound == b"\x00\xff"
    assert second.added_snapshot_id == -5 and second.partitions is None


@given(st.binary(max_size=300))
def test_bytes_from_no_writer_are_refused_and_nothing_else_happens(raw: bytes) -> None:
    for given_bytes in (raw, avro.MAGIC + raw):
        with pytest.raises(avro.Unreadable):
            avro.read(given_bytes)


GOOD = avro.write([ENTRY], manifests.SCHEMA, {}, SYNC)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_changes_a_value_and_no_more(at: int, byte: int) -> None:
    try:
        found = avro.read(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    except avro.Unreadable:
        return
    assert len(found) <= 1


@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_was_cut_off_is_refused(length: int) -> None:
    if length == GOOD.index(SYNC) + 16:
        assert avro.read(GOOD[:length]) == []  # a header alone is a file without records
        return
    with pytest.raises(avro.Unreadable):
        avro.read(GOOD[:length])


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = avro.write([{**ENTRY, manifests.PATH: "x" * 100_000}], manifests.SCHEMA, {}, SYNC)
    assert len(large) < 2_000
    monkeypatch.setattr(avro, "MAX_CONTENT", 50_000)
    with pytest.raises(avro.Unreadable, match="more than"):
        avro.read(large)


@pytest.mark.parametrize("items", ["null", {"type": "fixed", "size": 0}, {"type": "record", "fields": []}])
def test_items_that_take_no_bytes_are_counted(items: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes say that 2**60 of them follow."""
    schema = {"type": "record", "fields": [{"name": "a", "type": {"type": "array", "items": items}, "field-id": 1}]}
    claimed = avro._long(2**60) + avro._long(0)
    header = {"avro.schema": msgspec.json.encode(schema).decode()}
    raw = avro.MAGIC + avro._long(len(header))
    for name, text in header.items():
        raw += avro._bytes(name.encode()) + avro._bytes(text.encode())
    raw += avro._long(0) + SYNC + avro._long(1) + avro._bytes(claimed) + SYNC
    monkeypatch.setattr(avro, "MAX_VALUES", 1_000)
    with pytest.raises(avro.Unreadable, match="values"):
        avro.read(raw)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_selected_members_are_those_that_are_read(tmp_path: Path, codec: Any) -> None:
    lake = Lake(tmp_path, codec)
    snapshot = lake.append(1, None, 1, files=50)
    raw = lake.bytes(snapshot.manifest_list)
    (whole,) = avro.read(raw)
    assert list(avro.select(raw, {manifests.PATH, 507})) == [{manifests.PATH: whole[manifests.PATH], 507: whole[507]}]
    raw = lake.bytes(whole[manifests.PATH])
    paths = [{0: one[0], 2: {100: one[2][100]}} for one in avro.read(raw)]
    assert len(paths) == 50 and list(avro.select(raw, {0, 2, 100})) == paths
    for end in range(0, len(raw), 97):
        try:
            found = list(avro.select(raw[:end], {0}))
        except avro.Unreadable:
            continue
        assert len(found) < 50, "cut off between two blocks"


def test_selecting_from_a_block_of_values_without_bytes_ends() -> None:
    nothing = {"type": "record", "name": "n", "fields": []}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "field-id": 1, "type": {"type": "array", "items": nothing}}],
    }
    header = {"avro.schema": msgspec.json.encode(schema).decode()}
    block = avro._long(2**40) + avro._long(0)
    raw = avro.MAGIC + avro._long(1)
    raw += avro._bytes(b"avro.schema") + avro._bytes(header["avro.schema"].encode()) + avro._long(0) + SYNC
    raw += avro._long(1) + avro._bytes(block) + SYNC
    with pytest.raises(avro.Unreadable, match="values"):
        list(avro.select(raw, set()))
