"""What a fleet costs by DynamoDB's rules, counted: docs/fleet.md has the figures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store import fleet_costs
from tests.support.store.fleet_costs import Cost


@pytest.mark.parametrize(("members", "read_units"), [(1, 1.0), (2, 2.0), (4, 4.0), (16, 6.6)])
def test_a_beat_is_one_write_and_one_read_request(members: int, read_units: float) -> None:
    cost = fleet_costs.beat(members)
    assert (cost.requests, cost.write_units) == (2.0, 1.0)
    assert cost.read_units == pytest.approx(read_units, abs=0.3)


def test_a_beat_costs_little_more_in_a_fleet_of_any_size() -> None:
    cost = fleet_costs.beat(32)
    assert cost.requests <= 2.2 and cost.write_units <= 1.1
    assert cost.read_units <= 3 + fleet_costs.LOOKED_AT + 3, (
        "those that are watched, a part of the others, the fleet's row"
    )


def test_a_granule_that_changes_hands_costs_its_own_row_and_a_ninetieth_of_three_others() -> None:
    approx: Any = pytest.approx
    assert fleet_costs.hand_over() == Cost(approx(1 / 90), approx(2 + (2 * 2 + 4) / 90), 0)
