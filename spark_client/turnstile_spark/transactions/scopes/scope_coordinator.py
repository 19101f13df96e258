"""Delta's commit coordinator of the tables in scopes: it holds commits back instead of proposing
them.

Registered once per lake, under a name of its own
(:func:`turnstile_spark.transactions.scopes.scope.catalog_of`). The scope of a coordinator is chosen
when Delta gets it, which is on the thread of the statement, and stays with it: Delta's objects of a
closed scope (a DataFrame, say) are never answered from another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from turnstile_http.api import Tail
from turnstile_spark.context import LakeContext
from turnstile_spark.coordinator import refuse_mirroring
from turnstile_spark.delta.log_files import STAGED, Write
from turnstile_spark.errors import Throw, TurnstileError
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, throw
from turnstile_spark.transactions.conflicts.fold import CannotFold, fold
from turnstile_spark.transactions.scopes.scope import OPTION, Held, Scope, ScopedTable, catalog_of, over

log = logging.getLogger("turnstile_spark")
_lock = threading.Lock()
_builders: dict[tuple[int, str], ScopeCoordinatorBuilder] = {}


def register(jvm: Jvm, lake: str, attached: Callable[[], LakeContext | None]) -> None:
    """Registers the coordinator of a lake's scopes with Delta, once per JVM. ``attached``: the lake
    of that name now."""
    key = int(jvm.gateway.gateway_parameters.port), lake
    with _lock:
        if key not in _builders:
            builder = ScopeCoordinatorBuilder(jvm, lake, attached)
            provider = "org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorProvider"
            jvm.cls(provider).registerBuilder(catalog_of(lake), builder)
            _builders[key] = builder


class ScopeCoordinatorBuilder(Proxy):
    """``CatalogOwnedCommitCoordinatorBuilder`` of the scopes of one lake."""

    def __init__(self, jvm: Jvm, lake: str, attached: Callable[[], LakeContext | None]) -> None:
        self.jvm = jvm
        self._lake = lake
        self._attached = attached

    def getName(self) -> str:
        return catalog_of(self._lake)

    def build(self, spark: JavaObject, conf: JavaObject) -> ScopeCoordinator:
        return ScopeCoordinator(self.jvm, self._lake, None, None)

    def buildForCatalog(self, spark: JavaObject, name: str) -> ScopeCoordinator:
        """Called on the thread of the statement, right before Delta reads or commits."""
        lake = self._attached()
        try:
            scope = lake.scopes.current(spark) if lake else None
        except TurnstileError:
            scope = None
        return ScopeCoordinator(self.jvm, self._lake, lake, scope)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorBuilder"]


class ScopeCoordinator(Proxy):
    """``CommitCoordinatorClient`` for the tables of one scope. ``scope`` None: of a scope that is
    over."""

    def __init__(self, jvm: Jvm, name: str, lake: LakeContext | None, scope: Scope | None) -> None:
        self.jvm = jvm
        self.name = name
        self._attached = lake
        self._scope = scope
        self._throw = Throw(jvm)

    def _table(self, log_path: str) -> tuple[LakeContext, Scope, ScopedTable]:
        """The lake, the scope and the table. Raises :class:`TurnstileError` when it is not, or no
        more, there."""
        scope = self._scope
        lake = self._attached
        table = scope.at(log_path) if scope is not None and scope.is_open else None
        if lake is None or scope is None or table is None:
            raise over()
        return lake, scope, table

    def commit(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, actions: JavaObject, _: Any
    ) -> JavaObject:
        """Holds version ``version``; returns when its file exists for every executor."""
        log_path = table.getLogPath().toString()
        try:
            lake, scope, scoped = self._table(log_path)
        except TurnstileError as e:
            raise self._throw.commit_failed(False, False, str(e)) from None
        if not scope.is_writable:
            text = (
                f"[TURNSTILE_REFUSED] '{scoped.state.name}': a snapshot is for reading, lake.transaction() is for "
                f"writing"
            )
            raise self._throw.commit_failed(False, False, text)
        refuse_mirroring(lake, log_path)
        content = self.jvm.cls("org.apache.commons.lang3.StringUtils").join(actions, "\n") + "\n"
        try:
            fold([*scoped.contents, content], scoped.version, "")
        except CannotFold as e:
            text = f"[TURNSTILE_REFUSED] '{scoped.state.name}' takes no further statement in this transaction: {e}"
            raise self._throw.commit_failed(False, False, text) from None
        held = Held.of(version, content)
        if not scope.is_own(scoped, str(conf.get(OPTION))):
            raise self._throw.commit_failed(False, False, str(over()))
        file = Write(log_store, conf, f"{log_path}/{STAGED}/{held.commit.name}", content)
        # Only what is proposed as it is, as a file, must survive a loss of power.
        lake.files.write(file, durable=len(content) > lake.inline_limit)
        try:
            is_held = scope.hold(scoped, held, file)
        except TurnstileError as e:
            raise self._throw.commit_failed(False, False, str(e)) from None
        if not is_held:
            text = f"another thread of the transaction has written version {version} of '{scoped.state.name}'"
            raise self._throw.commit_failed(True, True, text)
        return self.jvm.new("io.delta.storage.commit.CommitResponse", lake.files.describe(log_path, held.commit))

    def getCommits(self, table: JavaObject, start: int | None, end: int | None) -> JavaObject:
        """The commits up to the cut, and the held ones."""
        log_path = table.getLogPath().toString()
        try:
            if (created := self._before_creation(log_path)) is not None:
                return created
            lake, _, scoped = self._table(log_path)
        except TurnstileError as e:
            raise throw(self.jvm.new("java.lang.IllegalStateException", str(e))) from None
        return lake.files.describe_all(log_path, scoped.tail, start, end)

    def _before_creation(self, log_path: str) -> JavaObject | None:
        """The commits of a table whose version 0 Delta has just written, and which the scope does
        not have yet: none. Else None."""
        scope = self._scope
        lake = self._attached
        is_new = scope is not None and scope.is_open and scope.staged_at(log_path) and scope.at(log_path) is None
        return lake.files.describe_all(log_path, Tail((), 0, 0), None, None) if is_new and lake is not None else None

    def backfillToVersion(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, latest_backfilled: int | None
    ) -> None:
        """Refuses: a checkpoint of a held version would outlive it. Delta goes on without one."""
        text = "held commits of a transaction are not published"
        raise throw(self.jvm.new("java.lang.UnsupportedOperationException", text))

    def registerTable(self, *_: Any) -> JavaObject:
        return self.jvm.new("java.util.HashMap")

    def semanticEquals(self, other: Any) -> bool:
        return isinstance(other, ScopeCoordinator) and other.name == self.name and other._scope is self._scope

    class Java:
        implements: ClassVar = ["io.delta.storage.commit.CommitCoordinatorClient"]
