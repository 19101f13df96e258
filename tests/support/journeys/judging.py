"""Compares a cell with the table of cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.journeys.cells import REFUSED
from tests.support.journeys.places import Journey
from tests.support.journeys.uses import ENDS


class Tables:
    """The table of each origin at each place: made once, and once more for a use that ends it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Journey] = {}

    def of(self, running: str, origin: str, use: str, make: Callable[[], Journey]) -> Journey:
        if use in ENDS:
            return make()
        if (running, origin) not in self._made:
            self._made[running, origin] = make()
        return self._made[running, origin]


def judge(origin: str, use: str, run: Callable[[], Any]) -> None:
    """Runs a use: it works, or is refused in the words of its cell."""
    refused = REFUSED.get((origin, use))
    if refused is None:
        run()
        return
    with pytest.raises(Exception) as error:
        run()
    assert not isinstance(error.value, AssertionError), error.value
    assert refused.words in str(error.value)
