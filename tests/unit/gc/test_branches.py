"""gc of a catalog whose objs its branches share: what a branch shows stays whole, and goes with it
(I10, I28)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.catalog import LAKE, create, fakes, fresh, head_of
from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.faults import Crash, Faulty
from tests.support.gc import HISTORY_GRACE, collect, collect_history, days, names_at
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.branches.promotion import Promoter
from turnstile.branches.promotion_rights import PromotionRights
from turnstile.branches.update import Updater
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.rows import RECENT
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.limits import SpillLimits

TIGHT = SpillLimits(embedded=150, segment=300)


def put(services: CatalogServices, catalog: str, *wanted: str, comment: str = "") -> None:
    edit = Edit("put", put={(name,): Namespace(name, name, 1, comment or None) for name in wanted})
    services.committer.commit(catalog, lambda _: edit)


def entities(world: FakeWorld) -> list[str]:
    return [id for space, id in world.objs.rows if id.startswith("entity/") and space == "test/main"]


def shown(services: CatalogServices, catalog: str) -> list[str]:
    """The names of a catalog; fails where anything that its HEAD leads to is missing."""
    world = fakes(services)
    return names_at(world, world.refs.rows[f"test/catalog/{catalog}"]["head"], catalog)


def test_i28_objs_that_only_a_branch_leads_to_stay_and_go_with_it() -> None:
    services = fresh(spill=TIGHT)
    world = fakes(services)
    put(services, "main", *(f"n{number:02d}" for number in range(40)))
    services.branches.create("main", "dev", days=300)
    edit = Edit("remove", remove=tuple((f"n{number:02d}",) for number in range(40)))
    services.committer.commit("main", lambda _: edit)
    put(services, "main@dev", "own")
    for _ in range(5):
        days(world, 10)
        put(services, "main", "other", comment=str(world.clock.now))
        put(services, "main@dev", "changed", comment=str(world.clock.now))
        collect_history(world)
        expected = sorted(["changed", "default", "own", *(f"n{number:02d}" for number in range(40))])
        assert shown(fresh(world, spill=TIGHT), "main@dev") == expected
        assert shown(fresh(world, spill=TIGHT), "main") == ["default", "other"]
    assert len(entities(world)) > 40
    services.branches.drop("main", "dev")
    for number in range(RECENT + 1):  # HEADs that the row remembers are kept, too
        days(world, 3)
        put(services, "main", "last", comment=str(number))
    days(world, 30)
    collect_history(world)
    assert len(entities(world)) < RECENT + 5
    assert shown(fresh(world), "main") == ["default", "last", "other"]


def locations(world: FakeWorld) -> list[str]:
    return sorted(key.partition("/location/")[2] for key in world.refs.rows if "/location/" in key)


@pytest.mark.parametrize("ended", ["promoted", "dropped"])
def test_i10_the_location_of_a_branchs_table_goes_with_its_remains(ended: str) -> None:
    services = Services(cast("Any", fakes(fresh())), Settings(lake_root=LAKE))
    catalog = services.open_catalog
    world = fakes(catalog)
    table_id = create(catalog, "t")
    catalog.branches.create("main", "dev")
    own = services.open_reader.resolve("main@dev", ("default",), "t").table_id
    before = locations(world)
    assert sum("_branches" in location for location in before) == 1
    if ended == "promoted":
        head = head_of(world, own)
        stamp = max(world.clock.now_ms(), head.last_ict + 1)
        content = delta.lines(delta.info("c", stamp), delta.add("file"))
        services.ratifier.commit(CommitRequest(own, head.latest + 1, base=head.latest, content=content))
        Promoter(catalog, services.groups, PromotionRights(OPERATOR)).promote("main", "dev")
    else:
        catalog.branches.drop("main", "dev")
    for _ in range(3):
        days(world, 40)
        collect(world, "dropped")
    assert not [location for location in locations(world) if "_branches" in location]
    assert f"test/table/{own}" not in world.refs.rows
    assert (head_of(world, table_id).state, len(locations(world))) == ("active", len(before) - 1)


def test_i28_gc_of_a_branch_alone_removes_nothing_of_its_catalog() -> None:
    services = fresh()
    world = fakes(services)
    put(services, "main", "kept")
    services.branches.create("main", "dev", days=300)
    put(services, "main", "later")
    days(world, 60)
    put(services, "main@dev", "own")
    days(world, 60)
    rows = {key: row for key, row in world.refs.rows.items() if row["kind"] == "catalog"}
    report = Collector(world, HISTORY_GRACE, workers=1).collect(("history",), dry_run=True)
    assert [problem for problem in report.problems if "@" in problem.id] == []
    assert set(rows) >= {"test/catalog/main", "test/catalog/main@dev"}
    collect_history(world)
    assert shown(fresh(world), "main") == ["default", "kept", "later"]


def test_a_branch_that_ended_is_dropped_a_day_later_unless_it_was_renewed() -> None:
    services = fresh()
    world = fakes(services)
    for name in ("ended", "renewed"):
        services.branches.create("main", name, days=3)
    put(services, "main@ended", "own")
    days(world, 3.9)
    assert not [item for item in collect_history(world).items if "@" in item.id]
    services.branches.renew("main", "renewed", 3)
    days(world, 0.2)
    dry = collect_history(world, dry_run=True)
    assert [item.id for item in dry.items if "@" in item.id] == ["main@ended"]
    assert len(services.branches.list("main")) == 2
    collect_history(world)
    assert [branch.name for branch in services.branches.list("main")] == ["renewed"]
    assert "test/catalog/main@ended" not in world.refs.rows


class BranchMachine(RuleBasedStateMachine):
    """Changes of a catalog and of its branches, time and collections at random. Both can always be
    read as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.services = fresh(spill=TIGHT)
        self.world = fakes(self.services)
        self.model: dict[str, set[str]] = {"main": {"default"}}
        self.base: dict[str, set[str]] = {}
        """The names that a branch's catalog had at its base, by the branch."""

    def _commit(self, catalog: str, edit: Edit) -> None:
        self.services.committer.commit(catalog, lambda _: edit)

    @rule(data=st.data(), name=st.integers(0, 20), comment=st.integers(0, 3))
    def write(self, data: Any, name: int, comment: int) -> None:
        catalog = data.draw(st.sampled_from(sorted(self.model)))
        put(self.services, catalog, f"n{name:02d}", comment=str(comment))
        self.model[catalog].add(f"n{name:02d}")

    @rule(data=st.data(), low=st.integers(0, 20), width=st.integers(1, 10))
    def remove(self, data: Any, low: int, width: int) -> None:
        catalog = data.draw(st.sampled_from(sorted(self.model)))
        gone = [name for name in self.model[catalog] if name[0] == "n" and low <= int(name[1:]) < low + width]
        if gone:
            self._commit(catalog, Edit("remove", remove=tuple((name,) for name in gone)))
            self.model[catalog] -= set(gone)

    @precondition(lambda self: len(self.model) < 3)
    @rule(number=st.integers(0, 2))
    def branch(self, number: int) -> None:
        full = f"main@b{number}"
        if full not in self.model:
            self.services.branches.create("main", f"b{number}")
            self.model[full] = set(self.model["main"])
            self.base[full] = set(self.model["main"])

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def update(self, data: Any) -> None:
        full = data.draw(st.sampled_from(sorted(self.model.keys() - {"main"})))
        groups = Services(cast("Any", self.world), Settings(lake_root=LAKE)).groups
        try:
            Updater(self.services, groups).update("main", full.partition("@")[2])
        except StateConflict:  # both changed a name
            return
        created = self.model[full] - self.base[full]
        dropped = self.base[full] - self.model[full]
        self.model[full] = (self.model["main"] - dropped) | created
        self.base[full] = set(self.model["main"])

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        full = data.draw(st.sampled_from(sorted(self.model.keys() - {"main"})))
        self.services.branches.drop("main", full.partition("@")[2])
        del self.model[full]

    @rule(hours=st.sampled_from([1, 5, 20, 60]))
    def wait(self, hours: int) -> None:
        self.world.clock.now += hours * HOUR_MS

    @rule(cold=st.booleans())
    def collect_history(self, cold: bool) -> None:
        if cold:
            self.services = fresh(self.world, spill=TIGHT)
        collect_history(self.world)

    @rule(at=st.integers(1, 12))
    def collect_and_crash(self, at: int) -> None:
        with suppress(Crash):
            collect_history(Faulty(self.world, at, "before").world)

    @invariant()
    def catalog_and_branches_are_whole(self) -> None:
        for catalog, names in self.model.items():
            assert [name for name in shown(self.services, catalog) if name[0] != "\x01"] == sorted(names)


BranchMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestBranchModel = BranchMachine.TestCase
