"""Actors that commit to several tables at once, and that read several as of one moment."""

from __future__ import annotations

import json
import random
import uuid
import zlib
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from tests.simulation.actors.writers import CROWDED, PAUSES, Gone, Retryable, Writer
from tests.simulation.auditors.groups import GroupAuditor
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import DAY, HOUR, RESENT, SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import Client, Sandbox, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.fakes import delta
from turnstile.delta.core.decide import Conflict, Refused
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.prepare import TimestampAhead
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.transactions.cuts import Cuts
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier, GroupRefused
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.planning.reads import CommitJudge
from turnstile.store.core.errors import InvalidCommit, NotFound, OutcomeUnknown, StateConflict
from turnstile.store.core.limits import Limits
from turnstile.store.ports import TRANSACT_MAX

EVERY = ("staged", "inline", "inline", "ticket", "fat", "large", "metadata")
"""Kinds of commits."""

PATIENT = ("ticket",)
"""Kinds that still fit when a late copy of their group arrives: where refusals that pass are to be
met often."""

FINAL = ("TimestampNotIncreasing", "StaleMetadata", "InvalidCommit", "ReloadRequired")
"""Refusals of a member after which its client makes the commit anew."""


ANNOUNCED = tuple(kind for kind in EVERY if kind != "ticket")
"""Kinds that may be announced."""

SLACK = {"5": 1, "6": 1, "7": 1, "8": 2, "9": 3}
"""By how many versions the reads of a group may be behind, by the last digit of its id; 0 for
others."""

SETTLED = ("TransactionAborted", "TransactionCommitted")


class GroupSandbox(Sandbox):
    """A server process that decides groups."""

    def __init__(self, process: Process, limits: Limits | None = None, part: int = TRANSACT_MAX) -> None:
        super().__init__(process, limits)
        world = world_of(process)
        judge = CommitJudge(world, MetadataStore(world.objs, world.space))
        self.groups = GroupRatifier(world, self.ratifier, limits, part=part, judge=judge)
        self.journal = Journal(world, self.groups)


class GroupWriter(Writer):
    """Commits transactions over two or three tables, and names those that it only read. ``part``:
    tables that one conditional write changes."""

    kinds: tuple[str, ...] = EVERY

    def __init__(
        self,
        state: State,
        name: str,
        tables: Sequence[str],
        plan: Plan,
        *,
        rng: random.Random,
        auditor: GroupAuditor,
        part: int = TRANSACT_MAX,
    ) -> None:
        super().__init__(state, name, tables[0], plan, rng)
        self._tables = tables
        self._auditor = auditor
        limits = Limits(backlog_bytes=CROWDED) if RESENT in plan.faults else Limits()
        self._servers = Client(state, name, partial(GroupSandbox, limits=limits, part=part))

    def _transaction(self, txn: str) -> None:
        tables = self._rng.sample(self._tables, self._rng.choice((2, 2, 3)))
        written = tables[:-1] if self._rng.random() < (0.1 if self._impatient else 0.4) else tables
        kinds = [self._rng.choice(PATIENT if self._impatient else self.kinds) for _ in written]
        for attempt in range(1, 13):
            group = self._group(tables, kinds, txn, f"a{attempt}")
            if group is not None and self._settle_group(group, txn, f"a{attempt}"):
                return

    def _group(self, tables: Sequence[str], kinds: Sequence[str], txn: str, attempt: str) -> GroupRequest | None:
        """The transaction as it follows from the tables' present HEADs; None where a file could not
        be staged."""
        commits: list[CommitRequest] = []
        reads: list[ReadVersion] = []
        for number, table in enumerate(tables):
            self._table = table
            head = self._load()
            if number >= len(kinds):
                reads.append(ReadVersion(table, head.latest))
                continue
            self._kind = kinds[number]
            stamp = max(self._process.now_ms(), head.last_ict + 1)
            request = self._build(head, txn, attempt, stamp)
            if request is None:
                return None
            commits.append(request)
        id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        slack = SLACK.get(id[-1], 0)
        return GroupRequest(id, tuple(commits), tuple(replace(read, slack=slack) for read in reads))

    def _settle_group(self, group: GroupRequest, txn: str, attempt: str) -> bool:
        """Sends the same group until its answer is final. True when the transaction is over."""
        auditor = self._state.auditor
        scheduler = self._state.scheduler
        self._auditor.proposed(group, txn)
        lost = False
        while True:
            try:
                answer = self._servers.ask(lambda sandbox: sandbox.groups.commit(group))
            except TimestampAhead:
                self._process.skew = 0
                return False
            except (NotFound, InvalidCommit) as error:
                auditor.saw(error)
                self._told_never(group, txn, attempt, error.type)
                return False
            except (*Retryable, StateConflict) as error:
                lost = lost or isinstance(error, OutcomeUnknown)
                scheduler.sleep(self._rng.choice(PAUSES))
                continue
            if isinstance(answer, GroupRatified):
                auditor.seen[f"group {'replayed' if answer.replayed else 'accepted'}"] += 1
                for request, member in zip(group.commits, answer.members, strict=True):
                    auditor.told_ratified(request.table_id, txn, member.version)
                return True
            if any(
                member.decision.kind == "AlreadyRatified"
                for member in answer.members
                if isinstance(member.decision, Refused)
            ):
                auditor.seen["group ratified by an earlier attempt"] += 1  # one after which the clock was corrected
                return True
            if self._is_final(answer, lost=lost):
                self._told_never(group, txn, attempt, "refused")
                if self._impatient:
                    scheduler.sleep(self._rng.choice((SECOND, 60 * SECOND, HOUR)))
                return False
            scheduler.sleep(self._rng.choice((100, SECOND, 60 * SECOND)))

    def _is_final(self, answer: GroupRefused, *, lost: bool) -> bool:
        """Whether a refusal stays. Raises Gone where a table was dropped."""
        for member in answer.members:
            decision = member.decision
            self._state.auditor.saw(decision)
            if isinstance(decision, Conflict):
                self._state.auditor.seen[f"group lost by {'a read' if member.was_read else 'a commit'}"] += 1
                return True
            if isinstance(decision, Refused) and decision.kind in FINAL:
                return True
            if isinstance(decision, Refused) and decision.details.get("state") == "dropped":
                raise Gone
        return not lost and self._rng.random() < 0.5

    def _told_never(self, group: GroupRequest, txn: str, attempt: str, why: str) -> None:
        for request in group.commits:
            self._state.auditor.told_never(request.table_id, txn, attempt, why, request.version or 0)


