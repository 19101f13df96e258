"""Relocations: after the files of a lake were moved, the store follows, whole, and whatever step it
broke off at."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from tests.support.catalog import build, complete, create, head_of, staged
from tests.support.clones import clone, commit, iceberg_table
from tests.support.fakes.world import FakeWorld, copied, fake_world
from tests.support.faults import CRASHES, Crash, Faulty, How
from turnstile.catalog import services as bootstrap
from turnstile.catalog.core.entities import TABLE, External
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.journal_rows import JournalRow, State
from turnstile.delta.publish import Published
from turnstile.store.core.errors import InvalidRequest, StateConflict, TurnstileError, UnreadableRow
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World
from turnstile.transfer.relocation import Plan, Relocator

OLD = "file:///old"
NEW = "file:///new"
LAKE = f"{OLD}/lake"


def at(world: World, lake: str = LAKE) -> CatalogServices:
    return build(world, lake_root=lake, limits=Limits())


def relocator(world: World) -> Relocator:
    return Relocator(world, at(world).reader)


def site() -> FakeWorld:
    """A catalog with a Delta table of some versions, its clone, a dropped table, one that is being
    created, and an external table."""
    world = fake_world()
    bootstrap.ensure(world, lake_root=LAKE)
    services = at(world)
    table = create(services, "t")
    commit(world, table)
    assert isinstance(services.publisher.publish(table), Published)
    clone(services, "default.t", "default.shown")
    create(services, "gone")
    services.dropper.drop("main", ("default",), "gone")
    staged(services, "coming")
    services.externals.register("main", ("default",), "ext", location=f"{OLD}/ext", format="delta", about=External())
    return world


def move_files(world: FakeWorld) -> None:
    files = world.storages.files
    for path in [path for path in files if path.startswith(f"{OLD}/")]:
        files[NEW + path.removeprefix(OLD)] = files.pop(path)


def relocate(world: World) -> Plan:
    one = relocator(world)
    plan = one.plan(OLD, NEW)
    assert plan.problems == ()
    one.apply(plan)
    return plan


def old_locations(world: FakeWorld) -> list[str]:
    """Where the rows, and the present trees, still lead below the old root; zones stay."""
    rows = [row["key"] for row in world.refs.rows.values() if str(row.get("location", "")).startswith(OLD)]
    prefix = world.space.location("")
    rows += [key for key, row in world.refs.rows.items() if key.startswith(prefix + OLD + "/") and row.get("table_id")]
    reader = at(world).reader
    tree = reader.at("main", world.refs.read(reader.key("main")))
    entities = reader.store.entities("main", [entry.obj for _, entry in tree.subtree(()) if entry.kind == TABLE])
    return rows + [entity.name for entity in entities.values() if getattr(entity, "location", OLD).startswith(OLD)]


def require_moved(world: FakeWorld) -> None:
    assert old_locations(world) == []
    twin = copied(world)  # an external table has no HEAD, which 'complete' expects of owners
    services = at(twin, f"{NEW}/lake")
    services.externals.drop("main", ("default",), "ext", _external(twin))
    complete_tables(twin)
    commit(world, _table(world))
    assert isinstance(at(world, f"{NEW}/lake").publisher.publish(_table(world)), Published)
    create(at(world, f"{NEW}/lake"), "after")


def complete_tables(world: FakeWorld) -> None:
    world.refs.rows = {key: row for key, row in world.refs.rows.items() if row["kind"] != "external"}
    complete(world)


def _external(world: FakeWorld) -> str:
    return str(next(row["table_id"] for row in world.refs.rows.values() if row["kind"] == "external"))


def _table(world: FakeWorld) -> str:
    return str(next(row["table_id"] for row in world.refs.scan("table") if row["name"] == "main.default.t"))


def test_i10_every_location_below_the_old_root_leads_to_the_new_one() -> None:
    world = site()
    move_files(world)
    plan = relocate(world)
    report = plan.report()
    assert (report["tables"], report["external"], report["staging"], report["left"]) == (3, 1, 1, [])
    require_moved(world)


def test_a_relocation_that_is_done_changes_nothing_when_it_is_repeated() -> None:
    world = site()
    move_files(world)
    relocate(world)
    before = copied(world)
    assert relocate(world).empty
    assert world.refs.rows == before.refs.rows


@pytest.mark.parametrize("how", CRASHES)
def test_i10_a_relocation_that_was_killed_at_any_write_goes_on(how: How) -> None:
    first = site()
    move_files(first)
    count = 0
    while True:
        count += 1
        world = copied(first)
        faulty = Faulty(world, count, how)
        try:
            relocate(faulty.world)
        except Crash:
            relocate(world)
            require_moved(world)
            continue
        break
    assert count > 10


def test_a_plan_changes_nothing() -> None:
    world = site()
    move_files(world)
    before = copied(world)
    assert not relocator(world).plan(OLD, NEW).empty
    assert (world.refs.rows, world.objs.rows) == (before.refs.rows, before.objs.rows)


def problems(world: FakeWorld, old: str = OLD, new: str = NEW) -> str:
    one = relocator(world)
    plan = one.plan(old, new)
    with pytest.raises(ValueError, match="the plan has problems"):
        one.apply(plan)
    return "; ".join(plan.problems)


def test_i24_a_table_whose_log_is_not_below_the_new_root_refuses_the_relocation() -> None:
    world = site()
    assert f"version 1 is not at {NEW}/lake/main/default/" in problems(world)
    move_files(world)
    first = next(
        path for path in world.storages.files if path.endswith("00000000000000000000.json") and _table(world) in path
    )
    content = world.storages.files.pop(first)
    assert "main.default.t" in problems(world)
    world.storages.files[first] = content
    relocate(world)


def test_commits_that_are_not_published_refuse_the_relocation() -> None:
    world = site()
    commit(world, _table(world))
    move_files(world)
    assert "commits that are not published" in problems(world)


@pytest.mark.parametrize("state", ["stuck", "recovering", "leaving"])
def test_tables_that_are_not_in_ordinary_use_refuse_the_relocation(state: str) -> None:
    world = site()
    move_files(world)
    world.refs.rows[world.space.table(_table(world))]["state"] = state
    assert f"table main.default.t is {state}" in problems(world)


@pytest.mark.parametrize(
    ("member", "value", "says"), [("importing", "run", "import"), ("purging", True, "being removed")]
)
def test_locations_that_something_is_under_way_at_refuse_the_relocation(member: str, value: object, says: str) -> None:
    world = site()
    move_files(world)
    world.refs.rows[world.space.location(head_of(world, _table(world)).location)][member] = value
    assert says in problems(world)


@pytest.mark.parametrize(("state", "refuses"), [("open", True), ("committed", False)])
def test_an_open_transaction_refuses_the_relocation(state: State, refuses: bool) -> None:
    world = site()
    move_files(world)
    key = world.space.transaction("i")
    world.refs.rows[key] = JournalRow(key, "i", state, 1, "o", {}, {}, "", "", 1, 2).to_row()
    assert bool(relocator(world).plan(OLD, NEW).problems) is refuses


def test_a_named_snapshot_refuses_the_relocation() -> None:
    world = site()
    at(world).named_snapshots.create("main", "before")
    move_files(world)
    assert "named snapshots" in problems(world)


@pytest.mark.parametrize(("old", "new"), [(OLD, OLD), (OLD, f"{OLD}/x"), (f"{OLD}/x", OLD)])
def test_roots_that_overlap_are_refused(old: str, new: str) -> None:
    with pytest.raises(InvalidRequest, match="overlap"):
        relocator(site()).plan(old, new)


def test_i10_a_part_of_a_lake_is_not_moved() -> None:
    world = site()
    assert f"name {LAKE}" in problems(world, f"{LAKE}/main", f"{NEW}/main")


def test_i10_a_new_root_that_is_anothers_is_refused() -> None:
    world = site()
    move_files(world)
    at(world).externals.register(
        "main", ("default",), "other", location=f"{NEW}/lake", format="delta", about=External()
    )
    assert "belongs to table" in problems(world)


def test_i9_no_reset_brings_the_old_locations_back() -> None:
    world = site()
    move_files(world)
    seq = world.refs.rows[at(world).reader.key("main")]["seq"]
    relocate(world)
    world.clock.now += 1_000
    with pytest.raises(TurnstileError):
        at(world).resetter.reset("main", AsOf(seq=seq))
    assert old_locations(world) == []


def test_iceberg_tables_stay_and_are_named() -> None:
    world = site()
    iceberg_table(at(world), "default.ice")
    move_files(world)
    plan = relocate(world)
    assert [text.partition(" at ")[0] for text in plan.left] == ["main.default.ice (Iceberg)"]
    assert len(relocator(world).plan(OLD, NEW).left) == 1


def test_a_server_that_was_started_in_the_new_place_before_is_no_obstacle() -> None:
    world = site()
    move_files(world)
    bootstrap.ensure(world, lake_root=f"{NEW}/lake")
    relocate(world)
    require_moved(world)


def test_something_else_that_writes_meanwhile_ends_the_relocation() -> None:
    world = site()
    move_files(world)
    one = relocator(world)
    plan = one.plan(OLD, NEW)
    world.refs.rows[world.space.table(_table(world))]["latest"] += 1
    with pytest.raises(StateConflict, match="something else has changed"):
        one.apply(plan)


def test_every_row_that_holds_a_location_is_known_to_the_relocation() -> None:
    """A new attribute that holds a location has to be relocated, too: list it in
    ``relocation.ROWS``, or say here why not."""
    from turnstile.transfer.relocation import ROWS

    lines = (File(__file__).parents[2] / "unit" / "store" / "row_members.txt").read_text().splitlines()
    kinds = {line.partition(":")[0].strip() for line in lines if "location" in line.partition(":")[2].split()}
    assert kinds == {row.kind for row in ROWS}


@pytest.mark.parametrize("kind", ["table", "external", "staging", "location", "catalog", "transaction"])
def test_a_damaged_row_that_may_hold_a_location_refuses_the_relocation_by_its_key(kind: str) -> None:
    world = site()
    key = f"{world.space.realm}/{kind}/other"
    world.refs.damage(key)
    with pytest.raises(UnreadableRow, match=key):
        relocator(world).plan(OLD, NEW)
