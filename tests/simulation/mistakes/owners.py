"""Mistakes planted in leases, ids, tasks, updateable objects and references: the simulation must
find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import msgspec

from tests.simulation.mistakes.pasts import Plant, all_of
from tests.simulation.mistakes.tables import swapped, without
from turnstile.coordination.core.rows import Lease, Task
from turnstile.coordination.core.snowflake import IdRange
from turnstile.coordination.ids import SnowflakeIds
from turnstile.coordination.tasks import Leases

_LEASES: Final = "turnstile.coordination.tasks.rows."
_OBJECTS: Final = "turnstile.coordination.tasks.rows."
_REFS: Final = "turnstile.coordination.refs.named_ref."


class _Endless(IdRange, frozen=True):
    """Knows no end of its range."""

    def next(self, now: int) -> tuple[int, IdRange] | None:
        made = IdRange(self.node, self.start, 2**42, self.last, self.sequence).next(now)
        assert made is not None
        return made[0], _Endless(self.node, self.start, self.stop, made[1].last, made[1].sequence)


def _looks_at_no_end() -> Any:
    """Ids go on when the lease is over: neither the clocks nor the range are looked at."""
    init = SnowflakeIds.__init__

    def endless(self: SnowflakeIds, *args: Any, **more: Any) -> None:
        init(self, *args, **{**more, "margin_ms": -(10**12)})
        self._renew_at = 10**12

    return all_of(
        lambda: patch.object(SnowflakeIds, "__init__", endless),
        lambda: swapped("turnstile.coordination.ids.IdRange", lambda _: _Endless),
        lambda: patch.object(SnowflakeIds, "_extend", lambda *_: True),
    )()


def _begins_now() -> Any:
    """A lease that is taken over begins now, wherever the one before ends."""

    def wrong(take: Callable[..., Any]) -> Callable[..., Any]:
        def takes(self: Leases, name: str, term_ms: int) -> Any:
            taken = take(self, name, term_ms)
            now = self._world.clock.now_ms()
            return (
                msgspec.structs.replace(taken, start=now) if isinstance(taken, Lease) and taken.start > now else taken
            )

        return takes

    return patch.object(Leases, "take", wrong(Leases.take))


def _released_late() -> Any:
    """A node that is given up is free from the last time that was used, not after it."""
    return patch.object(IdRange, "free", property(lambda self: max(self.last, self.start)))


OWNER_MISTAKES: dict[str, tuple[Plant, str]] = {
    "ids: no look at the lease's end": (_looks_at_no_end, "I2"),
    "lease: begins now": (_begins_now, "I2"),
    "lease: renewed without 'held'": (without(_LEASES + "renew_lease", "held"), "I2"),
    "lease: released without 'held'": (without(_LEASES + "release_lease", "held"), "I2"),
    "lease: taken over without 'same end'": (without(_LEASES + "take_over_lease", "same end"), "I2"),
    "lease: first without 'new'": (without(_LEASES + "take_first_lease", "new"), "I2"),
    "lease: free while the last time is used": (_released_late, "I2"),
    "task: begun while it runs": (lambda: patch.object(Task, "running", lambda *_: False), "I10"),
    "updateable: without 'same version'": (without(_OBJECTS + "update_object", "same version"), "I10"),
    "updateable: without 'new'": (without(_OBJECTS + "create_object", "new"), "I6"),
    "ref: swapped without 'same token'": (without(_REFS + "swap", "same token"), "I6"),
    "ref: deleted without 'same token'": (without(_REFS + "delete", "same token"), "I6"),
    "ref: revived without 'same token'": (without(_REFS + "revive", "same token"), "I6"),
    "ref: created without 'new'": (without(_REFS + "create", "new"), "I6"),
    "ref: never replayed": (lambda: swapped(_REFS + "replayed_value", lambda _: lambda *_: None), "I3"),
    "ref: what is forgotten is refused": (lambda: swapped(_REFS + "moved_on", lambda _: lambda *_: True), "I3"),
}
"""The planted mistake, and the invariant that it breaks first most often."""
