"""Follow-ups: a deployment's own actions after a table was published, by the table's rules (ADR
37).

    1  the rules        the policy ``follow-ups`` of the table, its namespaces, its catalog; most
                        tables end here
    2  the row          the due actions, by the versions that each has acknowledged; one write says
                        that they are being requested
    3  the actions      each gets one CloudEvent, with the versions that it is for
    4  the row          acknowledged actions are done; the others are requested again, after a pause
                        that grows

At least once: a crash between 3 and 4 repeats the request, for the same versions, with the same id.
A process that was frozen between 2 and 4 may do so too, and changes nothing that was recorded
since. A table that has a failing action is noted in one row for the whole realm, so that it is
found again without a look at all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from turnstile.catalog.core.policies import EffectivePolicy
from turnstile.coordination.core.rows import Updateable
from turnstile.coordination.tasks import Updateables
from turnstile.delta.commits import read_head
from turnstile.delta.core.head import ACTIVE, DROPPED, TableHead
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.events import TABLE_DROPPED, TABLE_PUBLISHED
from turnstile.events.core.follow_ups import FollowUpState, after_begin, after_end, due, request, with_rules
from turnstile.events.deliver import EventTarget, NotDelivered
from turnstile.maintenance.work import OutOfTime
from turnstile.store.core.errors import NotFound, UnreadableRow
from turnstile.store.core.rows import TASK
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import World

TARGET: Final = "(follow-ups)"
"""Name of the place in the event log; no target of a deployment is named so."""

FAILING_MAX: Final = 1_000
"""Tables with a failing action that are remembered; of more, the rest waits for its next
publication."""

_FAILING: Final = "follow-ups"
_TRIES: Final = 20

Outcome = Literal["nothing due", "busy", "done", "failed"]


class Followed(msgspec.Struct, frozen=True):
    """The result of one call for a table: ``actions`` that acknowledged, and the failures of
    others, by name."""

    table_id: str
    outcome: Outcome
    actions: tuple[str, ...] = ()
    failures: Mapping[str, str] = {}


class FollowUps:
    """Asks for actions. No state between calls.

    Args:
        policy: of a table (``maintenance.runs.MaintenanceRuns.policy``).
        actions: of the deployment, by name.
    """

    def __init__(
        self,
        world: World,
        policy: Callable[[TableHead], EffectivePolicy],
        actions: Sequence[EventTarget],
        *,
        faults: Faults = no_faults,
    ) -> None:
        self._world = world
        self._policy = policy
        self._faults = faults
        self._actions = {action.name: action for action in actions}
        self._objects = Updateables(world)

    def follow(self, table_id: str) -> Followed:
        """Does the due actions of a table. A failure of an action is in the result. Raises the
        errors of the store."""
        try:
            head = read_head(self._world, table_id)
        except NotFound:
            head = None
        if head is None or head.state == DROPPED:
            self.forget(table_id)
            return Followed(table_id, "nothing due")
        rules = self._policy(head).policy.follow_ups
        if not rules or head.state != ACTIVE:
            return Followed(table_id, "nothing due")
        try:
            row = self._objects.read(TASK.name, _row(table_id))
            before = _state_of(row)
        except UnreadableRow as error:  # without the row, an action would be done twice: an operator restores it
            return Followed(table_id, "failed", failures=dict.fromkeys(sorted(self._actions), error.message))
        now = self._world.clock.now_ms()
        if before.is_held(now):
            return Followed(table_id, "busy")
        state = with_rules(before, rules, head.floor)
        jobs = due(state, rules, self._actions.keys(), head.floor, now)
        if not jobs and state == before:
            return Followed(table_id, "nothing due")
        held = self._write(row, table_id, after_begin(state, jobs, now) if jobs else state)
        if held is None:
            return Followed(table_id, "busy")
        if not jobs:
            return Followed(table_id, "nothing due")
        self._faults("follow-ups.begun")
        failures = {}
        for job in jobs:
            try:
                self._actions[job.action].send([request(head, job, now)])
            except NotDelivered as error:
                failures[job.action] = str(error)
            self._faults("follow-ups.asked")
        after = after_end(FollowUpState.unpack(held.payload), jobs, failures, self._world.clock.now_ms())
        if self._write(held, table_id, after) is None:
            return Followed(table_id, "busy")
        if after.failing != before.failing:
            self._note(table_id, failing=after.failing)
        done = tuple(job.action for job in jobs if job.action not in failures)
        return Followed(table_id, "failed" if failures else "done", done, failures)

    def state(self, table_id: str) -> FollowUpState:
        """The stored state of a table's actions."""
        return _state_of(self._objects.read(TASK.name, _row(table_id)))

    def failing(self) -> tuple[str, ...]:
        """The tables that have a failing action."""
        try:
            row = self._objects.read(TASK.name, _FAILING)
            return () if row is None else tuple(_ids_of(row))
        except UnreadableRow:  # a hint, which the next failure replaces
            return ()

    def forget(self, table_id: str) -> None:
        """Removes the stored state of a table that is gone; leaves a damaged one."""
        try:
            row = self._objects.read(TASK.name, _row(table_id))
        except UnreadableRow:
            return
        if row is not None:
            self._objects.delete(row)
            self._note(table_id, failing=False)

    def _write(self, before: Updateable | None, table_id: str, state: FollowUpState) -> Updateable | None:
        """The row with ``state``; None if it has changed since it was read: another process works
        on the table."""
        if before is None:
            written = self._objects.create(TASK.name, _row(table_id), state.pack())
        else:
            written = self._objects.update(before, state.pack())
        return written if isinstance(written, Updateable) else None

    def _note(self, table_id: str, *, failing: bool) -> None:
        """Adds the table to the tables with a failing action, or removes it. If all tries lose, the
        table's next publication comes back to it."""
        for _ in range(_TRIES):
            try:
                row = self._objects.read(TASK.name, _FAILING)
                before = [] if row is None else _ids_of(row)
            except UnreadableRow:
                self._objects.replace_damaged(TASK.name, _FAILING, msgspec.msgpack.encode(list[str]()), _ids_of)
                continue
            after = [id for id in before if id != table_id]
            if failing and len(after) < FAILING_MAX:
                after.append(table_id)
            if after == before:
                return
            packed = msgspec.msgpack.encode(after)
            written = (
                self._objects.create(TASK.name, _FAILING, packed) if row is None else self._objects.update(row, packed)
            )
            if isinstance(written, Updateable):
                return


