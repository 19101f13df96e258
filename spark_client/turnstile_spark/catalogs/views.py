"""Views of a lake: Spark's ``ViewCatalog`` on the views of the server's Iceberg API.

A view is an entity of the catalog, which Iceberg's clients see, too. Its SQL has the dialect
``spark``, and its columns have Iceberg's types: ``tinyint`` and ``smallint`` become ``int``,
``char`` and ``varchar`` become ``string``; Spark casts the query's results when it reads the view.
Further members of Spark's view (its configuration when the view was made) are in the summary of the
view's version. A view in another dialect, of another engine, is refused.

A view that is made while the lake is the current catalog keeps no catalog name: its names are
looked up in the catalog that the view is loaded from, under any name of that catalog in a session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnstile_http.errors import ApiError
from turnstile_http.http import Http, now_ms, path
from turnstile_http.names import check_name
from turnstile_spark.jvm import JavaObject, Jvm, names_of, string_dict

DIALECT: Final = "spark"
#: As Iceberg's Spark catalog writes it, in the properties of a view; here in the summary of its
#: version as well.
_QUERY_COLUMNS: Final = "spark.query-column-names"
_SCHEMA_MODE: Final = "spark.schema-mode"
_CONF: Final = "spark.conf."
#: Properties that are no user's: of Spark (the kind of relation), and of this module.
_OWN: Final = ("table_type", _QUERY_COLUMNS)

_SIMPLE: Final = {
    "boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float",
    "double": "double", "string": "string", "binary": "binary", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}  # fmt: skip
_SPARK: Final = {
    **{iceberg: spark for spark, iceberg in _SIMPLE.items() if spark not in ("byte", "short")},
    "uuid": "string", "time": "string", "timestamp_ns": "timestamp_ntz", "timestamptz_ns": "timestamp",
}  # fmt: skip


class ViewNotForSpark(Exception):
    """A view, or a definition of one, that Spark and Iceberg cannot both have. The message has the
    reason, and the remedy."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as Spark has it. ``schema``: Spark's JSON of a ``StructType``; ``catalog``: the
    current catalog when the view was made, None for the one that it is in; ``query_columns``: the
    names of the columns in the query.
    """

    sql: str
    schema: dict[str, Any]
    catalog: str | None
    namespace: tuple[str, ...]
    properties: Mapping[str, str]
    conf: Mapping[str, str]
    schema_mode: str | None
    query_columns: tuple[str, ...]


class ViewApi:
    """The view calls of one server for one of its catalogs. They raise :class:`ApiError`."""

    def __init__(self, http: Http, catalog: str) -> None:
        self._http = http
        self._catalog = catalog

    def _route(self, levels: list[str], *rest: str) -> str:
        namespace = "\x1f".join(check_name(level, "namespace") for level in levels)
        return path("iceberg", "v1", self._catalog, "namespaces", namespace, "views", *rest)

    def names(self, levels: list[str]) -> list[str]:
        """The names of the views in a namespace."""
        names: list[str] = []
        token: str | None = ""
        while True:
            query = {"pageToken": token, "pageSize": 1000}
            response = self._http.call("views", "GET", self._route(levels), query=query)
            names += [str(identifier["name"]) for identifier in response["identifiers"]]
            token = response.get("next-page-token")
            if not token:
                return names

    def load(self, levels: list[str], name: str) -> dict[str, Any]:
        """The metadata of a view."""
        response = self._http.call("view", "GET", self._route(levels, check_name(name, "view")))
        return dict(response["metadata"])

    def create(self, levels: list[str], name: str, definition: ViewDefinition) -> None:
        """Creates a view."""
        schema, version, properties = _iceberg(definition)
        body = {"name": check_name(name, "view"), "schema": schema, "view-version": version, "properties": properties}
        self._http.call("create view", "POST", self._route(levels), body, change=True)

    def replace(self, levels: list[str], name: str, definition: ViewDefinition) -> None:
        """Replaces the definition and the properties of a view by one change."""
        before = self.load(levels, name)
        schema, version, properties = _iceberg(definition)
        gone = sorted(set(before.get("properties") or {}) - set(properties))
        updates: list[dict[str, Any]] = [
            {"action": "add-schema", "schema": schema},
            {"action": "add-view-version", "view-version": {**version, "schema-id": -1}},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        if properties:
            updates.append({"action": "set-properties", "updates": properties})
        if gone:
            updates.append({"action": "remove-properties", "removals": gone})
        body = {"requirements": [{"type": "assert-view-uuid", "uuid": before["view-uuid"]}], "updates": updates}
        self._http.call("replace view", "POST", self._route(levels, name), body, change=True)

    def drop(self, levels: list[str], name: str) -> bool:
        """Drops a view; False when there is none."""
        route = self._route(levels, check_name(name, "view"))
        try:
            self._http.call("drop view", "DELETE", route, change=True)
        except ApiError as e:
            if e.type in NO_VIEW:
                return False
            raise
        return True

    def rename(self, levels: list[str], name: str, to_levels: list[str], to_name: str) -> None:
        """Renames a view, also into another namespace."""
        ends = {"source": (levels, name), "destination": (to_levels, to_name)}
        body = {
            end: {"namespace": [check_name(level, "namespace") for level in of], "name": check_name(named, "view")}
            for end, (of, named) in ends.items()
        }
        route = path("iceberg", "v1", self._catalog, "views", "rename")
        self._http.call("rename view", "POST", route, body, change=True)


#: Refusals which mean that there is no such view.
NO_VIEW: Final = ("NoSuchViewException", "NoSuchNamespaceException", "NoSuchTableException", "InvalidName")


# -- Iceberg's view metadata -------------------------------------------------------------------------------------------


def _iceberg(definition: ViewDefinition) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Schema, version and properties in Iceberg's JSON. Raises ViewNotForSpark."""
    ids = iter(range(1, 1_000_000))
    schema = {**_to_iceberg(definition.schema, ids), "schema-id": 0}
    columns = ",".join(definition.query_columns)
    if columns.count(",") >= max(len(definition.query_columns), 1):
        raise ViewNotForSpark("a column of the query has a comma in its name: give it another with AS")
    summary = {"engine-name": "spark", _QUERY_COLUMNS: columns}
    summary |= {_CONF + key: value for key, value in definition.conf.items()}
    if definition.schema_mode:
        summary[_SCHEMA_MODE] = definition.schema_mode
    version: dict[str, Any] = {
        "version-id": 1,
        "timestamp-ms": now_ms(),
        "schema-id": 0,
        "summary": summary,
        "representations": [{"type": "sql", "sql": definition.sql, "dialect": DIALECT}],
        "default-namespace": list(definition.namespace),
    }
    if definition.catalog is not None:
        version["default-catalog"] = definition.catalog
    return schema, version, {**definition.properties, _QUERY_COLUMNS: columns}


