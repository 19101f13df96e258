"""Spark's tables with many small files, one for each feature, whose files are rewritten."""

from __future__ import annotations

from typing import Any

#: feature -> how such a table is made; all have the columns id BIGINT and k INT.
KINDS = {
    "plain": "(id BIGINT, k INT)",
    "row tracking": "(id BIGINT, k INT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "column mapping": "(id BIGINT, k INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "deletion vectors": "(id BIGINT, k INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "no deletion vectors": "(id BIGINT, k INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "partitions": "(id BIGINT, k INT) PARTITIONED BY (k)",
    "change data feed": "(id BIGINT, k INT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "append only": "(id BIGINT, k INT) TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "generated column": "(id BIGINT, k INT, twice BIGINT GENERATED ALWAYS AS (id * 2))",
    "identity column": "(id BIGINT, k INT, own BIGINT GENERATED ALWAYS AS IDENTITY)",
    "default": "(id BIGINT, k INT, word STRING DEFAULT 'tea') TBLPROPERTIES ('delta.feature.allowColumnDefaults' = "
    "'supported')",
    "clustering": "(id BIGINT, k INT) CLUSTER BY (id)",
    "not null": "(id BIGINT NOT NULL, k INT)",
}
USUAL = ("row tracking",)
"""Those that every run has. Deletion vectors are what a purge and the rewrites of partitions are
tested with."""


def fill(sql: Any, table: str, files: int = 4) -> None:
    """Files of twenty rows, which one commit brings: ids from 0, 100, 200 on, and a k for each."""
    columns = "id % 20 + id DIV 20 * 100, CAST(id DIV 20 % 2 AS INT)"
    sql(f"INSERT INTO {table} (id, k) SELECT {columns} FROM range(0, {20 * files}, 1, {files})")


def count_files(sql: Any, table: str) -> int:
    return int(sql(f"DESCRIBE DETAIL {table}")[0].numFiles)
