"""Files of Iceberg tables that no metadata names go; files that a kept metadata file names stay
(I10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace as replace_context
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.support.clones import clone
from tests.support.examples import examples
from tests.support.faults import Crash
from tests.support.gc import DAY, days, everything
from tests.support.iceberg.client import SALES, T1, VIEW, Iceberg, others, set_properties, set_ref
from tests.support.iceberg.lake_files import LakeFiles
from turnstile.catalog.core.entities import ICEBERG_TABLE, ICEBERG_VIEW, IcebergTable
from turnstile.catalog.core.rows import CatalogHead
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, SETTLED_MS, Grace
from turnstile.gc.iceberg_marks import Marks, NotKnown
from turnstile.gc.iceberg_scan import entities_of
from turnstile.gc.kinds.iceberg_files import IcebergDataScanner, _CatalogScan
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem
from turnstile.gc.trees import Fence, KeptTrees
from turnstile.iceberg.core.expiry import EXPIRE, GC_ENABLED, MAX_SNAPSHOT_AGE, REMOVE
from turnstile.iceberg.core.files import avro, manifests
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import Kind
from turnstile.store.core.writes import Row
from turnstile.store.faults import no_faults
from turnstile.store.ports import Stat

GRACE = Grace(history_ms=2 * DAY, staging_ms=DAY, files_ms=3 * DAY)
ALL: tuple[Kind, ...] = ("iceberg-snapshots", "iceberg", "iceberg-files")
PROPERTIES = {EXPIRE: "true", REMOVE: "true", MAX_SNAPSHOT_AGE: "0", "write.metadata.previous-versions-max": "1"}


@pytest.fixture
def lake() -> LakeFiles:
    api = Iceberg()
    api.create("t1", properties=PROPERTIES)
    days(api.world, 1)
    return LakeFiles(api)


def collect(lake: LakeFiles, *kinds: Kind, dry_run: bool = False, **more: Any) -> Report:
    collector = Collector(lake.client.world, more.pop("grace", GRACE), workers=1, **more)
    return collector.collect(kinds or ("iceberg-files",), dry_run=dry_run)


def location(lake: LakeFiles, path: str = T1) -> str:
    return str(lake.client.load(path)["metadata"]["location"])


def table(lake: LakeFiles) -> list[str]:
    """Three appends, then one that has only the last file; the files of the first two."""
    for _ in range(3):
        live = lake.commit()
    lake.commit(live[2:])
    return live[:2]


def settle(lake: LakeFiles) -> None:
    """Time passes, with other changes, until nothing is kept that only the past needs."""
    for _ in range(3):
        assert lake.client.commit(set_properties(at=str(lake.client.world.clock.now_ms()))).status == 200
        others(lake.client, 0.5)


def test_files_of_expired_snapshots_go_after_the_past_and_a_dry_run_says_their_bytes(lake: LakeFiles) -> None:
    gone = table(lake)
    orphan = lake.data(location(lake))
    assert collect(lake, *ALL).problems == ()
    assert {*gone, orphan} <= lake.stored
    settle(lake)
    collect(lake, "iceberg")
    expected = lake.stored - lake.named_by(lake.client.load()["metadata-location"])
    assert {*gone, orphan} < expected
    before = everything(lake.client.world)
    report = collect(lake, dry_run=True)
    assert {item.id for item in report.items} == expected and everything(lake.client.world) == before
    files = lake.client.world.storages.files
    assert report.bytes == sum(len(files[path][0]) for path in expected)
    assert collect(lake).freed == report.bytes
    assert lake.stored == lake.named_by(lake.client.load()["metadata-location"])
    assert collect(lake).items == ()


def test_i10_age_counts_from_the_writing_and_is_as_long_as_the_history_at_least(lake: LakeFiles) -> None:
    lake.commit()
    for grace, age in ((GRACE, 3 * DAY), (Grace(history_ms=5 * DAY), 5 * DAY)):
        orphan = lake.data(location(lake))
        at = lake.client.world.clock.now_ms()
        days(lake.client.world, 1)
        lake.commit()
        lake.client.world.clock.now = at + age + HOUR_MS - 1_000
        assert collect(lake, grace=grace).items == ()
        lake.client.world.clock.now = at + age + 2 * HOUR_MS + 1_000
        assert [item.id for item in collect(lake, grace=grace).items] == [orphan]


@pytest.mark.parametrize("name", [GC_ENABLED, REMOVE])
def test_i10_a_table_that_does_not_ask_for_it_or_forbids_it_keeps_everything(lake: LakeFiles, name: str) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    assert lake.client.commit(set_properties(**{name: "false"})).status == 200
    days(lake.client.world, 9)
    assert collect(lake).items == () and orphan in lake.stored
    assert lake.client.commit(set_properties(**{name: "true"})).status == 200
    assert [item.id for item in collect(lake).items] == [orphan]


def test_i10_only_formats_that_writers_make_and_nothing_hidden(lake: LakeFiles) -> None:
    lake.commit()
    here = location(lake)
    kept = {lake.put(here, name) for name in ("notes.txt", "data/_tmp/1.parquet", "data/.a.parquet", "metadata/x.json")}
    gone = {lake.put(here, name) for name in ("data/d.orc", "data/e.avro", "metadata/s.puffin", "metadata/s.stats")}
    days(lake.client.world, 9)
    assert {item.id for item in collect(lake).items} == gone
    assert kept <= lake.client.world.storages.files.keys()


def test_i10_a_name_in_another_spelling_keeps_the_file(lake: LakeFiles) -> None:
    here = location(lake)
    files = [lake.put(here, "data/a.parquet"), lake.put(here, "data/b c.parquet")]
    lake.commit([here.replace("file:///", "file:/") + "/data/a.parquet", f"{here}/data/b%20c.parquet"])
    days(lake.client.world, 9)
    assert collect(lake).items == () and {*files} <= lake.stored


WITHOUT_PATH = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": manifests.STATUS},
        {
            "name": "data_file",
            "field-id": manifests.DATA_FILE,
            "type": {"type": "record", "name": "r2", "fields": [{"name": "n", "type": "long", "field-id": 103}]},
        },
    ],
}
"""The schema of a manifest with entries without a path."""


def broken(lake: LakeFiles, how: str) -> None:
    """A present or former metadata file leads to something that cannot be read."""
    here = location(lake)
    files = lake.client.world.storages.files
    live = lake.live(lake.client.load()["metadata"])
    if how == "missing manifest":
        lake.commit(listed=lake.snapshot(here, 9, live, names=f"{here}/metadata/none.avro"))
    elif how == "missing list":
        lake.commit(listed=lake.put(here, "metadata/none.avro"))
        del files[f"{here}/metadata/none.avro"]
    elif how == "elsewhere":
        lake.commit(listed=lake.snapshot("file:///lake/elsewhere", 9, live))
    elif how == "no path":
        record = {manifests.STATUS: manifests.ADDED, manifests.DATA_FILE: {103: 1}}
        entry = lake.put(here, "metadata/odd-m0.avro", avro.write([record], WITHOUT_PATH, {}, bytes(16)))
        lake.commit(listed=lake.snapshot(here, 9, live, names=entry))
    elif how == "unclear":
        lake.commit(listed=f"{here}/metadata/../snap.avro")
    elif how == "damaged":
        listed = lake.client.load()["metadata"]["snapshots"][-1]["manifest-list"]
        files[listed] = (files[listed][0][:-1], files[listed][1])
    elif how == "encrypted":
        lake.commit(**{"key-id": "k1"})
    elif how == "no metadata":
        lake.put(here, "metadata/00009-x.metadata.json", b"{}")
    elif how == "newer format":
        raw = json.loads(files[lake.client.load()["metadata-location"]][0]) | {"format-version": 4}
        lake.put(here, "metadata/00009-x.metadata.json", json.dumps(raw).encode())
    elif how == "altered":
        current = lake.client.load()["metadata-location"]
        files[current] = (files[current][0] + b" ", files[current][1])


@pytest.mark.parametrize(
    "how",
    [
        "missing manifest",
        "missing list",
        "elsewhere",
        "no path",
        "unclear",
        "damaged",
        "no metadata",
        "newer format",
        "altered",
        "encrypted",
    ],
)
def test_i10_what_cannot_be_found_out_removes_nothing(lake: LakeFiles, how: str) -> None:
    lake.commit()
    orphan = lake.data(location(lake))
    lake.client.create("t2", properties={REMOVE: "true"})
    second = lake.data(location(lake, f"{SALES}/tables/t2"))
    broken(lake, how)
    days(lake.client.world, 9)
    report = collect(lake)
    (problem,) = report.problems
    assert problem.kind == "iceberg-files" and problem.message.endswith("so nothing is removed")
    assert orphan in lake.stored and second not in lake.stored, "other tables are not kept from it"


def test_i10_what_an_engine_has_removed_of_former_snapshots_is_gone(lake: LakeFiles) -> None:
    table(lake)
    former = lake.client.load()["metadata"]["snapshots"][0]
    collect(lake, "iceberg-snapshots")
    del lake.client.world.storages.files[former["manifest-list"]]
    orphan = lake.data(location(lake))
    days(lake.client.world, 9)
    report = collect(lake)
    assert report.problems == () and orphan not in lake.stored


def test_i10_what_a_named_snapshot_of_the_catalog_shows_stays(lake: LakeFiles) -> None:
    gone = table(lake)
    snapshots = lake.client.services.open_catalog.named_snapshots
    past = lake.client.load()["metadata-location"]
    snapshots.create("main", "month_end")
    settle(lake)
    for _ in range(2):
        assert collect(lake, *ALL).problems == ()
    assert {*gone} <= lake.stored and lake.named_by(past) <= lake.stored
    snapshots.drop("main", "month_end")
    settle(lake)
    for _ in range(2):
        collect(lake, *ALL)
    assert not {*gone} & lake.stored


def test_i10_what_a_clone_shows_stays_until_it_is_dropped(lake: LakeFiles) -> None:
    gone = table(lake)
    catalog = lake.client.services.open_catalog
    clone(catalog, "sales.t1", "sales.copy")
    copy = f"{SALES}/tables/copy"
    lake.commit(path=copy)
    settle(lake)
    for _ in range(2):
        assert collect(lake, *ALL).problems == ()
    assert {*gone} <= lake.stored and lake.named_by(lake.client.load(copy)["metadata-location"]) <= lake.stored
    assert lake.client.delete(copy).status == 204
    settle(lake)
    for _ in range(2):
        assert collect(lake, *ALL).problems == ()
    assert not {*gone} & lake.stored


def test_i10_a_clone_that_is_not_found_keeps_everything(lake: LakeFiles) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    row = lake.client.world.refs.rows[lake.client.world.space.location(location(lake))]
    row["clones"] = frozenset({"9b2e8c1c-0000-4000-8000-000000000000"})
    (problem,) = collect(lake).problems
    assert "9b2e8c1c" in problem.message and orphan in lake.stored


def test_i10_what_is_named_while_it_is_judged_stays(lake: LakeFiles) -> None:
    """A commit of an old file, between the marks and the removal."""
    orphan = lake.data(location(lake))
    other = lake.data(location(lake))
    live = lake.commit()
    days(lake.client.world, 9)
    between: Any = _Between(lake, [*live, orphan])
    report = Collector(between, GRACE, workers=1).collect(["iceberg-files"], dry_run=False)
    assert {orphan, other} <= lake.stored and report.deleted == 0
    assert "is named again" in report.problems[0].message
    assert [item.id for item in collect(lake).items] == [other]


def _Between(lake: LakeFiles, live: list[str]) -> Any:
    """The world of ``lake``, in which ``live`` is committed when the fence is put up."""
    from dataclasses import replace

    world = lake.client.world
    left = [1]

    class Refs:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.refs, name)

        def write(self, write: Any) -> Any:
            if left.pop() if left else 0:
                lake.commit(live)
            return world.refs.write(write)

    return replace(world, refs=Refs())


def test_i10_another_life_of_the_location_is_noticed(lake: LakeFiles) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    row = lake.client.world.refs.rows[lake.client.world.space.location(location(lake))]

    def die(name: str) -> None:
        raise Crash(name)

    row["created"] = lake.client.world.clock.now_ms()
    assert collect(lake, faults=die).items == () and orphan in lake.stored


def test_a_table_at_a_location_of_its_own_choice_is_left_alone(lake: LakeFiles) -> None:
    lake.client.create("t2", location="s3://other/t2", properties={REMOVE: "true"})
    orphan = lake.data("s3://other/t2")
    days(lake.client.world, 9)
    assert collect(lake).items == () and orphan in lake.stored


class Lakes(RuleBasedStateMachine):
    """Commits, writers that are slow or die, expiry, tags, clones, names, time, and gc that
    crashes: every HEAD of the kept history, every name and every clone shows all its files."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = LakeFiles(Iceberg())
        self.client = self.lake.client
        self.client.create("t1", properties=PROPERTIES)
        self.heads: list[tuple[int, set[str]]] = []
        self.named: dict[str, set[str]] = {}
        self.started: list[tuple[int, str]] = []
        self.count = 0
        self.look()

    def look(self) -> None:
        """Record the present HEAD: its metadata files."""
        reader = self.client.services.open_catalog.reader
        tree = reader.current("main")
        entities = reader.store.entities("main", [entry.obj for _, entry in tree.subtree(())])
        tables = {entity.metadata for entity in entities.values() if isinstance(entity, IcebergTable)}
        self.heads.append((self.client.world.clock.now_ms(), tables))

    @property
    def paths(self) -> list[str]:
        listed = self.client.get(f"{SALES}/tables").json["identifiers"]
        return [f"{SALES}/tables/{one['name']}" for one in listed]

    @rule(which=st.integers(0, 9), drop=st.integers(0, 2))
    def commit(self, which: int, drop: int) -> None:
        path = self.paths[which % len(self.paths)]
        metadata = self.client.load(path)["metadata"]
        before = self.lake.live(metadata) if metadata.get("current-snapshot-id", -1) != -1 else []
        self.lake.commit([*before[drop:], self.lake.data(metadata["location"])], path)
        self.look()

    @rule()
    def start(self) -> None:
        """A writer has put a file in place."""
        metadata = self.client.load()["metadata"]
        self.started.append((self.client.world.clock.now_ms(), self.lake.data(metadata["location"])))

    @precondition(lambda self: self.started)
    @rule()
    def finish(self) -> None:
        """It commits, unless it died or took longer than the grace period."""
        at, file = self.started.pop(0)
        if self.client.world.clock.now_ms() - at < 3 * DAY:
            metadata = self.client.load()["metadata"]
            before = self.lake.live(metadata) if metadata.get("current-snapshot-id", -1) != -1 else []
            self.lake.commit([*before, file])
            self.look()

    @rule(which=st.integers(0, 9))
    def tag(self, which: int) -> None:
        snapshots = self.client.load()["metadata"]["snapshots"]
        if snapshots:
            id = snapshots[which % len(snapshots)]["snapshot-id"]
            self.count += 1
            answer = self.client.commit(set_ref(id, f"tag{self.count}", "tag", **{"max-ref-age-ms": 2 * DAY}))
            assert answer.status == 200, answer.text
            self.look()

    @precondition(lambda self: len(self.paths) < 4)
    @rule(named=st.booleans())
    def clone(self, *, named: bool) -> None:
        self.count += 1
        moment = {"snapshot": next(iter(self.named))} if named and self.named else {}
        clone(self.client.services.open_catalog, "sales.t1", f"sales.c{self.count}", **moment)
        self.look()

    @precondition(lambda self: len(self.paths) > 1)
    @rule()
    def drop_a_clone(self) -> None:
        path = next(path for path in self.paths if path != T1)
        assert self.client.delete(path).status == 204
        self.look()

    @rule()
    def name_the_present(self) -> None:
        self.count += 1
        self.client.services.open_catalog.named_snapshots.create("main", f"s{self.count}")
        self.named[f"s{self.count}"] = self.heads[-1][1]
        self.look()

    @rule(count=st.floats(0.05, 3))
    def time_passes(self, count: float) -> None:
        days(self.client.world, count)

    @rule(dies=st.integers(0, 4))
    def collect(self, dies: int) -> None:
        left = [dies]

        def die(name: str) -> None:
            left[0] -= 1
            if not left[0]:
                raise Crash(name)

        with suppress(Crash, TurnstileError):
            report = Collector(self.client.world, GRACE, faults=die, workers=1).collect(ALL, dry_run=False)
            assert not report.problems, report.problems
        self.look()

    @invariant()
    def all_that_is_kept_is_whole(self) -> None:
        since = self.client.world.clock.now_ms() - GRACE.history_ms
        ends = [at for at, _ in self.heads[1:]] + [since]
        kept = [files for (_, files), end in zip(self.heads, ends, strict=True) if end >= since]
        for path in set().union(*kept, *self.named.values()):
            assert self.lake.named_by(path) <= self.lake.stored

    def teardown(self) -> None:
        """When nothing happens for long, no orphan is left."""
        orphan = self.lake.data(self.client.load()["metadata"]["location"])
        others(self.client, 0.5)
        report = Collector(self.client.world, GRACE, workers=1).collect(ALL, dry_run=False)
        assert not report.problems
        assert orphan not in self.lake.stored
        self.all_that_is_kept_is_whole()
        super().teardown()


