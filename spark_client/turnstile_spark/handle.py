"""One table through the Python API, beside SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors.exceptions import captured

from turnstile_spark.answers import Commit, Head, Outcome
from turnstile_spark.errors import ApiError

if TYPE_CHECKING:
    from turnstile_spark.lake import Lake


class Table:
    """A table of a lake by name (``namespace.table``). The name is looked up at every call.

    All methods raise ``AnalysisException`` (TABLE_OR_VIEW_NOT_FOUND) when there is no such table and
    :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(self, lake: Lake, name: str) -> None:
        self._lake = lake
        self.namespace, _, self.name = name.rpartition(".")
        self.namespace = self.namespace or "default"

    @property
    def sql_name(self) -> str:
        """The name to use in SQL, quoted."""
        return ".".join(f"`{part}`" for part in (self._lake.name, *self.namespace.split("."), self.name))

    @property
    def id(self) -> str:
        """The table's uuid."""
        try:
            return self._lake.load(self.namespace, self.name).table_id
        except ApiError as e:
            raise self._error(e) from None

    def to_df(self) -> Any:
        """The table as a Spark DataFrame."""
        return self._lake.spark.table(self.sql_name)

    def head(self) -> Head:
        """The table's HEAD as the server has it. Source: one consistent read of its row."""
        return self._ask(self._lake.api.head)  # type: ignore[no-any-return]

    def commits(self, start: int | None = None, end: int | None = None) -> list[Commit]:
        """The ratified commits that the HEAD still carries, ascending, from version ``start`` to ``end`` (inclusive).
        Older ones are published; :meth:`history` has them all."""
        tail = self._ask(lambda table_id: self._lake.api.commits(table_id, start, end))
        return list(tail.commits)

    def history(self, limit: int | None = None) -> list[Any]:
        """Rows of ``DESCRIBE HISTORY``, newest first, at most ``limit``. Source: the Delta log, read by Delta."""
        tail = "" if limit is None else f" LIMIT {int(limit)}"
        return self._lake.spark.sql(f"DESCRIBE HISTORY {self.sql_name}{tail}").collect()  # type: ignore[no-any-return]

    def outcome(self, version: int, txn_id: str | None = None, name: str | None = None) -> Outcome:
        """What became of a proposed commit, known by its transaction id or its staged file name."""
        return self._ask(lambda table_id: self._lake.api.outcome(table_id, version, txn_id, name))  # type: ignore[no-any-return]

    def publish(self) -> dict[str, int]:
        """Publishes all ratified commits now. Returns ``published`` (how many), ``floor`` and ``latest`` (versions)."""
        return self._ask(self._lake.api.publish)  # type: ignore[no-any-return]

    def drop(self) -> bool:
        """Drops the table (its files are kept for the server's grace period). False when there was none."""
        try:
            return self._lake.api.drop(self.namespace, self.name)
        except ApiError as e:
            raise self._error(e) from None

    def _ask(self, question: Any) -> Any:
        try:
            return question(self._lake.load(self.namespace, self.name).table_id)
        except ApiError as e:
            raise self._error(e) from None

    def _error(self, e: ApiError) -> Exception:
        if e.type in ("NoSuchTable", "NoSuchNamespace"):
            name = (self._lake.name, *self.namespace.split("."), self.name)
            return captured.convert_exception(self._lake.throw.no_such_table(*name).java_exception)
        return e.as_turnstile_error()

    def __repr__(self) -> str:
        return f"Table({self.sql_name})"
