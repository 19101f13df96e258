"""The two writes that stop a table and let it go on, clause by clause (I5, I10, I11)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.state_writes import mark_stuck, mark_unstuck, stuck_at
from turnstile.delta.publish import Publisher
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
