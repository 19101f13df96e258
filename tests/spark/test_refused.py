"""What a lake does not do is refused in words, as the class that plain Delta raises, and changes
nothing anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import UnsupportedOperationException

import turnstile_spark
from turnstile_spark import TurnstileError


@pytest.fixture
def namesake(sql: Any, name: str) -> Any:
    """A table of the session's own catalog that has the schema and name of a table of the lake."""
    sql(f"CREATE TABLE spark_catalog.{name} (id BIGINT) USING delta")
    yield f"spark_catalog.{name}"
    sql(f"DROP TABLE spark_catalog.{name}")


MIRRORS = {
    "spark.databricks.delta.catalog.update.enabled": "ALTER TABLE {} ADD COLUMN more INT",
    "spark.databricks.delta.hms.schema.forceAlterTableDataSchema": "CREATE OR REPLACE TABLE {} (id BIGINT)",
}
"""Options with which Delta writes a table's schema into the session's catalog as well, by schema
and name."""


def described(sql: Any, table: str) -> list[Any]:
    return [tuple(row) for row in sql(f"DESCRIBE EXTENDED {table}")]


def test_a_table_of_the_same_name_in_another_catalog_is_left_alone(
    lake: Any, sql: Any, *, spark: Any, namesake: str, name: str, tmp_path: Path
) -> None:
    """Delta looks tables up, and sets locations and schemas, in the session's catalog by schema and
    name."""
    table = f"lake.{name}"
    before = described(sql, namesake)
    sql(f"CREATE TABLE {table} (id BIGINT)")
    sql(f"DROP TABLE {table}")
    spark.range(2).write.saveAsTable(table)
    sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 1L AS id")
    sql(f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT)")
    spark.range(3).write.format("delta").save(str(tmp_path / "elsewhere"))
    with pytest.raises(UnsupportedOperationException, match=r"SET LOCATION.*turnstile import"):
        sql(f"ALTER TABLE {table} SET LOCATION '{tmp_path / 'elsewhere'}'")
    for option, statement in MIRRORS.items():
        spark.conf.set(option, "true")
        try:
            with pytest.raises(PySparkException, match=f"SET {option} = false"):
                sql(statement.format(table))
        finally:
            spark.conf.unset(option)
    assert sql.ids(table) == [1]
    assert (sql.ids(namesake), described(sql, namesake)) == ([], before)


def test_a_table_of_the_same_name_is_not_converted(lake: Any, sql: Any, spark: Any, name: str) -> None:
    """Delta looks the name up in the current catalog, and converts what has it in the session's."""
    sql(f"CREATE TABLE spark_catalog.{name} USING parquet AS SELECT 1L AS id")
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    with pytest.raises(UnsupportedOperationException, match=r"CONVERT TO DELTA.*USE spark_catalog"):
        sql(f"CONVERT TO DELTA lake.{name}")
    try:
        sql("USE lake.default")
        with pytest.raises(UnsupportedOperationException, match=r"CONVERT TO DELTA.*USE spark_catalog"):
            DeltaTable.convertToDelta(spark, name.split(".")[1])
    finally:
        sql("USE spark_catalog.default")
    assert ("Provider", "parquet", "") in described(sql, f"spark_catalog.{name}")
    sql(f"DROP TABLE spark_catalog.{name}")


