"""Delta's commit coordinator, answered by the server; it proposes a commit until its outcome is
known.

Delta lets a coordinator be registered once per JVM and catalog name, and never unregistered. So a
:class:`CoordinatorBuilder` is registered, made once; its coordinators act for the lake that is
attached under that name now.

Delta must never get "conflict" or "try again" about a commit that is ratified or may still be: it
would commit the same data a second time as another version. So after an attempt whose outcome is
unknown, only the *same* proposal may be sent again (the server recognises it by its txn id) until
an answer is final (I2, I3).
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from turnstile_http.errors import ApiError
from turnstile_http.http import now_ms
from turnstile_http.proposals import OutcomeUnknown, Proposal, Ratified, ratify
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.log_files import STAGED, Write
from turnstile_spark.errors import Throw, TurnstileError
from turnstile_spark.freshness import Grant
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, names_of, throw
from turnstile_spark.names import bucket_of
from turnstile_spark.proposals import await_file
from turnstile_spark.refusals import TABLE_ID
from turnstile_spark.transactions.scopes.scope import Scope

log = logging.getLogger("turnstile_spark")
#: Off by default. Delta reads it when a statement has committed.
_MIRROR = "spark.databricks.delta.catalog.update.enabled"
#: Refusals after which Delta may read the new state and propose its rebased transaction as another
#: version.
_REBASE = {"CommitVersionConflict", "ReloadRequired", "StaleMetadata", "ConcurrentChange"}


class AttachedLake(Protocol):
    """The lake that is attached under a catalog name."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> LakeContext: ...

    def detach(self) -> None: ...


_Key = tuple[int, str]
_lock = threading.Lock()
_lakes: dict[_Key, AttachedLake] = {}
_builders: dict[_Key, CoordinatorBuilder] = {}


def register(jvm: Jvm, name: str) -> None:
    """Registers the coordinator of a catalog name with Delta, once per JVM, and keeps it alive."""
    with _lock:
        if _key(jvm, name) not in _builders:
            builder = CoordinatorBuilder(jvm, name)
            provider = "org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorProvider"
            jvm.cls(provider).registerBuilder(name, builder)
            _builders[_key(jvm, name)] = builder


def attach(lake: AttachedLake) -> AttachedLake | None:
    """Makes the lake's name mean this lake; returns the lake that had the name before."""
    key = _key(lake.context.jvm, lake.name)
    with _lock:
        replaced = _lakes.get(key)
        _lakes[key] = lake
        return replaced


def detach(lake: AttachedLake) -> None:
    """Undoes :func:`attach`, if the name still means this lake."""
    key = _key(lake.context.jvm, lake.name)
    with _lock:
        if _lakes.get(key) is lake:
            del _lakes[key]


def is_lake(name: str) -> bool:
    """Whether a lake is attached under a name, in any JVM of this process."""
    return any(key[1] == name for key in list(_lakes))


def name_at(path: str) -> str | None:
    """The table of a lake at a path, as its full name; "" where the path is in a bucket that has
    tables of a lake, or is none while one has tables in S3; None for others."""
    shared = False
    for lake in list(_lakes.values()):
        if path and (name := lake.context.name_of(path)):
            return ".".join(name)
        buckets = {bucket_of(location) for location in lake.context.locations()} - {""}
        shared |= bucket_of(path) in buckets if path else bool(buckets)
    return "" if shared else None


def attached_lake(jvm: Jvm, name: str) -> LakeContext | None:
    """The lake that is attached under a name now."""
    lake = _lakes.get(_key(jvm, name))
    return lake.context if lake else None


def _key(jvm: Jvm, name: str) -> _Key:
    """A name in a JVM. The port is the JVM's identity: a new JVM of this process gets a new
    gateway."""
    return int(jvm.gateway.gateway_parameters.port), name


class CoordinatorBuilder(Proxy):
    """``CatalogOwnedCommitCoordinatorBuilder``: Delta keeps it for ever under a catalog name."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        self.jvm = jvm
        self.name = name
        self._plain = Coordinator(jvm, name)

    def getName(self) -> str:
        return self.name

    def build(self, spark: JavaObject, conf: JavaObject) -> Coordinator:
        return self._plain

    def buildForCatalog(self, spark: JavaObject, name: str) -> Coordinator:
        """Called on the thread of the statement, right before Delta reads or commits."""
        lake = attached_lake(self.jvm, self.name)
        if lake is None:
            return self._plain
        try:
            scope = lake.scopes.current(spark)
        except TurnstileError as e:
            raise throw(self.jvm.new("java.lang.IllegalStateException", str(e))) from None
        if scope is not None and not self._is_for_cache():
            return CoordinatorInScope(self.jvm, self.name, scope)
        grant = lake.freshness.grant()
        return Coordinator(self.jvm, self.name, grant) if grant else self._plain

    def _is_for_cache(self) -> bool:
        """Whether Spark is rebuilding its cached plans of a table, as it does after every write to
        a table of that name: for caches outside, which a scope's own tables never are."""
        stack = self.jvm.cls("org.apache.spark.util.Utils").exceptionString(self.jvm.new("java.lang.Throwable"))
        return "org.apache.spark.sql.execution.CacheManager" in str(stack)

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorBuilder"]


