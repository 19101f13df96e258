"""gc beside damaged rows: it says which, removes nothing that one may refer to, and goes on with
the others (I10)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import GRACE, collect, days, everything, stage_table
from turnstile.gc.collector import Collector
from turnstile.gc.core import Place
from turnstile.store.core.names import staged_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def test_i10_what_an_unreadable_head_may_refer_to_stays_and_the_rest_goes(world: FakeWorld) -> None:
    damaged = Table(world, table_id(1))
    other = Table(world, table_id(2))
    for table in (damaged, other):
        table.storage.put_if_absent(staged_path(f"{0:020d}.{table.id}.json"), b"{}")
    stage_table(world, table_id(9))
    key = damaged.key
    before = [path for path in world.storages.files if damaged.id in path]
    world.refs.damage(key)
    days(world, 40)
    report = collect(world)
    assert report.deleted >= 1
    assert {problem.id for problem in report.problems} == {key}
    assert all("cannot be read, so nothing of it is removed" in problem.message for problem in report.problems)
    assert [path for path in world.storages.files if damaged.id in path] == before


def test_i10_a_run_in_parts_goes_on_behind_an_unreadable_row(world: FakeWorld) -> None:
    table = Table(world, table_id(1))
    stage_table(world, table_id(9))
    world.refs.damage(table.key)
    days(world, 40)
    report, place = Collector(world, GRACE, workers=1).go_round(Place(), until_ms=world.clock.now + 10_000)
    assert report.deleted == 1 and report.problems and not place.after


def test_a_dry_run_names_the_row_and_changes_nothing(world: FakeWorld) -> None:
    table = Table(world, table_id(1))
    world.refs.damage(table.key)
    before = everything(world)
    assert {each.id for each in collect(world, dry_run=True).problems} == {table.key}
    assert everything(world) == before
