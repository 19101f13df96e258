"""A table that Spark changes (columns renamed, dropped, added and widened; deletion vectors) is the
same for every client, and the plain client adds rows to it. Names in any case and script are read
alike."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.journeys.lakes import Lakes
from tests.support.journeys.places import Journey, Place
from tests.support.journeys.reading import READERS, by_duckdb
from turnstile_client import connect
from turnstile_rows.errors import Unsupported

Row = dict[str, Any]


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


# -- changes by Spark -------------------------------------------------------------------------------------------------


class Changed:
    """A table after changes by Spark, with its rows."""

    def __init__(self, place: Place, spark: Any, lake: Any, *, vectors: bool) -> None:
        self.spark = spark
        self.journey = Journey(place, f"default.{place.fresh('changed')}", [])
        self.table = f"{lake.name}.{self.journey.name}"
        properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
        properties["delta.enableDeletionVectors"] = str(vectors).lower()
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        for statement in (
            f"CREATE TABLE {self.table} (id BIGINT, n INT, old STRING, gone STRING) TBLPROPERTIES ({listed})",
            f"INSERT INTO {self.table} VALUES (1, 10, 'a', 'x'), (2, 20, 'b', 'y'), (3, 30, 'c', 'z')",
            f"ALTER TABLE {self.table} RENAME COLUMN old TO `new name`",
            f"ALTER TABLE {self.table} DROP COLUMN gone",
            f"ALTER TABLE {self.table} ADD COLUMN added DOUBLE",
            f"ALTER TABLE {self.table} ALTER COLUMN n TYPE BIGINT",
            f"INSERT INTO {self.table} VALUES (4, 5000000000, 'd', 0.5)",
            f"DELETE FROM {self.table} WHERE id = 2",
        ):
            spark.sql(statement)
        self.rows: list[Row] = [
            {"id": 1, "n": 10, "new name": "a", "added": None},
            {"id": 3, "n": 30, "new name": "c", "added": None},
            {"id": 4, "n": 5_000_000_000, "new name": "d", "added": 0.5},
        ]

    def spark_rows(self) -> list[Row]:
        return rows_of(self.spark.sql(f"SELECT * FROM {self.table}").toArrow())


@pytest.fixture(scope="module")
def changed(lakes: Lakes, spark: Any) -> Callable[[bool], Changed]:
    """Makes the table with, or without, deletion vectors at its first use."""
    place, lake = lakes.at("up")
    return functools.cache(lambda vectors: Changed(place, spark, lake, vectors=vectors))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("vectors", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_table_that_spark_changed_is_the_same_for_another_client(
    spark: Any, changed: Callable[[bool], Changed], reader: str, vectors: bool
) -> None:
    one = changed(vectors)
    if vectors and reader == "pyiceberg":
        with pytest.raises(ValueError, match="Incorrect magic bytes"):  # docs/iceberg.md: it reads no deletion vectors
            READERS[reader](one.journey)
        return
    assert rows_of(READERS[reader](one.journey)) == one.rows


@pytest.mark.slow
def test_rows_that_other_clients_add_to_a_changed_table_are_there_for_all(
    spark: Any, changed: Callable[[bool], Changed]
) -> None:
    one = changed(False)
    with connect(one.journey.place.url, token=one.journey.place.token or None) as lake:
        table = lake.table(one.journey.name)
        one.rows.append({"id": 5, "n": 50, "new name": "e", "added": 1.5})
        table.append(pa.Table.from_pylist(one.rows[-1:]))
        one.rows.append({"id": 6, "n": 6_000_000_000, "new name": None, "added": None})
        table.append_rows(one.rows[-1:])
        assert sorted(table.read(where=[("n", ">", 4_000_000_000)])["id"].to_pylist()) == [4, 6]
        assert table.read(where=[("new name", "=", "e")])["id"].to_pylist() == [5]
        with pytest.raises(Unsupported, match="no files of it are replaced"):
            table.delete(where=[("id", "=", 5)])
    one.spark.sql(f"DELETE FROM {one.table} WHERE `new name` = 'e'")
    del one.rows[-2]
    assert one.spark_rows() == one.rows
    assert [rows_of(read(one.journey)) for read in READERS.values()] == [one.rows] * len(READERS)


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_in_any_case_and_script_are_the_same_for_every_client(lakes: Lakes, spark: Any) -> None:
    place, lake = lakes.at("up")
    name = place.fresh("Orders")
    columns = ["id", "MixedCase", "größe", "select", "日付", "_x"]
    rows = [{column: number * 10 + at for at, column in enumerate(columns)} for number in (1, 2)]
    with connect(place.url, token=place.token or None) as lake_of_client:
        lake_of_client.create(f"default.{name}", pa.Table.from_pylist(rows)).append(pa.Table.from_pylist(rows))
    for spelled in (name, name.lower(), name.upper()):
        journey = Journey(place, f"default.{spelled}", [])
        for reader in ("client", "pyiceberg"):
            assert rows_of(READERS[reader](journey)) == rows, (reader, spelled)
        assert rows_of(spark.sql(f"SELECT * FROM {lake.name}.default.{spelled}").toArrow()) == rows
    assert rows_of(by_duckdb(Journey(place, f"default.{name}", []))) == rows
