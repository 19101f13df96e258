"""Clones in Spark: a pinned version of a table that goes on."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors.exceptions.captured import UnsupportedOperationException

from turnstile_http.http import path


def clone(lake: Any, source: str, to: str, **moment: Any) -> dict[str, Any]:
    """A clone of the lake's catalog, as any HTTP client makes it."""
    body = {"from": source, "to": to, "of": moment or None}
    route = path("v1", "catalogs", lake.api.catalog, "clones")
    return dict(lake.api.http.call("clone", "POST", route, body, change=True))


@pytest.mark.slow
def test_a_clone_shows_its_version_when_the_source_has_moved_on(stored: Any, sql: Any, name: str) -> None:
    source = f"{stored.name}.{name}"
    copy = f"{stored.name}.{name}_clone"
    sql(f"CREATE TABLE {source} (id BIGINT)")
    sql(f"INSERT INTO {source} VALUES (1), (2)")
    (made,) = clone(stored, name, f"{name}_clone")["tables"]
    assert made["version"] == 1
    sql(f"INSERT INTO {source} VALUES (3)")
    sql(f"DELETE FROM {source} WHERE id = 1")
    sql(f"ALTER TABLE {source} ADD COLUMN more STRING")
    assert (sql.ids(source), sql.ids(copy)) == ([2, 3], [1, 2])
    assert sql(f"SELECT * FROM {copy}")[0].asDict().keys() == {"id"}
    assert sql.ids(f"{copy} VERSION AS OF 0") == []
    joined = f"SELECT c.id FROM {copy} c LEFT ANTI JOIN {source} s ON c.id = s.id"
    assert sql.values(joined) == [(1,)], "both in one query, over one folder"
    sql(f"INSERT INTO {source} VALUES (4, 'x')")
    assert (sql.ids(source), sql.ids(copy)) == ([2, 3, 4], [1, 2])
    assert stored.table(name).head().latest == 5
    sql(f"CREATE TABLE {copy}_own AS SELECT * FROM {copy}")
    sql(f"INSERT INTO {copy}_own VALUES (9)")
    assert sql.ids(f"{copy}_own") == [1, 2, 9]
    sql(f"DROP TABLE {copy}")
    assert sql.ids(source) == [2, 3, 4]


BEYOND = (
    "INSERT INTO {copy} VALUES (9)",
    "INSERT OVERWRITE {copy} VALUES (9)",
    "DELETE FROM {copy} WHERE id = 1",
    "UPDATE {copy} SET id = 9",
    "MERGE INTO {copy} c USING (SELECT 1 AS id) n ON c.id = n.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {copy} ADD COLUMN more STRING",
    "ALTER TABLE {copy} SET TBLPROPERTIES ('a' = 'b')",
    "CREATE OR REPLACE TABLE {copy} AS SELECT 9 AS id",
    "SELECT * FROM {copy} VERSION AS OF 1",
    "SELECT * FROM {copy} TIMESTAMP AS OF current_timestamp()",
)
"""What would change the source, or show what it is by now."""


def test_i10_a_clone_is_not_written_nor_read_beyond_its_version(lake: Any, sql: Any, name: str) -> None:
    source = f"lake.{name}"
    copy = f"lake.{name}_clone"
    sql(f"CREATE TABLE {source} AS SELECT 1 AS id")
    clone(lake, name, f"{name}_clone")
    sql(f"INSERT INTO {source} VALUES (2)")
    for statement in BEYOND:
        with pytest.raises(UnsupportedOperationException, match="pinned to version 0"):
            sql(statement.format(copy=copy))
    assert (sql.ids(source), sql.ids(copy)) == ([1, 2], [1])
    assert lake.table(name).head().latest == 1


@pytest.mark.slow
def test_i10_a_restore_of_a_clone_does_not_restore_its_source(lake: Any, sql: Any, name: str) -> None:
    """RESTORE is given the clone's old version like every reader, and would commit to the log that
    it found."""
    source = f"lake.{name}"
    copy = f"lake.{name}_clone"
    sql(f"CREATE TABLE {source} AS SELECT 1 AS id")
    clone(lake, name, f"{name}_clone")
    sql(f"INSERT INTO {source} VALUES (2)")
    with pytest.raises(Exception, match="TURNSTILE_REFUSED"):
        sql(f"RESTORE TABLE {copy} TO VERSION AS OF 0")
    assert sql.ids(source) == [1, 2] and lake.table(name).head().latest == 1
    sql(f"RESTORE TABLE {source} TO VERSION AS OF 0")
    assert sql.ids(source) == [1]


def test_deltas_own_clone_into_a_lake_is_refused_and_leaves_nothing(lake: Any, sql: Any, name: str) -> None:
    """Delta 4.4 makes an empty table, and then reads and writes by path, which it forbids for
    catalog-managed tables."""
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    with pytest.raises(UnsupportedOperationException, match="turnstile catalog clone"):
        sql(f"CREATE TABLE lake.{name}_s SHALLOW CLONE lake.{name}")
    assert f"{name.split('.')[1]}_s" not in lake.tables()
    assert sql.ids(f"lake.{name}") == [1]
