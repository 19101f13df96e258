"""Renaming a namespace: with everything in it, in one swap of the HEAD, or not at all (I9)."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from tests.support.catalog import EVENTS, complete, counted, create, fakes, fresh, head_of, names, put, sales, staged
from tests.support.clones import check_shown, clone
from turnstile.catalog.core.entities import External, IcebergView, Namespace
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import Access
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import SpillLimits

DAILY = IcebergView("daily", "22222222-2222-4222-8222-222222222222", "s3://b/d", "s3://b/d/1.json", 5)
TIGHT = SpillLimits(embedded=150, segment=300)


def spaces(services: CatalogServices, *parent: str) -> list[str]:
    return [dotted_name(*namespace.name) for namespace in services.listings.namespaces("main", parent).items]


def entries(services: CatalogServices) -> dict[str, str]:
    """Obj by key of everything in the catalog."""
    return {key: entry.obj for key, entry in services.reader.current("main").index.iterate()}


@pytest.mark.parametrize("spill", [None, TIGHT], ids=["embedded", "spilled"])
def test_i9_everything_below_is_found_under_the_new_name_and_nothing_under_the_old_one(
    spill: SpillLimits | None,
) -> None:
    services = fresh(spill=spill)
    ids = sales(services)
    seq = services.reader.current("main").commit.seq
    renamed = services.namespace_mover.rename("main", ("SALES",), "Trade")
    assert renamed.name == ("Trade",)
    assert services.reader.current("main").commit.seq == seq + 1
    for box in (services, fresh(services.world, spill=spill)):
        assert spaces(box) == ["default", "sale", "salesman", "Trade"]
        assert spaces(box, "trade") == ["Trade.EU"]
        assert box.reader.resolve("main", ("trade",), "orders").table_id == ids["Orders"]
        assert box.reader.resolve("main", ("trade", "eu"), "items").table_id == ids["EU.Items"]
        for path in (("sales",), ("sales", "eu")):
            with pytest.raises(NotFound):
                box.namespaces.get("main", path)
        with pytest.raises(NotFound):
            box.reader.resolve("main", ("sales",), "orders")
    assert head_of(services.world, ids["Orders"]).name == "main.Trade.Orders"
    assert head_of(services.world, ids["EU.Items"]).name == "main.Trade.EU.Items"
    assert head_of(services.world, ids["salesman"]).name == "main.salesman.t"
    complete(fakes(services))


def test_i9_it_moves_below_another_namespace_and_back_to_the_top() -> None:
    services = fresh()
    ids = sales(services)
    services.namespaces.create("main", ("Archive", "old"))
    moved = services.namespace_mover.rename("main", ("sales", "eu"), "europe", ("ARCHIVE", "OLD"))
    assert moved.name == ("Archive", "old", "europe"), "levels that exist keep their spelling"
    assert head_of(services.world, ids["EU.Items"]).name == "main.Archive.old.europe.Items"
    assert (spaces(services, "sales"), names(services, "sales")) == ([], ["Orders"])
    assert services.namespace_mover.rename("main", ("archive", "old", "europe"), "EU", ()).name == ("EU",)
    assert spaces(services) == ["Archive", "default", "EU", "sale", "Sales", "salesman"]
    assert head_of(services.world, ids["EU.Items"]).name == "main.EU.Items"
    complete(fakes(services))


def test_identity_rights_comment_and_properties_stay() -> None:
    """I12: what was granted on a namespace is granted on it under its new name."""
    services = fresh()
    sales(services)
    before = services.namespaces.get("main", ("sales", "eu")).entity
    after = services.namespace_mover.rename("main", ("sales", "eu"), "europe").entity
    assert after == msgspec.structs.replace(before, name="europe", updated=after.updated)
    assert (after.access, after.updated > before.created) == (Access("ann"), True)
    assert services.namespaces.get("main", ("sales", "europe")).entity == after


def test_case_alone_changes_in_names_and_in_the_heads() -> None:
    services = fresh()
    ids = sales(services)
    before = entries(services)
    assert services.namespace_mover.rename("main", ("sales",), "SALES").name == ("SALES",)
    assert head_of(services.world, ids["EU.Items"]).name == "main.SALES.EU.Items"
    after = entries(services)
    assert {key for key in after if after[key] != before[key]} == {"sales"}
    complete(fakes(services))


def test_the_name_that_it_has_already_changes_nothing() -> None:
    services = fresh()
    sales(services)
    seq = services.reader.current("main").commit.seq
    assert services.namespace_mover.rename("main", ("sales", "eu"), "EU", ("SALES",)).name == ("Sales", "EU")
    assert services.reader.current("main").commit.seq == seq


def test_what_else_changes_comes_with_the_same_swap() -> None:
    services = fresh()
    ids = sales(services)
    seq = services.reader.current("main").commit.seq

    def alter(old: Namespace) -> Namespace:
        return msgspec.structs.replace(old, comment="other", properties={"a": "b"})

    for old, name, commits in (("sales", "trade", 1), ("trade", "trade", 1), ("trade", "Trade", 2)):
        renamed = services.namespace_mover.rename("main", (old,), name, alter=alter)
        assert (renamed.name, renamed.entity.comment, renamed.entity.properties) == ((name,), "other", {"a": "b"})
        assert services.reader.current("main").commit.seq == seq + commits
    assert head_of(services.world, ids["Orders"]).name == "main.Trade.Orders"
    complete(fakes(services))


def test_something_else_may_change_under_the_name_that_it_has() -> None:
    """No table's HEAD is touched: none of them has another name."""
    services = fresh()
    sales(services)
    alter = partial(msgspec.structs.replace, comment="other")
    requests = counted(services, lambda: services.namespace_mover.rename("main", ("sales",), "Sales", alter=alter))
    assert requests == ["objs.put_many", "refs.read", "refs.write"]
    assert services.namespaces.get("main", ("sales",)).entity.comment == "other"