_IDS: Final = msgspec.msgpack.Decoder(list[str])


def _ids_of(row: Updateable) -> list[str]:
    """The tables with a failing action. Raises UnreadableRow."""
    try:
        return _IDS.decode(row.payload)
    except msgspec.MsgspecError as error:
        raise UnreadableRow(row.key, str(error)) from error


def _state_of(row: Updateable | None) -> FollowUpState:
    """The state of a table's actions. Raises UnreadableRow for a damaged payload."""
    try:
        return FollowUpState.unpack(row.payload if row is not None else b"")
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnreadableRow("" if row is None else row.key, str(error)) from error


def _row(table_id: str) -> str:
    return f"follow-up.{table_id}"


class FollowUpTarget:
    """The consumer of a catalog's events (``turnstile.events.deliver.EventTarget``): its place is
    stored like the places of targets. It acknowledges done and failed actions: a failed action is
    requested again later (``FollowUps.failing``), and does not delay the others.
    """

    name: Final = TARGET
    most: Final = 100

    def __init__(
        self,
        follow_ups: FollowUps,
        record: Callable[[Followed], None] = lambda _: None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """``record`` is called with the result for each table; ``go_on`` is called before each
        one."""
        self._follow_ups = follow_ups
        self._record = record
        self.go_on = go_on

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Does the due actions of the tables with publications in the events. Raises OutOfTime if
        not all had a turn, NotDelivered if another process has one of them, and the errors of the
        store.
        """
        tables: dict[str, None] = {}
        for event in events:
            if event.type in (TABLE_PUBLISHED, TABLE_DROPPED):
                tables[event.subject] = None
        for table_id in tables:
            if not self.go_on():
                raise OutOfTime("the time is up")
            followed = self._follow_ups.follow(table_id)
            self._record(followed)
            if followed.outcome == "busy":
                raise NotDelivered(
                    f"another process requests actions of table {table_id}, or has died of it: the batch comes again"
                )
