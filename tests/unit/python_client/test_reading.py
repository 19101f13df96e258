"""A read returns the same rows for every split of them over files: by values, names, units and
groups of rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.delta_table import inline_vector
from tests.support.examples import examples
from turnstile_client.core.filters import Filter
from turnstile_client.reading import FileReader
from turnstile_client.storage import Storage
from turnstile_rows.definitions import Definition
from turnstile_rows.partitions import partition_text
from turnstile_rows.schemas import delta_schema

SCHEMA: Final = pa.schema([
    ("x", pa.float64()), ("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(38, 2)),
    ("name", pa.string()), ("p", pa.float32()),
])  # fmt: skip
MOMENT: Final = datetime(2026, 11, 1, tzinfo=UTC)
VALUES: Final[dict[str, list[Any]]] = {
    "x": [None, 0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf],
    "id": [None, 0, 1, 2, 2**62],
    "at": [None, MOMENT, MOMENT + timedelta(seconds=1)],
    "price": [None, Decimal("0.00"), Decimal("999999999999999999999999999999999999.99"), Decimal("-1.50")],
    "name": [None, "", "a", "ü", "z" * 100],
    "p": [None, 0.0, 1.0, math.nan],
}
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

Row = dict[str, Any]


def definition(schema: pa.Schema = SCHEMA, partitions: tuple[str, ...] = ("p",)) -> Definition:
    return Definition(tuple(delta_schema(schema)["fields"]), partitions, {}, frozenset(), frozenset())


def sortable(value: Any) -> Any:
    """NaN equals NaN and comes after every other number, as in Spark's SQL."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def holds(condition: tuple[str, str, Any], row: Row) -> bool:
    name, comparison, value = condition
    mine = row[name]
    if comparison in ("in", "not in"):
        found = any(mine is not None and sortable(mine) == sortable(each) for each in value)
        return mine is not None and found is (comparison == "in")
    if value is None:
        return (mine is None) is (comparison == "=")
    return mine is not None and COMPARISONS[comparison](sortable(mine), sortable(value))


def conditions() -> st.SearchStrategy[Any]:
    def of(name: str) -> st.SearchStrategy[Any]:
        values = [value for value in VALUES[name] if value is not None]
        compared = st.tuples(st.just(name), st.sampled_from(sorted(COMPARISONS)), st.sampled_from(values))
        member = st.tuples(
            st.just(name), st.sampled_from(("in", "not in")), st.lists(st.sampled_from(values), min_size=1, max_size=3)
        )
        return st.one_of(compared, member, st.tuples(st.just(name), st.sampled_from(("=", "!=")), st.none()))

    one = st.sampled_from(SCHEMA.names).flatmap(of)
    return st.lists(st.lists(one, min_size=1, max_size=2), min_size=1, max_size=2)


def shown(row: Row) -> str:
    return str([str(row[name]) for name in SCHEMA.names])


class Files:
    """Data files in a folder, each written in one of the ways in which engines write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.storage = Storage(folder.as_uri(), {}, lambda: None)

    def write(self, number: int, table: pa.Table, partition: dict[str, str | None], **options: Any) -> dict[str, Any]:
        path = self._folder / f"{number}.parquet"
        pq.write_table(table, path, **options)
        return {"path": path.as_uri(), "partitionValues": partition, "size": path.stat().st_size}


def stored(rows: list[Row], way: int) -> pa.Table:
    """Returns the rows without the partition column. The names of way 1 are in upper case; the
    times of ways 2 and 3 have another unit."""
    table = pa.Table.from_pylist(rows, SCHEMA).select(SCHEMA.names[:-1])
    if way == 1:
        return table.rename_columns([name.upper() for name in table.column_names])
    if way in UNITS:
        return table.set_column(2, "at", table["at"].cast(pa.timestamp(UNITS[way], "UTC")))
    return table


UNITS: Final = {2: "ms", 3: "ns"}
INT96: Final = 4
"""The way of engines that write times as they once did."""


@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}), max_size=12
    ),
    where=conditions(),
    choices=st.randoms(use_true_random=False),
)
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_split_over_files_at_random_give_the_same_answer(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], where: Any, choices: Any
) -> None:
    files = Files(tmp_path_factory.mktemp("split"))
    by_partition: dict[str | None, list[Row]] = {}
    for row in rows:
        by_partition.setdefault(partition_text(row["p"], "p"), []).append(row)
    planned = []
    for text, all_of_one in by_partition.items():
        shuffled = choices.sample(all_of_one, len(all_of_one))
        while shuffled:
            count = choices.randint(1, len(shuffled))
            part = shuffled[:count]
            shuffled = shuffled[count:]
            way = choices.randrange(5)
            deleted = {at for at in range(count) if choices.random() < 0.2}
            present = iter(part)
            with_deleted = [
                choices.choice(rows) if at in deleted else next(present) for at in range(count + len(deleted))
            ]
            options = {"row_group_size": choices.randint(1, count), "use_deprecated_int96_timestamps": way == INT96}
            file = files.write(len(planned), stored(with_deleted, way), {"p": text}, **options)
            planned.append(file | ({"deletionVector": inline_vector(deleted)} if deleted else {}))
    made = definition()
    reader = FileReader(files.storage, made, SCHEMA.names, Filter(where, made.fields, made.schema))
    found = [row for batch in reader.rows(planned) for row in batch.to_pylist()]
    expected = [row for row in rows if any(all(holds(one, row) for one in all_of) for all_of in where)]
    assert sorted(map(shown, found)) == sorted(map(shown, expected))


@pytest.mark.parametrize("deleted", [{0}, {3, 4}, {5, 9}, {0, 4, 5, 8, 9}, set(range(10))])
def test_a_deletion_vector_names_rows_of_the_file_whatever_batches_it_is_read_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: set[int]
) -> None:
    monkeypatch.setattr("turnstile_client.reading._ROWS", 4)
    table = pa.table({"id": pa.array(range(10), pa.int64())})
    made = definition(pa.schema([("id", pa.int64())]), ())
    file = Files(tmp_path).write(0, table, {}, row_group_size=3) | {"deletionVector": inline_vector(deleted)}
    reader = FileReader(Files(tmp_path).storage, made, ["id"], None)
    found = [id for batch in reader.rows([file]) for id in batch["id"].to_pylist()]
    assert found == [id for id in range(10) if id not in deleted]


def test_columns_and_fields_of_structs_are_found_whatever_their_case(tmp_path: Path) -> None:
    inner = pa.struct([("City", pa.string())])
    table = pa.table({"Id": pa.array([7], pa.int32()), "Places": pa.array([[{"City": "Bern"}]], pa.list_(inner))})
    planned = [Files(tmp_path).write(0, table, {})]
    schema = pa.schema(
        [("id", pa.int64()), ("places", pa.list_(pa.struct([("city", pa.string()), ("no", pa.int32())])))]
    )
    made = definition(schema, ())
    reader = FileReader(
        Files(tmp_path).storage, made, ["id", "places"], Filter([("id", "=", 7)], made.fields, made.schema)
    )
    (batch,) = reader.rows(planned)
    assert batch.to_pylist() == [{"id": 7, "places": [{"city": "Bern", "no": None}]}]
