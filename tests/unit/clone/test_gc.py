"""gc keeps the files that a clone shows, and removes the files that no clone shows (I10)."""

from __future__ import annotations

from tests.support.catalog import complete, create, fakes, fresh, head_of
from tests.support.clones import check_shown, clone, commit, held
from tests.support.gc import DAY, collect, days, everything
from turnstile.gc.scanner import Problem
from turnstile.store.core.names import published_path, staged_file, staged_path

LOCATION = "file:///lake/main/sales/{}"


def test_i10_a_dropped_source_is_purged_when_its_last_clone_is_gone_and_not_before() -> None:
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "t", "sales")
    world = fakes(services)
    commit(world, id)
    (one,), (two,) = (clone(services, "sales.t", f"sales.{name}").tables for name in ("one", "two"))
    services.dropper.drop("main", ("sales",), "t")
    days(world, 30)
    before = everything(world)
    report = collect(world)
    assert [(one.kind, one.id) for one in report.problems] == [("dropped", id)]
    assert isinstance(report.problems[0], Problem) and "2 clones need its files" in report.problems[0].message
    assert everything(world)[0] == before[0] and everything(world)[2] == before[2]
    check_shown(world, one.table_id, 1)
    services.dropper.drop("main", ("sales",), "one")
    days(world, 30)
    assert "1 clones" in collect(world).problems[0].message
    check_shown(world, two.table_id, 1)
    services.dropper.drop("main", ("sales",), "two")
    assert held(world, LOCATION.format(id)) == frozenset()
    report = collect(world)
    assert not report.problems and head_of(world, id).reason == "purged"
    assert not [file for file in world.storages.files if id in file]
    complete(world, past=False)


def test_i10_nothing_of_a_source_is_collected_on_behalf_of_its_clones() -> None:
    """The clone's row says that everything up to its version is published and that its tail is
    empty. Whoever took the source's folder for its own would collect staged files that the source's
    HEAD still names."""
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "t", "sales")
    world = fakes(services)
    commit(world, id)
    (copy,) = clone(services, "sales.t", "sales.copy").tables
    name = staged_file(1, "ours")
    storage = world.storages.open(LOCATION.format(id))
    storage.put_if_absent(staged_path(name), b"x")
    storage.put_if_absent(staged_path(staged_file(0, "theirs")), b"x")
    days(world, 30)
    report = collect(world, "staged")
    assert all(item.id.startswith(f"{id}/") for item in report.items) and report.items
    assert storage.stat(published_path(1)) is not None
    check_shown(world, copy.table_id, 1)


def test_i10_a_dropped_clone_leaves_its_sources_files_alone() -> None:
    services = fresh()
    services.namespaces.create("main", ("sales",))
    id = create(services, "t", "sales")
    world = fakes(services)
    (copy,) = clone(services, "sales.t", "sales.copy").tables
    services.dropper.drop("main", ("sales",), "copy")
    files = dict(world.storages.files)
    world.clock.now += 60 * DAY
    collect(world, imported=[copy.table_id])
    assert world.storages.files == files
    assert head_of(world, id).state == "active"
    complete(world, past=False)
