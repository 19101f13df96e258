"""Errors: the server's, the user's, and the JVM exceptions in between.

A failure travels server -> :class:`ApiError` (Python) -> JVM exception thrown into Spark or Delta
-> Python exception of the user. Where Spark or Delta has an exception of its own for the case, that
one is used. For the rest a JVM exception whose message starts with ``[TURNSTILE_...]`` is thrown,
and :func:`install_converter` lets PySpark raise :class:`TurnstileError` for it, so that a py4j
stack trace never reaches the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.captured import CapturedException

from turnstile_http.errors import ApiError
from turnstile_spark.jvm import JavaObject, Jvm, throw
from turnstile_spark.storage_errors import storage_failure

#: Delta's words when the catalog of a table it still knows is gone from the session.
_NO_COORDINATOR = "Couldn't locate commit coordinator for:"
#: Spark's words where a stream's format (by default ``spark.sql.sources.default``) is not the
#: table's.
_WRONG_SOURCE = re.compile(r"^(?:\[\w+\] )?The input source\(\w+\) is different from the table `?([\w-]+)`?\.")
#: Spark's words where a session has a lake's configuration and not the lake.
_NO_PLUGIN = re.compile(
    r"Cannot find catalog plugin class for catalog '([^']+)': io\.unitycatalog\.spark\.UCSingleCatalog"
)
#: Delta's words where a catalog-managed table is used by its path.
_BY_PATH = re.compile(r"Path-based access is not allowed for Catalog-Managed table: (\S+?)(?:/_delta_log/?)?\.(?:\s|$)")
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."
_UNDECLARED = "java.lang.reflect.UndeclaredThrowableException"
_MARK = re.compile(r"\[(TURNSTILE_[A-Z_]+)\]")
#: The condition of a transaction that lost, and may win when it is run again.
CONFLICT = "TURNSTILE_TRANSACTION_CONFLICT"


class TurnstileError(CapturedException):
    """An error of Turnstile without a matching exception of Spark or Delta. ``condition`` names it.

    ============================== =====================================================================
    TURNSTILE_OUTCOME_UNKNOWN       a commit, or a change of the catalog, may or may not have happened
    TURNSTILE_TRANSACTION_CONFLICT  the transaction lost to another; nothing was changed, it may be run again
    TURNSTILE_TRANSACTION_OVER      a thread or DataFrame of a transaction or snapshot that has ended
    TURNSTILE_UNREACHABLE           the server did not answer before the deadline; nothing was changed
    TURNSTILE_REFUSED               the server refused for good; the message has its reason and remedy
    TURNSTILE_NOT_PERMITTED         the token is missing, wrong or has no right to this
    TURNSTILE_STORAGE               S3 failed under a lake's table; the message has the cause and the remedy
    TURNSTILE_DETACHED              the lake of that name was detached, or never attached in this session
    TURNSTILE_SELF_TEST             an internal of Spark or Delta is not what this package was built for
    TURNSTILE_CLIENT_ERROR          a defect of this package
    ============================== =====================================================================
    """

    @property
    def condition(self) -> str:
        """The name in brackets at the start of the message."""
        mark = _MARK.search(str(self))
        return mark.group(1) if mark else "TURNSTILE_CLIENT_ERROR"

    def __str__(self) -> str:
        return self._desc or ""


def turnstile_error(condition: str, text: str) -> TurnstileError:
    """A :class:`TurnstileError` made in Python (no JVM exception behind it)."""
    return TurnstileError(desc=f"[{condition}] {text}", stackTrace="")


def as_turnstile_error(e: ApiError) -> TurnstileError:
    """The same for a caller of the Python API."""
    return turnstile_error(e.condition, str(e))


class TransactionConflict(TurnstileError):
    """The transaction lost, and nothing of it was applied. Run it again from the start
    (``lake.retry`` does).

    ``id``: the transaction's; ``members``: for each conflicting table, the server's answer:
    ``table_id``, ``type``, ``message``, ``latest``, ``winners`` ...; empty when the server named
    none. ``reasons``: the changes of the winners that conflict with it, and why.
    """

    def __init__(self, id: str, refused: ApiError, reasons: Sequence[str] = ()) -> None:
        self.id = id
        self.members = list(refused.body.get("members") or [])
        self.reasons = list(reasons)
        self._refused = refused
        messages = [str(m.get("message") or m.get("type")) for m in self.members]
        why = "; ".join(self.reasons or messages) or str(refused)
        super().__init__(desc=f"[{CONFLICT}] nothing of transaction {id} was applied: {why}", stackTrace="")

    def with_reasons(self, reasons: Sequence[str]) -> TransactionConflict:
        """The same, with its reasons."""
        return TransactionConflict(self.id, self._refused, reasons)


class TransactionOutcomeUnknown(TurnstileError):
    """The deadline passed without a final answer: the transaction was committed as a whole, or not
    at all.

    ``id``: the transaction's. ``commit()`` of the transaction asks again; running the statements
    again may write twice.
    """

    def __init__(self, id: str, seconds: float, last: ApiError) -> None:
        self.id = id
        text = (
            f"[TURNSTILE_OUTCOME_UNKNOWN] the outcome of transaction {id} is unknown: no final answer within "
            f"{seconds:.0f} s. It was "
            "committed as a whole or not at all. Do not simply run it again: ask first, with commit() of the same "
            "transaction. "
            f"Last failure: {last}"
        )
        super().__init__(desc=text, stackTrace="")


class Throw:
    """Makes the JVM exceptions for server errors: Spark's and Delta's own wherever they have one.

    Every method returns the exception for a callback: ``raise self._throw.xyz(...)``.
    """

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    def commit_failed(self, retryable: bool, conflict: bool, text: str) -> Py4JJavaError:
        """For ``commit``, which may throw nothing else. Retryable conflict: Delta rebases and tries
        the next version."""
        return throw(self.jvm.new("io.delta.storage.commit.CommitFailedException", retryable, conflict, text))

    def no_such_table(self, *name: str) -> Py4JJavaError:
        """Spark reports it as TABLE_OR_VIEW_NOT_FOUND."""
        return throw(self._no_such_table(name))

    def _no_such_table(self, name: tuple[str, ...]) -> JavaObject:
        return self.jvm.new(_ANALYSIS + "NoSuchTableException", self._seq(name))

    def _seq(self, values: tuple[str, ...]) -> JavaObject:
        array_list = self.jvm.new("java.util.ArrayList")
        for value in values:
            array_list.add(value)
        return self.jvm.cls("org.apache.spark.api.python.PythonUtils").toSeq(array_list)

    def no_such_function(self, identifier: JavaObject) -> Py4JJavaError:
        """ROUTINE_NOT_FOUND."""
        return throw(self.jvm.new(_ANALYSIS + "NoSuchFunctionException", identifier))

    def table_exists(self, *name: str) -> Py4JJavaError:
        """TABLE_OR_VIEW_ALREADY_EXISTS."""
        return throw(self.jvm.new(_ANALYSIS + "TableAlreadyExistsException", self._seq(name)))

    def no_such_view(self, identifier: JavaObject) -> Py4JJavaError:
        """VIEW_NOT_FOUND."""
        return throw(self.jvm.new(_ANALYSIS + "NoSuchViewException", identifier))

    def view_exists(self, identifier: JavaObject) -> Py4JJavaError:
        """VIEW_ALREADY_EXISTS."""
        return throw(self.jvm.new(_ANALYSIS + "ViewAlreadyExistsException", identifier))

    def no_such_namespace(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_NOT_FOUND."""
        return throw(self.jvm.new(_ANALYSIS + "NoSuchNamespaceException", self.jvm.strings(levels)))

    def namespace_exists(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_ALREADY_EXISTS."""
        return throw(self.jvm.new(_ANALYSIS + "NamespaceAlreadyExistsException", self.jvm.strings(levels)))

    def namespace_not_empty(self, levels: list[str]) -> Py4JJavaError:
        """SCHEMA_NOT_EMPTY."""
        return throw(self.jvm.new(_ANALYSIS + "NonEmptyNamespaceException", self.jvm.strings(levels)))

    def unsupported_operation(self, text: str) -> Py4JJavaError:
        """An operation that a lake does not have; PySpark raises
        ``UnsupportedOperationException``."""
        return throw(self.jvm.new("java.lang.UnsupportedOperationException", text))

    def other(self, e: ApiError) -> Py4JJavaError:
        """An error without an exception of Spark's own. Unchecked, since callers declare nothing
        that fits."""
        return throw(self.jvm.new("java.lang.IllegalStateException", f"[{e.condition}] {e}"))

    def refusal(self, e: TurnstileError) -> Py4JJavaError:
        """An error of this package, which PySpark raises as it is."""
        return throw(self.jvm.new("java.lang.IllegalStateException", str(e)))

    def read_failed(self, e: ApiError, name: tuple[str, ...]) -> Py4JJavaError:
        """For reading a table's commits: a table that is gone is "not found", also in the middle of
        a query."""
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

    def namespace_error(self, e: ApiError, levels: list[str], *, creating: bool = False) -> Py4JJavaError:
        """For catalog calls about one namespace. An invalid name leads to no namespace, unless one
        is to get it."""
        if e.type in ("NoSuchNamespace", "NoSuchNamespaceException", "NoSuchCatalog") or (
            e.type == "InvalidName" and not creating
        ):
            return self.no_such_namespace(levels)
        if e.type == "AlreadyExists":
            return self.namespace_exists(levels)
        if e.type == "NamespaceNotEmpty":
            return self.namespace_not_empty(levels)
        return self.other(e)


def install_converter(is_lake: Callable[[str], bool], name_at: Callable[[str], str | None]) -> None:
    """Makes PySpark raise Delta's and Turnstile's own exceptions instead of py4j's. Idempotent.
    ``is_lake`` says whether a lake is attached under a name; ``name_at`` which table of one is at a
    path ("" where only its bucket is a lake's), None for others.
    """
    import delta.exceptions  # noqa: F401  (its import registers Delta's own conversion)

    original = captured.convert_exception
    if getattr(original, "turnstile", False):
        return

    def convert(e: Any) -> CapturedException:
        e, undeclared = _declared_exception(e)
        # Delta's conflict exceptions may carry ours as a cause: those must stay what they are.
        first = original(e)
        if isinstance(first, captured.UnknownException) or type(first).__name__ == "StreamingQueryException":
            # PySpark raises py4j's error, with both stack traces, in the place of an
            # UnknownException.
            ours = _convert(e, original, is_lake) or _of_lake(_chain(e), name_at)
            return ours or (CapturedException(origin=e) if undeclared else first)
        if (table := _WRONG_SOURCE.search(first._desc or "")) and is_lake(table.group(1)):
            first._desc = f'{first._desc} Say .format("delta") before toTable.'
        return first

    convert.turnstile = True  # type: ignore[attr-defined]
    captured.convert_exception = convert


def _declared_exception(e: Any) -> tuple[Any, bool]:
    """The exception in the place of Java's ``UndeclaredThrowableException``, in which a proxy wraps
    every checked exception that its interface does not declare (most of Delta's are
    ``AnalysisException``); and whether it was wrapped.
    """
    wrapped = False
    while e is not None and e.getClass().getName() == _UNDECLARED and e.getCause() is not None:
        e = e.getCause()
        wrapped = True
    return e, wrapped


def _convert(e: Any, original: Any, is_lake: Callable[[str], bool]) -> CapturedException | None:
    """The Python exception for a JVM exception that carries one of ours; None when it carries
    none."""
    # Wrapping exceptions repeat the message of their cause: the innermost one that has it is ours.
    for link in reversed(_chain(e)):
        message = link.getMessage()
        if not message:
            continue
        if message.startswith(_NO_COORDINATOR):
            name = message.removeprefix(_NO_COORDINATOR).strip()
            if "__scope`" in name:
                text = f"a stream or session that began in a transaction has {name} from it: begin it outside"
                return turnstile_error("TURNSTILE_TRANSACTION_OVER", text)
            return turnstile_error("TURNSTILE_DETACHED", f"the lake of {name} is not attached in this session any more")
        if (catalog := _NO_PLUGIN.search(message)) and is_lake(catalog.group(1)):
            text = (
                f"the lake '{catalog.group(1)}' is not in this session, as it is in those of newSession(): "
                f"lake.join(spark)"
            )
            return turnstile_error("TURNSTILE_DETACHED", text)
        if mark := _MARK.search(message):
            cause = link.getCause()
            if cause is not None:
                return original(cause)  # type: ignore[no-any-return]
            return TurnstileError(desc=message[mark.start() :], stackTrace="", cause=None)
    return None


def _of_lake(chain: list[Any], name_at: Callable[[str], str | None]) -> TurnstileError | None:
    """The Python exception for a failure of the store, or of a path, of a lake's table; None for
    any other."""
    links = [(str(link.getClass().getName()), str(link.getMessage() or "")) for link in chain]
    for _, message in links:
        if by_path := _BY_PATH.search(message):
            name = name_at(by_path.group(1))
            if name is not None:
                text = (
                    f"{name or by_path.group(1)} is a table of a lake: use its name in the place of its path; CREATE "
                    f"TABLE ... AS SELECT copies it"
                )
                return turnstile_error("TURNSTILE_REFUSED", text)
    failure = storage_failure(links)
    if failure is not None and name_at(failure.path) is not None:
        return turnstile_error("TURNSTILE_STORAGE", failure.text)
    return None


def _chain(e: Any) -> list[Any]:
    """A JVM exception and its causes, outermost first."""
    links: list[Any] = []
    while e is not None and len(links) < 20:
        links.append(e)
        e = e.getCause()
    return links
