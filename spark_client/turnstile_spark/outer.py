"""The catalog that Spark sees: creates, replaces, drops and renames; the rest it passes to Delta's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from turnstile_spark.delegate import Delegate, Reading
from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, names_of
from turnstile_spark.native_create import delta_catalog, lean

if TYPE_CHECKING:
    from turnstile_spark.answers import TableState
    from turnstile_spark.lake import Lake

#: Properties of a table that CREATE TABLE LIKE does not take over: they belong to that one table.
_OWN = ("delta.feature.", "delta.min", "delta.rowTracking.", "delta.columnMapping.max", "delta.inCommitTimestamp",
        "delta.enableInCommitTimestamps", "delta.lastUpdate", "delta.lastCommit")  # fmt: skip


class Outer(Reading):
    """``StagingTableCatalog`` and ``SupportsNamespaces`` for one session (a JVM ``SparkSession``)."""

    def __init__(self, lake: Lake, session: JavaObject) -> None:
        super().__init__(lake)
        self.session = session
        self.inner = delta_catalog(self.jvm, session, lake.name, Delegate(lake))
        self._capabilities = self.inner.capabilities()

    def loadTable(self, identifier: JavaObject, *how: Any) -> JavaObject:
        state = self.lake.handed.state = self._state(identifier)
        try:
            if state.pinned:
                return self.inner.loadTable(identifier, self._pinned(state, *how))
            if how and isinstance(how[0], (int, str)):  # time travel, by timestamp (µs) or version
                return self.inner.loadTable(identifier, how[0])
            loaded = self.inner.loadTable(identifier)  # a set of write privileges is not passed on
        finally:
            self.lake.handed.state = None
        self.lake.freshness.loaded(state.table_id, state.tail)
        return loaded

    def _pinned(self, state: TableState, *how: Any) -> str:
        """The version of a clone to read: the one that it shows, or an earlier one that is asked for."""
        latest, asked = state.tail.latest, how[0] if how else None
        if asked is None:
            return str(latest)
        if isinstance(asked, str) and asked.isdigit() and int(asked) <= latest:
            return asked
        what = "versions after it, and times," if isinstance(asked, (int, str)) else "writes"
        text = f"'{state.name}' is a clone, pinned to version {latest} of its source: {what} are its source's"
        raise self.lake.throw.unsupported(text)

    def capabilities(self) -> JavaObject:
        return self._capabilities

    def supportedCustomMetrics(self) -> JavaObject:
        return self.inner.supportedCustomMetrics()

    def loadChangelog(self, identifier: JavaObject, context: JavaObject, options: JavaObject) -> JavaObject:
        return self.inner.loadChangelog(identifier, context, options)

    # -- create and replace -----------------------------------------------------------------------------------------

    def createTable(self, identifier: JavaObject, *given: Any) -> JavaObject:
        columns, partitions, properties = _parts(given)
        return self.inner.createTable(identifier, columns, partitions, self._for_new(identifier, properties))

    def stageCreate(self, identifier: JavaObject, *given: Any) -> JavaObject:
        columns, partitions, properties = _parts(given)
        return self.inner.stageCreate(identifier, columns, partitions, self._for_new(identifier, properties))

    def stageReplace(self, identifier: JavaObject, *given: Any) -> JavaObject:
        self._own(self._state(identifier))  # "table not found" now, not when the data is written
        columns, partitions, properties = _parts(given)
        return self.inner.stageReplace(identifier, columns, partitions, self._for_old(properties))

    def stageCreateOrReplace(self, identifier: JavaObject, *given: Any) -> JavaObject:
        columns, partitions, properties = _parts(given)
        there = self.tableExists(identifier)
        if there:
            self._own(self._state(identifier))
        prepared = self._for_old(properties) if there else self._for_new(identifier, properties)
        return self.inner.stageCreateOrReplace(identifier, columns, partitions, prepared)

    def createTableLike(self, identifier: JavaObject, given: JavaObject, source: JavaObject) -> JavaObject:
        properties = self.jvm.new("java.util.HashMap")
        for key, value in dict(source.properties()).items():
            if key == "comment" or (key.startswith("delta.") and not key.startswith(_OWN)):
                properties.put(key, value)
        properties.putAll(given.properties())
        if str(properties.get("provider") or "delta").lower() != "delta":
            properties.put("provider", "delta")
        columns = given.columns() if len(given.columns()) else source.columns()
        partitions = given.partitions() if len(given.partitions()) else source.partitioning()
        return self.inner.createTable(identifier, columns, partitions, self._for_new(identifier, properties))

    def _checked(self, properties: JavaObject) -> JavaObject:
        """A copy of the user's properties, refused where a lake cannot do what they ask."""
        provider = properties.get("provider")
        if provider is not None and str(provider).lower() != "delta":
            raise self.lake.throw.unsupported(f"tables of '{self.lake.name}' are Delta tables: USING {provider} is not")
        if properties.get("location") is not None or properties.get("external") is not None:
            text = f"'{self.lake.name}' chooses the location of its tables: leave out LOCATION and EXTERNAL"
            raise self.lake.throw.unsupported(text)
        made = self.jvm.new("java.util.HashMap", properties)
        made.put("provider", "delta")
        made.put("is_managed_location", "true")
        lean(made, self.session)
        return made

    def _for_old(self, properties: JavaObject) -> JavaObject:
        return self._checked(properties)

    def _for_new(self, identifier: JavaObject, properties: JavaObject) -> JavaObject:
        made = self._checked(properties)
        levels, table = self._split(identifier)
        if not levels:
            raise self.lake.throw.no_such_namespace([self.lake.name])
        try:
            staged = self.lake.stage(".".join(levels), table)
        except ApiError as e:
            raise self.lake.throw.table_error(e, self.lake.name, *levels, table) from None
        for key, value in staged.items():
            made.put(key, value)
        return made

    # -- drop, rename, alter ----------------------------------------------------------------------------------------

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        self._own(self._state(identifier))
        return self.inner.alterTable(identifier, changes)

    def dropTable(self, identifier: JavaObject) -> bool:
        levels, table = self._split(identifier)
        try:
            return self.lake.api.drop(".".join(levels), table)
        except ApiError as e:
            raise self.lake.throw.other(e) from None

    def purgeTable(self, identifier: JavaObject) -> bool:
        text = f"DROP TABLE PURGE: tables of '{self.lake.name}' are purged by the server after its grace period"
        raise self.lake.throw.unsupported(text)

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        levels, table = self._split(old)
        to_levels, to_table = names_of(new.namespace()), str(new.name())
        if len(to_levels) > 1 and to_levels[0] == self.lake.name:  # Spark passes the catalog's name on
            to_levels = to_levels[1:]
        to_levels = to_levels or levels
        try:
            self.lake.api.rename(".".join(levels), table, ".".join(to_levels), to_table)
        except ApiError as e:
            if e.type == "AlreadyExists":
                raise self.lake.throw.table_exists(self.lake.name, *to_levels, to_table) from None
            if e.type in ("NoSuchTable", "NoSuchNamespace"):
                raise self.lake.throw.no_such_table(self.lake.name, *levels, table) from None
            raise self.lake.throw.other(e) from None

    class Java:
        implements: ClassVar = [
            "org.apache.spark.sql.connector.catalog.StagingTableCatalog",
            "org.apache.spark.sql.connector.catalog.SupportsNamespaces",
        ]


def _parts(given: tuple[Any, ...]) -> tuple[JavaObject, JavaObject, JavaObject]:
    """Columns (or schema), partitions, properties: from three arguments or one ``TableInfo``."""
    if len(given) == 1:
        return given[0].columns(), given[0].partitions(), given[0].properties()
    return given[0], given[1], given[2]
