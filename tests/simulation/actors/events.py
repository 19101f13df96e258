"""Actors of the event log: appenders, followers, and deliverers to a target."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import HOUR, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.events.append import Appender, behind
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.cursors import Place
from turnstile.events.core.deliveries import HELD_MS, LONGEST_PAUSE_MS
from turnstile.events.core.events import TABLE_CREATED, TABLE_PUBLISHED, TABLE_RATIFIED, Event
from turnstile.events.deliver import EVENTS_LOST, Deliverer, NotDelivered
from turnstile.events.read import EventReader
from turnstile.store.core.errors import StateConflict, TurnstileError

CATALOG = "main"


class EventPump:
    """The function that makes events of the stream, whose records come late, twice, out of order or
    not at all."""

    def __init__(self, state: State, name: str, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._rng = rng

    def __call__(self) -> None:
        appender = None
        while True:
            self._state.scheduler.sleep(self._rng.choice((5, 30, 200, 3 * SECOND, HOUR)))
            keys = sorted(key for key in self._state.refs.rows if key.split("/")[1] in ("table", "catalog"))
            try:
                appender = appender or Appender(world_of(Process(self._state, self._name)))
                done = appender.append(self._rng.sample(keys, self._rng.randint(1, len(keys))))
                self._state.auditor.seen["appended"] += done.events
            except Crashed:
                appender = None
            except TurnstileError:
                continue


class Follower:
    """Reads the log again and again from where it was."""

    def __init__(self, state: State, name: str, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self.events: list[Event] = []
        self.expired = False

    def __call__(self) -> None:
        place: Place | None = None
        while True:
            self._state.scheduler.sleep(self._rng.choice((10, SECOND, 30 * SECOND, HOUR)))
            try:
                reader = EventReader(world_of(Process(self._state, self._name, client=True)))
                place = place or reader.place(CATALOG, None)
                for event, behind_it in reader.events(place):
                    self.events.append(event)
                    place = behind_it
                    self._state.auditor.seen["followed"] += 1
            except StateConflict:
                self._state.auditor.seen["expired"] += 1
                self.expired = True
                self.events = []
                place = None
            except (Crashed, TurnstileError):
                continue
            check(self._state, self.events, whole=False)


class Inbox:
    """The target: it stores its events, and fails now and then, also after it stored them."""

    name = "inbox"
    most = 3

    def __init__(self, state: State, rng: random.Random) -> None:
        self._state = state
        self._rng = rng
        self.fails = True
        self.ids: list[str] = []
        self._furthest = ("", 0, 0)

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Notes the ids, in the order in which they came first. The place in the row has not been
        moved back since."""
        row = self._state.refs.rows[self._state.space.event_delivery(CATALOG, self.name)]
        place = row["log"], row["chunk"], row["index"]
        if place[0] == self._furthest[0] and place < self._furthest:
            raise Violation("I14", f"the place was moved back from {self._furthest} to {place}")
        self._furthest = place
        if self.fails:
            self._state.scheduler.sleep(self._rng.choice((0, 5, 2 * HELD_MS)))
            if self._rng.random() < 0.2:
                raise NotDelivered("answered 503")
        if any(event.type == EVENTS_LOST for event in events):
            self._state.auditor.seen["told of a hole"] += 1
            self.ids.clear()
        self.ids += [event.id for event in events if event.id not in self.ids and event.type != EVENTS_LOST]
        self._state.auditor.seen["sent"] += len(events)
        if self.fails and self._rng.random() < 0.2:
            raise NotDelivered("the answer was lost")


class Courier:
    """A deliverer. It continues another one's work, and stalls in the middle of it."""

    def __init__(self, state: State, name: str, inbox: Inbox, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._inbox = inbox
        self._rng = rng

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((10, SECOND, 30 * SECOND)))
            try:
                Deliverer(world_of(Process(self._state, self._name)), self._inbox).deliver(CATALOG)
            except (Crashed, TurnstileError):
                continue


def check(state: State, events: list[Event], *, whole: bool) -> None:
    """Raises Violation unless each version has its event, in order, once, and there is no further
    event. ``whole``: the log is complete, from its beginning to the present state."""
    latest = dict[str, int]()
    floor = dict[str, int]()
    seq = -1
    for event in events:
        if not event.subject:
            if seq >= 0 and event.data["seq"] != seq + 1:
                raise Violation("I13", f"HEAD {event.data} of the catalog follows {seq} in the log")
            seq = event.data["seq"]
            continue
        history = state.auditor.tables[event.subject]
        version = event.data.get("version", 0)
        if event.type == TABLE_CREATED:
            latest[event.subject] = version
        elif event.type == TABLE_RATIFIED:
            before = latest.get(event.subject, version - 1)
            if version != before + 1:
                raise Violation("I13", f"version {version} of {event.subject} follows {before} in the log")
            latest[event.subject] = version
            fact = history.facts.get(version)
            if fact is None or event.time not in (0, fact.ict):
                raise Violation("I13", f"version {version} of {event.subject} was not ratified so: {event}")
        elif event.type == TABLE_PUBLISHED:
            if not floor.get(event.subject, -1) < version <= history.latest:
                raise Violation("I13", f"version {version} of {event.subject} is published after {floor}")
            floor[event.subject] = version
    if len({event.id for event in events}) < len(events):
        raise Violation("I13", "two events have one id")
    if whole:
        if seq != state.refs.rows[state.space.catalog(CATALOG)]["seq"]:
            raise Violation("I13", f"the log is at HEAD {seq} of the catalog")
        for table_id, history in state.auditor.tables.items():
            if latest.get(table_id) != history.latest:
                raise Violation("I13", f"{table_id} is at {history.latest}, the log at {latest.get(table_id)}")


def complete_log(state: State, follower: Follower) -> None:
    """The pass over all HEADs has two turns. Then the log is complete."""
    world = world_of(Process(state, "at rest", prone=False))
    appender = Appender(world)
    for _ in range(2):
        appender.append(list(behind(world, appender)))
    events = _log(state)
    if events is None:
        return
    check(state, events, whole=True)
    if not follower.expired and follower.events != events[: len(follower.events)]:
        raise Violation("I13", "who followed the log read something else than what is in it")
    state.auditor.seen["whole"] += 1


def deliver_all(state: State, inbox: Inbox) -> None:
    """The target acknowledges every batch. Then it has all events of the log."""
    inbox.fails = False
    state.scheduler.now += HELD_MS + LONGEST_PAUSE_MS + HOUR
    if Deliverer(world_of(Process(state, "at rest", prone=False)), inbox).deliver(CATALOG).again_ms:
        raise Violation("I14", "a target that acknowledges everything has not got everything")
    events = _log(state)
    if events is not None and inbox.ids != [event.id for event in events][-len(inbox.ids) :]:
        raise Violation("I14", "what the target got first is not what is in the log, in its order")


def _log(state: State) -> list[Event] | None:
    """All events; None if the run was longer than the retention."""
    reader = EventReader(world_of(Process(state, "at rest", prone=False)))
    place = Place(CATALOG, "", 0, 0)
    events = list[Event]()
    try:
        while page := list(reader.events(place)):
            events += [event for event, _ in page]
            place = page[-1][1]
    except StateConflict:
        state.auditor.seen["expired"] += 1
        return None
    return events