class Coordinator(Proxy):
    """``CommitCoordinatorClient`` for one catalog name of one JVM: acts for the lake attached under
    that name."""

    def __init__(self, jvm: Jvm, name: str, grant: Grant | None = None) -> None:
        self.jvm = jvm
        self.name = name
        self._grant = grant
        self._throw = Throw(jvm)

    def _lake(self) -> LakeContext:
        lake = attached_lake(self.jvm, self.name)
        if lake is None:
            text = f"[TURNSTILE_DETACHED] no lake is attached as '{self.name}': turnstile_spark.attach(spark, ...)"
            raise throw(self.jvm.new("java.lang.IllegalStateException", text))
        return lake

    def commit(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, actions: JavaObject, _: Any
    ) -> JavaObject:
        """Proposes version ``version``; returns when it is ratified *and* its file exists for every
        executor."""
        lake = self._lake()
        log_path = table.getLogPath().toString()
        if lake.clones and self._of_clone(lake, table):  # RESTORE accepts the old version that it is given
            text = f"[TURNSTILE_REFUSED] version {version} of {log_path}: a clone is pinned, this is its source's log"
            raise self._throw.commit_failed(False, False, text)
        refuse_mirroring(lake, log_path)
        table_id = self._table_id(lake, table, log_path)
        content = self.jvm.cls("org.apache.commons.lang3.StringUtils").join(actions, "\n") + "\n"
        info = json.loads(content[: content.index("\n")])["commitInfo"]
        name = f"{version:020d}.{uuid.uuid4()}.json"
        write = Write(log_store, conf, f"{log_path}/{STAGED}/{name}", content)
        try:
            ratified = self._propose(lake, table_id, version, info["txnId"], write)
        except ApiError as e:
            if e.type in _REBASE:
                raise self._throw.commit_failed(True, True, str(e)) from None
            raise self._throw.commit_failed(
                False, False, f"[{e.condition}] version {version} of {log_path}: {e}"
            ) from None
        except OutcomeUnknown as e:
            raise self._throw.commit_failed(False, False, f"[TURNSTILE_OUTCOME_UNKNOWN] {e}") from None
        finally:
            lake.freshness.void(table_id)
        if ratified.commit.version != version:
            # Ratified, but not where Delta believes: neither success nor a retry would be true.
            text = f"[TURNSTILE_REFUSED] transaction {info['txnId']} is already version {ratified.commit.version}"
            raise self._throw.commit_failed(False, False, text)
        if (delta_log := lake.delta_logs.of(table_id)) is not None:
            checksum = replace(write, path=f"{log_path}/{version:020d}.crc", content="")
            lake.checksums.write_later(delta_log, info["txnId"], version, checksum)
        return self.jvm.new("io.delta.storage.commit.CommitResponse", lake.files.describe(log_path, ratified.commit))

    @staticmethod
    def _of_clone(lake: LakeContext, table: JavaObject) -> bool:
        """Whether a commit is made under the name of a clone."""
        optional = table.getTableIdentifier()
        if not optional.isPresent():
            return False
        identifier = optional.get()
        name = ".".join((*names_of(identifier.getNamespace()), str(identifier.getName()))).lower()
        return name in lake.clones or name.removeprefix(f"{lake.name.lower()}.") in lake.clones

    def _propose(self, lake: LakeContext, table_id: str, version: int, txn_id: str, write: Write) -> Ratified:
        size = len(write.content.encode())
        if size <= lake.inline_limit:
            materialised = lake.files.write_later(write)
            inline = {"version": version, "inline": {"content": write.content, "name": write.name}}
            try:
                ratified = ratify(lake.api, Proposal(table_id, version, txn_id, inline), lake.deadline)
                commit = await_file(lake.api, table_id, ratified.commit, write.name, materialised)
                return replace(ratified, commit=commit)
            except ApiError as e:
                if e.type != "TooLarge":
                    raise
        lake.files.write(write)
        staged = {"name": write.name, "size": size, "modified": now_ms()}
        body = {"version": version, "staged": staged}
        return ratify(lake.api, Proposal(table_id, version, txn_id, body), lake.deadline)

    def getCommits(self, table: JavaObject, start: int | None, end: int | None) -> JavaObject:
        """The ratified commits that are not published yet, and the latest version (I6)."""
        lake = self._lake()
        log_path = table.getLogPath().toString()
        table_id = self._table_id(lake, table, log_path)
        tail = lake.freshness.take(table_id, self._grant)
        if tail is None:
            try:
                tail = lake.api.commits(table_id, start, end)
            except ApiError as e:
                raise self._throw.read_failed(e, lake.name_of(log_path)) from None
        return lake.files.describe_all(log_path, tail, start, end)

    def backfillToVersion(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, latest_backfilled: int | None
    ) -> None:
        """Returns when ``_delta_log`` has everything up to ``version``: Delta needs that before a
        checkpoint."""
        lake = self._lake()
        log_path = table.getLogPath().toString()
        table_id = self._table_id(lake, table, log_path)
        until = time.monotonic() + lake.deadline
        pause = 0.01
        try:
            while lake.api.publish(table_id)["floor"] < version:
                if time.monotonic() > until:
                    raise ApiError(0, "Unreachable", f"version {version} was not published in {lake.deadline:.0f} s")
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
        except ApiError as e:
            raise throw(self.jvm.new("java.io.IOException", f"[{e.condition}] publishing {log_path}: {e}")) from None

    def registerTable(self, *_: Any) -> JavaObject:
        """How older coordinators adopt a table; tables of a lake are registered through the
        catalog."""
        return self.jvm.new("java.util.HashMap")

    def semanticEquals(self, other: Any) -> bool:
        return isinstance(other, Coordinator) and other.name == self.name

    @staticmethod
    def _table_id(lake: LakeContext, table: JavaObject, log_path: str) -> str:
        return lake.id_of(log_path) or str(table.getTableConf().get(TABLE_ID))

    class Java:
        implements: ClassVar = ["io.delta.storage.commit.CommitCoordinatorClient"]


