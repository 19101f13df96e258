"""Sandboxes that freeze for hours in the middle of a change, and continue with outdated knowledge
(I3, I10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.catalog import LAKE, complete, create, fakes, fresh, head_of, names
from tests.support.fakes.world import FakeWorld
from tests.support.faults import before_next_write
from tests.support.gc import DAY, HISTORY_GRACE, collect_history, days, names_at, put_namespaces
from turnstile.catalog.changes.attempts import OUTLIVED_MS
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.request_rows import REQUEST_KEPT_S
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices, build
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS, SETTLED_MS, Grace
from turnstile.store.core.errors import StateConflict, Throttled
from turnstile.store.core.limits import Limits

LIMITS = Limits(history_ms=HISTORY_GRACE.history_ms)
KEY = "test/request/main/k"


def overtaken(world: FakeWorld, other: CatalogServices) -> None:
    """Another change is faster than the next one."""
    before_next_write(world, lambda: put_namespaces(other, "faster"))


def test_i10_a_change_that_was_frozen_between_two_attempts_is_not_tried_again() -> None:
    """Its entity was written hours before the HEAD that would lead to it, so gc would take it for
    one that is older than the kept history while that HEAD still belongs to it."""
    world = fakes(fresh())

    def frozen(_: float) -> None:
        world.clock.now += 3 * HOUR_MS

    slow, quick = (build(world, lake_root=LAKE, limits=LIMITS, pause=pause) for pause in (frozen, lambda _: None))
    put_namespaces(quick, "a")
    days(world, 10)
    overtaken(world, quick)
    before = world.clock.now
    with pytest.raises(StateConflict, match="every attempt"):
        put_namespaces(slow, "x")
    head = put_namespaces(slow, "x", comment="kept")
    world.clock.now = before + HISTORY_GRACE.history_ms + 2 * SETTLED_MS - 60_000
    put_namespaces(quick, "x", comment="another")
    for number in range(25):  # more than the row remembers
        put_namespaces(quick, f"n{number}")
    world.clock.now += 2 * 60_000
    assert collect_history(world).problems == ()
    assert "x" in names_at(world, head)


@pytest.mark.parametrize("attempt", [1, 2])
def test_i10_a_change_that_was_frozen_while_it_was_computed_is_not_applied(attempt: int) -> None:
    """Files that its function wrote before may be as old."""
    services = fresh()
    attempts = [0]
    world = fakes(services)
    overtaken(world, fresh(world))

    def change(_: View) -> Edit:
        attempts[0] += 1
        if attempts[0] == attempt:
            world.clock.now += OUTLIVED_MS + 1
        return Edit("slow", put={("slow",): Namespace("slow", "slow", 1)})

    with pytest.raises(Throttled, match="held up for 900 s"):
        services.committer.commit("main", change)
    assert attempts == [attempt]
    assert fresh(world).reader.current("main").find(("slow",)) is None
    complete(world)


def test_i9_a_swap_that_was_frozen_with_its_objs_written_leads_to_what_gc_leaves_alone() -> None:
    """The time of a commit is from before its objs, so gc's edge lies at it and not after it."""
    services = fresh()
    world = fakes(services)
    put_namespaces(services, "a")
    days(world, 10)
    before_next_write(world, lambda: days(world, 3 / 24))
    head = put_namespaces(services, "slow")
    landed = world.clock.now
    world.clock.now = landed + HISTORY_GRACE.history_ms - 2 * HOUR_MS
    fresh(world).namespace_dropper.drop("main", ("slow",))
    for number in range(25):
        put_namespaces(services, f"n{number}")
    world.clock.now = landed + HISTORY_GRACE.history_ms
    collect_history(world)
    assert "slow" in names_at(world, head)


def test_i9_a_swap_that_was_frozen_until_gc_has_taken_its_objs_is_refused() -> None:
    """Nothing else changes the catalog meanwhile, and no more is kept than there must be."""
    services = fresh()
    least = Grace(history_ms=3 * HOUR_MS)
    world = fakes(services)
    put_namespaces(services, "a")
    days(world, 10)

    def frozen() -> None:
        world.clock.now += 6 * HOUR_MS
        assert Collector(world, least, workers=1).collect(("history",), dry_run=False).deleted

    before_next_write(world, frozen)
    with pytest.raises(StateConflict, match="every attempt"):
        put_namespaces(services, "slow")
    assert "slow" not in names_at(world, world.refs.rows["test/catalog/main"]["head"])
    put_namespaces(services, "slow")
    complete(world, past=False)


def test_i10_a_swap_that_was_frozen_and_lands_between_gcs_marks_and_its_fence_keeps_its_objs() -> None:
    """They are as old as the objs that gc is about to take, and no marks are on them."""
    services = fresh()
    least = Grace(history_ms=3 * HOUR_MS)
    world = fakes(services)
    put_namespaces(services, "a")
    days(world, 10)
    write = world.refs.write
    landed = []
    places = []

    def frozen(one: Any) -> Any:
        world.refs.write = write  # type: ignore[method-assign]
        world.clock.now += 6 * HOUR_MS

        def lands(place: str) -> None:
            places.append(place)
            if places == ["collect.marked"] * 2:  # the catalog of catalogs comes first
                landed.append(write(one))

        report = Collector(world, least, faults=lands, workers=1).collect(("history",), dry_run=False)
        assert report.items and report.deleted == 0
        return landed[0]

    world.refs.write = frozen  # type: ignore[method-assign]
    assert "slow" in names_at(world, put_namespaces(services, "slow"))
    complete(world, past=False)


def once(world: FakeWorld, services: CatalogServices) -> IdempotentCommitter:
    return IdempotentCommitter(world, services.reader, key=KEY, asked="a", final=lambda _: 0)


def test_i3_a_request_with_a_key_that_was_frozen_for_longer_than_the_key_is_kept_is_not_applied_again() -> None:
    """It is sent again meanwhile and done, its row expires, and the entity that it drops is made
    anew."""
    services = fresh()
    world = fakes(services)
    create(services, "t")
    frozen = once(world, services)
    again = once(world, services)
    second: list[str] = []

    def drop(by: IdempotentCommitter) -> Callable[[], None]:
        return lambda: services.committing_with(by).dropper.drop("main", ("default",), "t")

    def thawed() -> None:
        again.run(drop(again), lambda _: None)
        second.append(create(services, "t"))
        world.clock.now += (REQUEST_KEPT_S + 1) * 1000
        row = world.refs.rows.pop(KEY)
        assert row["expires"] * 1000 < world.clock.now
        drop(frozen)()

    with pytest.raises(Throttled):
        frozen.run(thawed, lambda _: None)
    assert names(services) == ["t"] and head_of(world, second[0]).state == "active"
    assert KEY not in world.refs.rows, "the refusal is one of the moment"


def test_i3_a_key_is_kept_for_much_longer_than_a_request_may_take() -> None:
    assert DAY <= REQUEST_KEPT_S * 1000 and OUTLIVED_MS * 10 < DAY
