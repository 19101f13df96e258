"""Defects that the model of a catalog and gc found."""

from __future__ import annotations

import pytest

from tests.support.catalog import fakes, fresh
from tests.support.faults import before_next_write
from tests.support.gc import collect_history, days, names_at, put_namespaces
from turnstile.catalog.history.core import AsOf
from turnstile.store.core.errors import NotFound


@pytest.mark.parametrize("what", ["reset", "name"])
def test_i9_a_snapshot_that_loses_its_name_meanwhile_brings_back_nothing_that_is_gone(what: str) -> None:
    """CatalogGc.tla, "what lost its name comes back": between the look at the snapshot and the swap
    its name is dropped, and gc takes what only the name kept. The swap is refused and tried again,
    with the tree that was found before. A second name for the same HEAD would lead nowhere in the
    same way."""
    services = fresh()
    world = fakes(services)
    put_namespaces(services, "old")
    services.named_snapshots.create("main", "s")
    services.namespace_dropper.drop("main", ("old",))
    for number in range(25):  # more than the row remembers
        put_namespaces(services, f"n{number}")
    days(world, 30)
    put_namespaces(services, "later")
    for number in range(25):
        put_namespaces(services, f"m{number}")
    other = fresh(world)

    def meanwhile() -> None:
        other.named_snapshots.drop("main", "s")
        collect_history(world)

    before_next_write(world, meanwhile)
    to = AsOf(snapshot="s")
    with pytest.raises(NotFound):
        if what == "reset":
            services.resetter.reset("main", to)
        else:
            services.named_snapshots.create("main", "t", of=to)
    assert services.listings.snapshots("main").items == ()
    assert "old" not in names_at(world, world.refs.rows["test/catalog/main"]["head"])
