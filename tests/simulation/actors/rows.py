"""Actors that send rows: each request until it has an answer, and some of them again later."""

from __future__ import annotations

import random
import uuid
from typing import Final

from tests.simulation.actors.writers import LONG, PAUSES, SHORT, Gone, Retryable
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import Client, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.delta.commits import Commits
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.ratify import Ratifier
from turnstile.ingest.appends import Appended, RowAppender, RowsRequest
from turnstile.ingest.core.bodies import LINES
from turnstile.ingest.core.identity import Identity, identity_of
from turnstile.store.core.errors import NotFound, StateConflict

_KEYS: Final = uuid.UUID(int=7)


class RowsSandbox:
    """A server process of the function that takes rows."""

    def __init__(self, process: Process) -> None:
        world = world_of(process)
        self._commits = Commits(world)
        self._appender = RowAppender(world, Ratifier(world), MetadataStore(world.objs, world.space))

    def append(self, table_id: str, request: RowsRequest) -> object:
        return self._appender.append(self._commits.head(table_id), request)


class RowSender:
    """Sends requests one after the other: under keys, or as a producer that counts them."""

    def __init__(self, state: State, name: str, table_id: str, plan: Plan, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._table = table_id
        self._rng = rng
        self._count = plan.transactions
        self._slow = plan.slow
        self._counts = rng.random() < 0.5
        self._client = Client(state, name, RowsSandbox)

    def __call__(self) -> None:
        for number in range(self._count):
            request = RowsRequest(b'{"id":%d}' % number, LINES, self._identity(number))
            try:
                version = self._send(request)
                if version is not None and self._rng.random() < 0.5:
                    self._state.scheduler.sleep(self._rng.choice(LONG if self._slow else SHORT))
                    self._send_again(request, version)
            except Gone:
                return
            except Crashed:
                continue
            self._state.scheduler.sleep(self._rng.choice(LONG if self._slow else SHORT))

    def _identity(self, number: int) -> Identity:
        if self._counts:
            return identity_of("ann", None, self._name, str(number))
        return identity_of("ann", str(uuid.uuid5(_KEYS, f"{self._name}.{number}")), None, None)

    def _send(self, request: RowsRequest) -> int | None:
        """The version of the request; None if the sender gives up."""
        auditor = self._state.auditor
        for _ in range(30):
            try:
                answer = self._client.ask(lambda sandbox: sandbox.append(self._table, request))
            except NotFound:
                raise Gone from None
            except Retryable:
                self._state.scheduler.sleep(self._rng.choice(PAUSES))
                continue
            except StateConflict as error:
                if error.type == "SequencePassed":
                    raise Violation("I26", f"{request.identity} was refused although it is in order: {error}") from None
                self._state.scheduler.sleep(self._rng.choice(PAUSES))
                continue
            auditor.saw(answer)
            if isinstance(answer, Appended):
                auditor.seen["rows replayed" if answer.replayed else "rows added"] += 1
                auditor.told_ratified(self._table, request.identity.txn, answer.version)
                return answer.version
            self._state.scheduler.sleep(self._rng.choice(PAUSES))
        return None

    def _send_again(self, request: RowsRequest, version: int) -> None:
        """A copy of a request that was answered, as a proxy sends it late."""
        self._state.auditor.seen["rows sent again"] += 1
        again = self._send(request)
        if again not in (None, version):
            raise Violation("I26", f"{request.identity} is in version {version}, and in {again}")
