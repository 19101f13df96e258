"""The JVM exceptions that stand for server errors: Spark's and Delta's own wherever they have one."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError

from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, Jvm, throw

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."


class Throw:
    """Makes the exception to raise from a callback. Every method returns it: ``raise self._throw.xyz(...)``."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    def commit_failed(self, retryable: bool, conflict: bool, text: str) -> Py4JJavaError:
        """For ``commit``, which may throw nothing else. Retryable conflict: Delta rebases and tries the next version."""
        return throw(self.jvm.new("io.delta.storage.commit.CommitFailedException", retryable, conflict, text))

    def no_such_table(self, *name: str) -> Py4JJavaError:
        """Spark reports it as TABLE_OR_VIEW_NOT_FOUND."""
        return throw(self._no_such_table(name))

    def _no_such_table(self, name: tuple[str, ...]) -> JavaObject:
        return self.jvm.new(_ANALYSIS + "NoSuchTableException", self._seq(name))

    def _seq(self, values: tuple[str, ...]) -> JavaObject:
        made = self.jvm.new("java.util.ArrayList")
        for value in values:
            made.add(value)
        return self.jvm.cls("org.apache.spark.api.python.PythonUtils").toSeq(made)

    def no_such_function(self, identifier: JavaObject) -> Py4JJavaError:
        """ROUTINE_NOT_FOUND."""
        return throw(self.jvm.new(_ANALYSIS + "NoSuchFunctionException", identifier))

    def table_exists(self, *name: str) -> Py4JJavaError:
        """TABLE_OR_VIEW_ALREADY_EXISTS."""
        return throw(self.jvm.new(_ANALYSIS + "TableAlreadyExistsException", self._seq(name)))

    def no_such_namespace(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_NOT_FOUND."""
        return throw(self.jvm.new(_ANALYSIS + "NoSuchNamespaceException", self.jvm.strings(levels)))

    def namespace_exists(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_ALREADY_EXISTS."""
        return throw(self.jvm.new(_ANALYSIS + "NamespaceAlreadyExistsException", self.jvm.strings(levels)))

    def namespace_not_empty(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_NOT_EMPTY."""
        return throw(self.jvm.new(_ANALYSIS + "NonEmptyNamespaceException", self.jvm.strings(levels)))

    def unsupported(self, text: str) -> Py4JJavaError:
        """What a lake cannot do; PySpark raises ``UnsupportedOperationException``."""
        return throw(self.jvm.new("java.lang.UnsupportedOperationException", text))

    def other(self, e: ApiError) -> Py4JJavaError:
        """An error without an exception of Spark's own. Unchecked, since callers declare nothing that fits."""
        return throw(self.jvm.new("java.lang.IllegalStateException", f"[{e.condition}] {e}"))

    def read_failed(self, e: ApiError, name: tuple[str, ...]) -> Py4JJavaError:
        """For reading a table's commits: a table that is gone is "not found", also in the middle of a query."""
        if e.type in ("NoSuchTable", "TableNotActive") and name:
            text = f"[TURNSTILE_REFUSED] {e}"
            return throw(self.jvm.new("java.lang.IllegalStateException", text, self._no_such_table(name)))
        return self.other(e)

    def table_error(self, e: ApiError, *name: str) -> Py4JJavaError:
        """For catalog calls about one table."""
        if e.type in ("NoSuchTable", "NoSuchCatalog"):
            return self.no_such_table(*name)
        if e.type == "NoSuchNamespace":
            return self.no_such_namespace(list(name[1:-1]))
        if e.type == "AlreadyExists":
            return self.table_exists(*name)
        return self.other(e)

    def namespace_error(self, e: ApiError, levels: list[str]) -> Py4JJavaError:
        """For catalog calls about one namespace."""
        if e.type in ("NoSuchNamespace", "NoSuchCatalog"):
            return self.no_such_namespace(levels)
        if e.type == "AlreadyExists":
            return self.namespace_exists(levels)
        if e.type == "NamespaceNotEmpty":
            return self.namespace_not_empty(levels)
        return self.other(e)
