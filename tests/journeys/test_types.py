"""Rows of every type, with nulls and a partition column, are the same for every client, whichever
of them made the table or added the row."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.support.journeys import typed
from tests.support.journeys.judging import Tables, judge
from tests.support.journeys.lakes import Lakes
from tests.support.journeys.origins import client, iceberg_catalog
from tests.support.journeys.places import Journey, Place
from tests.support.journeys.uses import duckdb_reads, pyiceberg_reads
from turnstile_client import connect


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables()


@pytest.mark.parametrize(("origin", "use"), [*itertools.product(typed.PLAIN_ORIGINS, typed.PLAIN_USES)])
def test_rows_of_every_type_are_the_same_for_another_client(up: Place, tables: Tables, origin: str, use: str) -> None:
    journey = tables.of("up", origin, use, lambda: typed.PLAIN_ORIGINS[origin](up))
    judge(origin, use, lambda: typed.PLAIN_USES[use](journey))


@pytest.mark.parametrize("use", [*typed.SPARK_USES, *typed.PLAIN_USES])
def test_rows_of_every_type_that_spark_wrote_are_the_same_for_another_client(
    lakes: Lakes, spark: Any, tables: Tables, use: str
) -> None:
    place, lake = lakes.at("up")
    journey = tables.of("up", "spark_sql", use, lambda: typed.spark_sql(place, spark, lake))
    if use in typed.SPARK_USES:
        typed.SPARK_USES[use](journey, spark, lake)
    else:
        typed.PLAIN_USES[use](journey)


@pytest.mark.parametrize(
    ("origin", "use"),
    [
        pytest.param(origin, use, marks=() if origin == "client" else pytest.mark.slow)
        for origin, use in itertools.product(typed.PLAIN_ORIGINS, typed.SPARK_USES)
    ],
)
def test_rows_of_every_type_are_the_same_for_spark(
    lakes: Lakes, spark: Any, tables: Tables, origin: str, use: str
) -> None:
    place, lake = lakes.at("up")
    journey = tables.of("up", origin, use, lambda: typed.PLAIN_ORIGINS[origin](place))
    judge(origin, use, lambda: typed.SPARK_USES[use](journey, spark, lake))


def local_times(place: Place) -> Journey:
    """A table with a column of a type that DuckDB's ``unity_catalog`` does not know."""
    name = f"default.{place.fresh('local')}"
    with connect(place.url, token=place.token or None) as lake:
        lake.create(name, typed.LOCAL).append(pa.table({"id": [1, 2], "local": typed.LOCAL_TIMES}, typed.LOCAL))
    return Journey(place, name, [1, 2])


def test_a_table_that_duckdb_cannot_read_hides_no_other_table_of_its_schema(up: Place) -> None:
    journey = local_times(up)
    duckdb_reads(client(up))
    with pytest.raises(duckdb.BinderException, match="not found"):
        duckdb_reads(journey)
    pyiceberg_reads(journey)


def test_local_times_are_the_same_for_spark(lakes: Lakes, spark: Any) -> None:
    place, lake = lakes.at("up")
    journey = local_times(place)
    found = spark.sql(f"SELECT local FROM {lake.name}.{journey.name} ORDER BY id").collect()
    assert [row.local for row in found] == typed.LOCAL_TIMES


def test_comments_of_a_table_and_its_columns_are_the_same_for_every_client(up: Place) -> None:
    name = f"default.{up.fresh('commented')}"
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"comment": "the key"})])
    with connect(up.url) as lake:
        lake.create(name, schema, comment="orders of a day")
    by_unity = up.ask("GET", f"/api/2.1/unity-catalog/tables/main.{name}")
    assert (by_unity["comment"], by_unity["columns"][0]["comment"]) == ("orders of a day", "the key")
    by_iceberg = iceberg_catalog(up).load_table(name)
    assert (by_iceberg.properties["comment"], by_iceberg.schema().fields[0].doc) == ("orders of a day", "the key")
    loaded = up.ask("GET", f"/v1/catalogs/main/namespaces/default/tables/{name.partition('.')[2]}")
    assert loaded["metadata"]["comment"] == "orders of a day"
