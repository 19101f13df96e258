"""Delta's commit coordinator, answered by the server, and proposing a commit until its outcome is known.

Delta lets a coordinator be registered once per JVM and catalog name, and never unregistered. So what is registered is
a :class:`CoordinatorBuilder`, made once, whose coordinators act for the lake that is attached under that name now.

Delta must never be told "conflict" or "try again" about a commit that is ratified or may still be: it would commit the
same data a second time as another version. So after an attempt whose outcome is unknown, the only thing allowed is to
send the *same* proposal again (the server recognises it by its txn id) until an answer is final (I2, I3).
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from turnstile_spark.api import Api, Commit
from turnstile_spark.context import TABLE_ID, LakeContext
from turnstile_spark.errors import ApiError, Throw
from turnstile_spark.freshness import Grant
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, names_of, throw
from turnstile_spark.log_files import Write

log = logging.getLogger("turnstile_spark")
#: Refusals after which Delta may read the new state and propose its rebased transaction as another version.
_REBASE = {"CommitVersionConflict", "ReloadRequired", "StaleMetadata", "ConcurrentChange"}


class AttachedLake(Protocol):
    """What is attached under a catalog name."""

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


def _attached(jvm: Jvm, name: str) -> LakeContext | None:
    lake = _lakes.get(_key(jvm, name))
    return lake.context if lake else None


def _key(jvm: Jvm, name: str) -> _Key:
    """A name in a JVM. The port is the JVM's identity: a new JVM of this process gets a new gateway."""
    return int(jvm.gateway.gateway_parameters.port), name


class CoordinatorBuilder(Proxy):
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
        lake = _attached(self.jvm, self.name)
        grant = lake.freshness.grant() if lake else None
        return Coordinator(self.jvm, self.name, grant) if grant else self._plain

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.delta.coordinatedcommits.CatalogOwnedCommitCoordinatorBuilder"]


class Coordinator(Proxy):
    """``CommitCoordinatorClient`` for one catalog name of one JVM: acts for the lake attached under that name."""

    def __init__(self, jvm: Jvm, name: str, grant: Grant | None = None) -> None:
        self.jvm, self.name, self._grant = jvm, name, grant
        self._throw = Throw(jvm)

    def _lake(self) -> LakeContext:
        lake = _attached(self.jvm, self.name)
        if lake is None:
            text = f"[TURNSTILE_DETACHED] no lake is attached as '{self.name}': turnstile_spark.attach(spark, ...)"
            raise throw(self.jvm.new("java.lang.IllegalStateException", text))
        return lake

    def commit(
        self, log_store: JavaObject, conf: JavaObject, table: JavaObject, version: int, actions: JavaObject, _: Any
    ) -> JavaObject:
        """Proposes version ``version``; returns when it is ratified *and* its file exists for every executor."""
        lake, log_path = self._lake(), table.getLogPath().toString()
        if lake.clones and self._of_clone(lake, table):  # RESTORE accepts the old version that it is given
            text = f"[TURNSTILE_REFUSED] version {version} of {log_path}: a clone is pinned, this is its source's log"
            raise self._throw.commit_failed(False, False, text)
        table_id = self._table_id(lake, table, log_path)
        content = self.jvm.cls("org.apache.commons.lang3.StringUtils").join(actions, "\n") + "\n"
        info = json.loads(content[: content.index("\n")])["commitInfo"]
        file_name = f"{version:020d}.{uuid.uuid4()}.json"
        write = Write(log_store, conf, log_path, file_name, content)
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
                commit = self._await_file(lake, table_id, ratified.commit, write.name, materialised)
                return replace(ratified, commit=commit)
            except ApiError as e:
                if e.type != "TooLarge":
                    raise
        lake.files.write(write)
        staged = {"name": write.name, "size": size, "modified": int(time.time() * 1000)}
        body = {"version": version, "staged": staged}
        return ratify(lake.api, Proposal(table_id, version, txn_id, body), lake.deadline)

    @staticmethod
    def _await_file(lake: LakeContext, table_id: str, commit: Commit, name: str, written: Future[None]) -> Commit:
        """Makes sure that the file of a ratified commit exists. Never fails: the commit stands without it.

        Returns the commit as the server has it now. One that was published meanwhile is not materialised any more: its
        file is the one in ``_delta_log`` (I4)."""
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
        """How older coordinators adopt a table; tables of a lake are registered through the catalog."""
        return self.jvm.new("java.util.HashMap")

    def semanticEquals(self, other: Any) -> bool:
        return isinstance(other, Coordinator) and other.name == self.name

    @staticmethod
    def _table_id(lake: LakeContext, table: JavaObject, log_path: str) -> str:
        return lake.id_of(log_path) or str(table.getTableConf().get(TABLE_ID))

    class Java:
        implements: ClassVar = ["io.delta.storage.commit.CommitCoordinatorClient"]


