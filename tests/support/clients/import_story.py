"""A table written by Spark comes in, takes a commit, goes out, and is written by Spark again. Run
as a program with a folder as its argument; says OK when everything was as expected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.support.catalog import head_of
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.ports import World
from turnstile.transfer.exports import Exporter
from turnstile.transfer.imports import Importer

RICH = "CLUSTER BY (id) TBLPROPERTIES ('delta.enableRowTracking'='true', 'delta.enableDeletionVectors'='true')"


def session(folder: Path) -> Any:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    return configure_spark_with_delta_pip(builder).getOrCreate()


def services(folder: Path) -> CatalogServices:
    fakes = fake_world()
    world = World(
        refs=fakes.refs,
        objs=fakes.objs,
        storages=FileStorages(None),
        clock=SystemClock(),
        ids=RandomIds(),
        space=fakes.space,
    )
    lake = f"file://{folder}/lake"
    bootstrap.ensure(world, lake_root=lake)
    return build(world, lake_root=lake)


def story(spark: Any, catalog: CatalogServices, folder: Path) -> None:
    """With row tracking, deletion vectors and clustering, through the catalog and back, twice
    in."""
    table = f"delta.`{folder}/rich`"
    name = "rich"
    main = ("main", ("default",))
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v STRING) USING delta {RICH}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"UPDATE {table} SET v = 'c' WHERE id = 2")
    done = Importer(catalog).run(*main, name, f"file:{folder}/{name}")
    assert done.version == 3
    assert (head_of(catalog.world, done.table_id).row_hwm or 0) >= 1
    refused = ""
    try:
        spark.sql(f"INSERT INTO {table} VALUES (3, 'past the catalog')")
    except Exception as error:  # whatever Spark raises, its text is looked at
        refused = str(error)
    assert "CATALOG_MANAGED" in refused, refused or "a path-based write was let through"
    content = delta.lines(delta.info("through-the-catalog", catalog.world.clock.now_ms()))
    answer = Ratifier(catalog.world).commit(CommitRequest(done.table_id, 4, content=content))
    assert isinstance(answer, Ratified), answer
    assert Exporter(catalog).run(*main, name).release_version == 5
    spark.sql(f"INSERT INTO {table} VALUES (4, 'after')")
    rows = spark.sql(f"SELECT id, v FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, "c"), (4, "after")], rows
    history = spark.sql(f"DESCRIBE HISTORY {table}").select("version", "timestamp").collect()
    assert [row[0] for row in history] == list(range(6, -1, -1)), history
    times = [row[1] for row in history]
    assert times == sorted(times, reverse=True), times
    assert Importer(catalog).run(*main, name, f"file:{folder}/{name}").version == 7


def legacy(spark: Any, catalog: CatalogServices, folder: Path) -> None:
    """A table of the oldest protocol."""
    table = f"delta.`{folder}/plain`"
    main = ("main", ("default",))
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta")
    assert Importer(catalog).run(*main, "plain", f"file:{folder}/plain").version == 1
    assert Exporter(catalog).run(*main, "plain").release_version == 2
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    assert spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0] == 1


if __name__ == "__main__":
    root = Path(sys.argv[1])
    running = session(root)
    known = services(root)
    story(running, known, root)
    legacy(running, known, root)
    running.stop()
    print("OK")
