"""Actors that write: they behave as a correct client must, for every answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from tests.simulation.engine.plans import DAY, HOUR, RESENT, SECOND, Plan
from tests.simulation.engine.ports import Process, SimStorages
from tests.simulation.engine.processes import Client, Sandbox
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.fakes import delta
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import TableHead
from turnstile.delta.identity import Outcome
from turnstile.delta.prepare import Prepared, TimestampAhead
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import CommitTurn, WaitingCommit, new_queue
from turnstile.store.core.errors import (
    InvalidCommit,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import staged_file, staged_path
from turnstile.store.queue import Line

SHORT = (1, 1, 1, 50, 5 * SECOND)
LONG = (1, 5 * SECOND, HOUR, DAY, 3 * DAY)

PAUSES = (100, SECOND, 20 * SECOND, HOUR, 2 * DAY)

Retryable = (OutcomeUnknown, Throttled, StorageFault)


CROWDED: Final = 1_200
"""Bytes of a backlog where refusals that pass are to be met often: six commits fill it, even with
their content elsewhere."""


class Sent(NamedTuple):
    """A sent proposal: the operation of the history, a function that returns the answer or raises
    it, and whether it was sent twice at the same time: then a temporary refusal says nothing about
    the other one.
    """

    operation: Any
    answer: Callable[[], Any]
    twice: bool


class Gone(Exception):
    """The table is dropped: nothing to write any more."""


class Writer:
    """Commits ``transactions`` one after the other."""

    _may_be_mended: ClassVar[bool] = False
    """Whether a writer goes on after it was told that its commit is invalid."""

    def __init__(self, state: State, name: str, table_id: str, plan: Plan, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._table = table_id
        self._rng = rng
        self._kind = name.split("-", maxsplit=1)[0]
        self._transactions = plan.transactions
        self._slow = plan.slow
        self._impatient = RESENT in plan.faults
        limits = Limits(backlog_bytes=CROWDED) if self._impatient else Limits()
        self._client = Client(state, name, partial(Sandbox, limits=limits))
        self._process = Process(state, name, client=True)

    def __call__(self) -> None:
        for number in range(self._transactions):
            try:
                self._transaction(f"{self._name}.{number}")
            except Gone:
                return
            except Crashed:  # a new process knows nothing of the transaction
                self._process.skew = 0
            self._state.scheduler.sleep(self._rng.choice(LONG if self._slow else SHORT))

    def _transaction(self, txn: str) -> None:
        attempt = 0
        stamp = 0
        while True:
            head = self._load()
            attempt += 1
            stamp = max(stamp, self._process.now_ms() - self._rng.choice((0, 0, 0, 5 * SECOND)))
            if head.last_ict >= stamp and self._rng.random() < 0.9:
                stamp = head.last_ict + 1
            proposed = self._proposed(head, txn, f"a{attempt}", stamp)
            if proposed is None:
                continue
            if self._settle(*proposed) or attempt > 12:
                return

    def _proposed(self, head: TableHead, txn: str, attempt: str, stamp: int) -> tuple[CommitRequest, str, str] | None:
        """The next proposal, its transaction, and the attempt that wrote it; None if that could not
        be written."""
        request = self._build(head, txn, attempt, stamp)
        return None if request is None else (request, txn, attempt)

    def _load(self) -> TableHead:
        history = self._state.auditor.tables[self._table]
        while True:
            least = history.shown
            operation = self._state.begin("load", self._table)
            try:
                head = self._client.ask(lambda sandbox: sandbox.commits.head(self._table))
            except Retryable:
                self._state.scheduler.sleep(SECOND)
                continue
            if head.state == "dropped":
                raise Gone
            self._state.told(operation, "ok", head.latest, head.tail[-1].txn if head.tail else "")
            self._state.auditor.shown(self._table, head, least)
            return head

    def _build(self, head: TableHead, txn: str, attempt: str, stamp: int) -> CommitRequest | None:
        version = head.latest + 1
        kind = self._kind
        actions = [delta.info(txn, stamp, attempt, readVersion=head.latest)]
        if kind == "metadata":
            actions.append(delta.metadata(by=txn))
        elif kind == "stream":
            actions.append({"txn": {"appId": "query", "version": 1}})
        if head.row_hwm is not None:
            mark = f'{{"rowIdHighWaterMark":{head.row_hwm + 3}}}'
            actions.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}})
        first = None if head.row_hwm is None or kind in ("ticket", "stream") else head.row_hwm + 1
        actions.append(delta.add(f"{txn}.{attempt}", 2, **_row_ids(first, version)))
        if kind not in ("ticket", "stream", "metadata"):
            actions.append(delta.remove(f"{txn}.old"))
        if kind in ("fat", "large"):
            path = self._rng.randbytes(3_600 if kind == "fat" else 4_200).hex()
            actions.append(delta.add(path, **_row_ids(None if first is None else first + 2, version)))
        content = delta.lines(*actions)
        if kind in ("ticket", "stream"):
            return CommitRequest(self._table, None, base=head.latest, content=content)
        if kind != "staged":
            return CommitRequest(self._table, version, content=content)
        return self._stage(head, version, f"{txn}-{attempt}".replace(".", "-"), content)

    def _stage(self, head: TableHead, version: int, unique: str, content: bytes) -> CommitRequest | None:
        """Writes a staged file; None if that failed."""
        name = staged_file(version, unique)
        storage = SimStorages(self._process).open(head.location)
        for _ in range(5):
            try:
                storage.put_if_absent(staged_path(name), content)
            except Retryable:
                continue
            if self._slow and self._rng.random() < 0.4:  # written long before it is proposed
                self._state.scheduler.sleep(self._rng.choice((HOUR, 2 * DAY)))
            return CommitRequest(self._table, version, staged=name, size=len(content))
        return None

    def _settle(self, request: CommitRequest, txn: str, attempt: str, sent: Sent | None = None) -> bool:
        """Send the same proposal until its answer is final, or says that this request ratified
        nothing and the writer gives up. True when the transaction is over. ``sent``: the first
        time, which has been answered."""
        auditor = self._state.auditor
        scheduler = self._state.scheduler
        version = request.version or 0
        # Whether an answer to this very proposal was lost: nothing is certain then but what is
        # final.
        lost = sent is not None and sent.twice
        while True:
            first = sent
            sent = None
            operation = first.operation if first else self._begin(request, txn)
            asks = first is None and self._rng.random() < 0.15
            try:
                if first is not None:
                    answer = first.answer()
                elif asks:
                    answer = self._client.ask(lambda sandbox: self._outcome(sandbox, request, txn))
                else:
                    answer = self._client.ask(lambda sandbox: sandbox.ratifier.commit(request))
            except TimestampAhead:
                self._process.skew = 0  # the remedy: correct the clock
                return False
            except NotFound:  # the staged file lost and was collected; the name tells the server that it never won
                auditor.told_never(self._table, txn, attempt, "no such staged file", version)
                return False
            except InvalidCommit as error:
                auditor.saw(error)
                auditor.told_never(self._table, txn, attempt, "invalid", version)
                return not self._may_be_mended
            except OutcomeUnknown:
                lost = lost or not asks
                scheduler.sleep(self._rng.choice(PAUSES))
                continue
            except (Throttled, StorageFault, StateConflict) as error:
                if not (asks or lost) and self._gives_up(txn, attempt, error.type):
                    return False
                scheduler.sleep(self._rng.choice(PAUSES))
                continue
            auditor.saw(answer)
            match answer:
                case Ratified(version=became):
                    self._state.told(operation, "ok", became)
                    auditor.told_ratified(self._table, txn, became)
                    return True
                case Outcome(outcome="ratified", version=became):
                    auditor.told_ratified(self._table, txn, became or -1)
                    return True
                case Outcome(outcome="never"):
                    auditor.told_never(self._table, txn, attempt, "never", version)
                    return False
                case Conflict():
                    self._state.told(operation, "conflict", answer.latest)
                    auditor.told_never(self._table, txn, attempt, "conflict", version)
                    self._check_winners(answer)
                    return False
                case Refused(kind="TimestampNotIncreasing" | "StaleMetadata" | "InvalidCommit" | "ReloadRequired"):
                    auditor.told_never(self._table, txn, attempt, answer.kind, version)
                    return False
                case Refused(kind="TableNotActive", details={"state": "dropped"}):
                    if not lost:
                        auditor.told_never(self._table, txn, attempt, "dropped", version)
                    raise Gone
                case Refused(kind=kind) if not lost and self._gives_up(txn, attempt, kind):
                    return False
                case _:
                    scheduler.sleep(self._rng.choice((100, SECOND, 60 * SECOND)))

    def _begin(self, request: CommitRequest, txn: str) -> Any:
        """Notes that a proposal is sent."""
        return self._state.begin("commit", self._table, version=request.version or 0, txn=txn)

    def _gives_up(self, txn: str, attempt: str, told: str) -> bool:
        """A refusal that may pass, but no answer was lost: the statement failed, and its user may
        run it again later. Then this proposal must never turn up."""
        if not self._impatient or self._rng.random() < 0.5:
            return False
        self._state.auditor.seen["given up"] += 1
        self._state.auditor.told_never(self._table, txn, attempt, told)
        self._state.scheduler.sleep(self._rng.choice((SECOND, 60 * SECOND, HOUR)))
        return True

    def _outcome(self, sandbox: Sandbox, request: CommitRequest, txn: str) -> Outcome:
        if request.staged:
            return sandbox.outcomes.of(self._table, name=request.staged)
        return sandbox.outcomes.of(self._table, txn=txn, version=request.version)

    def _check_winners(self, conflict: Conflict) -> None:
        facts = self._state.auditor.tables[self._table].facts
        assert all(facts[place.version].txn == place.entry.txn for place in conflict.winners), conflict


class Crew(Writer):
    """Several writers of one table whose commits wait for each other in one server process; a
    client sends each again by itself."""

    KINDS: ClassVar = ("ticket", "ticket", "ticket", "stream", "inline", "inline", "staged", "fat", "metadata")

    def _transaction(self, txn: str) -> None:
        head = self._load()
        stamp = max(self._process.now_ms(), head.last_ict + 1)
        proposed = []
        for number in range(self._rng.randint(2, 6)):
            self._kind = self._rng.choice(self.KINDS)
            last = proposed[-1] if proposed else None
            if last is not None and self._rng.random() < 0.1:  # its client sends it twice
                proposed.append(last)
            elif more := self._proposed(head, f"{txn}.{number}", "a1", stamp + self._rng.choice((0, 0, 1, 5))):
                proposed.append(more)
            if self._rng.random() < 0.2:
                head = self._load()
        operations = [self._begin(request, own) for request, own, _ in proposed]
        requests = [request for request, _, _ in proposed]
        knows = self._rng.random() < 0.8
        try:
            answers = self._client.ask(lambda sandbox: _together(sandbox, requests, self._table, knows=knows))
        except Retryable as error:
            answers = [partial(_raise, error) for _ in requests]
        for (request, own, attempt), operation, answer in zip(proposed, operations, answers, strict=True):
            self._kind = "staged" if request.staged else "inline"
            with suppress(Gone):
                self._settle(request, own, attempt, Sent(operation, answer, requests.count(request) > 1))


def _together(
    sandbox: Sandbox, requests: list[CommitRequest], table_id: str, *, knows: bool
) -> list[Callable[[], Any]]:
    """The results of commits that wait in one line of a process. ``knows``: its first leader has
    the row of a write that ended before they came."""
    preparer = sandbox.ratifier.preparer
    queue = new_queue()
    line = Line[WaitingCommit]()
    row = preparer.world.refs.read(preparer.world.space.table(table_id)) if knows else None
    answers: list[Callable[[], Any]] = []
    waiting: list[WaitingCommit] = []
    for request in requests:
        try:
            prepared = preparer.prepare(request)
        except TurnstileError as error:
            answers.append(partial(_raise, error))
            continue
        if not isinstance(prepared, Prepared):
            answers.append(partial(_same, prepared))
            continue
        waiting.append(WaitingCommit(prepared))
        answers.append(waiting[-1].outcome)
        line, _ = queue._join(table_id, waiting[-1])
    line.row = row
    for own in waiting:
        if not own.is_settled:
            CommitTurn(preparer, queue, line, own).run()
    return answers


def _raise(error: Exception) -> Any:
    raise error


def _same(answer: Any) -> Any:
    return answer


class Reuser(Writer):
    """An engine that uses a staged commit again after it was refused for ever: it proposes the file
    again, as the next version; copies it to a name of that version, or of a later one; or writes
    its next attempt to the same name. Its clock runs up to some minutes ahead, so that a refused
    commit may still be later than the last commit.

    It proposes any name, like users of Unity Catalog's API may.
    """

    _may_be_mended = True

    def __init__(self, state: State, name: str, table_id: str, plan: Plan, rng: random.Random) -> None:
        super().__init__(state, name, table_id, plan, rng)
        self._kind = "staged"
        self._last: tuple[CommitRequest, str, str] | None = None

    def _transaction(self, txn: str) -> None:
        self._last = None
        self._process.skew = self._rng.choice((0, 100 * SECOND, 200 * SECOND, 280 * SECOND))
        super()._transaction(txn)

    def _proposed(self, head: TableHead, txn: str, attempt: str, stamp: int) -> tuple[CommitRequest, str, str] | None:
        if self._last is None:
            self._last = super()._proposed(head, txn, attempt, stamp)
            return self._last
        self._state.scheduler.sleep(self._rng.choice((SECOND, HOUR, 30 * HOUR, 30 * HOUR, 30 * HOUR)))
        if self._rng.random() < 0.9:  # at the same time as gc
            for task in self._state.collectors:
                task.wake_ms = min(task.wake_ms, self._state.scheduler.now + self._rng.choice((0, 20, 100)))
        head = self._load()
        self._last = self._reused(head, *self._last, stamp) or super()._proposed(head, txn, attempt, stamp)
        return self._last

    def _reused(
        self, head: TableHead, last: CommitRequest, txn: str, attempt: str, stamp: int
    ) -> tuple[CommitRequest, str, str] | None:
        """The last proposal in another shape; None where its file is gone, or where it would be the
        same proposal."""
        files = self._state.storages.files
        path = f"{head.location}/{staged_path(last.staged)}"
        version = head.latest + 1
        if path not in files or last.version is None or version <= last.version:
            return None
        way = self._rng.choice(("again", "again", "again", "renamed", "ahead", "rewritten", "anew"))
        self._state.auditor.seen[f"file {way}"] += 1
        match way:
            case "again":
                request = replace(last, version=version)
            case "renamed" | "ahead":
                unique = f"{txn}-{attempt}-{self._rng.randrange(1000)}".replace(".", "-")
                later = version + (self._rng.choice((1, 3)) if way == "ahead" else 0)
                copied = self._stage(head, later, unique, files[path][0])
                request = None if copied is None else replace(copied, version=version)
            case "rewritten":
                attempt = f"{attempt}w"
                content = delta.lines(
                    delta.info(txn, max(stamp, head.last_ict + 1), attempt, readVersion=head.latest),
                    delta.add(f"{txn}.{attempt}", 2),
                )
                files[path] = content, self._state.scheduler.now
                request = replace(last, version=version, size=len(content))
            case _:
                request = None
        return None if request is None else (replace(request, any_name=True), txn, attempt)


def _row_ids(first: int | None, version: int) -> dict[str, int]:
    """The row ids of an add; nothing if the server assigns them, or there are none."""
    return {} if first is None else {"baseRowId": first, "defaultRowCommitVersion": version}
