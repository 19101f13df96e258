"""The places of journeys, attached to the one Spark session."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

import turnstile_spark
from tests.support.journeys.places import Place


class Lakes:
    """The place of each way of running, attached when it is asked for."""

    def __init__(self, request: pytest.FixtureRequest, spark: Any, stack: ExitStack) -> None:
        self._request = request
        self._spark = spark
        self._stack = stack
        self._attached: dict[str, Any] = {}

    def at(self, running: str) -> tuple[Place, Any]:
        """The place, and its lake."""
        place = self._request.getfixturevalue(running)
        if running not in self._attached:
            lake = turnstile_spark.attach(self._spark, f"journeys_{running}", place.url, token=place.token or None)
            self._stack.callback(lake.detach)
            self._attached[running] = lake
        return place, self._attached[running]
