"""A clone, killed before and after each of its writes, or left without an answer to it (I9); drops
and purges against it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of
from tests.support.clones import check_shown, clone, commit, drop_iceberg, held, iceberg_table
from tests.support.fakes.world import FakeWorld
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.gc import DAY, collect, days
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import AlreadyExists, NotFound, OutcomeUnknown, StateConflict, StorageFault
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, SomeRejected


def lake() -> tuple[FakeWorld, str, IcebergTable]:
    """``sales`` with a Delta table, one commit of which waits for publication, and an Iceberg
    table."""
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "d", "sales")
    table = iceberg_table(services, "sales.i")
    commit(fakes(services), id)
    return fakes(services), id, table


def writes() -> int:
    world, _, _ = lake()
    faulty = Faulty(world)
    clone(fresh(faulty.world), "sales", "dev")
    return len(faulty.writes)


def cloned(world: FakeWorld) -> bool:
    return fresh(world).reader.current("main").find(("dev",)) is not None


def check(world: FakeWorld, id: str, table: IcebergTable) -> None:
    """The clone is there as a whole, and holds what it needs; or nothing of it is, and nothing is
    held."""
    services = fresh(world)
    tree = services.reader.current("main")
    objs = [entry.obj for _, entry in tree.subtree(("dev",))]
    delta_at = f"file:///lake/main/sales/{id}"
    iceberg_at = table.location
    if not cloned(world):
        assert not objs and not held(world, delta_at) and not held(world, iceberg_at)
        return
    one, other = services.reader.store.entities("main", objs).values()
    assert held(world, delta_at) == {getattr(one, "table_id", "")}
    assert held(world, iceberg_at) == {getattr(other, "table_id", "")}
    check_shown(world, getattr(one, "table_id", ""), 1)
    assert isinstance(other, IcebergTable)
    assert other.metadata in world.storages.files and other.location != table.location


@pytest.mark.parametrize("how", CRASHES)
def test_i9_a_crash_at_any_write_of_a_clone_leaves_all_of_it_or_nothing(how: How) -> None:
    count = writes()
    assert count >= 7, "publication, metadata snapshot, staging row, metadata file, objs, transaction"
    for at in range(1, count + 1):
        world, id, table = lake()
        with pytest.raises(Crash):
            clone(fresh(Faulty(world, at, how).world), "sales", "dev")
        check(world, id, table)
        with suppress(AlreadyExists):
            clone(fresh(world), "sales", "dev")
        check(world, id, table)
        assert cloned(world)


@pytest.mark.parametrize("how", LOSSES)
def test_i9_an_answer_lost_at_any_write_of_a_clone_is_found_out_or_reported_as_unknown(how: How) -> None:
    for at in range(1, writes() + 1):
        world, id, table = lake()
        try:
            clone(fresh(Faulty(world, at, how).world), "sales", "dev")
        except (OutcomeUnknown, StorageFault, StateConflict):
            pass
        else:
            assert cloned(world)
        check(world, id, table)
        with suppress(AlreadyExists):
            clone(fresh(world), "sales", "dev")
        assert cloned(world)
        check(world, id, table)


def test_i10_what_a_crashed_clone_gave_out_is_collected_and_nothing_else() -> None:
    for at in range(1, writes()):
        world, id, table = lake()
        with pytest.raises(Crash):
            clone(fresh(Faulty(world, at, "after").world), "sales", "dev")
        files = {file for file in world.storages.files if "/main/dev/" in file}
        days(world, 30)
        assert not collect(world).problems
        assert not {file for file in world.storages.files if "/main/dev/" in file}, f"{at}: {files}"
        assert not [key for key in world.refs.rows if "/staging/" in key]
        check(world, id, table)
        clone(fresh(world), "sales", "dev")
        check(world, id, table)


def test_i10_a_purge_that_has_begun_is_not_overtaken_by_a_clone() -> None:
    """The purge comes between the clone's look at the location and its transaction."""
    world, id, table = lake()
    services = fresh(world, history_ms=30 * DAY)
    then = services.reader.current("main").commit.seq
    services.publisher.publish(id)
    services.dropper.drop("main", ("sales",), "d")
    drop_iceberg(services, "sales.i")
    days(world, 7.05)
    original = world.refs.transact

    def purge_first(writes: list[Write], token: str) -> AllAccepted | SomeRejected:
        world.refs.transact = original  # type: ignore[method-assign]
        report = collect(world, "dropped")
        assert report.deleted == 2
        return original(writes, token)

    world.refs.transact = purge_first  # type: ignore[method-assign,assignment]
    with pytest.raises(StateConflict) as error:
        clone(services, "sales", "dev", seq=then)
    assert error.value.type == "CannotClone"
    check(world, id, table)
    assert not [file for file in world.storages.files if id in file or table.location in file]


