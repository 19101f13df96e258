"""A leaf returns the files of any of its rows as their actions have them."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from tests.support.examples import examples
from turnstile.delta.core.actions import Add, DeletionVector
from turnstile.planning.core.plans import PlannedFile
from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.core.roots import columns_of_table
from turnstile.planning.leaves import Leaf, LeafMaker

DAYS = ("2026-01-01", "2026-01-02", "", None)
NUMBERS = (None, 0, 7, (1 << 53) + 1)


def columns(partitions: list[str]) -> TableColumns:
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("day", "zone", "id")]
    schema = json.dumps({"type": "struct", "fields": fields})
    return TableColumns({"schemaString": schema, "partitionColumns": partitions, "configuration": {}})


def random_add(rng: random.Random, number: int, partitions: list[str], *, whole: bool) -> Add:
    """Returns a file; ``whole``: each member of it has a value."""
    numbers = NUMBERS[1:] if whole else NUMBERS
    days = DAYS[:2] if whole else DAYS
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 1, offset=number)
    return Add(
        path=f"part-{number}.parquet" if whole else f"part-{number}é.parquet",
        partitionValues={name: rng.choice(days) for name in partitions},
        size=rng.choice((0, (1 << 53) + 1)),
        modificationTime=number,
        dataChange=True,
        stats=json.dumps({"numRecords": number}) if whole or rng.random() < 0.5 else None,
        deletionVector=None if rng.random() < 0.5 else vector,
        baseRowId=rng.choice(numbers),
        defaultRowCommitVersion=rng.choice(numbers),
    )


def expected(add: Add, *, stats: bool) -> PlannedFile:
    records = None if add.stats is None else json.loads(add.stats)["numRecords"]
    return PlannedFile(
        add.path,
        add.size,
        add.partitionValues,
        add.modificationTime,
        records,
        add.stats if stats else None,
        add.deletionVector,
        add.baseRowId,
        add.defaultRowCommitVersion,
    )


@pytest.mark.parametrize("whole", [True, False], ids=["no-nulls", "nulls"])
@pytest.mark.parametrize("partitions", [[], ["day"], ["day", "zone"]], ids=len)
@pytest.mark.parametrize("seed", range(examples(5)))
def test_a_leaf_returns_the_files_of_any_rows(seed, partitions, whole) -> None:
    rng = random.Random(seed)
    table = columns(partitions)
    adds = [random_add(rng, number, partitions, whole=whole) for number in range(30)]
    leaf = Leaf(LeafMaker(table.schema, columns_of_table(table.schema)).table(adds))
    for rows in (range(30), [3, 4, 17], [29], []):
        for stats in (True, False):
            found = leaf.planned_files(pa.array(rows, pa.int64()), stats=stats)
            assert found == [expected(adds[row], stats=stats) for row in rows]
            assert [kinds(file) for file in found] == [kinds(expected(adds[row], stats=stats)) for row in rows]


def kinds(file: PlannedFile) -> list[Any]:
    """The types of a file's members: numbers are no floats, and answers can be encoded."""
    return [type(getattr(file, name)) for name in file.__struct_fields__]


def test_a_leaf_with_removed_rows_returns_the_files_of_the_others() -> None:
    table = columns(["day", "zone"])
    adds = [random_add(random.Random(0), number, ["day", "zone"], whole=True) for number in range(3)]
    rows = LeafMaker(table.schema, columns_of_table(table.schema)).table(adds, [("gone.parquet", "")])
    found = Leaf(rows).planned_files(pa.array([2, 0], pa.int64()), stats=False)
    assert found == [expected(adds[2], stats=False), expected(adds[0], stats=False)]