def test_clauses_and_properties_are_obeyed_or_refused(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    refused = {
        "CREATE SCHEMA lake.elsewhere LOCATION '/elsewhere'": "LOCATION of a schema",
        "ALTER SCHEMA lake.default SET LOCATION '/elsewhere'": "LOCATION of a schema",
        f"CREATE TABLE lake.{name}p (id INT) STORED AS PARQUET": "STORED AS",
        f"CREATE TABLE lake.{name}p (id INT) OPTIONS (path '/elsewhere')": "option 'path'",
        f"CREATE TABLE lake.{name}p (id INT) TBLPROPERTIES ('io.unitycatalog.tableId' = 'x')": "identity of a table",
        f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('io.unitycatalog.tableId' = 'x')": "identity of a table",
        f"ALTER TABLE lake.{name} UNSET TBLPROPERTIES ('io.unitycatalog.tableId')": "identity of a table",
        f"ALTER TABLE lake.{name} SET TBLPROPERTIES "
        "('delta.coordinatedCommits.commitCoordinator-preview' = 'x')": "its server",
        f"ALTER TABLE lake.{name} RENAME TO spark_catalog.{name}": "leave its catalog",
        f"CREATE TABLE lake.{name}p SHALLOW CLONE lake.{name}": "cannot clone into",
    }
    for statement, words in refused.items():
        with pytest.raises(UnsupportedOperationException, match=words):
            sql(statement)
    assert lake.table(name).head().latest == 0
    assert name.split(".")[1] + "p" not in lake.tables() and "elsewhere" not in lake.namespaces()


def test_a_feature_that_cannot_be_dropped_is_refused_with_the_remedy_in_the_first_line(
    lake: Any, sql: Any, spark: Any, name: str
) -> None:
    """Delta changes properties first, and then refuses its own rewrite of files."""
    table = f"lake.{name}"
    sql(
        f"CREATE TABLE {table} (id TINYINT) TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        f"'delta.enableRowTracking' = 'true')"
    )
    sql(f"INSERT INTO {table} VALUES (1)")
    sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE INT")
    before = lake.table(name).head().latest
    refused = {
        "deletionVectors": "REORG TABLE",
        "DELETIONVECTORS TRUNCATE HISTORY": "REORG TABLE",
        "typeWidening": "AS SELECT",
        "catalogManaged": "turnstile export",
        "inCommitTimestamp": "turnstile export",
        "vacuumProtocolCheck": "turnstile export",
    }
    for feature, remedy in refused.items():
        with pytest.raises(UnsupportedOperationException) as caught:
            sql(f"ALTER TABLE {table} DROP FEATURE {feature}")
        assert remedy in str(caught.value).splitlines()[0], feature
    with pytest.raises(UnsupportedOperationException, match="REORG TABLE"):
        DeltaTable.forName(spark, table).dropFeatureSupport("deletionVectors")
    assert lake.table(name).head().latest == before


