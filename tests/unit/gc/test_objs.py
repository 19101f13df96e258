"""Inline content in objs goes when no HEAD refers to it, and never under a commit that needs it
(I10)."""

from __future__ import annotations

import contextlib

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import DAY, check_reachable, collect, days
from turnstile.delta.publish import Publisher
from turnstile.gc.collector import Collector
from turnstile.store.core.rows import inline_obj


def inline_objs(world: FakeWorld) -> set[str]:
    return {id for _, id in world.objs.rows if id.startswith("inline/")}


def large(table: Table, count: int) -> None:
    for _ in range(count):
        table.inline(size=12_000)


def test_i10_content_of_an_unpublished_commit_stays_however_old() -> None:
    world = fake_world()
    table = Table(world)
    large(table, 2)
    days(world, 400)
    assert collect(world, "objs").items == ()
    assert len(inline_objs(world)) == 2
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i10_age_counts_from_publication_not_from_creation() -> None:
    world = fake_world()
    table = Table(world)
    large(table, 2)
    days(world, 30)
    table.mixed(4)
    Publisher(world).publish(TABLE)
    days(world, 1)
    assert collect(world, "objs").items == ()
    days(world, 1.1)
    report = collect(world, "objs")
    assert report.deleted == len(report.items) == 2, "the one still in the tail stays"
    assert all(2 * DAY <= item.age_ms < 3 * DAY for item in report.items)
    assert report.freed == report.bytes > 8_000
    assert len(inline_objs(world)) == 1
    check_reachable(table)


def test_content_of_a_refused_proposal_goes_after_its_grace() -> None:
    world = fake_world()
    table = Table(world)
    table.inline()
    row = {**table.row}
    table.row["state"] = "stuck"
    with contextlib.suppress(AssertionError):
        large(table, 1)
    world.refs.rows[table.key] = row
    assert len(inline_objs(world)) == 1
    days(world, 1.9)
    assert collect(world, "objs").items == ()
    days(world, 0.2)
    report = collect(world, "objs")
    assert report.deleted == 1
    assert 2 * DAY <= report.items[0].age_ms < 2.2 * DAY
    assert inline_objs(world) == set()


def test_i10_a_commit_that_is_ratified_between_look_and_removal_keeps_its_content() -> None:
    world = fake_world()
    table = Table(world)
    large(table, 1)
    days(world, 5)
    referred = {**table.row}
    table.row.update({"tail": [], "latest": 0, "ids": set()})  # as if the row write were still on its way
    original = world.objs.get_many

    def ratify_now(space: str, ids: list[str]):  # type: ignore[no-untyped-def]
        world.refs.rows[table.key] = referred
        return original(space, ids)

    world.objs.get_many = ratify_now  # type: ignore[method-assign, assignment]
    collect(world, "objs")
    assert len(inline_objs(world)) == 1
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i10_the_same_proposal_on_another_day_does_not_lean_on_the_old_obj() -> None:
    assert inline_obj("t", 0, b"x") == inline_obj("t", DAY - 1, b"x")
    assert inline_obj("t", 0, b"x") != inline_obj("t", DAY, b"x")


def test_a_purged_table_leaves_no_content_behind() -> None:
    world = fake_world()
    table = Table(world)
    large(table, 2)
    table.row.update({"state": "dropped", "changed_at": world.clock.now})
    days(world, 8)
    assert collect(world, "objs").items == (), "dropped only: the content may be wanted again"
    collect(world, "dropped")
    assert collect(world, "objs").deleted == 2


def test_a_grace_that_would_not_protect_proposals_in_flight_is_refused() -> None:
    import pytest

    from turnstile.gc.core import HOUR_MS, Grace

    with pytest.raises(ValueError, match="day"):
        Grace(objs_ms=25 * HOUR_MS - 1)
    Collector(fake_world(), Grace(objs_ms=25 * HOUR_MS))
