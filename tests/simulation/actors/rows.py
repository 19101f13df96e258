"""Actors that send rows: each request until it has an answer, and some of them again later. Others
deliver the records of a queue or a shard in batches."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.simulation.actors.writers import LONG, PAUSES, SHORT, Gone, Retryable
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import MINUTE, SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import CATALOG, Client, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.ingest.appends import RowAppender, new_queue
from turnstile.ingest.core.bodies import LINES
from turnstile.ingest.core.identity import Identity, identity_of
from turnstile.ingest.turns import Appended, RowsRequest, WaitingRows, run_turn
from turnstile.store.core.errors import NotFound, StateConflict, TurnstileError
from turnstile.store.queue import Line

_KEYS: Final = uuid.UUID(int=7)

REJECTED_EVERY: Final = 3
"""Each request with such an id has another row, which does not fit."""

DELIVERED: Final = 900_001
"""The id of the row of the first record that is delivered."""


class RowsSandbox:
    """A server process that takes rows."""

    def __init__(self, process: Process) -> None:
        world = world_of(process)
        groups = GroupRatifier(world, Ratifier(world))
        self._appender = RowAppender(world, groups, MetadataStore(world.objs, world.space))
        self.append_many = self._appender.append_many

    def append(self, table_id: str, requests: list[RowsRequest]) -> list[Callable[[], Any]]:
        """The outcomes of requests that wait in one line."""
        if len(requests) == 1:
            return [partial(_same, self._appender.append(CATALOG, requests[0]))]
        queue = new_queue()
        line = Line[WaitingRows]()
        tools = self._appender._tools
        keys = [tools.key_of(CATALOG, request.table_id, request.identity) for request in requests]
        waiting = list(map(WaitingRows, requests, keys))
        for own in waiting:
            line, _ = queue._join(table_id, own)
        for own in waiting:
            if not own.is_settled:
                run_turn(tools, queue, line, own)
        return [own.outcome for own in waiting]


def _same(answer: Any) -> Any:
    return answer


class RowSender:
    """Sends requests in groups of one to three: under keys, or as producers that count theirs.
    Each row has an id of its own, by which ``audit`` finds it."""

    def __init__(self, state: State, name: str, table_id: str, plan: Plan, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._table = table_id
        self._rng = rng
        self._count = plan.transactions
        self._slow = plan.slow
        self._sent = 0
        self._client = Client(state, name, RowsSandbox)

    def __call__(self) -> None:
        for _ in range(self._count):
            requests = [self._request() for _ in range(self._rng.choice((1, 1, 2, 3)))]
            if self._rng.random() < 0.1:
                requests.append(requests[0])  # its client sends it twice at once
            try:
                added = self._send(requests)
                if added and self._rng.random() < 0.5:
                    self._state.scheduler.sleep(self._rng.choice(LONG if self._slow else SHORT))
                    self._state.auditor.seen["rows sent again"] += 1
                    self._send(added)
            except Gone:
                return
            except Crashed:
                continue
            self._state.scheduler.sleep(self._rng.choice(LONG if self._slow else SHORT))

    def _request(self) -> RowsRequest:
        self._sent += 1
        id = int(self._name.rpartition("-")[2]) * 1_000 + self._sent
        if id % REJECTED_EVERY:
            return RowsRequest(self._table, b'{"id":%d}' % id, LINES, self._identity(id))
        body = b'{"id":%d}\n{"id":"%d"}x' % (id, id)
        return RowsRequest(self._table, body, LINES, self._identity(id), rejected_id=self._state.rejected_id)

    def _identity(self, id: int) -> Identity:
        if self._rng.random() < 0.5:
            return identity_of("ann", None, f"{self._name}.{id}", str(id))
        return identity_of("ann", str(uuid.uuid5(_KEYS, str(id))), None, None)

    def _send(self, requests: list[RowsRequest]) -> list[RowsRequest]:
        """Sends requests until each has a version; returns those that have one."""
        left = requests
        added = []
        for _ in range(30):
            try:
                answers = self._client.ask(lambda sandbox, now=left: sandbox.append(self._table, now))
            except NotFound:
                raise Gone from None
            except (*Retryable, StateConflict):
                self._state.scheduler.sleep(self._rng.choice(PAUSES))
                continue
            unanswered = []
            for request, answer in zip(left, answers, strict=True):
                (added if is_added(self._state, request, answer) else unanswered).append(request)
            left = unanswered
            if not left:
                break
            self._state.scheduler.sleep(self._rng.choice(PAUSES))
        return added


class Deliverer:
    """Delivers the records of a queue, or of a shard in their order, to a function. Batches of
    several deliverers overlap. A record is delivered until it is reported as done, some of them
    again afterwards, and now and then twice in a batch."""

    def __init__(self, state: State, name: str, table_id: str, plan: Plan, rng: random.Random) -> None:
        self._state = state
        self._table = table_id
        self._rng = rng
        self._is_shard = is_shard(plan)
        self._pauses = LONG if plan.slow else SHORT
        self._records = [_record(table_id, DELIVERED + at) for at in range(3 * plan.transactions)]
        self._client = Client(state, name, RowsSandbox)

    def __call__(self) -> None:
        done = set[str]()
        for _ in range(60):
            left = [record for record in self._records if record.identity.key not in done]
            if not left:
                break
            try:
                done |= self._deliver(self._batch(left))
            except Gone:
                return
            except Crashed:
                continue
            self._state.scheduler.sleep(self._rng.choice(self._pauses))

    def _batch(self, left: list[RowsRequest]) -> list[RowsRequest]:
        size = self._rng.choice((1, 2, 3, 5, 8))
        if self._is_shard:
            first = max(0, self._records.index(left[0]) - self._rng.choice((0, 0, 2)))
            batch = self._records[first : first + size]
        else:
            batch = self._rng.sample(self._records, size)
        return [*batch, *(batch[:1] if self._rng.random() < 0.1 else ())]

    def _deliver(self, batch: list[RowsRequest]) -> set[str]:
        """Returns the keys of the records that are done."""
        until_ms = self._state.scheduler.now + self._rng.choice((5 * SECOND, 15 * MINUTE, 15 * MINUTE))
        try:
            outcomes = self._client.ask(lambda sandbox: sandbox.append_many(CATALOG, batch, until_ms))
        except NotFound:
            raise Gone from None
        except (*Retryable, StateConflict):
            self._state.scheduler.sleep(self._rng.choice(PAUSES))
            return set()
        added = {
            record.identity.key
            for record, outcome in zip(batch, outcomes, strict=True)
            if is_added(self._state, record, partial(_given, outcome))
        }
        self._state.auditor.seen["batches of several"] += len(added) > 1
        self._state.auditor.seen["batches in part"] += 0 < len(added) < len({one.identity.key for one in batch})
        return added


def is_shard(plan: Plan) -> bool:
    """Whether records are delivered in their order."""
    return plan.seed % 2 == 0


def _record(table_id: str, id: int) -> RowsRequest:
    return RowsRequest(table_id, b'{"id":%d}' % id, LINES, Identity("rows", key=f"record.{id}"))


def _given(outcome: Any) -> Any:
    if isinstance(outcome, TurnstileError):
        raise outcome
    return outcome


def is_added(state: State, request: RowsRequest, outcome: Callable[[], Any]) -> bool:
    """Whether the rows are in a version, which is the one of every other answer. Raises Gone; and
    the errors that no later attempt mends."""
    try:
        answer = outcome()
    except NotFound:
        raise Gone from None
    except TurnstileError as error:
        if not isinstance(error, (*Retryable, StateConflict)):
            raise
        return False
    state.auditor.saw(answer)
    if not isinstance(answer, Appended):
        return False
    state.auditor.seen["rows replayed" if answer.replayed else "rows added"] += 1
    state.auditor.seen["rows rejected"] += answer.rejected
    if answer.rejected != bool(request.rejected_id):
        raise Violation("I26", f"{request.identity} is told of {answer.rejected} rejected rows")
    record = state.rows_at.setdefault(request.identity.text, answer.version)
    if record != answer.version:
        raise Violation("I26", f"{request.identity} is in version {record}, and in {answer.version}")
    return True
