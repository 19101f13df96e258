"""Each kind of pin is found where it comes from, and a vacuum that begins while one comes either
leaves it or comes first (I10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.catalog import create, fakes, fresh, head_of
from tests.support.clones import clone, commit
from tests.support.fakes import delta
from tests.support.gc import collect
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.history.core import AsOf, NamedSnapshot
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import TableHead
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.maintenance.core.pins import Marks, Pin
from turnstile.maintenance.holders import MARGIN_MS, SKEW_MS, is_held, live, snapshots_with
from turnstile.maintenance.holds import Holds, VacuumPlan
from turnstile.maintenance.pins import Pins
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict, StorageFault, UnreadableRow
from turnstile.store.core.limits import Limits

DAY = 86_400_000
HOUR = 3_600_000
PLACE = "file:///lake/main/default/"


class Site:
    """A catalog with a table of which every version is a day younger than the one before."""

    def __init__(self, versions: int = 0, history_ms: int = 7 * DAY) -> None:
        self.services = fresh(history_ms=history_ms)
        self.world = fakes(self.services)
        self.id = create(self.services)
        self.holds = holds_of(self.services, history_ms)
        self.days(versions)

    def days(self, count: int) -> None:
        for _ in range(count):
            self.world.clock.now += DAY
            commit(self.world, self.id)
        self.services.publisher.publish(self.id)

    @property
    def latest(self) -> int:
        return head_of(self.world, self.id).latest

    def plan(self, **more: Any) -> VacuumPlan:
        return holds_of(fresh(self.world), 7 * DAY).plan(self.id, **more)

    def of(self, kind: str) -> list[Pin]:
        return [pin for pin in self.plan().pins if pin.kind == kind]

    def location(self) -> dict[str, Any]:
        return dict(self.world.refs.rows[self.world.space.location(PLACE + self.id)])


def holds_of(services: CatalogServices, history_ms: int) -> Holds:
    world = services.world
    return Holds(world, Pins(world, services.reader, services.metadata, history_ms=history_ms))


@pytest.fixture
def site() -> Site:
    return Site(versions=20)


def test_i10_the_latest_version_and_what_time_travel_shows_are_pinned(site: Site) -> None:
    assert site.of("latest") == [Pin(20, None, "latest")]
    assert site.of("retention") == [Pin(13, None, "retention")], "seven days ago"
    assert site.of("log") == [Pin(0, None, "log")]
    days = site.plan(files_ms=3 * DAY + HOUR)
    assert [pin.first for pin in days.pins if pin.kind == "retention"] == [16]
    now = site.world.clock.now
    assert abs(days.files_before_ms - (now - 3 * DAY - HOUR)) < 1000


def test_i10_every_moment_of_the_kept_history_and_the_head_of_then_are_pinned(site: Site) -> None:
    since, edge = site.of("moment")
    assert since == Pin(12, None, "moment"), "seven days ago, and an hour for changes that are under way"
    assert (edge.first, edge.last) == (0, 0), "the catalog was last changed when the table was made"
    site.services.namespaces.create("main", ("later",))
    site.days(9)
    assert [(pin.first, pin.last) for pin in site.of("moment")] == [(21, None), (20, 20)]
    assert clone(fresh(site.world), "default.t", "default.edge", seq=edge_of(site)).tables[0].version == 20


def edge_of(site: Site) -> int:
    return site.services.reader.current("main").commit.seq


def test_i10_a_younger_table_has_pins_since_it_was_made() -> None:
    site = Site(versions=3)
    assert [(pin.first, pin.last) for pin in site.of("moment")] == [(0, None)]
    assert site.plan().marks == Marks(0, frozenset())


def test_an_imported_table_has_no_moments_before_it_came(site: Site) -> None:
    """Its versions are older than its HEAD."""
    key = site.world.space.table(site.id)
    site.world.refs.rows[key] = {**site.world.refs.rows[key], "created": site.world.clock.now - 3 * DAY}
    since, *_ = site.of("moment")
    assert since == Pin(17, None, "moment")


def test_i10_named_snapshots_pin_what_they_recorded_or_what_there_was(site: Site) -> None:
    services = fresh(site.world)
    past = edge_of(site)
    services.namespaces.create("main", ("later",))
    services.named_snapshots.create("main", "edge", of=AsOf(seq=past))
    then = services.named_snapshots.create("main", "then")
    create(services, "young")
    services.named_snapshots.create("main", "before")
    site.days(3)
    assert {(pin.holder, pin.first, pin.last) for pin in site.of("snapshot")} == {
        ("then", 20, 20), ("before", 20, 20), ("edge", 0, 0)
    }  # fmt: skip
    for name, version in (("then", 20), ("edge", 0)):
        assert clone(services, "default.t", f"default.{name}", snapshot=name).tables[0].version == version
    site.days(20)
    for name, of in (("again", AsOf(snapshot="then")), ("same", AsOf(head=then.head))):
        assert services.named_snapshots.create("main", name, of=of).versions == then.versions, (
            "what is kept for its name"
        )
    for name in ("then", "before", "same"):
        services.named_snapshots.drop("main", name)
    assert {(pin.holder, pin.first) for pin in site.of("snapshot")} == {("edge", 0), ("again", 20)}


def test_i10_clones_pin_what_they_show_until_they_are_dropped(site: Site) -> None:
    services = fresh(site.world)
    (one,) = clone(services, "default.t", "default.one").tables
    site.days(2)
    (two,) = clone(services, "default.one", "default.two").tables
    assert {(pin.first, pin.last, pin.holder) for pin in site.of("clone")} == {
        (20, 20, one.table_id), (20, 20, two.table_id)
    }  # fmt: skip
    services.dropper.drop("main", ("default",), "one")
    assert [pin.holder for pin in site.of("clone")] == [two.table_id]
    for ask in (site.holds.plan, lambda one: site.holds._pins.of(head_of(site.world, one))):
        with pytest.raises(StateConflict) as refused:
            ask(two.table_id)
        assert refused.value.type == "TableNotActive"


def test_i10_a_clone_whose_version_is_not_known_pins_all(site: Site) -> None:
    (one,) = clone(fresh(site.world), "default.t", "default.one").tables
    del site.world.refs.rows[site.world.space.table(one.table_id)]
    assert site.of("clone") == [Pin(0, None, "clone", one.table_id)]
    assert site.plan().marks == Marks(0, frozenset())
    site.world.refs.damage(site.world.space.table(one.table_id))
    assert site.of("clone") == [Pin(0, None, "clone", one.table_id)]


def test_i10_a_transaction_with_a_damaged_row_pins_all_of_the_tables_that_were_announced(site: Site) -> None:
    reads = "b0000000-0000-4000-8000-000000000002"
    announce(site, reads, write=False, read=18)
    others = "c0000000-0000-4000-8000-000000000003"
    announce(site, others, write=False)
    for id in (reads, others):
        site.world.refs.damage(site.world.space.transaction(id))
    assert site.of("transaction") == [Pin(0, None, "transaction", reads)], "of the other one, nothing"
    assert (site.plan().marks, site.plan().files_before_ms) == (Marks(0, frozenset()), 0)
    (obj,) = [place for place in site.world.objs.rows if others in str(place)]
    site.world.objs.rows[obj] = replace(site.world.objs.rows[obj], payload=b"no content")
    with pytest.raises(UnreadableRow, match="nothing of any table is removed") as refused:
        site.plan()
    assert site.world.space.transaction(others) in refused.value.message
    del site.world.objs.rows[obj]
    with pytest.raises(UnreadableRow, match="its commits are not kept any more"):
        site.plan()


def announce(site: Site, id: str, *, write: bool = True, read: int | None = None) -> Journal:
    ratifier = Ratifier(site.world)
    journal = Journal(site.world, GroupRatifier(site.world, ratifier, Limits()))
    other = create(fresh(site.world), "other" + id[0])
    target = site.id if write else other
    version = head_of(site.world, target).latest + 1
    content = delta.append(id, site.world.clock.now_ms())
    commits = (CommitRequest(target, version, content=content),)
    reads = () if read is None else (ReadVersion(site.id, read),)
    journal.announce(Announcement(GroupRequest(id, commits, reads), owner="ann", ttl_ms=7 * DAY))
    return journal


def test_i10_announced_transactions_pin_what_they_are_based_on_until_they_are_settled(site: Site) -> None:
    id = "a0000000-0000-4000-8000-000000000001"
    reads = "b0000000-0000-4000-8000-000000000002"
    since = site.world.clock.now
    journal = announce(site, id)
    announce(site, reads, write=False, read=18)
    announce(site, "c0000000-0000-4000-8000-000000000003", write=False)  # is about another table
    until = {entry.id: entry.until for entry in journal.entries([])}
    assert len(until) == 3
    site.days(12)
    assert sorted(site.of("transaction"), key=lambda pin: pin.holder) == [
        Pin(20, None, "transaction", id, until[id], "ann"), Pin(18, None, "transaction", reads, until[reads], "ann")
    ], "past their end, too: nobody has aborted them"  # fmt: skip
    assert abs(site.plan().files_before_ms - (since - 7 * DAY)) < 1000, "its files may be a week older than its entry"
    assert site.plan().marks.readable_from == 18
    journal.abort(journal.entry(id))
    assert [pin.holder for pin in site.of("transaction")] == [reads]
    assert abs(site.plan().files_before_ms - (site.world.clock.now - 7 * DAY)) < 1000
    collect(site.world, "transactions")
    assert site.of("transaction") == []


def test_i10_readers_hold_versions_until_their_time_is_over(site: Site) -> None:
    now = site.world.clock.now
    pin = site.holds.hold(site.id, "stream", "ann", first=3, last=None, ttl_ms=HOUR)
    assert (pin.first, pin.last, pin.holder, pin.owner) == (3, None, "stream", "")
    assert now + HOUR <= (pin.until_ms or 0) <= now + HOUR + 1000
    assert [(p.first, p.last, p.owner) for p in site.of("reader")] == [(3, None, "ann")]
    site.holds.hold(site.id, "stream", "ann", first=5, last=5, ttl_ms=HOUR)
    assert [(p.first, p.last) for p in site.of("reader")] == [(5, 5)], "renewed"
    site.holds.hold(site.id, "stream", "ann", first=0, last=0, ttl_ms=HOUR)
    assert [(p.first, p.last) for p in site.of("reader")] == [(0, 0)]
    site.holds.hold(site.id, "stream", "bob", first=6, last=6, ttl_ms=HOUR)
    site.world.clock.now += HOUR + 30_000
    assert len(site.of("reader")) == 2, "clocks of servers differ"
    site.world.clock.now += 60_000
    assert site.of("reader") == []
    site.holds.hold(site.id, "stream", "ann", first=5, last=5, ttl_ms=HOUR)
    site.holds.release(site.id, "stream", "bob")
    assert len(site.of("reader")) == 1
    site.holds.release(site.id, "stream", "ann")
    site.holds.release(site.id, "stream", "ann")
    assert site.of("reader") == []
    assert "readers" not in site.location()
    before = site.location()
    site.holds.release(site.id, "stream", "ann")
    assert site.location() == before, "nothing is written"


def test_a_hold_that_cannot_be_is_refused_and_changes_nothing(site: Site) -> None:
    before = site.location()
    for more in ({"first": 21, "last": 21}, {"first": -1, "last": -1}, {"first": 1, "last": 1, "ttl_ms": 59_999},
                 {"first": 1, "last": 1, "ttl_ms": 7 * DAY + 1}):  # fmt: skip
        with pytest.raises(InvalidRequest):
            site.holds.hold(site.id, "r", "ann", **{"ttl_ms": HOUR, **more})  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        site.holds.hold("00000000-0000-4000-8000-0000000000ff", "r", "ann", first=0, last=0, ttl_ms=HOUR)
    with pytest.raises(InvalidRequest):
        site.holds.hold(site.id, "a b", "ann", first=1, last=1, ttl_ms=HOUR)
    with pytest.raises(InvalidRequest):
        site.holds.release(site.id, "a b", "ann")
    assert site.location() == before
    for edge in (60_000, 7 * DAY):
        site.holds.hold(site.id, "r", "ann", first=20, last=None, ttl_ms=edge)
        site.holds.hold(site.id, "r", "ann", first=0, last=0, ttl_ms=edge)
    fresh(site.world).dropper.drop("main", ("default",), "t")
    with pytest.raises(NotFound):
        site.holds.hold(site.id, "r", "ann", first=0, last=0, ttl_ms=HOUR)


# -- marks and those who come ------------------------------------------------------------------------------------------


def test_i10_what_a_vacuum_does_not_leave_can_be_held_and_cloned_no_more(site: Site) -> None:
    services = fresh(site.world)
    services.named_snapshots.create("main", "kept")
    site.days(20)
    plan = site.holds.announce(site.id)
    assert (plan.marks, plan.before) == (Marks(32, frozenset({20})), Marks())
    assert site.plan().before == plan.marks
    for version in (0, 19, 21, 31):
        with pytest.raises(StateConflict) as refused:
            site.holds.hold(site.id, "r", "ann", first=version, last=version, ttl_ms=HOUR)
        assert refused.value.type == "VersionsGone"
    for version in (20, 32, 40):
        site.holds.hold(site.id, "r", "ann", first=version, last=version, ttl_ms=HOUR)
    when = head_of(site.world, site.id).last_ict - 12 * DAY
    with pytest.raises(StateConflict) as cannot:
        clone(fresh(site.world), "default.t", "default.torn", time=when)
    assert cannot.value.type == "CannotClone" and cannot.value.details["version"] == 28
    assert clone(services, "default.t", "default.whole", snapshot="kept").tables[0].version == 20
    assert clone(services, "default.t", "default.again", time=when + 5 * DAY).tables[0].version == 33


def test_i10_a_clone_that_is_dropped_comes_back_only_while_its_version_is_whole(site: Site) -> None:
    services = fresh(site.world, history_ms=30 * DAY)
    clone(services, "default.t", "default.one")
    with_one = services.reader.current("main").head
    services.dropper.drop("main", ("default",), "one")
    services.resetter.reset("main", AsOf(head=with_one))
    again = services.reader.current("main").head
    services.dropper.drop("main", ("default",), "one")
    site.days(12)
    services.namespaces.create("main", ("later",))
    site.days(9)
    holds_of(services, 7 * DAY).announce(site.id)
    with pytest.raises(StateConflict) as refused:
        services.resetter.reset("main", AsOf(head=again))
    assert refused.value.type == "CannotReset"


@pytest.mark.parametrize("who", ["reader", "clone"])
def test_i10_what_comes_between_a_vacuums_pins_and_its_marks_is_left(site: Site, who: str) -> None:
    services = fresh(site.world)
    services.named_snapshots.create("main", "kept")
    site.days(20)
    original = site.world.refs.transact

    def come_first(writes: Any, token: str) -> Any:
        site.world.refs.transact = original  # type: ignore[method-assign]
        if who == "reader":
            site.holds.hold(site.id, "r", "ann", first=7, last=8, ttl_ms=HOUR)
        else:
            clone(services, "default.t", "default.one", snapshot="kept")
            services.named_snapshots.drop("main", "kept")
        return original(writes, token)

    site.world.refs.transact = come_first  # type: ignore[method-assign]
    kept = site.holds.announce(site.id).marks.kept
    assert kept == ({7, 8, 20} if who == "reader" else {20})
    assert site.location()["kept"] == {str(version) for version in kept}


@pytest.mark.parametrize("who", ["reader", "clone"])
def test_i10_a_reader_that_comes_after_a_vacuums_marks_is_refused_also_if_it_looked_before(
    site: Site, who: str
) -> None:
    services = fresh(site.world)
    when = head_of(site.world, site.id).last_ict
    site.days(20)
    name = "write" if who == "reader" else "transact"
    original = getattr(site.world.refs, name)

    def mark_first(*args: Any) -> Any:
        setattr(site.world.refs, name, original)
        site.holds.announce(site.id)
        return original(*args)

    setattr(site.world.refs, name, mark_first)
    with pytest.raises(StateConflict) as refused:
        if who == "reader":
            site.holds.hold(site.id, "r", "ann", first=20, last=20, ttl_ms=HOUR)
        else:
            clone(services, "default.t", "default.one", time=when)
    assert refused.value.type == ("VersionsGone" if who == "reader" else "CannotClone")
    assert not site.location().get("clones") and not site.location().get("readers")


def test_i10_nothing_is_announced_for_a_table_that_is_not_in_use(site: Site) -> None:
    for state in ("leaving", "stuck", "recovering"):
        site.world.refs.rows[site.world.space.table(site.id)]["state"] = state
        with pytest.raises(StateConflict) as refused:
            site.holds.announce(site.id)
        assert refused.value.type == "TableNotActive"
    site.world.refs.rows[site.world.space.table(site.id)]["state"] = "active"
    original = site.world.refs.transact

    def leave_first(writes: Any, token: str) -> Any:
        site.world.refs.rows[site.world.space.table(site.id)]["state"] = "leaving"
        return original(writes, token)

    site.world.refs.transact = leave_first  # type: ignore[method-assign]
    with pytest.raises(StateConflict):
        site.holds.announce(site.id)
    assert "readable_from" not in site.location()


def test_i10_a_purge_waits_for_readers_and_for_named_snapshots(site: Site) -> None:
    services = fresh(site.world)
    services.named_snapshots.create("main", "kept")
    site.holds.hold(site.id, "r", "ann", first=7, last=8, ttl_ms=7 * DAY)
    services.dropper.drop("main", ("default",), "t")
    site.world.clock.now += 7 * DAY + 30_000
    report = collect(site.world, "dropped")
    assert report.deleted == 0
    assert [problem.message for problem in report.problems] == [
        "1 readers, 1 snapshots need its files, nothing is purged"
    ]
    site.world.clock.now += DAY
    assert [problem.message for problem in collect(site.world, "dropped").problems] == [
        "1 snapshots need its files, nothing is purged"
    ]
    services.named_snapshots.drop("main", "kept")
    assert collect(site.world, "dropped").deleted == 1
    assert not [file for file in site.world.storages.files if site.id in file]


# -- what cannot be read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["log", "journal", "catalog", "owner", "clones"])
def test_i10_where_a_source_of_pins_cannot_be_read_nothing_is_announced(site: Site, source: str) -> None:
    clone(fresh(site.world), "default.t", "default.one")
    holds = holds_of(fresh(site.world), 7 * DAY)
    refs = site.world.refs
    space = site.world.space

    def fail(*_: Any, **__: Any) -> Any:
        raise StorageFault("no answer")

    read = refs.read
    if source == "log":
        site.world.storages.open = fail  # type: ignore[method-assign]
    elif source == "journal":
        refs.scan = fail  # type: ignore[method-assign]
    elif source == "clones":
        refs.read_many = fail  # type: ignore[method-assign]
    else:
        key = space.catalog("main") if source == "catalog" else space.location(PLACE + site.id)
        refs.read = lambda wanted: fail() if wanted == key else read(wanted)  # type: ignore[method-assign]
    before = {key: dict(row) for key, row in refs.rows.items()}
    with pytest.raises(StorageFault):
        holds.announce(site.id)
    assert refs.rows == before


@pytest.mark.parametrize("row", [None, "another"])
def test_i10_a_location_that_is_not_the_tables_is_left_alone(site: Site, row: str | None) -> None:
    key = site.world.space.location(PLACE + site.id)
    if row is None:
        del site.world.refs.rows[key]
    else:
        site.world.refs.rows[key]["table_id"] = row
    with pytest.raises(StateConflict) as refused:
        site.holds.announce(site.id)
    assert refused.value.type == "TableNotActive"


def test_i10_properties_that_cannot_be_read_keep_everything(site: Site) -> None:
    head = head_of(site.world, site.id)
    pins = site.holds._pins
    pins._properties = lambda _: {  # type: ignore[method-assign]
        "delta.deletedFileRetentionDuration": "a while", "delta.logRetentionDuration": "interval 5 days"
    }  # fmt: skip
    found = {pin.kind: pin.first for pin in pins.of(head).pins}
    assert (found["retention"], found["log"]) == (0, 15)
    assert site.holds.plan(site.id).files_before_ms == 0


# -- who holds a version at all ----------------------------------------------------------------------------------------


class SnapshotsOnly:
    """A tree and its store, with nothing but these snapshots."""

    catalog = "main"

    def __init__(self, *snapshots: NamedSnapshot) -> None:
        self.index = self
        self._snapshots = {snapshot.name: snapshot for snapshot in snapshots}

    def iterate(self, *_: str) -> Any:
        return [(name, IndexEntry("snapshot", name)) for name in self._snapshots]

    def entity(self, _: str, name: str) -> NamedSnapshot:
        return self._snapshots[name]


def test_i10_snapshots_show_a_table_that_they_recorded_or_that_was_there(site: Site) -> None:
    head = replace(head_of(site.world, site.id), created=1_000, changed_at=5_000)
    dropped = replace(head, state="dropped")
    end = (5_000 + MARGIN_MS) * 1000

    def shown(of: TableHead, at: int, versions: dict[str, int] | None = None) -> bool:
        only: Any = SnapshotsOnly(NamedSnapshot("s", "h", 1, at, 1, versions=versions or {}))
        return [snapshot.name for snapshot in snapshots_with(of, only, only)] == ["s"]

    assert (shown(head, 999_999), shown(head, 1_000_000), shown(head, end + 1)) == (False, True, True)
    assert (shown(dropped, 1_000_000), shown(dropped, end), shown(dropped, end + 1)) == (True, True, False)
    assert shown(head, 1, {head.table_id: 3}) and shown(dropped, end + 1, {head.table_id: 3})
    assert not shown(head, 2_000_000, {"another": 3})


def test_i10_a_reader_is_there_until_its_time_is_over_on_every_clock(site: Site) -> None:
    site.holds.hold(site.id, "r", "ann", first=1, last=1, ttl_ms=HOUR)
    owner = Location.from_row(site.location())
    until = owner.readers[0].until
    assert [len(list(live(owner, now))) for now in (until + SKEW_MS, until + SKEW_MS + 1)] == [1, 0]


def test_i10_a_table_whose_owner_is_not_known_counts_as_held(site: Site) -> None:
    tree = site.services.reader.current("main")
    store = site.services.reader.store
    head = head_of(site.world, site.id)
    assert not is_held(site.world, store, head, tree)
    assert not is_held(site.world, store, head, tree, site.location())
    assert is_held(site.world, store, head, tree, {**site.location(), "clones": {"c"}})
    del site.world.refs.rows[site.world.space.location(PLACE + site.id)]
    assert is_held(site.world, store, head, tree)
