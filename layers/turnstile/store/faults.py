"""Named fault points: places at which a test may stop, delay or kill a service, to show that it
recovers from a crash there.

Services call ``faults(point)`` between the steps whose order matters; in production that is a
no-op. A function started with ``TURNSTILE_FAULT_POINT=<point>`` or ``<point>:<n>`` dies, without
any clean-up, when it comes to that point (for the n-th time), as if its machine failed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final

Faults = Callable[[str], None]
"""Called with the name of the point that was reached; may raise, wait or end the process."""

VARIABLE: Final = "TURNSTILE_FAULT_POINT"

POINTS: Final[dict[str, str]] = {
    "publish.read": "the HEAD was read, nothing was done",
    "publish.fetched": "a version's ratified bytes are in hand, not yet in _delta_log",
    "publish.copied": "a version was written to _delta_log",
    "publish.verified": "a version was found in _delta_log, with the same bytes",
    "publish.identities": "the identity index has the entries that will leave the tail; the floor is unchanged",
    "publish.floor": "the floor was raised",
    "publish.stuck": "the HEAD was marked as stuck",
    "publish.unstuck": "the HEAD takes commits again",
    "recover.begun": "the HEAD says that it recovers, nothing is adopted",
    "recover.described": "the table metadata of a version is written, the HEAD does not know the version",
    "recover.adopted": "the HEAD has adopted a published version",
    "recover.ended": "the HEAD takes commits again after a recovery",
    "recover.taken_back": "unpublished commits were taken back, the log's versions are not adopted yet",
    "recover.stuck": "the HEAD is stuck at a published version that cannot be adopted",
    "materialise.put": "an inline commit was written to its staged name",
    "events.marks": "the event log's marks of some HEADs were read, the HEADs were not",
    "events.read": "events are made, nothing is written",
    "events.sealed": "a full chunk of the event log is an obj, the log's row does not say so",
    "events.appended": "events were appended",
    "collect.marked": "an item was marked for collection, nothing of it is gone",
    "collect.deleted": "one file or obj of an item is gone",
    "collect.emptied": "all files of an item are gone, its rows are not",
    "collect.released": "the location has no owner any more and the HEAD says purged",
}


def no_faults(point: str) -> None:
    """Production: nothing happens."""


def faults_from(environment: Mapping[str, str]) -> Faults:
    """Returns the faults that ``TURNSTILE_FAULT_POINT`` names; none when it is not set. Raises
    ValueError for an unknown point."""
    value = environment.get(VARIABLE, "")
    if not value:
        return no_faults
    name, _, count = value.partition(":")
    if name not in POINTS or (count and not count.isdigit()):
        raise ValueError(f"{VARIABLE}={value!r}: name one of {', '.join(POINTS)}, optionally with ':<n>'")
    return _DieAt(name, int(count or 1))


class _DieAt:
    """Ends the process at the n-th visit to a point."""

    def __init__(self, point: str, visit: int) -> None:
        self._point = point
        self._left = visit
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        if point == self._point:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    os._exit(137)
