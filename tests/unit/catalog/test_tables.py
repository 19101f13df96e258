"""Tables: the three phases of creation, rename, drop. A refusal changes nothing."""

from __future__ import annotations

import pytest

from tests.support.catalog import (
    MAIN,
    complete,
    create,
    fakes,
    fresh,
    head_of,
    names,
    refused,
    register,
    set_state,
    staged,
    write_zero,
)
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import (
    AlreadyExists,
    NotFound,
    PermissionDenied,
    StateConflict,
)

# -- create -------------------------------------------------------------------------------------------------------


def test_a_staged_table_becomes_a_table_at_version_0() -> None:
    services = fresh()
    staged = services.staging.create(*MAIN, "Orders")
    assert staged.location == f"file:///lake/main/default/{staged.table_id}"
    assert "catalogManaged" in staged.required_features
    assert staged.required_properties["io.unitycatalog.tableId"] == staged.table_id
    write_zero(services, staged.location, **{"io.unitycatalog.tableId": staged.table_id})
    assert register(services, staged.table_id, "Orders") is False
    head = head_of(services.world, staged.table_id)
    assert (head.latest, head.floor, head.tail_from, head.state, head.managed) == (0, 0, 1, "active", True)
    assert head.name == "main.default.Orders"
    assert head.last_ict == head.tail_ict > 0
    assert services.metadata.get("main", head.metadata).protocol["minReaderVersion"] == 3
    assert f"test/staging/{staged.table_id}" not in fakes(services).refs.rows, "single use"
    complete(fakes(services))


def test_names_keep_the_spelling_they_were_created_with() -> None:
    services = fresh()
    services.namespaces.create("main", ("Sales", "EU"))
    table_id = create(services, "Orders", "sales.eu")
    assert head_of(services.world, table_id).name == "main.Sales.EU.Orders"
    assert head_of(services.world, table_id).location.startswith("file:///lake/main/Sales.EU/")
    assert services.reader.resolve("MAIN", ("SALES", "eu"), "ORDERS").table_id == table_id
    refused(AlreadyExists, services, lambda: services.staging.create("main", ("sales", "EU"), "oRDERS"))


def test_a_repeated_registration_answers_as_the_first_time() -> None:
    """I3."""
    services = fresh()
    table_id = staged(services)
    assert register(services, table_id) is False
    head = head_of(services.world, table_id)
    assert register(services, table_id) is True
    assert register(fresh(services.world), table_id, "T") is True
    assert head_of(services.world, table_id) == head


def test_a_staging_table_is_used_once_and_says_as_what() -> None:
    services = fresh()
    table_id = staged(services)
    register(services, table_id)
    error = refused(StateConflict, services, lambda: register(services, table_id, "u"))
    assert error.type == "StagingTableUsed"
    assert error.details["name"] == "main.default.t"
    services.dropper.drop(*MAIN, "t")
    error = refused(StateConflict, services, lambda: register(services, table_id))
    assert error.details["state"] == "dropped"


def test_names_are_not_reserved_and_the_loser_may_take_another() -> None:
    services = fresh()
    first = staged(services)
    second = staged(services)
    register(services, first)
    assert refused(AlreadyExists, services, lambda: register(services, second)).field == "name"
    register(services, second, "u")
    assert names(services) == ["t", "u"]
    complete(fakes(services))


def test_a_table_cannot_take_a_namespaces_name_nor_a_namespace_a_tables() -> None:
    """I9: a name leads to one thing."""
    services = fresh()
    services.namespaces.create("main", ("default", "x"))
    table_id = staged(services, "y")
    assert refused(AlreadyExists, services, lambda: register(services, table_id, "X")).details["kind"] == "namespace"
    register(services, table_id, "y")
    error = refused(AlreadyExists, services, lambda: services.namespaces.create("main", ("default", "Y")))
    assert error.details["kind"] == "table"
    refused(NotFound, services, lambda: services.namespaces.create("main", ("default", "y", "below")))


@pytest.mark.parametrize("state", ["collecting", "gone"])
def test_a_staging_table_that_gc_is_collecting_cannot_be_registered(state: str) -> None:
    """I10."""
    services = fresh()
    table_id = staged(services)
    key = services.world.space.staging(table_id)
    if state == "gone":
        del fakes(services).refs.rows[key]
    else:
        fakes(services).refs.rows[key]["state"] = state
    assert refused(NotFound, services, lambda: register(services, table_id)).type == "NoSuchStagingTable"


def test_gc_that_comes_between_reading_and_writing_wins() -> None:
    """I10: the transaction needs the staging row to be open still."""
    services = fresh()
    table_id = staged(services)
    world = fakes(services)
    original = world.objs.put_many

    def collect_first(objs: object) -> None:
        world.refs.rows.pop(world.space.staging(table_id), None)
        original(objs)  # type: ignore[arg-type]

    world.objs.put_many = collect_first  # type: ignore[method-assign]
    with pytest.raises(NotFound) as error:
        register(services, table_id)
    assert error.value.type == "NoSuchStagingTable"
    assert world.refs.read(world.space.table(table_id)) is None
    complete(world)


