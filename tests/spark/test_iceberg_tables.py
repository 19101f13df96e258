"""An Iceberg table of the catalog, in Spark's lake: listed by name, and each statement says what it
is and how to read it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def iceberg(lake: Any, file_server: Any, name: str) -> str:
    """An Iceberg table, without its catalog."""
    namespace, _, table = name.rpartition(".")
    headers = {"Authorization": f"Bearer {file_server.token}"} if file_server.token else {}
    url = f"{file_server.url}/iceberg/v1/main/namespaces/{namespace}/tables"
    httpx.post(url, json={"name": table, "schema": SCHEMA}, headers=headers).raise_for_status()
    return name


STATEMENTS = (
    "SELECT * FROM lake.{0}",
    "SELECT * FROM lake.{0} VERSION AS OF 0",
    "DESCRIBE lake.{0}",
    "DESCRIBE EXTENDED lake.{0}",
    "DESCRIBE DETAIL lake.{0}",
    "DESCRIBE HISTORY lake.{0}",
    "SHOW COLUMNS IN lake.{0}",
    "SHOW TBLPROPERTIES lake.{0}",
    "INSERT INTO lake.{0} VALUES (1)",
    "UPDATE lake.{0} SET id = 1",
    "DELETE FROM lake.{0}",
    "MERGE INTO lake.{0} USING lake.{0} AS s ON FALSE WHEN NOT MATCHED THEN INSERT *",
    "ALTER TABLE lake.{0} ADD COLUMN x INT",
    "ALTER TABLE lake.{0} RENAME TO lake.{0}_r",
    "DROP TABLE lake.{0}",
    "DROP TABLE IF EXISTS lake.{0}",
    "CREATE TABLE lake.{0} (id INT)",
    "CREATE TABLE lake.{0} AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE lake.{0} (id INT)",
    "REPLACE TABLE lake.{0} (id INT)",
    "CREATE TABLE lake.{0}_l LIKE lake.{0}",
    "OPTIMIZE lake.{0}",
    "VACUUM lake.{0}",
    "TRUNCATE TABLE lake.{0}",
)


def test_each_statement_says_what_it_is_and_how_to_read_it(lake: Any, sql: Any, spark: Any, iceberg: str) -> None:
    told = f"lake.{iceberg} is an Iceberg table"
    for statement in STATEMENTS:
        with pytest.raises(PySparkException) as caught:
            sql(statement.format(iceberg))
        first = str(caught.value).splitlines()[0]
        assert told in first and "rest" in first, (statement, str(caught.value)[:300])
    for write in (
        lambda: spark.range(1).write.saveAsTable(f"lake.{iceberg}"),
        lambda: spark.range(1).writeTo(f"lake.{iceberg}").append(),
        lambda: spark.table(f"lake.{iceberg}").collect(),
    ):
        with pytest.raises(PySparkException, match=told):
            write()
    assert lake.find(f"/main/{iceberg.replace('.', '/')}")[0]["kind"] == "iceberg-table"


def test_it_is_listed_and_breaks_no_list(lake: Any, sql: Any, iceberg: str) -> None:
    table = iceberg.split(".")[1]
    sql(f"CREATE TABLE lake.{iceberg}_d (id BIGINT)")
    assert sql.names(iceberg) == {"", "_d"}
    extended = {row.tableName: row.information for row in sql(f"SHOW TABLE EXTENDED IN lake.default LIKE '{table}*'")}
    assert "iceberg" in extended[table].lower()
    assert set(extended) == {table, f"{table}_d"}
