"""Catalogs and namespaces: create, get, update, drop."""

from __future__ import annotations

import pytest

from tests.support.catalog import LAKE, complete, create, fakes, fresh, head_of, names
from tests.support.fakes.world import fake_world
from turnstile.catalog import services as bootstrap
from turnstile.catalog.core.paths import MAX_LEVELS
from turnstile.catalog.drop import TABLES_PER_CHANGE
from turnstile.catalog.services import CatalogServices, build
from turnstile.store.core.errors import AlreadyExists, InvalidRequest, NotFound, StateConflict, TooLarge
from turnstile.store.core.writes import Change, Set


def listed(services: CatalogServices, *parent: str) -> list[str]:
    return [".".join(namespace.name) for namespace in services.listings.namespaces("main", parent).items]


# -- catalogs -----------------------------------------------------------------------------------------------------


def test_a_stack_starts_with_a_catalog_and_a_namespace_and_starting_again_changes_nothing() -> None:
    world = fake_world()
    bootstrap.ensure(world, "main", "default.inner", lake_root=LAKE)
    before = (dict(world.refs.rows), dict(world.objs.rows))
    bootstrap.ensure(world, "main", "default.inner", lake_root=LAKE)
    assert (world.refs.rows, world.objs.rows) == before
    services = build(world, lake_root=LAKE)
    assert [catalog.name for catalog in services.catalogs.list()] == ["main"]
    assert listed(services, "default") == ["default.inner"]
    complete(world)


def test_catalogs_are_listed_by_name_and_one_differs_from_another_by_more_than_case() -> None:
    services = fresh()
    services.catalogs.create("Beta")
    services.catalogs.create("alpha")
    assert [catalog.name for catalog in services.catalogs.list()] == ["alpha", "Beta", "main"]
    with pytest.raises(AlreadyExists):
        services.catalogs.create("BETA")
    assert services.listings.namespaces("beta").items == ()
    complete(fakes(services))


def test_a_realm_without_catalogs_lists_none() -> None:
    assert build(fake_world(), lake_root=LAKE).catalogs.list() == []


@pytest.mark.parametrize("name", ["", "a+b", "a\x00b", "x" * 256])
def test_names_that_are_none_are_refused(name: str) -> None:
    services = fresh()
    for call in (
        lambda: services.catalogs.create(name),
        lambda: services.namespaces.create("main", (name,)),
        lambda: services.staging.create("main", ("default",), name),
        lambda: services.renamer.rename("main", ("default",), "t", name),
        lambda: services.registrar.register("main", ("default",), name, "11111111-1111-4111-8111-111111111111"),
    ):
        with pytest.raises(InvalidRequest):
            call()


# -- namespaces ---------------------------------------------------------------------------------------------------


def test_a_namespace_is_created_with_what_is_missing_above_it_in_one_change() -> None:
    services = fresh()
    created = services.namespaces.create("main", ("A", "b", "C"), comment="deep", properties={"owner": "me"})
    assert created.name == ("A", "b", "C")
    assert (created.entity.comment, created.entity.properties) == ("deep", {"owner": "me"})
    assert listed(services) == ["A", "default"]
    assert listed(services, "a", "B") == ["A.b.C"]
    assert services.namespaces.get("main", ("a",)).entity.comment is None
    assert services.reader.current("main").commit.seq == 2
    again = services.namespaces.create("main", ("a", "B", "d"))
    assert again.name == ("A", "b", "d"), "levels that exist keep their spelling"
    complete(fakes(services))


def test_what_exists_in_another_case_is_not_created_again() -> None:
    services = fresh()
    for path in (("DEFAULT",), ("default",)):
        with pytest.raises(AlreadyExists):
            services.namespaces.create("main", path)


