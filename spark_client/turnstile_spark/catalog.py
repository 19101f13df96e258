"""The catalog that Spark sees: creates, replaces, drops and renames; the rest it passes to Delta's catalog below it.

Delta writes version 0 of a table itself (so identity, generated and default columns, clustering and everything else it
knows are there), and replaces a table as one commit that keeps its history. It does so for managed tables of a catalog
that it takes for Unity Catalog, which it concludes from the class name of the catalog below: :func:`_delta_catalog`
sets that conclusion.
"""

from __future__ import annotations

from typing import Any, ClassVar

from turnstile_spark.api import TableState
from turnstile_spark.context import LakeContext
from turnstile_spark.delegate import Delegate, LakeCatalog
from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, Jvm, names_of

_ABSTRACT = "org.apache.spark.sql.delta.catalog.AbstractDeltaCatalog"
#: Private ``lazy val isUnityCatalog`` of AbstractDeltaCatalog: its field and its accessor have this expanded name.
IS_UNITY = "org$apache$spark$sql$delta$catalog$AbstractDeltaCatalog$$isUnityCatalog"

#: Set unless the user says otherwise; Delta's defaults for catalog-managed tables are richer. Row tracking makes a
#: one-row INSERT several times slower (every writer then needs the whole state of the table); v2 checkpoints cost no
#: measurable time, but shut out readers that do not know them.
_LEAN = {"delta.enableRowTracking": "false", "delta.checkpointPolicy": "classic"}
_DEFAULTS = "spark.databricks.delta.properties.defaults."
#: Properties of a table that CREATE TABLE LIKE does not take over: they belong to that one table.
_NOT_COPIED = ("delta.feature.", "delta.min", "delta.rowTracking.", "delta.columnMapping.max", "delta.inCommitTimestamp",
        "delta.enableInCommitTimestamps", "delta.lastUpdate", "delta.lastCommit")  # fmt: skip


