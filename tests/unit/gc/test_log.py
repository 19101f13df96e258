"""Expired files of Delta logs go, oldest first, and never one that any pin needs; sidecars that no
checkpoint names go later (I10, I15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.catalog import create, fakes, fresh, head_of, set_state
from tests.support.clones import clone, commit
from tests.support.delta_table import Killed, kill_at
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import copied
from turnstile.delta.core.pointer import POINTER
from turnstile.delta.log.files import list_log
from turnstile.delta.past import version_at
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace
from turnstile.gc.kinds import log
from turnstile.gc.scanner import Batch, GcContext
from turnstile.maintenance.core.cleanup import ORPHAN_MS
from turnstile.maintenance.holds import Holds
from turnstile.maintenance.pins import Pins
from turnstile.maintenance.state import open_state
from turnstile.maintenance.work import Maintainer
from turnstile.store.core.errors import NotFound, StateConflict, StorageFault
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import LOG, published_path
from turnstile.store.faults import Faults, no_faults

DAY = 86_400_000
HISTORY_MS = 7 * DAY
GRACE = Grace(history_ms=HISTORY_MS)
GROUP = "a0000000-0000-4000-8000-000000000001"


class Site:
    """A catalog with a table that gets a version a day, and checkpoints as they are due. Another
    table is made each week, so that the catalog has a past."""

    def __init__(self, **properties: str) -> None:
        self.services = fresh(history_ms=HISTORY_MS)
        self.world = fakes(self.services)
        self.id = create(self.services)
        self.files: dict[int, set[str]] = {}
        if properties:
            features = ["v2Checkpoint"] if properties.get("delta.checkpointPolicy") == "v2" else []
            self.alter(*features, **properties)

    def copy(self) -> Site:
        """The same on a world of its own."""
        made = Site.__new__(Site)
        made.world = copied(self.world)
        made.id = self.id
        made.files = dict(self.files)
        made.services = fresh(made.world, history_ms=HISTORY_MS)
        return made

    def alter(self, *features: str, **properties: str) -> int:
        """A commit that sets the table's properties, beside those it has to have, and its
        features."""
        zero = delta.version_zero("x", 0, *features, **properties).splitlines()[1:]
        table = {"io.unitycatalog.tableId": self.id}
        actions = [json.loads(line) for line in zero]
        actions[1]["metaData"]["configuration"] |= table
        for member in ("readerFeatures", "writerFeatures"):
            protocol = actions[0]["protocol"]
            if "v2Checkpoint" in features and "v2Checkpoint" not in protocol[member]:
                protocol[member].append("v2Checkpoint")
        return commit(self.world, self.id, *actions)

    def days(self, count: int, *, changes: bool = True) -> None:
        for _ in range(count):
            self.world.clock.now += DAY
            if changes and (self.world.clock.now // DAY) % 7 == 0:
                self.services.namespaces.create("main", (f"n{self.world.clock.now}",))
            version = commit(self.world, self.id)
            Publisher(self.world).publish(self.id)
            Maintainer(self.world).maintain(self.id)
            self.files[version] = self.read(version)

    def read(self, version: int, storage: Any = None) -> set[str]:
        return {file.path for file in open_state(storage or self.storage, version).files()}

    @property
    def storage(self) -> FakeStorage:
        return self.world.storages.open(head_of(self.world, self.id).location)

    @property
    def key(self) -> str:
        return self.world.space.location(head_of(self.world, self.id).location)

    def pins(self) -> Pins:
        services = fresh(self.world, history_ms=HISTORY_MS)
        return Pins(self.world, services.reader, services.metadata, history_ms=HISTORY_MS)

    def holds(self) -> Holds:
        return Holds(self.world, self.pins())

    def lowest(self) -> int:
        return min(pin.first for pin in self.pins().of(head_of(self.world, self.id)).pins)

    def collect(self, *, dry_run: bool = False, faults: Faults = no_faults) -> Report:
        return Collector(self.world, GRACE, faults=faults, workers=4).collect(("log",), dry_run=dry_run)

    def oldest(self) -> int:
        return min(list_log(self.storage).commits)

    def check(self, first: int) -> None:
        """Every version from ``first`` on has the files that it had, and the log has no gap."""
        files = list_log(self.storage)
        assert set(files.commits) == set(range(min(files.commits), max(files.commits) + 1))
        for version, paths in self.files.items():
            if version >= first:
                assert self.read(version) == paths, version


def ids(report: Report) -> list[str]:
    return [item.id for item in report.items]


@pytest.fixture(scope="module")
def quiet_catalog() -> Site:
    """Sixty days without a change of the catalog."""
    made = Site()
    made.days(60, changes=False)
    return made


@pytest.fixture(scope="module")
def sixty_days() -> Site:
    made = Site()
    made.days(60)
    return made


@pytest.fixture
def site(sixty_days: Site) -> Site:
    return sixty_days.copy()


def test_i15_what_is_older_than_the_retention_goes_up_to_a_checkpoint(site: Site) -> None:
    assert site.lowest() == 30, "thirty days ago"
    before = {stat.path for stat in site.storage.list(LOG)}
    dry = site.collect(dry_run=True)
    assert {stat.path for stat in site.storage.list(LOG)} == before and site.key
    done = site.collect()
    assert not done.problems and ids(done) == ids(dry) and done.deleted == len(dry.items) > 30
    gone = before - {stat.path for stat in site.storage.list(LOG)}
    assert gone == {item.id.removeprefix(f"{site.id}/") for item in done.items}
    assert done.freed == sum(item.bytes for item in done.items) > 0
    files = list_log(site.storage)
    assert (min(files.commits), min(files.checkpoints), min(files.checksums)) == (30, 30, 30)
    site.check(30)
    assert site.collect().items == (), "nothing is left to do"
    row = site.world.refs.rows[site.key]
    assert (row["readable_from"], row.get("kept")) == (30, None)
    assert done.items[0].id == f"{site.id}/{published_path(0)}"
    assert all(item.unreachable_since + item.age_ms > 0 and item.age_ms >= 0 for item in done.items)
    assert done.items[0].age_ms == pytest.approx(30 * DAY, abs=DAY)


def test_i15_nothing_goes_before_the_retention_is_over(site: Site) -> None:
    young = Site()
    young.days(29)
    assert young.collect().items == ()
    site.days(9)
    assert site.lowest() == 39
    site.collect()
    assert site.oldest() == 30, "the newest checkpoint that is not above what is needed stays"
    site.days(1)
    site.collect()
    assert site.oldest() == 40
    site.check(40)


@pytest.mark.parametrize("kind", ["clone", "snapshot", "reader", "transaction"])
def test_i10_a_pinned_version_stays_and_goes_when_it_is_not_pinned_any_more(kind: str) -> None:
    site = Site()
    site.days(25)
    services = fresh(site.world, history_ms=HISTORY_MS)
    journal = Journal(site.world, GroupRatifier(site.world, Ratifier(site.world), Limits()))
    if kind == "clone":
        clone(services, "default.t", "default.copy")
    if kind == "snapshot":
        services.named_snapshots.create("main", "kept")
    if kind == "transaction":
        content = delta.append("other", site.world.clock.now_ms())
        commits = (CommitRequest(create(services, "other"), 1, content=content),)
        request = GroupRequest(GROUP, commits, (ReadVersion(site.id, 25),))
        journal.announce(Announcement(request, owner="ann", ttl_ms=7 * DAY))
    site.days(35)
    if kind == "reader":
        site.holds().hold(site.id, "r", "p", first=25, last=25, ttl_ms=7 * DAY)
    assert site.lowest() == 25
    assert site.collect().problems == ()
    assert site.oldest() == 20
    site.check(25)
    if kind == "clone":
        services.dropper.drop("main", ("default",), "copy")
    if kind == "snapshot":
        services.named_snapshots.drop("main", "kept")
    if kind == "transaction":
        journal.abort(journal.entry(GROUP))
    site.days(20)
    site.collect()
    assert site.oldest() == 50
    site.check(50)


@pytest.mark.parametrize(
    ("properties", "days"),
    [
        ({"delta.deletedFileRetentionDuration": "interval 45 days"}, 45),
        ({"delta.logRetentionDuration": "interval 50 days"}, 50),
        ({"delta.logRetentionDuration": "interval 1 day"}, None),
    ],
)
def test_i10_time_travel_and_the_catalogs_history_decide_where_they_are_longer(
    properties: dict[str, str], days: int | None
) -> None:
    site = Site(**properties)
    site.days(75)
    latest = head_of(site.world, site.id).latest
    lowest = site.lowest()
    assert lowest == latest - days if days else latest - 16 < lowest < latest - 7, lowest
    site.collect()
    assert site.oldest() == lowest // 10 * 10 > 0
    site.check(site.oldest())


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableExpiredLogCleanup": "false"},
        {"delta.logRetentionDuration": "for a while"},
        {"turnstile.allowed-maintenance": "DATA_REORGANIZATION"},
    ],
)
def test_a_table_that_does_not_want_it_keeps_its_log(site: Site, properties: dict[str, str]) -> None:
    site.alter(**properties)
    report = site.collect()
    assert (report.items, report.problems, site.oldest()) == ((), (), 0)


def test_a_table_with_a_feature_that_is_not_known_keeps_its_log(site: Site) -> None:
    site.alter("aFeatureOfTheFuture")
    report = site.collect()
    assert report.items == () and site.oldest() == 0
    (problem,) = report.problems
    assert (problem.kind, problem.id) == ("log", site.id) and "aFeatureOfTheFuture" in problem.message


@pytest.mark.parametrize(("before", "oldest"), [("30", 30), ("31", 0)])
def test_i15_history_before_the_protected_version_goes_together_or_stays(site: Site, before: str, oldest: int) -> None:
    site.alter("checkpointProtection", **{"delta.requireCheckpointProtectionBeforeVersion": before})
    report = site.collect()
    assert (report.problems, site.oldest()) == ((), oldest)


@pytest.mark.parametrize("state", ["stuck", "leaving", "recovering", "dropped"])
def test_i10_only_a_table_in_ordinary_use_is_cleaned_up(site: Site, state: str) -> None:
    set_state(site.services, site.id, state)
    report = site.collect()
    assert (report.items, report.problems, site.oldest()) == ((), (), 0)


# -- what has to be there before anything goes -------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "empty", "damaged", "no protocol"])
def test_i15_a_checkpoint_that_cannot_be_read_is_no_start(site: Site, damage: str) -> None:
    (file,) = list_log(site.storage).checkpoints[30]
    if damage == "missing":
        site.storage.delete(file.path)
    elif damage == "no protocol":
        site.storage.delete(file.path)
        name = f"{LOG}{30:020d}.checkpoint.00000000-0000-4000-8000-000000000001.json"
        site.storage.put_if_absent(name, delta.lines({"checkpointMetadata": {"version": 30}}))
    else:
        site.storage.replace(file.path, b"" if damage == "empty" else b"PAR1 is not all")
    site.collect()
    assert site.oldest() == 20, "the one before it"
    site.check(20)


def test_i15_a_checkpoint_with_parts_counts_only_with_all_of_them(site: Site) -> None:
    (file,) = list_log(site.storage).checkpoints[30]
    found = site.storage.read(file.path)
    assert found is not None
    site.storage.delete(file.path)
    names = [f"{LOG}{30:020d}.checkpoint.{part:010d}.0000000002.parquet" for part in (1, 2)]
    site.storage.put_if_absent(names[0], found[0])
    site.collect()
    assert site.oldest() == 20


def test_i15_a_gap_behind_a_checkpoint_keeps_everything_before_it(site: Site) -> None:
    site.storage.delete(published_path(45))
    assert site.collect().items == () and site.oldest() == 0


def test_i10_marks_are_refused_above_the_floor_and_above_what_is_needed(site: Site) -> None:
    head = head_of(site.world, site.id)
    holds = site.holds()
    for boundary, problem in ((head.floor + 1, "restored, or moved"), (head.floor, "version 30"), (31, "version 30")):
        with pytest.raises(StateConflict, match=problem):
            holds.announce_cleanup(site.id, head.location, boundary)
    assert "revision" not in site.world.refs.rows[site.key]
    holds.announce_cleanup(site.id, head.location, 30)
    assert site.world.refs.rows[site.key]["readable_from"] == 30


def test_i15_what_the_pointer_leads_to_stays(site: Site) -> None:
    site.storage.replace(POINTER, b'{"version":20,"size":1}')
    site.collect()
    assert site.oldest() == 20
    site.storage.replace(POINTER, b"cannot be read")
    site.collect()
    assert site.oldest() == 30
    site.storage.delete(POINTER)
    site.days(10)
    assert site.storage.stat(POINTER) is not None
    site.storage.delete(POINTER)
    site.collect()
    assert site.oldest() == 40


def test_i15_what_the_head_still_carries_stays(site: Site) -> None:
    row = site.world.refs.rows[site.world.space.table(site.id)]
    assert row["tail_from"] > 30
    row["tail_from"] = 29
    site.collect()
    assert site.oldest() == 20


def test_i10_a_source_of_pins_that_cannot_be_read_keeps_everything(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> Any:
        raise StorageFault("it is away", remedy="wait")

    monkeypatch.setattr(Pins, "_transactions", lost)
    report = site.collect()
    assert report.items == () and len(report.problems) == 1 and site.oldest() == 0


def test_the_pins_are_not_read_where_nothing_could_go(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> Any:
        raise AssertionError("it costs a scan of the journal")

    for stats in list_log(site.storage).checkpoints.values():
        for stat in stats:
            site.storage.delete(stat.path)
    monkeypatch.setattr(Pins, "of", read)
    report = site.collect()
    assert (report.items, report.problems) == ((), ())


def test_checkpoints_are_not_read_where_no_sidecar_is_old(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> Any:
        raise AssertionError("it costs a read of each checkpoint")

    monkeypatch.setattr(log.Named, "read", read)
    report = site.collect()
    assert report.problems == () and report.deleted > 30


def test_a_protected_version_that_cannot_be_read_keeps_everything(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "protected_before", lambda *_: None)
    report = site.collect()
    assert (report.items, report.problems) == ((), ())


# -- whoever comes meanwhile -------------------------------------------------------------------------------------------


def test_i10_a_reader_that_comes_before_the_marks_is_left_and_one_that_comes_after_is_refused(site: Site) -> None:
    holds = site.holds()
    original = site.world.refs.transact

    def come_first(writes: Any, token: str) -> Any:
        site.world.refs.transact = original  # type: ignore[method-assign]
        holds.hold(site.id, "r", "ann", first=7, last=8, ttl_ms=7 * DAY)
        return original(writes, token)

    site.world.refs.transact = come_first  # type: ignore[method-assign]
    report = site.collect()
    assert report.deleted == 0 and "version 7" in report.problems[0].message and site.oldest() == 0
    assert "readable_from" not in site.world.refs.rows[site.key]
    holds.release(site.id, "r", "ann")
    site.collect()
    assert site.oldest() == 30
    with pytest.raises(StateConflict) as refused:
        holds.hold(site.id, "r", "ann", first=29, last=29, ttl_ms=DAY)
    assert refused.value.type == "VersionsGone"
    holds.hold(site.id, "r", "ann", first=30, last=30, ttl_ms=DAY)


def test_what_the_catalog_says_of_versions_whose_commits_are_gone(site: Site) -> None:
    when = head_of(site.world, site.id).last_ict
    site.collect()
    services = fresh(site.world, history_ms=90 * DAY)
    for days in (31, 45, 59):
        with pytest.raises(StateConflict) as refused:
            clone(services, "default.t", "default.old", time=when - days * DAY)
        assert refused.value.type == "CannotClone"
    with pytest.raises(NotFound) as unknown:
        version_at(site.world, head_of(site.world, site.id), when - 31 * DAY)
    assert "its log is not kept so long" in unknown.value.remedy
    assert version_at(site.world, head_of(site.world, site.id), when - 29 * DAY).version == 31


def test_i10_marks_of_a_vacuum_stay_and_what_it_kept_below_the_boundary_is_not_whole_any_more(site: Site) -> None:
    site.holds().hold(site.id, "r", "ann", first=5, last=5, ttl_ms=DAY)
    site.holds().hold(site.id, "s", "ann", first=35, last=35, ttl_ms=DAY)
    plan = site.holds().announce(site.id)
    assert {5, 35} <= plan.marks.kept and plan.marks.readable_from > 50
    site.collect()
    assert site.oldest() == 0
    site.holds().release(site.id, "r", "ann")
    site.collect()
    row = site.world.refs.rows[site.key]
    assert site.oldest() == 30 and "5" not in row["kept"] and "35" in row["kept"]
    assert row["readable_from"] == plan.marks.readable_from


@pytest.mark.parametrize("change", ["state", "location", "floor"])
def test_i10_a_table_that_changes_between_two_batches_keeps_the_rest(
    site: Site, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = site.world.refs.rows[site.world.space.table(site.id)]
    monkeypatch.setattr(log, "BATCH", 10)
    count = iter(range(1000))

    def leave(point: str) -> None:
        if point == "collect.deleted" and next(count) == 14:
            there = f"{row['location']}-2"
            if change == "location":  # with its owner, as if it had been moved
                key = site.world.space.location(there)
                site.world.refs.rows[key] = {**site.world.refs.rows[site.key], "key": key}
            row[change] = {"state": "leaving", "location": there, "floor": 20}[change]

    before = site.storage
    report = site.collect(faults=leave)
    assert report.problems and report.deleted == 20
    left = {stat.path for stat in before.list(LOG)}
    assert len([item for item in report.items if item.id.removeprefix(f"{site.id}/") not in left]) == 20


def test_i10_the_marks_are_written_once_for_all_batches(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "BATCH", 5)
    assert site.collect().deleted > 30
    assert site.world.refs.rows[site.key]["revision"] == 1


def test_i10_a_process_that_was_frozen_removes_nothing_more(site: Site) -> None:
    count = iter(range(1000))

    def freeze(point: str) -> None:
        if point == "collect.deleted" and next(count) == 5:
            site.world.clock.now += log.REMOVAL_MS + 1

    before = len(list(site.storage.list(LOG)))
    report = site.collect(faults=freeze)
    assert report.deleted == 0 and "longer than 10 minutes" in report.problems[0].message
    assert len(list(site.storage.list(LOG))) == before - 6
    site.check(site.oldest() // 10 * 10 + 10)
    site.collect()
    assert site.oldest() == 30


@pytest.mark.parametrize("policy", ["classic", pytest.param("v2", marks=pytest.mark.slow)])
def test_i15_a_crash_after_any_removal_leaves_a_log_that_reads_and_the_next_run_goes_on(policy: str) -> None:
    asked = {
        "delta.checkpointPolicy": policy,
        "delta.checkpointInterval": "3",
        "delta.logRetentionDuration": "interval 9 days",
    }
    site = Site(**asked)
    site.days(24)
    lowest = site.lowest()
    start = copied(site.world)
    visits = len(site.collect().items)
    end = set(site.world.storages.files)
    oldest = site.oldest()
    assert visits > 8 and oldest > 3
    for visit in range(1, visits + 1):
        site.world = copied(start)
        with pytest.raises(Killed):
            site.collect(faults=kill_at("collect.deleted", visit))
        site.check(lowest)
        site.collect()
        assert site.oldest() == oldest
        assert set(site.world.storages.files) == end
        site.check(lowest)


# -- sidecars ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def split_for_sixty_days() -> Site:
    made = Site(**{"delta.checkpointPolicy": "v2"})
    made.days(60)
    return made


@pytest.fixture
def split(split_for_sixty_days: Site) -> Site:
    """A table with checkpoints that have sidecars."""
    return split_for_sixty_days.copy()


def sidecars(site: Site) -> set[str]:
    return {stat.path.removeprefix(SIDECARS) for stat in site.storage.list(SIDECARS)}


def test_i15_sidecars_go_after_the_checkpoints_that_name_them(split: Site) -> None:
    assert len(sidecars(split)) == 6
    kept = {name for name in sidecars(split) if name in named_by(split, range(30, 61))}
    assert len(kept) == 4
    dry = split.collect(dry_run=True)
    report = split.collect()
    assert ids(report) == ids(dry) and report.problems == ()
    assert sidecars(split) == kept and split.oldest() == 30
    gone = [item.id for item in report.items if "/_sidecars/" in item.id]
    assert len(gone) == 2 and [item.id for item in report.items][-2:] == gone, "the last"
    split.check(30)
    assert split.collect().items == ()


def named_by(site: Site, versions: range) -> set[str]:
    found = set[str]()
    for version, stats in list_log(site.storage).checkpoints.items():
        for stat in stats:
            content = site.storage.read(stat.path)
            assert content is not None
            actions = [json.loads(line) for line in content[0].splitlines()]
            if version in versions:
                found |= {action["sidecar"]["path"] for action in actions if "sidecar" in action}
    return found


def test_i15_a_sidecar_of_a_writer_that_died_goes_after_a_week(split: Site) -> None:
    split.collect()
    split.storage.put_if_absent(f"{SIDECARS}orphan.parquet", b"of a crash")
    split.world.clock.now += ORPHAN_MS - 60_000
    assert split.collect().items == ()
    split.world.clock.now += 60_000
    before = sidecars(split)
    (item,) = split.collect().items
    assert item.id == f"{split.id}/{SIDECARS}orphan.parquet" and item.bytes == 10
    assert before - sidecars(split) == {"orphan.parquet"}


def test_i15_sidecars_stay_where_a_checkpoint_cannot_be_read(split: Site) -> None:
    split.storage.put_if_absent(f"{SIDECARS}orphan.parquet", b"of a crash")
    split.world.clock.now += ORPHAN_MS
    split.storage.put_if_absent(f"{LOG}{59:020d}.checkpoint.parquet", b"damaged")
    before = sidecars(split)
    report = split.collect()
    assert sidecars(split) == before
    (problem,) = report.problems
    assert "cannot be read" in problem.message
    split.storage.replace(f"{LOG}{59:020d}.checkpoint.parquet", b"")
    assert split.collect().problems == () and "orphan.parquet" not in sidecars(split)


def test_i15_a_sidecar_that_comes_to_be_named_stays(split: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    split.collect()
    split.storage.put_if_absent(f"{SIDECARS}orphan.parquet", b"of a crash")
    split.world.clock.now += ORPHAN_MS
    name = f"{LOG}{55:020d}.checkpoint.00000000-0000-4000-8000-000000000055.json"
    original = Holds.announce_cleanup

    def late(*given: Any) -> None:
        split.storage.put_if_absent(name, delta.lines({"sidecar": {"path": "orphan.parquet", "sizeInBytes": 10}}))
        original(*given)

    monkeypatch.setattr(Holds, "announce_cleanup", late)
    report = split.collect()
    assert report.deleted == 0 and "orphan.parquet" in sidecars(split)
    assert "names" in report.problems[0].message


def followed(report: Report) -> list[str]:
    return [id for id in ids(report) if "@seq:" in id]


def test_a_catalog_without_changes_does_not_keep_logs_for_ever(quiet_catalog: Site) -> None:
    site = quiet_catalog.copy()
    before = fresh(site.world).reader.current("main")
    assert site.lowest() == 0, "the HEAD with which the history begins is as old as the table"
    assert followed(site.collect(dry_run=True)) == [f"main@seq:{before.commit.seq}"]
    assert fresh(site.world).reader.current("main").commit == before.commit
    report = site.collect()
    after = fresh(site.world).reader.current("main")
    assert len(report.items) == 1 and report.problems == () and site.oldest() == 0
    assert after.commit.seq == before.commit.seq + 1
    assert list(after.index.iterate()) == list(before.index.iterate())
    for _ in range(7):
        site.days(1, changes=False)
        assert site.collect().items == (), "one a history"
    site.days(2, changes=False)
    assert site.lowest() == 39 and followed(site.collect()) == []
    assert site.oldest() == 30
    site.check(30)


def test_where_something_else_holds_the_log_no_change_is_made(quiet_catalog: Site) -> None:
    site = quiet_catalog.copy()
    site.alter(**{"delta.logRetentionDuration": "interval 90 days"})
    Publisher(site.world).publish(site.id)
    assert site.collect().items == ()


def test_where_a_named_snapshot_or_the_history_holds_the_log_no_change_is_made() -> None:
    named = Site()
    named.services.named_snapshots.create("main", "early")
    named.days(45, changes=False)
    assert named.lowest() == 0 and named.collect().items == ()
    short = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 1 day")
    young = Site(**short)
    young.days(12, changes=False)
    assert list_log(young.storage).checkpoints.keys() == {10}, "which is within the history"
    assert young.lowest() == 0 and young.collect().items == ()
    at_checkpoint = Site(**short)
    at_checkpoint.days(9, changes=False)
    at_checkpoint.services.namespaces.create("main", ("then",))
    at_checkpoint.days(8, changes=False)
    report = at_checkpoint.collect()
    assert at_checkpoint.lowest() == at_checkpoint.oldest() == 10 and followed(report) == []


def test_a_change_that_comes_between_is_enough(quiet_catalog: Site) -> None:
    site = quiet_catalog.copy()

    scanner = log.ExpiredLogScanner(GcContext(site.world, GRACE, no_faults, 1, lambda: False))
    row = site.world.refs.rows[site.world.space.table(site.id)]
    (batch,) = [one for one in scanner.scan(row, site.world.clock.now) if isinstance(one, Batch)]
    assert [one for one in scanner.scan(row, site.world.clock.now) if isinstance(one, Batch)] == [], "once a run"
    site.services.namespaces.create("main", ("between",))
    seq = fresh(site.world).reader.current("main").commit.seq
    batch.remove()
    assert fresh(site.world).reader.current("main").commit.seq == seq
    batch.remove()
    assert fresh(site.world).reader.current("main").commit.seq == seq
