"""VACUUM removes files that no version needs, and no others: after it every pinned version has the
rows that it had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnstile_spark
from tests.support.server import MovingServer, moving_server
from turnstile_client import StorageFailure, connect
from turnstile_spark import TurnstileError
from turnstile_spark.maintenance.runs import run
from turnstile_spark.maintenance.vacuum import VacuumStep


@pytest.fixture(scope="module")
def server_of_weeks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    with pytest.MonkeyPatch.context() as patch, moving_server(tmp_path_factory.mktemp("weeks"), patch) as server:
        yield server


@pytest.fixture
def moving(server_of_weeks: MovingServer, name: str) -> MovingServer:
    """The server, with a catalog of the test's own."""
    server_of_weeks.begin(catalog_of(name))
    return server_of_weeks


@pytest.fixture
def old(spark: Any, moving: MovingServer, name: str) -> Iterator[Any]:
    """A lake on that server."""
    with turnstile_spark.attach(spark, "old", moving.url, catalog=catalog_of(name)) as lake:
        yield lake


def catalog_of(name: str) -> str:
    return "c" + name.rpartition(".")[2]


class RememberedTable:
    """A table with the rows of each of its versions, and the questions of tests about it."""

    def __init__(self, sql: Any, lake: Any, server: MovingServer, name: str) -> None:
        self.sql = sql
        self.lake = lake
        self.server = server
        self.name = name
        self.full = f"old.{name}"
        self.rows: dict[int, list[Any]] = {}

    @property
    def handle(self) -> Any:
        return self.lake.table(self.name)

    @property
    def id(self) -> str:
        return str(self.handle.head().table_id)

    @property
    def folder(self) -> Path:
        return Path(self.server.services.holds.table(self.id).location.removeprefix("file://"))

    def run(self, text: str) -> int:
        """A statement that makes one version; its rows are remembered."""
        self.sql(text.format(self.full))
        self.server.publish(self.id)
        version = int(self.handle.head().latest)
        self.rows[version] = self.at(version)
        return version

    def at(self, version: int) -> list[Any]:
        """Rows of a version, read without Spark, which takes a second."""
        client = connect(self.server.url, catalog=catalog_of(self.name))
        found = client.table(self.name).read(version=version).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def readable(self, version: int) -> bool:
        """Whether the version has the rows that it had; False if a file of it is gone."""
        try:
            return self.at(version) == self.rows[version]
        except StorageFailure as failure:
            if "a file is not there" in str(failure):
                return False
            raise

    def files(self) -> set[str]:
        """All files that are not in hidden folders."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return {
            str(path) for path in found if not path.parts[0].startswith(("_delta_log", ".")) and ".crc" not in path.name
        }


@pytest.fixture
def remembered(sql: Any, old: Any, moving: MovingServer, name: str) -> RememberedTable:
    return RememberedTable(sql, old, moving, name)


def overwritten(remembered: RememberedTable) -> int:
    """A table of three versions, the last of which removes all files. Returns the latest."""
    remembered.sql(f"CREATE TABLE {remembered.full} (id BIGINT, p STRING) PARTITIONED BY (p)")
    remembered.run("INSERT INTO {} SELECT id, 'a b%c+ü=' || (id % 2) FROM range(20)")
    return remembered.run("INSERT OVERWRITE {} SELECT id, 'y' FROM range(7)")


def changing(remembered: RememberedTable, properties: str = "'delta.enableDeletionVectors' = 'true'") -> int:
    """A table of some versions, each of which removes files of the one before. Returns the
    latest."""
    remembered.sql(
        f"CREATE TABLE {remembered.full} (id BIGINT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({properties})"
    )
    remembered.run("INSERT INTO {} SELECT id, 'a b%c+ü=' || (id % 2) FROM range(20)")
    remembered.run("DELETE FROM {} WHERE id = 3")
    remembered.run("UPDATE {} SET id = id + 100 WHERE id = 4")
    remembered.run("INSERT OVERWRITE {} SELECT id, 'x' FROM range(5)")
    return remembered.run("INSERT OVERWRITE {} SELECT id, 'y' FROM range(7)")


@pytest.mark.slow
def test_i10_what_is_older_than_all_history_goes_and_the_latest_version_stays(
    remembered: RememberedTable, moving: MovingServer
) -> None:
    latest = overwritten(remembered)
    (remembered.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    (remembered.folder / "_hidden").mkdir()
    (remembered.folder / "_hidden" / "kept.parquet").write_bytes(b"not Delta's")
    before = remembered.files()
    assert remembered.handle.vacuum().files == 0, "all of it is younger than the history"
    moving.days(30)
    steps: list[VacuumStep] = []
    dry = remembered.handle.vacuum(dry_run=True)
    assert remembered.files() == before and "orphan.parquet" in dry.paths and dry.files > 2
    done = remembered.handle.vacuum(progress=steps.append)
    assert [step.step for step in steps] == ["marked", "listed", "compared", "removed"]
    assert (done.files, done.bytes, done.paths) == (dry.files, dry.bytes, dry.paths)
    assert before - remembered.files() == set(done.paths)
    assert (done.readable_from, done.kept_versions) == (latest, [0]), "0: as of the last change of the catalog"
    assert remembered.readable(latest)
    assert not remembered.readable(latest - 1)
    assert (remembered.folder / "_hidden" / "kept.parquet").exists()
    assert remembered.handle.vacuum().files == 0


def test_i10_files_that_a_promotion_brought_go_when_removed_and_those_of_a_branch_stay(
    spark: Any, remembered: RememberedTable, moving: MovingServer
) -> None:
    remembered.sql(f"CREATE TABLE {remembered.full} (id BIGINT, p STRING) PARTITIONED BY (p)")
    branches = remembered.lake.branches
    for branch in ("first", "second"):
        made = branches.create(branch, days=90)
        with turnstile_spark.attach(spark, "dev", moving.url, catalog=made.full_name):
            remembered.sql(f"INSERT INTO dev.{remembered.name} SELECT id, 'a b%c+ü=' || (id % 2) FROM range(4)")
    branches.promote("first")
    remembered.run("INSERT INTO {} VALUES (9, 'x')")
    before = remembered.files()
    remembered.run("INSERT OVERWRITE {} SELECT 10L, 'x'")
    branches.create("third")  # the moment of the last change of the catalog keeps its versions
    moving.days(31)
    done = remembered.handle.vacuum()
    gone = before - remembered.files()
    assert gone == set(done.paths)
    promoted = [path.split("/") for path in gone if path.startswith("_branches/")]
    assert len({branch for _, branch, *_ in promoted}) == 1
    assert {partition for _, _, partition, _ in promoted} == {"p=a b%25c+ü%3D0", "p=a b%25c+ü%3D1"}
    assert remembered.handle.vacuum().files == 0
    branches.promote("second")
    assert sorted(row[0] for row in remembered.at(int(remembered.handle.head().latest))) == [0, 1, 2, 3, 10]


def test_i10_clones_snapshots_readers_and_the_edge_of_the_history_keep_their_versions(
    remembered: RememberedTable, moving: MovingServer
) -> None:
    latest = changing(remembered)
    clone = "copy"
    catalog = f"/v1/catalogs/{catalog_of(remembered.name)}"
    holds = moving.services.holds
    services = moving.services
    holds.hold(remembered.id, "stream", "reader", first=2, last=2, ttl_ms=7 * 86_400_000)
    api = remembered.handle._context.api.http
    api.call("snapshot", "POST", f"{catalog}/snapshots", {"name": clone})
    remembered.run("INSERT OVERWRITE {} SELECT id, 'z' FROM range(3)")
    api.call("clone", "POST", f"{catalog}/clones", {"from": remembered.name, "to": f"default.{clone}"})
    after = remembered.run("INSERT OVERWRITE {} SELECT id, 'w' FROM range(2)")
    moving.days(6.9)
    holds.hold(remembered.id, "stream", "reader", first=2, last=2, ttl_ms=7 * 86_400_000)
    moving.days(6.9)
    assert services.holds.plan(remembered.id).marks.kept == {2, latest, latest + 1}
    done = remembered.handle.vacuum()
    assert done.kept_versions == [2, latest, latest + 1] and done.files > 0
    assert {"snapshot", "clone", "reader"} <= set(done.kept_files)
    for version in (2, latest, latest + 1, after):
        assert remembered.readable(version), version
    assert not remembered.readable(3)
    assert remembered.sql.values(f"SELECT * FROM old.default.{clone}") == remembered.rows[latest + 1]
    api.call("clone", "DELETE", f"{catalog}/namespaces/default/tables/{clone}")
    api.call("snapshot", "DELETE", f"{catalog}/snapshots/{clone}")
    holds.release(remembered.id, "stream", "reader")
    moving.days(8)  # the drop was a change of the catalog: its moment keeps the version of then until now
    assert remembered.handle.vacuum().files > 0
    assert remembered.readable(after) and not remembered.readable(2) and not remembered.readable(latest)


@pytest.mark.slow
@pytest.mark.parametrize("properties", ["'delta.enableChangeDataFeed' = 'true'", "'delta.enableRowTracking' = 'true'"])
def test_a_lite_vacuum_removes_what_commits_removed_and_leaves_orphans(
    remembered: RememberedTable, moving: MovingServer, properties: str
) -> None:
    latest = changing(remembered, properties)
    (remembered.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    moving.days(30)
    dry = remembered.handle.vacuum(dry_run=True, lite=True)
    done = remembered.handle.vacuum(lite=True)
    assert done.files == dry.files > 0 and set(done.paths) == set(dry.paths)
    assert not (set(done.paths) & remembered.files()) and "orphan.parquet" in remembered.files()
    assert remembered.readable(latest) and not remembered.readable(1)
    rest = remembered.handle.vacuum()
    assert "orphan.parquet" in rest.paths
    assert remembered.readable(latest)


@pytest.mark.slow
def test_i10_a_run_that_is_killed_at_any_step_leaves_what_is_needed_and_the_next_one_goes_on(
    remembered: RememberedTable, moving: MovingServer
) -> None:
    latest = changing(remembered)
    moving.days(30)
    for step in ("marked", "listed", "compared", "removed"):

        def die(at: VacuumStep, step: str = step) -> None:
            if at.step == step:
                raise KeyboardInterrupt(step)

        with pytest.raises(KeyboardInterrupt):
            remembered.handle.vacuum(progress=die)
        assert remembered.readable(latest)
    assert remembered.handle.vacuum().files == 0
    assert remembered.readable(latest) and not remembered.readable(1)


@pytest.mark.slow
def test_i10_what_a_commit_brings_while_a_vacuum_runs_stays(remembered: RememberedTable, moving: MovingServer) -> None:
    changing(remembered)
    moving.days(30)
    versions: list[int] = []

    def write(step: VacuumStep) -> None:
        versions.append(remembered.run("INSERT INTO {} VALUES (" + str(1000 + len(versions)) + ", 'late')"))
        if step.step == "listed":  # brings back files that were removed long ago, and that are listed
            versions.append(remembered.run("RESTORE TABLE {} TO VERSION AS OF 5"))

    done = remembered.handle.vacuum(progress=write)
    assert done.files > 0
    for version in versions:
        assert remembered.readable(version), version


@pytest.mark.slow
def test_a_vacuum_is_refused_where_it_is_not_safe(remembered: RememberedTable, moving: MovingServer, sql: Any) -> None:
    changing(remembered)
    sql.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
    try:
        with pytest.raises(TurnstileError, match="allow_short"):
            remembered.handle.vacuum(retention_hours=1)
    finally:
        sql.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    assert remembered.handle.vacuum(retention_hours=1, allow_short=True, dry_run=True).files == 0
    with pytest.raises(ValueError, match="retention_hours"):
        remembered.handle.vacuum(retention_hours=-1)
    with pytest.raises(ValueError, match="inventory"):
        remembered.handle.vacuum(lite=True, inventory=sql.spark.range(1))
    with remembered.lake.transaction(), pytest.raises(TurnstileError, match="inside of a transaction"):
        remembered.handle.vacuum()


@pytest.mark.slow
def test_an_inventory_stands_for_the_listing(remembered: RememberedTable, moving: MovingServer, sql: Any) -> None:
    latest = changing(remembered)
    (remembered.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    (remembered.folder / "other.parquet").write_bytes(b"of another")
    moving.days(30)
    inventory = sql.spark.createDataFrame(
        [
            (f"file:{remembered.folder}/orphan.parquet", 32, False, 1),
            *((f"file:{remembered.folder}/{path}", 1, False, 1) for path in sorted(remembered.files()) if "x" in path),
        ],
        "path string, length bigint, isDir boolean, modificationTime bigint",
    )
    done = remembered.handle.vacuum(inventory=inventory)
    assert "orphan.parquet" in done.paths and "other.parquet" in remembered.files()
    assert remembered.readable(latest)


def test_a_worker_vacuums_where_a_policy_says_so(
    remembered: RememberedTable, moving: MovingServer, old: Any, name: str
) -> None:
    remembered.sql(f"CREATE TABLE {remembered.full} (id BIGINT)")
    remembered.run("INSERT INTO {} VALUES (1)")
    latest = remembered.run("INSERT OVERWRITE {} VALUES (2)")
    (remembered.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    namespace, _, table = name.rpartition(".")
    path = f"/v1/catalogs/{catalog_of(name)}/namespaces/{namespace}/tables/{table}/maintenance-policy"
    values = {"enabled": "true", "vacuum": "true", "optimize": "false", "reorg": "false"}
    httpx.patch(moving.url + path, json={"set": values}).raise_for_status()
    moving.days(30)
    (done,) = run(old, [name])
    assert done.outcome == "done", done
    assert "orphan.parquet" not in remembered.files()
    assert remembered.readable(latest) and not remembered.readable(latest - 1)
    (again,) = run(old, [name])
    assert again.outcome == "nothing due", again
