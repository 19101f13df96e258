"""Parts of large objs: what crashes leave behind goes when it is old, and never a part of an obj
that is there (I10)."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from tests.support.catalog import complete, create, fakes, fresh
from tests.support.fakes.world import FakeWorld
from tests.support.faults import Crash
from tests.support.gc import DAY, days, everything
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import SpillLimits
from turnstile.store.stored_objs import is_part, owner_of

GRACE = Grace(history_ms=2 * DAY)
TIGHT = SpillLimits(embedded=150, segment=300)


@pytest.fixture(autouse=True)
def _small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 100 bytes: most commits, segments and entities are in parts."""
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", 100)


def collect(world: FakeWorld, *, dry_run: bool = False) -> Report:
    return Collector(world, GRACE, workers=1).collect(("history", "catalogs"), dry_run=dry_run)


def put(services: CatalogServices, *wanted: str, comment: str = "") -> None:
    edit = Edit("put", put={(name,): Namespace(name, name, 1, comment * 200) for name in wanted})
    services.committer.commit("main", lambda _: edit)


def parts(world: FakeWorld, space: str = "test/main") -> set[str]:
    return {id for where, id in world.objs.rows if where == space and is_part(id)}


def orphans(world: FakeWorld, space: str = "test/main") -> set[str]:
    return {id for id in parts(world, space) if (space, owner_of(id)) not in world.objs.rows}


def dies(world: FakeWorld, at: int) -> None:
    """The process ends after its ``at``-th request to objs that writes."""
    left = iter(range(at - 1, -1, -1))

    def count(request: str) -> None:
        if request in ("put", "put_many", "delete") and next(left, None) == 0:
            world.objs.on_request = None
            raise Crash(request)

    world.objs.on_request = count


def test_i10_parts_of_a_writer_that_died_go_after_the_kept_history_and_no_others() -> None:
    services = fresh()
    world = fakes(services)
    put(services, "a", "b", comment="x")
    dies(world, 1)
    with pytest.raises(Crash):
        put(fresh(world), "c", comment="y")
    left = orphans(world)
    assert left
    living = parts(world) - left
    days(world, 2)
    put(services, "d", comment="z")
    assert collect(world).items == (), "a slow writer could still be at it"
    days(world, 0.1)
    before = everything(world)
    dry = collect(world, dry_run=True)
    assert everything(world) == before
    assert {item.id for item in dry.items} == {f"main/{id}" for id in left}
    report = collect(world)
    assert [item.id for item in report.items] == [item.id for item in dry.items]
    assert (report.problems, report.deleted) == ((), len(left))
    assert report.freed == sum(len(before[1]["test/main", id].payload) for id in left)
    assert orphans(world) == set() and living <= parts(world)
    complete(world)


def test_i10_a_removal_that_died_is_finished_by_the_next_run() -> None:
    services = fresh()
    world = fakes(services)
    for number in range(300):
        put(services, "same", comment=str(number % 10))
        days(world, 0.02)
    days(world, 9)
    half = 0
    for at in range(1, 30):
        dies(world, at)
        with pytest.raises(Crash):
            collect(world)
        half += bool(orphans(world))
    assert half > 5
    assert collect(world).complete
    assert orphans(world) == set()
    assert collect(world).items == ()
    complete_now(services)


def test_i10_parts_go_with_a_dropped_catalog_and_a_new_one_of_its_name_keeps_its_own() -> None:
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.namespaces.create("other", ("n",), comment="x" * 300)
    dies(world, 1)
    with pytest.raises(Crash):
        fresh(world).namespaces.create("other", ("lost",), comment="x" * 300)
    services.catalogs.drop("other", force=True)
    days(world, 3)
    services.catalogs.create("other")
    services.namespaces.create("other", ("again",), comment="y" * 300)
    collect(world)
    assert orphans(world, "test/other") == set()
    assert fresh(world).namespaces.get("other", ("again",)).entity.comment == "y" * 300
    services.catalogs.drop("other", force=True)
    days(world, 9)
    assert collect(world).complete
    assert parts(world, "test/other") == set()


@pytest.mark.parametrize("seed", range(8))
def test_i10_whatever_dies_every_head_of_the_kept_history_is_whole(seed: int) -> None:
    chance = random.Random(seed)
    services = fresh(spill=TIGHT)
    world = fakes(services)
    for step in range(60):
        name = f"n{chance.randrange(12):02d}"
        if chance.random() < 0.3:
            dies(world, chance.randrange(1, 9))
        with suppress(Crash):
            if chance.random() < 0.25:
                collect(world)
            elif chance.random() < 0.2:
                create(fresh(world, spill=TIGHT), f"t{step}")
            else:
                put(fresh(world, spill=TIGHT), name, f"m{step % 5}", comment=chr(97 + step % 26))
        world.objs.on_request = None
        days(world, chance.random() * 0.4)
        readable(fresh(world, spill=TIGHT), world)
    days(world, 9)
    collect(world)
    collect(world)
    assert orphans(world) == set()
    readable(fresh(world, spill=TIGHT), world)


def readable(services: CatalogServices, world: FakeWorld) -> None:
    """Now, and at moments of the kept history, everything that there was a name for can be read."""
    complete_now(services)
    for back in (0, GRACE.history_ms // 2, GRACE.history_ms - HOUR_MS):
        with suppress(NotFound):  # before the catalog
            whole(services, services.history.tree("main", AsOf(time=world.clock.now - back)))


def complete_now(services: CatalogServices) -> None:
    whole(services, services.reader.current("main"))


def whole(services: CatalogServices, tree: Tree) -> None:
    services.reader.store.entities("main", [entry.obj for _, entry in tree.subtree(())])
