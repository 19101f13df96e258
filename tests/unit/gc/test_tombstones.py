"""What purged, exported and cloned tables leave goes a month after the drop, and not before every
late question has ended (I3, I10, I13)."""

from __future__ import annotations

import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of
from tests.support.clones import clone, commit
from tests.support.delta_table import TABLE, Killed, Table, kill_at, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import DAY, GRACE, collect, days, everything, names
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.coordination.tasks import Tasks
from turnstile.delta.core.head import EXPORTED
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.writes.state import drop_head, forget_head, leave_head, left_head
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender
from turnstile.gc.core import Grace
from turnstile.maintenance.core.candidates import runs_task
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import Limits
from turnstile.store.core.rows import FILE_INDEX, INLINE
from turnstile.store.ports import Accepted, Obj, Rejected

TERM = 31
"""Days."""


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def purged(world: FakeWorld, id: str = TABLE) -> Table:
    """A table that was dropped eight days ago, and purged; with all that bears its uuid."""
    table = Table(world, id)
    table.mixed(3)
    Publisher(world).publish(id)
    put_objs(world, id)
    for name in (f"maintain.{id}", runs_task(id)):
        Tasks(world).run(name, 1_000, lambda _: b"done")
    assert isinstance(world.refs.write(drop_head(table.key, world.clock.now_ms())), Accepted)
    days(world, 8)
    assert collect(world, "dropped").deleted == 1
    return table


def put_objs(world: FakeWorld, id: str) -> None:
    MetadataStore(world.objs, world.space).put("main", id, DeltaMetadata(0, {}, {}, {}), 1)
    for type in (INLINE, FILE_INDEX):
        world.objs.put(Obj(world.space.objs("main"), type.id(f"{id}/1"), type.name, b"left", world.clock.now * 1000))


def left_of(world: FakeWorld, id: str) -> list[str]:
    """Everything that bears the uuid of a table, but the entries of the identity index, which end
    by themselves."""
    keys = [*world.refs.rows, *(key for _, key in world.objs.rows), *world.storages.files]
    return sorted(key for key in keys if id in key and not key.startswith("identity/"))


def test_i3_i10_nothing_is_left_of_a_purged_table_a_month_after_its_drop(world: FakeWorld) -> None:
    table = purged(world)
    other = Table(world, table_id(2))
    other.mixed(2)
    put_objs(world, other.id)
    kept = left_of(world, other.id)
    days(world, TERM - 8 - 0.1)
    assert collect(world, "dropped").items == () and table.row["reason"] == "purged"
    days(world, 0.2)
    before = everything(world)
    size = sum(len(obj.payload) for (_, id), obj in world.objs.rows.items() if TABLE in id and "identity" not in id)
    assert names(collect(world, "dropped", dry_run=True)) == [("dropped", TABLE, size)] and size > 0
    assert everything(world) == before
    assert names(collect(world, "dropped")) == [("dropped", TABLE, size)]
    assert left_of(world, TABLE) == []
    assert left_of(world, other.id) == kept
    with pytest.raises(NotFound):
        Outcomes(world).of(TABLE, txn="any")
    assert collect(world, "dropped").items == ()


def test_i3_the_row_of_a_table_that_is_gone_outlives_the_identities_of_its_commits() -> None:
    assert Grace().tombstone_ms >= (Limits().identity_days + 1) * DAY
    assert Grace(dropped_ms=90 * DAY).tombstone_ms == 90 * DAY
    assert Grace(history_ms=90 * DAY).tombstone_ms > 90 * DAY


