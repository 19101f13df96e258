"""Staging tables nobody registered and dropped tables past their grace: rows announce it, files go,
rows go (I10)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Killed, Table, kill_at, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import collect, days, everything, names, stage_table
from turnstile.catalog.core.rows import use_staging
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.writes.state import drop_head
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.store.core.writes import Insert, new_row
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected

STAGING = table_id(7)


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def files_of(world: FakeWorld, location: str) -> list[str]:
    return [stat.path for stat in world.storages.open(location).list_all()]


def dropped(world: FakeWorld, id: str = TABLE, *, managed: bool = True, owned: bool = True) -> Table:
    table = Table(world, id, managed=managed, owned=owned)
    table.mixed(3)
    Publisher(world).publish(id)
    assert isinstance(world.refs.write(drop_head(table.key, world.clock.now_ms())), Accepted)
    return table


# -- staging ----------------------------------------------------------------------------------------------------------


def test_a_staging_table_that_was_never_registered_goes_with_its_files_after_its_grace(world: FakeWorld) -> None:
    location = stage_table(world, STAGING)
    days(world, 0.9)
    assert collect(world).items == ()
    days(world, 0.2)
    report = collect(world)
    assert names(report) == [("staging", STAGING, 30)]
    assert files_of(world, location) == []
    assert world.space.staging(STAGING) not in world.refs.rows


def test_metadata_of_a_registration_that_failed_half_way_goes_with_the_staging_table(world: FakeWorld) -> None:
    stage_table(world, STAGING)
    snapshots = MetadataStore(world.objs, world.space)
    left, other = (snapshots.put("main", id, DeltaMetadata(0, {}, {}, {}), 1) for id in (STAGING, f"{STAGING}x"))
    days(world, 1.1)
    collect(world, "staging")
    assert (world.space.objs("main"), left) not in world.objs.rows
    assert (world.space.objs("main"), other) in world.objs.rows


def registration(world: FakeWorld) -> AllAccepted | SomeRejected:
    """The parts of a registration that matter here."""
    key = world.space.table(STAGING)
    head = Insert({"key": key, "kind": "table", "table_id": STAGING}, (new_row("I2"),))
    return world.refs.transact([use_staging(world.space.staging(STAGING)), head], world.ids.uuid())


@pytest.mark.parametrize("point", ["collect.marked", "collect.deleted", "collect.emptied"])
def test_i10_a_registration_that_races_a_collection_loses_cleanly(point: str, world: FakeWorld) -> None:
    stage_table(world, STAGING)
    days(world, 2)
    answers: list[object] = []
    collect(world, "staging", faults=lambda at: answers.append(registration(world)) if at == point else None)
    assert answers
    assert all(isinstance(answer, SomeRejected) for answer in answers)
    assert world.space.table(STAGING) not in world.refs.rows


def test_i10_a_registration_that_comes_first_wins_and_keeps_every_file(world: FakeWorld) -> None:
    location = stage_table(world, STAGING)
    days(world, 2)
    original = world.refs.write

    def register_first(write):  # type: ignore[no-untyped-def]
        world.refs.write = original  # type: ignore[method-assign]
        assert isinstance(registration(world), AllAccepted)
        return original(write)

    world.refs.write = register_first  # type: ignore[method-assign]
    report = collect(world, "staging")
    assert report.deleted == 0
    assert [problem.id for problem in report.problems] == [STAGING]
    assert len(files_of(world, location)) == 3


@pytest.mark.parametrize("row", ["table", "location"])
def test_i10_a_location_with_an_owner_is_not_emptied(row: str, world: FakeWorld) -> None:
    location = stage_table(world, STAGING)
    key = world.space.table(STAGING) if row == "table" else world.space.location(location)
    world.refs.rows[key] = {"key": key, "kind": row, "table_id": table_id(9)}
    days(world, 2)
    report = collect(world, "staging")
    assert report.deleted == 0
    assert report.problems
    assert len(files_of(world, location)) == 3


@pytest.mark.parametrize("visit", [1, 2, 3])
@pytest.mark.parametrize("point", ["collect.marked", "collect.deleted", "collect.emptied"])
def test_a_collector_killed_at_any_point_of_a_staging_table_is_finished_by_the_next(
    point: str, visit: int, world: FakeWorld
) -> None:
    location = stage_table(world, STAGING)
    days(world, 2)
    try:
        collect(world, "staging", faults=kill_at(point, visit))
        assert visit > 1, f"no collector comes by {point}"
    except Killed:
        row = world.refs.rows[world.space.staging(STAGING)]
        assert row["state"] == "collecting"
        assert isinstance(registration(world), SomeRejected)
    collect(world, "staging")
    assert files_of(world, location) == []
    assert world.space.staging(STAGING) not in world.refs.rows


def test_a_file_that_is_written_while_its_staging_table_goes_does_not_stay(world: FakeWorld) -> None:
    location = stage_table(world, STAGING)
    days(world, 2)
    wrote: list[str] = []

    def write_late(point: str) -> None:
        if point == "collect.deleted" and not wrote:
            wrote.append(point)
            world.storages.open(location).put_if_absent("_delta_log/00000000000000000000.json", b"late")

    collect(world, "staging", faults=write_late)
    assert wrote
    assert files_of(world, location) == []


# -- dropped ----------------------------------------------------------------------------------------------------------


def test_a_dropped_table_is_purged_after_its_grace_and_leaves_a_tombstone(world: FakeWorld) -> None:
    table = dropped(world)
    other = Table(world, table_id(2))
    other.mixed(2)
    days(world, 6.9)
    assert collect(world, "dropped").items == ()
    days(world, 0.2)
    size = sum(stat.size for stat in table.storage.list_all())
    report = collect(world, "dropped")
    assert names(report) == [("dropped", TABLE, size)]
    assert report.deleted == 1
    assert files_of(world, table.location) == []
    assert world.space.location(table.location) not in world.refs.rows
    assert (table.row["state"], table.row["reason"]) == ("dropped", "purged")
    Publisher(world).publish(other.id)
    other.check_all_published()
    again = collect(world, "dropped")
    assert (again.items, again.problems) == ((), ())


def test_i10_a_location_that_another_table_owns_by_now_is_not_purged(world: FakeWorld) -> None:
    table = dropped(world)
    table.own(table_id(2))
    days(world, 30)
    files = files_of(world, table.location)
    report = collect(world, "dropped")
    assert report.items == ()
    assert [problem.id for problem in report.problems] == [TABLE]
    assert files_of(world, table.location) == files


def test_i10_a_location_that_changes_hands_in_the_middle_of_a_purge_stops_it(world: FakeWorld) -> None:
    table = dropped(world)
    days(world, 30)
    report = collect(world, "dropped", faults=lambda at: table.own(table_id(2)) if at == "collect.marked" else None)
    assert report.deleted == 0
    assert report.problems
    assert len(files_of(world, table.location)) > 3
    assert world.refs.rows[world.space.location(table.location)]["table_id"] == table_id(2)


def test_i10_imported_tables_are_never_purged_unless_asked_by_name(world: FakeWorld) -> None:
    table = dropped(world, managed=False)
    days(world, 400)
    assert collect(world, "dropped").items == ()
    assert collect(world, "dropped", imported=[table_id(2)]).items == ()
    assert files_of(world, table.location)
    assert collect(world, "dropped", imported=[TABLE]).deleted == 1
    assert files_of(world, table.location) == []


def test_i10_a_table_in_use_is_never_purged(world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(3)
    days(world, 400)
    for state in ("active", "stuck", "leaving", "recovering"):
        table.row["state"] = state
        assert collect(world, "dropped").items == ()


def test_i10_a_table_that_was_revived_between_look_and_purge_keeps_its_files(world: FakeWorld) -> None:
    table = dropped(world)
    days(world, 30)
    original = world.refs.transact

    def revive_first(writes, token):  # type: ignore[no-untyped-def]
        table.row["state"] = "active"
        return original(writes, token)

    world.refs.transact = revive_first  # type: ignore[method-assign]
    report = collect(world, "dropped")
    assert report.deleted == 0
    assert files_of(world, table.location)
    assert table.row.get("reason") != "purged"


@pytest.mark.parametrize("visit", [1, 2, 5])
@pytest.mark.parametrize("point", ["collect.marked", "collect.deleted", "collect.emptied", "collect.released"])
def test_a_collector_killed_at_any_point_of_a_purge_is_finished_by_the_next(
    point: str, visit: int, world: FakeWorld
) -> None:
    table = dropped(world)
    days(world, 30)
    try:
        collect(world, "dropped", faults=kill_at(point, visit))
        assert visit > 1, f"no collector comes by {point}"
    except Killed:
        owner = world.refs.rows.get(world.space.location(table.location))
        assert (owner is None) == (table.row["reason"] == "purged"), "owner and tombstone change together"
    collect(world, "dropped")
    assert files_of(world, table.location) == []
    assert table.row["reason"] == "purged"
    assert world.space.location(table.location) not in world.refs.rows


def test_a_purge_that_runs_out_of_time_goes_on_next_time(world: FakeWorld) -> None:
    table = dropped(world)
    for number in range(450):
        table.put(f"part-{number:05d}.parquet", b"x")
    days(world, 30)
    world.clock.step = 10
    report = collect(world, "dropped", until_ms=world.clock.now + 40)
    assert not report.complete
    assert report.deleted == 0
    assert len(files_of(world, table.location)) > 0
    collect(world, "dropped")
    assert files_of(world, table.location) == []


def test_a_collection_of_a_staging_table_that_runs_out_of_time_goes_on_next_time(world: FakeWorld) -> None:
    location = stage_table(world, STAGING, files=450)
    days(world, 2)
    world.clock.step = 10
    report = collect(world, "staging", until_ms=world.clock.now + 40)
    assert (report.deleted, report.complete) == (0, False)
    assert files_of(world, location)
    collect(world, "staging")
    assert files_of(world, location) == []


def test_a_run_finds_no_more_than_it_is_asked_for(world: FakeWorld) -> None:
    for number in range(5):
        stage_table(world, table_id(number))
    days(world, 2)
    report = collect(world, "staging", most=3)
    assert (report.deleted, report.complete) == (3, False)
    report = collect(world, "staging", most=3)
    assert (report.deleted, report.complete) == (2, True)


def test_a_dry_run_over_every_kind_changes_nothing_and_equals_the_run(world: FakeWorld) -> None:
    dropped(world)
    stage_table(world, STAGING)
    active = Table(world, table_id(3))
    active.stage(lose=True)
    active.mixed(9)
    Publisher(world).publish(active.id)
    days(world, 30)
    before = everything(world)
    dry = collect(world, dry_run=True)
    assert everything(world) == before
    assert {item.kind for item in dry.items} == {"staged", "staging", "dropped", "objs"}
    real = collect(world)
    assert names(real) == names(dry)
    assert (real.deleted, real.freed) == (len(dry.items), dry.bytes)
    assert real.problems == ()
    assert collect(world).items == ()
    active.check_all_published()


def test_a_registered_staging_row_is_rejected_by_the_announcement(world: FakeWorld) -> None:
    """The clause itself: a row that is not there is not made by the announcement."""
    from turnstile.catalog.core.rows import mark_collecting

    stage_table(world, STAGING)
    row = dict(world.refs.rows[world.space.staging(STAGING)])
    registration(world)
    assert isinstance(world.refs.write(mark_collecting(row)), Rejected)