def _only_present(marks: Any, metadata: Any, *, present: bool) -> None:
    """Mistake: files that only former metadata names are forgotten."""
    if present:
        _ADD(marks, metadata, present=True)


_ADD = Marks.add
MISTAKES: dict[str, tuple[Any, str, Any, str]] = {
    "former metadata are not read": (Marks, "add", _only_present, "start finish start finish"),
    "clones are not looked at": (
        _CatalogScan,
        "_reach",
        lambda self, table, _clones: _alone(self, table),
        "start finish start clone finish start collect finish",
    ),
}
"""The owner and name of the function with the mistake, the mistake, and steps of the machine that
find it: random ones found it by what else the process had imported."""


def _alone(scan: Any, table: Any) -> Any:
    """Mistake: files that clones name are forgotten."""
    scan.kept_clones = {}
    return _REACHED(scan, table, frozenset())


_REACHED = _CatalogScan._reach


def take(steps: str) -> None:
    """Takes steps of the machine, and its last checks."""
    lakes = Lakes()
    arguments: dict[str, dict[str, Any]] = {"clone": {"named": False}, "collect": {"dies": 0}}
    for step in steps.split():
        getattr(lakes, step)(**arguments.get(step, {}))
        lakes.all_that_is_kept_is_whole()
    lakes.teardown()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong, steps = MISTAKES[mistake]
    take(steps)
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, KeyError)):
        take(steps)


