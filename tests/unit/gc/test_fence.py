"""gc and operations that bring the past back: an operation that is delayed between its read and its
write is refused, on both sides (I9, I10)."""

from __future__ import annotations

import pytest

from tests.support.catalog import LAKE, fakes, fresh
from tests.support.fakes.world import FakeWorld
from tests.support.faults import before_next_write
from tests.support.gc import DAY, HISTORY_GRACE, collect_history, days, names_at, put_namespaces
from turnstile.catalog.core.rows import begin_sweep
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices, build
from turnstile.gc.core import HOUR_MS, SETTLED_MS
from turnstile.store.core.errors import NotFound, TurnstileError
from turnstile.store.core.limits import Limits

KEY = "test/catalog/main"


def server(world: FakeWorld, history: int = HISTORY_GRACE.history_ms) -> CatalogServices:
    """With cold caches, and the past kept for as long as gc keeps it; for longer, as if it had
    looked at the clock before."""
    return build(world, lake_root=LAKE, limits=Limits(history_ms=history))


def churn(services: CatalogServices, name: str) -> None:
    """More changes than the row remembers."""
    for number in range(25):
        put_namespaces(services, f"{name}{number}")


def bring_back(services: CatalogServices, what: str, to: AsOf) -> None:
    if what == "reset":
        services.resetter.reset("main", to)
    else:
        services.named_snapshots.create("main", "t", of=to)


def all_is_whole(world: FakeWorld) -> None:
    """The tree of the present HEAD is there, and gc can look at all named HEADs."""
    assert names_at(world, world.refs.rows[KEY]["head"])
    days(world, 5)
    assert collect_history(world).problems == ()


@pytest.mark.parametrize("what", ["reset", "name"])
@pytest.mark.parametrize("how", ["head", "seq", "time", "snapshot"])
def test_i9_what_only_a_name_kept_does_not_come_back_after_it(what: str, how: str) -> None:
    """However it was asked for: a snapshot names a HEAD so old that nothing else keeps it; between
    the look and the swap the name is dropped and gc runs."""
    world = fakes(fresh())
    services = server(world)
    other = server(world)
    put_namespaces(services, "old")
    kept = services.named_snapshots.create("main", "s")
    services.namespace_dropper.drop("main", ("old",))
    churn(services, "n")
    days(world, 30)
    put_namespaces(services, "later")
    churn(services, "m")

    def meanwhile() -> None:
        other.named_snapshots.drop("main", "s")
        assert collect_history(world).deleted > 0

    before_next_write(world, meanwhile)
    to = {
        "head": AsOf(head=kept.head),
        "seq": AsOf(seq=kept.seq),
        "time": AsOf(time=kept.at // 1000),
        "snapshot": AsOf(snapshot="s"),
    }
    with pytest.raises(NotFound):
        bring_back(services, what, to[how])
    all_is_whole(world)


@pytest.mark.parametrize("what", ["reset", "name"])
@pytest.mark.parametrize("hours", [0.5, 1.2, 3, 48])
def test_i9_what_gc_took_while_a_sandbox_stood_still_does_not_come_back(what: str, hours: float) -> None:
    """The HEAD was replaced within the kept history when it was looked at. Nothing else changes the
    catalog meanwhile."""
    world = fakes(fresh())
    services = server(world)
    put_namespaces(services, "old")
    past = services.reader.current("main").head
    days(world, 5)
    services.namespace_dropper.drop("main", ("old",))
    churn(services, "n")
    world.clock.now += HISTORY_GRACE.history_ms - 60_000
    took: list[int] = []

    def frozen() -> None:
        world.clock.now += int(hours * HOUR_MS)
        took.append(collect_history(world).deleted)

    before_next_write(world, frozen)
    if hours * HOUR_MS < SETTLED_MS:
        bring_back(services, what, AsOf(head=past))
    else:
        with pytest.raises(TurnstileError):
            bring_back(services, what, AsOf(head=past))
        assert took[0] > 0
    all_is_whole(world)


@pytest.mark.parametrize("what", ["reset", "name"])
def test_i10_gc_that_stood_still_takes_nothing_that_came_back_meanwhile(what: str) -> None:
    """Its marks were made before; the next run's are better."""
    world = fakes(fresh())
    services = server(world)
    put_namespaces(services, "old")
    past = services.reader.current("main").head
    services.namespace_dropper.drop("main", ("old",))
    churn(services, "n")
    days(world, 2.2)
    put_namespaces(services, "later")  # the present tree is young, and so is its edge
    before_next_write(world, lambda: bring_back(server(world, HISTORY_GRACE.history_ms + DAY), what, AsOf(head=past)))
    report = collect_history(world)
    assert report.deleted == 0 and "come back meanwhile" in report.problems[0].message
    all_is_whole(world)
    put_namespaces(services, "after")


@pytest.fixture
def old() -> FakeWorld:
    """With something that no HEAD of the kept history leads to."""
    world = fakes(fresh())
    services = server(world)
    put_namespaces(services, "old")
    services.namespace_dropper.drop("main", ("old",))
    churn(services, "n")
    days(world, 5)
    put_namespaces(services, "later")
    return world


def test_i10_a_run_that_was_overtaken_by_a_later_one_takes_nothing(old: FakeWorld) -> None:
    created = old.refs.rows[KEY]["created"]
    before_next_write(old, lambda: old.refs.write(begin_sweep(KEY, created, old.clock.now)))
    report = collect_history(old)
    assert report.deleted == 0 and "a later run has begun" in report.problems[0].message


def test_a_dry_run_bars_nothing(old: FakeWorld) -> None:
    assert collect_history(old, dry_run=True).items and "swept" not in old.refs.rows[KEY]
    assert collect_history(old).deleted and old.refs.rows[KEY]["swept"] < old.clock.now - HISTORY_GRACE.history_ms