@pytest.mark.parametrize("point", ["collect.marked", "collect.deleted", "collect.emptied"])
def test_i10_a_purge_that_died_half_way_leaves_nothing_to_clone(point: str) -> None:
    world, id, table = lake()
    services = fresh(world, history_ms=30 * DAY)
    then = services.reader.current("main").commit.seq
    services.publisher.publish(id)
    services.dropper.drop("main", ("sales",), "d")
    drop_iceberg(services, "sales.i")
    days(world, 7.05)

    def die(reached: str) -> None:
        if reached == point:
            raise Crash(point)

    with pytest.raises(Crash):
        collect(world, "dropped", faults=die)
    with pytest.raises(StateConflict) as error:
        clone(services, "sales", "dev", seq=then)
    assert error.value.type == "CannotClone"
    check(world, id, table)
    collect(world, "dropped")
    assert not [file for file in world.storages.files if id in file or table.location in file]


def test_i10_the_location_says_that_a_purge_has_begun() -> None:
    """An Iceberg clone looks at no HEAD: that its source's files are going, only the owner's row
    can tell."""
    world, _, table = lake()
    services = fresh(world)
    services.named_snapshots.create("main", "then")
    drop_iceberg(services, "sales.i")
    days(world, 7.05)

    def die(reached: str) -> None:
        if reached == "collect.deleted":
            raise Crash(reached)

    with pytest.raises(Crash):
        collect(world, "dropped", faults=die)
    with pytest.raises(StateConflict, match=r"'main\.sales\.i' are gone or being removed"):
        clone(services, "sales.i", "sales.again", snapshot="then")
    assert not held(world, table.location)


def test_i10_of_a_drop_and_a_clone_at_once_both_count() -> None:
    """The source is dropped between the clone's look and its transaction: the clone is made of what
    the next tree has."""
    world, id, _ = lake()
    services = fresh(world)
    other = fresh(world)
    original = world.refs.transact

    def drop_first(writes: list[Write], token: str) -> AllAccepted | SomeRejected:
        world.refs.transact = original  # type: ignore[method-assign]
        other.dropper.drop("main", ("sales",), "d")
        return original(writes, token)

    world.refs.transact = drop_first  # type: ignore[method-assign,assignment]
    result = clone(services, "sales", "dev")
    assert [one.name for one in result.tables] == ["dev.i"]
    assert held(world, f"file:///lake/main/sales/{id}") == frozenset()
    services.namespaces.create("main", ("more",))
    create(services, "d", "sales")
    world.refs.transact = drop_first  # type: ignore[method-assign,assignment]
    with pytest.raises(NotFound):
        clone(services, "sales.d", "more.d")


def test_i10_a_reset_lets_go_of_clones_and_takes_them_back() -> None:
    services = fresh(history_ms=30 * DAY)
    services.namespaces.create("main", ("sales",))
    id = create(services, "d", "sales")
    world = fakes(services)
    before = services.reader.current("main").head
    (one,) = clone(services, "sales.d", "sales.one").tables
    with_one = services.reader.current("main").head
    reset(services, before)
    assert held(world, f"file:///lake/main/sales/{id}") == frozenset()
    assert head_of(world, one.table_id).state == "dropped"
    (two,) = clone(services, "sales.d", "sales.two").tables
    reset(services, with_one)
    assert held(world, f"file:///lake/main/sales/{id}") == {one.table_id}
    check_shown(world, one.table_id, 0)
    assert head_of(world, two.table_id).state == "dropped"
    complete(world)
    services.dropper.drop("main", ("sales",), "one")
    services.dropper.drop("main", ("sales",), "d")
    days(world, 7.05)
    collect(world, "dropped")
    with pytest.raises(StateConflict) as error:
        services.resetter.reset("main", AsOf(head=with_one))
    assert error.value.type in ("CannotReset", "TableNotActive")
    complete(world)


def reset(services: CatalogServices, head: str) -> None:
    services.resetter.reset("main", AsOf(head=head))
