"""The catalog that Spark sees: creates, replaces, drops and renames; the rest it passes to Delta's
catalog below it.

Delta writes version 0 of a table itself (so identity, generated and default columns, clustering and
everything else it knows are there), and replaces a table as one commit that keeps its history. It
does so for managed tables of a catalog that it takes for Unity Catalog, which it concludes from the
class name of the catalog below: :func:`_delta_catalog` sets that conclusion.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar

from turnstile_http.api import TableState
from turnstile_http.errors import ApiError
from turnstile_http.names import check_name, dotted_name
from turnstile_spark import refusals
from turnstile_spark.catalogs.delegate import Delegate, ScopeDelegate
from turnstile_spark.catalogs.view_catalog import ViewsOfLake
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.table import scala_seq
from turnstile_spark.errors import TurnstileError
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, string_dict
from turnstile_spark.names import is_path
from turnstile_spark.transactions.scopes import cut_log
from turnstile_spark.transactions.scopes.catalog_changes import Name
from turnstile_spark.transactions.scopes.scope import OPTION, Scope

_ABSTRACT = "org.apache.spark.sql.delta.catalog.AbstractDeltaCatalog"
V1 = "org.apache.spark.sql.catalyst.catalog."
#: Private ``lazy val isUnityCatalog`` of AbstractDeltaCatalog: its field and its accessor have this
#: expanded name.
IS_UNITY = "org$apache$spark$sql$delta$catalog$AbstractDeltaCatalog$$isUnityCatalog"

#: Resolves a name in the current catalog, and then converts what has that schema and name in
#: ``spark_catalog``.
_CONVERT = "org.apache.spark.sql.delta.commands.ConvertToDeltaCommand"
#: Off by default. Delta then sets the schema of what has the new table's schema and name in
#: ``spark_catalog``.
_FORCED_SCHEMA = "spark.databricks.delta.hms.schema.forceAlterTableDataSchema"
#: Set unless the user says otherwise; Delta's defaults for catalog-managed tables are richer. Row
#: tracking makes a one-row INSERT several times slower (every writer then needs the whole state of
#: the table); v2 checkpoints cost no measurable time, but shut out readers that do not know them.
_LEAN = {"delta.enableRowTracking": "false", "delta.checkpointPolicy": "classic"}
_REPLACE = "REPLACE TABLE, or mode('overwrite') with saveAsTable"
RELATION_CATALOG = "org.apache.spark.sql.connector.catalog.RelationCatalog"
_DEFAULTS = "spark.databricks.delta.properties.defaults."
#: What CREATE TABLE LIKE does not take over: keys that Spark fills, and beginnings of keys of
#: properties of that one table.
_CLAUSES = frozenset(
    ("provider", "location", "owner", "external", "is_managed_location", "table_type", "Type", "clusteringColumns")
)
_OF_ONE_TABLE = ("option.", "io.unitycatalog.", "ucTableId", "delta.coordinatedCommits.", "delta.min",
        "delta.rowTracking.", "delta.columnMapping.max", "delta.inCommitTimestamp", "delta.enableInCommitTimestamps",
        "delta.lastUpdate", "delta.lastCommit")  # fmt: skip
#: Features that a new table has for reasons of its own, or not: by clauses, by its catalog, by its
#: history.
_FEATURES_OF_ONE_TABLE = frozenset(
    f"delta.feature.{feature}"
    for feature in ("catalogManaged", "catalogOwned-preview", "checkpointProtection", "clustering", "inCommitTimestamp",
                    "redirectReaderWriter-preview",
        "redirectWriterOnly-preview", "coordinatedCommits-preview")
)  # fmt: skip
_CLUSTERING = "clusteringColumns"
#: What asks for a table before it is dropped or replaced, and says "not found" itself; and what
#: shows each table of a list.
_ASKING = ("DropTableExec", "ReplaceTable")
_SHOW = "ShowTablesExtended"
_CLUSTER_BY = "org.apache.spark.sql.delta.skipping.clustering.temp.ClusterByTransform"
_EXPRESSIONS = "org.apache.spark.sql.connector.expressions."


class SparkCatalog(ViewsOfLake):
    """``StagingTableCatalog``, ``RelationCatalog`` (tables and views) and ``SupportsNamespaces``
    for one session (a JVM ``SparkSession``). Spark has ``RelationCatalog`` from 4.2 on; before, the
    views of a lake are not to be seen.
    """

    def __init__(self, lake: LakeContext, session: JavaObject) -> None:
        super().__init__(lake, session)
        if session.version() < "4.2":
            self.Java = _WithoutViews  # type: ignore[misc, assignment]
        self.inner = _delta_catalog(self.jvm, session, lake.name, Delegate(lake, session))
        self._of_scopes: JavaObject | None = None
        self._capabilities = self.inner.capabilities()

    def _inner_of_scopes(self) -> JavaObject:
        """Delta's catalog for the tables in scopes
        (:mod:`turnstile_spark.transactions.scopes.scope`)."""
        if self._of_scopes is None:
            delegate = ScopeDelegate(self.lake, self.session)
            self._of_scopes = _delta_catalog(self.jvm, self.session, delegate.name(), delegate)
            catalogs_of(self.jvm, self.session).put(delegate.name(), NamedCatalog(self.jvm, delegate.name()))
        return self._of_scopes

    def _path_catalog(self, levels: list[str], name: str) -> JavaObject | None:
        """The session's own catalog if the name is a path, which Spark looks up in the current
        catalog; else None."""
        return self.session.sessionState().catalogManager().v2SessionCatalog() if is_path(levels, name) else None

    def loadTable(self, identifier: JavaObject, *how: Any) -> JavaObject:
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.loadTable(identifier, *_moment(how))
        state = self._state_if_any(levels, table)
        if state is None:
            return self._table_for_show(levels, table)
        return self._delta_table(identifier, state, *how)

    def _table_for_show(self, levels: list[str], name: str) -> JavaObject:
        """For SHOW TABLE EXTENDED, which would fail for a whole namespace, an Iceberg table without
        columns; else throws."""
        if _SHOW in self._stack() and (found := self._iceberg(levels, name)):
            return self.lake.v1_tables.iceberg(levels, name, str(found[0]["location"]))
        raise self._missing(levels, name)

    def loadRelation(self, identifier: JavaObject) -> JavaObject:
        levels, name = self._split(identifier)
        if paths := self._path_catalog(levels, name):
            return paths.loadTable(identifier)
        state = self._state_if_any(levels, name)
        if state is not None:
            return self._delta_table(identifier, state)
        view = self._view(levels, name)
        return self._table_for_show(levels, name) if view is None else view

    def _delta_table(self, identifier: JavaObject, state: TableState, *how: Any) -> JavaObject:
        """Delta's table for the server's answer."""
        if self.lake.freshness.outside_analysis() and _CONVERT in self._stack():
            self._refuse(refusals.convert(self.lake.name))
        self.lake.handed.state = state
        try:
            if state.pinned:
                return self.inner.loadTable(identifier, self._pinned_version(state, *how))
            if scope := self._scope():
                loaded = self._inner_of_scopes().loadTable(identifier, *_moment(how))
                scoped = scope.tables()[state.table_id]
                cut_log.prepare(self.jvm, loaded, scope, scoped, self.lake.shared_snapshots)
                return loaded
            if moment := _moment(how):
                return self.inner.loadTable(identifier, *moment)
            loaded = self.inner.loadTable(identifier)
        finally:
            self.lake.handed.state = None
        self.lake.freshness.note_load(state.table_id, state.tail)
        self.lake.delta_logs.note_load(state.table_id, loaded, state.tail.latest)
        return loaded

    def _stack(self) -> str:
        """The stack of the JVM thread that this callback runs on."""
        return str(self.jvm.cls("org.apache.spark.util.Utils").exceptionString(self.jvm.new("java.lang.Throwable")))

    def _pinned_version(self, state: TableState, *how: Any) -> str:
        """The version of a clone to read: the one that it shows, or the earlier one that the
        statement names."""
        latest = state.tail.latest
        wanted = how[0] if how else None
        if wanted is None:
            return str(latest)
        if isinstance(wanted, str) and wanted.isdigit() and int(wanted) <= latest:
            return wanted
        what = "versions after it, and times," if isinstance(wanted, (int, str)) else "writes"
        text = f"'{state.name}' is a clone, pinned to version {latest} of its source: {what} are its source's"
        raise self.lake.throw.unsupported_operation(text)

    def capabilities(self) -> JavaObject:
        return self._capabilities

    def supportedCustomMetrics(self) -> JavaObject:
        return self.inner.supportedCustomMetrics()

    def loadChangelog(self, identifier: JavaObject, context: JavaObject, options: JavaObject) -> JavaObject:
        return self.inner.loadChangelog(identifier, context, options)

    def tableExists(self, identifier: JavaObject) -> bool:
        if paths := self._path_catalog(*self._split(identifier)):
            return bool(paths.tableExists(identifier))
        levels, name = self._split(identifier)
        if super().tableExists(identifier):
            return True
        stack = self._stack()
        return any(asking in stack for asking in _ASKING) and bool(self._iceberg(levels, name))

    # -- create and replace -----------------------------------------------------------------------------------------

    def createTable(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.createTable(identifier, columns, partitions, properties)
        scope = self._changing("CREATE TABLE")
        if self.lake.freshness.analyzing():  # Spark creates tables when it executes; Delta, for CLONE, when it analyses
            self._refuse(refusals.clone(self.lake.name))
        prepared = self._for_new(levels, table, properties)
        return self._inner_for(scope).createTable(identifier, columns, partitions, prepared)

    def stageCreate(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.stageCreate(identifier, columns, partitions, properties)
        scope = self._changing("CREATE TABLE")
        prepared = self._for_new(levels, table, properties)
        return self._inner_for(scope).stageCreate(identifier, columns, partitions, prepared)

    def stageReplace(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.stageReplace(identifier, columns, partitions, properties)
        scope = self._changing(_REPLACE)
        self._replaceable(identifier, scope, self._state(levels, table))  # "table not found" before the data is written
        return self._inner_for(scope).stageReplace(identifier, columns, partitions, self._check_properties(properties))

    def stageCreateOrReplace(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        columns, partitions, properties = _parts(definition)
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.stageCreateOrReplace(identifier, columns, partitions, properties)
        scope = self._changing(_REPLACE)
        exists = super().tableExists(identifier)
        if exists:
            self._replaceable(identifier, scope, self._state(levels, table))
        prepared = self._check_properties(properties) if exists else self._for_new(levels, table, properties)
        return self._inner_for(scope).stageCreateOrReplace(identifier, columns, partitions, prepared)

    def createTableLike(self, identifier: JavaObject, definition: JavaObject, source: JavaObject) -> JavaObject:
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.createTableLike(identifier, definition, source)
        scope = self._changing("CREATE TABLE")
        properties = self.jvm.new("java.util.HashMap")
        of_source = string_dict(source.properties())
        if str(of_source.get("provider")).lower() == "delta":
            for key, value in of_source.items():
                if key not in _CLAUSES and not key.startswith(_OF_ONE_TABLE) and key not in _FEATURES_OF_ONE_TABLE:
                    properties.put(key, value)
        properties.putAll(definition.properties())
        if str(properties.get("provider") or "delta").lower() != "delta":
            properties.put("provider", "delta")
        columns = definition.columns() if len(definition.columns()) else source.columns()
        partitions = definition.partitions() if len(definition.partitions()) else source.partitioning()
        if not len(partitions) and _CLUSTERING in of_source:
            partitions = self._clustered_by(json.loads(of_source[_CLUSTERING]))
        prepared = self._for_new(levels, table, properties)
        return self._inner_for(scope).createTable(identifier, columns, partitions, prepared)

    def _clustered_by(self, columns: list[list[str]]) -> JavaObject:
        """The transforms of CLUSTER BY these columns, each with the names of its levels."""
        reference = self.jvm.cls(_EXPRESSIONS + "FieldReference")
        references = [reference(scala_seq(self.jvm, names)) for names in columns]
        clustered = self.jvm.new(_CLUSTER_BY, scala_seq(self.jvm, references))
        return self.jvm.array(_EXPRESSIONS + "Transform", [clustered] if columns else [])

    def _inner_for(self, scope: Scope | None) -> JavaObject:
        """Delta's catalog for the statements of a scope; outside of one, the lake's."""
        return self.inner if scope is None else self._inner_of_scopes()

    def _replaceable(self, identifier: JavaObject, scope: Scope | None, state: TableState) -> None:
        """Throws when the table cannot be replaced. In a transaction its log is opened: Delta
        replaces it on top of the log's version."""
        self._writable(state)
        if scope is not None:
            self._delta_table(identifier, state)

    def _check_properties(self, properties: JavaObject) -> JavaObject:
        """A copy of the user's properties with the properties that Delta needs; throws for demands
        that a lake cannot meet."""
        self._refuse(refusals.new_table(self.lake.name, string_dict(properties)))
        if str(self.session.conf().get(_FORCED_SCHEMA, "false")).lower() == "true":
            self._refuse(refusals.forced_schema(self.lake.name, _FORCED_SCHEMA))
        prepared = self.jvm.new("java.util.HashMap", properties)
        prepared.put("provider", "delta")
        prepared.put("is_managed_location", "true")
        _add_lean(prepared, self.session)
        return prepared

    def _for_new(self, levels: list[str], table: str, properties: JavaObject) -> JavaObject:
        """The properties of a new table, for which id and location are reserved."""
        prepared = self._check_properties(properties)
        if not levels:
            raise self.lake.throw.no_such_namespace([self.lake.name])
        scope = self._scope()
        try:
            is_new = scope is not None and scope.changes.namespace(dotted_name(levels)) is not None
            staged = self.lake.stage(dotted_name(levels), self._staged_name(scope, levels, table), new_namespace=is_new)
        except ApiError as e:
            raise self._not_made(e, levels, table) from None
        if scope is not None:
            scope.stage(staged["location"])
            staged |= {OPTION: scope.options[OPTION], f"option.{OPTION}": scope.options[OPTION]}
        for key, value in staged.items():
            prepared.put(key, value)
        return prepared

    def _staged_name(self, scope: Scope | None, levels: list[str], table: str) -> str:
        """The name under which a new table is staged. The server refuses one that is taken, and a
        transaction may have freed it."""
        if scope is None:
            return table
        return (
            f"new_{uuid.uuid4().hex}"
            if scope.changes.is_freed(Name(dotted_name(levels), table))
            else check_name(table, "table")
        )

    # -- drop, rename, alter ----------------------------------------------------------------------------------------

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return paths.alterTable(identifier, changes)
        state = self._state(levels, table)
        self._refuse(refusals.changes(self.lake.name, changes, json.dumps(state.metadata["schema"])))
        self._writable(state)
        return self._inner_for(self._scope()).alterTable(identifier, changes)

    def dropTable(self, identifier: JavaObject) -> bool:
        levels, table = self._split(identifier)
        if paths := self._path_catalog(levels, table):
            return bool(paths.dropTable(identifier))
        if scope := self._changing("DROP TABLE"):
            return self._hold_move(scope, levels, table, None)
        try:
            if self.lake.api.drop(dotted_name(levels), table):
                return True
            if self._iceberg(levels, table):
                raise self.lake.throw.unsupported_operation(self._about_iceberg(levels, table))
            return False
        except ApiError as e:
            if e.type == "InvalidName":
                return False
            raise self.lake.throw.other(e) from None

    def purgeTable(self, identifier: JavaObject) -> bool:
        if paths := self._path_catalog(*self._split(identifier)):
            return bool(paths.purgeTable(identifier))
        if self._state_if_any(*self._split(identifier)) is None:
            return False
        raise self.lake.throw.unsupported_operation(refusals.purge(self.lake.name))

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        levels, table = self._split(old)
        if paths := self._path_catalog(levels, table):
            paths.renameTable(old, new)
            return
        scope = self._changing("ALTER TABLE ... RENAME")
        to_levels, to_table = self._new_name("TABLE", levels, new)
        if scope is not None:
            if self._exists(scope, to_levels, to_table):
                raise self.lake.throw.table_exists(self.lake.name, *to_levels, to_table)
            if not self._hold_move(scope, levels, table, Name(dotted_name(to_levels), check_name(to_table, "table"))):
                raise self.lake.throw.no_such_table(self.lake.name, *levels, table)
            return
        try:
            self.lake.api.rename(dotted_name(levels), table, dotted_name(to_levels), to_table)
        except ApiError as e:
            if e.type == "AlreadyExists":
                raise self._not_made(e, to_levels, to_table) from None
            if e.type == "NoSuchNamespace" and to_levels != levels:
                raise self.lake.throw.no_such_namespace([self.lake.name, *to_levels]) from None
            if e.type in ("NoSuchTable", "NoSuchNamespace"):
                raise self._missing(levels, table) from None
            raise self.lake.throw.other(e) from None

    def _hold_move(self, scope: Scope, levels: list[str], table: str, new: Name | None) -> bool:
        """Holds the rename of a table in a transaction, or its drop (``new`` None); False when
        there is no such table."""
        state = self._state_if_any(levels, table)
        if state is None:
            return False
        try:
            scope.move(state, Name(dotted_name(levels), table), new)
        except TurnstileError as e:
            raise self.lake.throw.refusal(e) from None
        return True

    def _exists(self, scope: Scope, levels: list[str], table: str) -> bool:
        """Whether a table has this name in a transaction, which does not bring it into the cut. Of
        views the server knows."""
        try:
            at = scope.changes.origin(Name(dotted_name(levels), table))
            self.lake.load(at.namespace, at.table)
        except ApiError as e:
            if e.type in ("NoSuchTable", "NoSuchNamespace"):
                return False
            raise self.lake.throw.other(e) from None
        return True

    class Java:
        implements: ClassVar = [
            "org.apache.spark.sql.connector.catalog.StagingTableCatalog",
            RELATION_CATALOG,
            "org.apache.spark.sql.connector.catalog.SupportsNamespaces",
        ]


