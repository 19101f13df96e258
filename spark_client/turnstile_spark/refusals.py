"""Statements that a lake does not support: each is refused with a message, before anything has
changed.

Delta and Spark would ignore some of them, and run some of them on a table of the same name in the
session's own catalog. Functions return the message, or None for a supported statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnstile_spark.jvm import JavaObject

#: Written by the server when it makes a table; clients find a table's commits by it. The second is
#: its name in old releases.
TABLE_ID = "io.unitycatalog.tableId"
_OLD_TABLE_ID = "ucTableId"
_COORDINATED = "delta.coordinatedCommits."
_SELECT = "CREATE TABLE ... AS SELECT"
#: Features of every table of a catalog, in lower case.
_NEEDED = frozenset(("catalogmanaged", "catalogowned-preview", "incommittimestamp", "vacuumprotocolcheck"))


def new_table(lake: str, properties: Mapping[str, str]) -> str | None:
    """For CREATE and REPLACE, with the properties as Spark hands them to a catalog: clauses are
    among them."""
    provider = properties.get("provider")
    if provider is not None and provider.lower() != "delta":
        return f"USING {provider}: tables of '{lake}' are Delta tables: USING delta, or .format(\"delta\")"
    if "location" in properties or "external" in properties:
        return (
            f"EXTERNAL, LOCATION or the option 'path': leave it out, '{lake}' chooses the location of its tables. A "
            f"Delta table that is "
            "there comes under the catalog with `turnstile import`; other files: CREATE TABLE ... AS SELECT * FROM "
            "parquet.`/path`"
        )
    if any(key.startswith("hive.") for key in properties):
        return f"STORED AS or ROW FORMAT: leave it out, tables of '{lake}' are Delta tables"
    return _properties(lake, properties)


def changes(lake: str, table_changes: Iterable[JavaObject], schema: str) -> str | None:
    """For ALTER TABLE, with its ``TableChange`` objects. ``schema``: the table's, as JSON."""
    keys = []
    for change in table_changes:
        kind = change.getClass().getSimpleName()
        if kind in ("SetProperty", "RemoveProperty"):
            keys.append(str(change.property()))
        elif kind == "DropFeature" and (reason := dropped_feature(lake, str(change.featureName()), schema)):
            return reason
    if "location" in keys:
        return (
            f"ALTER TABLE ... SET LOCATION: '{lake}' chooses the location of its tables, for good. Copy a table from "
            f"elsewhere with {_SELECT} * FROM delta.`/path`, or bring it under the catalog with `turnstile import`"
        )
    return _properties(lake, keys)


def dropped_feature(lake: str, feature: str, schema: str) -> str | None:
    """For DROP FEATURE. ``schema``: the table's, as JSON. Delta rewrites files for some features,
    by a command that it refuses for catalog-managed tables, after it has changed properties."""
    name = feature.lower()
    statement = f"ALTER TABLE ... DROP FEATURE {feature}"
    if name in _NEEDED:
        return (
            f"{statement}: '{lake}' needs it in its tables. `turnstile export` makes a table of files of one, which "
            f"any Delta may change"
        )
    if name == "deletionvectors":
        return (
            f"{statement}: the feature stays, its deletion vectors can go: SET TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = 'false'), then "
            f"REORG TABLE ... APPLY (PURGE). A table without the feature: {_SELECT}, with that property"
        )
    if name.startswith("typewidening") and "delta.typeChanges" in schema:
        return (
            f"{statement}: columns have changed their types, and Delta cannot rewrite their files here. Copy the table "
            f"with {_SELECT}"
        )
    return None


def iceberg(name: str, url: str, catalog: str) -> str:
    """For statements on an Iceberg table of the catalog. ``name``: the table's, with the lake's;
    ``url``, ``catalog``: the server's."""
    return (
        f"{name} is an Iceberg table, and statements of a lake are Delta's: use it through a catalog of Iceberg's "
        f"(spark.sql.catalog.ICE = org.apache.iceberg.spark.SparkCatalog, ICE.type = rest, ICE.uri = {url}/iceberg, "
        f"ICE.warehouse = {catalog}), "
        "PyIceberg or DuckDB (docs/iceberg.md)"
    )


def purge(lake: str) -> str:
    """For DROP TABLE ... PURGE."""
    return (
        f"DROP TABLE ... PURGE: leave out PURGE. '{lake}' removes the files of a dropped table by itself, after the "
        f"server's grace period, "
        "in which a drop can be taken back; none is removed before"
    )


def _properties(lake: str, keys: Iterable[str]) -> str | None:
    for key in keys:
        if key in (TABLE_ID, _OLD_TABLE_ID):
            return f"the property '{key}' is the identity of a table, which '{lake}' gives it: leave it out"
        if key.startswith(_COORDINATED):
            return f"commits to tables of '{lake}' are coordinated by its server: leave out '{key}'"
    return None


def namespace(lake: str, properties: Iterable[str]) -> str | None:
    """For CREATE SCHEMA and ALTER SCHEMA."""
    if "location" in properties:
        return f"LOCATION of a schema: leave it out, '{lake}' chooses the location of its tables"
    if "collation" in properties:
        return f"DEFAULT COLLATION of a schema: leave it out, '{lake}' keeps none"
    return None


def forced_schema(lake: str, option: str) -> str:
    """For CREATE and REPLACE while ``option`` is set."""
    return (
        f"Delta would write the schema of a table of '{lake}' into spark_catalog's table of that name: SET {option} = "
        f"false"
    )


def clone(lake: str) -> str:
    """For CREATE TABLE ... CLONE into a lake: Delta makes an empty table and then fails to fill
    it."""
    return (
        f"CREATE TABLE ... CLONE: Delta cannot clone into a catalog-managed table. Copy with {_SELECT}, or let the "
        f"server clone a table of '{lake}', with `turnstile catalog clone`"
    )


def convert(lake: str) -> str:
    """For CONVERT TO DELTA with the name of a table of a lake: Delta would convert one of that name
    in ``spark_catalog``."""
    return (
        f"CONVERT TO DELTA: tables of '{lake}' are Delta tables. For one of Spark's own catalog, USE spark_catalog "
        f"first; for "
        "files, name the path: parquet.`/path`"
    )
