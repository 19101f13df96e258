"""Sends the events of a catalog to a target, such as a webhook: at least once, in the log's order
(I14).

    1  hold the target          one deliverer sends, the others leave it to that one
    2  send a batch             the events after the target's place in the log
    3  move the place           behind the acknowledged ones; 2 and 3 again, to the end of the log
    4  release the target       and look again: events that were appended meanwhile were left to
                                this deliverer

A crash after any step, a lost answer and a target that fails leave the place unchanged: events that
were sent and not acknowledged, or acknowledged and not recorded, are sent again with the same ids.
A deliverer that was frozen sends duplicates at most: it can move no place that another one has
moved.

A target that has failed is left alone for a while, and a target of a dead deliverer until its hold
ends. ``Delivered`` says until when: the caller comes back then. A pass over all logs
(``append.enlisted``) finds targets without such a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from turnstile.events.core import deliveries
from turnstile.events.core.cloud_events import CloudEvent, cloud_event
from turnstile.events.core.cursors import Place
from turnstile.events.core.deliveries import EventDelivery, change_delivery
from turnstile.events.core.events import Event
from turnstile.events.read import EventReader
from turnstile.store.core.errors import OutcomeUnknown, StateConflict
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import Accepted, World

EVENTS_LOST: Final = "turnstile.events.lost"
"""Type of the event that tells a target: events that it was never sent are not kept any more."""


class NotDelivered(Exception):
    """A target did not acknowledge a batch; the message has its response."""


class EventTarget(Protocol):
    """Where events are sent to."""

    @property
    def name(self) -> str:
        """Its name, by which its place is kept."""
        ...

    @property
    def most(self) -> int:
        """How many events it takes at once."""
        ...

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Sends a batch, and returns when the target has acknowledged all of it. Raises
        NotDelivered."""
        ...


class Delivered(msgspec.Struct, frozen=True):
    """The result of one call.

    Attributes:
        sent: events that the target acknowledged.
        error: why it did not acknowledge the last batch of this call; empty if it did.
        again_ms: when to call again (server clock), since events are left; 0: none are.
    """

    sent: int = 0
    error: str = ""
    again_ms: int = 0


class Deliverer:
    """Delivers to one target. No state between calls."""

    def __init__(self, world: World, target: EventTarget, *, alone: bool = False, faults: Faults = no_faults) -> None:
        """``alone``: no other process delivers, so a target that is held was held by one that has
        died."""
        self._world = world
        self.target = target
        self._alone = alone
        self._faults = faults
        self._reader = EventReader(world)

    def deliver(self, catalog: str, *, go_on: Callable[[], bool] = lambda: True) -> Delivered:
        """Sends the events of ``catalog`` that the target lacks; a new target gets all events in
        the log.

        Args:
            go_on: called before each batch, which is not sent if it returns False.

        Raises:
            TurnstileError: the store cannot be read, or does not answer.
        """
        key = self._world.space.event_delivery(catalog, self.target.name)
        sent = 0
        while True:
            row = self._world.refs.read(key)
            now = self._now()
            before = None if row is None else EventDelivery.from_row(row)
            due_ms = 0 if before is None else before.due_ms(now, alone=self._alone)
            if now < due_ms:
                return Delivered(sent, again_ms=due_ms)
            place = self._reader.place(catalog, None) if before is None else before.place
            if not self._batch(place, 1)[0]:
                return Delivered(sent)
            if not go_on():
                return Delivered(sent, again_ms=now)
            if before is None:
                held = deliveries.first_delivery(key, self.target.name, place, now)
            else:
                held = deliveries.with_holder(before, now)
            if self._change(before, held):
                self._faults("delivery.held")
                done = self._send_all(held, go_on)
                sent += done.sent
                if done.error:
                    return Delivered(sent, done.error, done.again_ms)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _send_all(self, held: EventDelivery, go_on: Callable[[], bool]) -> Delivered:
        """Sends batches to the end of the log, and releases the target."""
        sent = 0
        while go_on():
            batch, place = self._batch(held.place, self.target.most)
            if not batch:
                break
            try:
                self.target.send(batch)
            except Exception as error:  # whatever a target's client raises
                why = str(error) if isinstance(error, NotDelivered) else repr(error)
                after = deliveries.after_failure(held, why, self._now())
                self._change(held, after)
                return Delivered(sent, after.error, after.pause_until_ms)
            self._faults("delivery.sent")
            after = deliveries.after_acknowledgement(held, place, len(batch), self._now())
            if not self._change(held, after):  # another one has the target
                return Delivered(sent)
            self._faults("delivery.moved")
            held = after
            sent = sent + len(batch)
        self._change(held, deliveries.without_holder(held, self._now()))
        self._faults("delivery.released")
        return Delivered(sent)

    def _batch(self, place: Place, most: int) -> tuple[list[CloudEvent], Place]:
        """Up to ``most`` events behind ``place``, and the place behind them."""
        batch = list[CloudEvent]()
        behind = place
        try:
            for event, next_place in islice(self._reader.events(place), most):
                batch.append(cloud_event(event, place.catalog))
                behind = next_place
        except StateConflict:  # what follows is not kept any more
            if not batch:
                id = f"{place.catalog}/lost/{place.log}/{place.chunk}/{place.index}"
                lost = Event(id, EVENTS_LOST, "", place.catalog, self._now(), {})
                return [cloud_event(lost, place.catalog)], self._reader.place_after_gap(place)
        return batch, behind

    def _change(self, before: EventDelivery | None, after: EventDelivery) -> bool:
        """Whether the row is now ``after``; False also if that is unknown."""
        try:
            return isinstance(self._world.refs.write(change_delivery(before, after)), Accepted)
        except OutcomeUnknown:
            return False

    def _now(self) -> int:
        return self._world.clock.now_ms()
