"""The cost model: requests and units counted through the ports
(``tests.support.store.fleet_costs``, held by tests/unit/fleet), at the dated prices of
``turnstile_cost``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.support.store import fleet_costs
from tests.support.store.fleet_costs import Cost
from turnstile_cost.model import SECONDS_A_MONTH, Prices, prices
from turnstile_server.fleet.member import ALONE_BEATS

SERVERS: Final = 3
VOLUME_GB: Final = 8


def dollars(cost: Cost, at: Prices) -> float:
    """What the units cost."""
    return cost.write_units * at.write_unit + cost.read_units * at.read_unit


def others(at: Prices) -> float:
    """A month of ZooKeeper's or etcd's three smallest servers, a volume each."""
    return SERVERS * (SECONDS_A_MONTH / 3600 * at.small_server_hour + VOLUME_GB * at.volume_gb_month)


def results(members: list[int]) -> Iterator[dict[str, Any]]:
    """A month in which nothing changes, by members; and 100,000 granules that change hands."""
    at = prices()
    for count in members:
        cost = fleet_costs.beat(count)
        beats = SECONDS_A_MONTH / (ALONE_BEATS if count == 1 else 1)
        month = count * beats * dollars(cost, at)
        yield {
            "heat": "idle month", "members": count, "requests_a_beat": cost.requests,
            "write_units_a_beat": cost.write_units,
            "read_units_a_beat": cost.read_units, "dollars_a_member": month / count, "dollars": month,
            "three_servers_dollars": others(at),
        }  # fmt: skip
    cost = fleet_costs.hand_over()
    yield {
        "heat": "100,000 migrations", "requests_each": cost.requests, "write_units_each": cost.write_units,
        "dollars": 100_000 * dollars(cost, at),
    }  # fmt: skip