def test_only_its_creator_registers_a_staging_table() -> None:
    """I12."""
    services = fresh()
    made = services.staging.create(*MAIN, "t", creator="ann")
    write_zero(services, made.location)
    refused(PermissionDenied, services, lambda: register(services, made.table_id, principal=Principal("bob")))
    register(services, made.table_id, principal=Principal("ann"))


def test_a_staging_table_of_another_catalog_does_not_exist_here() -> None:
    services = fresh()
    services.catalogs.create("other")
    services.namespaces.create("other", ("default",))
    table_id = staged(services, "t", catalog="other")
    assert refused(NotFound, services, lambda: register(services, table_id)).type == "NoSuchStagingTable"


# -- rename -------------------------------------------------------------------------------------------------------


def test_a_rename_keeps_uuid_and_location_and_the_old_name_leads_nowhere_for_any_client() -> None:
    """I9: also not through a mapping that some sandbox has cached."""
    services = fresh()
    elsewhere = None
    elsewhere = fresh(services.world)
    table_id = create(services, "t")
    services.namespaces.create("main", ("Sales",))
    assert elsewhere.reader.resolve(*MAIN, "t").table_id == table_id
    before = head_of(services.world, table_id)
    assert services.renamer.rename(*MAIN, "T", "Orders", ("sales",)) == ("Sales", "Orders")
    after = head_of(services.world, table_id)
    assert after.name == "main.Sales.Orders"
    assert (after.table_id, after.location, after.latest, after.metadata) == (
        before.table_id,
        before.location,
        0,
        before.metadata,
    )
    assert elsewhere.reader.guess(*MAIN, "t") is not None, "the stale guess is there"
    with pytest.raises(NotFound):
        elsewhere.reader.resolve(*MAIN, "t")
    assert elsewhere.reader.resolve("main", ("sales",), "orders").table_id == table_id
    complete(fakes(services))


def test_a_table_may_change_the_case_of_its_name_and_renaming_to_itself_does_nothing() -> None:
    services = fresh()
    table_id = create(services, "t")
    services.renamer.rename(*MAIN, "t", "T")
    assert names(services) == ["T"]
    assert head_of(services.world, table_id).name == "main.default.T"
    world = fakes(services)
    before = dict(world.refs.rows)
    services.renamer.rename(*MAIN, "t", "T")
    assert world.refs.rows == before
    complete(world)


def test_renames_that_cannot_be_say_why() -> None:
    services = fresh()
    table_id = create(services, "t")
    create(services, "u")
    rename = services.renamer.rename
    assert refused(AlreadyExists, services, lambda: rename(*MAIN, "t", "U")).field == "name"
    assert refused(NotFound, services, lambda: rename(*MAIN, "x", "y")).type == "NoSuchTable"
    assert refused(NotFound, services, lambda: rename(*MAIN, "t", "y", ("nowhere",))).type == "NoSuchNamespace"
    for state in ("leaving", "stuck", "recovering"):
        set_state(services, table_id, state)
        error = refused(StateConflict, services, lambda: rename(*MAIN, "t", "y"))
        assert (error.type, error.details["state"]) == ("TableNotActive", state)


# -- drop ---------------------------------------------------------------------------------------------------------


def test_a_dropped_name_is_free_at_once_for_another_uuid_and_nothing_is_deleted() -> None:
    services = fresh()
    first = create(services, "t")
    files = dict(fakes(services).storages.files)
    services.dropper.drop(*MAIN, "T")
    assert head_of(services.world, first).state == "dropped"
    assert fakes(services).storages.files == files
    second = create(services, "t")
    assert second != first
    assert services.reader.resolve(*MAIN, "t").table_id == second
    assert head_of(services.world, first).state == "dropped"
    complete(fakes(services))


def test_a_dropped_table_starts_its_grace_period_now_not_at_its_last_commit() -> None:
    """I10: age counts from when it became unreachable."""
    services = fresh()
    table_id = create(services, "t")
    fakes(services).clock.now += 1_000_000
    now = services.world.clock.now_ms()
    services.dropper.drop(*MAIN, "t")
    assert head_of(services.world, table_id).changed_at > now


def test_dropping_twice_says_so_and_a_stuck_table_can_be_dropped() -> None:
    services = fresh()
    table_id = create(services, "t")
    set_state(services, table_id, "leaving")
    error = refused(StateConflict, services, lambda: services.dropper.drop(*MAIN, "t"))
    assert error.type == "TableNotActive"
    set_state(services, table_id, "stuck")
    services.dropper.drop(*MAIN, "t")
    assert refused(NotFound, services, lambda: services.dropper.drop(*MAIN, "t")).type == "NoSuchTable"
    complete(fakes(services))
