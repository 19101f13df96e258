"""The user's transactions: ``with lake.transaction() as txn:``.

A transaction is a scope (:mod:`turnstile_spark.transactions.scopes.scope`) whose held commits are
folded, one commit for each table (:mod:`turnstile_spark.transactions.conflicts.fold`), and proposed
as one group (:mod:`turnstile_spark.transactions.groups`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self

from turnstile_http.api import Commit
from turnstile_http.errors import ApiError
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import (
    TransactionConflict,
    TransactionOutcomeUnknown,
    TurnstileError,
    as_turnstile_error,
    turnstile_error,
)
from turnstile_spark.proposals import already_written, await_file
from turnstile_spark.transactions.conflicts.conflict_check import ISOLATION, Isolation, Read
from turnstile_spark.transactions.groups import Group, ratify_group
from turnstile_spark.transactions.journal import Announcer
from turnstile_spark.transactions.parts import Parts
from turnstile_spark.transactions.reads.catalog_reads import CatalogReadLog
from turnstile_spark.transactions.reads.read_sets import Collector
from turnstile_spark.transactions.recovery.reconcile import Reconciler
from turnstile_spark.transactions.recovery.replay import REPLAYS, Replayer
from turnstile_spark.transactions.recovery.statements import Statements
from turnstile_spark.transactions.requests import group_request, table_read
from turnstile_spark.transactions.reservations import Reservation, reserve_tables
from turnstile_spark.transactions.scopes import cut_log
from turnstile_spark.transactions.scopes.scope import Mark, ScopedTable
from turnstile_spark.transactions.slack import Slack, check_slack, slack_of
from turnstile_spark.transactions.snapshot import Scoped
from turnstile_spark.transactions.summary import Summary, summary_of

log = logging.getLogger("turnstile_spark")
#: How often a transaction is put on top of other commits before it is given up.
REBASES = 20


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A point in a transaction to which :meth:`Transaction.rollback_to` goes back."""

    transaction_id: str
    held: Mark
    statements: int = 0