class SparkCatalog(LakeCatalog):
    """``StagingTableCatalog`` and ``SupportsNamespaces`` for one session (a JVM ``SparkSession``)."""

    def __init__(self, lake: LakeContext, session: JavaObject) -> None:
        super().__init__(lake)
        self.session = session
        self.inner = _delta_catalog(self.jvm, session, lake.name, Delegate(lake))
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
        """The version of a clone to read: the one that it shows, or the earlier one that the statement names."""
        latest, wanted = state.tail.latest, how[0] if how else None
        if wanted is None:
            return str(latest)
        if isinstance(wanted, str) and wanted.isdigit() and int(wanted) <= latest:
            return wanted
        what = "versions after it, and times," if isinstance(wanted, (int, str)) else "writes"
        text = f"'{state.name}' is a clone, pinned to version {latest} of its source: {what} are its source's"
        raise self.lake.throw.unsupported(text)

    def capabilities(self) -> JavaObject:
        return self._capabilities

    def supportedCustomMetrics(self) -> JavaObject:
        return self.inner.supportedCustomMetrics()

    def loadChangelog(self, identifier: JavaObject, context: JavaObject, options: JavaObject) -> JavaObject:
        return self.inner.loadChangelog(identifier, context, options)

    # -- create and replace -----------------------------------------------------------------------------------------

    def createTable(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        return self.inner.createTable(identifier, columns, partitions, self._for_new(identifier, properties))

    def stageCreate(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        return self.inner.stageCreate(identifier, columns, partitions, self._for_new(identifier, properties))

    def stageReplace(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        self._writable(self._state(identifier))  # "table not found" before the data is written
        columns, partitions, properties = _parts(definition)
        return self.inner.stageReplace(identifier, columns, partitions, self._checked(properties))

    def stageCreateOrReplace(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        exists = self.tableExists(identifier)
        if exists:
            self._writable(self._state(identifier))
        prepared = self._checked(properties) if exists else self._for_new(identifier, properties)
        return self.inner.stageCreateOrReplace(identifier, columns, partitions, prepared)

    def createTableLike(self, identifier: JavaObject, definition: JavaObject, source: JavaObject) -> JavaObject:
        properties = self.jvm.new("java.util.HashMap")
        for key, value in dict(source.properties()).items():
            if key == "comment" or (key.startswith("delta.") and not key.startswith(_NOT_COPIED)):
                properties.put(key, value)
        properties.putAll(definition.properties())
        if str(properties.get("provider") or "delta").lower() != "delta":
            properties.put("provider", "delta")
        columns = definition.columns() if len(definition.columns()) else source.columns()
        partitions = definition.partitions() if len(definition.partitions()) else source.partitioning()
        return self.inner.createTable(identifier, columns, partitions, self._for_new(identifier, properties))

    def _checked(self, properties: JavaObject) -> JavaObject:
        """A copy of the user's properties with what Delta needs; throws when a lake cannot do what they demand."""
        provider = properties.get("provider")
        if provider is not None and str(provider).lower() != "delta":
            raise self.lake.throw.unsupported(f"tables of '{self.lake.name}' are Delta tables: USING {provider} is not")
        if properties.get("location") is not None or properties.get("external") is not None:
            text = f"'{self.lake.name}' chooses the location of its tables: leave out LOCATION and EXTERNAL"
            raise self.lake.throw.unsupported(text)
        prepared = self.jvm.new("java.util.HashMap", properties)
        prepared.put("provider", "delta")
        prepared.put("is_managed_location", "true")
        _add_lean(prepared, self.session)
        return prepared

    def _for_new(self, identifier: JavaObject, properties: JavaObject) -> JavaObject:
        """The properties of a new table, for which id and location are reserved."""
        prepared = self._checked(properties)
        levels, table = self._split(identifier)
        if not levels:
            raise self.lake.throw.no_such_namespace([self.lake.name])
        try:
            staged = self.lake.stage(".".join(levels), table)
        except ApiError as e:
            raise self.lake.throw.table_error(e, self.lake.name, *levels, table) from None
        for key, value in staged.items():
            prepared.put(key, value)
        return prepared

    # -- drop, rename, alter ----------------------------------------------------------------------------------------

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        self._writable(self._state(identifier))
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


def _parts(definition: tuple[Any, ...]) -> tuple[JavaObject, JavaObject, JavaObject]:
    """Columns (or schema), partitions, properties: from three arguments or one ``TableInfo``."""
    if len(definition) == 1:
        return definition[0].columns(), definition[0].partitions(), definition[0].properties()
    return definition[0], definition[1], definition[2]


def _delta_catalog(jvm: Jvm, session: JavaObject, name: str, delegate: Any) -> JavaObject:
    """A ``DeltaCatalog`` above ``delegate`` that works for ``session`` (a JVM ``SparkSession``)."""
    sessions = jvm.cls("org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)  # DeltaCatalog keeps the session that is active when it is created
    try:
        inner = jvm.new("org.apache.spark.sql.delta.catalog.DeltaCatalog")
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
    no_options = jvm.new("org.apache.spark.sql.util.CaseInsensitiveStringMap", jvm.new("java.util.HashMap"))
    inner.initialize(name, no_options)
    inner.setDelegateCatalog(delegate)
    # Both lazy values are computed with the truth first: no Unity Catalog REST client is created.
    if inner.deltaCatalogClient().isDefined() or getattr(inner, IS_UNITY)():
        raise RuntimeError("DeltaCatalog takes a Python catalog for Unity Catalog by itself")
    field = jvm.class_for_name(_ABSTRACT).getDeclaredField(IS_UNITY)
    field.setAccessible(True)
    field.setBoolean(inner, True)
    return inner


def _add_lean(properties: JavaObject, session: JavaObject) -> None:
    """Adds :data:`_LEAN` to the properties of a new or replaced table, where neither user nor session sets them."""
    conf = session.conf()
    for key, value in _LEAN.items():
        feature = "rowTracking" if "RowTracking" in key else "v2Checkpoint"
        is_set = properties.containsKey(key) or properties.containsKey(f"delta.feature.{feature}")
        if not is_set and not conf.getOption(_DEFAULTS + key.removeprefix("delta.")).isDefined():
            properties.put(key, value)
