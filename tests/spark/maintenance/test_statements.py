"""OPTIMIZE, VACUUM and REORG as users write them, of a lake's table: the lake's own upkeep, with
Delta's results and errors."""

from __future__ import annotations

from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, PySparkException

from turnstile_spark import TurnstileError

FILES = 4
PARTITIONED = "(id BIGINT, k INT) PARTITIONED BY (k)"


def made(sql: Any, table: str, definition: str = "(id BIGINT, k INT)") -> str:
    """A table with four files of ten rows, two for each k, which one commit has brought."""
    sql(f"CREATE TABLE {table} {definition.replace(')', ') USING delta', 1)}")
    fill(sql, table)
    return table


def fill(sql: Any, table: str) -> None:
    """Four files more."""
    sql(f"INSERT INTO {table} SELECT id, CAST(id DIV 10 % 2 AS INT) FROM range(0, {10 * FILES}, 1, {FILES})")


def files(sql: Any, table: str) -> int:
    return int(sql(f"SELECT count(DISTINCT _metadata.file_path) AS n FROM {table}")[0].n)


def counted(metrics: Any) -> dict[str, Any]:
    """Returns the metrics, without those that differ from run to run."""
    plain = metrics.asDict(recursive=True)
    sizes = [plain["filesAdded"], plain["filesRemoved"], *(v for v in (plain["zOrderStats"] or {}).values())]
    sizes += list((plain["clusteringStats"] or {}).values())
    for members in sizes:
        if isinstance(members, dict):
            for key in ("min", "max", "avg", "totalSize", "size"):
                members.pop(key, None)
    return {k: v for k, v in plain.items() if k not in ("startTimeMs", "endTimeMs")}


DELETE = "DELETE FROM {} WHERE id % 10 = 3"
LIVES: dict[str, tuple[str, ...]] = {
    "(id BIGINT, k INT)": ("OPTIMIZE {}", "INSERT", "OPTIMIZE {} ZORDER BY (id, k)"),
    PARTITIONED: (
        "OPTIMIZE {} WHERE k = 1",
        "INSERT",
        "OPTIMIZE {} WHERE k >= 0 ZORDER BY id",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        DELETE,
        "REORG TABLE {} WHERE k = 0 APPLY (PURGE)",
        "REORG TABLE {} APPLY (PURGE)",
    ),
    "(id BIGINT, k INT) CLUSTER BY (id)": ("OPTIMIZE {} FULL",),
}
"""Tables, and statements on each: after a statement that rewrites, all of it is compared."""


@pytest.mark.slow
@pytest.mark.parametrize("definition", [*LIVES])
def test_a_rewrite_returns_what_delta_returns_of_a_table_of_its_own(
    lake: Any, sql: Any, *, spark: Any, name: str, definition: str
) -> None:
    tables = f"lake.{name}", f"spark_catalog.{name}"
    for table in tables:
        made(sql, table, definition)
    for statement in LIVES[definition]:
        answers = []
        for table in tables:
            if statement == "INSERT":
                fill(sql, table)
                continue
            if not statement.startswith(("OPTIMIZE", "REORG")):
                sql(statement.format(table))
                continue
            before = sql.values(f"SELECT * FROM {table}")
            frame = spark.sql(statement.format(table))
            (row,) = frame.collect()
            assert row.path == sql(f"DESCRIBE DETAIL {table}")[0].location
            assert row.metrics.numFilesRemoved > 0, "there was something to do"
            assert sql.values(f"SELECT * FROM {table}") == before
            operation = sql(f"DESCRIBE HISTORY {table} LIMIT 1")[0].operation
            answers.append((frame.schema, counted(row.metrics), files(sql, table), operation))
        assert not answers or answers[0] == answers[1], statement
    sql(f"DROP TABLE spark_catalog.{name}")


def test_what_delta_refuses_of_a_rewrite_is_delta_s_error(lake: Any, sql: Any, name: str) -> None:
    made(sql, f"lake.{name}", PARTITIONED)
    made(sql, f"lake.{name}c", "(id BIGINT, k INT) CLUSTER BY (id)")
    refused = {
        f"OPTIMIZE lake.{name} WHERE id = 1": "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        f"OPTIMIZE lake.{name} ZORDER BY (k)": "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        f"OPTIMIZE lake.{name} ZORDER BY (nope)": "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        f"OPTIMIZE lake.{name} FULL": "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        f"OPTIMIZE lake.{name}c WHERE id = 1": "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        f"OPTIMIZE lake.{name}c ZORDER BY (id)": "DELTA_CLUSTERING_WITH_ZORDER_BY",
        f"OPTIMIZE lake.{name}nope": "TABLE_OR_VIEW_NOT_FOUND",
        f"VACUUM lake.{name}nope": "TABLE_OR_VIEW_NOT_FOUND",
    }
    for statement, condition in refused.items():
        with pytest.raises(PySparkException) as caught:
            sql(statement)
        assert caught.value.getCondition() == condition, statement
    with pytest.raises(PySparkException, match=r"^REORG TABLE .* APPLY \(UNIFORM_ICEBERG\): the lake"):
        sql(f"REORG TABLE lake.{name} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION=2))")


