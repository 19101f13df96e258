"""Statements that end otherwise in a lake than on Delta tables of Spark's own catalog.
docs/statements.md has them in words.

``{path}`` stands for a folder, ``{here}`` for a schema.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """Statements, the answer of a lake (an error's name), and the reason."""

    statements: tuple[str, ...]
    lake: str
    reason: str


DIFFERENCES: Final = (
    Difference(
        ("ALTER TABLE u SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",),
        "DELTA_CANNOT_MODIFY_CATALOG_MANAGED_DEPENDENCIES",
        "commits are ordered by them (I7)",
    ),
    Difference(
        ("ALTER TABLE u DROP FEATURE deletionVectors",),
        "UnsupportedOperationException",
        "Delta would purge by its own REORG, which it refuses; the error says how to purge them",
    ),
    Difference(
        ("DeltaTable.forName(spark, 't').toDF()",),
        "DELTA_MISSING_DELTA_TABLE",
        "Delta takes names of fewer than three parts for tables of `spark_catalog`",
    ),
    Difference(
        (
            (
                "DeltaTable.create(spark).tableName('made').addColumn('id', 'BIGINT', nullable=False).addColumn('d', "
                "'DATE').addColumn('y', 'INT', "
                "generatedAlwaysAs='year(d)').partitionedBy('y').comment('made').property('k', 'v').execute().toDF()"
            ),
            "DeltaTable.createOrReplace(spark).tableName('made').addColumn('z', 'INT').clusterBy('z').execute().toDF()",
        ),
        "DELTA_MISSING_DELTA_TABLE",
        "its builder knows names of two parts, and fails after the table has been made. Use `lake.create(...)`",
    ),
    Difference(
        (
            "CREATE TABLE l (id INT) LOCATION '{path}/l'",
            "spark.range(2).write.option('path', path + '/ext').saveAsTable('e')",
            (
                "DeltaTable.create(spark).tableName('placed').location(path + '/placed').addColumn('z', "
                "'INT').execute().toDF()"
            ),
        ),
        "UnsupportedOperationException",
        "the server chooses locations: no two tables overlap (I10). `turnstile import` brings an existing table in",
    ),
    Difference(
        (
            "CREATE SCHEMA {here}_l LOCATION '{path}/l'",
            "ALTER SCHEMA {here}_m SET LOCATION '{path}/m'",
            "ALTER TABLE w SET LOCATION '{path}/elsewhere'",
        ),
        "UnsupportedOperationException",
        "the server chooses locations: no two tables overlap (I10). `turnstile import` brings an existing table in",
    ),
    Difference(
        (
            "CREATE TABLE f (id INT) USING parquet",
            "CREATE OR REPLACE TABLE t USING parquet AS SELECT 1 AS id",
            "spark.range(2).write.format('parquet').saveAsTable('f')",
        ),
        "UnsupportedOperationException",
        "tables of a lake are Delta tables",
    ),
    Difference(
        ("DROP TABLE t PURGE",),
        "UnsupportedOperationException",
        "the server purges after its grace period, so that a drop can be taken back",
    ),
    Difference(
        (
            "CREATE TABLE copied SHALLOW CLONE delta.`{path}/saved`",
            "CREATE TABLE c SHALLOW CLONE t",
            "CREATE OR REPLACE TABLE c SHALLOW CLONE t VERSION AS OF 0",
        ),
        "UnsupportedOperationException",
        "Delta cannot clone into a catalog-managed table; the server clones tables of the catalog",
    ),
    Difference(
        ("ALTER TABLE u RENAME TO nosuch.u",),
        "SCHEMA_NOT_FOUND",
        "Spark's own catalog renames only within a schema, and says so",
    ),
    Difference(
        ("CONVERT TO DELTA t",),
        "UnsupportedOperationException",
        "says what to do; Delta does nothing to a table that is Delta",
    ),
    Difference(
        ("CREATE TABLE `two words` (id INT)",),
        "TURNSTILE_REFUSED",
        "the server says which names there are; Spark's own catalog checks names itself",
    ),
    Difference(("SHOW FUNCTIONS LIKE 'nosuch'",), "MISSING_CATALOG_ABILITY.FUNCTIONS", "a lake has no functions"),
)
