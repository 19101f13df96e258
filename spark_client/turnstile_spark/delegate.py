"""The catalog *below* Delta's own: answers what Delta cannot know by itself, names, locations and namespaces.

Delta's ``DeltaCatalog`` delegates to it. Its ``createTable`` is called when Delta has written version 0 of a table:
that is where a table gets its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from turnstile_spark.answers import TableState
from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, names_of
from turnstile_spark.namespaces import Namespaces

if TYPE_CHECKING:
    from turnstile_spark.lake import Lake


class Reading(Namespaces):
    """The methods that the catalogs above and below Delta's have in common."""

    def __init__(self, lake: Lake) -> None:
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
        """Loads by name, or raises what Spark turns into "table not found"."""
        levels, table = self._split(identifier)
        if not levels:
            raise self.lake.throw.no_such_table(self.lake.name, table)
        try:
            return self.lake.load(".".join(levels), table)
        except ApiError as e:
            # A namespace that is not there is a table that is not there: loadTable may throw nothing else. InvalidRequest:
            # no table can have this name.
            if e.type in ("NoSuchTable", "NoSuchNamespace", "NoSuchCatalog", "InvalidRequest"):
                raise self.lake.throw.no_such_table(self.lake.name, *levels, table) from None
            raise self.lake.throw.other(e) from None

    def _own(self, state: TableState) -> TableState:
        """``state`` of a table that may be changed. A clone's log is its source's: a change would be one of the source."""
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
            if e.type in ("NoSuchTable", "NoSuchNamespace", "NoSuchCatalog", "InvalidRequest"):
                return False
            raise self.lake.throw.other(e) from None
        return True

    def listTables(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        found = [identifier.of(levels, name) for name in self._tables(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.Identifier", found)

    def listTableSummaries(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        summary = self.jvm.cls("org.apache.spark.sql.connector.catalog.TableSummary")
        found = [summary.of(identifier.of(levels, name), "MANAGED") for name in self._tables(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.TableSummary", found)

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


class Delegate(Reading):
    """``TableCatalog``, ``SupportsNamespaces`` and ``FunctionCatalog`` below ``DeltaCatalog``."""

    def loadTable(self, identifier: JavaObject, *_: Any) -> JavaObject:
        state = getattr(self.lake.handed, "state", None)  # what the catalog above has just loaded, on this thread
        state = state or self._own(self._state(identifier))
        return self.lake.v1_tables.v1_table(state)

    def createTable(self, identifier: JavaObject, *given: Any) -> JavaObject:
        """Registers a table whose version 0 Delta has just written."""
        properties = given[0].properties() if len(given) == 1 else given[2]
        levels, table = self._split(identifier)
        table_id = self.lake.staged_id(str(properties.get("location")))
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
