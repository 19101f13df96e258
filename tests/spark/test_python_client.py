"""The plain Python client and Spark on the same tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from turnstile_client import Unsupported, connect


@pytest.mark.slow
def test_spark_and_plain_python_read_what_the_other_wrote_deletions_too(
    lake: Any, sql: Any, name: str, file_server: Any
) -> None:
    sql(
        f"CREATE TABLE lake.{name} (id BIGINT, day DATE) PARTITIONED BY (day) TBLPROPERTIES "
        f"('delta.enableDeletionVectors' = 'true')"
    )
    sql(f"INSERT INTO lake.{name} SELECT id, DATE '2026-01-01' FROM range(0, 100, 1, 1)")
    sql(f"DELETE FROM lake.{name} WHERE id % 2 = 1")
    with connect(file_server.url, file_server.token) as client:
        table = client.table(name)
        assert sorted(table.read(["id"])["id"].to_pylist()) == list(range(0, 100, 2))
        more = pa.table({"id": [1000], "day": [dt.date(2026, 1, 2)]})
        table.append(more)
        assert sql.ids(f"lake.{name} WHERE id > 90") == [92, 94, 96, 98, 1000]
        table.overwrite(more.slice(0, 0), where=[("day", "=", dt.date(2026, 1, 1))])
        assert sql.ids(f"lake.{name}") == [1000]
        sql(f"ALTER TABLE lake.{name} ADD CONSTRAINT small CHECK (id < 10000)")
        with pytest.raises(Unsupported, match="small"):
            table.append(more)


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("partition_by", "properties"),
    [
        pytest.param((), {}, marks=pytest.mark.slow),
        pytest.param(("day",), {"delta.appendOnly": "true"}, marks=pytest.mark.slow),
        ((), {"delta.enableDeletionVectors": "true", "delta.dataSkippingNumIndexedCols": "1"}),
    ],
    ids=["plain", "partitioned, append-only", "deletion vectors"],
)
def test_spark_reads_describes_and_writes_a_table_that_plain_python_created(
    sql: Any, name: str, file_server: Any, partition_by: tuple[str, ...], properties: dict[str, str]
) -> None:
    when = dt.datetime(2026, 1, 1, 12, 30)
    rows = pa.table({"id": [1, 2], "day": [dt.date(2026, 1, 1)] * 2, "naive": [when] * 2, "names": [["a"], None]})
    with connect(file_server.url, file_server.token) as client:
        table = client.create(name, rows.schema, partition_by=partition_by, properties=properties)
        table.append(rows)
        assert sql.ids(f"lake.{name}") == [1, 2]
        assert {row.col_name for row in sql(f"DESCRIBE lake.{name}")} >= set(rows.schema.names)
        assert name.rpartition(".")[2] in {row.tableName for row in sql("SHOW TABLES IN lake.default")}
        sql(f"INSERT INTO lake.{name} SELECT 3, day, naive, names FROM lake.{name} WHERE id = 1")
        assert sorted(table.read()["id"].to_pylist()) == [1, 2, 3]
        if "delta.appendOnly" not in properties:
            sql(f"DELETE FROM lake.{name} WHERE id = 2")
            assert sorted(table.read()["id"].to_pylist()) == [1, 3]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["name", "id"])
def test_plain_python_reads_a_table_whose_columns_spark_maps_renames_and_widens(
    lake: Any, sql: Any, name: str, file_server: Any, mode: str
) -> None:
    table = f"{lake.name}.{name}"
    sql(
        f"CREATE TABLE {table} (id INT, `a b` STRING, s STRUCT<x: INT, `y z`: STRING>, p STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableTypeWidening' = 'true')"
    )
    values = "CAST(id AS INT), concat('t', id), named_struct('x', CAST(id AS INT), 'y z', 'u'), IF(id < 10, 'a', 'b')"
    sql(f"INSERT INTO {table} SELECT {values} FROM range(0, 20, 1, 1)")
    for change in (
        "RENAME COLUMN id TO number",
        "RENAME COLUMN p TO `a part`",
        "RENAME COLUMN s.x TO `x.y`",
        "DROP COLUMN `a b`",
        "ADD COLUMN `a b` DATE",
        "ALTER COLUMN number TYPE BIGINT",
    ):
        sql(f"ALTER TABLE {table} {change}")
    sql(
        f"INSERT INTO {table} (number, s, `a part`, `a b`) "
        "VALUES (5000000000, named_struct('x.y', 1, 'y z', 'v'), 'b', DATE'2026-01-01')"
    )
    sql(f"DELETE FROM {table} WHERE number % 7 = 3")
    rows = [row.asDict(recursive=True) for row in sql(f"SELECT * FROM {table} ORDER BY number")]
    assert len(rows) == 18
    with connect(file_server.url, file_server.token) as client:
        mapped = client.table(name)
        assert sorted(mapped.read().to_pylist(), key=lambda row: row["number"]) == rows
        where = [("number", ">", 12), ("a part", "=", "b")]
        assert sorted(mapped.read(["number"], where=where)["number"].to_pylist()) == [
            row["number"] for row in rows if row["number"] > 12 and row["a part"] == "b"
        ]
        assert mapped.read(where=[("a b", "!=", None)])["number"].to_pylist() == [5000000000]
        assert mapped.read(version=1).schema.names == ["id", "a b", "s", "p"]
        place = {"x.y": 2, "y z": "w"}
        mapped.append(pa.Table.from_pylist([{"number": 6_000_000_000, "s": place, "a part": "c d", "a b": None}]))
    (row,) = sql(f"SELECT * FROM {table} WHERE number = 6000000000")
    assert row.asDict(recursive=True) == {"number": 6_000_000_000, "s": place, "a part": "c d", "a b": None}