@pytest.mark.parametrize("planted", [False, True])
def test_files_that_are_taken_young_are_found(monkeypatch: pytest.MonkeyPatch, *, planted: bool) -> None:
    """By the machine's steps in the order that it takes: it comes by it too rarely to be waited
    for."""
    lakes = Lakes()
    lakes.commit(0, 0)
    lakes.start()
    if planted:
        monkeypatch.setattr(_CatalogScan, "_old", lambda _self, file: file.path.endswith(".parquet"))
    lakes.time_passes(2.5)
    lakes.collect(0)
    lakes.finish()
    with pytest.raises(AssertionError) if planted else nullcontext():
        lakes.all_that_is_kept_is_whole()


TestLakes = Lakes.TestCase
TestLakes.settings = settings(max_examples=examples(25), stateful_step_count=25)


# -- what the double checks and times are for --------------------------------------------------------------------------


def scanner(lake: LakeFiles, time_is_up: Callable[[], bool]) -> list[Batch | Problem]:
    """Returns the items that a scan of the catalog yields."""
    world = lake.client.world
    row = world.refs.read(world.space.catalog("main"))
    assert row is not None
    context = GcContext(world, GRACE, no_faults, 1, time_is_up)
    return list(IcebergDataScanner(context).scan(row, world.clock.now_ms()))


