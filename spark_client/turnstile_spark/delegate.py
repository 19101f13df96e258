"""The catalog *below* Delta's own: names, locations and namespaces, which Delta cannot know by itself.

Delta's ``DeltaCatalog`` delegates to it. Its ``createTable`` is called when Delta has written version 0 of a table:
that is where a table gets its name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from turnstile_spark.api import TableState
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, Proxy, names_of

#: Keys Spark reserves: the comment has a member of its own, owner and location are not kept.
_COMMENT, _RESERVED = "comment", ("comment", "owner", "location", "collation")
#: Refusals which mean that there is no such table. A namespace that is not there is one: loadTable may throw nothing
#: else. InvalidRequest: no table can have this name.
_NO_TABLE = ("NoSuchTable", "NoSuchNamespace", "NoSuchCatalog", "InvalidRequest")


class LakeCatalog(Proxy):
    """What the catalogs above and below Delta's have in common: ``SupportsNamespaces``, and reading of ``TableCatalog``.

    A namespace of several levels is written ``a.b`` on the server.
    """

    def __init__(self, lake: LakeContext) -> None:
        self.lake, self.jvm = lake, lake.jvm

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lake.name} at {self.lake.api.http.url})"

    def name(self) -> str:
        return self.lake.name

    def initialize(self, name: str, options: JavaObject) -> None:
        """The lake is initialised before Spark knows it."""

    def _split(self, identifier: JavaObject) -> tuple[list[str], str]:
        """Namespace levels and name. One round trip, unless a name needs quotes."""
        text = str(identifier.toString())
        if "`" in text:
            return names_of(identifier.namespace()), str(identifier.name())
        *levels, table = text.split(".")
        return levels, table

    def _state(self, identifier: JavaObject) -> TableState:
        """Loads by name; throws what Spark reports as "table not found" when there is none."""
        levels, table = self._split(identifier)
        if not levels:
            raise self.lake.throw.no_such_table(self.lake.name, table)
        try:
            return self.lake.load(".".join(levels), table)
        except ApiError as e:
            if e.type in _NO_TABLE:
                raise self.lake.throw.no_such_table(self.lake.name, *levels, table) from None
            raise self.lake.throw.other(e) from None

    def _writable(self, state: TableState) -> TableState:
        """Returns ``state``; throws when it is a clone's. A clone's log is its source's, which a change would change."""
        if state.pinned:
            text = (
                f"'{state.name}' is a clone, pinned to version {state.tail.latest} of its source: it cannot be changed"
            )
            raise self.lake.throw.unsupported(text)
        return state

    def tableExists(self, identifier: JavaObject) -> bool:
        levels, table = self._split(identifier)
        if not levels:
            return False
        try:
            self.lake.load(".".join(levels), table)
        except ApiError as e:
            if e.type in _NO_TABLE:
                return False
            raise self.lake.throw.other(e) from None
        return True

    def listTables(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        identifiers = [identifier.of(levels, name) for name in self._tables(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.Identifier", identifiers)

    def listTableSummaries(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        summary = self.jvm.cls("org.apache.spark.sql.connector.catalog.TableSummary")
        summaries = [summary.of(identifier.of(levels, name), "MANAGED") for name in self._tables(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.TableSummary", summaries)

    def _tables(self, levels: JavaObject) -> list[str]:
        names = names_of(levels)
        if not names:
            return []
        try:
            return self.lake.api.tables(".".join(names))
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def useNullableQuerySchema(self) -> bool:
        return True

    def invalidateTable(self, identifier: JavaObject) -> None:
        """Nothing is cached by name."""

    # -- namespaces -----------------------------------------------------------------------------------------------------

    def defaultNamespace(self) -> JavaObject:
        return self.jvm.strings(["default"])

    def listNamespaces(self, *parent: JavaObject) -> JavaObject:
        above = names_of(parent[0]) if parent else []
        if above:
            self.loadNamespaceMetadata(parent[0])
        try:
            names = [name.split(".") for name in self.lake.api.namespaces()]
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, above) from None
        depth = len(above) + 1
        children = {
            tuple(levels[:depth]) for levels in names if len(levels) >= depth and levels[:-1][: depth - 1] == above
        }
        return self.jvm.string_arrays([list(levels) for levels in sorted(children)])

    def namespaceExists(self, levels: JavaObject) -> bool:
        names = names_of(levels)
        if not names:
            return True
        try:
            self.lake.api.namespace(".".join(names))
        except ApiError as e:
            if e.type in ("NoSuchNamespace", "NoSuchCatalog", "InvalidRequest"):
                return False
            raise self.lake.throw.namespace_error(e, names) from None
        return True

    def loadNamespaceMetadata(self, levels: JavaObject) -> JavaObject:
        names = names_of(levels)
        name = ".".join(names)
        try:
            namespace = self.lake.freshness.once_per_analysis(
                "namespace " + name, lambda: self.lake.api.namespace(name)
            )
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None
        values = {str(k): str(v) for k, v in (namespace.get("properties") or {}).items()}
        if namespace.get("comment"):
            values[_COMMENT] = namespace["comment"]
        return self.jvm.hash_map(values)

    def createNamespace(self, levels: JavaObject, properties: JavaObject) -> None:
        names, values = names_of(levels), {str(k): str(v) for k, v in dict(properties).items()}
        properties_kept = {k: v for k, v in values.items() if k not in _RESERVED}
        try:
            self.lake.api.create_namespace(".".join(names), values.get(_COMMENT), properties_kept)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def alterNamespace(self, levels: JavaObject, changes: JavaObject) -> None:
        names, updates, removals, comment = names_of(levels), {}, [], None
        for change in changes:
            key = change.property()
            if change.getClass().getSimpleName() == "RemoveProperty":
                removals.append(key)
            elif key == _COMMENT:
                comment = change.value()
            else:
                updates[key] = change.value()
        try:
            self.lake.api.alter_namespace(".".join(names), comment, updates, removals)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def dropNamespace(self, levels: JavaObject, cascade: bool) -> bool:
        names = names_of(levels)
        try:
            return self.lake.api.drop_namespace(".".join(names), bool(cascade))
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None


class Delegate(LakeCatalog):
    """``TableCatalog``, ``SupportsNamespaces`` and ``FunctionCatalog`` below ``DeltaCatalog``."""

    def loadTable(self, identifier: JavaObject, *_: Any) -> JavaObject:
        state = getattr(self.lake.handed, "state", None)  # see LakeContext
        state = state or self._writable(self._state(identifier))
        return self.lake.v1_tables.v1_table(state)

    def createTable(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        """Registers a table whose version 0 Delta has just written."""
        properties = definition[0].properties() if len(definition) == 1 else definition[2]
        levels, table = self._split(identifier)
        table_id = self.lake.take_staged_id(str(properties.get("location")))
        if table_id is None:
            raise self.lake.throw.unsupported("a lake holds only the Delta tables that it creates itself")
        try:
            state = self.lake.api.register(".".join(levels), table, table_id)
        except ApiError as e:
            raise self.lake.throw.table_error(e, self.lake.name, *levels, table) from None
        self.lake.learn(state)
        return self.lake.v1_tables.v1_table(state)

    def capabilities(self) -> JavaObject:
        return self.jvm.new("java.util.HashSet")

    def supportedCustomMetrics(self) -> JavaObject:
        return self.jvm.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        raise self.lake.throw.unsupported("ALTER TABLE of something that is not a Delta table")

    def createTableLike(self, *_: Any) -> JavaObject:
        raise self.lake.throw.unsupported("CREATE TABLE LIKE reaches the lake above Delta's catalog")

    def dropTable(self, identifier: JavaObject) -> bool:
        raise self.lake.throw.unsupported("DROP TABLE reaches the lake above Delta's catalog")

    def purgeTable(self, identifier: JavaObject) -> bool:
        raise self.lake.throw.unsupported("DROP TABLE PURGE reaches the lake above Delta's catalog")

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        raise self.lake.throw.unsupported("RENAME reaches the lake above Delta's catalog")

    def loadChangelog(self, *_: Any) -> JavaObject:
        raise self.lake.throw.unsupported("Delta reads change data itself")

    def listFunctions(self, levels: JavaObject) -> JavaObject:
        return self.jvm.array("org.apache.spark.sql.connector.catalog.Identifier", [])

    def loadFunction(self, identifier: JavaObject) -> JavaObject:
        raise self.lake.throw.no_such_function(identifier)

    def functionExists(self, identifier: JavaObject) -> bool:
        return False

    class Java:
        implements: ClassVar = [
            "org.apache.spark.sql.connector.catalog.TableCatalog",
            "org.apache.spark.sql.connector.catalog.SupportsNamespaces",
            "org.apache.spark.sql.connector.catalog.FunctionCatalog",
        ]
