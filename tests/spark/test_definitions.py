"""CREATE in all its forms, REPLACE, RENAME, DROP, SHOW, DESCRIBE."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from turnstile_spark import TurnstileError

#: What a table of a lake has unless its maker asks for more. Anything else here would cost every
#: writer.
LEAN = {"appendOnly", "catalogManaged", "deletionVectors", "inCommitTimestamp", "invariants", "vacuumProtocolCheck"}


def features(lake: Any, name: str) -> set[str]:
    return set(lake.context.load(*name.split(".")).metadata["protocol"]["writerFeatures"])


def test_a_new_table_has_only_the_features_it_needs(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    assert features(lake, name) == LEAN


@pytest.mark.slow
def test_a_feature_that_is_asked_for_is_there(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT) TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    assert "rowTracking" in features(lake, name)
    sql(f"INSERT INTO lake.{name} VALUES (1)")
    assert sql(f"SELECT _metadata.row_id AS r FROM lake.{name}")[0].r == 0


def test_identity_generated_and_default_columns_work(lake: Any, sql: Any, name: str) -> None:
    sql(
        f"CREATE TABLE lake.{name} (id BIGINT GENERATED ALWAYS AS IDENTITY, d DATE, "
        "y INT GENERATED ALWAYS AS (year(d)), x INT DEFAULT 3) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    sql(f"INSERT INTO lake.{name} (d) VALUES (DATE'2026-05-05')")
    assert sql.values(f"SELECT * FROM lake.{name}") == [(1, dt.date(2026, 5, 5), 2026, 3)]


def test_a_table_can_be_clustered_or_partitioned(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, k INT) CLUSTER BY (id)")
    sql(f"CREATE TABLE lake.{name}p (id BIGINT, k INT) PARTITIONED BY (k)")
    assert sql(f"DESCRIBE DETAIL lake.{name}")[0].clusteringColumns == ["id"]
    assert sql(f"DESCRIBE DETAIL lake.{name}p")[0].partitionColumns == ["k"]
    sql(f"ALTER TABLE lake.{name} CLUSTER BY (k)")
    assert sql(f"DESCRIBE DETAIL lake.{name}")[0].clusteringColumns == ["k"]


def test_ctas_has_its_data_in_version_0(stored: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE {stored.name}.{name} AS SELECT id FROM range(5)")
    assert sql.ids(f"{stored.name}.{name}") == [0, 1, 2, 3, 4]
    assert stored.table(name).head().latest == 0


@pytest.mark.slow
def test_replace_keeps_id_and_history(stored: Any, sql: Any, spark: Any, name: str) -> None:
    table = f"{stored.name}.{name}"
    sql(f"CREATE TABLE {table} AS SELECT 1 AS id")
    known = stored.table(name).id
    sql(f"CREATE OR REPLACE TABLE {table} (x INT)")
    sql(f"INSERT INTO {table} VALUES (4)")
    sql(f"CREATE OR REPLACE TABLE {table} AS SELECT x, x + 1 AS y FROM {table}")
    assert sql.values(f"SELECT * FROM {table}") == [(4, 5)]
    sql(f"REPLACE TABLE {table} PARTITIONED BY (p) AS SELECT 1 AS z, 2 AS p")
    spark.range(3).writeTo(table).createOrReplace()
    spark.range(4).write.mode("overwrite").option("overwriteSchema", "true").saveAsTable(table)
    assert sql.ids(table) == [0, 1, 2, 3]
    assert stored.table(name).id == known
    assert [row.version for row in stored.table(name).history()] == [6, 5, 4, 3, 2, 1, 0]
    assert sql(f"SELECT * FROM {table} VERSION AS OF 0")[0].id == 1


@pytest.mark.slow
def test_dataframe_writers_create_tables(lake: Any, sql: Any, spark: Any, name: str) -> None:
    spark.range(2).write.saveAsTable(f"lake.{name}a")
    spark.range(2).writeTo(f"lake.{name}b").create()
    spark.range(2).writeTo(f"lake.{name}c").createOrReplace()
    for suffix in "abc":
        assert sql.ids(f"lake.{name}{suffix}") == [0, 1]


def test_a_ctas_that_fails_leaves_no_name(lake: Any, sql: Any, name: str) -> None:
    """I9: a name leads to at most one live table, and to none before there is one."""
    with pytest.raises(Exception, match="boom"):
        sql(f"CREATE TABLE lake.{name} AS SELECT CAST(raise_error('boom') AS INT) AS x")
    assert name.split(".")[1] not in lake.tables()


@pytest.mark.slow
def test_create_table_like_copies_the_definition_and_no_data(lake: Any, sql: Any, spark: Any, name: str) -> None:
    properties = {"delta.appendOnly": "true", "owned by": "us"}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    sql(f"CREATE TABLE lake.{name} (id BIGINT, k INT) PARTITIONED BY (k) COMMENT 'it' TBLPROPERTIES ({pairs})")
    sql(f"INSERT INTO lake.{name} VALUES (1, 1)")
    sql(f"CREATE TABLE lake.{name}l LIKE lake.{name}")
    sql(f"CREATE TABLE IF NOT EXISTS lake.{name}l LIKE lake.{name}")
    assert spark.table(f"lake.{name}l").schema == spark.table(f"lake.{name}").schema
    detail = sql(f"DESCRIBE DETAIL lake.{name}l")[0]
    assert (detail.partitionColumns, detail.description) == (["k"], "it")
    assert properties.items() <= detail.properties.items()
    assert lake.table(name).id != lake.table(name + "l").id
    assert sql.ids(f"lake.{name}l") == []


def test_the_builder_makes_the_files_that_it_is_given(lake: Any, sql: Any, name: str) -> None:
    builder = lake.create(name).addColumn("id", "BIGINT", identity=(10, 5)).addColumn("d", "DATE", nullable=False)
    builder.addColumn("y", "INT", generatedAlwaysAs="year(d)").addColumn("x", "INT", default="5", comment="it's five")
    table = builder.partitionedBy("y").comment("built").property("team", "x").execute()
    sql(f"INSERT INTO lake.{name} (d) VALUES (DATE'2026-01-01')")
    assert sql.values(f"SELECT * FROM lake.{name}") == [(10, dt.date(2026, 1, 1), 2026, 5)]
    lake.createIfNotExists(name).addColumn("other", "INT").execute()
    assert table.to_df().columns == ["id", "d", "y", "x"]
    lake.createOrReplace(name).addColumn("other", "INT").clusterBy("other").execute()
    assert table.to_df().columns == ["other"]
    assert table.head().latest == 2


def test_rename_keeps_the_table_and_drop_takes_the_name(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    known = lake.table(name).id
    sql(f"ALTER TABLE lake.{name} RENAME TO lake.{name}r")
    assert lake.table(name + "r").id == known
    assert sql.ids(f"lake.{name}r") == [1]
    sql(f"ALTER TABLE lake.{name}r RENAME TO {name.split('.')[1]}")
    assert sql.ids(f"lake.{name}") == [1]
    sql(f"DROP TABLE lake.{name}")
    sql(f"DROP TABLE IF EXISTS lake.{name}")
    assert name.split(".")[1] not in lake.tables()
    sql(f"CREATE TABLE lake.{name} (other INT)")
    assert lake.table(name).id != known


def test_namespaces_are_made_described_and_dropped(lake: Any, sql: Any) -> None:
    sql("CREATE NAMESPACE lake.shop COMMENT 'hello' WITH DBPROPERTIES ('a' = 'b')")
    sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    sql("ALTER NAMESPACE lake.shop SET PROPERTIES ('c' = 'd')")
    sql("COMMENT ON NAMESPACE lake.shop IS 'bye'")
    described = dict(sql.values("DESCRIBE NAMESPACE EXTENDED lake.shop"))
    assert described["Comment"] == "bye"
    assert "(a,b), (c,d)" in described["Properties"]
    assert {"default", "shop"} <= {row.namespace for row in sql("SHOW NAMESPACES IN lake")}
    assert "shop" in lake.namespaces()
    sql("CREATE TABLE lake.shop.orders (id INT)")
    assert [row.tableName for row in sql("SHOW TABLES IN lake.shop")] == ["orders"]
    assert lake.tables("shop") == ["orders"]
    sql("DROP NAMESPACE lake.shop CASCADE")
    assert "shop" not in lake.namespaces()


def test_describe_shows_columns_details_and_history(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT COMMENT 'key') COMMENT 'words'")
    assert sql(f"DESCRIBE lake.{name}")[0] == ("id", "bigint", "key")
    assert any(row.data_type == "words" for row in sql(f"DESCRIBE EXTENDED lake.{name}"))
    detail = sql(f"DESCRIBE DETAIL lake.{name}")[0]
    assert detail.description == "words"
    assert set(detail.tableFeatures) == LEAN
    assert [row.operation for row in sql(f"DESCRIBE HISTORY lake.{name}")] == ["CREATE TABLE"]


def test_use_makes_short_names_work(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 7 AS id")
    try:
        sql("USE lake.default")
        assert sql.ids(name.split(".")[1]) == [7]
        assert name.split(".")[1] in {row.tableName for row in sql("SHOW TABLES")}
    finally:
        sql("USE spark_catalog.default")


LIKE = {
    "clustered": "(id TINYINT, s STRUCT<a: INT>) CLUSTER BY (id, s.a) TBLPROPERTIES "
    "('delta.feature.domainMetadata' = 'supported', 'k' = 'v', 'delta.enableTypeWidening' = 'true', "
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true')",
    "clustered by nothing": "(id BIGINT) CLUSTER BY (id)",
    "partitioned": "(id BIGINT, p STRING) PARTITIONED BY (p)",
    "defaults": "(id BIGINT, w STRING DEFAULT 'tea') TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "generated": "(id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2))",
    "identity": "(id BIGINT, own BIGINT GENERATED ALWAYS AS IDENTITY)",
    "mapped": "(id BIGINT, `a b` INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "checks": "(id BIGINT NOT NULL) TBLPROPERTIES ('delta.constraints.small' = 'id < 5')",
}


QUICK = ("clustered",)
"""What is copied beside Delta's own copy, and most of what Delta copies."""


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in LIKE])
def test_a_table_like_another_is_defined_as_that(lake: Any, sql: Any, *, name: str, kind: str) -> None:
    """Clustering, too, which Delta itself forgets; a table like one of plain Delta, and one like
    that."""
    first = f"spark_catalog.{name}"
    copies = (f"lake.{name}_copy", f"lake.{name}_second")
    sql(f"CREATE TABLE {first} {LIKE[kind]}")
    if kind == "clustered by nothing":
        sql(f"ALTER TABLE {first} CLUSTER BY NONE")
    source = first
    columns = sql(f"DESCRIBE {first}")
    detail = sql(f"DESCRIBE DETAIL {first}")[0]
    for copy in copies:
        sql(f"CREATE TABLE {copy} LIKE {source}")
        assert sql(f"DESCRIBE {copy}") == columns
        assert sql(f"DESCRIBE DETAIL {copy}")[0].clusteringColumns == detail.clusteringColumns
        source = copy
    sql(f"INSERT INTO {source} (id) VALUES (1)")
    assert sql.ids(source) == [1]
    sql(f"DROP TABLE {first}")


