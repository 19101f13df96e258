"""Write the emulated tables to disk soon after they change.

The emulator alone does so only when it is told to stop: whatever a killed stack had been told since its start was
lost, while the files of the lake stayed. Now it loses what came after the last pause of two seconds, or the last half
minute under steady load.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnstile_local.layout import Layout

PAUSE_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 30.0
SHARE: Final = 50
"""Under load, a checkpoint that takes a second is followed by fifty without one."""

_WRITES: Final = tuple(
    b"DynamoDB_20120810." + action
    for action in (b"PutItem", b"UpdateItem", b"DeleteItem", b"BatchWriteItem", b"TransactWriteItems")
)
_log = logging.getLogger("turnstile.checkpoint")


class Checkpoint:
    """Knows whether the tables changed since they were written, and when to write them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._changed_first = 0.0
        self._changed_last = 0.0
        self._not_before = 0.0

    def saw(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take note of a request to the emulated AWS."""
        if any(name == b"x-amz-target" and value in _WRITES for name, value in headers):
            self._changed_last = time.monotonic()
            self._changed_first = self._changed_first or self._changed_last

    def due(self, now: float) -> bool:
        """Whether the tables should be written at ``now`` (monotonic seconds)."""
        if not self._changed_first:
            return False
        paused = now - self._changed_last >= PAUSE_SECONDS
        return paused or (now - self._changed_first >= LONGEST_SECONDS and now >= self._not_before)

    async def keep(self) -> None:
        """Write whenever it is due; runs for as long as the server does."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS / 2)
            if self.due(time.monotonic()):
                await self.save_tables()

    async def save_tables(self) -> None:
        """Write the tables. They are copied between two requests, so that the copy is of one moment."""
        from ministack.core.persistence import save_state
        from ministack.services import dynamodb

        self._changed_first = 0.0
        began = time.monotonic()
        try:
            state = dynamodb.get_state()
            await asyncio.to_thread(save_state, "dynamodb", state)
        except Exception:
            _log.exception("the tables could not be written; the next checkpoint tries again")
        ended = time.monotonic()
        self._not_before = ended + SHARE * (ended - began)

    def save_all(self) -> None:
        """Write everything, and note which deployment that is."""
        from ministack import app
        from ministack.core.persistence import save_all

        save_all(app._build_persistence_save_dict())  # noqa: SLF001
        self.note_deployment()

    def note_deployment(self) -> None:
        """What is deployed is what was just saved."""
        if self._layout.deployed.exists():
            self._layout.deployed.replace(self._layout.saved)