@pytest.mark.slow
def test_features_without_files_to_rewrite_are_dropped(lake: Any, sql: Any, spark: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    sql(f"INSERT INTO {table} VALUES (1)")
    sql(f"ALTER TABLE {table} DROP FEATURE rowTracking")
    assert "rowTracking" not in sql(f"DESCRIBE DETAIL {table}")[0].tableFeatures
    sql(f"CREATE TABLE lake.{name}w (id INT) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    DeltaTable.forName(spark, f"lake.{name}w").dropFeatureSupport("typeWidening")
    assert "typeWidening" not in sql(f"DESCRIBE DETAIL lake.{name}w")[0].tableFeatures


def test_what_a_purge_and_a_location_ask_for_is_refused_with_a_remedy(
    lake: Any, sql: Any, name: str, tmp_path: Path
) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT)")
    refused = {
        f"DROP TABLE {table} PURGE": "leave out PURGE",
        f"CREATE TABLE {table}_l (id INT) LOCATION '{tmp_path}'": "turnstile import",
        f"CREATE EXTERNAL TABLE {table}_l (id INT) LOCATION '{tmp_path}'": "",
        f"CREATE TABLE {table}_l LOCATION '{tmp_path}' AS SELECT 1 AS id": "turnstile import",
        f"CREATE TABLE {table}_l LIKE {table} LOCATION '{tmp_path}'": "turnstile import",
        f"CREATE OR REPLACE TABLE {table} (id INT) LOCATION '{tmp_path}'": "turnstile import",
    }
    for statement, remedy in refused.items():
        with pytest.raises(PySparkException) as caught:
            sql(statement)
        assert remedy in str(caught.value).strip().splitlines()[0], statement
    sql(f"DROP TABLE IF EXISTS {table}_l PURGE")
    assert sql.names(name) == {""}


def test_a_text_that_is_no_name_is_not_sent_to_the_server(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    table = name.split(".")[1]
    before = sum(lake.api.http.requests.values())
    not_found = {
        "SELECT * FROM lake.default.`..`": "TABLE_OR_VIEW_NOT_FOUND",
        f"SELECT * FROM lake.`default/tables/{table}`.commits": "TABLE_OR_VIEW_NOT_FOUND",
        f"SELECT * FROM lake.default.`{table}%2Fcommits`": "TABLE_OR_VIEW_NOT_FOUND",
        "SELECT * FROM lake.`a.b`.t": "TABLE_OR_VIEW_NOT_FOUND",
        f"DESCRIBE SCHEMA lake.`default/tables/{table}`": "SCHEMA_NOT_FOUND",
        f"DROP SCHEMA lake.`default/tables/{table}`": "SCHEMA_NOT_FOUND",
        "SHOW TABLES IN lake.`..`": "SCHEMA_NOT_FOUND",
    }
    for statement, condition in not_found.items():
        with pytest.raises(AnalysisException) as caught:
            sql(statement)
        assert caught.value.getCondition() == condition, statement
    assert sum(lake.api.http.requests.values()) == before
    for statement in ("CREATE SCHEMA lake.`a/b`", "CREATE TABLE lake.default.`a b` (id INT)"):
        with pytest.raises(TurnstileError, match="is not a valid name"):
            sql(statement)
    with pytest.raises(AnalysisException) as caught:
        sql(f"ALTER TABLE lake.{name} RENAME TO nosuch.{table}")
    assert caught.value.getCondition() == "SCHEMA_NOT_FOUND"


@pytest.mark.parametrize("names", [{"name": "spark_catalog"}, {"name": "a.b"}, {"catalog": "a/b"}])
def test_a_lake_has_a_name_that_spark_and_the_server_can_use(
    spark: Any, file_server: Any, names: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=next(iter(names.values()))):
        turnstile_spark.attach(spark, uri=file_server.url, token=file_server.token, **names)


ERRORS = (
    ("ALTER TABLE {} ADD COLUMN x INT NOT NULL", "DELTA_OPERATION_NOT_ALLOWED"),
    ("ALTER TABLE {} DROP COLUMN k", "DELTA_UNSUPPORTED_DROP_COLUMN"),
    ("ALTER TABLE {} RENAME COLUMN k TO j", "DELTA_UNSUPPORTED_RENAME_COLUMN"),
    ("ALTER TABLE {} ADD CONSTRAINT c CHECK (id > 5)", "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"),
    ("ALTER TABLE {} DROP CONSTRAINT c", "DELTA_CONSTRAINT_DOES_NOT_EXIST"),
    ("ALTER TABLE {} CLUSTER BY (nope)", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
    ("ALTER TABLE {} SET TBLPROPERTIES ('delta.nope' = '1')", "DELTA_UNKNOWN_CONFIGURATION"),
    ("CREATE TABLE {}_c (s STRING COLLATE UNICODE)", "DELTA_UNSUPPORTED_DATA_TYPES"),
    ("CREATE TABLE {}_c (`a b` INT)", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
)


def test_what_delta_refuses_is_the_exception_that_delta_raises(lake: Any, sql: Any, name: str) -> None:
    """Most of Delta's exceptions are checked ones, which no proxy may throw: Java wraps them."""
    sql(f"CREATE TABLE lake.{name} AS SELECT 1L AS id, 2L AS k")
    for statement, condition in ERRORS:
        with pytest.raises(AnalysisException) as caught:
            sql(statement.format(f"lake.{name}"))
        assert caught.value.getCondition() == condition, statement
        assert len(str(caught.value)) < 1000
