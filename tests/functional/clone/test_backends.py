"""Clones on real tables: DynamoDB's API behaves as the fakes do."""

from __future__ import annotations

import pytest

from tests.support.catalog import create, head_of
from tests.support.clones import clone, drop_iceberg, iceberg_table
from tests.support.store.backends import Counter
from tests.support.store.realm import StoredRealm
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import StateConflict
from turnstile.transfer.exports import Exporter


def held(services: CatalogServices, location: str) -> frozenset[str]:
    row = services.world.refs.read(services.world.space.location(location))
    return Location.from_row(row).clones if row is not None else frozenset()


def test_i10_clones_are_made_gone_back_over_and_dropped_on_real_tables(stored_realm: StoredRealm) -> None:
    counter = Counter()
    services = stored_realm.services(counter)
    services.namespaces.create("main", ("sales",))
    id = create(services, "d", "sales")
    table = iceberg_table(services, "sales.i")
    place = head_of(services.world, id).location
    counter.sent.clear()
    made = {one.name: one.table_id for one in clone(services, "sales", "dev").tables}
    assert sorted(counter.operations).count("transact_write_items") == 1 and len(counter.operations) <= 8
    assert held(services, place) == {made["dev.d"]} and held(services, table.location) == {made["dev.i"]}
    head = head_of(services.world, made["dev.d"])
    assert (head.state, head.source, head.latest, head.location) == ("pinned", id, 0, place)
    with pytest.raises(StateConflict, match="clones need"):
        Exporter(services).run("main", ("sales",), "d")
    drop_iceberg(services, "dev.i")
    assert held(services, table.location) == frozenset()
    (one,) = clone(services, "sales.d", "sales.one").tables
    with_one = services.reader.current("main").head
    services.dropper.drop("main", ("sales",), "one")
    (two,) = clone(services, "sales.d", "sales.two").tables
    services.resetter.reset("main", AsOf(head=with_one))
    assert held(services, place) == {made["dev.d"], one.table_id}
    states = [head_of(services.world, found.table_id).state for found in (one, two)]
    assert states == ["pinned", "dropped"]
    services.namespace_dropper.drop("main", ("dev",), cascade=True)
    services.dropper.drop("main", ("sales",), "one")
    assert held(services, place) == frozenset()
    Exporter(services).run("main", ("sales",), "d")