def test_a_run_whose_time_is_up_begins_with_no_table(lake: LakeFiles) -> None:
    lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    assert scanner(lake, lambda: True) == []
    assert scanner(lake, lambda: False) != []


def test_i10_nothing_goes_when_the_time_is_up_before_all_metadata_files_were_read(lake: LakeFiles) -> None:
    lake.data(location(lake))
    lake.commit()
    lake.commit()
    days(lake.client.world, 9)
    answers = iter([False])
    (problem,) = scanner(lake, lambda: next(answers, True))
    assert isinstance(problem, Problem) and "the time was up" in problem.message


def test_i10_a_removal_that_has_no_time_to_look_again_is_put_off(lake: LakeFiles) -> None:
    orphan = lake.data(location(lake))
    live = lake.commit()
    days(lake.client.world, 9)
    late = [False]
    world = lake.client.world
    row = world.refs.read(world.space.catalog("main"))
    assert row is not None
    context = GcContext(world, GRACE, no_faults, 1, lambda: late[0])
    (batch,) = IcebergDataScanner(context).scan(row, world.clock.now_ms())
    assert isinstance(batch, Batch)
    late[0] = True
    lake.commit(live)  # a metadata file more, which would have to be read
    with pytest.raises(NotNow, match="the time was up"):
        batch.remove()
    assert orphan in lake.stored


