"""Expiry and gc of tables that PyIceberg, as it was released, writes and reads over HTTP."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from tests.support.faults import Crash
from tests.support.iceberg.pyarrow_tables import SCHEMA, ids, rows
from tests.support.server import MovingClock, MovingServer, moving_server
from turnstile.catalog.core.rows import RECENT
from turnstile.catalog.services import ensure
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace
from turnstile.store.core.rows import Kind

HOUR = 3_600_000
GRACE = Grace(history_ms=3 * HOUR, files_ms=24 * HOUR)
KINDS: tuple[Kind, ...] = ("iceberg-snapshots", "iceberg", "iceberg-files")
PROPERTIES = {
    "turnstile.maintenance.expire-snapshots": "true",
    "turnstile.maintenance.remove-orphan-files": "true",
    "history.expire.max-snapshot-age-ms": "0",
    "history.expire.min-snapshots-to-keep": "2",
    "write.metadata.previous-versions-max": "1",
}


CATALOGS = itertools.count(1)
STAMPED: set[Path] = set()


@dataclass
class Moving:
    """A server with a clock that the test moves, and a catalog of the test's own."""

    server: MovingServer
    catalog: str

    @property
    def url(self) -> str:
        return self.server.url

    def days(self, count: float) -> None:
        """Files written since are of now, and then days pass. The clock never goes back: gc looks
        at all catalogs."""
        self.stamp()
        self.server.days(count)

    def stamp(self) -> None:
        """Files written since the last time are of the clock's now, not of the machine's."""
        root = Path(self.server.services.settings.lake_root.removeprefix("file://"))
        now_s = self.clock.now_ms() / 1_000
        for file in root.rglob("*"):
            if file.is_file() and file not in STAMPED:
                STAMPED.add(file)
                os.utime(file, (now_s, now_s))

    @property
    def clock(self) -> MovingClock:
        return self.server.clock


@pytest.fixture(scope="module")
def server_of_weeks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    with pytest.MonkeyPatch.context() as patch, moving_server(tmp_path_factory.mktemp("weeks"), patch) as server:
        yield server


@pytest.fixture
def moving(server_of_weeks: MovingServer) -> Moving:
    name = f"lake{next(CATALOGS)}"
    services = server_of_weeks.services
    ensure(services.world, name, lake_root=services.settings.lake_root)
    moving = Moving(server_of_weeks, name)
    server_of_weeks.before_request = moving.stamp  # a client's files are of the server's clock, too
    return moving


def connect(moving: Moving) -> RestCatalog:
    return RestCatalog(moving.catalog, uri=f"{moving.url}/iceberg", warehouse=moving.catalog)


def written(moving: Moving) -> Table:
    """Many appends and deletes; one snapshot is tagged."""
    table = connect(moving).create_table("default.orders", SCHEMA, properties=PROPERTIES)
    moving.days(1 / 24)  # metadata files of a table's first minutes may be of an earlier life, and stay
    for number in range(8):
        table.append(rows(number, 100 + number))
        if number == 3:
            first = table.current_snapshot()
            assert first is not None
            table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
        if number % 3 == 2:
            table.delete(f"id = {number}")
    return table


def settle(moving: Moving, table: Table, count: float = 2) -> None:
    """Lets days pass, with changes that push earlier metadata out of the catalog's past and the
    table's log."""
    with table.transaction() as transaction:
        transaction.set_properties({"settled": str(moving.clock.now_ms())})
    moving.days(count)
    for number in range(RECENT):
        answer = httpx.post(
            f"{moving.url}/v1/catalogs/{moving.catalog}/namespaces", json={"name": f"n{moving.clock.now_ms()}_{number}"}
        )
        assert answer.status_code == 201, answer.text
    with table.transaction() as transaction:
        transaction.set_properties({"settled": str(moving.clock.now_ms())})
    moving.days(1)


def collect(moving: Moving, **more: Any) -> Report:
    moving.stamp()
    return Collector(moving.server.services.world, GRACE, workers=1, **more).collect(KINDS, dry_run=False)


def stored(table: Table) -> set[str]:
    """The files of the table, without metadata files."""
    folder = Path(table.location().removeprefix("file://"))
    return {file.name for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".json")}


def named(table: Table) -> set[str]:
    """The files that the table's present metadata name, as PyIceberg reads them; removed ones are
    not."""
    found = set[str]()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {path.rpartition("/")[2] for path in found}


def finished(moving: Moving, run: Callable[[], Report]) -> Table:
    """Collects as long as there is something."""
    for passes in range(5):
        report = run()
        assert report.problems == ()
        if passes >= 2 and not report.items:
            break
        settle(moving, connect(moving).load_table("default.orders"))
    return connect(moving).load_table("default.orders")


def test_expired_snapshots_and_all_that_only_they_name_go(moving: Moving) -> None:
    table = written(moving)
    expected = ids(table)
    tagged = table.metadata.refs["kept"].snapshot_id
    then = sorted(table.scan(snapshot_id=tagged).to_arrow()["id"].to_pylist())
    before = [one.snapshot_id for one in table.snapshots()]
    files = stored(table)
    assert len(before) > 8
    orphan = Path(table.location().removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"died before it committed")
    after = finished(moving, lambda: collect(moving))
    assert ids(after) == expected
    assert [one.snapshot_id for one in after.snapshots()] == [tagged, *before[-2:]]
    for snapshot in before[-2:]:
        after.scan(snapshot_id=snapshot).to_arrow()
    assert sorted(after.scan(snapshot_id=tagged).to_arrow()["id"].to_pylist()) == then
    with pytest.raises(ValueError, match="not found"):
        after.scan(snapshot_id=before[0]).to_arrow()
    assert stored(after) == named(after) and len(stored(after)) < len(files) and not orphan.exists()
    after.append(rows(999))
    assert ids(connect(moving).load_table("default.orders")) == [*expected, 999]


def test_a_commit_under_way_keeps_its_files(moving: Moving) -> None:
    """Its data files and manifests are in place, and nothing names them when gc runs."""
    written(moving)
    late = connect(moving).load_table("default.orders")
    transaction = late.transaction()
    transaction.append(rows(777))
    dead = late.transaction()
    before = stored(late)
    dead.append(rows(888))
    lost = stored(late) - before
    moving.days(0.5)
    assert collect(moving).problems == ()
    transaction.commit_transaction()
    assert lost and lost <= stored(late)
    moving.days(0.6)
    assert collect(moving).problems == ()
    again = connect(moving).load_table("default.orders")
    assert 777 in ids(again) and not lost & stored(again)


@pytest.mark.slow
def test_wherever_gc_dies_the_table_is_whole(moving: Moving) -> None:
    """The collector of one table dies after its second step, and then after its sixth."""
    table = written(moving)
    expected = ids(table)

    def die(name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash(name)

    for step in (2, 6):
        left = [step]
        crashed = False
        while not crashed:
            try:
                report = collect(moving, faults=die)
                assert report.items, f"nothing is left to collect before step {step}"
            except Crash:
                crashed = True
            loaded = connect(moving).load_table("default.orders")
            assert ids(loaded) == expected
            loaded.append(rows(1_000 + step))
            expected = ids(connect(moving).load_table("default.orders"))
            settle(moving, connect(moving).load_table("default.orders"))
    after = finished(moving, lambda: collect(moving))
    assert ids(after) == expected and stored(after) == named(after)
