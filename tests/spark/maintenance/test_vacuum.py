"""VACUUM removes what nobody needs, and nothing else: after it every version that is pinned has the rows that it had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnstile_spark
from tests.support.server import MovingServer, moving_server
from turnstile_spark import TurnstileError
from turnstile_spark.vacuum import VacuumStep


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


class Told:
    """A table with the rows of each of its versions, and what tests ask of it."""

    def __init__(self, sql: Any, lake: Any, server: MovingServer, name: str) -> None:
        self.sql, self.lake, self.server, self.name, self.full = sql, lake, server, name, f"old.{name}"
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
        return self.sql.values(f"SELECT * FROM {self.full} VERSION AS OF {version}")  # type: ignore[no-any-return]

    def readable(self, version: int) -> bool:
        """Whether the version has the rows that it had; False if a file of it is gone."""
        try:
            return self.at(version) == self.rows[version]
        except Exception as error:
            if "FILE_NOT_EXIST" in str(error) or "does not exist" in str(error):
                return False
            raise

    def files(self) -> set[str]:
        """All files that are not in hidden folders."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return {
            str(path) for path in found if not path.parts[0].startswith(("_delta_log", ".")) and ".crc" not in path.name
        }


@pytest.fixture
def told(sql: Any, old: Any, moving: MovingServer, name: str) -> Told:
    return Told(sql, old, moving, name)


def changing(told: Told, properties: str = "'delta.enableDeletionVectors' = 'true'") -> int:
    """A table of some versions, each of which removes files of the one before. Returns the latest."""
    told.sql(f"CREATE TABLE {told.full} (id BIGINT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({properties})")
    told.run("INSERT INTO {} SELECT id, 'a b%c+ü=' || (id % 2) FROM range(20)")
    told.run("DELETE FROM {} WHERE id = 3")
    told.run("UPDATE {} SET id = id + 100 WHERE id = 4")
    told.run("INSERT OVERWRITE {} SELECT id, 'x' FROM range(5)")
    return told.run("INSERT OVERWRITE {} SELECT id, 'y' FROM range(7)")


