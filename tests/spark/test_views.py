"""Views in a lake: Spark's statements on the views that Iceberg's clients share."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import UnsupportedOperationException

from turnstile_http.http import path


def test_a_view_is_made_read_changed_renamed_and_dropped(lake: Any, sql: Any, spark: Any, name: str) -> None:
    table = f"lake.{name}"
    view = f"lake.{name}_v"
    sql(f"CREATE TABLE {table} AS SELECT 1L AS id, 'a' AS s")
    sql(
        f"CREATE VIEW {view} (k COMMENT 'key', s) COMMENT 'words' TBLPROPERTIES ('a' = 'b') AS SELECT id, s FROM "
        f"{table}"
    )
    sql(f"INSERT INTO {table} VALUES (2, 'b')")
    assert sql.values(f"SELECT * FROM {view}") == [(1, "a"), (2, "b")]
    assert sql(f"DESCRIBE {view}")[0] == ("k", "bigint", "key")
    assert f"{name.split('.')[1]}_v" in {row.viewName for row in sql("SHOW VIEWS IN lake.default")}
    assert {f"{name.split('.')[1]}{end}" for end in ("", "_v")} <= {
        row.tableName for row in sql("SHOW TABLES IN lake.default")
    }
    sql(f"ALTER VIEW {view} SET TBLPROPERTIES ('c' = 'd')")
    sql(f"ALTER VIEW {view} UNSET TBLPROPERTIES ('a')")
    assert sql.values(f"SHOW TBLPROPERTIES {view}") == [("c", "d")]
    sql(f"CREATE OR REPLACE VIEW {view} AS SELECT id + 1 AS id FROM {table}")
    sql(f"ALTER VIEW {view} RENAME TO {view}2")
    assert spark.newSession().table(f"{view}2").count() == 2
    for statement, condition in {
        f"CREATE VIEW {table} AS SELECT 1 AS id": "TABLE_OR_VIEW_ALREADY_EXISTS",
        f"CREATE TABLE {view}2 (id INT)": "TABLE_OR_VIEW_ALREADY_EXISTS",
        f"DROP TABLE {view}2": "WRONG_COMMAND_FOR_OBJECT_TYPE",
        f"ALTER VIEW {view}2 RENAME TO nosuch.v": "SCHEMA_NOT_FOUND",
        f"INSERT INTO {view}2 VALUES (1)": "TABLE_OR_VIEW_NOT_FOUND",
    }.items():
        with pytest.raises(AnalysisException) as caught:
            sql(statement)
        assert caught.value.getCondition() == condition, statement
    sql(f"DROP VIEW {view}2")
    assert sql.ids(table) == [1, 2]


def test_a_view_is_an_iceberg_view_of_the_catalog(lake: Any, sql: Any, name: str) -> None:
    """Column types and the definition are Iceberg's; names in it are those of the catalog that it
    is loaded from."""
    types = "1Y AS a, 2.5D AS b, DATE'2026-01-01' AS c, CAST(1.25 AS DECIMAL(5, 2)) AS d, map('x', array(1S)) AS e"
    sql("USE lake.default")
    try:
        sql(f"CREATE VIEW {name}_v AS SELECT {types}, now() AS f, named_struct('y', 'z') AS g")
    finally:
        sql("USE spark_catalog.default")
    metadata = lake.context.views.load(["default"], f"{name.split('.')[1]}_v")
    fields = {field["name"]: field["type"] for field in metadata["schemas"][0]["fields"]}
    assert (fields["a"], fields["b"], fields["c"], fields["d"], fields["f"]) == (
        "int", "double", "date", "decimal(5,2)", "timestamptz",
    )  # fmt: skip
    version = metadata["versions"][0]
    assert version["representations"][0]["dialect"] == "spark"
    assert version["default-namespace"] == ["default"] and "default-catalog" not in version
    row = sql(f"SELECT * FROM lake.{name}_v")[0]
    assert (row.a, row.b, row.e, row.g.y) == (1, 2.5, {"x": [1]}, "z")


def test_a_view_that_spark_or_iceberg_cannot_have_is_refused(lake: Any, sql: Any, name: str) -> None:
    for statement, words in {
        "CREATE VIEW {} AS SELECT INTERVAL 1 DAY AS x": "CAST it in the query",
        "CREATE VIEW {} AS SELECT 1 AS `a,b`": "comma",
        "CREATE VIEW {} WITH SCHEMA EVOLUTION AS SELECT 1 AS id": "WITH SCHEMA EVOLUTION",
    }.items():
        with pytest.raises(UnsupportedOperationException, match=words):
            sql(statement.format(f"lake.{name}"))
    field = {"id": 1, "name": "id", "required": False, "type": "int"}
    version = {
        "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["default"],
        "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "trino"}],
    }  # fmt: skip
    schema = {"type": "struct", "schema-id": 0, "fields": [field]}
    body = {"name": name.split(".")[1], "schema": schema, "view-version": version, "properties": {}}
    route = path("iceberg", "v1", lake.api.catalog, "namespaces", "default", "views")
    lake.api.http.call("create view", "POST", route, body, change=True)
    with pytest.raises(UnsupportedOperationException, match="no SQL for Spark, only for trino"):
        sql(f"SELECT * FROM lake.{name}")
    sql(f"DROP VIEW lake.{name}")