class Transaction(Scoped):
    """All statements of a thread on tables of a lake, committed together: the result of
    :meth:`turnstile_spark.Lake.transaction`.

    ``application``: a name and a number (a stream and its batch) that every written table records.
    ``journal``: whether it is announced before it is sent, so that others can finish or undo it.
    ``group_action``: whether every commit names all tables of the transaction (the action
    ``transactionGroup`` of a proposal that is not settled). ``replays``: how often statements of
    :meth:`sql` may run again when it loses, and ``replay_deadline_s``: in which time since its
    begin. ``slack``: by how many versions tables that are only read may be behind at the commit, of
    all or by name (``namespace.table``). ``reserve``: tables that others do not write meanwhile.
    """

    def __init__(
        self,
        lake: LakeContext,
        spark: Any,
        isolation: Isolation = "snapshot",
        tables: Iterable[str] = (),
        *,
        retries: int = 0,
        application: tuple[str, int] | None = None,
        journal: bool = False,
        group_action: bool = False,
        replays: int = REPLAYS,
        replay_deadline_s: float | None = None,
        slack: Slack = 0,
        reserve: Iterable[str] = (),
    ) -> None:
        if isolation not in ISOLATION:
            raise ValueError(f"isolation={isolation!r}: one of {', '.join(ISOLATION)}")
        check_slack(slack, isolation)
        if replays < 0:
            raise ValueError(f"replays={replays}: 0 or more")
        super().__init__(lake, spark, tables, is_writable=True, fixed_catalog="")
        self.isolation = isolation
        self.retries = retries
        self._application = application
        self._state = "new"
        self._group: Group | None = None
        self._parts: Parts | None = None
        self._read_at: dict[str, int] = {}
        self._read_predicates: dict[str, str] = {}
        self._rebases = 0
        self._collector: Collector | None = None
        self._has_group_action = group_action
        self._journal = Announcer(lake.api, isolation) if journal else None
        self._id = ""
        self._statements: Statements | None = None
        self._replayer: Replayer | None = None
        self._replays = replays
        self._replay_deadline_s = replay_deadline_s
        self._replay_until: float | None = None
        self._slack = slack
        self._reserved = tuple(reserve)
        self._reservation: Reservation | None = None

    @property
    def id(self) -> str:
        """The transaction's id, a uuid."""
        self._open_scope()
        return self._id

    @property
    def state(self) -> str:
        """new, open, committed, aborted, conflict, refused, or unknown."""
        return self._state

    def __enter__(self) -> Self:
        self._lake.check_open()
        self._reservation = reserve_tables(self._lake.api, self._reserved)
        try:
            super().__enter__()
        except BaseException:
            if self._reservation is not None:
                self._reservation.end()
            raise
        self._id = self._open_scope().id
        self._state = "open"
        if self._replay_deadline_s is not None:
            self._replay_until = time.monotonic() + self._replay_deadline_s
        if self.isolation == "serializable":
            self._open_scope().catalog_reads = CatalogReadLog(self._lake.api)
            self._collector = _collecting(self._lake, self._spark)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._state == "open":
                if kind is None:
                    self.commit()
                else:
                    self.abort()
        finally:
            if self._collector is not None:
                self._collector.close()
            self._end()
            if self._reservation is not None:
                self._reservation.end()

    def sql(self, text: str) -> Any:
        """Runs one SQL statement in the transaction, as ``spark.sql`` does, and records it: when
        the transaction loses, the affected statements run again, and no other
        (docs/transactions.md). Returns None for INSERT, UPDATE, DELETE and MERGE, so that nothing
        depends on their reports, and the DataFrame of any other.
        """
        self._must_be_open()
        if self._statements is None:
            is_from_begin = self._collector is not None
            self._collector = self._collector or _collecting(self._lake, self._spark)
            if self._collector is None:  # then nothing is replayed
                return self._spark.sql(text)
            self._statements = Statements(
                self._lake.jvm, self._spark, self._open_scope(), self._collector, is_from_begin=is_from_begin
            )
            self._replayer = Replayer(self._lake, self._statements, limit=self._replays, until=self._replay_until)
        return self._statements.run(text)

    # -- ending it -----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commits all that is held, in one request; called at the end of the ``with`` block. When
        the outcome is unknown, another call asks for it again. Statements that follow in the block
        are refused.

        Raises :class:`turnstile_spark.TransactionConflict` when it lost,
        :class:`turnstile_spark.TransactionOutcomeUnknown` and
        :class:`turnstile_spark.TurnstileError`.
        """
        if self._state == "committed":
            return
        if self._state not in ("open", "unknown"):
            raise turnstile_error("TURNSTILE_REFUSED", f"this transaction is {self._state}: begin another")
        scope = self._open_scope()
        resent = self._state == "unknown"
        if self._statements is not None and scope.is_open:
            self._statements.flush()
        scope.close()
        if not scope.written_tables() and not scope.changes:
            self._state = "committed"
            return
        self._state = "refused"
        try:
            self._propose(resent)
            self._state = "committed"
        except TransactionOutcomeUnknown:
            self._state = "unknown"
            raise
        except ApiError as e:
            if e.type == "TransactionAborted":
                self._state = "aborted"
            elif self._withdraw(e):
                return
            raise as_turnstile_error(e) from None
        except TurnstileError as e:
            self._state = "conflict" if e.condition == "TURNSTILE_TRANSACTION_CONFLICT" else "refused"
            if self._withdraw(e):
                return
            raise
        except BaseException:
            self._state = "unknown" if self._group is not None else "refused"
            raise
        finally:
            for table_id in self._open_scope().written_tables():
                self._lake.freshness.void(table_id)

    def abort(self) -> None:
        """Gives up all held commits; nothing of them was, or will be, visible. Later statements in
        the block are refused. Idempotent. With a journal also of a transaction whose outcome is
        unknown: then it is committed, or aborted for good; raises
        :class:`turnstile_spark.TurnstileError` in the first case.
        """
        if self._state == "unknown" and self._journal is not None:
            try:
                self._lake.api.abort(self.id)
                self._state = "aborted"
            except ApiError as e:
                self._state = "committed" if e.type == "TransactionCommitted" else "unknown"
                raise as_turnstile_error(e) from None
            return
        if self._state not in ("open", "aborted"):
            raise turnstile_error(
                "TURNSTILE_REFUSED", f"this transaction is {self._state}: it cannot be aborted any more"
            )
        self._open_scope().close()
        self._state = "aborted"

    def savepoint(self) -> Savepoint:
        """A point to go back to, after the statements so far."""
        self._must_be_open()
        if self._statements is not None:
            self._statements.flush()
        return Savepoint(self.id, self._open_scope().mark(), len(self._statements.entries) if self._statements else 0)

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Gives up the commits that are held since ``savepoint``. The cut stays, and so do the
        tables that were read. DataFrames made since the begin are to be made anew."""
        self._must_be_open()
        if savepoint.transaction_id != self.id:
            raise turnstile_error("TURNSTILE_REFUSED", "this savepoint is another transaction's")
        scope = self._open_scope()
        if self._statements is not None:
            self._statements.flush()
        scope.go_back(savepoint.held)
        if self._statements is not None:
            self._statements.go_back(savepoint.statements)
        cut_log.drop(self._lake.jvm, self._session, scope)

    def has_committed(self, application: str, number: int) -> bool:
        """Whether a table that is written here has, in the cut, taken note of ``number`` of this
        application, or of a later one."""
        logs = [table.delta_log for table in self._open_scope().written_tables().values()]
        return any(log is not None and cut_log.number_of(log, application) >= number for log in logs)

    def written(self) -> set[str]:
        """The tables that it has written so far (``namespace.table``), without the ones that it
        creates."""
        tables = self._scope.written_tables().values() if self._scope is not None else ()
        return {table.state.name.partition(".")[2] for table in tables if table.first is None}

    def _must_be_open(self) -> None:
        if self._state != "open":
            raise turnstile_error("TURNSTILE_REFUSED", f"this transaction is {self._state}: begin another")

    # -- the group -----------------------------------------------------------------------------------------------------

    def _propose(self, resent: bool) -> None:
        lake = self._lake
        scope = self._open_scope()
        if self._parts is None:
            self._parts = self._fold()
            written = self._parts.versions
            moved = self._moved_and_not_read()
            unwritten = {id: table for id, table in scope.tables().items() if id not in written and id not in moved}
            self._read_at = {id: table.base for id, table in unwritten.items()}
            self._read_predicates = {}
        parts = self._parts
        slack = {table_id: n for table_id in self._read_at if (n := self._slack_of(scope.tables()[table_id]))}
        reconciler = Reconciler(lake, self.isolation, scope.tables(), parts.folded, self._collect_reads, slack=slack)
        files = {} if resent else parts.write_later()
        while True:
            try:
                ratified = self._ratify(parts, files, resent=resent)
                break
            except TransactionConflict as conflict:
                if self._rebases == REBASES:
                    raise
                self._rebases = self._rebases + 1
                resent = False
                try:
                    later = reconciler.put_on_top(conflict)
                except TransactionConflict as lost:
                    self._replay(lost, reconciler)
                    return self._propose(resent) if self._open_scope().written_tables() else None
                if self._journal is not None and parts.has_first and any(place.content for place in later.values()):
                    # Somebody else may be resuming it, and reading version 0: that is not written
                    # again.
                    reason = "it has a journal and creates tables, so it is not put on top of other commits"
                    raise conflict.with_reasons([reason]) from None
            self._group = None
            self._read_at |= {id: place.base for id, place in later.items() if place.content is None}
            self._read_predicates |= {id: place.predicate for id, place in later.items() if place.content is None}
            files |= parts.move({id: (p.base + 1, p.content) for id, p in later.items() if p.content is not None})
        for table_id, name in parts.names.items():
            await_file(lake.api, table_id, ratified[table_id], name, files.get(table_id) or already_written())
        parts.write_checksums(lake.checksums, scope.tables())
        return None

    def _replay(self, lost: TransactionConflict, reconciler: Reconciler) -> None:
        """Moves the transaction to a new cut. Raises ``lost``, with the reason, when that is not
        possible."""
        is_refused = any(member.get("type") != "CommitVersionConflict" for member in lost.members)
        if self._replayer is None or self._collector is None or self._collector.plans is None or is_refused:
            raise lost
        plan = self._replayer.plan(lost, self._cut, reconciler.winners)
        old = self._open_scope()
        try:
            self._scope = old.at_cut(plan.cut)
        except ApiError as e:
            raise lost.with_reasons([*lost.reasons, f"not replayed: {e}"]) from None
        self._lake.scopes.leave(old)
        cut_log.drop(self._lake.jvm, self._session, old)
        self._lake.scopes.enter(self._scope)
        self._parts = self._group = None
        try:
            self._replayer.run(plan, self._scope)
        finally:
            self._scope.close()

    def _moved_and_not_read(self) -> set[str]:
        """The tables that are renamed or dropped. Raises :class:`TurnstileError` under serializable
        isolation when one of them was read: the server takes a table once in a transaction, so its
        version cannot be checked as well.
        """
        scope = self._open_scope()
        moved = {id: table for id, table in scope.tables().items() if scope.changes.moves(id)}
        if moved and self.isolation == "serializable":
            reads = self._collect_reads()
            if names := [table.state.name for id, table in moved.items() if reads.get(id)]:
                text = (
                    f"'{names[0]}' is renamed or dropped by this transaction, and read by it: serializable isolation "
                    f"would have to check "
                    "what was read as well, and the server takes a table once in a transaction. Read it in a "
                    "transaction before"
                )
                raise turnstile_error("TURNSTILE_REFUSED", text)
        return set(moved)

    def _fold(self) -> Parts:
        """The commits of the held changes."""
        return Parts(
            self._lake.files,
            self._open_scope().written_tables(),
            inline_limit=self._lake.inline_limit,
            application=self._application,
            group_id=self.id if self._has_group_action else None,
        )

    def _ratify(self, parts: Parts, files: dict[str, Future[None]], *, resent: bool) -> dict[str, Commit]:
        """Sends the group. Commits that are too large to travel in it together are written as files
        first."""
        self._group = self._group or self._request(parts, inline=self._lake.inline_limit)
        try:
            self._announce(self._group)
            return self._send(self._group, resent)
        except ApiError as e:
            if not resent and self._read_predicates and str(e.body.get("field")).endswith("].predicate"):
                # the versions are named, and judged here
                self._group = None
                self._read_predicates = {}
                return self._ratify(parts, files, resent=False)
            if e.type != "TooLarge" or resent:
                raise
        parts.write()
        files.clear()
        self._group = self._request(parts, inline=-1)
        self._announce(self._group)
        return self._send(self._group, resent=False)

    def _announce(self, group: Group) -> None:
        """With a journal: writes the group into it, before it is sent."""
        if self._journal is not None:
            self._requests += 1
            self._journal.announce(group, self._lake.deadline)

    def _withdraw(self, refused: ApiError | TurnstileError) -> bool:
        """Aborts the announced entry after a refusal, so that no other client finishes a
        transaction that its user runs again. Returns True if another client has finished it: it is
        committed. Raises :class:`TransactionOutcomeUnknown` when neither is known.
        """
        if self._journal is None or not self._journal.is_announced:
            return False
        self._requests += 1
        try:
            is_committed = self._journal.withdraw(self.id, self._lake.deadline, refused)
        except TransactionOutcomeUnknown:
            self._state = "unknown"
            raise
        if is_committed:
            self._state = "committed"
        return is_committed

    def _collect_reads(self) -> dict[str, list[Read]]:
        """The reads of the statements, by table id; all of every table without a collector."""
        scope = self._open_scope()
        tables = scope.tables()
        if self._statements is not None:
            return self._statements.reads()
        if self._collector is None:
            return {table_id: [Read(table.state.location, table.base)] for table_id, table in tables.items()}
        reads: dict[str, list[Read]] = {}
        for read in self._collector.reads({table.state.location: table.latest for table in tables.values()}):
            if (table := scope.at(read.table)) is not None:
                reads.setdefault(table.state.table_id, []).append(read)
        return reads

    def _send(self, group: Group, resent: bool) -> dict[str, Commit]:
        before = self._lake.api.http.requests["transaction"]
        try:
            return ratify_group(self._lake.api, group, self._lake.deadline, is_open=resent).commits
        finally:
            self._requests += max(1, self._lake.api.http.requests["transaction"] - before)

    def _request(self, parts: Parts, inline: int) -> Group:
        """The request: commits up to ``inline`` bytes travel in it, others as files. Tables that
        were only read are named under serializable isolation: their versions must still be the
        latest.
        """
        scope = self._open_scope()
        reads = self._read_at if self.isolation == "serializable" else {}
        return group_request(
            self.id,
            parts,
            inline=inline,
            reads=[
                table_read(table_id, version, self._slack_of(scope.tables()[table_id]), self._read_predicates)
                for table_id, version in reads.items()
            ],
            changes=scope.changes,
            catalog_reads=scope.catalog_reads,
            attempt=f"{self._rebases} {inline}",
            has_journal=self._journal is not None,
            reservation=self._reservation.id if self._reservation is not None else None,
        )

    def _slack_of(self, table: ScopedTable) -> int:
        """By how many versions a table may be behind, if it is only read."""
        return slack_of(self._slack, table.state.name.partition(".")[2])

    # -- what it did ---------------------------------------------------------------------------------------------------

    def summary(self) -> Summary:
        """The summary so far, or of all. Sends no request."""
        versions = self._parts.versions if self._parts is not None else {}
        tables = {}
        for table in self._open_scope().tables().values():
            version = (
                versions.get(table.state.table_id, table.version) if self._state in ("open", "committed") else None
            )
            tables[table.state.name.partition(".")[2]] = summary_of(table, version, self._slack_of(table))
        replayer = self._replayer
        counts = (replayer.count, replayer.kept, replayer.run_again) if replayer is not None else ()
        requests = self._requests + (self._reservation.requests if self._reservation is not None else 0)
        return Summary(self.id, self._state, tables, requests, self.retries, *counts)


def _collecting(lake: LakeContext, spark: Any) -> Collector | None:
    """The collector of the transaction's reads; None if there can be none: then every table that it
    used counts as read."""
    try:
        return Collector(lake.jvm, spark).open()
    except Exception:
        log.warning("turnstile_spark: reads are not collected; tables count as read whole", exc_info=True)
        return None
