"""The scenario of follow-ups: tables as in ``events``, and two that ask for actions after
publications (I17)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.events import Followed
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.core.policies import Level, policy_of
from turnstile.delta.core.head import TableHead
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.follow_ups import HELD_MS
from turnstile.events.deliver import NotDelivered
from turnstile.events.follow_ups import FollowUps, _row
from turnstile.maintenance.core.due import LONGEST_PAUSE_MS
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import TASK

RULES: Final = "each on publish, some after 3 commits"
COMMITS: Final = {"each": 1, "some": 3}


class Action:
    """The requested action: it stores its input, fails now and then, also after it stored it, and
    takes its time."""

    most = 1

    def __init__(self, state: State, name: str, rng: random.Random) -> None:
        self.name = name
        self._state = state
        self._rng = rng
        self.fails = True
        self.ranges: dict[str, dict[str, tuple[int, int]]] = {}

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Records the versions, which follow those before them or are a repetition."""
        if self.fails:
            self._state.scheduler.sleep(self._rng.choice((0, 0, 5, 2 * HELD_MS)))
            if self._rng.random() < 0.2:
                raise NotDelivered("answered 503")
        for event in events:
            self._note(event)
        if self.fails and self._rng.random() < 0.2:
            raise NotDelivered("the answer was lost")

    def _note(self, event: CloudEvent) -> None:
        first = event.data["first_version"]
        last = event.data["version"]
        ranges = self.ranges.setdefault(event.subject, {})
        if last > self._state.auditor.tables[event.subject].latest:
            raise Violation("I17", f"version {last} of {event.subject} was not published")
        known = ranges.setdefault(event.id, (first, last))
        if known != (first, last):
            raise Violation("I17", f"{event.id} was for {known}, and is for {first} to {last}")
        ends = [last for _, last in ranges.values()]
        if known == [*ranges.values()][-1] and len(ends) > 1 and first != max(ends[:-1]) + 1:
            raise Violation("I17", f"{first} to {last} follow {max(ends[:-1])} of {event.subject}")
        self._state.auditor.seen["asked"] += 1


class OwnerClient:
    """A process that requests actions. It continues another one's work, and stalls in the middle of
    it."""

    def __init__(self, state: State, name: str, actions: Sequence[Action], rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._actions = actions
        self._rng = rng

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((10, SECOND, 30 * SECOND, 2 * HELD_MS)))
            tables = sorted(self._state.auditor.tables)
            try:
                follow_ups = asking(self._state, self._name, self._actions)
                follow_ups.follow(self._rng.choice(tables))
                for table_id in follow_ups.failing():
                    follow_ups.follow(table_id)
            except (Crashed, TurnstileError):
                continue


def asking(state: State, name: str, actions: Sequence[Action], *, prone: bool = True) -> FollowUps:
    """Follow-ups of one process; every table has the rules."""
    effective = policy_of([Level("catalog", "main", {"turnstile.maintenance.follow-ups": RULES})])

    def policy(_: TableHead) -> Any:
        return effective

    return FollowUps(world_of(Process(state, name, prone=prone)), policy, actions)


class FollowUpActions(Followed):
    """Actions that are asked for after publications (I17)."""

    name = "follow-ups"

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As of events; and two that ask."""
        yield from super().actors(state, plan)
        self._actions = [Action(state, name, random.Random(f"{plan.seed}/{name}")) for name in COMMITS]
        for number in (1, 2):
            name = f"asker-{number}"
            yield Actor(name, OwnerClient(state, name, self._actions, random.Random(f"{plan.seed}/{name}")))

    def settle(self, state: State, plan: Plan) -> None:
        """As of events; then every action has acknowledged all that its rule makes due."""
        super().settle(state, plan)
        for action in self._actions:
            action.fails = False
        for _ in range(3):
            state.scheduler.now += HELD_MS + LONGEST_PAUSE_MS
            for table_id in sorted(state.auditor.tables):
                asking(state, "at rest", self._actions, prone=False).follow(table_id)
        for action in self._actions:
            for table_id, ranges in action.ranges.items():
                self._check(state, action, table_id, ranges)

    def _check(self, state: State, action: Action, table_id: str, ranges: dict[str, tuple[int, int]]) -> None:
        row = state.refs.rows.get(state.space.table(table_id))
        if row is None or row["state"] != "active":
            return
        if row["floor"] - max(last for _, last in ranges.values()) >= COMMITS[action.name]:
            raise Violation("I17", f"{action.name} is behind on {table_id}: {ranges}, published up to {row['floor']}")
        state.auditor.seen["asked for all"] += 1


def _not_pending(begun: Callable[..., Any]) -> Callable[..., Any]:
    """The row does not say up to where actions are being asked for."""

    def wrong(state: Any, jobs: Any, now_ms: int) -> Any:
        after = begun(state, jobs, now_ms)
        return replace(after, actions={name: replace(each, pending=0) for name, each in after.actions.items()})

    return wrong


def _done_all(ended: Callable[..., Any]) -> Callable[..., Any]:
    """An action that failed counts as done."""
    return lambda state, jobs, _, now_ms: ended(state, jobs, {}, now_ms)


def _overwriting(write: Callable[..., Any]) -> Callable[..., Any]:
    """A write that lost is made again on the present row."""

    def wrong(self: FollowUps, before: Any, table_id: str, state: Any) -> Any:
        written = write(self, before, table_id, state)
        if written is None:
            written = write(self, self._objects.read(TASK.name, _row(table_id)), table_id, state)
        return written

    return wrong


FOLLOW_UP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "follow-ups: the row does not say what is being asked for": (
        lambda: swapped("turnstile.events.follow_ups.after_begin", _not_pending),
        "I17",
    ),
    "follow-ups: a failure counts as done": (
        lambda: swapped("turnstile.events.follow_ups.after_end", _done_all),
        "I17",
    ),
    "follow-ups: whoever is held up writes all the same": (
        lambda: swapped("turnstile.events.follow_ups.FollowUps._write", _overwriting),
        "I17",
    ),
}
"""The planted mistake, and the invariant that it breaks."""
