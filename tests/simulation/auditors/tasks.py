"""Checks coordinated tasks: attempts are begun one after the other, and only the latest leaves a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.faults import FREEZE
from turnstile.coordination.core.rows import Task

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

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
        old, new = Task() if before is None else Task.unpack(before["payload"]), Task.unpack(after["payload"])
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
