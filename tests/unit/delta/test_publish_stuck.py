"""A table that is stopped: the two writes that stop it and let it go on, clause by clause (I5, I10,
I11), and its repair."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.writes.state import mark_stuck, mark_unstuck, stuck_at
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.store.core.errors import NotFound, StorageFault
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.ports import Accepted, Rejected


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    made = Table(world)
    made.mixed(6)
    return made


def stuck_head(table: Table, version: int = 3) -> TableHead:
    table.row.update({"state": "stuck", "reason": f"version {version}: gone", "floor": version - 1})
    return table.head


def test_i11_a_table_whose_floor_has_moved_on_is_not_stopped(world: FakeWorld, table: Table) -> None:
    seen = table.head
    Publisher(world).publish(TABLE)
    assert isinstance(world.refs.write(mark_stuck(seen, 1, "gone", 5)), Rejected)
    assert table.head.state == "active"


def test_i11_a_table_that_goes_on_and_meets_the_next_obstacle_stays_stopped_there(
    world: FakeWorld, table: Table
) -> None:
    for version in (2, 4):
        table.put(published_path(version), b"foreign\n")
    Publisher(world).publish(TABLE)
    assert (table.head.state, stuck_at(table.head)) == ("stuck", 2)
    table.storage.delete(published_path(2))
    published = Publisher(world).publish(TABLE)
    assert (table.head.state, stuck_at(table.head), table.head.floor) == ("stuck", 4, 3)
    assert published.problem is not None and published.problem.version == 4


@pytest.mark.parametrize("state", ["dropped", "leaving", "recovering"])
def test_i10_only_a_table_that_takes_commits_is_stopped(state: str, world: FakeWorld, table: Table) -> None:
    seen = table.head
    table.row["state"] = state
    assert isinstance(world.refs.write(mark_stuck(seen, 1, "gone", 5)), Rejected)
    assert table.head.state == state


def test_a_stuck_table_may_be_stopped_again_for_another_reason(world: FakeWorld, table: Table) -> None:
    stuck_head(table, 1)
    assert isinstance(world.refs.write(mark_stuck(table.head, 1, "other bytes", 5)), Accepted)
    assert table.head.reason == "version 1: other bytes"
    assert table.head.changed_at == 5


def test_only_the_publishers_own_reason_says_where_a_table_is_stuck(table: Table) -> None:
    assert stuck_at(stuck_head(table)) == 3
    table.row["state"] = "active"
    assert stuck_at(table.head) is None
    table.row.update({"state": "stuck", "reason": "an operator stopped it"})
    assert stuck_at(table.head) is None


def test_a_table_an_operator_stopped_is_published_and_stays_stopped(world: FakeWorld, table: Table) -> None:
    table.row.update({"state": "stuck", "reason": "an operator stopped it"})
    answer = Publisher(world).publish(TABLE)
    assert (answer.floor, answer.state, answer.problem) == (6, "stuck", None)


def test_i5_a_table_cannot_go_on_before_the_version_in_its_way_is_published(world: FakeWorld, table: Table) -> None:
    head = stuck_head(table)
    with pytest.raises(ValueError, match="stuck"):
        mark_unstuck(head, 5)
    table.row["floor"] = 3
    ahead = table.head
    assert stuck_at(ahead) == 3
    table.row["floor"] = 2
    assert isinstance(world.refs.write(mark_unstuck(ahead, 5)), Rejected)
    table.row["floor"] = 4
    assert isinstance(world.refs.write(mark_unstuck(ahead, 5)), Accepted)
    assert table.head.state == "active"
    assert "reason" not in table.row
    with pytest.raises(ValueError, match="active"):
        mark_unstuck(table.head, 5)


@pytest.mark.parametrize("change", [{"state": "dropped"}, {"reason": "version 5: gone"}, {"state": "active"}])
def test_i10_i11_a_table_that_was_dropped_or_is_stuck_elsewhere_stays_so(
    change: dict[str, str], world: FakeWorld, table: Table
) -> None:
    stuck_head(table)
    table.row["floor"] = 3
    seen = table.head
    table.row.update(change)
    before = dict(table.row)
    assert isinstance(world.refs.write(mark_unstuck(seen, 5)), Rejected)
    assert table.row == before


# -- repair: shows both sides, never overwrites, lets a mended table take commits again (I2, I4, I11) ------------------


def repairer(table: Table) -> Repairer:
    return Repairer(table.world, Publisher(table.world))


def test_i4_a_foreign_version_is_distinguished_and_published_over_once_it_is_moved_away() -> None:
    table = Table(fake_world())
    table.mixed(3)
    foreign = table.ratified[1].replace(b"s-1", b"x-1")
    table.put(published_path(2), foreign)
    done, found = repairer(table).repair(TABLE)
    assert done.problem is not None
    assert (found.state, found.finding, found.version, found.floor) == ("stuck", "differs", 2, 1)
    assert found.facts["published_size"] == len(foreign)
    assert found.facts["published_txn_id"].startswith("x-1")
    assert table.published()[2] == foreign
    table.storage.delete(published_path(2))
    done, found = repairer(table).repair(TABLE)
    assert (done.state, found.finding, found.state) == ("active", "healthy", "active")
    table.check_all_published()


def test_i11_a_lost_staged_file_is_named_and_its_return_heals_the_table() -> None:
    table = Table(fake_world())
    name = table.stage()
    table.storage.delete(staged_path(name))
    table.world.clock.now += 60_000
    _, found = repairer(table).repair(TABLE)
    assert (found.state, found.finding) == ("stuck", "missing")
    assert found.facts["staged_path"] == staged_path(name)
    assert found.facts["staged_size"] is None
    assert found.facts["ratified_size"] == len(table.ratified[1])
    table.put(staged_path(name), table.ratified[1] + b" ")
    assert repairer(table).repair(TABLE)[1].finding == "changed"
    table.put(staged_path(name), table.ratified[1])
    assert repairer(table).repair(TABLE)[1].finding == "healthy"
    table.check_all_published()


def test_a_diagnosis_changes_nothing() -> None:
    table = Table(fake_world())
    table.mixed(2)
    before = dict(table.world.refs.rows), dict(table.world.storages.files)
    found = repairer(table).diagnose(TABLE)
    assert (found.finding, found.version) == ("behind", 1)
    assert before == (table.world.refs.rows, table.world.storages.files)
    table.row["state"] = "dropped"
    assert repairer(table).diagnose(TABLE).finding == "not in use"
    with pytest.raises(NotFound):
        repairer(table).diagnose("00000000-0000-4000-8000-000000000000")


def test_storage_that_cannot_be_read_is_not_taken_for_a_loss() -> None:
    table = Table(fake_world())
    table.stage()
    storage = type(table.storage)
    original = storage.read, storage.stat

    def fails(self, path, limit=None):  # type: ignore[no-untyped-def]
        raise StorageFault("no answer")

    storage.read = storage.stat = fails  # type: ignore[method-assign]
    try:
        done, found = repairer(table).repair(TABLE)
    finally:
        storage.read, storage.stat = original  # type: ignore[method-assign]
    assert found.finding == "unreadable"
    assert done.problem is not None
    assert not done.problem.stuck
    assert table.head.state == "active"
