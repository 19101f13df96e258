"""Ids without a central counter: snowflakes from a leased node, and random ones that are claimed.
Use snowflakes where processes live long and are fewer than 1,024, claimed random ids where
thousands of sandboxes come, freeze and go (docs/ids.md;
tests/unit/coordination/test_snowflake_simulation.py shows that neither repeats).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from turnstile.coordination.core.rows import Lease
from turnstile.coordination.core.snowflake import NODES, RANDOM_BITS, IdRange, random_id
from turnstile.coordination.tasks import Leases
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, Throttled
from turnstile.store.ports import Clock, Ids, World

TERM_MS: Final = 60_000
MARGIN_MS: Final = 5_000  # no id is made in the last part of a lease: clocks differ, and time passes before it is used
TRIES: Final = 64
CLAIMS: Final = 16
_ROUNDS: Final = 8

Monotonic = Callable[[], int]  # a clock in ms that never steps back


class SnowflakeIds:
    """Ids of one process. Safe for threads. Copies of a process (forked, or restored from a
    snapshot) must not share one. A node is leased for ``term_ms``, and renewed in passing once half
    of that is over. ``monotonic`` measures the lease's age beside the wall clock: it is over when
    either says so.
    """

    def __init__(
        self, world: World, monotonic: Monotonic, *, term_ms: int = TERM_MS, margin_ms: int = MARGIN_MS
    ) -> None:
        self._leases = Leases(world)
        self._clock = world.clock
        self._ids = world.ids
        self._monotonic = monotonic
        self._term_ms = term_ms
        self._margin_ms = margin_ms
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._range = IdRange(0, 0, 0)
        self._since = self._renew_at = 0

    def next(self) -> int:
        """Returns a new id. It is greater than every earlier one of the same lease, and than every
        earlier one from here unless the clock stepped back far and the node changed with it. One
        request every half term. Raises StateConflict (``NoFreeNode``), Throttled or OutcomeUnknown
        when no node could be leased.
        """
        with self._lock:
            for _ in range(_ROUNDS):
                lease = self._lease
                now = self._clock.now_ms()
                age = self._monotonic() - self._since
                if lease is None or now >= lease.until - self._margin_ms or age >= self._term_ms - self._margin_ms:
                    self._lease_again(lease)
                    continue
                if age >= self._renew_at and not self._extend(lease, age):
                    continue
                issued = self._range.next(now)
                if issued is not None:
                    id, self._range = issued
                    return id
                self._lease_again(lease)
        raise StateConflict(
            "NoFreeNode", "the clock steps so wildly that no lease lasts", remedy="mend this machine's clock"
        )

    def close(self) -> None:
        """Give the node up, so that others need not wait for the end of its lease."""
        with self._lock:
            # first: the node may be another's even if the answer is lost (I2)
            lease = self._lease
            self._lease = None
            if lease is not None:
                self._leases.release(lease, self._range.free)

    def _extend(self, lease: Lease, age: int) -> bool:
        """Renew; False when another process has the lease. While the store does not answer, the
        rest of it is used."""
        try:
            return self._renew(lease)
        except (Throttled, OutcomeUnknown):
            self._renew_at = age + self._margin_ms
            return True

    def _lease_again(self, old: Lease | None) -> None:
        """Get a valid lease: of the same node if no other process took it meanwhile, else of
        another."""
        self._lease = None
        if old is not None and self._renew(old):
            return
        for _ in range(TRIES):
            node = _random(self._ids, digits=8) % NODES
            since = self._monotonic()
            taken = self._leases.take(f"node/{node}", self._term_ms)
            if isinstance(taken, Lease):
                self._lease = taken
                self._since = since
                self._renew_at = self._term_ms // 2
                self._range = IdRange(node, taken.start, taken.until)
                return
        raise StateConflict(
            "NoFreeNode",
            f"{TRIES} of {NODES} nodes were tried and all are leased",
            remedy="try again later, or use claimed random ids where there are so many processes",
            retry_after_ms=self._term_ms,
        )

    def _renew(self, lease: Lease) -> bool:
        since = self._monotonic()  # before the request, so that the lease is never taken for younger than it is
        renewed = self._leases.renew(lease, self._term_ms)
        self._lease = renewed
        if renewed is not None:
            self._since = since
            self._renew_at = self._term_ms // 2
            self._range = self._range.until(renewed.until)
        return renewed is not None


class ClaimedIds:
    """Random ids that order by time, for any number of processes. Nothing is leased; the write that
    uses an id claims it."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    def claim(self, put_if_absent: Callable[[int], bool]) -> int:
        """Returns the first id for which ``put_if_absent`` says that nothing was there. Raises
        StateConflict, ``NoFreeId``, when so many ids in a row were taken that the random numbers
        must be broken.
        """
        for _ in range(CLAIMS):
            bits = _random(self._ids, digits=12) & ((1 << RANDOM_BITS) - 1)
            id = random_id(self._clock.now_ms(), bits)
            if put_if_absent(id):
                return id
        raise StateConflict("NoFreeId", f"{CLAIMS} random ids in a row were taken", remedy="check the random numbers")


def _random(ids: Ids, digits: int) -> int:
    return int(ids.uuid().replace("-", "")[-digits:], 16)
