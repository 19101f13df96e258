"""gc's announcements in the rows, clause by clause (I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import stage_table
from turnstile.catalog.core.rows import erase_collected, mark_collecting
from turnstile.delta.core.writes.state import mark_purged, mark_purging
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, Rejected

ID = table_id(7)


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def staging(world: FakeWorld) -> Row:
    stage_table(world, ID)
    return world.refs.rows[world.space.staging(ID)]


def test_a_staging_row_is_announced_again_at_will_and_then_erased(world: FakeWorld) -> None:
    row = dict(staging(world))
    assert isinstance(world.refs.write(mark_collecting(row)), Accepted)
    assert isinstance(world.refs.write(mark_collecting(row)), Accepted)
    assert isinstance(world.refs.write(erase_collected(row)), Accepted)
    assert row["key"] not in world.refs.rows


@pytest.mark.parametrize("change", [{"state": "used"}, {"created": 1}])
def test_i10_a_staging_row_that_is_not_the_one_looked_at_is_not_announced(
    change: dict[str, Any], world: FakeWorld
) -> None:
    row = dict(staging(world))
    world.refs.rows[row["key"]].update(change)
    assert isinstance(world.refs.write(mark_collecting(row)), Rejected)


def test_i10_a_staging_row_is_not_erased_unannounced(world: FakeWorld) -> None:
    row = staging(world)
    assert isinstance(world.refs.write(erase_collected(row)), Rejected)
    assert row["key"] in world.refs.rows


def test_i10_a_tombstone_needs_its_announcement(world: FakeWorld) -> None:
    table = Table(world)
    table.row["state"] = "dropped"
    head = table.head
    assert isinstance(world.refs.write(mark_purged(head)), Rejected)
    assert isinstance(world.refs.write(mark_purging(head)), Accepted)
    assert isinstance(world.refs.write(mark_purging(head)), Accepted)
    assert isinstance(world.refs.write(mark_purged(head)), Accepted)
    assert table.head.reason == "purged"


@pytest.mark.parametrize("change", [{"state": "active"}, {"changed_at": 7}])
def test_i10_a_head_that_was_revived_or_dropped_anew_is_not_purged(change: dict[str, Any], world: FakeWorld) -> None:
    table = Table(world)
    table.row["state"] = "dropped"
    head = table.head
    table.row.update(change)
    assert isinstance(world.refs.write(mark_purging(head)), Rejected)
    table.row["reason"] = "purging"
    assert isinstance(world.refs.write(mark_purged(head)), Rejected)
