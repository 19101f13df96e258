"""Updateable objects, and coordinated tasks: of which at most one attempt runs at a time. Every
operation is one request unless it says otherwise. A refusal is answered from the row that it
returned. Every write may raise Throttled (nothing was applied) and OutcomeUnknown (it may have been
applied).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

import msgspec

from turnstile.coordination.core import rows
from turnstile.coordination.core.rows import (
    Task,
    Updateable,
    check_name,
    check_payload,
    unknown_task,
    unpack_task,
)
from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.rows import TASK
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import BATCH_GET_MAX, Accepted, World, in_batches, parse_rows


class OtherVersion(msgspec.Struct, frozen=True):
    """Refused, and nothing changed: the object has another version now (None: there is no
    object)."""

    current: Updateable | None


class Updateables:
    """Updateable objects of one realm. After OutcomeUnknown: read the object and decide anew."""

    def __init__(self, world: World) -> None:
        self._refs = world.refs
        self._space = world.space
        self._clock = world.clock
        self._ids = world.ids

    def read(self, type: str, id: str) -> Updateable | None:
        return _object_of(self._refs.read(self._key(type, id)))

    def read_many(self, type: str, ids: Sequence[str]) -> dict[str, Updateable]:
        """Objects by id; missing and damaged ones are left out: ``read`` tells them apart. One
        request for every 100."""
        keys = {self._key(type, id): id for id in ids}
        rows = chain.from_iterable(self._refs.read_many(some).values() for some in in_batches(keys, BATCH_GET_MAX))
        return {keys[each.key]: each for each in parse_rows(Updateable, rows, [])}

    def create(self, type: str, id: str, payload: bytes) -> Updateable | OtherVersion:
        """Returns the new object, or the one that has the name. Raises InvalidRequest, TooLarge."""
        key = self._key(type, id)
        token = self._ids.uuid()
        now = self._clock.now_ms()
        return self._write(rows.create_object(key, type, token, check_payload(payload), now), token)

    def update(self, before: Updateable, payload: bytes) -> Updateable | OtherVersion:
        """Replace the payload of the version ``before``. Raises TooLarge."""
        token = self._ids.uuid()
        now = self._clock.now_ms()
        return self._write(rows.update_object(before.key, before.token, token, check_payload(payload), now), token)

    def delete(self, before: Updateable) -> OtherVersion | None:
        """Remove the object if it still has the version ``before``; returns None when it is
        gone."""
        response = self._refs.write(rows.delete_object(before.key, before.token))
        current = None if isinstance(response, Accepted) else _object_of(response.row)
        return None if current is None else OtherVersion(current)

    def replace_damaged(self, type: str, id: str, payload: bytes, unpack: Callable[[Updateable], object]) -> bool:
        """Puts ``payload`` in place of a damaged object: its row cannot be read, or ``unpack``
        raises UnreadableRow. Returns False, and changes nothing, if it is none, or was changed
        meanwhile.
        """
        before = None
        try:
            before = self.read(type, id)
            if before is not None:
                unpack(before)
            return False
        except UnreadableRow:
            if before is not None:
                return isinstance(self.update(before, payload), Updateable)
        now = self._clock.now_ms()
        key = self._key(type, id)
        row = Updateable(key, type, self._ids.uuid(), check_payload(payload), now, now)
        content = self._refs.read_damaged(Updateable, key)
        return content is not None and self._refs.replace_damaged(row.to_row(), content)

    def _write(self, write: Write, token: str) -> Updateable | OtherVersion:
        response = self._refs.write(write)
        current = _object_of(response.row)
        if current is not None and (isinstance(response, Accepted) or current.token == token):  # or its answer was lost
            return current
        return OtherVersion(current)

    def _key(self, type: str, id: str) -> str:
        check_name(type, id)
        return self._space.updateable(f"{type}/{id}")


def _object_of(row: Row | None) -> Updateable | None:
    return None if row is None else Updateable.from_row(row)


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that may run until its lease ends (``task.until``, ms). ``task`` has the last
    result."""

    name: str
    task: Task
    version: Updateable


class Busy(msgspec.Struct, frozen=True):
    """Another attempt runs; its lease ends then (ms). ``reason``: that this is only assumed, since
    the task's row was damaged."""

    until: int
    attempt: int
    reason: str = ""