def test_i10_what_is_older_than_all_history_goes_and_the_latest_version_stays(told: Told, moving: MovingServer) -> None:
    latest = changing(told)
    (told.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    (told.folder / "_hidden").mkdir()
    (told.folder / "_hidden" / "kept.parquet").write_bytes(b"not Delta's")
    before = told.files()
    assert told.handle.vacuum().files == 0, "all of it is younger than the history"
    moving.days(30)
    steps: list[VacuumStep] = []
    dry = told.handle.vacuum(dry_run=True)
    assert told.files() == before and "orphan.parquet" in dry.paths and dry.files > 9
    done = told.handle.vacuum(progress=steps.append)
    assert [step.step for step in steps] == ["marked", "listed", "compared", "removed"]
    assert (done.files, done.bytes, done.paths) == (dry.files, dry.bytes, dry.paths)
    assert before - told.files() == set(done.paths)
    assert (done.readable_from, done.kept_versions) == (latest, [0]), "0: as of the last change of the catalog"
    assert told.readable(latest)
    assert not told.readable(latest - 1)
    assert (told.folder / "_hidden" / "kept.parquet").exists()
    assert told.handle.vacuum().files == 0


def test_i10_clones_snapshots_readers_and_the_edge_of_the_history_keep_their_versions(
    told: Told, moving: MovingServer
) -> None:
    latest, clone = changing(told), "copy"
    catalog = f"/v1/catalogs/{catalog_of(told.name)}"
    holds, services = moving.services.holds, moving.services
    holds.hold(told.id, "stream", "reader", first=2, last=2, ttl_ms=7 * 86_400_000)
    api = told.handle._context.api.http
    api.call("snapshot", "POST", f"{catalog}/snapshots", {"name": clone})
    told.run("INSERT OVERWRITE {} SELECT id, 'z' FROM range(3)")
    api.call("clone", "POST", f"{catalog}/clones", {"from": told.name, "to": f"default.{clone}"})
    after = told.run("INSERT OVERWRITE {} SELECT id, 'w' FROM range(2)")
    moving.days(6.9)
    holds.hold(told.id, "stream", "reader", first=2, last=2, ttl_ms=7 * 86_400_000)
    moving.days(6.9)
    assert services.holds.plan(told.id).marks.kept == {2, latest, latest + 1}
    done = told.handle.vacuum()
    assert done.kept_versions == [2, latest, latest + 1] and done.files > 0
    assert {"snapshot", "clone", "reader"} <= set(done.kept_files)
    for version in (2, latest, latest + 1, after):
        assert told.readable(version), version
    assert not told.readable(3)
    assert told.sql.values(f"SELECT * FROM old.default.{clone}") == told.rows[latest + 1]
    api.call("clone", "DELETE", f"{catalog}/namespaces/default/tables/{clone}")
    api.call("snapshot", "DELETE", f"{catalog}/snapshots/{clone}")
    holds.release(told.id, "stream", "reader")
    moving.days(8)  # the drop was a change of the catalog: its moment keeps the version of then until now
    assert told.handle.vacuum().files > 0
    assert told.readable(after) and not told.readable(2) and not told.readable(latest)


@pytest.mark.slow
@pytest.mark.parametrize("properties", ["'delta.enableChangeDataFeed' = 'true'", "'delta.enableRowTracking' = 'true'"])
def test_a_lite_vacuum_removes_what_commits_removed_and_leaves_orphans(
    told: Told, moving: MovingServer, properties: str
) -> None:
    latest = changing(told, properties)
    (told.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    moving.days(30)
    dry = told.handle.vacuum(dry_run=True, lite=True)
    done = told.handle.vacuum(lite=True)
    assert done.files == dry.files > 0 and set(done.paths) == set(dry.paths)
    assert not (set(done.paths) & told.files()) and "orphan.parquet" in told.files()
    assert told.readable(latest) and not told.readable(1)
    rest = told.handle.vacuum()
    assert "orphan.parquet" in rest.paths
    assert told.readable(latest)


@pytest.mark.slow
def test_i10_a_run_that_is_killed_at_any_step_leaves_what_is_needed_and_the_next_one_goes_on(
    told: Told, moving: MovingServer
) -> None:
    latest = changing(told)
    moving.days(30)
    for step in ("marked", "listed", "compared", "removed"):

        def die(at: VacuumStep, step: str = step) -> None:
            if at.step == step:
                raise KeyboardInterrupt(step)

        with pytest.raises(KeyboardInterrupt):
            told.handle.vacuum(progress=die)
        assert told.readable(latest)
    assert told.handle.vacuum().files == 0
    assert told.readable(latest) and not told.readable(1)


@pytest.mark.slow
def test_i10_what_a_commit_brings_while_a_vacuum_runs_stays(told: Told, moving: MovingServer) -> None:
    changing(told)
    moving.days(30)
    versions: list[int] = []

    def write(step: VacuumStep) -> None:
        versions.append(told.run("INSERT INTO {} VALUES (" + str(1000 + len(versions)) + ", 'late')"))
        if step.step == "listed":  # brings back files that were removed long ago, and that are listed
            versions.append(told.run("RESTORE TABLE {} TO VERSION AS OF 5"))

    done = told.handle.vacuum(progress=write)
    assert done.files > 0
    for version in versions:
        assert told.readable(version), version


@pytest.mark.slow
def test_a_vacuum_is_refused_where_it_is_not_safe(told: Told, moving: MovingServer, sql: Any) -> None:
    changing(told)
    sql.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
    try:
        with pytest.raises(TurnstileError, match="allow_short"):
            told.handle.vacuum(retention_hours=1)
    finally:
        sql.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    assert told.handle.vacuum(retention_hours=1, allow_short=True, dry_run=True).files == 0
    with pytest.raises(ValueError, match="retention_hours"):
        told.handle.vacuum(retention_hours=-1)
    with pytest.raises(ValueError, match="inventory"):
        told.handle.vacuum(lite=True, inventory=sql.spark.range(1))
    with told.lake.transaction(), pytest.raises(TurnstileError, match="inside of a transaction"):
        told.handle.vacuum()


@pytest.mark.slow
def test_an_inventory_stands_for_the_listing(told: Told, moving: MovingServer, sql: Any) -> None:
    latest = changing(told)
    (told.folder / "orphan.parquet").write_bytes(b"of a commit that came to nothing")
    (told.folder / "other.parquet").write_bytes(b"of another")
    moving.days(30)
    inventory = sql.spark.createDataFrame(
        [
            (f"file:{told.folder}/orphan.parquet", 32, False, 1),
            *((f"file:{told.folder}/{path}", 1, False, 1) for path in sorted(told.files()) if "x" in path),
        ],
        "path string, length bigint, isDir boolean, modificationTime bigint",
    )
    done = told.handle.vacuum(inventory=inventory)
    assert "orphan.parquet" in done.paths and "other.parquet" in told.files()
    assert told.readable(latest)
