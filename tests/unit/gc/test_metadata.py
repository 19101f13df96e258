"""Metadata snapshots that no HEAD refers to any more, and that nobody can propose again (I2,
I10)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.catalog import create, fakes, fresh, head_of
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, GRACE, days
from turnstile.delta.core.decide import Ratified
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.gc.collector import Collector, Report
from turnstile.store.core.names import published_path
from turnstile.store.ports import World


def collect(world: World, **more: bool) -> Report:
    return Collector(world, GRACE, workers=1).collect(["metadata"], **{"dry_run": False, **more})


def stored(world: FakeWorld) -> list[str]:
    return sorted(id for _, id in world.objs.rows if id.startswith("metadata/"))


def change(world: FakeWorld, id: str) -> None:
    """A commit that changes the table's metadata."""
    version = head_of(world, id).latest + 1
    content = delta.lines(
        {"commitInfo": {"txnId": f"v{version}", "inCommitTimestamp": world.clock.now_ms(), "operation": "SET"}},
        {"metaData": {**delta.metadata()["metaData"], "description": f"version {version}"}},
    )
    answer = Ratifier(world).commit(CommitRequest(id, version, content=content))
    assert isinstance(answer, Ratified), answer


def changed_table(changes: int) -> tuple[FakeWorld, str]:
    services = fresh()
    world = fakes(services)
    id = create(services)
    for _ in range(changes):
        change(world, id)
    Publisher(world).publish(id)
    return world, id


def test_snapshots_of_earlier_versions_go_and_the_present_one_stays() -> None:
    world, id = changed_table(4)
    assert len(stored(world)) == 5
    days(world, 1.9)
    assert collect(world).items == ()
    days(world, 0.2)
    report = collect(world)
    assert report.deleted == len(report.items) == 4
    assert all(item.age_ms >= 2 * DAY for item in report.items)
    assert stored(world) == [head_of(world, id).metadata]
    assert MetadataStore(world.objs, world.space).get("main", head_of(world, id).metadata).version == 4


def test_i10_age_counts_from_when_a_snapshot_was_replaced() -> None:
    world, id = changed_table(1)
    days(world, 100)
    collect(world)
    before = stored(world)
    change(world, id)
    Publisher(world).publish(id)
    days(world, 1.9)
    assert collect(world).items == ()
    assert before[0] in stored(world)
    days(world, 0.2)
    assert [item.id for item in collect(world).items] == before


def test_i10_nothing_goes_while_the_version_that_replaced_it_is_not_published() -> None:
    world, id = changed_table(1)
    change(world, id)
    days(world, 50)
    assert [item.id.rpartition("/")[2][:20] for item in collect(world).items] == []
    Publisher(world).publish(id)
    days(world, 3)
    assert len(collect(world).items) == 2


def test_i2_a_snapshot_that_may_be_proposed_again_stays_however_old() -> None:
    """A proposal that was refused left one for the next version; sent again, it finds it there and
    writes nothing."""
    world, id = changed_table(1)
    now = head_of(world, id)
    snapshots = MetadataStore(world.objs, world.space)
    present = snapshots.get("main", now.metadata)
    waiting = snapshots.put("main", id, msgspec.structs.replace(present, version=2), 1)
    same = snapshots.put("main", id, msgspec.structs.replace(present, domains={"d": {}}), 1)
    days(world, 50)
    collect(world)
    assert {waiting, same, now.metadata} == set(stored(world))


def test_a_log_whose_old_files_were_cleaned_up_dates_by_the_next_file_there_is() -> None:
    world, id = changed_table(1)
    content = delta.append("later", world.clock.now_ms())
    assert isinstance(Ratifier(world).commit(CommitRequest(id, 2, content=content)), Ratified)
    Publisher(world).publish(id)
    storage = world.storages.open(head_of(world, id).location)
    storage.delete(published_path(1))
    days(world, 3)
    assert len(collect(world).items) == 1
    for version in (0, 2):
        storage.delete(published_path(version))
    change(world, id)
    days(world, 30)
    assert collect(world).items == ()


def test_i10_a_head_that_was_restored_since_the_look_keeps_the_metadata_it_refers_to_again() -> None:
    world, id = changed_table(3)
    days(world, 5)
    before = stored(world)
    read = world.refs.read

    def restored_first(key: str):  # type: ignore[no-untyped-def]
        row = read(key)
        return {**row, "metadata": before[1]} if row is not None and key == world.space.table(id) else row

    world.refs.read = restored_first  # type: ignore[method-assign]
    report = collect(world)
    assert (report.deleted, stored(world)) == (0, before)
    assert {problem.message for problem in report.problems} == {"the HEAD is not what it was"}


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_crash_anywhere_leaves_the_rest_to_the_next_run(how: str) -> None:
    for at in range(1, 4):
        world, id = changed_table(3)
        days(world, 5)
        with pytest.raises(Crash):
            collect(Faulty(world, at, how).world)  # type: ignore[arg-type]
        assert head_of(world, id).metadata in stored(world)
        collect(world)
        assert stored(world) == [head_of(world, id).metadata]
