"""Checks entities with an owner for a while, and values that change hands, against a record of the
writers (I3, I6, I10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import FREEZE
from turnstile.coordination.core import named_ref
from turnstile.coordination.core.named_ref import NamedRef
from turnstile.coordination.core.rows import Task

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

LEDGER = "ledger"
SUM = "sum"
"""Types of updateable objects: writes of tasks, fenced with their attempt; a number that all actors
increment."""


@dataclass
class Requests:
    """Requests of one reference: the sent values, each of its own, with the tokens that they were
    to replace (empty: a creation); the versions that they became; final refusals; replaced tokens
    of deletions.
    """

    sent: dict[str, str] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    deleted: dict[str, int] = field(default_factory=dict)


class OwnerAuditor:
    """Looks at rows of references and updateable objects."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.refs: dict[str, Requests] = {}
        self.added = self.unsure = 0
        state.watchers.setdefault("ref", []).append(self._ref)
        state.watchers.setdefault("updateable", []).append(self._updateable)

    # -- updateable objects -------------------------------------------------------------------------------------------

    @audits
    def _updateable(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None or after["type"] not in (LEDGER, SUM):
            return
        old = int(before["payload"]) if before else 0
        new = int(after["payload"])
        if after["type"] == SUM and new != old + 1:
            raise Violation("I6", f"the sum went from {old} to {new}")
        if after["type"] == LEDGER and new < old:
            raise Violation("I10", f"attempt {new} wrote after attempt {old} had")

    def at_rest(self) -> None:
        """The sum has every acknowledged increment, and perhaps those with an unknown outcome."""
        row = self._state.refs.rows.get(self._state.space.updateable(f"{SUM}/all"))
        found = int(row["payload"]) if row else 0
        if not self.added <= found <= self.added + self.unsure:
            raise Violation("I6", f"the sum is {found} after {self.added} increments and {self.unsure} perhaps")

    # -- references ---------------------------------------------------------------------------------------------------

    @audits
    def _ref(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None:
            raise Violation("I3", "a reference is gone without a tombstone")
        ref = NamedRef.from_row(after)
        old = NamedRef.from_row(before) if before else None
        requests = self.refs.setdefault(ref.name, Requests())
        current = ref.current
        if ref.version != (old.version + 1 if old else 0):
            raise Violation("I6", f"{ref.name} went from {old and old.version} to {ref.version}")
        if current.token in requests.tokens:
            raise Violation("I6", f"token {current.token} of {ref.name} came back")
        requests.tokens.add(current.token)
        replaced = old.current.token if old else ""
        if current.value is None:
            requests.deleted[replaced] = ref.version
            return
        wanted = requests.sent.get(current.value)
        if wanted is None or (wanted and wanted != replaced):
            raise Violation(
                "I6", f"version {ref.version} of {ref.name} replaced {replaced}, and was to replace {wanted}"
            )
        if current.value in requests.refused:
            raise Violation("I3", f"request {current.value} was refused for good and is version {ref.version}")
        if current.value in requests.applied:
            self._created_again(current.value, requests, ref)
        requests.applied[current.value] = ref.version

    def _created_again(self, request: str, requests: Requests, ref: NamedRef) -> None:
        """A creation names no token: once the row has forgotten it and the reference was deleted,
        it is a fresh one."""
        first = requests.applied[request]
        if requests.sent[request] or ref.version - first < named_ref.RECENT:
            raise Violation("I3", f"request {request} was applied as {first} and as {ref.version}")
        self._state.auditor.seen["ref created again"] += 1

    def sends(self, name: str, request: str, token: str, *, deletes: bool) -> None:
        """A request is about to be sent, whose value is its name."""
        requests = self.refs.setdefault(name, Requests())
        if not deletes:
            requests.sent[request] = token

    @audits
    def told_written(self, name: str, request: str, token: str, version: int) -> None:
        requests = self.refs[name]
        became = requests.applied.get(request) if request in requests.sent else requests.deleted.get(token)
        if became != version:
            raise Violation("I3", f"request {request} was told it is version {version} and is {became}")

    @audits
    def told_never(self, name: str, request: str, why: str) -> None:
        if request in self.refs[name].applied:
            raise Violation("I3", f"request {request} was applied and told '{why}'")
        self.refs[name].refused.add(request)


APART = 300_000
"""How far clocks are apart at most, in simulations where they are wrong (ms)."""


class TaskAuditor:
    """Looks at every change of a task's row."""

    def __init__(self, state: State) -> None:
        self._state = state
        state.watchers.setdefault("updateable", []).append(self._changed)

    @audits
    def _changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if after is None or after["type"] != "task":
            return
        old = Task() if before is None else Task.unpack(before["payload"])
        new = Task.unpack(after["payload"])
        if new.attempt == old.attempt + 1:
            self._begun(old, new)
        elif new.attempt != old.attempt:
            raise Violation("I10", f"attempt {new.attempt} after attempt {old.attempt}")
        elif not old.until:
            raise Violation("I10", f"attempt {old.attempt} had ended and is changed")
        elif new.until and new.until < old.until:
            raise Violation("I10", f"the lease of attempt {old.attempt} became shorter")
        elif new.succeeded not in (old.succeeded, new.attempt):
            raise Violation("I10", f"attempt {new.attempt} left the result of attempt {new.succeeded}")
        self._state.auditor.seen[f"task {'ended' if not new.until else 'begun'}"] += 1

    def _begun(self, old: Task, new: Task) -> None:
        clocks = APART if {"jump", FREEZE} & {*self._state.faults.kinds} else 0
        if old.until and self._state.scheduler.now < old.until - clocks:
            raise Violation("I10", f"attempt {new.attempt} began while attempt {old.attempt} had its lease")
        if new.abandoned != old.abandoned + bool(old.until):
            raise Violation("I10", f"attempt {new.attempt} miscounts those that were taken over")
        self._state.auditor.seen["task taken over"] += bool(old.until)
