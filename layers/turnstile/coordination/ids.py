"""Ids without a central counter: snowflakes from a leased node, and random ones that are claimed.

Where each is right (docs/ids.md has the reasons, tests/unit/coordination/test_snowflake_simulation.py the proof): snowflakes where
processes live long and are fewer than 1,024; claimed random ids where thousands of sandboxes come, freeze and go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from turnstile.coordination.core.rows import Lease
from turnstile.coordination.core.snowflake import NODES, RANDOM_BITS, Issuer, random_id
from turnstile.coordination.tasks import Leases
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, Throttled
from turnstile.store.ports import Clock, Ids, World

TERM_MS: Final = 60_000
MARGIN_MS: Final = 5_000
"""So long before the end of a lease no id is made any more: clocks differ, and time goes by between check and use."""

TRIES: Final = 64
CLAIMS: Final = 16
_ROUNDS: Final = 8

Monotonic = Callable[[], int]
"""A clock in ms that never steps; passed in, because services have no clock of their own."""


class SnowflakeIds:
    """Ids of one process. Safe for threads. Must not be shared by copies of a process: one that is forked, or restored
    from a snapshot, makes its own.

    Args:
        monotonic: judges the lease's age beside the wall clock: whichever says that it is over is believed.
        term_ms: how long a node is leased, more than ``margin_ms``; renewed in passing once half of that is over.
    """

    def __init__(
        self, world: World, monotonic: Monotonic, *, term_ms: int = TERM_MS, margin_ms: int = MARGIN_MS
    ) -> None:
        self._leases, self._clock, self._ids, self._monotonic = Leases(world), world.clock, world.ids, monotonic
        self._term, self._margin = term_ms, margin_ms
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._issuer = Issuer(0, 0, 0)
        self._since = self._renew_at = 0

    def next(self) -> int:
        """A fresh id, greater than every one before of the same lease (and of all from here, unless the clock stepped
        back further than the sequence runs ahead and the node changed with it). No request but one every half term.

        Raises:
            StateConflict: ``NoFreeNode``: every node that was tried is leased.
            Throttled, OutcomeUnknown: a node could not be leased.
        """
        with self._lock:
            for _ in range(_ROUNDS):
                lease, now, age = self._lease, self._clock.now_ms(), self._monotonic() - self._since
                if lease is None or now >= lease.until - self._margin or age >= self._term - self._margin:
                    self._lease_again(lease)
                    continue
                if age >= self._renew_at and not self._extended(lease, age):
                    continue
                made = self._issuer.next(now)
                if made is not None:
                    id, self._issuer = made
                    return id
                self._lease_again(lease)
        raise StateConflict(
            "NoFreeNode", "the clock steps so wildly that no lease lasts", remedy="mend this machine's clock"
        )

    def close(self) -> None:
        """Give the node up, so that others need not wait for the end of its lease."""
        with self._lock:
            lease, self._lease = self._lease, None  # first: the node may be another's even if the answer is lost (I2)
            if lease is not None:
                self._leases.release(lease, self._issuer.free)

    def _extended(self, lease: Lease, age: int) -> bool:
        """Renew in passing; False when somebody else has the lease. When the store cannot be asked now, what is left of
        the lease will do until it can."""
        try:
            return self._renewed(lease)
        except (Throttled, OutcomeUnknown):
            self._renew_at = age + self._margin
            return True

    def _lease_again(self, old: Lease | None) -> None:
        """A lease that is good now: the same node's if nobody took it meanwhile, else another's."""
        self._lease = None
        if old is not None and self._renewed(old):
            return
        for _ in range(TRIES):
            node, since = self._random() % NODES, self._monotonic()
            taken = self._leases.take(f"node/{node}", self._term)
            if isinstance(taken, Lease):
                self._lease, self._since, self._renew_at = taken, since, self._term // 2
                self._issuer = Issuer(node, taken.start, taken.until)
                return
        raise StateConflict(
            "NoFreeNode",
            f"{TRIES} of {NODES} nodes were tried and all are leased",
            remedy="try again later, or use claimed random ids where there are so many processes",
            retry_after_ms=self._term,
        )

    def _renewed(self, lease: Lease) -> bool:
        since = self._monotonic()  # before the request: the lease is at least as young as it is taken for
        renewed = self._leases.renew(lease, self._term)
        self._lease = renewed
        if renewed is not None:
            self._since, self._renew_at = since, self._term // 2
            self._issuer = self._issuer.until(renewed.until)
        return renewed is not None

    def _random(self) -> int:
        return int(self._ids.uuid().replace("-", "")[-8:], 16)


class ClaimedIds:
    """Random ids that order by time, for any number of processes: nothing is leased, every id is claimed by the write
    that uses it."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock, self._ids = clock, ids

    def claim(self, put_if_absent: Callable[[int], bool]) -> int:
        """An id that nobody has: the first one for which ``put_if_absent`` says that nothing was there.

        Raises:
            StateConflict: ``NoFreeId``: so many ids in a row were taken that the random numbers must be broken.
        """
        for _ in range(CLAIMS):
            bits = int(self._ids.uuid().replace("-", "")[-12:], 16) & ((1 << RANDOM_BITS) - 1)
            id = random_id(self._clock.now_ms(), bits)
            if put_if_absent(id):
                return id
        raise StateConflict("NoFreeId", f"{CLAIMS} random ids in a row were taken", remedy="check the random numbers")