class Tasks:
    """Coordinated tasks of one realm. For rare work: every step is a write on one row. At most one
    attempt runs *by the clock of the process that begins*: choose terms longer than clocks are
    apart, end before the lease does, and fence writes that must never be made twice with
    ``task.attempt``.

    A damaged row is taken for an attempt that runs from now on for the longest term. ``begin`` puts
    that in its place, since the row holds nothing but a lease and the last result (I10).
    """

    def __init__(self, world: World) -> None:
        self._objects = Updateables(world)
        self._clock = world.clock

    def last(self, name: str) -> Task | None:
        """The task as it is now; None if it was never begun."""
        try:
            return _task_of(self._objects.read(TASK.name, name))
        except UnreadableRow as error:
            return unknown_task(self._clock.now_ms(), error.why)

    def replace_damaged(self, name: str) -> Task | None:
        """As ``last``, with an attempt that runs in the place of a damaged row: one read, and two
        requests more where the row is damaged."""
        try:
            return _task_of(self._objects.read(TASK.name, name))
        except UnreadableRow as error:
            return self._replace(name, error)

    def last_of(self, names: Sequence[str]) -> dict[str, Task]:
        """The present tasks, by name; names that were never begun, and those of damaged rows, are
        left out. One request for every 100."""
        tasks = dict[str, Task]()
        for name, each in self._objects.read_many(TASK.name, names).items():
            with suppress(UnreadableRow):
                tasks[name] = unpack_task(each)
        return tasks

    def begin(self, name: str, term_ms: int) -> Attempt | Busy:
        """Begin the task, unless it runs: two requests. An attempt that takes longer than
        ``term_ms`` must renew before. If it was begun without an answer (OutcomeUnknown), no
        attempt runs until its lease ends.
        """
        try:
            before = self._objects.read(TASK.name, name)
            last = _task_of(before) or Task()
        except UnreadableRow as error:
            return _busy(self._replace(name, error))
        now = self._clock.now_ms()
        if last.running(now):
            return _busy(last)
        task = last.begin(now, now + term_ms)
        if before is None:
            written = self._objects.create(TASK.name, name, task.pack())
        else:
            written = self._objects.update(before, task.pack())
        if isinstance(written, Updateable):
            return Attempt(name, task, written)
        return _busy(_task_of(written.current) or Task())

    def running_attempt(self, name: str, attempt: int) -> Attempt | None:
        """The running attempt of that number, for a process that knows no more of it: one read.
        None when it has ended, another attempt was begun, or the row is damaged. A task is still
        there after its lease is over, until it is taken over.
        """
        try:
            row = self._objects.read(TASK.name, name)
            task = _task_of(row)
        except UnreadableRow:
            return None
        if row is None or task is None or task.attempt != attempt or not task.until:
            return None
        return Attempt(name, task, row)

    def renew(self, attempt: Attempt, term_ms: int) -> Attempt | None:
        """A later end of the lease; None when another process took the task over: stop at once."""
        return self._update(attempt, attempt.task.renew(self._clock.now_ms() + term_ms))

    def finish(self, attempt: Attempt, result: bytes = b"") -> bool:
        """The task is done with ``result``; False when another process took it over: then that
        one's result counts."""
        return self._update(attempt, attempt.task.finish(result, self._clock.now_ms())) is not None

    def fail(self, attempt: Attempt, reason: str) -> bool:
        """The task failed, and any process may begin it again; False when one already has."""
        return self._update(attempt, attempt.task.fail(reason, self._clock.now_ms())) is not None

    def forget(self, name: str) -> None:
        """Removes the row of the task, unless it runs: its subject is gone. A damaged row is
        replaced, and removed by a later call."""
        try:
            before = self._objects.read(TASK.name, name)
            task = _task_of(before)
        except UnreadableRow as error:
            self._replace(name, error)
            return
        if before is not None and task is not None and not task.running(self._clock.now_ms()):
            self._objects.delete(before)

    def run(self, name: str, term_ms: int, work: Callable[[Attempt], bytes]) -> Task | Busy:
        """Begins, does ``work``, and finishes with its result, or fails as it does. ``work`` must
        end within the term. Returns the task as this attempt left it, or, when it took too long and
        was taken over, as it was begun.
        """
        attempt = self.begin(name, term_ms)
        if isinstance(attempt, Busy):
            return attempt
        try:
            result = work(attempt)
        except Exception as error:  # kept in the task for its readers, and raised for the caller
            self.fail(attempt, repr(error))
            raise
        done = self._update(attempt, attempt.task.finish(result, self._clock.now_ms()))
        return attempt.task if done is None else done.task

    def _update(self, attempt: Attempt, task: Task) -> Attempt | None:
        try:
            written = self._objects.update(attempt.version, task.pack())
        except UnreadableRow:  # it is another attempt's from now on
            return None
        return None if isinstance(written, OtherVersion) else Attempt(attempt.name, task, written)

    def _replace(self, name: str, error: UnreadableRow) -> Task:
        """Puts an attempt that runs in place of a damaged row, and returns it. Of several processes
        one does it."""
        task = unknown_task(self._clock.now_ms(), error.why)
        self._objects.replace_damaged(TASK.name, name, task.pack(), unpack_task)
        return task


def _task_of(current: Updateable | None) -> Task | None:
    return None if current is None else unpack_task(current)


def _busy(task: Task) -> Busy:
    return Busy(task.until, task.attempt, task.failure if task.is_unknown else "")
