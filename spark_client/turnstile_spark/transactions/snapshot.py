"""The user's snapshots, ``with lake.snapshot(...) as cut:``, and the common parts of snapshots and
transactions.

Both are a scope (:mod:`turnstile_spark.transactions.scopes.scope`) of the thread that is in the
``with`` block.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from pyspark.sql.functions import lit, unix_millis

from turnstile_http.api import TableState
from turnstile_http.errors import ApiError
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import as_turnstile_error, turnstile_error
from turnstile_spark.transactions.scopes import cut_log
from turnstile_spark.transactions.scopes.scope import Scope


class Scoped:
    """The common part of a transaction and a snapshot: the scope of the thread that is in the
    ``with`` block."""

    def __init__(
        self, lake: LakeContext, spark: Any, tables: Iterable[str], *, is_writable: bool, fixed_catalog: str
    ) -> None:
        self._lake = lake
        self._spark = spark
        self._session = spark._jsparkSession
        self._named = tuple(tables)
        self._is_writable = is_writable
        self._requests = 0
        self._fixed_catalog = fixed_catalog
        self._scope: Scope | None = None

    def __enter__(self) -> Self:
        if self._scope is not None:
            raise turnstile_error("TURNSTILE_REFUSED", "a transaction or snapshot is entered once: make another")
        lake = self._lake
        lake.check_open()
        try:
            cut = self._cut(list(self._named)) if self._named else {}
        except ApiError as e:
            raise as_turnstile_error(e) from None
        self._scope = Scope(
            lake.name,
            self._session,
            self._load,
            self._cut,
            cut=cut,
            is_writable=self._is_writable,
            fixed_catalog=self._fixed_catalog,
        )
        lake.scopes.enter(self._scope)
        return self

    def _load(self, namespace: str, name: str) -> TableState:
        self._requests += 1
        return self._lake.load(namespace, name)

    def _cut(self, tables: list[str]) -> dict[str, int]:
        self._requests += 1
        return {entry.table_id: entry.version for entry in self._lake.api.cut(tables)}

    def _end(self) -> None:
        """Takes the thread out of the scope, and removes Delta's objects of the scope.
        Idempotent."""
        scope = self._open_scope()
        self._lake.scopes.leave(scope)
        cut_log.drop(self._lake.jvm, self._session, scope)
        for table in scope.tables().values():
            if table.first is not None:
                self._lake.credentials.forget(table.state.table_id)
                cut_log.forget(self._lake.jvm, self._session, table.state.location)

    def _open_scope(self) -> Scope:
        if self._scope is None:
            raise turnstile_error("TURNSTILE_REFUSED", "not begun: use it in a 'with' statement")
        return self._scope

    @property
    def versions(self) -> dict[str, int]:
        """The version at which each used table is read (``namespace.table``)."""
        return {t.state.name.partition(".")[2]: t.base for t in self._open_scope().tables().values()}

    def table(self, name: str) -> Any:
        """The table ``namespace.table`` as a DataFrame, as it is seen here. To be used inside the
        ``with`` block only."""
        self._open_scope()
        parts = [self._lake.name, *name.split(".")]
        return self._spark.table(".".join(f"`{part}`" for part in parts))


class Snapshot(Scoped):
    """One cut over several tables: the result of :meth:`turnstile_spark.Lake.snapshot`."""

    def __init__(
        self, lake: LakeContext, spark: Any, tables: Iterable[str], at: str | datetime | int | None = None
    ) -> None:
        super().__init__(lake, spark, tables, is_writable=False, fixed_catalog="a snapshot is for reading")
        if not self._named:
            raise ValueError("lake.snapshot(...) needs the names of its tables, as 'namespace.table'")
        self._at = at
        self._versions: dict[str, int] = {}

    def _cut(self, tables: list[str]) -> dict[str, int]:
        self._requests += 1
        entries = self._lake.api.cut(tables, _milliseconds(self._spark, self._at))
        self._versions |= {entry.name.partition(".")[2]: entry.version for entry in entries}
        return {entry.table_id: entry.version for entry in entries}

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table of the snapshot, by ``namespace.table``."""
        self._open_scope()
        return dict(self._versions)

    def __exit__(self, *_: object) -> None:
        self._end()


def _milliseconds(spark: Any, moment: str | datetime | int | None) -> int | None:
    """A moment as Spark understands it: a text, and a datetime without a zone, are of the session's
    time zone."""
    if moment is None or isinstance(moment, int):
        return moment
    (row,) = spark.range(1).select(unix_millis(lit(moment).cast("timestamp")).alias("ms")).collect()
    if row.ms is None:
        raise ValueError(f"at={moment!r} is no timestamp: write it as 'YYYY-MM-DD hh:mm:ss'")
    return int(row.ms)
