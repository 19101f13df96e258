"""What a user holds: a lake (one catalog of a server, attached to Spark under a name), its tables, and table builders.

This is the top of the package: :class:`Lake` assembles everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from pyspark.errors.exceptions import captured
from pyspark.java_gateway import ensure_callback_server_started

from turnstile_spark import coordinator
from turnstile_spark.api import Api, Commit, Head, Outcome
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import ApiError, install_converter
from turnstile_spark.jvm import Jvm, let_java_exceptions_through
from turnstile_spark.selftest import check
from turnstile_spark.session_catalogs import SessionCatalogs

T = TypeVar("T")


class Lake:
    """What :func:`turnstile_spark.attach` returns. SQL sees it as the catalog ``name``; this object is the Python side.

    Lists and tables are read from the server, always freshly. Methods raise
    :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(self, spark: Any, name: str, api: Api, token: str | None, inline_limit: int) -> None:
        self.spark, self.name, self.api = spark, name, api
        self.jvm = Jvm(spark)
        check(self.jvm, spark)
        ensure_callback_server_started(self.jvm.gateway)  # type: ignore[no-untyped-call]
        let_java_exceptions_through(self.jvm.gateway)
        install_converter()
        self.context = LakeContext(spark, self.jvm, name, api, inline_limit)
        self._sessions = SessionCatalogs(self.context, token)

    def table(self, name: str) -> Table:
        """The table ``namespace.table``. Sends no request; the methods of the table raise ``AnalysisException``
        (TABLE_OR_VIEW_NOT_FOUND) when there is none."""
        return Table(self.spark, self.context, name)

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
        return TableBuilder(self.table(name), "CREATE TABLE")

    def createIfNotExists(self, name: str) -> TableBuilder:
        """As :meth:`create`; does nothing when the table is there."""
        return TableBuilder(self.table(name), "CREATE TABLE IF NOT EXISTS")

    def createOrReplace(self, name: str) -> TableBuilder:
        """As :meth:`create`; replaces an existing table by one commit that keeps its history and id."""
        return TableBuilder(self.table(name), "CREATE OR REPLACE TABLE")

    def replace(self, name: str) -> TableBuilder:
        """As :meth:`createOrReplace`; the table must be there."""
        return TableBuilder(self.table(name), "REPLACE TABLE")

    def connect(self) -> None:
        """Makes Spark see the lake; :func:`turnstile_spark.attach` calls it. Detaches the lake that had the name."""
        coordinator.register(self.jvm, self.name)
        replaced = coordinator.attach(self)
        if replaced is not None:
            replaced.detach()
        self._sessions.join(self.spark)

    def detach(self) -> None:
        """Takes the catalog out of Spark and closes connections. Later use of its tables raises
        ``TURNSTILE_DETACHED``. Idempotent."""
        self._sessions.leave()
        coordinator.detach(self)
        self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, catalog {self.api.catalog!r} of {self.api.http.url})"


class Table:
    """A table of a lake by name (``namespace.table``). The name is looked up at every call.

    All methods raise ``AnalysisException`` (TABLE_OR_VIEW_NOT_FOUND) when there is no such table and
    :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(self, spark: Any, context: LakeContext, name: str) -> None:
        self._spark, self._context = spark, context
        self.namespace, _, self.name = name.rpartition(".")
        self.namespace = self.namespace or "default"

    @property
    def sql_name(self) -> str:
        """The name to use in SQL, quoted."""
        return ".".join(f"`{part}`" for part in self._full_name)

    @property
    def id(self) -> str:
        """The table's uuid."""
        return self._call_with_id(lambda table_id: table_id)

    def to_df(self) -> Any:
        """The table as a Spark DataFrame."""
        return self._spark.table(self.sql_name)

    def head(self) -> Head:
        """The table's HEAD as the server has it. Source: one consistent read of its row."""
        return self._call_with_id(self._context.api.head)

    def commits(self, start: int | None = None, end: int | None = None) -> list[Commit]:
        """The ratified commits that the HEAD still carries, ascending, from version ``start`` to ``end`` (inclusive).
        Older ones are published; :meth:`history` has them all."""
        return list(self._call_with_id(lambda table_id: self._context.api.commits(table_id, start, end)).commits)

    def history(self, limit: int | None = None) -> list[Any]:
        """Rows of ``DESCRIBE HISTORY``, newest first, at most ``limit``. Source: the Delta log, read by Delta."""
        clause = "" if limit is None else f" LIMIT {int(limit)}"
        return self._spark.sql(f"DESCRIBE HISTORY {self.sql_name}{clause}").collect()  # type: ignore[no-any-return]

    def outcome(self, version: int, txn_id: str | None = None, name: str | None = None) -> Outcome:
        """What became of a proposed commit, known by its transaction id or its staged file name."""
        return self._call_with_id(lambda table_id: self._context.api.outcome(table_id, version, txn_id, name))

    def publish(self) -> dict[str, int]:
        """Publishes all ratified commits now. Returns ``published`` (how many), ``floor`` and ``latest`` (versions)."""
        return self._call_with_id(self._context.api.publish)

    def drop(self) -> bool:
        """Drops the table (its files are kept for the server's grace period). False when there was none."""
        try:
            return self._context.api.drop(self.namespace, self.name)
        except ApiError as e:
            raise self._error(e) from None

    @property
    def _full_name(self) -> tuple[str, ...]:
        return (self._context.name, *self.namespace.split("."), self.name)

    def _call_with_id(self, call: Callable[[str], T]) -> T:
        try:
            return call(self._context.load(self.namespace, self.name).table_id)
        except ApiError as e:
            raise self._error(e) from None

    def _error(self, e: ApiError) -> Exception:
        if e.type in ("NoSuchTable", "NoSuchNamespace"):
            return captured.convert_exception(self._context.throw.no_such_table(*self._full_name).java_exception)
        return e.as_turnstile_error()

    def __repr__(self) -> str:
        return f"Table({self.sql_name})"