def refuse_mirroring(lake: LakeContext, log_path: str) -> None:
    """Throws where Delta would then change a table of another catalog: with :data:`_MIRROR` it
    writes the schema of the commit into the session's own catalog, to the table of the same schema
    and name.
    """
    conf = lake.jvm.cls("org.apache.spark.sql.internal.SQLConf").get()
    name = lake.name_of(log_path)
    if not name or conf.getConfString(_MIRROR, "false").lower() != "true":
        return
    schema = lake.jvm.some(".".join(name[1:-1]))
    table = name[-1]
    session = lake.jvm.cls("org.apache.spark.sql.classic.SparkSession").active()
    identifier = lake.jvm.new("org.apache.spark.sql.catalyst.TableIdentifier", table, schema)
    if session.sessionState().catalog().tableExists(identifier):
        text = f"Delta would write the schema of {'.'.join(name)} into spark_catalog's table of that name"
        raise lake.throw.commit_failed(False, False, f"[TURNSTILE_REFUSED] {text}: SET {_MIRROR} = false")


class CoordinatorInScope(Coordinator):
    """For the lake's own tables while the thread is in a scope, whose tables have logs and a
    coordinator of their own (:mod:`turnstile_spark.transactions.scopes.scope_coordinator`): such a
    DataFrame was made outside, and sees and changes the state outside.
    """

    def __init__(self, jvm: Jvm, name: str, scope: Scope) -> None:
        super().__init__(jvm, name)
        self._scope = scope

    def commit(self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, *_: Any) -> JavaObject:
        raise self._throw.commit_failed(False, False, self._refusal(table))

    def getCommits(self, table: JavaObject, start: int | None, end: int | None) -> JavaObject:
        if self._scope.shows_clone_at(table.getLogPath().toString()):
            return super().getCommits(table, start, end)
        raise throw(self.jvm.new("java.lang.IllegalStateException", self._refusal(table)))

    def _refusal(self, table: JavaObject) -> str:
        log_path = table.getLogPath().toString()
        name = ".".join(self._lake().name_of(log_path)) or log_path
        return (
            f"[TURNSTILE_REFUSED] this DataFrame or DeltaTable of {name} was made outside of the transaction or "
            f"snapshot "
            "that this thread is in, and would not see it: make it inside"
        )
