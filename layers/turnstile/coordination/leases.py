"""Taking, renewing and giving up leases: one request each, two to take one over."""

from __future__ import annotations

import msgspec

from turnstile.coordination.core import lease as plans
from turnstile.coordination.core.lease import RELEASED, Lease, LeaseRow
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted
from turnstile.store.world import World


class Held(msgspec.Struct, frozen=True):
    """Somebody else has it, until then (ms, by the holder's clock)."""

    until: int


class Leases:
    """Leases of names in one realm."""

    def __init__(self, world: World) -> None:
        self._world = world

    def take(self, name: str, term_ms: int) -> Lease | Held:
        """The lease of ``name`` for ``term_ms`` from now on, if nobody has it.

        Raises:
            Throttled: nothing was taken.
            OutcomeUnknown: perhaps it was; then it is free again when the term is over.
        """
        now, holder, key = self._world.clock.now_ms(), self._world.ids.uuid(), self._world.space.lease(name)
        answer = self._world.refs.write(plans.take_first(key, holder, now, now + term_ms))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return Lease(key, holder, now, now + term_ms, 0)
        if answer.row is None:
            return Held(now)
        seen = LeaseRow.from_row(answer.row)
        if seen.until > now and seen.holder != RELEASED:
            return Held(seen.until)
        start = max(now, seen.until)
        answer = self._world.refs.write(plans.take_over(seen, holder, start + term_ms))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return Lease(key, holder, start, start + term_ms, seen.fence + 1)
        return Held(answer.row["until"] if answer.row is not None else now)

    def renew(self, lease: Lease, term_ms: int) -> Lease | None:
        """The same lease with an end ``term_ms`` from now on; None when somebody else has it meanwhile. Raises as
        ``take``; what was held before is then still held until its end."""
        until, holder = max(self._world.clock.now_ms() + term_ms, lease.until), self._world.ids.uuid()
        answer = self._world.refs.write(plans.renew(lease, holder, until))
        if isinstance(answer, Accepted) or _is(answer.row, holder):
            return msgspec.structs.replace(lease, holder=holder, until=until)
        return None

    def release(self, lease: Lease, free_ms: int) -> None:
        """Let others have it at once; ``free_ms`` is the first time that was not used. Nothing happens when somebody
        else has it already."""
        self._world.refs.write(plans.release(lease, free_ms))


def _is(row: Row | None, holder: str) -> bool:
    """Whether the row that refused is this very write, applied before its answer was lost."""
    return row is not None and row["holder"] == holder