class JudgedWriter(GroupWriter):
    """Commits groups whose reads have predicates, of files with known rows."""

    kinds = ("inline", "inline", "ticket")

    def _build(self, head: TableHead, txn: str, attempt: str, stamp: int) -> CommitRequest | None:
        request = super()._build(head, txn, attempt, stamp)
        if request is None or request.content is None:
            return request
        actions = [json.loads(line) for line in request.content.splitlines()]
        for action in actions:
            for kind in ("add", "remove"):
                if kind in action:
                    action[kind]["stats"] = _stats_of(value_of(txn))
        return replace(request, content=delta.lines(*actions))

    def _group(self, tables: Sequence[str], kinds: Sequence[str], txn: str, attempt: str) -> GroupRequest | None:
        group = super()._group(tables, kinds, txn, attempt)
        if group is None:
            return None
        reads = (
            replace(read, predicate=f"id = {self._rng.randrange(VALUES)}") if self._rng.random() < 0.9 else read
            for read in group.reads
        )
        return replace(group, reads=tuple(reads))


VALUES = 4
"""Different values of the files that ``JudgedWriter`` adds and removes."""


def value_of(txn: str) -> int:
    """The ``id`` of all rows in the files of a transaction of ``JudgedWriter``."""
    return zlib.crc32(txn.encode()) % VALUES


def _stats_of(value: int) -> str:
    return json.dumps({"numRecords": 2, "minValues": {"id": value}, "maxValues": {"id": value}, "nullCount": {"id": 0}})