def test_tables_without_a_head_move_too() -> None:
    services = fresh()
    sales(services)
    services.externals.register("main", ("sales",), "e", location="s3://b/x", format="csv", about=External())
    put(services, {("Sales", "Events"): EVENTS, ("Sales", "EU", "daily"): DAILY})
    before = entries(services)
    services.namespace_mover.rename("main", ("sales",), "trade")
    after = entries(services)
    for name in ("e", "events", "eu\x00daily", "eu\x00items", "orders", "eu"):
        assert after[f"trade\x00{name}"] == before[f"sales\x00{name}"], "the very same objs"
    assert not [key for key in after if key.split("\x00")[0] == "sales"]


def test_i10_clones_and_what_they_are_clones_of_move_without_each_other() -> None:
    """A clone says where its files lie by uuid and location, not by name."""
    services = fresh()
    ids = sales(services)
    clones = {table.name: table.table_id for table in clone(services, "sales", "copies").tables}
    services.namespace_mover.rename("main", ("sales",), "trade")
    services.namespace_mover.rename("main", ("copies",), "Kept", ("trade",))
    copied = clones["copies.EU.Items"]
    assert head_of(services.world, copied).name == "main.trade.Kept.EU.Items"
    assert head_of(services.world, ids["EU.Items"]).name == "main.trade.EU.Items"
    check_shown(fakes(services), copied, 0)
    complete(fakes(services))


def test_i9_a_rename_writes_one_entity_and_one_commit_however_much_is_in_the_namespace() -> None:
    services = fresh()
    sales(services)
    world = fakes(services)
    before = set(world.objs.rows)
    services.namespace_mover.rename("main", ("sales",), "trade")
    assert sorted(world.objs.rows[key].type for key in world.objs.rows.keys() - before) == ["commit", "namespace"]


def test_a_staged_table_is_registered_under_the_namespaces_new_name() -> None:
    services = fresh()
    services.namespaces.create("main", ("n",))
    id = staged(services, "t", "n")
    services.namespace_mover.rename("main", ("n",), "m")
    with pytest.raises(NotFound):
        services.registrar.register("main", ("n",), "t", id)
    services.registrar.register("main", ("m",), "t", id)
    complete(fakes(services))


def test_the_old_name_is_free_and_what_takes_it_is_something_else() -> None:
    services = fresh()
    ids = sales(services)
    services.namespace_mover.rename("main", ("sales",), "trade")
    services.namespaces.create("main", ("sales",))
    new = create(services, "Orders", "sales")
    assert services.reader.resolve("main", ("sales",), "orders").table_id == new != ids["Orders"]
    complete(fakes(services))


def test_the_past_keeps_the_old_name_and_a_reset_brings_it_back() -> None:
    services = fresh()
    ids = sales(services)
    head = services.reader.current("main").head
    services.namespace_mover.rename("main", ("sales",), "trade")
    assert services.history.tree("main", AsOf(head=head)).find(("sales", "orders")) is not None
    done = services.resetter.reset("main", AsOf(head=head))
    assert done.renamed == ("main.Sales.EU.Items", "main.Sales.Orders")
    assert services.reader.resolve("main", ("sales",), "orders").table_id == ids["Orders"]
    complete(fakes(services))
