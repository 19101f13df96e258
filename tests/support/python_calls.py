"""How many calls of Python functions something takes: the same number on every machine, busy or
not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def python_calls(work: Callable[[], object]) -> int:
    """Calls of functions written in Python, and steps of generators, of this thread."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
