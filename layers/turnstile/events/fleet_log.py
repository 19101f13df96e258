"""The log of the fleet's events: a log like the logs of catalogs, which is read and sent to targets
in the same way (I13, I14).

The writer of a transaction of the fleet appends its event after it. A crash between the two, or a
lost answer of the transaction, leaves out that event; the rows of the fleet are right without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnstile.events.append import Appender
from turnstile.events.core.cloud_events import FLEET
from turnstile.events.core.events import Event
from turnstile.fleet.core.changes import FleetChange
from turnstile.store.ports import World


class FleetLog:
    """Appends events of the fleet. No state between calls."""

    def __init__(self, world: World) -> None:
        self._appender = Appender(world)

    def append(self, events: Sequence[Event]) -> bool:
        """Appends events; events that were appended just now are not appended twice.

        Returns:
            False if others appended at the same time, or the answer was lost: call again with the
                same events.

        Raises:
            Throttled: the store does not answer.
        """
        return self._appender.add(FLEET, events)


def fleet_event(id: str, change: FleetChange, by: str, names: Mapping[str, str], now: int) -> Event:
    """Returns the event of a change.

    Args:
        id: of the event, never used again.
        by: the id of the member that wrote the transaction.
        names: of members, by id, as far as it knows them.
        now: server clock (ms).
    """
    data: dict[str, Any] = {"by": by}
    if change.role:
        data |= {"role": change.role, "count": change.count, "epochs": [change.first, change.last]}
    if change.source:
        data |= {"from": change.source, "from_name": names.get(change.source, "")}
    return Event(id, change.type, change.member, names.get(change.member, ""), now, data)
