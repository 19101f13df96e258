"""After a log was cleaned up every version that stays has the rows that it had, for Delta Spark,
and those before it are refused in Delta's words (I15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import turnstile_spark
from tests.support.server import MovingServer, moving_server
from turnstile.delta.log.files import list_log
from turnstile.gc.collector import Report
from turnstile_client import connect


@pytest.fixture(scope="module")
def server_of_months(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    with pytest.MonkeyPatch.context() as patch, moving_server(tmp_path_factory.mktemp("months"), patch) as server:
        yield server


@pytest.fixture
def moving(server_of_months: MovingServer, name: str) -> MovingServer:
    """The server, with a catalog of the test's own."""
    server_of_months.begin("c" + name.rpartition(".")[2])
    return server_of_months


@pytest.fixture
def aged(spark: Any, moving: MovingServer, name: str) -> Iterator[Any]:
    """A lake on that server."""
    with turnstile_spark.attach(spark, "aged", moving.url, catalog="c" + name.rpartition(".")[2]) as lake:
        yield lake


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_i15_every_version_that_stays_reads_as_before_and_those_before_it_are_refused(
    sql: Any, aged: Any, moving: MovingServer, name: str, policy: str
) -> None:
    table = f"aged.{name}"
    sql(
        f"CREATE TABLE {table} (id BIGINT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ('delta.checkpointPolicy' = "
        f"'{policy}', "
        "'delta.checkpointInterval' = '3', 'delta.enableDeletionVectors' = 'true')"
    )
    id = str(aged.table(name).head().table_id)
    services = moving.services
    head = aged.table(name).head()
    rows: dict[int, list[Any]] = {}

    def run(text: str) -> None:
        sql(text)
        moving.publish(id)
        services.maintainer.maintain(id)
        version = int(aged.table(name).head().latest)
        found = connect(moving.url, catalog="c" + name.rpartition(".")[2]).table(name).read(version=version)
        rows[version] = sorted((row["id"], row["p"]) for row in found.to_pylist())

    def read(version: int) -> list[Any]:
        return sorted(sql.values(f"SELECT id, p FROM {table} VERSION AS OF {version}"))

    def clean() -> Report:
        return services.collector.collect(("log",), dry_run=False)

    for number in range(2):
        run(f"INSERT INTO {table} SELECT id + {number * 10}, 'a b%ü' FROM range(5)")
    run(f"DELETE FROM {table} WHERE id = 3")
    run(f"UPDATE {table} SET p = 'y' WHERE id = 11")
    assert clean().items == (), "all of it is young"
    moving.days(20)
    services.open_catalog.namespaces.create("c" + name.rpartition(".")[2], ("later",))
    moving.days(20)
    aged.table(name).head()
    run(f"INSERT OVERWRITE {table} SELECT id, 'z' FROM range(3)")
    report = clean()
    assert report.problems == () and report.deleted > 0
    files = list_log(services.world.storages.open(head.location))
    oldest = min(files.commits)
    assert 0 < oldest < max(rows) and oldest in files.checkpoints
    sql.spark.catalog.clearCache()
    for version in range(oldest, max(rows) + 1):
        assert read(version) == rows[version], version
    with pytest.raises(Exception) as refused:
        read(oldest - 1)
    assert any(word in str(refused.value) for word in ("DELTA_VERSION_NOT_FOUND", "Cannot time travel")), refused.value
