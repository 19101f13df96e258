"""The scenarios of events: tables as in ``tables``, two that append their events, and one that
follows the log; in ``deliveries`` two that send it to a target."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace as replace_struct

from tests.simulation.actors.events import Courier, EventPump, Follower, Inbox, complete_log, deliver_all
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.delta.core.writes import ratify as floor
from turnstile.events.core import deliveries, rows
from turnstile.events.core.deliveries import EventDelivery
from turnstile.events.deliver import Delivered, Deliverer, NotDelivered
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, Rejected, SomeRejected


class Followed(Tables):
    """Tables with events that are followed (I13)."""

    name = "events"

    def plan(self, seed: int) -> Plan:
        """Few writers: the log is about its appenders."""
        rng = random.Random(seed)
        writers = tuple(f"{kind}-{number}" for number, kind in enumerate(rng.choices(("inline", "ticket"), k=2)))
        others = tuple(name for name in ("pump-1", "catalog-1", "catalog-2", "gc") if rng.random() < 0.6)
        kinds = ("before", "lost", "late", "throttle", "crash", "crash after", "stall")
        return Plan(
            seed=seed,
            actors=(*writers, *others, "sweeper"),
            faults=tuple(kind for kind in kinds if rng.random() < 0.6),
            rate=rng.choice((0.02, 0.08, 0.2)),
            steps=400,
            row_tracking=False,
            keep=rng.choice((0, 1)),
        )

    @contextmanager
    def _small(self, plan: Plan) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(floor, "KEEP_PUBLISHED", plan.keep))
            stack.enter_context(patch.object(rows, "CHUNK_BYTES", 300))
            yield

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """As of tables; and chunks of few events."""
        return self._small(plan)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As of tables; with appenders and followers."""
        yield from super().actors(state, plan)
        for number in (1, 2):
            name = f"events-{number}"
            yield Actor(name, EventPump(state, name, random.Random(f"{plan.seed}/{name}")))
        self._follower = Follower(state, "follower", random.Random(f"{plan.seed}/follower"))
        yield Actor("follower", self._follower)

    def settle(self, state: State, plan: Plan) -> None:
        """As of tables; then the log is complete."""
        super().settle(state, plan)
        complete_log(state, self._follower)


class Sent(Followed):
    """Events that are sent to a target (I14)."""

    name = "deliveries"

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As of events; and two that send."""
        yield from super().actors(state, plan)
        self._inbox = Inbox(state, random.Random(f"{plan.seed}/inbox"))
        for number in (1, 2):
            name = f"courier-{number}"
            yield Actor(name, Courier(state, name, self._inbox, random.Random(f"{plan.seed}/{name}")))

    def settle(self, state: State, plan: Plan) -> None:
        """As of events; then the target has got all of the log."""
        super().settle(state, plan)
        deliver_all(state, self._inbox)


MARK = "turnstile.events.append.move_mark"
LOG = "turnstile.events.append.append_to_log"


class _OneByOne:
    """Refs that write the marks first, then the log."""

    def __init__(self, refs: Any) -> None:
        self._refs = refs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)

    def transact(self, writes: list[Write], token: str) -> AllAccepted | SomeRejected:
        for write in writes:
            if isinstance(self._refs.write(write), Rejected):
                return SomeRejected({0: None})
        return AllAccepted()


class _HeadsFirst:
    """Refs that read HEADs together with their marks, before them."""

    def __init__(self, refs: Any) -> None:
        self._refs = refs
        self._heads = dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)

    def read_many(self, keys: list[str]) -> Any:
        if "/event-mark/" not in keys[0]:
            return self._heads
        self._heads = self._refs.read_many([key.replace("/event-mark/", "/", 1) for key in keys])
        return self._refs.read_many(keys)


def _with_refs(make: Callable[[Any], Any]) -> Any:
    """Appenders with refs made of the real ones."""

    def made(init: Callable[..., None]) -> Callable[..., None]:
        return lambda self, world, **more: init(self, replace(world, refs=make(world.refs)), **more)

    return swapped("turnstile.events.append.Appender.__init__", made)


def _moving_first(send_all: Callable[..., Delivered]) -> Callable[..., Delivered]:
    """The place is moved behind the first batch, then the batch is sent."""

    def wrong(self: Deliverer, held: EventDelivery, go_on: Callable[[], bool]) -> Delivered:
        batch, place = self._batch(held.place, self.target.most)
        after = deliveries.after_acknowledgement(held, place, len(batch), self._now())
        if not batch or not self._change(held, after):
            return Delivered()
        try:
            self.target.send(batch)
        except NotDelivered as error:
            self._change(after, deliveries.after_failure(after, str(error), self._now()))
            return Delivered(0, str(error))
        return send_all(self, after, go_on)

    return wrong


def _moving(failed: Callable[..., EventDelivery]) -> Callable[..., EventDelivery]:
    """A failure moves the place behind the event that could not be sent."""
    return lambda delivery, *more: failed(replace_struct(delivery, index=delivery.index + 1), *more)


EVENT_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "events: without 'same mark'": (without(MARK, "same mark"), "I13"),
    "events: without 'same end'": (without(LOG, "same end"), "I13"),
    "events: marks and log one by one": (lambda: _with_refs(_OneByOne), "I13"),
    "events: HEADs are read first": (lambda: _with_refs(_HeadsFirst), "I13"),
    "events: the first event of a chunk is passed over": (
        lambda: swapped("turnstile.events.read.unpack", lambda real: lambda packed: real(packed)[1:]),
        "I13",
    ),
}
"""The mistake planted in the log, and the invariant that it breaks."""

DELIVERY_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "deliveries: without 'same delivery'": (
        without("turnstile.events.deliver.change_delivery", "same delivery"),
        "I14",
    ),
    "deliveries: the place is moved before the batch is sent": (
        lambda: swapped("turnstile.events.deliver.Deliverer._send_all", _moving_first),
        "I14",
    ),
    "deliveries: a failure moves the place": (
        lambda: swapped("turnstile.events.core.deliveries.after_failure", _moving),
        "I14",
    ),
}
"""The mistake planted in deliveries, and the invariant that it breaks."""
