"""Conditions of catalog changes that only a race or an accident meets, met on purpose (I2, I9,
I10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.catalog import MAIN, complete, fakes, fresh, head_of, names
from tests.support.faults import Crash, Faulty
from tests.support.legacy import PLACE, Legacy
from turnstile.catalog.core.entities import External
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import StateConflict
from turnstile.transfer.imports import Importer


def before_the_first(services: CatalogServices, port: str, name: str, act: Callable[[], object]) -> None:
    """Let ``act`` happen right before the first call of a port's method."""
    target = getattr(fakes(services), port)
    plain = getattr(target, name)

    def call(*args: Any) -> Any:
        setattr(target, name, plain)
        act()
        return plain(*args)

    setattr(target, name, call)


def test_i9_a_catalog_in_which_a_namespace_appears_is_not_dropped() -> None:
    services = fresh()
    services.catalogs.create("other")
    service = fresh(services.world).namespaces
    before_the_first(services, "refs", "transact", lambda: service.create("other", ("late",)))
    with pytest.raises(StateConflict) as refused:
        services.catalogs.drop("other")
    assert refused.value.type == "NamespaceNotEmpty"
    assert service.get("other", ("late",)).name == ("late",)
    complete(fakes(services))


def test_i2_i9_an_import_that_was_finished_under_another_name_keeps_its_head() -> None:
    services = fresh()
    Legacy(services).created().append(2)
    with pytest.raises(Crash):  # it gets as far as its claim
        Importer(fresh(Faulty(fakes(services), 2).world)).run(*MAIN, "t", PLACE)
    finished: list[str] = []
    slow = fresh(services.world)
    before_the_first(
        slow, "objs", "put", lambda: finished.append(Importer(fresh(slow.world)).run(*MAIN, "t", PLACE).table_id)
    )
    with pytest.raises(StateConflict) as refused:
        Importer(slow).run(*MAIN, "u", PLACE)
    assert refused.value.type == "LocationOwned"
    assert names(fresh(services.world)) == ["t"]
    assert head_of(services.world, finished[0]).name == "main.default.t"
    complete(fakes(services))


def test_i9_a_uuid_that_is_taken_does_not_lead_to_another_place() -> None:
    services = fresh()
    world = fakes(services)
    taken = world.ids.uuid()
    world.ids.uuid = lambda: taken  # type: ignore[method-assign]
    register = services.externals.register
    first = register("main", ("default",), "a", location="s3://b/a", format="parquet", about=External())
    with pytest.raises(StateConflict):
        register("main", ("default",), "b", location="s3://b/b", format="parquet", about=External())
    row = world.refs.read(world.space.external(taken))
    assert row is not None and row["location"] == first.location
    assert names(services) == ["a"]
