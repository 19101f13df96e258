"""Taking, renewing and giving up leases: one request each, two to take one over."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from turnstile.coordination.core import rows as plans
from turnstile.coordination.core import rows as states
from turnstile.coordination.core.rows import RELEASED, Lease, LeaseRow, Task
from turnstile.coordination.updateables import Moved, Updateable, Updateables
from turnstile.store.core.obj_types import TASK
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, World


class Held(msgspec.Struct, frozen=True):
    """Somebody else has it, until then (ms, by the holder's clock)."""

    until: int


class Leases:
    """Leases of names in one realm."""

    def __init__(self, world: World) -> None:
        self._world = world

    def take(self, name: str, term_ms: int) -> Lease | Held:
        """The lease of ``name`` for ``term_ms`` from now on, if nobody has it.

        Raises:
            Throttled: nothing was taken.
            OutcomeUnknown: perhaps it was; then it is free again when the term is over.
        """
        now, holder, key = self._world.clock.now_ms(), self._world.ids.uuid(), self._world.space.lease(name)
        answer = self._world.refs.write(plans.take_first(key, holder, now, now + term_ms))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return Lease(key, holder, now, now + term_ms, 0)
        if answer.row is None:
            return Held(now)
        seen = LeaseRow.from_row(answer.row)
        if seen.until > now and seen.holder != RELEASED:
            return Held(seen.until)
        start = max(now, seen.until)
        answer = self._world.refs.write(plans.take_over(seen, holder, start + term_ms))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return Lease(key, holder, start, start + term_ms, seen.fence + 1)
        return Held(answer.row["until"] if answer.row is not None else now)

    def renew(self, lease: Lease, term_ms: int) -> Lease | None:
        """The same lease with an end ``term_ms`` from now on; None when somebody else has it meanwhile. Raises as
        ``take``; what was held before is then still held until its end."""
        until, holder = max(self._world.clock.now_ms() + term_ms, lease.until), self._world.ids.uuid()
        answer = self._world.refs.write(plans.renew(lease, holder, until))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return msgspec.structs.replace(lease, holder=holder, until=until)
        return None

    def release(self, lease: Lease, free_ms: int) -> None:
        """Let others have it at once; ``free_ms`` is the first time that was not used. Nothing happens when somebody
        else has it already."""
        self._world.refs.write(plans.release(lease, free_ms))


def _is(row: Row | None, holder: str) -> bool:
    """Whether the row that refused is this very write, applied before its answer was lost."""
    return row is not None and row["holder"] == holder


# -- tasks ------------------------------------------------------------------------------------------------------------
# Running coordinated tasks: at most one at a time, taken over when the one that ran is gone, the result kept.


class Running(msgspec.Struct, frozen=True):
    """An attempt that may run, until its lease ends (``task.until``, ms). ``task`` has the last result."""

    name: str
    task: Task
    version: Updateable


class Busy(msgspec.Struct, frozen=True):
    """Another attempt runs; its lease ends then (ms)."""

    until: int
    attempt: int


class Tasks:
    """Coordinated tasks of one realm. For what runs rarely: every step is a write on one row.

    At most one runs *by the clock of who begins*: choose terms longer than clocks are apart, end before the lease does,
    and fence with ``task.attempt`` what must never be written twice.
    """

    def __init__(self, world: World) -> None:
        self._objects, self._clock = Updateables(world), world.clock

    def last(self, name: str) -> Task | None:
        """What is known of the task: one request."""
        found = self._objects.read(TASK.name, name)
        return None if found is None else states.unpack(found.payload)

    def begin(self, name: str, term_ms: int) -> Running | Busy:
        """Begin the task, unless it runs: two requests.

        Args:
            term_ms: how long it may take; who is still at it then must have renewed.

        Raises:
            Throttled: it was not begun.
            OutcomeUnknown: perhaps it was; then nobody runs it until its lease ends.
        """
        seen, now = self._objects.read(TASK.name, name), self._clock.now_ms()
        before = Task() if seen is None else states.unpack(seen.payload)
        if before.running(now):
            return Busy(before.until, before.attempt)
        task = states.begun(before, now, now + term_ms)
        if seen is None:
            written = self._objects.create(TASK.name, name, states.pack(task))
        else:
            written = self._objects.update(seen, states.pack(task))
        if isinstance(written, Updateable):
            return Running(name, task, written)
        other = Task() if written.current is None else states.unpack(written.current.payload)
        return Busy(other.until, other.attempt)

    def renew(self, running: Running, term_ms: int) -> Running | None:
        """A later end of the lease; None when somebody took the task over: stop at once. One request."""
        return self._moved(running, states.renewed(running.task, self._clock.now_ms() + term_ms))

    def finish(self, running: Running, result: bytes = b"") -> bool:
        """The task is done and leaves ``result``; False when somebody took it over: theirs counts. One request."""
        return self._moved(running, states.finished(running.task, result, self._clock.now_ms())) is not None

    def fail(self, running: Running, why: str) -> bool:
        """The task failed, and anybody may begin it again; False when somebody already has. One request."""
        return self._moved(running, states.failed(running.task, why, self._clock.now_ms())) is not None

    def run(self, name: str, term_ms: int, work: Callable[[Running], bytes]) -> Task | Busy:
        """Begin, do ``work``, and finish with what it returns, or fail as it does. ``work`` ends within the term.

        Returns:
            Task: as this attempt left it, or, when it took too long and was taken over, as it was begun.
        """
        running = self.begin(name, term_ms)
        if isinstance(running, Busy):
            return running
        try:
            result = work(running)
        except Exception as error:  # told to whoever looks at the task, and raised for whoever called
            self.fail(running, repr(error))
            raise
        done = self._moved(running, states.finished(running.task, result, self._clock.now_ms()))
        return running.task if done is None else done.task

    def _moved(self, running: Running, task: Task) -> Running | None:
        written = self._objects.update(running.version, states.pack(task))
        return None if isinstance(written, Moved) else Running(running.name, task, written)
