"""Due actions after a publication, and their stored state: pure (ADR 37).

The state of a table is one row. Before an action is requested, the row says so, and up to which
version (``pending``): a repeated request, after a crash or a failure, is for the same versions
under the same id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from turnstile.catalog.core.follow_ups import FollowUpRule
from turnstile.delta.core.head import TableHead
from turnstile.events.core.cloud_events import CloudEvent, cloud_event
from turnstile.events.core.events import Event
from turnstile.maintenance.core.due import LONGEST_PAUSE_MS, pause_ms
from turnstile.store.core.terms import is_over

FOLLOW_UP: Final = "turnstile.table.follow-up"

HELD_MS: Final = 180_000
"""How long a process has the table to itself while it requests actions: longer than all of its
actions may take to answer."""

UNKNOWN: Final = "this deployment names no such action"


class ActionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one action on one table.

    Attributes:
        version: up to where it was asked for, and acknowledged that.
        pending: up to where it is being asked for; 0: it is not.
        done_ms: when it last acknowledged.
        failures: how often it did not, in a row; ``reason`` why the last time, ``again_ms`` when it
            is asked again.
    """

    version: int
    pending: int = 0
    done_ms: int = 0
    failures: int = 0
    reason: str = ""
    again_ms: int = 0


class FollowUpState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one table: its actions by name, and until when a process requests some of them
    (ms)."""

    actions: dict[str, ActionState] = {}
    held_until_ms: int = 0

    @classmethod
    def unpack(cls, packed: bytes) -> FollowUpState:
        """The state that ``pack`` was called on."""
        return _DECODER.decode(packed) if packed else cls()

    def pack(self) -> bytes:
        return _ENCODER.encode(self)

    def is_held(self, now_ms: int) -> bool:
        """Whether a process may be asking for actions of the table."""
        return not is_over(self.held_until_ms, now_ms, HELD_MS)

    @property
    def failing(self) -> bool:
        """Whether an action has to be asked for again."""
        return any(action.failures for action in self.actions.values())


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(FollowUpState)


class Due(msgspec.Struct, frozen=True):
    """An action to be asked for, of the versions from ``first`` to ``last``."""

    action: str
    first: int
    last: int


def with_rules(state: FollowUpState, rules: Sequence[FollowUpRule], floor: int) -> FollowUpState:
    """The state with all rules in it, and without rules of actions that have none: a new action
    counts from the version that was published last."""
    actions = {rule.action: state.actions.get(rule.action) or ActionState(floor - 1) for rule in rules}
    return msgspec.structs.replace(state, actions=actions)


def due(
    state: FollowUpState, rules: Sequence[FollowUpRule], known: Collection[str], floor: int, now_ms: int
) -> list[Due]:
    """Returns the due jobs at ``floor``. A job is due if the deployment knows its action, and
    either its rule is met or its action was being requested; an action that has failed a moment ago
    is left out. ``state`` is as ``with_rules`` returns it.
    """
    jobs = []
    for rule in rules:
        action = state.actions[rule.action]
        last = action.pending or (floor if floor - action.version >= rule.commits else 0)
        if last and rule.action in known and is_over(action.again_ms, now_ms, LONGEST_PAUSE_MS):
            jobs.append(Due(rule.action, action.version + 1, last))
    return jobs


def after_begin(state: FollowUpState, jobs: Sequence[Due], now_ms: int) -> FollowUpState:
    """The state while these are asked for."""
    actions = dict(state.actions)
    for job in jobs:
        actions[job.action] = msgspec.structs.replace(actions[job.action], pending=job.last)
    return FollowUpState(actions, now_ms + HELD_MS)


def after_end(state: FollowUpState, jobs: Sequence[Due], failures: Mapping[str, str], now_ms: int) -> FollowUpState:
    """The state after these were asked for; ``failures`` says why, by action."""
    actions = dict(state.actions)
    for job in jobs:
        before = actions[job.action]
        if job.action in failures:
            count = before.failures + 1
            again_ms = now_ms + pause_ms(count)
            reason = failures[job.action][:300]
            actions[job.action] = msgspec.structs.replace(before, failures=count, reason=reason, again_ms=again_ms)
        else:
            actions[job.action] = ActionState(job.last, done_ms=now_ms)
    return FollowUpState(actions)


def request(head: TableHead, job: Due, now_ms: int) -> CloudEvent:
    """The input of an action: its table and versions. The same job has the same id."""
    id = f"{head.table_id}/follow-up/{job.action}/{job.first}-{job.last}"
    data: dict[str, Any] = {"action": job.action, "first_version": job.first, "version": job.last}
    return cloud_event(Event(id, FOLLOW_UP, head.table_id, head.name, now_ms, data), head.catalog)