def definition_of(name: str, metadata: Mapping[str, Any]) -> ViewDefinition:
    """The view in Iceberg's metadata. Raises ViewNotForSpark."""
    version = next(v for v in metadata["versions"] if v["version-id"] == metadata["current-version-id"])
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == version["schema-id"])
    by_dialect = {r["dialect"].lower(): r["sql"] for r in version["representations"]}
    if DIALECT not in by_dialect:
        dialects = ", ".join(sorted(by_dialect))
        raise ViewNotForSpark(
            f"view '{name}' has no SQL for Spark, only for {dialects}: CREATE OR REPLACE it from Spark"
        )
    properties = dict(metadata.get("properties") or {})
    summary = version.get("summary") or {}
    columns = summary.get(_QUERY_COLUMNS, properties.get(_QUERY_COLUMNS, ""))
    names = tuple(columns.split(",")) if columns else ()
    return ViewDefinition(
        sql=by_dialect[DIALECT],
        schema=_to_spark(schema),
        catalog=version.get("default-catalog"),
        namespace=tuple(version["default-namespace"]),
        properties={key: value for key, value in properties.items() if key not in _OWN},
        conf={key.removeprefix(_CONF): value for key, value in summary.items() if key.startswith(_CONF)},
        schema_mode=summary.get(_SCHEMA_MODE),
        query_columns=names if len(names) == len(schema["fields"]) else (),
    )