def test_a_table_without_old_files_costs_no_look_at_what_it_names(lake: LakeFiles) -> None:
    days(lake.client.world, 9)
    lake.commit()
    lake.commit()
    requests = lake.client.world.storages.requests
    requests.clear()
    assert collect(lake).items == ()
    assert requests.count("list") == 1 and requests.count("read") <= 1, requests


def catalog_scan(lake: LakeFiles) -> tuple[_CatalogScan, IcebergTable, Row]:
    """The scan of the catalog, its table, and the row of the location's owner."""
    world = lake.client.world
    row = world.refs.read(world.space.catalog("main"))
    assert row is not None
    context = GcContext(world, GRACE, no_faults, 1, lambda: False)
    kept = KeptTrees.of(context, CatalogHead.from_row(row), world.clock.now_ms())
    assert kept is not None
    scan = _CatalogScan(context, kept, world.clock.now_ms(), Fence(world, kept))
    ((table, owner),) = scan.managed_entities((ICEBERG_TABLE,))
    assert isinstance(table, IcebergTable) and owner is not None
    return scan, table, owner


def test_i10_a_table_whose_metadata_file_is_elsewhere_is_left_alone(lake: LakeFiles) -> None:
    lake.commit()
    days(lake.client.world, 9)
    scan, table, _ = catalog_scan(lake)
    for elsewhere in (
        "file:///lake/elsewhere/metadata/v1.metadata.json",
        f"{table.location}2/metadata/v1.metadata.json",
    ):
        with pytest.raises(NotKnown, match="outside the table's location"):
            scan._reach(replace(table, metadata=elsewhere), frozenset())


