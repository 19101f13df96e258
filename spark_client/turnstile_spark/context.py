"""The common state of one lake's Java proxies: its connections, and cached facts about its tables.

:class:`turnstile_spark.lake.Lake` makes one :class:`LakeContext` and passes it to the catalogs and
the coordinator.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any

from turnstile_http.api import Api, TableState, Tail, spark_location
from turnstile_spark.catalogs.views import ViewApi
from turnstile_spark.credentials import Credentials
from turnstile_spark.delta import checksums
from turnstile_spark.delta.cached_logs import DeltaLogs
from turnstile_spark.delta.log_files import LogFiles
from turnstile_spark.errors import Throw, turnstile_error
from turnstile_spark.freshness import Freshness
from turnstile_spark.jvm import JavaObject, Jvm
from turnstile_spark.names import location_key
from turnstile_spark.plan_logs import PlannedReads
from turnstile_spark.refusals import TABLE_ID
from turnstile_spark.transactions.scopes.scope import Scope, Scopes, catalog_of
from turnstile_spark.transactions.scopes.shared_snapshots import SharedSnapshots

_CATALOG = "org.apache.spark.sql.catalyst.catalog."


class LakeContext:
    """One catalog of a server under its name in Spark. ``inline_limit`` is in bytes, ``deadline``
    in seconds."""

    def __init__(
        self, spark: Any, jvm: Jvm, name: str, api: Api, *, inline_limit: int, credentials: Credentials
    ) -> None:
        self.jvm = jvm
        self.name = name
        self.api = api
        self.inline_limit = inline_limit
        self.deadline = api.http.deadline
        self.throw = Throw(jvm)
        self.views = ViewApi(api.http, api.catalog)
        self.credentials = credentials
        self.v1_tables = V1Tables(jvm, name, credentials)
        self.files = LogFiles(jvm)
        self.checksums = checksums.Checksums(jvm, spark._jsparkSession, self.files)
        checksums.silence(jvm)
        self.delta_logs = DeltaLogs()
        self.shared_snapshots = SharedSnapshots(jvm)
        self.planned_reads = PlannedReads(jvm)
        self.freshness = Freshness(jvm, spark._jsparkSession.sparkContext(), self.id_of)
        self.scopes = Scopes(name, spark._jsparkSession.sparkContext())
        self.handed = threading.local()  # .state: what the outer catalog has just loaded, for the one below Delta's
        self.clones: set[str] = set()  # lower-case names of the clones that were loaded here
        self._tables: dict[str, tuple[str | None, tuple[str, ...]]] = {}  # location -> id, name
        self._staged_ids: dict[str, str] = {}  # location -> id

    def close(self) -> None:
        """Closes connections and threads. Idempotent."""
        self.checksums.close()
        self.files.close()
        self.planned_reads.close()
        self.shared_snapshots.close()
        self.api.http.close()

    def check_open(self) -> None:
        """Raises ``TURNSTILE_DETACHED`` after :meth:`close`."""
        if self.api.http.is_closed:
            text = (
                f"this object of the lake '{self.name}' was detached, or another lake was attached under its name: "
                "use the result of the last attach()"
            )
            raise turnstile_error("TURNSTILE_DETACHED", text)

    def locations(self) -> list[str]:
        """Where the tables are that were loaded, or are being created, here."""
        return [*self._tables, *self._staged_ids]

    def load(self, namespace: str, table: str) -> TableState:
        """Loads a table by name from the server and remembers which id its log belongs to."""
        state = self.api.load(namespace, table)
        self.learn(state)
        return state

    def learn(self, state: TableState) -> None:
        """Remembers id and name by location, for the calls in which Delta names only the location.
        A clone is left out: its location, and so the log that Delta asks about, is its source's."""
        _, *rest = state.name.split(".")
        name = ".".join(rest).lower()
        if state.pinned:
            self.clones.add(name)
            return
        self.clones.discard(name)
        self._tables[location_key(state.location)] = (state.table_id, (self.name, *rest))

    def id_of(self, log_path: str) -> str | None:
        """The id of the table with this log (or location); None when it was not loaded here."""
        return self._table_at(log_path)[0]

    def name_of(self, log_path: str) -> tuple[str, ...]:
        """The last known name of the table with this log: catalog, namespace levels, table. Empty
        when unknown."""
        return self._table_at(log_path)[1]

    def _table_at(self, log_path: str) -> tuple[str | None, tuple[str, ...]]:
        return self._tables.get(location_key(log_path), (None, ()))

    def stage(self, namespace: str, table: str, *, new_namespace: bool = False) -> dict[str, str]:
        """Reserves id and location for a new table; returns the properties with which Delta creates
        it there. ``new_namespace``: its namespace is created together with it."""
        staged = self.api.stage(namespace, table, new_namespace=new_namespace)
        location = spark_location(staged["location"])
        self._staged_ids[location_key(location)] = staged["table_id"]
        properties = {str(k): str(v) for k, v in (staged.get("required_properties") or {}).items()}
        properties.update({f"delta.feature.{f}": "supported" for f in staged.get("required_features") or []})
        properties[TABLE_ID] = staged["table_id"]
        properties["delta.feature.catalogManaged"] = "supported"
        properties["location"] = location
        for key, value in self.credentials.of_new_table(staged["table_id"], location).items():
            # Both ways to write an option: Delta then takes it as one, and keeps it out of the
            # table's properties.
            properties[key] = properties[f"option.{key}"] = value
        return properties

    def take_staged_id(self, location: str) -> str | None:
        """The id reserved together with this location, and forgets it; None when there is none."""
        return self._staged_ids.pop(location_key(location), None)


