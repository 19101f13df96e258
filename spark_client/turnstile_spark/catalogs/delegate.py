"""The catalog *below* Delta's own: names, locations and namespaces, which Delta cannot know by
itself.

Delta's ``DeltaCatalog`` delegates to it. Its ``createTable`` is called when Delta has written
version 0 of a table: that is where a table gets its name.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError

from turnstile_http.api import TableState
from turnstile_http.errors import ApiError
from turnstile_http.names import dotted_name
from turnstile_spark import refusals
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.log_files import Write
from turnstile_spark.errors import TurnstileError
from turnstile_spark.jvm import JavaObject, Proxy, names_of, string_dict
from turnstile_spark.transactions.scopes.catalog_changes import Name, NewNamespace
from turnstile_spark.transactions.scopes.scope import Scope, catalog_of, over

#: Keys Spark reserves: the comment has a member of its own; the owner of a new namespace is who
#: asks for it.
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT = "comment"
_RESERVED = ("comment", "owner")
#: Refusals which mean that there is no such table. A namespace that is not there is one: loadTable
#: may throw nothing else. InvalidName: no table can have this name.
_NO_TABLE = ("NoSuchTable", "NoSuchNamespace", "NoSuchCatalog", "InvalidName")


class LakeCatalog(Proxy):
    """Common parts of the catalogs above and below Delta's: ``SupportsNamespaces``, and reading of
    ``TableCatalog``. ``session``: the JVM session that they are for.

    A namespace of several levels is written ``a.b`` on the server.
    """

    def __init__(self, lake: LakeContext, session: JavaObject) -> None:
        self.lake = lake
        self.jvm = lake.jvm
        self.session = session

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

    def _state(self, levels: list[str], table: str) -> TableState:
        """Loads by name; throws the exception that Spark reports as "table not found" when there is
        none."""
        state = self._state_if_any(levels, table)
        if state is None:
            raise self._missing(levels, table)
        return state

    def _missing(self, levels: list[str], name: str) -> Py4JJavaError:
        """The exception to throw if there is no Delta table of this name; for an Iceberg table it
        says so."""
        if self._iceberg(levels, name):
            return self.lake.throw.unsupported_operation(self._about_iceberg(levels, name))
        return self.lake.throw.no_such_table(self.lake.name, *levels, name)

    def _not_made(self, e: ApiError, levels: list[str], name: str) -> Py4JJavaError:
        """The exception to throw when a table did not get this name."""
        if e.type == "AlreadyExists" and e.body.get("kind") == "iceberg-table":
            return self.lake.throw.unsupported_operation(self._about_iceberg(levels, name))
        return self.lake.throw.table_error(e, self.lake.name, *levels, name)

    def _about_iceberg(self, levels: list[str], name: str) -> str:
        whole = ".".join((self.lake.name, *levels, name))
        return refusals.iceberg(whole, self.lake.api.http.url, self.lake.api.catalog)

    def _iceberg(self, levels: list[str], name: str | None = None) -> list[dict[str, Any]]:
        """The Iceberg tables of a namespace, or the one of this name, with ``name`` and
        ``location``. Sends a request."""
        if not all(_WORD.fullmatch(part) for part in (*levels, name or "any")) or not levels:
            return []
        scope = self._scope()
        reads = scope.catalog_reads if scope is not None and name is None else None
        query = f'/{"/".join((self.lake.api.catalog, *levels))}/{name or ""}[kind = "iceberg-table"]'
        try:
            return list((reads or self.lake.api).find(query))
        except ApiError as e:
            if e.transient:
                raise self.lake.throw.other(e) from None
            return []  # no such namespace, or nothing that may be looked at

    def _state_if_any(self, levels: list[str], table: str) -> TableState | None:
        """Loads by name; None when there is no such table."""
        if not levels:
            return None
        scope = self._scope()
        try:
            return scope.state(dotted_name(levels), table) if scope else self.lake.load(dotted_name(levels), table)
        except ApiError as e:
            if e.type in _NO_TABLE:
                return None
            raise self.lake.throw.other(e) from None
        except TurnstileError as e:
            raise self.lake.throw.refusal(e) from None

    def _scope(self) -> Scope | None:
        """The transaction or snapshot that the calling JVM thread is in; throws when it is over."""
        try:
            return self.lake.scopes.current(self.session)
        except TurnstileError as e:
            raise self.lake.throw.refusal(e) from None

    def _outside_of_scopes(self, statement: str) -> None:
        """Throws where a statement that changes the catalog is made in a transaction or snapshot,
        which holds only commits."""
        if self._scope() is not None:
            text = (
                f"{statement} in a transaction or snapshot: '{self.lake.name}' would do it at once, for all sessions. "
                f"Do it outside"
            )
            raise self.lake.throw.unsupported_operation(text)

    def _changing(self, statement: str) -> Scope | None:
        """The transaction that is to hold a change of the catalog; None outside of one. Throws
        where it cannot."""
        scope = self._scope()
        if scope is not None and scope.fixed_catalog:
            reason = f"{statement} in a transaction or snapshot: {scope.fixed_catalog}. Do it outside"
            raise self.lake.throw.unsupported_operation(reason)
        return scope

    def _writable(self, state: TableState) -> TableState:
        """Returns ``state``; throws when it is a clone's. A clone's log is its source's, which a
        change would change."""
        if state.pinned:
            text = (
                f"'{state.name}' is a clone, pinned to version {state.tail.latest} of its source: it cannot be changed"
            )
            raise self.lake.throw.unsupported_operation(text)
        return state

    def _refuse(self, reason: str | None) -> None:
        """Throws ``UnsupportedOperationException`` when there is a reason to (see
        :mod:`turnstile_spark.refusals`)."""
        if reason:
            raise self.lake.throw.unsupported_operation(reason)

    def tableExists(self, identifier: JavaObject) -> bool:
        return self._state_if_any(*self._split(identifier)) is not None

    def listTables(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        identifiers = [identifier.of(levels, name) for name in self._tables(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.Identifier", identifiers)

    def listTableSummaries(self, levels: JavaObject) -> JavaObject:
        return self._summaries(levels, [(name, "MANAGED") for name in self._tables(levels)])

    def _summaries(self, levels: JavaObject, relations: list[tuple[str, str]]) -> JavaObject:
        """``TableSummary`` objects, of names and kinds."""
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        summary = self.jvm.cls("org.apache.spark.sql.connector.catalog.TableSummary")
        summaries = [summary.of(identifier.of(levels, name), kind) for name, kind in relations]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.TableSummary", summaries)

    def _tables(self, levels: JavaObject) -> list[str]:
        names = names_of(levels)
        if not names:
            return []
        scope = self._scope()
        try:
            namespace = dotted_name(names)
            is_new = scope is not None and scope.changes.namespace(namespace) is not None
            reads = scope.catalog_reads if scope is not None else None
            tables = [] if is_new else (reads or self.lake.api).tables(namespace)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None
        shown = scope.changes.tables(namespace, tables) if scope and scope.changes else tables
        return shown if is_new else [*shown, *(str(found["name"]).rpartition(".")[2] for found in self._iceberg(names))]

    def useNullableQuerySchema(self) -> bool:
        return True

    def invalidateTable(self, identifier: JavaObject) -> None:
        """Nothing is cached by name."""

    # -- namespaces ----------------------------------------------------------------------------------------------------

    def defaultNamespace(self) -> JavaObject:
        return self.jvm.strings(["default"])

    def listNamespaces(self, *parent: JavaObject) -> JavaObject:
        above = names_of(parent[0]) if parent else []
        if above:
            self.loadNamespaceMetadata(parent[0])
        try:
            scope = self._scope()
            created = scope.changes.namespaces() if scope else []
            reads = scope.catalog_reads if scope is not None else None
            stored = self.lake.api.namespaces() if reads is None else reads.namespaces(above)
            names = [name.split(".") for name in (*stored, *created)]
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, above) from None
        depth = len(above) + 1
        children = {
            tuple(levels[:depth]) for levels in names if len(levels) >= depth and levels[:-1][: depth - 1] == above
        }
        return self.jvm.string_arrays([list(levels) for levels in sorted(children)])

    def namespaceExists(self, levels: JavaObject) -> bool:
        names = names_of(levels)
        if not names or self._created_namespace(names) is not None:
            return True
        scope = self._scope()
        try:
            ((scope.catalog_reads if scope else None) or self.lake.api).namespace(dotted_name(names))
        except ApiError as e:
            if e.type in ("NoSuchNamespace", "NoSuchCatalog", "InvalidName"):
                return False
            raise self.lake.throw.namespace_error(e, names) from None
        return True

    def loadNamespaceMetadata(self, levels: JavaObject) -> JavaObject:
        names = names_of(levels)
        if (created := self._created_namespace(names)) is not None:
            comment = {} if created.comment is None else {_COMMENT: created.comment}
            return self.jvm.hash_map({**created.properties, **comment})
        try:
            name = dotted_name(names)
            scope = self._scope()
            reads = scope.catalog_reads if scope is not None else None
            namespace = (
                self.lake.freshness.once_per_analysis("namespace " + name, lambda: self.lake.api.namespace(name))
                if reads is None
                else reads.namespace(name)
            )
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None
        values = {str(k): str(v) for k, v in (namespace.get("properties") or {}).items()}
        if namespace.get("comment"):
            values[_COMMENT] = namespace["comment"]
        return self.jvm.hash_map(values)

    def _created_namespace(self, names: list[str]) -> NewNamespace | None:
        """The namespace of this name, if the transaction of the calling thread creates it."""
        scope = self._scope()
        return scope.changes.namespace(".".join(names)) if scope else None

    def createNamespace(self, levels: JavaObject, properties: JavaObject) -> None:
        scope = self._changing("CREATE SCHEMA")
        names = names_of(levels)
        values = string_dict(properties)
        self._refuse(refusals.namespace(self.lake.name, values))
        properties_kept = {k: v for k, v in values.items() if k not in _RESERVED}
        try:
            if scope is not None:
                namespace = NewNamespace(dotted_name(names), values.get(_COMMENT), properties_kept)
                if self.namespaceExists(levels):
                    raise ApiError(409, "AlreadyExists", f"namespace '{namespace.name}' exists")
                scope.create_namespace(namespace)
                return
            self.lake.api.create_namespace(dotted_name(names), values.get(_COMMENT), properties_kept)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names, creating=True) from None

    def alterNamespace(self, levels: JavaObject, changes: JavaObject) -> None:
        self._outside_of_scopes("ALTER SCHEMA")
        names = names_of(levels)
        updates = {}
        removals = []
        comment = None
        for change in changes:
            key = change.property()
            if change.getClass().getSimpleName() == "RemoveProperty":
                removals.append(key)
            elif key == _COMMENT:
                comment = change.value()
            else:
                updates[key] = change.value()
        self._refuse(refusals.namespace(self.lake.name, (*updates, *removals)))
        try:
            self.lake.api.alter_namespace(dotted_name(names), comment, updates, removals)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def dropNamespace(self, levels: JavaObject, cascade: bool) -> bool:
        self._outside_of_scopes("DROP SCHEMA")
        names = names_of(levels)
        try:
            return self.lake.api.drop_namespace(dotted_name(names), bool(cascade))
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None


class Delegate(LakeCatalog):
    """``TableCatalog``, ``SupportsNamespaces`` and ``FunctionCatalog`` below ``DeltaCatalog``."""

    def loadTable(self, identifier: JavaObject, *_: Any) -> JavaObject:
        state = getattr(self.lake.handed, "state", None)  # see LakeContext
        state = state or self._writable(self._state(*self._split(identifier)))
        return self._v1_table(state)

    def createTable(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        """Registers a table whose version 0 Delta has just written."""
        properties = definition[0].properties() if len(definition) == 1 else definition[2]
        levels, table = self._split(identifier)
        table_id = self.lake.take_staged_id(str(properties.get("location")))
        if table_id is None:
            raise self.lake.throw.unsupported_operation("a lake holds only the Delta tables that it creates itself")
        try:
            state = self.lake.api.register(dotted_name(levels), table, table_id)
        except ApiError as e:
            raise self._not_made(e, levels, table) from None
        self.lake.learn(state)
        return self._v1_table(state)

    def _v1_table(self, state: TableState) -> JavaObject:
        try:
            return self.lake.v1_tables.v1_table(state)
        except ApiError as e:
            raise self.lake.throw.other(e) from None

    def capabilities(self) -> JavaObject:
        return self.jvm.new("java.util.HashSet")

    def supportedCustomMetrics(self) -> JavaObject:
        return self.jvm.array("org.apache.spark.sql.connector.metric.CustomMetric", [])

    def alterTable(self, identifier: JavaObject, changes: JavaObject) -> JavaObject:
        raise self.lake.throw.unsupported_operation("ALTER TABLE of something that is not a Delta table")

    def createTableLike(self, *_: Any) -> JavaObject:
        raise self.lake.throw.unsupported_operation("CREATE TABLE LIKE reaches the lake above Delta's catalog")

    def dropTable(self, identifier: JavaObject) -> bool:
        raise self.lake.throw.unsupported_operation("DROP TABLE reaches the lake above Delta's catalog")

    def purgeTable(self, identifier: JavaObject) -> bool:
        raise self.lake.throw.unsupported_operation("DROP TABLE PURGE reaches the lake above Delta's catalog")

    def renameTable(self, old: JavaObject, new: JavaObject) -> None:
        raise self.lake.throw.unsupported_operation("RENAME reaches the lake above Delta's catalog")

    def loadChangelog(self, *_: Any) -> JavaObject:
        raise self.lake.throw.unsupported_operation("Delta reads change data itself")

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


class ScopeDelegate(Delegate):
    """Below the ``DeltaCatalog`` of the scopes of a session: tables as the scope of the calling
    thread has them."""

    def name(self) -> str:
        return catalog_of(self.lake.name)

    def createTable(self, identifier: JavaObject, *definition: Any) -> JavaObject:
        """Holds the creation of a table whose version 0 Delta has just written."""
        properties = definition[0].properties() if len(definition) == 1 else definition[2]
        levels, table = self._split(identifier)
        location = str(properties.get("location"))
        table_id = self.lake.take_staged_id(location)
        scope = self._changing("CREATE TABLE")
        if table_id is None or scope is None:
            raise self.lake.throw.unsupported_operation("a lake holds only the Delta tables that it creates itself")
        conf = self.session.sessionState().newHadoopConf()
        credentials = self.lake.credentials.of_new_table(table_id, location)
        self.lake.credentials.adopt(table_id, credentials)
        for key, value in credentials.items():
            conf.set(key, value)
        path = f"{location}/_delta_log/{0:020d}.json"
        name = Name(dotted_name(levels), table)
        first = Write(None, conf, path, self.lake.files.read(path, conf))
        state = TableState.created_by(first.content, f"{self.lake.api.catalog}.{name}", table_id, location)
        try:
            scope.create(state, name, first)
        except TurnstileError as e:
            raise self.lake.throw.refusal(e) from None
        self.lake.learn(state)
        return self._v1_table(state)

    def _v1_table(self, state: TableState) -> JavaObject:
        scope = self._scope()
        if scope is None:
            raise self.lake.throw.refusal(over())
        try:
            return scope.cached_description(state, lambda: self.lake.v1_tables.in_scope(state, scope))
        except ApiError as e:
            raise self.lake.throw.other(e) from None
