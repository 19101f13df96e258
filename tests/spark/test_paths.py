"""Paths in the place of names, with a lake as the current catalog: as with any other current
catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException


@pytest.fixture
def in_lake(lake: Any, sql: Any) -> Iterator[None]:
    sql("USE lake.default")
    yield
    sql("USE spark_catalog.default")


def test_a_table_by_path_is_read_written_altered_and_created(
    in_lake: None, sql: Any, spark: Any, tmp_path: Path
) -> None:
    old, new = (f"delta.`{tmp_path}/{folder}`" for folder in ("old", "new"))
    spark.range(2).write.format("delta").save(str(tmp_path / "old"))
    spark.range(3).write.parquet(str(tmp_path / "parquet"))
    sql(f"INSERT INTO {old} VALUES (7)")
    sql(f"ALTER TABLE {old} SET TBLPROPERTIES ('team' = 'x')")
    assert sql(f"DESCRIBE HISTORY {old}")[0].operation == "SET TBLPROPERTIES"
    sql(f"CREATE TABLE {new} USING delta AS SELECT * FROM {old} UNION ALL SELECT * FROM parquet.`{tmp_path}/parquet`")
    assert (sql.ids(old), sql.ids(new)) == ([0, 1, 7], [0, 0, 1, 1, 2, 7])


@pytest.mark.slow
def test_all_statements_take_a_path(in_lake: None, sql: Any, spark: Any, *, name: str, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "delta"))
    for plain in ("parquet", "converted"):
        spark.range(3).write.parquet(str(tmp_path / plain))
    delta, new, clone = (f"delta.`{tmp_path}/{folder}`" for folder in ("delta", "new", "clone"))
    assert sql.ids(delta) == sql.ids(f"parquet.`{tmp_path}/parquet`") == [0, 1, 2]
    sql(f"INSERT INTO {delta} VALUES (7)")
    sql(f"UPDATE {delta} SET id = 8 WHERE id = 7")
    sql(f"DELETE FROM {delta} WHERE id = 0")
    sql(f"MERGE INTO {delta} t USING (SELECT 9L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    sql(f"OPTIMIZE {delta}")
    assert sql.ids(delta) == [1, 2, 8, 9] and sql.ids(f"{delta} VERSION AS OF 0") == [0, 1, 2]
    sql(f"RESTORE {delta} TO VERSION AS OF 0")
    sql(f"ALTER TABLE {delta} SET TBLPROPERTIES ('team' = 'x')")
    assert sql(f"DESCRIBE DETAIL {delta}")[0].properties["team"] == "x"
    assert sql(f"DESCRIBE HISTORY {delta}")[0].operation == "SET TBLPROPERTIES"
    sql(f"CONVERT TO DELTA parquet.`{tmp_path}/converted`")
    sql(f"CREATE TABLE {new} (id BIGINT) USING delta")
    sql(f"CREATE OR REPLACE TABLE {new} USING delta AS SELECT * FROM {delta}")
    sql(f"CREATE TABLE {clone} SHALLOW CLONE {delta}")
    sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {new}")
    assert sql.ids(new) == sql.ids(clone) == sql.ids(f"lake.{name}_copy") == [0, 1, 2]


def test_a_path_without_a_table_is_not_found(in_lake: None, lake: Any, sql: Any, tmp_path: Path) -> None:
    for path in (f"delta.`{tmp_path}/none`", f"parquet.`{tmp_path}/none`"):
        with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
            sql(f"SELECT * FROM {path}")
    with pytest.raises(AnalysisException) as caught:
        sql("SELECT * FROM lake.s.`a/b`")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_a_table_of_the_lake_is_not_changed_by_its_path(lake: Any, in_lake: None, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {name} (id BIGINT)")
    location = lake.context.load(*name.split(".")).location
    for statement in ("INSERT INTO {} VALUES (1)", "CREATE OR REPLACE TABLE {} (x INT) USING delta"):
        with pytest.raises(Exception, match="is a table of a lake: use its name"):
            sql(statement.format(f"delta.`{location}`"))
    assert lake.table(name).head().latest == 0