def _to_iceberg(spark: Any, ids: Any) -> Any:
    """A type in Spark's JSON as Iceberg's JSON, with ids from the iterator ``ids``. Raises
    ViewNotForSpark."""
    if isinstance(spark, dict) and spark["type"] == "struct":
        fields = []
        for field in spark["fields"]:
            column = {"id": next(ids), "name": field["name"], "required": not field["nullable"]}
            column["type"] = _to_iceberg(field["type"], ids)
            metadata = field.get("metadata") or {}
            if "__COLLATIONS" in metadata:
                raise ViewNotForSpark(
                    f"a view's column cannot have a collation, as '{field['name']}' has: CAST it in the query"
                )
            if comment := metadata.get("comment"):
                column["doc"] = comment
            fields.append(column)
        return {"type": "struct", "fields": fields}
    if isinstance(spark, dict) and spark["type"] == "array":
        return {
            "type": "list",
            "element-id": next(ids),
            "element-required": not spark["containsNull"],
            "element": _to_iceberg(spark["elementType"], ids),
        }
    if isinstance(spark, dict) and spark["type"] == "map":
        return {
            "type": "map",
            "key-id": next(ids),
            "key": _to_iceberg(spark["keyType"], ids),
            "value-id": next(ids),
            "value-required": not spark["valueContainsNull"],
            "value": _to_iceberg(spark["valueType"], ids),
        }
    if isinstance(spark, str) and (spark in _SIMPLE or spark.startswith(("decimal(", "char(", "varchar("))):
        return _SIMPLE.get(spark) or (spark if spark.startswith("decimal(") else "string")
    text = spark if isinstance(spark, str) else spark["type"]
    raise ViewNotForSpark(f"a view's column cannot have the type {text}, which Iceberg has not: CAST it in the query")


def _to_spark(iceberg: Any) -> Any:
    """A type in Iceberg's JSON as Spark's JSON. Raises ViewNotForSpark."""
    if isinstance(iceberg, str):
        if iceberg.startswith("decimal("):
            return iceberg.replace(" ", "")
        if iceberg.startswith("fixed["):
            return "binary"
        if iceberg in _SPARK:
            return _SPARK[iceberg]
        raise ViewNotForSpark(f"a view's column has the type {iceberg}, which Spark has not")
    if iceberg["type"] == "struct":
        fields = [
            {
                "name": field["name"],
                "type": _to_spark(field["type"]),
                "nullable": not field["required"],
                "metadata": {"comment": field["doc"]} if field.get("doc") else {},
            }
            for field in iceberg["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if iceberg["type"] == "list":
        element = _to_spark(iceberg["element"])
        return {"type": "array", "elementType": element, "containsNull": not iceberg["element-required"]}
    return {
        "type": "map",
        "keyType": _to_spark(iceberg["key"]),
        "valueType": _to_spark(iceberg["value"]),
        "valueContainsNull": not iceberg["value-required"],
    }


# -- Spark's View ------------------------------------------------------------------------------------------------------


def from_java(view: JavaObject, lake: str) -> ViewDefinition:
    """The definition in Spark's ``View``, for the lake of that name."""
    properties = string_dict(view.properties())
    if properties.get("table_type", "VIEW") != "VIEW":
        raise ViewNotForSpark(f"'{lake}' holds plain views: a {properties['table_type']} is not one")
    if "EVOLUTION" in (mode := str(view.schemaMode() or "")):
        raise ViewNotForSpark(f"WITH SCHEMA {mode}: Spark adapts such views in its own catalog only. Leave it out")
    catalog = view.currentCatalog()
    return ViewDefinition(
        sql=str(view.queryText()),
        schema=json.loads(view.schema().json()),
        catalog=None if catalog == lake else catalog,
        namespace=tuple(names_of(view.currentNamespace() or [])),
        properties={k: v for k, v in properties.items() if k not in _OWN},
        conf=string_dict(view.sqlConfigs()),
        schema_mode=view.schemaMode(),
        query_columns=tuple(names_of(view.queryColumnNames() or [])),
    )


def to_java(jvm: Jvm, definition: ViewDefinition, lake: str) -> JavaObject:
    """Spark's ``View`` for a definition that is loaded from the lake of that name."""
    schema = jvm.cls("org.apache.spark.sql.types.DataType").fromJson(json.dumps(definition.schema))
    builder = jvm.new("org.apache.spark.sql.connector.catalog.View$Builder")
    builder.withSchema(schema).withProperties(jvm.hash_map(definition.properties)).withQueryText(definition.sql)
    builder.withCurrentCatalog(definition.catalog or lake).withCurrentNamespace(jvm.strings(definition.namespace))
    builder.withSqlConfigs(jvm.hash_map(definition.conf)).withQueryColumnNames(jvm.strings(definition.query_columns))
    builder.withSchemaMode("COMPENSATION" if definition.schema_mode == "COMPENSATION" else "BINDING")
    return builder.build()
