"""Spark's part with Iceberg tables, as a script of its own: ``python spark_story.py URL NAMESPACE
ANSWERS``.

It runs in an environment with the Spark version that Iceberg's runtime is made for, and writes its
observations as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


def session(url: str) -> SparkSession:
    """A session with two catalogs over the same warehouse: two clients with caches of their own."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("turnstile-iceberg")
        .config("spark.jars.packages", RUNTIME)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
    )
    for name in ("lake", "other"):
        prefix = f"spark.sql.catalog.{name}"
        builder = (
            builder.config(prefix, "org.apache.iceberg.spark.SparkCatalog")
            .config(f"{prefix}.type", "rest")
            .config(f"{prefix}.uri", f"{url}/iceberg")
            .config(f"{prefix}.warehouse", "main")
            .config(f"{prefix}.cache-enabled", "false")  # a client sees what others did at its next statement
            .config(f"{prefix}.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO")
        )
    return builder.getOrCreate()


def snapshot(url: str, name: str) -> None:
    """Name the present moment of the warehouse."""
    body = json.dumps({"name": name}).encode()
    asked = Request(f"{url}/v1/catalogs/main/snapshots", body, {"content-type": "application/json"})
    with urlopen(asked, timeout=30) as answer:
        assert answer.status == 201


def put_manifests_together(url: str) -> None:
    """Makes the catalog do its due work on manifests."""
    body = json.dumps({"dry_run": False, "kinds": ["iceberg-manifests"]}).encode()
    asked = Request(f"{url}/v1/gc", body, {"content-type": "application/json"})
    with urlopen(asked, timeout=60) as answer:
        report = json.loads(answer.read())
    assert report["problems"] == [], report


def compacted(spark: SparkSession, url: str, namespace: str) -> dict[str, Any]:
    """Manifests put together by the catalog, and data files by Iceberg's own procedure: rows,
    manifests, files and those that are the same, before and after each."""
    table = f"lake.{namespace}.small"
    name = f"{namespace}.small"

    def state() -> tuple[list[Any], int, list[Any]]:
        rows = [list(row) for row in spark.sql(f"SELECT id, region FROM {table} ORDER BY id").collect()]
        manifests = spark.sql(f"SELECT count(*) FROM {table}.manifests").collect()[0][0]
        query = (
            "SELECT snapshot_id, sequence_number, file_sequence_number, to_json(data_file) "
            f"FROM {table}.entries WHERE status < 2 ORDER BY data_file.file_path"
        )
        return rows, manifests, [list(row) for row in spark.sql(query).collect()]

    spark.sql(
        f"CREATE TABLE {table} (id bigint, region string, day date) USING iceberg PARTITIONED BY (region, bucket(2, "
        f"id), month(day)) "
        "TBLPROPERTIES ('turnstile.maintenance.rewrite-manifests' = 'true', 'commit.manifest.min-count-to-merge' = "
        "'3', "
        "'commit.manifest-merge.enabled' = 'false')"
    )
    for number in range(4):
        spark.sql(
            f"INSERT INTO {table} VALUES ({number}, 'eu', DATE '2026-11-0{number + 1}'), ({number + 10}, 'us', NULL)"
        )
    spark.sql(f"DELETE FROM {table} WHERE id = 12")
    rows, manifests, files = state()
    put_manifests_together(url)
    rows_after, manifests_after, files_after = state()
    pruned = spark.sql(f"SELECT id FROM {table} WHERE region = 'us' AND id = 11").collect()
    seen = {"rows": rows_after == rows, "manifests": [manifests > 3, manifests_after], "files": files_after == files}
    seen["pruned"] = [list(row) for row in pruned]
    done = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('min-input-files', '2'))"
    ).collect()
    rows_after, _, files_after = state()
    seen["data files"] = [done[0].rewritten_data_files_count > 2, len(files_after) < len(files), rows_after == rows]
    spark.sql(f"INSERT INTO {table} VALUES (20, 'eu', NULL)")
    put_manifests_together(url)
    spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
    seen["after all"] = state()[0] == [*rows, [20, "eu"]]
    spark.sql(f"DROP TABLE {table}")
    return seen


def attach(spark: SparkSession, url: str, name: str, warehouse: str) -> None:
    """One more catalog."""
    prefix = f"spark.sql.catalog.{name}"
    settings = {"type": "rest", "uri": f"{url}/iceberg", "warehouse": warehouse,
                "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"}  # fmt: skip
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    for member, value in settings.items():
        spark.conf.set(f"{prefix}.{member}", value)


