"""A lake: one catalog of a Turnstile server, attached to Spark under a name."""

from __future__ import annotations

import threading
from typing import Any, Self

from pyspark.java_gateway import ensure_callback_server_started

from turnstile_spark import coordinator, registry
from turnstile_spark.answers import TableState, spark_location
from turnstile_spark.api import Api
from turnstile_spark.builder import TableBuilder
from turnstile_spark.errors import ApiError, install_converter
from turnstile_spark.freshness import Freshness
from turnstile_spark.handle import Table
from turnstile_spark.jvm import Jvm, let_java_exceptions_through
from turnstile_spark.jvm_errors import Throw
from turnstile_spark.log_files import LogFiles
from turnstile_spark.selftest import check
from turnstile_spark.sessions import Sessions
from turnstile_spark.tables import Tables


class Lake:
    """What :func:`turnstile_spark.attach` returns. SQL sees it as the catalog ``name``; this object is the Python side.

    Lists and tables are read from the server, always freshly. Methods raise
    :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(self, spark: Any, name: str, api: Api, token: str | None, inline_limit: int) -> None:
        self.spark, self.name, self.api, self.token = spark, name, api, token
        self.inline_limit, self.deadline = inline_limit, api.http.deadline
        self.jvm = Jvm(spark)
        check(self.jvm, spark)
        ensure_callback_server_started(self.jvm.gateway)  # type: ignore[no-untyped-call]
        let_java_exceptions_through(self.jvm.gateway)
        install_converter()
        self.throw = Throw(self.jvm)
        self.v1_tables = Tables(self.jvm, name)
        self.files = LogFiles(self.jvm)
        self.freshness = Freshness(self.jvm, spark._jsparkSession.sparkContext(), self.id_of)
        self.handed = threading.local()
        self.sessions = Sessions(self)
        self._known: dict[str, tuple[str | None, tuple[str, ...]]] = {}  # location -> id, name
        self._staged: dict[str, str] = {}
        self.clones: set[str] = set()  # names of clones that were loaded here

    # -- for users ------------------------------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """The table ``namespace.table``. Raises ``AnalysisException`` (TABLE_OR_VIEW_NOT_FOUND) from its methods when
        there is none; making the handle asks nobody."""
        return Table(self, name)

    def tables(self, namespace: str = "default") -> list[str]:
        """The names of the tables in ``namespace``, sorted."""
        try:
            return sorted(self.api.tables(namespace))
        except ApiError as e:
            raise e.as_turnstile_error() from None

    def namespaces(self) -> list[str]:
        """The names of all namespaces, levels joined by dots, sorted."""
        try:
            return sorted(self.api.namespaces())
        except ApiError as e:
            raise e.as_turnstile_error() from None

    def create(self, name: str) -> TableBuilder:
        """A builder for the new table ``namespace.table``, in the style of ``DeltaTable.create``."""
        return TableBuilder(self, name, "CREATE TABLE")

    def createIfNotExists(self, name: str) -> TableBuilder:
        """As :meth:`create`; does nothing when the table is there."""
        return TableBuilder(self, name, "CREATE TABLE IF NOT EXISTS")

    def createOrReplace(self, name: str) -> TableBuilder:
        """As :meth:`create`; replaces an existing table by one commit that keeps its history and id."""
        return TableBuilder(self, name, "CREATE OR REPLACE TABLE")

    def replace(self, name: str) -> TableBuilder:
        """As :meth:`createOrReplace`; the table must be there."""
        return TableBuilder(self, name, "REPLACE TABLE")

    def detach(self) -> None:
        """Takes the catalog out of Spark and closes connections. Later use of its tables raises
        ``TURNSTILE_DETACHED``. Idempotent."""
        self.sessions.leave()
        registry.remove(self.jvm.gateway, self.name, self)
        self.files.close()
        self.api.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, catalog {self.api.catalog!r} of {self.api.http.url})"

    # -- for the proxies ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Makes Spark see the lake."""
        coordinator.register(self.jvm, self.name)
        before = registry.put(self.jvm.gateway, self.name, self)
        if before is not None:
            before.detach()
        self.sessions.join(self.spark)

    def load(self, namespace: str, table: str) -> TableState:
        """Loads a table by name from the server and remembers which id its log belongs to."""
        state = self.api.load(namespace, table)
        self.learn(state)
        return state

    def learn(self, state: TableState) -> None:
        """Remembers id and name by location, for the calls in which Delta names only the location. A clone's location is
        its source's, and so is the log that Delta asks about."""
        _, *rest = state.name.split(".")
        name = ".".join(rest).lower()
        if state.pinned:
            self.clones.add(name)
            return
        self.clones.discard(name)
        at = _bare(state.location)
        self._known[at] = (state.table_id, (self.name, *rest))

    def id_of(self, log_path: str) -> str | None:
        """The id of the table with this log (or location), when it was loaded here."""
        return self._known.get(_bare(log_path.removesuffix("/_delta_log")), (None, ()))[0]

    def name_of(self, log_path: str) -> tuple[str, ...]:
        """The last known name of the table with this log: catalog, namespace levels, table. Empty when unknown."""
        return self._known.get(_bare(log_path.removesuffix("/_delta_log")), (None, ()))[1]

    def stage(self, namespace: str, table: str) -> dict[str, str]:
        """Reserves id and location for a new table; returns the properties with which Delta creates it there."""
        staged = self.api.stage(namespace, table)
        location = spark_location(staged["location"])
        self._staged[_bare(location)] = staged["table_id"]
        properties = {str(k): str(v) for k, v in (staged.get("required_properties") or {}).items()}
        properties.update({f"delta.feature.{f}": "supported" for f in staged.get("required_features") or []})
        properties["io.unitycatalog.tableId"] = staged["table_id"]
        properties["delta.feature.catalogManaged"] = "supported"
        properties["location"] = location
        return properties

    def staged_id(self, location: str) -> str | None:
        """The id reserved together with this location; once."""
        return self._staged.pop(_bare(location), None)


def _bare(location: str) -> str:
    """A location without the ways in which the same one is written: ``file:/a``, ``file:///a``, ``/a``, ``/a/``."""
    scheme, _, rest = location.rpartition(":")
    rest = "/" + rest.strip("/")
    return rest if scheme in ("", "file") else f"{scheme}:{rest}"