def test_depth_and_size_have_limits() -> None:
    services = fresh()
    services.namespaces.create("main", tuple("abcdefghij"[:MAX_LEVELS]))
    with pytest.raises(InvalidRequest):
        services.namespaces.create("main", tuple("abcdefghijk"[: MAX_LEVELS + 1]))
    with pytest.raises(TooLarge):
        services.namespaces.create("main", ("big",), properties={"k": "x" * 40_000})
    with pytest.raises(TooLarge):
        services.namespaces.update("main", ("default",), comment="x" * 40_000)
    complete(fakes(services))


def test_an_update_sets_unsets_and_keeps_and_the_identity_stays() -> None:
    services = fresh()
    created = services.namespaces.create("main", ("n",), comment="c", properties={"a": "1", "b": "2"})
    changed = services.namespaces.update("main", ("N",), set={"b": "3", "c": "4"}, unset=["a", "nothing"])
    assert changed.entity.properties == {"b": "3", "c": "4"}
    assert (changed.entity.comment, changed.entity.id, changed.name) == ("c", created.entity.id, ("n",))
    assert services.namespaces.update("main", ("n",), comment=None).entity.comment is None
    assert services.namespaces.update("main", ("n",), comment="d").entity.comment == "d"
    with pytest.raises(InvalidRequest):
        services.namespaces.update("main", ("n",), set={"a": "1"}, unset=["a"])
    with pytest.raises(NotFound):
        services.namespaces.update("main", ("x",))


# -- drop ---------------------------------------------------------------------------------------------------------


def test_only_an_empty_namespace_is_dropped_without_cascade() -> None:
    services = fresh()
    services.namespaces.create("main", ("a", "b"))
    create(services, "t", "a.b")
    for path in (("a",), ("a", "b")):
        with pytest.raises(StateConflict) as refused:
            services.namespace_dropper.drop("main", path)
        assert refused.value.type == "NamespaceNotEmpty"
    services.dropper.drop("main", ("a", "b"), "t")
    services.namespace_dropper.drop("main", ("A", "B"))
    assert listed(services) == ["a", "default"]
    with pytest.raises(NotFound):
        services.namespace_dropper.drop("main", ("a", "b"))
    complete(fakes(services))


def test_a_cascade_drops_everything_below_in_one_change_and_nothing_beside() -> None:
    services = fresh()
    services.namespaces.create("main", ("a", "b"))
    services.namespaces.create("main", ("ab",))
    inside = [create(services, "t", "a"), create(services, "t", "a.b"), create(services, "u", "a.b")]
    beside = create(services, "t", "ab")
    seq = services.reader.current("main").commit.seq
    services.namespace_dropper.drop("main", ("a",), cascade=True)
    assert services.reader.current("main").commit.seq == seq + 1
    assert [head_of(services.world, table_id).state for table_id in (*inside, beside)] == ["dropped"] * 3 + ["active"]
    assert listed(services) == ["ab", "default"]
    complete(fakes(services))


def test_a_large_namespace_is_emptied_in_steps_that_fit_a_transaction() -> None:
    services = fresh()
    services.namespaces.create("main", ("a",))
    for n in range(TABLES_PER_CHANGE + 20):
        create(services, f"t{n:03d}", "a")
    seq = services.reader.current("main").commit.seq
    services.namespace_dropper.drop("main", ("a",), cascade=True)
    assert services.reader.current("main").commit.seq == seq + 2
    assert listed(services) == ["default"]
    complete(fakes(services))


def test_a_table_that_cannot_be_dropped_keeps_its_namespace_and_is_named() -> None:
    services = fresh()
    services.namespaces.create("main", ("a",))
    create(services, "t", "a")
    leaving = create(services, "u", "a")
    fakes(services).refs.write(Change(services.world.space.table(leaving), (), (Set(("state",), "leaving"),)))
    with pytest.raises(StateConflict) as refused:
        services.namespace_dropper.drop("main", ("a",), cascade=True)
    assert refused.value.type == "TableNotActive"
    assert "'main.a.u'" in refused.value.message
    assert names(services, "a") == ["t", "u"], "all or nothing (I9)"
    complete(fakes(services))