def story(spark: SparkSession, url: str, namespace: str) -> dict[str, Any]:
    """Every kind of statement, with its result."""
    seen: dict[str, Any] = {}

    def rows(query: str) -> list[Any]:
        return [list(row) for row in spark.sql(query).collect()]

    spark.sql(f"CREATE NAMESPACE lake.{namespace} COMMENT 'of tests'")
    table = f"lake.{namespace}.orders"
    spark.sql(f"CREATE TABLE {table} (id bigint, region string) USING iceberg PARTITIONED BY (region)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'eu'), (2, 'us')")
    spark.sql(f"INSERT INTO other.{namespace}.orders VALUES (3, 'eu')")
    spark.sql(f"INSERT INTO {table} VALUES (4, 'us')")
    seen["rows"] = rows(f"SELECT id FROM other.{namespace}.orders ORDER BY id")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN amount double")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    spark.sql(f"UPDATE {table} SET amount = 1.5 WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 4L AS id, 9.0 AS amount) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = s.amount"
    )
    seen["changed"] = rows(f"SELECT id, region, amount FROM other.{namespace}.orders ORDER BY id")
    spark.sql(f"ALTER TABLE {table} CREATE TAG before")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {table}.branch_audit VALUES (7, 'eu', 0.0)")
    seen["branch"] = rows(f"SELECT count(*) FROM {table} VERSION AS OF 'audit'")
    seen["main"] = rows(f"SELECT count(*) FROM {table} VERSION AS OF 'before'")
    spark.sql(f"CREATE TABLE lake.{namespace}.copy USING iceberg AS SELECT id FROM {table}")
    spark.sql(f"CREATE OR REPLACE TABLE lake.{namespace}.copy USING iceberg AS SELECT id * 10 AS id FROM {table}")
    seen["replaced"] = rows(f"SELECT id FROM lake.{namespace}.copy ORDER BY id")
    spark.sql(f"CREATE VIEW lake.{namespace}.recent AS SELECT id FROM {table} WHERE id > 2")
    seen["view"] = rows(f"SELECT id FROM other.{namespace}.recent ORDER BY id")
    seen["tables"] = sorted(row[1] for row in rows(f"SHOW TABLES IN lake.{namespace}"))
    spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{namespace}.orders', older_than => TIMESTAMP '2100-01-01 "
        f"00:00:00')"
    )
    seen["after expiry"] = rows(f"SELECT count(*) FROM {table}")
    snapshot(url, f"{namespace}_end")
    spark.sql(f"INSERT INTO {table} VALUES (5, 'eu', 0.0)")
    spark.sql(f"ALTER TABLE {table} RENAME TO {namespace}.sales")
    seen["renamed"] = rows(f"SELECT count(*) FROM lake.{namespace}.sales")
    try:
        spark.sql(f"DROP NAMESPACE lake.{namespace}")
    except (PySparkException, Py4JJavaError) as error:
        seen["not empty"] = "not empty" in str(error)
    seen["compacted"] = compacted(spark, url, namespace)
    spark.sql(f"DROP VIEW lake.{namespace}.recent")
    spark.sql(f"DROP TABLE lake.{namespace}.copy PURGE")
    spark.sql(f"DROP TABLE lake.{namespace}.sales")
    spark.sql(f"DROP NAMESPACE lake.{namespace}")
    seen["left"] = [row[0] for row in rows("SHOW NAMESPACES IN lake") if row[0] == namespace]
    attach(spark, url, "past", f"main@snapshot:{namespace}_end")
    seen["past tables"] = sorted(row[1] for row in rows(f"SHOW TABLES IN past.{namespace}"))
    seen["past"] = rows(f"SELECT count(*) FROM past.{namespace}.orders")
    seen["past views"] = [row[1] for row in rows(f"SHOW VIEWS IN past.{namespace}")]
    try:
        spark.sql(f"INSERT INTO past.{namespace}.orders VALUES (6, 'eu', 0.0)")
    except (PySparkException, Py4JJavaError) as error:
        seen["past is read only"] = "does not support endpoint" in str(error)
    return seen


if __name__ == "__main__":
    url, wanted, answers = sys.argv[1:]
    Path(answers).write_text(json.dumps(story(session(url), url, wanted)))
