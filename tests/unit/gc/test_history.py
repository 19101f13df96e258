"""A catalog's past goes when no reader can need it any more, and never in part (I9, I10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.catalog import MAIN, create, fakes, fresh
from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, HISTORY_GRACE, collect_history, days, everything, names_at, put_namespaces
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.rows import RECENT, drop_catalog, forget_catalog
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS, SETTLED_MS, BloomFilter, Grace, Item
from turnstile.gc.kinds.dropped import DroppedCatalogScanner
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import SpillLimits
from turnstile.store.ports import AllAccepted, Rejected

TIGHT = SpillLimits(embedded=150, segment=300)


def commits(world: FakeWorld) -> set[str]:
    return {id for space, id in world.objs.rows if id.startswith("commit/") and space == "test/main"}


def test_old_commits_and_what_only_they_led_to_go_and_the_recent_heads_stay_whole() -> None:
    services = fresh(spill=TIGHT)
    world = fakes(services)
    for number in range(60):
        put_namespaces(services, "same", f"n{number:02d}", comment=str(number))
        days(world, 0.3)
    heads = world.refs.rows["test/catalog/main"]["recent"]
    days(world, 30)
    before = len(world.objs.rows)
    report = collect_history(world)
    assert report.complete and report.deleted == len(report.items) > 60
    assert len(world.objs.rows) == before - report.deleted
    assert commits(world) == set(heads)
    for head in heads:
        names_at(world, head)
    assert names_at(world, heads[0]) == ["default", *(f"n{number:02d}" for number in range(60)), "same"]
    entities = [id for space, id in world.objs.rows if id.startswith("entity/") and space == "test/main"]
    assert len(entities) <= 62 + RECENT + 10, "and what lies outside the ranges of shared segments"
    assert collect_history(world).items == ()


def test_i10_age_counts_from_when_a_thing_was_replaced_not_from_its_creation() -> None:
    services = fresh()
    world = fakes(services)
    old = put_namespaces(services, "n", comment="old")
    days(world, 100)
    for number in range(RECENT + 1):
        put_namespaces(services, "n", comment=str(number))
    days(world, 1.9)
    assert f"main/{old}" not in {item.id for item in collect_history(world).items}
    assert names_at(world, old) == ["default", "n"]
    days(world, 0.5)
    report = collect_history(world)
    assert f"main/{old}" in {item.id for item in report.items}
    assert all(item.age_ms >= 2 * DAY for item in report.items)


def test_i10_a_head_of_the_kept_history_is_whole_however_long_it_was_the_head() -> None:
    services = fresh(spill=TIGHT)
    world = fakes(services)
    put_namespaces(services, *(f"n{number:02d}" for number in range(30)))
    days(world, 50)
    long = put_namespaces(services, "n05", comment="was the HEAD for long")
    days(world, 50)
    for number in range(RECENT + 5):
        put_namespaces(services, f"n{number:02d}", comment="again")
    days(world, 1)
    collect_history(world)
    then = fresh(world).history.tree("main", AsOf(time=world.clock.now - 40 * DAY))
    assert then.head == long
    names_at(world, long)


def test_what_lost_attempts_left_behind_goes() -> None:
    services = fresh(spill=TIGHT)
    world = fakes(services)
    put_namespaces(services, *(f"n{number:02d}" for number in range(20)))
    with pytest.raises(Crash):
        put_namespaces(fresh(Faulty(world, 1, "after").world), "lost")
    lost = commits(world) - {commit.head for commit in services.history.log("main").commits}
    assert len(lost) == 1
    days(world, 1)
    put_namespaces(services, "later")
    days(world, 3)
    report = collect_history(world)
    assert {item.id for item in report.items if "commit/" in item.id} == {f"main/{id}" for id in lost}
    assert len([item for item in report.items if "entity/" in item.id]) == 1


def test_i10_gc_in_the_middle_of_a_change_takes_nothing_of_it() -> None:
    """Between the objs and the swap, and between the tree that was read and the objs."""
    services = fresh(spill=TIGHT)
    world = fakes(services)
    for number in range(25):
        put_namespaces(services, f"n{number:02d}")
        days(world, 1)
    original = world.objs.put_many

    def collecting(objs: object) -> None:
        collect_history(world)
        original(objs)  # type: ignore[arg-type]
        collect_history(world)

    world.objs.put_many = collecting  # type: ignore[method-assign]
    head = put_namespaces(services, "mine", "n03", comment="new")
    assert len(names_at(world, head)) == 27


def test_i10_a_page_token_outlives_any_collection() -> None:
    services = fresh()
    world = fakes(services)
    for number in range(6):
        create(services, f"t{number}")
    days(world, 30)
    first = services.listings.tables(*MAIN, max_results=2)
    for number in range(RECENT + 2):
        services.renamer.rename(*MAIN, "t5" if number == 0 else f"u{number}", f"u{number + 1}")
    services.dropper.drop(*MAIN, "t3")
    world.clock.now += HOUR_MS - 60_000
    Collector(world, Grace(history_ms=3 * HOUR_MS), workers=1).collect(["history"], dry_run=False)
    rest = fresh(world).listings.tables(*MAIN, page_token=first.next_token)
    assert [table.name for table in (*first.items, *rest.items)] == [f"t{number}" for number in range(6)]


def test_a_dry_run_changes_nothing_and_says_what_a_run_does() -> None:
    services = fresh()
    world = fakes(services)
    for number in range(40):
        put_namespaces(services, f"n{number}")
    days(world, 10)
    before = everything(world)
    report = collect_history(world, dry_run=True)
    assert everything(world) == before
    assert [item.id for item in collect_history(world).items] == [item.id for item in report.items] != []


def test_short_runs_end_where_a_long_one_does() -> None:
    worlds = []
    for most in (10_000, 7):
        services = fresh(spill=TIGHT)
        world = fakes(services)
        for number in range(50):
            put_namespaces(services, f"n{number % 7}", comment=str(number))
        days(world, 10)
        while not collect_history(world, most=most).complete:
            pass
        worlds.append(set(world.objs.rows))
    assert worlds[0] == worlds[1]


def test_i9_a_crash_at_any_step_leaves_every_head_whole_or_gone_and_the_next_run_goes_on() -> None:
    def catalog_with_dead_objs() -> tuple[FakeWorld, list[str]]:
        services = fresh(spill=TIGHT)
        world = fakes(services)
        heads = [put_namespaces(services, f"n{number % 9}", comment=str(number)) for number in range(45)]
        days(world, 10)
        return world, heads

    world, _ = catalog_with_dead_objs()
    faulty = Faulty(world)
    collect_history(faulty.world)
    end = set(world.objs.rows)
    steps = len(faulty.writes)
    assert steps > 30
    for at in range(1, steps + 1, 3):
        world, heads = catalog_with_dead_objs()
        with suppress(Crash):
            collect_history(Faulty(world, at, "after" if at % 2 else "before").world)
        there = [head in commits(world) for head in heads]
        assert there == sorted(there), "the oldest go first"
        for head, is_there in zip(heads, there, strict=True):
            if is_there:
                names_at(world, head)
        collect_history(world)
        assert set(world.objs.rows) == end


def test_a_dropped_catalogs_objs_go_after_its_grace_and_those_of_its_tables_with_them() -> None:
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.namespaces.create("other", ("default",))
    create(services, "t", catalog="other")
    services.catalogs.drop("other", force=True)
    days(world, 1.9)
    assert [item for item in collect_history(world).items if item.kind == "catalogs"] == []
    days(world, 0.3)
    report = collect_history(world)
    assert {item.kind for item in report.items} == {"catalogs"}
    assert {id.split("/")[0] for space, id in world.objs.rows if space == "test/other"} == {"metadata"}
    assert not [key for key in world.refs.rows if "/gone/" in key]
    assert collect_history(world).items == ()


def test_i10_a_dropped_catalogs_objs_stay_while_a_write_of_its_time_may_still_come() -> None:
    """Until then objs in its partition may change, and a moment of its past may be read."""
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.catalogs.drop("other", force=True)
    objs = set(world.objs.rows)
    dropped_ms = world.clock.now
    world.clock.now = dropped_ms + HISTORY_GRACE.history_ms + SETTLED_MS - 60_000
    assert collect_history(world).items == () and set(world.objs.rows) == objs
    world.clock.now += 60_000
    assert {item.kind for item in collect_history(world).items} == {"catalogs"}


def test_i10_a_catalog_that_is_created_again_between_look_and_removal_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.namespaces.create("other", ("default",))
    services.catalogs.drop("other", force=True)
    days(world, 3)
    look = DroppedCatalogScanner._due
    objs = set(world.objs.rows)

    def created_after_the_look(*of: Any) -> Iterator[Item | None]:
        yield from list(look(*of))
        services.catalogs.create("OTHER")

    monkeypatch.setattr(DroppedCatalogScanner, "_due", created_after_the_look)
    report = Collector(world, HISTORY_GRACE, workers=1).collect(("catalogs",), dry_run=False)
    assert report.deleted == 0
    assert {problem.message for problem in report.problems} == {"there is a catalog of that name again"}
    assert objs <= set(world.objs.rows)


def test_i10_a_catalog_that_was_created_again_keeps_what_is_its_own() -> None:
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.namespaces.create("other", ("old",))
    services.namespace_dropper.drop("other", ("old",))
    services.catalogs.drop("other")
    services.catalogs.create("OTHER")
    services.namespaces.create("other", ("new",))
    days(world, 3)
    collect_history(world)
    head = world.refs.rows["test/catalog/other"]["head"]
    assert names_at(world, head, "other") == ["new"]
    assert not [key for key in world.refs.rows if "/gone/" in key]
    left = {id for space, id in world.objs.rows if space == "test/other"}
    assert len(left) == 3, "two commits and a namespace"


def test_i10_a_catalog_created_between_look_and_removal_keeps_its_objs() -> None:
    services = fresh()
    world = fakes(services)
    services.catalogs.create("other")
    services.catalogs.drop("other")
    days(world, 3)
    original = world.objs.list

    def creating(space: str, prefix: str):  # type: ignore[no-untyped-def]
        if space == "test/other" and "test/catalog/other" not in world.refs.rows:
            services.catalogs.create("other")
        return original(space, prefix)

    world.objs.list = creating  # type: ignore[method-assign]
    collect_history(world)
    assert names_at(world, world.refs.rows["test/catalog/other"]["head"], "other") == []


def test_i10_a_name_has_one_note_of_its_last_drop_and_it_goes_only_as_it_was_looked_at() -> None:
    services = fresh()
    world = fakes(services)
    head = world.refs.rows["test/catalog/main"]["head"]
    key = "test/gone/main"
    world.refs.rows[key] = {"key": key, "kind": "gone", "name": "main", "created": 1}
    looked_at = dict(world.refs.rows[key])
    answer = world.refs.transact(drop_catalog("test/catalog/main", key, "main", head, 7), "token")
    assert isinstance(answer, AllAccepted) and world.refs.rows[key]["created"] == 7
    assert isinstance(world.refs.write(forget_catalog(looked_at)), Rejected)
    assert key in world.refs.rows


def dropped_twice(services: CatalogServices) -> str:
    """A catalog that came, went and came again long ago, and went a moment ago; its last HEAD with
    a name in it."""
    world = fakes(services)
    services.catalogs.create("other")
    services.catalogs.drop("other")
    days(world, 1)
    services.catalogs.create("other")
    services.namespaces.create("other", ("n",))
    head = str(world.refs.rows["test/catalog/other"]["head"])
    days(world, 3)
    services.namespace_dropper.drop("other", ("n",))
    services.catalogs.drop("other")
    return head


def test_i10_the_grace_of_a_catalog_dropped_twice_counts_from_the_second_time() -> None:
    services = fresh()
    world = fakes(services)
    head = dropped_twice(services)
    collect_history(world)
    assert names_at(world, head, "other") == ["n"]
    days(world, 3)
    assert collect_history(world).items
    assert not [id for space, id in world.objs.rows if space == "test/other"]


def test_i10_a_catalog_dropped_again_since_its_note_was_found_keeps_its_grace() -> None:
    """The collector is slow: it has found the note of the first drop."""
    services = fresh()
    world = fakes(services)
    heads: list[str] = []
    scan = world.refs.scan

    def slow(kind: str, **how):  # type: ignore[no-untyped-def]
        if kind != "gone":
            return scan(kind, **how)
        heads.append(dropped_twice(services))
        return iter([{"key": "test/gone/other", "kind": "gone", "name": "other", "created": 1}])

    world.refs.scan = slow  # type: ignore[method-assign,assignment]
    collect_history(world)
    assert names_at(world, heads[0], "other") == ["n"]


def test_a_history_that_would_not_protect_listings_is_refused() -> None:
    with pytest.raises(ValueError, match="page tokens"):
        Grace(history_ms=3 * HOUR_MS - 1)


def test_a_bloom_filter_denies_no_member_and_claims_few_others() -> None:
    first = BloomFilter(20_000, 1)
    other = BloomFilter(20_000, 2)
    for number in range(1000):
        first.add(f"entity/{number}")
        other.add(f"entity/{number}")
    assert all(f"entity/{number}" in first for number in range(1000))
    wrong = [{n for n in range(1000, 21_000) if f"entity/{n}" in claimed} for claimed in (first, other)]
    assert 0 < len(wrong[0]) < 20
    assert not wrong[0] & wrong[1], "what one run takes for reachable, the next does not"


class HistoryMachine(RuleBasedStateMachine):
    """Changes, time and collections at random. Every HEAD of the kept history can be read as it
    was."""

    def __init__(self) -> None:
        super().__init__()
        self.services = fresh(spill=TIGHT)
        self.world = fakes(self.services)
        self.past: list[tuple[str, int, list[str]]] = []  # HEAD, until when, names
        self.model: set[str] = set()

    def _changed(self, head: str) -> None:
        now = self.world.clock.now
        if self.past:
            self.past[-1] = (self.past[-1][0], now, self.past[-1][2])
        self.past.append((head, 10**18, sorted({"default", *self.model})))

    @rule(name=st.integers(0, 30), comment=st.integers(0, 3))
    def write(self, name: int, comment: int) -> None:
        self.model.add(f"n{name:02d}")
        self._changed(put_namespaces(self.services, f"n{name:02d}", comment=str(comment)))

    @rule(low=st.integers(0, 30), width=st.integers(1, 10))
    def remove(self, low: int, width: int) -> None:
        gone = [name for name in self.model if low <= int(name[1:]) < low + width]
        if gone:
            self.model -= set(gone)
            edit = Edit("remove", remove=tuple((name,) for name in gone))
            self._changed(self.services.committer.commit("main", lambda _: edit).head)

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
    def what_is_kept_is_whole(self) -> None:
        cold = fresh(self.world)
        for head, until, there in self.past:
            if until > self.world.clock.now - HISTORY_GRACE.history_ms:
                assert names_at(self.world, head) == there
                assert cold.history.tree("main", AsOf(head=head)).head == head
            else:
                with suppress(NotFound):
                    assert [key for key, _ in cold.history.tree("main", AsOf(head=head)).subtree(())] == there


HistoryMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
TestHistoryModel = HistoryMachine.TestCase
