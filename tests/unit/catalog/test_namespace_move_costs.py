"""The cost of renaming a namespace: requests, objs and write units grow with its content, and not
with the catalog."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.catalog import EVENTS, counted, create, fresh, put, sales
from tests.support.meter import filled
from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.paths import Path


def test_three_requests_when_warm_and_a_read_for_each_level_of_entities_when_cold() -> None:
    services = fresh()
    sales(services)
    swap = ["objs.put_many", "refs.read", "refs.transact"]
    assert counted(services, lambda: services.namespace_mover.rename("main", ("sales",), "trade")) == swap
    cold = fresh(services.world)
    assert counted(services, lambda: cold.namespace_mover.rename("main", ("trade",), "sales")) == [
        "objs.get",  # the tree
        "objs.get_many",  # the namespace
        "objs.get_many",  # the tables in it
        "objs.get_many",  # the spelling of nested namespaces
        "objs.put_many",
        "refs.read",
        "refs.transact",
    ]


@pytest.mark.parametrize("size", [10, 1_000])
def test_what_a_rename_costs_follows_from_the_tables_that_move_and_not_from_the_catalog(size: int) -> None:
    """Two write units for each HEAD (a transaction counts twice), and the commit."""
    metered = filled(size)
    services = metered.services
    services.namespaces.create("main", ("n",))
    for number in range(20):
        create(services, f"t{number}", "n")
    cost = metered.cost(services.namespace_mover.rename, "main", ("n",), "m")
    assert sorted(cost.requests) == ["objs.put_many", "refs.read", "refs.transact"]
    assert len(cost.objs) <= 3 and 2 * 20 < cost.write_units < 2 * 20 + 60


def test_two_thousand_iceberg_tables_move_in_three_requests() -> None:
    metered = filled(10)
    services = metered.services
    entities: dict[Path, Entity] = {
        ("n", f"t{number:05d}"): msgspec.structs.replace(
            EVENTS, name=f"t{number:05d}", table_id=metered.world.ids.uuid()
        )
        for number in range(2_000)
    }
    services.namespaces.create("main", ("n",))
    put(services, entities)
    cost = metered.cost(services.namespace_mover.rename, "main", ("n",), "m")
    assert sorted(cost.requests) == ["objs.put_many", "refs.read", "refs.write"]
    assert len(cost.objs) < 10, "the index is written anew in segments, entities are not"
    assert services.reader.current("main").find(("m", "t01999")) is not None


def test_without_delta_tables_a_rename_is_one_write_to_one_row() -> None:
    services = fresh()
    services.namespaces.create("main", ("n", "o"))
    put(services, {("n", "events"): EVENTS})
    requests = counted(services, lambda: services.namespace_mover.rename("main", ("n",), "m"))
    assert requests == ["objs.put_many", "refs.read", "refs.write"]