class _WithoutViews:
    """The interfaces of a catalog in Spark before 4.2."""

    implements: ClassVar = [name for name in SparkCatalog.Java.implements if name != RELATION_CATALOG]


class NamedCatalog(Proxy):
    """``CatalogPlugin`` of a name and nothing else: by the name of a table's catalog in the
    session, Delta finds its coordinator."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        self.jvm = jvm
        self._name = name

    def name(self) -> str:
        return self._name

    def initialize(self, name: str, options: JavaObject) -> None:
        """Nothing to do."""

    def defaultNamespace(self) -> JavaObject:
        return self.jvm.strings([])

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.connector.catalog.CatalogPlugin"]


def _moment(how: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of the arguments of ``loadTable``: timestamp (µs) or version. A set of write privileges is
    not passed on."""
    return how if how and isinstance(how[0], (int, str)) else ()


def _parts(definition: tuple[Any, ...]) -> tuple[JavaObject, JavaObject, JavaObject]:
    """Columns (or schema), partitions, properties: from three arguments or one ``TableInfo``."""
    if len(definition) == 1:
        return definition[0].columns(), definition[0].partitions(), definition[0].properties()
    return definition[0], definition[1], definition[2]


def catalogs_of(jvm: Jvm, session: JavaObject) -> JavaObject:
    """The private map of a session's catalogs (name to catalog)."""
    manager = session.sessionState().catalogManager()
    field = manager.getClass().getDeclaredField("catalogs")
    field.setAccessible(True)
    return field.get(manager)


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
    # It asks this whether a new table exists, by schema and name alone: a namesake in spark_catalog
    # would be taken for it.
    in_memory = jvm.new(
        V1 + "InMemoryCatalog",
        jvm.new("org.apache.spark.SparkConf", False),
        session.sparkContext().hadoopConfiguration(),
    )
    inner.catalog()
    field = jvm.class_for_name(_ABSTRACT).getDeclaredField("catalog")
    field.setAccessible(True)
    field.set(inner, jvm.new(V1 + "SessionCatalog", in_memory))
    return inner


def _add_lean(properties: JavaObject, session: JavaObject) -> None:
    """Adds :data:`_LEAN` to the properties of a new or replaced table, where neither user nor
    session sets them."""
    conf = session.conf()
    for key, value in _LEAN.items():
        feature = "rowTracking" if "RowTracking" in key else "v2Checkpoint"
        is_set = properties.containsKey(key) or properties.containsKey(f"delta.feature.{feature}")
        if not is_set and not conf.getOption(_DEFAULTS + key.removeprefix("delta.")).isDefined():
            properties.put(key, value)
