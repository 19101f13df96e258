"""Actors that send rows: each request until it has an answer, and some of them again later."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.simulation.actors.writers import LONG, PAUSES, SHORT, Gone, Retryable
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import Plan
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


class RowsSandbox:
    """A server process that takes rows."""

    def __init__(self, process: Process) -> None:
        world = world_of(process)
        groups = GroupRatifier(world, Ratifier(world))
        self._appender = RowAppender(world, groups, MetadataStore(world.objs, world.space))

    def append(self, table_id: str, requests: list[RowsRequest]) -> list[Callable[[], Any]]:
        """The outcomes of requests that wait in one line."""
        if len(requests) == 1:
            return [partial(_same, self._appender.append(CATALOG, requests[0]))]
        queue = new_queue()
        line = Line[WaitingRows]()
        tools = self._appender._tools
        waiting = [WaitingRows(request, tools.key_of(CATALOG, request)) for request in requests]
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
        return RowsRequest(self._table, b'{"id":%d}' % id, LINES, self._identity(id))

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
                (added if self._is_added(request, answer) else unanswered).append(request)
            left = unanswered
            if not left:
                break
            self._state.scheduler.sleep(self._rng.choice(PAUSES))
        return added

    def _is_added(self, request: RowsRequest, outcome: Callable[[], Any]) -> bool:
        auditor = self._state.auditor
        try:
            answer = outcome()
        except NotFound:
            raise Gone from None
        except TurnstileError as error:
            if not isinstance(error, (*Retryable, StateConflict)):
                raise
            return False
        auditor.saw(answer)
        if not isinstance(answer, Appended):
            return False
        auditor.seen["rows replayed" if answer.replayed else "rows added"] += 1
        record = self._state.rows_at.setdefault(request.identity.text, answer.version)
        if record != answer.version:
            raise Violation("I26", f"{request.identity} is in version {record}, and in {answer.version}")
        return True
