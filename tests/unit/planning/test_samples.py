"""A sample is rows of the table, whatever its files look like, and of no file outside of it; it
reads no more than it has to."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.delta_table import Table, inline_vector, vector_data, vector_file
from tests.support.examples import examples
from tests.support.fakes.rows import column, parquet_body, struct_of
from tests.support.fakes.world import fake_world
from turnstile.delta.core.actions import DeletionVector
from turnstile.planning import file_rows
from turnstile.planning import sample as module
from turnstile.planning.core.plans import Plan, PlannedFile, PlanStatistics, TableSample
from turnstile.planning.sample import Sampler
from turnstile.store.core.errors import Throttled, UnsupportedTable

ID: Final = column("id", "long")


class Lake:
    """A table with data files, and a planner that plans all of them."""

    def __init__(self, *columns: dict[str, Any], features: tuple[str, ...] = (), **configuration: str) -> None:
        self.table = Table(fake_world())
        self.world = self.table.world
        self.files: list[PlannedFile] = []
        self.more = False
        schema = json.dumps({"type": "struct", "fields": list(columns or (ID,))})
        self.metadata = {"schemaString": schema, "partitionColumns": [], "configuration": configuration}
        self.protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(features)}
        self.sampler = Sampler(self.world, self)

    def plan(self, *_given: Any, **_named: Any) -> Plan:
        statistics = PlanStatistics(len(self.files), 1)
        return Plan(7, self.files, statistics, "more" if self.more else None, self.protocol, self.metadata)

    def plan_appends(self, *_given: Any, **_named: Any) -> Plan:
        raise NotImplementedError

    def put(self, path: str, content: bytes, at: str | None = None) -> None:
        self.world.storages.open(at or self.table.location).put_if_absent(path, content)

    def add(
        self, rows: pa.Table, path: str = "", *, named: str = "", deleted: Iterable[int] = (), **options: Any
    ) -> None:
        content = parquet_body(rows, **options)
        place = path or f"{len(self.files)}.parquet"
        self.put(place, content)
        vector = DeletionVector(**inline_vector({*deleted})) if deleted else None
        self.files.append(PlannedFile(named or place, len(content), {}, 1, deletion_vector=vector))

    def sample(self, limit: int = 20, principal: str = "ann") -> TableSample:
        return self.sampler.sample(self.table.head, principal, limit=limit)


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def shown(sample: TableSample) -> list[int]:
    return [row["id"] for row in sample.rows]


@given(
    files=st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=8), max_size=5),
    limit=st.integers(1, 12),
)
@settings(max_examples=examples(80))
def test_a_sample_is_the_first_rows_and_says_whether_there_are_more(
    files: list[list[tuple[int, bool]]], limit: int
) -> None:
    lake = Lake()
    for rows in files:
        deleted = [at for at, (_, is_deleted) in enumerate(rows) if is_deleted]
        lake.add(ids(*(id for id, _ in rows)), deleted=deleted, row_group_size=3)
    there = [id for rows in files for id, is_deleted in rows if not is_deleted]
    found = lake.sample(limit)
    assert (shown(found), found.complete, found.version) == (there[:limit], len(there) <= limit, 7)


def test_a_page_of_files_that_others_follow_is_not_complete() -> None:
    lake = Lake()
    lake.add(ids(1))
    lake.more = True
    assert not lake.sample().complete


def test_partition_values_are_those_of_the_log() -> None:
    lake = Lake(ID, column("day", "date"), column("part", "integer"))
    lake.metadata["partitionColumns"] = ["day", "part"]
    lake.add(ids(1))
    (file,) = lake.files
    lake.files = [PlannedFile(file.path, file.size, {"day": "2026-01-31", "part": None}, 1)]
    assert lake.sample().rows == [{"id": 1, "day": "2026-01-31", "part": None}]


def mapped(name: str, physical: str, type: Any, id: int) -> dict[str, Any]:
    metadata = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": id}
    return {**column(name, type), "metadata": metadata}


def test_columns_have_the_names_of_the_table_also_in_structs_and_others_are_null() -> None:
    place = struct_of(mapped("lat", "c3", "double", 3))
    columns = mapped("id", "c1", "long", 1), mapped("place", "c2", place, 2), mapped("new", "c4", "string", 4)
    lake = Lake(*columns, features=("columnMapping",), **{"delta.columnMapping.mode": "name"})
    lake.add(pa.table({"c1": pa.array([1], pa.int64()), "c2": [{"c3": 0.5}]}))
    assert lake.sample().rows == [{"id": 1, "place": {"lat": 0.5}, "new": None}]


def test_only_the_first_hundred_columns_are_shown() -> None:
    lake = Lake(*(column(f"c{at}", "long") for at in range(103)))
    lake.add(pa.table({f"c{at}": [at] for at in range(103)}))
    found = lake.sample()
    assert (len(found.columns), found.columns_left_out, found.rows[0]["c99"]) == (100, 3, 99)
    assert len(found.rows[0]) == 100


@pytest.mark.parametrize("spelled", ["a b/x%251.parquet", "{}/a b/x%251.parquet", "{}/a%20b/x%251.parquet"])
def test_files_are_named_by_a_path_or_by_an_uri_below_the_table(spelled: str) -> None:
    lake = Lake()
    lake.add(ids(1), "a b/x%1.parquet", named=spelled.format(lake.table.location))
    assert shown(lake.sample()) == [1]


def test_a_file_that_is_not_below_the_table_is_not_read() -> None:
    lake = Lake()
    secret = f"{lake.table.location}-secret"
    lake.put("x.parquet", b"PAR1", at=secret)
    for path in (
        f"{secret}/x.parquet",
        "s3://other/x.parquet",
        f"{lake.table.location}/../{lake.table.id}-secret/x.parquet",
        f"../{lake.table.id}-secret/x.parquet",
        f"%2e%2e/{lake.table.id}-secret/x.parquet",
    ):
        lake.files = [PlannedFile(path, 4, {}, 1)]
        lake.world.storages.requests.clear()
        with pytest.raises(UnsupportedTable, match="outside of the table"):
            lake.sample()
        assert "read" not in lake.world.storages.requests


def test_a_deletion_vector_that_is_not_below_the_table_is_not_read() -> None:
    lake = Lake()
    lake.add(ids(1, 2))
    vector = DeletionVector("p", "file:///elsewhere/v.bin", 10, 1, 1)
    lake.files = [PlannedFile(lake.files[0].path, lake.files[0].size, {}, 1, deletion_vector=vector)]
    with pytest.raises(UnsupportedTable, match="outside of the table"):
        lake.sample()


def test_a_deletion_vector_in_a_file_is_applied_and_a_damaged_one_shows_nothing() -> None:
    lake = Lake()
    lake.add(ids(1, 2, 3))
    data = vector_data({1})
    stored = b"\x01" + vector_file(data)
    lake.put("v.bin", stored)
    vector = DeletionVector("p", f"{lake.table.location}/v.bin", len(data), 1, 1)
    file = lake.files[0]
    lake.files = [PlannedFile(file.path, file.size, {}, 1, deletion_vector=vector)]
    assert shown(lake.sample()) == [1, 3]
    lake.world.storages.files[f"{lake.table.location}/v.bin"] = (stored[:-1] + b"\0", 1)
    with pytest.raises(UnsupportedTable, match="size or checksum"):
        lake.sample()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "it is gone"), (b"", "cannot be read"), (b"PAR1 and no more PAR1", "cannot be read")],
)
def test_a_file_that_is_gone_or_damaged_is_named(content: bytes | None, problem: str) -> None:
    lake = Lake()
    if content is not None:
        lake.put("x.parquet", content)
    lake.files = [PlannedFile("x.parquet", 4, {}, 1)]
    with pytest.raises(UnsupportedTable, match=rf"x\.parquet.*{problem}"):
        lake.sample()


def test_a_file_with_a_column_of_another_type_is_named() -> None:
    lake = Lake()
    lake.add(pa.table({"id": ["a"]}))
    with pytest.raises(UnsupportedTable, match="0\\.parquet"):
        lake.sample()


def test_a_table_with_an_unknown_feature_or_type_is_refused_by_its_name() -> None:
    with pytest.raises(UnsupportedTable, match="variantType"):
        Lake(features=("variantType",)).sample()
    with pytest.raises(UnsupportedTable, match="'v'"):
        Lake(column("v", "variant")).sample()


def noise(rows: int, width: int) -> pa.Table:
    """Rows whose texts cannot be compressed."""
    numbers = random.Random(1)
    return pa.table({"id": range(rows), "text": [numbers.randbytes(width // 2).hex() for _ in range(rows)]})


def test_a_small_file_is_one_request_and_of_a_large_one_only_the_beginning_is_read(monkeypatch: Any) -> None:
    lake = Lake(ID, column("text", "string"))
    monkeypatch.setattr(file_rows, "_WHOLE_BYTES", 64 * 1024)
    monkeypatch.setattr(file_rows, "_PIECE_BYTES", 16 * 1024)
    monkeypatch.setattr(module, "READ_BYTES", 256 * 1024)
    lake.add(noise(100, 100))
    lake.world.storages.requests.clear()
    assert shown(lake.sample(3)) == [0, 1, 2]
    assert lake.world.storages.requests.count("read") == 1
    lake.files.clear()
    lake.add(noise(20_000, 100), "large.parquet", use_dictionary=False, data_page_size=8 * 1024)
    assert lake.files[0].size > 1024 * 1024
    lake.world.storages.requests.clear()
    assert shown(lake.sample(3)) == [0, 1, 2]
    assert lake.world.storages.requests.count("read") <= 8


def test_a_file_of_which_too_much_would_be_read_is_refused(monkeypatch: Any) -> None:
    lake = Lake(ID, column("text", "string"))
    monkeypatch.setattr(file_rows, "_WHOLE_BYTES", 64 * 1024)
    monkeypatch.setattr(module, "READ_BYTES", 256 * 1024)
    lake.add(noise(20, 100_000), use_dictionary=False)
    with pytest.raises(UnsupportedTable, match="more than 262144 bytes would be read"):
        lake.sample(20)


def test_only_values_of_rows_that_are_shown_count_as_cut() -> None:
    lake = Lake(ID, column("text", "string"))
    lake.add(pa.table({"id": range(3), "text": ["short", "x" * 5_000, "x" * 5_000]}))
    assert [lake.sample(limit).cut for limit in (1, 2, 3)] == [0, 1, 2]


def test_an_answer_ends_with_the_row_that_makes_it_large(monkeypatch: Any) -> None:
    lake = Lake(ID, column("text", "string"))
    monkeypatch.setattr(module, "ANSWER_BYTES", 2_000)
    lake.add(pa.table({"id": range(10), "text": ["x" * 900] * 10}))
    found = lake.sample()
    assert (shown(found), found.complete) == ([0, 1, 2], False)


@pytest.mark.parametrize(("reading", "refused"), [(["ann"] * 2, "ann"), (["ann", "ann", "bob", "bob"], "eve")])
def test_a_principal_has_two_samples_at_once_and_all_have_four(reading: list[str], refused: str) -> None:
    lake = Lake()
    lake.add(ids(1))
    others = list(reading)

    def plan(*_given: Any, **_named: Any) -> Plan:
        """Plans after the samples of all others have begun."""
        if others:
            lake.sample(principal=others.pop())
        elif not lake.more:
            lake.more = True
            with pytest.raises(Throttled, match="as many samples"):
                lake.sample(principal=refused)
        return Lake.plan(lake)

    lake.sampler = Sampler(lake.world, cast("Any", SimpleNamespace(plan=plan)))
    lake.sample(principal=others.pop())
    assert lake.more
    assert shown(lake.sample(principal=refused)) == [1]