def test_i13_the_row_stays_until_the_log_of_events_has_the_drop_and_its_marks_go_with_it(world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(2)
    Publisher(world).publish(TABLE)
    events = Appender(world)
    events.append([table.key])
    assert isinstance(world.refs.write(drop_head(table.key, world.clock.now_ms())), Accepted)
    days(world, 8)
    collect(world, "dropped")
    days(world, TERM)
    report = collect(world, "dropped")
    assert (report.deleted, [problem.id for problem in report.problems]) == (0, [TABLE])
    assert "event" in report.problems[0].message
    events.append([table.key])
    assert collect(world, "dropped").deleted == 1
    assert left_of(world, TABLE) == []
    assert events.append([table.key]) is not None and left_of(world, TABLE) == []


def test_i13_a_table_that_the_log_of_events_does_not_know_stays_where_the_catalog_has_a_log(world: FakeWorld) -> None:
    other = Table(world, table_id(2))
    other.mixed(1)
    Appender(world).append([other.key])
    purged(world)
    days(world, TERM)
    assert collect(world, "dropped").deleted == 0
    Appender(world).append([world.space.table(TABLE)])
    assert collect(world, "dropped").deleted == 1


def test_i13_an_event_that_is_made_meanwhile_keeps_the_row_for_another_run(world: FakeWorld) -> None:
    table = purged(world)
    Appender(world).append([table.key])
    days(world, TERM)
    key = world.space.event_mark(table.key)

    def make_event(point: str) -> None:
        if point == "collect.emptied":
            original = world.refs.transact

            def later(writes, token):  # type: ignore[no-untyped-def]
                world.refs.transact = original  # type: ignore[method-assign]
                world.refs.rows[key] = {**world.refs.rows[key], "count": world.refs.rows[key]["count"] + 1}
                return original(writes, token)

            world.refs.transact = later  # type: ignore[method-assign]

    report = collect(world, "dropped", faults=make_event)
    assert (report.deleted, len(report.problems)) == (0, 1) and table.key in world.refs.rows
    assert collect(world, "dropped").deleted == 1


@pytest.mark.parametrize("visit", [1, 2, 3])
@pytest.mark.parametrize("point", ["collect.deleted", "collect.emptied", "collect.forgotten"])
def test_a_collector_killed_at_any_point_of_a_tombstone_is_finished_by_the_next(
    point: str, visit: int, world: FakeWorld
) -> None:
    purged(world)
    days(world, TERM)
    try:
        collect(world, "dropped", faults=kill_at(point, visit))
        assert visit > 1, f"no collector comes by {point}"
    except Killed:
        assert (world.space.table(TABLE) in world.refs.rows) == (point != "collect.forgotten")
    collect(world, "dropped")
    assert left_of(world, TABLE) == []


def test_i10_before_the_grace_of_its_row_has_passed_not_even_a_lack_of_events_is_reported(world: FakeWorld) -> None:
    other = Table(world, table_id(2))
    other.mixed(1)
    Appender(world).append([other.key])
    table = purged(world)
    world.clock.step = 0
    world.clock.now = table.head.changed_at + GRACE.tombstone_ms - 1
    assert collect(world, "dropped").problems == ()
    world.clock.now += 1
    assert [problem.id for problem in collect(world, "dropped").problems] == [TABLE]


def test_i10_a_table_that_came_back_and_was_dropped_again_since_the_look_keeps_what_bears_its_uuid(
    world: FakeWorld,
) -> None:
    table = purged(world)
    days(world, TERM)
    before = left_of(world, TABLE)
    original = world.refs.read

    def dropped_again(key: str):  # type: ignore[no-untyped-def]
        if key == table.key:
            table.row["changed_at"] = table.head.changed_at + 1
        return original(key)

    world.refs.read = dropped_again  # type: ignore[method-assign]
    report = collect(world, "dropped")
    assert (report.deleted, len(report.problems)) == (0, 1)
    assert left_of(world, TABLE) == before


def test_i10_a_row_that_another_collector_removed_since_the_look_is_no_failure(world: FakeWorld) -> None:
    table = purged(world)
    days(world, TERM)
    original = world.refs.read

    def removed(key: str):  # type: ignore[no-untyped-def]
        if key == table.key:
            world.refs.rows.pop(key, None)
        return original(key)

    world.refs.read = removed  # type: ignore[method-assign]
    (problem,) = collect(world, "dropped").problems
    assert problem.message == "it is not dropped any more, or was removed"


def test_i10_the_row_of_an_exported_table_goes_although_a_named_snapshot_shows_it() -> None:
    """A reset cannot bring it back: its files are another's."""
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "t", "sales")
    world = fakes(services)
    commit(world, id)
    Publisher(world).publish(id)
    services.named_snapshots.create("main", "spring")
    for write in (leave_head, left_head):
        assert isinstance(world.refs.write(write(head_of(world, id), EXPORTED, world.clock.now_ms())), Accepted)
    days(world, 60)
    assert [item.id for item in collect(world, "dropped").items] == [id]
    assert world.space.table(id) not in world.refs.rows


