"""Totals of a table are those of its files one by one, from the index and from the log."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.unit.planning.tables import SMALL, History, field, metadata, vector
from turnstile.delta.core.actions import Add
from turnstile.planning import totals as module
from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.core.roots import columns_of_table
from turnstile.planning.leaves import Leaf, LeafMaker, path_lists
from turnstile.planning.planner import Planner
from turnstile.planning.totals import Totals
from turnstile.planning.upkeep import IndexUpkeep, newest_root


def expected(state: dict[str, dict[str, Any]]) -> tuple[int, ...]:
    adds = list(state.values())
    return (
        len(adds),
        sum(add["size"] for add in adds),
        sum(3 for add in adds if add["stats"] is not None),
        sum(add["stats"] is None for add in adds),
        sum(add["deletionVector"]["cardinality"] for add in adds if "deletionVector" in add),
        len({add["partitionValues"]["day"] for add in adds}),
    )


def counted(history: History, version: int) -> tuple[tuple[int | None, ...], int]:
    seen = Planner(history.world).plan(history.head, version=version, explain=True, limit=1).statistics
    found = (
        seen.total_files,
        seen.total_bytes,
        seen.total_records,
        seen.files_without_records,
        seen.total_deleted_rows,
        seen.total_partitions,
    )
    return found, seen.index_version


@pytest.mark.parametrize("seed", range(examples(3)))
def test_totals_are_those_of_the_files_one_by_one(seed) -> None:
    history = History(100 + seed)
    for _ in range(30):
        history.step()
    latest = history.head.latest
    found, index = counted(history, latest)
    assert (found, index) == (expected(history.states[latest]), -1)
    history.publish()
    IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)
    for _ in range(3):
        history.step()
        found, index = counted(history, history.head.latest)
        assert (found, index) == (expected(history.states[-1]), latest)
    assert expected(history.states[-1])[3] > 0, "some files have no statistics"


@pytest.mark.parametrize("seed", range(examples(3)))
def test_an_index_names_the_totals_of_the_version_at_which_all_leaves_were_looked_at(seed) -> None:
    history = History(200 + seed)
    versions = set[int]()
    for _ in range(25):
        history.step()
        history.publish()
        IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)
        stored = newest_root(history.world, history.head)
        assert stored is not None
        totals = stored.root.totals
        assert totals is not None
        assert msgspec.structs.astuple(totals)[1:] == expected(history.states[totals.version])
        assert totals.version <= stored.root.version
        assert totals.version == stored.root.version or stored.root.deltas, "all leaves were looked at"
        versions.add(totals.version)
    assert len(versions) > 3


def test_rows_that_deletion_vectors_name_are_counted() -> None:
    adds = [
        delta.add("a", deletionVector=vector(1), partitionValues={"day": "1"}),
        delta.add("b", partitionValues={"day": "1"}),
    ]
    assert of(metadata()["metaData"], adds).deleted_rows == 1


def of(table: dict[str, Any], adds: list[dict[str, Any]]) -> Totals:
    schema = TableColumns(table).schema
    leaf = Leaf(LeafMaker(schema, columns_of_table(schema)).table([msgspec.convert(add["add"], Add) for add in adds]))
    totals = Totals()
    totals.add(leaf, leaf.alive(*path_lists(())))
    return totals


def partitioned(*values: tuple[str | None, str | None]) -> Totals:
    fields = [field("x", "string"), field("y", "string")]
    table = {
        **metadata()["metaData"],
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["x", "y"],
    }
    return of(table, [delta.add(f"f{at}", partitionValues={"x": x, "y": y}) for at, (x, y) in enumerate(values)])


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([], 0),
        ([("a", "b"), ("a", "b")], 1),
        ([("a", "b"), ("ab", None)], 2),
        ([("a", None), (None, "a"), (None, None)], 3),
        ([("1:a", "b"), ("1", "1:a1:b")], 2),
        ([("-", "x"), (None, "x")], 2),
    ],
)
def test_partitions_are_distinguished_whatever_is_in_their_values(values, count) -> None:
    assert partitioned(*values).partitions == count


@pytest.mark.parametrize(("most", "count"), [(3, 3), (2, None)])
def test_too_many_partitions_are_not_counted(monkeypatch, most, count) -> None:
    monkeypatch.setattr(module, "MAX_PARTITIONS", most)
    totals = partitioned(("a", "a"), ("b", "b"), ("c", "c"))
    assert (totals.files, totals.partitions) == (3, count)