class TableBuilder:
    """A table builder in the style of ``DeltaTable.create``, for names with a catalog (Delta's own parses two parts).

    It collects a definition; :meth:`execute` runs it as one SQL statement. All other methods but :meth:`sql` return self.
    """

    def __init__(self, table: Table, verb: str) -> None:
        self._table, self._verb = table, verb
        self._columns: list[str] = []
        self._partitioned: tuple[str, ...] = ()
        self._clustered: tuple[str, ...] = ()
        self._comment: str | None = None
        self._properties: dict[str, str] = {}

    def addColumn(
        self,
        colName: str,
        dataType: Any,
        *,
        nullable: bool = True,
        generatedAlwaysAs: str | None = None,
        default: str | None = None,
        identity: tuple[int, int] | bool = False,
        comment: str | None = None,
    ) -> Self:
        """Adds a column. ``dataType``: SQL text or a Spark ``DataType``. ``generatedAlwaysAs``, ``default``: SQL
        expressions. ``identity``: True, or (start, step), for ``GENERATED BY DEFAULT AS IDENTITY``."""
        type_text = dataType if isinstance(dataType, str) else dataType.simpleString()
        parts = [_quoted(colName), type_text]
        if not nullable:
            parts.append("NOT NULL")
        if generatedAlwaysAs is not None:
            parts.append(f"GENERATED ALWAYS AS ({generatedAlwaysAs})")
        if identity:
            start, step = identity if isinstance(identity, tuple) else (1, 1)
            parts.append(f"GENERATED BY DEFAULT AS IDENTITY (START WITH {int(start)} INCREMENT BY {int(step)})")
        if default is not None:
            parts.append(f"DEFAULT {default}")
            self._properties.setdefault("delta.feature.allowColumnDefaults", "supported")
        if comment is not None:
            parts.append(f"COMMENT {_text(comment)}")
        self._columns.append(" ".join(parts))
        return self

    def addColumns(self, schema: Any) -> Self:
        """Adds the columns of a ``StructType``."""
        for field in schema.fields:
            self.addColumn(field.name, field.dataType, nullable=field.nullable, comment=field.metadata.get("comment"))
        return self

    def partitionedBy(self, *columns: str) -> Self:
        """Partitions by these columns."""
        self._partitioned = columns
        return self

    def clusterBy(self, *columns: str) -> Self:
        """Clusters by these columns."""
        self._clustered = columns
        return self

    def comment(self, text: str) -> Self:
        """Sets the table's comment."""
        self._comment = text
        return self

    def property(self, key: str, value: str) -> Self:
        """Sets a table property."""
        self._properties[key] = value
        return self

    def sql(self) -> str:
        """The statement that :meth:`execute` runs."""
        parts = [self._verb, self._table.sql_name, f"({', '.join(self._columns)})", "USING delta"]
        for word, columns in (("PARTITIONED BY", self._partitioned), ("CLUSTER BY", self._clustered)):
            if columns:
                parts.append(f"{word} ({', '.join(map(_quoted, columns))})")
        if self._comment is not None:
            parts.append(f"COMMENT {_text(self._comment)}")
        if self._properties:
            pairs = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in self._properties.items())
            parts.append(f"TBLPROPERTIES ({pairs})")
        return " ".join(parts)

    def execute(self) -> Table:
        """Creates or replaces the table; raises what the SQL statement raises."""
        self._table._spark.sql(self.sql())
        return self._table


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
