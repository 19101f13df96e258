"""A deployment with another lake root: tables at the old one live, are published, dropped and
purged as before (I10)."""

from __future__ import annotations

import pytest

from tests.support.catalog import LAKE, create, fakes, fresh, head_of
from tests.support.gc import collect, days
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import StateConflict

OTHER = "file:///other/lake"


def moved(before: CatalogServices, root: str) -> CatalogServices:
    return build(before.world, lake_root=root)


def test_new_tables_go_to_the_new_root_and_old_ones_stay_where_they_are() -> None:
    before = fresh()
    old = create(before, "old")
    after = moved(before, OTHER)
    new = create(after, "new")
    assert head_of(after.world, old).location.startswith(f"{LAKE}/")
    assert head_of(after.world, new).location.startswith(f"{OTHER}/")
    assert Publisher(after.world).publish(old).problem is None


def test_i10_a_table_at_the_old_root_is_purged_with_its_files() -> None:
    before = fresh()
    old = create(before, "old")
    after = moved(before, OTHER)
    world = fakes(before)
    storage = world.storages.open(head_of(world, old).location)
    assert list(storage.list_all())
    after.dropper.drop("main", ("default",), "old")
    days(world, 8)
    collect(world)
    assert not list(storage.list_all())


@pytest.mark.parametrize("root", ["file:///lake/new", "file:///"])
def test_i10_a_root_above_or_below_the_old_one_is_refused(root: str) -> None:
    """Who owns what lies below both could not be told."""
    before = fresh()
    create(before)
    with pytest.raises(StateConflict) as refused:
        create(moved(before, root), "new")
    assert refused.value.type == "LocationOwned"
