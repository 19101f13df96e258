"""The root of a file index: which columns it has bounds of, which of them serve after a change of
the schema, and which earlier roots are kept."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import pytest

from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.core.roots import (
    FORMAT,
    MAX_COLUMNS,
    Earlier,
    IndexedColumn,
    LeafRef,
    Root,
    Sizes,
    cluster_of,
    columns_of_table,
    kept_roots,
    pack_root,
    root_id,
    sort_key,
    unpack_root,
    version_of,
)


def field(name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def columns(fields: list[dict[str, Any]], partitions: list[str]) -> tuple[IndexedColumn, ...]:
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "t", "schemaString": schema, "partitionColumns": partitions, "configuration": {}}
    return columns_of_table(TableColumns(metadata).schema)


INNER = {"type": "struct", "fields": [field("day", "integer"), field("raw", "binary")]}


def test_partition_columns_come_first_and_those_without_an_order_are_left_out() -> None:
    found = columns([field("id", "long"), field("in", INNER), field("raw", "binary"), field("day", "date")], ["day"])
    assert found == (
        IndexedColumn(("day",), "date", partition=True),
        IndexedColumn(("id",), "long", partition=False),
        IndexedColumn(("in", "day"), "integer", partition=False),
    )


def test_a_partition_column_without_an_order_is_indexed() -> None:
    assert columns([field("raw", "binary")], ["raw"]) == (IndexedColumn(("raw",), "binary", partition=True),)


def test_a_field_of_a_struct_that_is_named_as_a_partition_column_is_none() -> None:
    inner = {"type": "struct", "fields": [field("x", "integer")]}
    found = columns([field("day", "integer"), field("other", inner)], ["day"])
    assert [column.partition for column in found] == [True, False]
    nested = columns([field("day", {"type": "struct", "fields": [field("raw", "binary")]})], ["day"])
    assert nested == ()


def test_columns_are_bounded_in_number() -> None:
    found = columns([*(field(f"c{at}", "long") for at in range(MAX_COLUMNS + 5)), field("day", "date")], ["day"])
    assert len(found) == MAX_COLUMNS
    assert found[0].physical == ("day",)
    assert found[-1].physical == (f"c{MAX_COLUMNS - 2}",)


@pytest.mark.parametrize(
    ("physical", "type", "partition", "serves"),
    [
        (("a",), "integer", False, True),
        (("a",), "long", False, True),
        (("a",), "byte", False, True),
        (("a",), "double", False, False),
        (("a",), "integer", True, False),
        (("b",), "integer", False, False),
        (("b",), "integer", True, False),
    ],
)
def test_bounds_serve_the_same_column_and_wider_integers(physical, type, partition, serves) -> None:
    assert IndexedColumn(("a",), "integer", partition=False).serves(physical, type, partition=partition) is serves


def test_bounds_of_what_is_no_integer_serve_their_own_type() -> None:
    kept = IndexedColumn(("a",), "date", partition=False)
    assert kept.serves(("a",), "date", partition=False)
    assert not kept.serves(("a",), "integer", partition=False)
    assert not kept.serves(("a",), "timestamp", partition=False)


def test_leaves_are_sorted_by_partitions_and_one_more_column() -> None:
    found = columns(
        [field("name", "string"), field("on", "boolean"), field("id", "long"), field("day", "date")], ["day"]
    )
    assert [found[at].physical[0] for at in cluster_of(found)] == ["day", "id"]
    assert [found[at].physical[0] for at in cluster_of(found, [("name",)])] == ["day", "name"]
    assert [found[at].physical[0] for at in cluster_of(found, [("gone",)])] == ["day", "id"]


def test_values_that_are_not_known_are_sorted_last() -> None:
    assert sorted([(None, 1), (2, None), (2, 5), (1, 9)], key=sort_key) == [(1, 9), (2, 5), (2, None), (None, 1)]


def root(**more: Any) -> Root:
    leaf = LeafRef("l", 10, b"digest", 2, (1,), ((1, 5, 2),))
    column = IndexedColumn(("id",), "long", partition=False)
    return Root(7, b"stamp", 1, {}, {}, (column,), (0,), (leaf,), (LeafRef("d", 1, b"", 1),), **more)


def test_a_root_is_read_as_it_was_written_and_one_of_another_format_counts_as_missing() -> None:
    assert unpack_root(pack_root(root())) == root()
    assert root().names == {"l", "d"}
    for format in (FORMAT - 1, FORMAT + 1):
        assert unpack_root(pack_root(root(format=format))) is None
    assert unpack_root(b"nothing") is None
    assert unpack_root(zlib.compress(msgspec.msgpack.encode({"version": 1}))) is None


def test_ids_of_roots_are_in_the_order_of_versions_and_unique_by_content() -> None:
    ids = [root_id("t", version, b"payload") for version in (2, 10, 100)]
    assert ids == sorted(ids)
    assert [version_of(id) for id in ids] == [2, 10, 100]
    assert root_id("t", 2, b"other") != ids[0]


def test_changes_that_wait_are_a_share_of_the_files() -> None:
    sizes = Sizes()
    assert sizes.most_pending(0) == sizes.pending
    assert sizes.most_pending(32 * sizes.pending + 32) == sizes.pending + 1


HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NOW_MS = 1_770_000_000_000


def earlier(*ages_ms: int) -> list[Earlier]:
    return [Earlier(at, str(at), NOW_MS - age) for at, age in enumerate(ages_ms)]


@pytest.mark.parametrize(
    ("ages", "kept"),
    [
        ((), []),
        ((30, 20, 10), [0, 1, 2]),
        ((HOUR_MS,), [0]),
        ((HOUR_MS + 2, HOUR_MS + 1), [1]),
        ((HOUR_MS + 1, HOUR_MS), [0, 1]),
        ((24 * HOUR_MS, 24 * HOUR_MS - 1), [1]),
        ((24 * HOUR_MS + 1, 24 * HOUR_MS), [0, 1]),
        ((5 * HOUR_MS + 3, 5 * HOUR_MS + 2, 5 * HOUR_MS + 1), [2]),
        ((3 * DAY_MS, 2 * DAY_MS), [0, 1]),
        ((3 * DAY_MS + 2, 3 * DAY_MS + 1), [1]),
        ((31 * DAY_MS, 30 * DAY_MS), [1]),
        (tuple(range(150, 0, -1)), list(range(50, 150))),
    ],
)
def test_earlier_roots_are_kept_more_thinly_the_older_they_are(ages, kept) -> None:
    assert [root.version for root in kept_roots(earlier(*ages), NOW_MS, 30 * DAY_MS)] == kept
