"""Two engines on one table: DuckDB through the Unity API, Spark through Turnstile's own client,
neither knowing of the other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import turnstile_spark
from tests.support.clients import duck
from tests.support.clients.engine import Engine, fresh
from tests.support.clients.requests import Requests

if TYPE_CHECKING:
    from turnstile_server import Server


@pytest.fixture
def lake(spark: Any, server: Server) -> Iterator[Any]:
    attached = turnstile_spark.attach(spark, "beside_duckdb", server.url, token=server.token or None)
    yield attached
    attached.detach()


@pytest.fixture
def connect(server: Server, tmp_path: Path) -> Any:
    """Makes DuckDB connections with the catalog attached."""

    def made() -> duckdb.DuckDBPyConnection:
        db = duck.connect(tmp_path)
        duck.attach(db, server)
        return db

    return made


@pytest.mark.slow
def test_each_sees_what_the_other_wrote(spark: Any, lake: Any, connect: Any, server: Server) -> None:
    """Spark's commits travel inline and are materialised for DuckDB, which knows files only."""
    table = fresh("both")
    spark.sql(f"CREATE TABLE {lake.name}.default.{table} (id BIGINT)")
    spark.sql(f"INSERT INTO {lake.name}.default.{table} VALUES (1), (2)")
    db = connect()
    assert duck.ids(db, table) == [1, 2]
    db.execute(f"INSERT INTO lake.default.{table} VALUES (3)")
    assert sorted(row.id for row in spark.table(f"{lake.name}.default.{table}").collect()) == [1, 2, 3]
    spark.sql(f"DELETE FROM {lake.name}.default.{table} WHERE id = 2")
    assert duck.ids(connect(), table) == [1, 3]


@pytest.mark.slow
def test_i2_engines_that_race_lose_nothing_and_write_nothing_twice(
    spark: Any, lake: Any, connect: Any, server: Server
) -> None:
    table = fresh("race")
    rounds = 6
    spark.sql(f"CREATE TABLE {lake.name}.default.{table} (id BIGINT)")

    def by_spark() -> None:
        for n in range(rounds):
            spark.sql(f"INSERT INTO {lake.name}.default.{table} VALUES ({n})")

    def insert(db: duckdb.DuckDBPyConnection, id: int) -> None:
        db.execute(f"INSERT INTO lake.default.{table} VALUES ({id})")

    def by_duckdb() -> list[str]:
        tries = (duck.insist(connect, functools.partial(insert, id=100 + n)) for n in range(rounds))
        return list(itertools.chain.from_iterable(tries))

    with ThreadPoolExecutor(2) as pool:
        spark_wrote = pool.submit(by_spark)
        duckdb_wrote = pool.submit(by_duckdb)
        spark_wrote.result()
        conflicts = duckdb_wrote.result()
    wanted = [*range(rounds), *range(100, 100 + rounds)]
    assert duck.ids(connect(), table) == wanted
    assert sorted(row.id for row in spark.table(f"{lake.name}.default.{table}").collect()) == wanted
    assert Engine(server, table).latest == 2 * rounds, f"{len(conflicts)} conflicts"


@pytest.mark.slow
def test_turnstiles_own_client_asks_less_than_the_connector(spark: Any, lake: Any, server: Server) -> None:
    """For the comparison in ``docs/clients.md``: a warm INSERT and SELECT through ``/v1``."""
    table = f"{lake.name}.default.{fresh('own')}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    for n in range(2):
        spark.sql(f"INSERT INTO {table} VALUES ({n})")
    asked = Requests(server)
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert asked.seen(2) == {"v1 load": 1, "v1 commit": 1}
    spark.sql(f"SELECT * FROM {table}").collect()
    assert asked.seen(2) == {"v1 load": 1, "v1 commits": 1}