@pytest.mark.slow
def test_an_optimize_of_a_lake_counts_files_as_the_session_says(lake: Any, sql: Any, spark: Any, name: str) -> None:
    made(sql, f"lake.{name}")
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", "1")
    try:
        assert sql(f"OPTIMIZE lake.{name}")[0].metrics.numFilesAdded == 0
    finally:
        spark.conf.unset("spark.databricks.delta.optimize.minFileSize")
    assert sql(f"OPTIMIZE lake.{name}")[0].metrics.numFilesAdded == 1


def test_statements_find_the_table_by_the_session_s_current_catalog(lake: Any, sql: Any, spark: Any, name: str) -> None:
    made(sql, f"lake.{name}")
    try:
        sql("USE lake.default")
        assert sql(f"OPTIMIZE {name.split('.')[1]}")[0].metrics.numFilesRemoved == FILES
    finally:
        sql("USE spark_catalog.default")
    other = spark.newSession()
    assert other.sql(f"VACUUM lake.{name} DRY RUN").collect() == []


def test_a_rewrite_in_a_transaction_says_in_its_first_line_what_to_do(lake: Any, sql: Any, name: str) -> None:
    made(sql, f"lake.{name}")
    for statement in ("OPTIMIZE {}", "VACUUM {}", "REORG TABLE {} APPLY (PURGE)"):
        with lake.transaction(), pytest.raises(TurnstileError, match="before or after it") as caught:
            sql(statement.format(f"lake.{name}"))
        assert "before or after it" in str(caught.value).splitlines()[0]
    assert lake.table(name).head().latest == 1


@pytest.mark.slow
def test_vacuum_returns_what_delta_s_returns(lake: Any, sql: Any, *, spark: Any, name: str) -> None:
    answers = []
    for table in (f"lake.{name}", f"spark_catalog.{name}"):
        made(sql, table)
        location = sql(f"DESCRIBE DETAIL {table}")[0].location
        frames = [spark.sql(f"VACUUM {table}{rest}") for rest in ("", " RETAIN 200 HOURS DRY RUN")]
        rows = [[row.path.replace(location, "") for row in frame.collect()] for frame in frames]
        answers.append(([frame.schema for frame in frames], rows))
    assert answers[0] == answers[1]
    sql(f"DROP TABLE spark_catalog.{name}")


def test_a_short_vacuum_is_refused_by_delta_s_rule(lake: Any, sql: Any, spark: Any, name: str) -> None:
    made(sql, f"lake.{name}")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
    try:
        with pytest.raises(PySparkException, match="retentionDurationCheck"):
            sql(f"VACUUM lake.{name} RETAIN 1 HOURS")
    finally:
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")


def test_methods_of_delta_table_work_on_a_lake_s_table_and_on_no_other_of_that_name(
    lake: Any, sql: Any, *, spark: Any, name: str
) -> None:
    made(sql, f"lake.{name}")
    made(sql, f"spark_catalog.{name}")
    table = DeltaTable.forName(spark, f"lake.{name}")
    location = sql(f"DESCRIBE DETAIL lake.{name}")[0].location
    assert table.detail().collect()[0].location == location
    assert table.optimize().executeCompaction().collect()[0].metrics.numFilesRemoved == FILES
    assert table.optimize().executeZOrderBy("id", "k").collect()[0].metrics.zOrderStats.strategyName
    assert table.vacuum(200.5).columns == []
    sql(f"ALTER TABLE lake.{name} ADD CONSTRAINT small CHECK (id < 10000)")
    assert table.toDF().count() == 10 * FILES
    operations = [row.operation for row in sql(f"DESCRIBE HISTORY spark_catalog.{name}")]
    assert {"OPTIMIZE", "VACUUM START"}.isdisjoint(operations)
    other = DeltaTable.forName(spark, f"spark_catalog.{name}")
    assert other.detail().collect()[0].location != location
    assert other.optimize().executeCompaction().collect()[0].metrics.numFilesRemoved == FILES
    assert other.vacuum().columns == []
    assert "VACUUM START" in [row.operation for row in sql(f"DESCRIBE HISTORY spark_catalog.{name}")]
    sql(f"DROP TABLE spark_catalog.{name}")


@pytest.mark.slow
def test_with_where_it_rewrites_the_partitions_of_all_predicates(lake: Any, sql: Any, spark: Any, name: str) -> None:
    made(sql, f"lake.{name}", PARTITIONED)
    table = DeltaTable.forName(spark, f"lake.{name}")
    (row,) = table.optimize().where("k >= 0").where("k = 1").executeCompaction().collect()
    assert (row.metrics.numFilesRemoved, row.metrics.partitionsOptimized) == (2, 1)
    with pytest.raises(AnalysisException):
        table.optimize().where("id = 1").executeCompaction()
