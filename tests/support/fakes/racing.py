"""What others do while a sandbox stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.fakes.world import FakeWorld


def before_next_write(world: FakeWorld, act: Callable[[], object]) -> None:
    """Have ``act`` happen between the next write of a single row and all that its writer has read; once."""
    write = world.refs.write

    def late(one: Any) -> Any:
        world.refs.write = write  # type: ignore[method-assign]
        act()
        return write(one)

    world.refs.write = late  # type: ignore[method-assign]