def test_i10_the_row_of_a_dropped_clone_goes_when_its_catalog_is_gone() -> None:
    services, world, copy = dropped_clone()
    services.dropper.drop("main", ("sales",), "copy")
    services.catalogs.drop("main", force=True)
    days(world, TERM)
    report = collect(world, "dropped")
    assert (copy in [item.id for item in report.items], report.problems) == (True, ())
    assert world.space.table(copy) not in world.refs.rows


def test_i10_the_row_of_an_exported_table_goes_and_its_files_stay(world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(2)
    Publisher(world).publish(TABLE)
    for write in (leave_head, left_head):
        assert isinstance(world.refs.write(write(table.head, EXPORTED, world.clock.now_ms())), Accepted)
    files = dict(world.storages.files)
    days(world, TERM - 0.1)
    assert collect(world, "dropped").items == ()
    days(world, 0.2)
    assert collect(world, "dropped").deleted == 1
    assert table.key not in world.refs.rows and world.storages.files == files


def test_i10_an_imported_table_that_was_dropped_keeps_its_row_for_an_import_that_brings_it_back(
    world: FakeWorld,
) -> None:
    table = Table(world, managed=False)
    table.mixed(2)
    Publisher(world).publish(TABLE)
    assert isinstance(world.refs.write(drop_head(table.key, world.clock.now_ms())), Accepted)
    days(world, 400)
    assert collect(world, "dropped").items == () and table.row["state"] == "dropped"


def dropped_clone() -> tuple[CatalogServices, FakeWorld, str]:
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "t", "sales")
    world = fakes(services)
    commit(world, id)
    (copy,) = clone(services, "sales.t", "sales.copy").tables
    return services, world, copy.table_id


def test_i10_the_row_of_a_dropped_clone_goes_and_what_it_showed_stays() -> None:
    services, world, copy = dropped_clone()
    services.dropper.drop("main", ("sales",), "copy")
    files = dict(world.storages.files)
    days(world, TERM - 0.1)
    assert collect(world, "dropped").items == ()
    days(world, 0.2)
    assert [item.id for item in collect(world, "dropped").items] == [copy]
    assert left_of(world, copy) == [] and world.storages.files == files
    complete(world, past=False)


def test_i9_the_row_of_a_dropped_clone_that_a_named_snapshot_shows_stays_for_a_reset() -> None:
    services, world, copy = dropped_clone()
    services.named_snapshots.create("main", "spring")
    services.dropper.drop("main", ("sales",), "copy")
    days(world, 60)
    assert collect(world, "dropped").items == ()
    services.resetter.reset("main", AsOf(snapshot="spring"))
    assert head_of(world, copy).state == "pinned"
    services.dropper.drop("main", ("sales",), "copy")
    services.named_snapshots.drop("main", "spring")
    days(world, 60)
    assert collect(world, "dropped").deleted == 1
    assert left_of(world, copy) == []


def test_i10_a_clone_that_comes_back_between_look_and_removal_keeps_its_row_and_objs() -> None:
    services, world, copy = dropped_clone()
    services.named_snapshots.create("main", "spring")
    services.dropper.drop("main", ("sales",), "copy")
    days(world, 60)
    snapshots = left_of(world, copy)
    row = world.space.table(copy)
    before = dict(world.refs.rows[row])
    world.refs.rows[row] = {**before, "state": "pinned"}
    services.named_snapshots.drop("main", "spring")
    world.refs.rows[row] = before
    original = world.refs.read

    def back_first(key: str):  # type: ignore[no-untyped-def]
        if key == row:
            world.refs.rows[row] = {**before, "state": "pinned"}
        return original(key)

    world.refs.read = back_first  # type: ignore[method-assign]
    report = collect(world, "dropped")
    assert (report.deleted, len(report.problems)) == (0, 1)
    assert left_of(world, copy) == snapshots


def test_i10_a_row_whose_purge_has_begun_since_it_was_read_stays(world: FakeWorld) -> None:
    table = purged(world)
    head = table.head
    table.row["reason"] = "purging"
    assert isinstance(world.refs.write(forget_head(head)), Rejected)
    table.row["reason"] = head.reason
    assert isinstance(world.refs.write(forget_head(head)), Accepted)