@pytest.mark.parametrize("change", ["gone", "another table", "another catalog", "another life"])
def test_i10_a_location_that_came_to_be_anothers_keeps_its_files(lake: LakeFiles, change: str) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    scan, table, owner = catalog_scan(lake)
    (batch,) = scan.of_table(table, owner)
    assert isinstance(batch, Batch)
    rows = lake.client.world.refs.rows
    key = lake.client.world.space.location(table.location)
    if change == "gone":
        del rows[key]
    else:
        rows[key] = {**rows[key], **{"another table": {"table_id": "x"}, "another catalog": {"catalog": "other"},
                                     "another life": {"created": owner["created"] + 1}}[change]}  # fmt: skip
    with pytest.raises(NotNow, match="another owner"):
        batch.remove()
    assert orphan in lake.stored
    assert list(scan.of_table(table, rows.get(key))) == [] or change == "another life"


def test_i10_a_location_that_came_to_have_another_clone_keeps_its_files(lake: LakeFiles) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    scan, table, owner = catalog_scan(lake)
    (batch,) = scan.of_table(table, owner)
    assert isinstance(batch, Batch)
    lake.client.world.refs.rows[lake.client.world.space.location(table.location)]["clones"] = frozenset({"c"})
    with pytest.raises(NotNow, match="other clones"):
        batch.remove()
    assert orphan in lake.stored