@dataclass(frozen=True, slots=True)
class Ratified:
    """The proposal is version ``commit.version``; ``latest`` is the table's newest version known."""

    commit: Commit
    latest: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A commit as it is sent, every time the same: ``body`` is the request."""

    table_id: str
    version: int
    txn_id: str
    body: dict[str, Any]


class OutcomeUnknown(Exception):
    """The deadline passed without a final answer about the proposal."""

    def __init__(self, proposal: Proposal, seconds: float, last: ApiError) -> None:
        super().__init__(
            f"the outcome of this commit (version {proposal.version}, transaction {proposal.txn_id}) is unknown: no final answer within "
            f"{seconds:.0f} s. It may have been committed, or may not. Do not simply run the statement again: ask "
            f"first with lake.table(...).outcome(txn_id='{proposal.txn_id}', version={proposal.version}), or "
            f"GET /v1/tables/{proposal.table_id}/outcome?txn_id={proposal.txn_id}&version={proposal.version}. Last failure: {last}"
        )


def ratify(api: Api, proposal: Proposal, deadline: float) -> Ratified:
    """Sends ``proposal`` until it is ratified or refused for good, at most ``deadline`` seconds.

    Raises :class:`ApiError` when the proposal was refused and can never become ratified any more, and
    :class:`OutcomeUnknown` when the deadline passed without that being known.
    """
    until = time.monotonic() + deadline
    open_attempt = False  # an attempt was made that may have been, or may still be, carried out

    def attempt() -> Ratified:
        nonlocal open_attempt
        try:
            response = api.propose(proposal.table_id, proposal.body)
            return Ratified(Commit.read(response["commit"]), response["latest"])
        except ApiError as e:
            if e.ambiguous:
                open_attempt = True
            elif open_attempt and not e.transient and e.type != "CommitVersionConflict":
                # A conflict is final by itself: the version belongs to another commit. After any other refusal an
                # earlier attempt may still land, so the outcome decides.
                return _settle(api, proposal, e)
            raise

    try:
        return api.http.retrying(until)(attempt)
    except ApiError as e:
        if open_attempt and e.transient:
            raise OutcomeUnknown(proposal, deadline, e) from e
        raise


def _settle(api: Api, proposal: Proposal, refused: ApiError) -> Ratified:
    """Asks for the outcome after a refusal that does not exclude an earlier attempt."""
    settled = api.outcome(proposal.table_id, proposal.version, txn_id=proposal.txn_id)
    if settled.outcome == "ratified":
        for commit in api.commits(proposal.table_id, settled.version, settled.version).commits:
            return Ratified(commit, settled.latest)
        # Published and gone from the tail. The proposal is ratified; sending it again returns its commit.
        raise ApiError(0, "NoAnswer", f"version {settled.version} is ratified; its entry has left the tail")
    if settled.outcome == "never":
        raise refused
    raise ApiError(0, "NoAnswer", f"still open after {refused}")
