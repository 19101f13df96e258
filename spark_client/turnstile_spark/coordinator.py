"""Delta's commit coordinator, answered by the Turnstile server."""

from __future__ import annotations

import json
import logging
import time
import uuid
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from turnstile_spark import registry
from turnstile_spark.answers import Commit
from turnstile_spark.errors import ApiError
from turnstile_spark.freshness import Grant
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, names_of, throw
from turnstile_spark.jvm_errors import Throw
from turnstile_spark.log_files import Write
from turnstile_spark.outcome import OutcomeUnknown, Proposal, Ratified, ratify

if TYPE_CHECKING:
    from turnstile_spark.lake import Lake

log = logging.getLogger("turnstile_spark")
TABLE_ID = "io.unitycatalog.tableId"
#: Refusals after which Delta may read again what happened and propose its rebased transaction as another version.
_REBASE = {"CommitVersionConflict", "ReloadRequired", "StaleMetadata", "ConcurrentChange"}


class Coordinator(Proxy):
    """``CommitCoordinatorClient`` for one catalog name of one JVM: acts for the lake attached under that name."""

    def __init__(self, jvm: Jvm, name: str, grant: Grant | None = None) -> None:
        self.jvm, self.name, self._grant = jvm, name, grant
        self._throw = Throw(jvm)

    def _lake(self) -> Lake:
        lake = registry.current(self.jvm.gateway, self.name)
        if lake is None:
            text = f"[TURNSTILE_DETACHED] no lake is attached as '{self.name}': turnstile_spark.attach(spark, ...)"
            raise throw(self.jvm.new("java.lang.IllegalStateException", text))
        return lake

    def commit(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, actions: JavaObject, _: Any
    ) -> JavaObject:
        """Proposes version ``version``; returns when it is ratified *and* its file exists for every executor."""
        lake, log_path = self._lake(), table.getLogPath().toString()
        if lake.clones and self._of_clone(lake, table):  # RESTORE does not mind that it was given an old version
            text = f"[TURNSTILE_REFUSED] version {version} of {log_path}: a clone is pinned, this is its source's log"
            raise self._throw.commit_failed(False, False, text)
        table_id = self._table_id(lake, table, log_path)
        content = self.jvm.cls("org.apache.commons.lang3.StringUtils").join(actions, "\n") + "\n"
        info = json.loads(content[: content.index("\n")])["commitInfo"]
        name = f"{version:020d}.{uuid.uuid4()}.json"
        write = Write(log_store, conf, log_path, name, content)
        try:
            done = self._propose(lake, table_id, version, info["txnId"], write)
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
        if done.commit.version != version:
            # Ratified, but not where Delta believes: neither success nor a retry would be true.
            text = f"[TURNSTILE_REFUSED] transaction {info['txnId']} is already version {done.commit.version}"
            raise self._throw.commit_failed(False, False, text)
        return self.jvm.new("io.delta.storage.commit.CommitResponse", lake.files.describe(log_path, done.commit))

    @staticmethod
    def _of_clone(lake: Lake, table: JavaObject) -> bool:
        """Whether a commit is made under the name of a clone."""
        named = table.getTableIdentifier()
        if not named.isPresent():
            return False
        identifier = named.get()
        name = ".".join((*names_of(identifier.getNamespace()), str(identifier.getName()))).lower()
        return name in lake.clones or name.removeprefix(f"{lake.name.lower()}.") in lake.clones

    def _propose(self, lake: Lake, table_id: str, version: int, txn_id: str, write: Write) -> Ratified:
        size = len(write.content.encode())
        if size <= lake.inline_limit:
            materialised = lake.files.write_later(write)
            inline = {"version": version, "inline": {"content": write.content, "name": write.name}}
            try:
                done = ratify(lake.api, Proposal(table_id, version, txn_id, inline), lake.deadline)
                commit = self._await_file(lake, table_id, done.commit, write.name, materialised)
                return replace(done, commit=commit)
            except ApiError as e:
                if e.type != "TooLarge":
                    raise
        lake.files.write(write)
        staged = {"name": write.name, "size": size, "modified": int(time.time() * 1000)}
        body = {"version": version, "staged": staged}
        return ratify(lake.api, Proposal(table_id, version, txn_id, body), lake.deadline)

    @staticmethod
    def _await_file(lake: Lake, table_id: str, commit: Commit, name: str, written: Future[None]) -> Commit:
        """The commit is ratified: make sure that its file exists. Never fails, since the commit does stand.

        Returns the commit as it is known now: when it was published meanwhile nobody materialises it any more, and
        its file is the one in ``_delta_log`` (I4)."""
        try:
            if commit.name == name:
                written.result()
                return commit
        except Exception as e:
            log.warning("turnstile_spark: could not write %s (%s); the server writes it", name, e)
        try:
            tail = lake.api.commits(table_id, commit.version, commit.version)  # materialises before it answers
            return replace(commit, published=tail.floor >= commit.version)
        except ApiError as e:
            log.warning("turnstile_spark: version %s is ratified, its file not written yet: %s", commit.version, e)
            return commit

    def getCommits(self, table: JavaObject, start: int | None, end: int | None) -> JavaObject:
        """The ratified commits that are not published yet, and the latest version (I6)."""
        lake, log_path = self._lake(), table.getLogPath().toString()
        table_id = self._table_id(lake, table, log_path)
        tail = lake.freshness.take(table_id, self._grant)
        if tail is None:
            try:
                tail = lake.api.commits(table_id, start, end)
            except ApiError as e:
                raise self._throw.read_failed(e, lake.name_of(log_path)) from None
        return lake.files.describe_all(log_path, tail, start, end)

    def backfillToVersion(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, known: int | None
    ) -> None:
        """Returns when ``_delta_log`` has everything up to ``version``: Delta needs that before a checkpoint."""
        lake, log_path = self._lake(), table.getLogPath().toString()
        table_id, until = self._table_id(lake, table, log_path), time.monotonic() + lake.deadline
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
        """Part of older coordinators' way to adopt a table; ours are registered through the catalog."""
        return self.jvm.new("java.util.HashMap")

    def semanticEquals(self, other: Any) -> bool:
        return isinstance(other, Coordinator) and other.name == self.name

    @staticmethod
    def _table_id(lake: Lake, table: JavaObject, log_path: str) -> str:
        return lake.id_of(log_path) or str(table.getTableConf().get(TABLE_ID))

    class Java:
        implements: ClassVar = ["io.delta.storage.commit.CommitCoordinatorClient"]


class Route(Proxy):
    """``CatalogOwnedCommitCoordinatorBuilder``: what Delta keeps for ever under a catalog name."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        self.jvm, self.name = jvm, name
        self._plain = Coordinator(jvm, name)

    def getName(self) -> str:
        return self.name

    def build(self, spark: JavaObject, conf: JavaObject) -> Coordinator:
        return self._plain

    def buildForCatalog(self, spark: JavaObject, name: str) -> Coordinator:
        """Called on the thread of the statement, right before Delta reads or commits."""
        lake = registry.current(self.jvm.gateway, self.name)
        grant = lake.freshness.grant() if lake else None
        return Coordinator(self.jvm, self.name, grant) if grant else self._plain

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorBuilder"]


def register(jvm: Jvm, name: str) -> None:
    """Registers the coordinator of a catalog name with Delta, once per JVM."""

    def make() -> Route:
        route = Route(jvm, name)
        provider = "org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorProvider"
        jvm.cls(provider).registerBuilder(name, route)
        return route

    registry.route_once(jvm.gateway, name, make)