@pytest.mark.slow
def test_a_dropped_table_comes_back_with_its_rows_and_id_also_under_another_name(
    lake: Any, sql: Any, name: str
) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    known = lake.table(name).id
    sql(f"DROP TABLE lake.{name}")
    assert lake.undrop(name).id == known
    sql(f"INSERT INTO lake.{name} VALUES (2)")
    sql(f"DROP TABLE lake.{name}")
    sql(f"CREATE TABLE lake.{name} (other STRING)")
    with pytest.raises(TurnstileError, match="exists"):
        lake.undrop(name)
    back = lake.undrop(name, to=f"{name}_back")
    assert back.id == known
    assert sql.ids(f"lake.{name}_back") == [1, 2]


def test_an_undrop_is_refused_inside_of_a_transaction_and_where_nothing_was_dropped(
    lake: Any, sql: Any, name: str
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    sql(f"DROP TABLE lake.{name}")
    with lake.transaction(), pytest.raises(TurnstileError, match="before or after it"):
        lake.undrop(name)
    with pytest.raises(ValueError, match="no zone"):
        lake.undrop(name, at=dt.datetime(2026, 1, 1))
    with pytest.raises(TurnstileError):
        lake.undrop(f"{name}_never")
    assert lake.undrop(name).head().latest == 0