class V1Tables:
    """Makes Spark's ``V1Table``, which Delta's catalog expects from the catalog below it.

    The objects are immutable: one is reused while id, name and metadata (etag) stay the same.
    """

    def __init__(self, jvm: Jvm, lake_name: str, credentials: Credentials) -> None:
        self.jvm = jvm
        self.lake_name = lake_name
        self._credentials = credentials
        self._tables: OrderedDict[tuple[str, str, str], JavaObject] = OrderedDict()
        self._storage = jvm.module(_CATALOG + "CatalogStorageFormat").empty()

    def v1_table(self, state: TableState) -> JavaObject:
        """The ``V1Table`` of a loaded table. Raises :class:`ApiError`, from its storage
        credentials."""
        key = (state.table_id, state.etag, state.name)
        table = self._tables.get(key)
        if table is None:
            table = self._new(state, self.lake_name, {})
            self._tables[key] = table
            while len(self._tables) > 256:
                self._tables.popitem(last=False)
        return table

    def in_scope(self, state: TableState, scope: Scope) -> JavaObject:
        """The ``V1Table`` of a table as a scope has it: with a log and a coordinator of the scope.
        Raises :class:`ApiError`."""
        return self._new(state, catalog_of(self.lake_name), scope.options)

    def iceberg(self, levels: list[str], name: str, location: str) -> JavaObject:
        """A ``V1Table`` that says of a name that it is an Iceberg table."""
        metadata = {"schema": {"type": "struct", "fields": []}}
        state = TableState(
            ".".join(("", *levels, name)),
            "",
            spark_location(location),
            "",
            0,
            metadata,
            Tail((), 0, 0),
            0.0,
            pinned=True,
        )
        described = self.jvm.scala_copy(
            self._catalog_table(state, self.lake_name, {}), provider=self.jvm.some("iceberg")
        )
        return self.jvm.new("org.apache.spark.sql.connector.catalog.V1Table", described)

    def _new(self, state: TableState, catalog: str, options: dict[str, str]) -> JavaObject:
        """``catalog``: the name that Delta's coordinator of the table is registered under."""
        catalog_table = self._catalog_table(state, catalog, options)
        return self.jvm.new("org.apache.spark.sql.connector.catalog.V1Table", catalog_table)

    def _catalog_table(self, state: TableState, catalog: str, options: dict[str, str]) -> JavaObject:
        jvm = self.jvm
        _, *levels, table = state.name.split(".")
        # The catalog part makes Delta ask the coordinator registered under this name.
        identifier = jvm.new(
            "org.apache.spark.sql.catalyst.TableIdentifier", table, jvm.some(".".join(levels)), jvm.some(catalog)
        )
        # These two make Delta's streaming source read a catalog-managed table (its kernel connector
        # looks for them).
        properties = self._storage.properties().updated(TABLE_ID, state.table_id)
        properties = properties.updated("delta.feature.catalogManaged", "supported")
        vended = {} if state.pinned else self._credentials.of_table(state.table_id, state.location)
        for key, value in {**vended, **checksums.options(state.location), **options}.items():
            properties = properties.updated(key, value)
        location = jvm.cls(_CATALOG + "CatalogUtils").stringToURI(state.location)
        storage = jvm.scala_copy(self._storage, locationUri=jvm.some(location), properties=properties)
        # The schema is there for the streaming source; partition columns are not: Spark wants them
        # last in a schema.
        schema = jvm.cls("org.apache.spark.sql.types.DataType").fromJson(json.dumps(state.metadata["schema"]))
        managed = jvm.module(_CATALOG + "CatalogTableType").MANAGED()
        table_class = jvm.cls(_CATALOG + "CatalogTable")
        members = max(
            len(one.getParameterTypes()) for one in jvm.class_for_name(_CATALOG + "CatalogTable").getConstructors()
        )
        defaults = [getattr(table_class, f"$lessinit$greater$default${at}")() for at in range(6, members + 1)]
        catalog_table = table_class(identifier, managed, storage, schema, jvm.some("delta"), *defaults)
        return jvm.scala_copy(catalog_table, createTime=state.created)
