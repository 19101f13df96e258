"""Mistakes planted in the guards against sandboxes that were frozen and clocks that are ahead: the
simulation must find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.simulation.mistakes.catalog_history import Plant, all_of
from tests.simulation.mistakes.tables import SWAP, swapped, without
from turnstile.catalog.changes.retry import Backoff, PriorityClaim
from turnstile.gc.trees import Fence
from turnstile.store.core.writes import Row


def _believed_for_ever(self: PriorityClaim, row: Row | None) -> bool:
    """A turn ends when it says so, however far away that is."""
    until = (row or {}).get("turn_until", 0)
    return bool((row or {}).get("turn", self.id) != self.id and until > self._world.clock.now_ms())


def _never_outlived() -> Any:
    """A change is applied however old it is."""
    return swapped("turnstile.catalog.changes.attempts.OUTLIVED_MS", lambda _: 10**12)


def _no_look_after_the_pause() -> Any:
    """The deadline is looked at before a pause only."""

    def wrong(hold_back: Callable[[Backoff, int], bool]) -> Callable[[Backoff, int], bool]:
        def before(self: Backoff, most_ms: int) -> bool:
            late = self._over
            hold_back(self, most_ms)
            return not late

        return before

    return patch.object(Backoff, "hold_back", wrong(Backoff.hold_back))


def _kept_for_an_hour() -> Any:
    return swapped("turnstile.catalog.core.request_rows.REQUEST_KEPT_S", lambda _: 3_600)


def _no_fence() -> Any:
    """gc puts up none."""

    def blind(self: Fence) -> None:
        self._up = True

    return patch.object(Fence, "require", blind)


def _fence_for_resets_only() -> Any:
    """Rewritten objs are not checked when they are swapped in."""

    def wrong(swap: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, replaced=None, **more: swap(
            *args, replaced=10**15 if replaced is None else replaced, **more
        )

    return swapped(SWAP, wrong)


FROZEN_MISTAKES: dict[str, tuple[Plant, str]] = {
    "turn: believed for ever": (lambda: patch.object(PriorityClaim, "held_by_other", _believed_for_ever), "I11"),
    "change: applied however old it is": (all_of(_never_outlived, _no_look_after_the_pause), "I10"),
    "key: kept for an hour": (all_of(_never_outlived, _kept_for_an_hour), "I8"),
    "gc: no fence": (_no_fence, "I9"),
    "swap: without 'not swept'": (without(SWAP, "not swept"), "I9"),
    "swap: 'not swept' for resets only": (_fence_for_resets_only, "I9"),
}
"""The planted mistake, and the invariant that it breaks first most often."""
