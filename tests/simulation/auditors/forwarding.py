"""Checks the answers to forwarded changes, beside the rules for all changes (I3, I21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.simulation.auditors.change_groups import Asked, ChangeAuditor
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.processes import CATALOG
from turnstile.fleet.core.forwarded import BEGIN, ForwardedRequest, Send

if TYPE_CHECKING:
    from tests.simulation.engine.network import SimConnection
    from tests.simulation.engine.state import State


class ForwardingAuditor(ChangeAuditor):
    """Listens to connections, too."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._begun = set[str]()
        self._first = state.trees.now[CATALOG].commit.seq

    def met(self, what: str) -> None:
        """Count it, so that a test can tell that it happens."""
        self._state.auditor.seen[what] += 1

    def sent(self, connection: SimConnection, step: Send) -> None:
        """A side sends something: a request, or the word that says that it may begin."""
        if step.framed:
            connection.request = step.payload
        elif step.payload == BEGIN:
            body = msgspec.json.decode(msgspec.msgpack.decode(connection.request, type=ForwardedRequest).body)
            self._begun.add(body["id"])
            self.met("forwarded begin")

    @audits
    def answered(self, asked: Asked, id: str) -> None:
        if id != asked.id:
            raise Violation("I21", f"{asked} got the response to {id}")

    @audits
    def unknown(self, id: str) -> None:
        if id not in self._begun:
            raise Violation("I21", f"the outcome of {id} is said to be unknown, and nobody was told to begin")

    @audits
    def replayed(self, asked: Asked, seq: int | None) -> None:
        """The row of the key says that the change was made, or had nothing to do, when the catalog
        was at ``seq``."""
        if seq is not None and self._messages[seq - self._first] == asked.id:
            self.acknowledged(asked)
        else:
            self.unchanged(asked)
