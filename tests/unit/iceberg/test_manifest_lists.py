"""Manifest lists as encoded records: an append adds its entries in front, and others are recognised
by their bytes (I2, I9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from tests.support.examples import examples
from tests.support.iceberg.manifests import Lake
from turnstile.iceberg.core.files import avro, manifest_lists, manifests
from turnstile.iceberg.core.files.manifest_lists import MOST_BLOCKS, ManifestList, new_entries, of_block, parse

SYNC = b"s" * 16
HEADER = {"format-version": "2"}
EMPTY = of_block(avro.Block(0, b""))


def entry(number: int, **more: Any) -> avro.Record:
    made: avro.Record = dict.fromkeys(manifests.REQUIRED, 0)
    return made | {manifests.PATH: f"file:///t/metadata/m{number}.avro", manifests.SEQUENCE: number}


def paths(listed: list[avro.Record]) -> list[str]:
    return [one[manifests.PATH] for one in listed]


@settings(max_examples=examples(60))
@given(st.lists(st.integers(1, 3), max_size=3 * MOST_BLOCKS))
def test_i9_a_list_that_grew_append_by_append_has_all_entries_the_newest_first(sizes: list[int]) -> None:
    listed = EMPTY
    expected = list[avro.Record]()
    number = 0
    for size in sizes:
        entries = [entry(number + n) for n in range(size)]
        number += size
        before = listed
        listed = listed.after(entries)
        expected = [*entries, *expected]
        assert len(listed.parts) <= MOST_BLOCKS
        file = listed.file(HEADER, SYNC)
        assert paths(avro.read(file)) == paths(expected) == paths(listed.entries())
        assert new_entries(file, before) == avro.read(file)[:size]
        assert parse(file).block == listed.block


def test_i9_pyiceberg_reads_a_list_of_many_blocks(tmp_path: Path) -> None:
    listed = EMPTY
    for number in range(MOST_BLOCKS + 3):
        listed = listed.after([entry(number)])
    path = tmp_path / "list.avro"
    path.write_bytes(listed.file(HEADER, SYNC))
    read = read_manifest_list(PyArrowFileIO().new_input(f"file://{path}"))
    assert [one.manifest_path for one in read] == paths(listed.entries())


def test_a_list_of_pyiceberg_has_the_bytes_of_ours_and_its_new_entries_are_found(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.append(1, None, 1, manifests=[lake.manifest(1), lake.manifest(1)])
    second = lake.append(2, first, 2, manifests=[lake.manifest(2), lake.manifest(2)])
    found = new_entries(lake.bytes(second.manifest_list), parse(lake.bytes(first.manifest_list)))
    assert found is not None
    assert paths(found) == [one.manifest_path for one in lake.read(second.manifest_list)[:2]]
    assert [one[manifests.ADDED_SNAPSHOT] for one in found] == [2, 2]


def test_a_file_has_few_blocks_however_often_its_list_grew() -> None:
    listed = EMPTY
    most = 0
    for number in range(3 * MOST_BLOCKS):
        listed = listed.after([entry(number)])
        most = max(most, len(listed.parts))
    assert most == MOST_BLOCKS


def test_names_and_comments_of_a_schema_say_nothing_about_its_bytes() -> None:
    schema: Any = msgspec.json.decode(msgspec.json.encode(manifests.SCHEMA))
    partitions = next(field for field in schema["fields"] if field["field-id"] == manifests.PARTITIONS)
    partitions["type"][1]["items"] |= {"name": "summary", "doc": "of the values"}
    file = avro.write([entry(1)], schema, HEADER, SYNC)
    assert new_entries(file, None) == avro.read(file)


def test_the_first_list_of_a_table_adds_all_its_entries() -> None:
    file = EMPTY.after([entry(1), entry(2)]).file(HEADER, SYNC)
    assert new_entries(file, None) == avro.read(file)


@pytest.mark.parametrize("change", ["another order", "one is missing", "one is another", "behind them"])
def test_i9_a_list_without_the_bytes_of_its_parent_is_not_recognised(change: str) -> None:
    before = EMPTY.after([entry(1), entry(2)])
    others = {
        "another order": [entry(3), entry(2), entry(1)],
        "one is missing": [entry(3), entry(2)],
        "one is another": [entry(3), entry(1), entry(9)],
        "behind them": [entry(1), entry(2), entry(3)],
    }[change]
    assert new_entries(EMPTY.after(others).file(HEADER, SYNC), before) is None


def test_i9_bytes_of_the_parent_that_are_no_entries_are_not_recognised() -> None:
    """The count of a file is its writer's: fewer entries than the parent has cannot contain
    them."""
    before = EMPTY.after([entry(1), entry(2)])
    claimed = ManifestList(avro.Block(1, before.block.content), (avro.pack(avro.Block(1, before.block.content)),))
    assert new_entries(claimed.file(HEADER, SYNC), before) is None


def test_a_list_whose_schema_has_another_order_is_read_and_encoded_by_ours() -> None:
    turned = {**manifests.SCHEMA, "fields": [*manifests.SCHEMA["fields"][::-1]]}
    file = avro.write([entry(1), entry(2)], turned, HEADER, SYNC)
    assert new_entries(file, None) is None
    assert parse(file).block == EMPTY.after([entry(1), entry(2)]).block


@pytest.mark.parametrize("missing", [True, False])
def test_i9_entries_of_other_members_are_refused(missing: bool) -> None:
    fields = manifests.SCHEMA["fields"]
    more = {"name": "first_row_id", "type": "long", "field-id": manifests.LIST_FIRST_ROW_ID}
    schema = {**manifests.SCHEMA, "fields": fields[1:] if missing else [*fields, more]}
    file = avro.write([entry(1) | {manifests.LIST_FIRST_ROW_ID: 1}], schema, HEADER, SYNC)
    with pytest.raises(manifest_lists.Unlisted):
        parse(file)


@pytest.mark.parametrize("cut", [1, 16, 17, 30])
def test_a_file_that_is_cut_off_is_unreadable(cut: int) -> None:
    file = EMPTY.after([entry(1)]).after([entry(2)]).file(HEADER, SYNC)[:-cut]
    with pytest.raises(avro.Unreadable):
        parse(file)
    with pytest.raises(avro.Unreadable):
        new_entries(file, None)


def test_a_block_that_claims_more_entries_than_it_has_is_unreadable() -> None:
    block = EMPTY.after([entry(1)]).block
    for count in (0, 2, -1, len(block.content) + 1):
        file = avro.file([avro.pack(avro.Block(count, block.content))], manifests.SCHEMA, HEADER, SYNC)
        with pytest.raises(avro.Unreadable):
            parse(file)