class JournalWriter(GroupWriter):
    """Commits transactions that it announces first, rebases them under their id, and dies in
    between now and then."""

    def _transaction(self, txn: str) -> None:
        tables = self._rng.sample(self._tables, 2)
        kinds = [self._rng.choice(ANNOUNCED) for _ in tables[: self._rng.choice((1, 2, 2))]]
        id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        last_attempt = ""
        group: GroupRequest | None = None
        for number in range(1, 7):
            before = group
            attempt = f"a{number}"
            following = self._group(tables, kinds, txn, attempt)
            if following is None:
                continue
            group = replace(following, id=id)
            self._auditor.proposed(group, txn, journal=True)
            if not self._announced(group, number):
                return
            if before is not None:  # nobody can commit it any more
                self._told_never(before, txn, last_attempt, "superseded")
            last_attempt = attempt
            self._may_die()
            if self._is_over(group, txn, attempt):
                return
        if group is not None:
            self._abort(group, txn, last_attempt)

    def _may_die(self) -> None:
        if self._rng.random() < 0.2:
            self._state.auditor.seen["client died in a transaction"] += 1
            raise Crashed

    def _announced(self, group: GroupRequest, number: int) -> bool:
        """Whether it is announced; False after another client has finished or undone it."""
        while True:
            try:
                self._servers.ask(lambda sandbox: sandbox.journal.announce(Announcement(group, number, ttl_ms=DAY)))
            except StateConflict as error:
                if error.type == "TransactionSuperseded":
                    raise Violation("I3", f"{group.id}: attempt {number} is superseded by an earlier one") from None
                if error.type in SETTLED:
                    return False
            except Retryable:
                pass
            else:
                return True
            self._state.scheduler.sleep(self._rng.choice(PAUSES))

    def _is_over(self, group: GroupRequest, txn: str, attempt: str) -> bool:
        """Sends it until its answer is final. True when the transaction is over."""
        for _ in range(20):
            try:
                answer = self._servers.ask(lambda sandbox: sandbox.journal.commit(group))
            except TimestampAhead:
                self._process.skew = 0
                return False
            except InvalidCommit as error:
                self._state.auditor.saw(error)
                return False
            except NotFound:  # a file, or the entry: it was over long ago
                return True
            except (*Retryable, StateConflict) as error:
                if error.type == "TransactionAborted":
                    self._auditor.told_aborted(group.id)
                    self._told_never(group, txn, attempt, error.type)
                    return True
                if error.type == "TransactionSuperseded":
                    raise Violation("I3", f"{group.id}: {attempt} is superseded by an earlier one") from None
                self._may_die()
                self._state.scheduler.sleep(self._rng.choice(PAUSES))
                continue
            if isinstance(answer, GroupRatified):
                told_committed(self._state, self._auditor, group, answer)
                return True
            if any(isinstance(member.decision, Conflict) or member.decision.kind in FINAL for member in answer.members):
                return False
            self._state.scheduler.sleep(self._rng.choice((100, SECOND, 60 * SECOND)))
        return False

    def _abort(self, group: GroupRequest, txn: str, attempt: str) -> None:
        """Undoes it; where that does not succeed it stays open."""
        try:
            self._servers.ask(lambda sandbox: sandbox.journal.abort(sandbox.journal.entry(group.id), lambda _: True))
        except (*Retryable, StateConflict, NotFound):
            return
        self._auditor.told_aborted(group.id)
        self._told_never(group, txn, attempt, "aborted")


class Recoverer:
    """Looks for open transactions, and finishes or undoes them, beside their clients."""

    def __init__(self, state: State, name: str, rng: random.Random, auditor: GroupAuditor) -> None:
        self._state = state
        self._rng = rng
        self._auditor = auditor
        self._servers = Client(state, name, GroupSandbox)

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((1, 10, 200, 20 * SECOND, HOUR)))
            try:
                entries = self._servers.ask(lambda sandbox: list(sandbox.journal.entries([])))
            except Retryable:
                continue
            wanted = [entry for entry in entries if entry.state == "open" or self._rng.random() < 0.1]
            if not wanted:
                continue
            try:
                self._settle(self._rng.choice(wanted))
            except (*Retryable, StateConflict, NotFound, InvalidCommit) as error:
                if error.type == "TransactionAborted":
                    self._state.auditor.seen["resumed after an abort"] += 1

    def _settle(self, entry: JournalRow) -> None:
        if self._rng.random() < 0.3:
            self._servers.ask(lambda sandbox: sandbox.journal.abort(entry, lambda _: True))
            self._auditor.told_aborted(entry.id)
            return
        group, answer = self._servers.ask(lambda sandbox: sandbox.journal.resume(entry))
        if isinstance(answer, GroupRatified):
            self._state.auditor.seen[f"resumed {'replayed' if answer.replayed else 'accepted'}"] += 1
            told_committed(self._state, self._auditor, group, answer)


def told_committed(state: State, auditor: GroupAuditor, group: GroupRequest, answer: GroupRatified) -> None:
    """A client received the answer that this group is ratified."""
    for request, member in zip(group.commits, answer.members, strict=True):
        state.auditor.told_ratified(request.table_id, auditor.txn_of(group.id), member.version)


class CutReader:
    """Takes cuts of the tables, now and then."""

    def __init__(
        self, state: State, name: str, tables: Sequence[str], rng: random.Random, auditor: GroupAuditor
    ) -> None:
        self._state = state
        self._tables = tables
        self._rng = rng
        self._auditor = auditor
        self._client = Client(state, name, lambda process: Cuts(world_of(process)))

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((1, 10, 200, 20 * SECOND, HOUR)))
            tables = self._rng.sample(self._tables, self._rng.choice((2, 3)))
            try:
                cut = self._client.ask(lambda cuts, tables=tables: cuts.of(tables))
            except (*Retryable, NotFound, StateConflict):
                continue
            self._auditor.cut({table.table_id: table.version for table in cut})