def test_i10_a_life_that_began_in_the_margin_of_the_kept_history_is_left_alone(lake: LakeFiles) -> None:
    lake.data(location(lake))
    lake.commit()
    days(lake.client.world, 9)
    scan, table, owner = catalog_scan(lake)
    last = scan.kept.began - SETTLED_MS
    assert list(scan.of_table(table, {**owner, "created": last})) != []
    assert list(scan.of_table(table, {**owner, "created": last + 1})) == []


def test_entities_are_those_of_the_kinds_asked_for_and_unlike_another_tree(lake: LakeFiles) -> None:
    assert lake.client.post(f"{SALES}/views", VIEW).status == 200
    reader = lake.client.services.open_catalog.reader
    before = reader.current("main")
    assert [entity.name for entity in entities_of(reader, before, (ICEBERG_TABLE,))] == ["t1"]
    assert {entity.name for entity in entities_of(reader, before, (ICEBERG_TABLE, ICEBERG_VIEW))} == {"t1", "v1"}
    assert list(entities_of(reader, before, (ICEBERG_TABLE,), unlike=before)) == []
    lake.client.create("t2")
    after = reader.current("main")
    assert [entity.name for entity in entities_of(reader, after, (ICEBERG_TABLE,), unlike=before)] == ["t2"]


def test_i10_a_file_is_old_to_the_millisecond(lake: LakeFiles) -> None:
    days(lake.client.world, 9)
    scan, _, _ = catalog_scan(lake)
    for grace, kept in ((GRACE, GRACE.files_ms), (Grace(history_ms=5 * DAY), 5 * DAY)):
        scan.context = replace_context(scan.context, grace=grace)
        last = scan.now - kept - SETTLED_MS
        assert scan._old(Stat("data/a.parquet", 1, last)) and not scan._old(Stat("data/a.parquet", 1, last + 1))
    assert not scan._old(Stat("data/a.csv", 1, 0)) and not scan._old(Stat("_data/a.parquet", 1, 0))


def test_i10_a_clone_that_cannot_be_read_keeps_everything(lake: LakeFiles) -> None:
    orphan = lake.data(location(lake))
    lake.commit()
    clone(lake.client.services.open_catalog, "sales.t1", "sales.copy")
    copy = f"{SALES}/tables/copy"
    listed = lake.put(location(lake, copy), "metadata/none.avro")
    lake.commit(path=copy, listed=listed)
    del lake.client.world.storages.files[listed]
    days(lake.client.world, 9)
    report = collect(lake)
    assert orphan in lake.stored and len(report.problems) == 1
