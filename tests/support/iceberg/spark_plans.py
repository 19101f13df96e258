"""Iceberg tables that Spark writes, read by manifests and by plans of the catalog:
``python spark_plans.py URL NAMESPACE``; the last line it prints has, for each query, the rows both
ways and how many files the catalog planned."""

from __future__ import annotations

import json
import sys

from spark_story import attach, session  # beside this file: the interpreter has none of our packages

WHERE = (
    "",
    "WHERE id > 25",
    "WHERE day = date'2026-11-02'",
    "WHERE area IS NULL",
    "WHERE id IN (1, 33) AND label LIKE 'n%'",
    "WHERE id > 90",
)

if __name__ == "__main__":
    url, namespace = sys.argv[1:]
    spark = session(url)
    attach(spark, url, "planned", "main")
    spark.conf.set("spark.sql.catalog.planned.scan-planning-mode", "server")
    found = []
    for version in (2, 3):
        table = f"{namespace}.v{version}"
        spark.sql(
            f"CREATE TABLE lake.{table} (id BIGINT, name STRING, area STRING, day DATE) USING iceberg PARTITIONED BY "
            f"(day, bucket(2, id)) TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read', "
            f"'write.update.mode'='merge-on-read')"
        )
        rows = (
            "SELECT id, concat('n', id), if(id % 2 = 0, 'eu', null), date'2026-11-01' + cast(id % 3 AS INT) FROM range"
        )
        spark.sql(f"INSERT INTO lake.{table} {rows}(20)")
        spark.sql(f"ALTER TABLE lake.{table} RENAME COLUMN name TO label")
        spark.sql(f"INSERT INTO lake.{table} {rows}(20, 40)")
        (first,) = spark.sql(f"SELECT snapshot_id FROM lake.{table}.snapshots ORDER BY committed_at LIMIT 1").collect()
        spark.sql(f"DELETE FROM lake.{table} WHERE id % 7 = 3")
        spark.sql(f"UPDATE lake.{table} SET area = 'us' WHERE id = 33")
        for rest in (*WHERE, f"VERSION AS OF {first[0]}"):
            both = [
                sorted(str(tuple(row)) for row in spark.sql(f"SELECT * FROM {catalog}.{table} {rest}").collect())
                for catalog in ("lake", "planned")
            ]
            found.append([f"v{version} {rest}", *both])
    spark.stop()
    print(json.dumps(found))
