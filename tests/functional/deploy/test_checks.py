"""The checks of a deployment: each finds the fault that it is for, leaves nothing behind, and does
not end the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.catalog import fakes, fresh
from tests.support.clones import drop_iceberg, iceberg_table
from tests.support.delta_table import Table, publish, with_metadata
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.api.doctor import checks, folders
from turnstile.api.doctor.checks import FOLDER, LAG_MS, SKEW_MS, Check
from turnstile.catalog.core.entities import IcebergTable
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import StorageFault
from turnstile.store.ports import Accepted, Obj, Stat

ROOT = "file:///lake"
ALL = ["refs", "releases", "objs", "storage", "clock", "tables", "publishing", "folders", "clocks"]


def run(world: Any) -> dict[str, Check]:
    return {check.name: check for check in checks.run(world, ROOT).checks}


def failed(world: Any) -> list[str]:
    return [name for name, check in run(world).items() if check.result == "failed"]


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def test_all_is_well_and_nothing_is_left_behind(world: FakeWorld) -> None:
    before = world.clock.now
    answer = checks.run(world, ROOT)
    assert [(check.name, check.result, check.remedy) for check in answer.checks] == [(name, "ok", "") for name in ALL]
    assert answer.now_ms > before
    assert (world.refs.rows, world.objs.rows, world.storages.files) == ({}, {}, {})


class Overwriting(FakeStorage):
    """A store that ignores If-None-Match."""

    def put_if_absent(self, path: str, content: Any) -> bool:
        self.replace(path, content)
        return True


class Late(FakeStorage):
    """A store whose listings lag behind."""

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        return iter(())


class Torn(FakeStorage):
    """A store that gives back other bytes."""

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        file = super().read(path, limit, offset)
        return None if file is None else (b"?", file[1])


class Denied(FakeStorage):
    def put_if_absent(self, path: str, content: Any) -> bool:
        raise StorageFault("could not write: AccessDenied", remedy="give the right")


def with_storage(world: FakeWorld, kind: type[FakeStorage], monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    monkeypatch.setattr(type(world.storages), "open", lambda self, location: kind(self, location + "/"))
    return world


@pytest.mark.parametrize(
    ("kind", "says"), [(Overwriting, "overwritten"), (Late, "listed"), (Torn, "read back"), (Denied, "AccessDenied")]
)
def test_i2_i4_a_lake_that_does_not_keep_its_word_is_found(
    world: FakeWorld, kind: type[FakeStorage], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_storage(world, kind, monkeypatch)
    check = run(world)["storage"]
    assert (check.result, failed(world)) == ("failed", ["storage"])
    assert says in check.message
    assert check.remedy
    assert world.storages.files == {}


def test_the_file_is_removed_also_when_a_check_breaks_off(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaks(FakeStorage):
        def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
            raise RuntimeError("no more")

    with_storage(world, Breaks, monkeypatch)
    assert run(world)["storage"].message == "RuntimeError: no more"
    assert world.storages.files == {}


@pytest.mark.parametrize("by_ms", [-SKEW_MS - 10, SKEW_MS + 10])
def test_i7_a_store_whose_clock_is_far_away_is_found(
    world: FakeWorld, by_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Skewed(FakeStorage):
        def stat(self, path: str) -> Stat | None:
            stat = super().stat(path)
            return None if stat is None else Stat(stat.path, stat.size, stat.modified_ms + by_ms)

    with_storage(world, Skewed, monkeypatch)
    assert failed(world) == ["clock"]


def test_i1_a_table_of_refs_that_takes_every_write_is_found(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    write = world.refs.write

    def without_clauses(given: Any) -> Any:
        result = write(given)
        return Accepted(result.row) if not isinstance(result, Accepted) else result

    monkeypatch.setattr(world.refs, "write", without_clauses)
    check = run(world)["refs"]
    assert check.result == "failed"
    assert "not refused" in check.message
    assert failed(world) == ["refs"]


def test_objs_that_are_not_kept_are_found(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(obj: Obj) -> None:
        return None

    monkeypatch.setattr(world.objs, "put", forget)
    assert failed(world) == ["objs"]


def waiting() -> Table:
    table = with_metadata()
    stamp = table.world.clock.now_ms()
    content = delta.lines(delta.info("t", stamp), delta.add("f.parquet"))
    assert isinstance(table.ratifier.commit(CommitRequest(table.id, 1, content=content)), Ratified)
    return table


def test_i11_a_table_that_waits_too_long_to_be_published_is_found() -> None:
    table = waiting()
    check = run(table.world)["publishing"]
    assert (check.result, check.message.split(",")[0]) == ("ok", "1 tables wait to be published")
    table.world.clock.now += LAG_MS + 1_000
    assert run(table.world)["publishing"].result == "failed"
    publish(table)
    assert run(table.world)["publishing"].message == "all is published"


def test_i11_a_stuck_table_is_named() -> None:
    table = waiting()
    table.world.refs.rows[table.key]["state"] = "stuck"
    check = run(table.world)["stuck"]
    assert check.result == "failed"
    assert table.row["name"] in check.message
    assert "turnstile repair" in check.remedy


def test_a_check_that_cannot_be_made_does_not_end_the_others(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no such table")

    monkeypatch.setattr(world.refs, "write", broken)
    monkeypatch.setattr(world.refs, "scan", broken)
    results = run(world)
    assert failed(world) == ["refs", "tables", "folders"]
    assert results["storage"].result == "ok"
    assert results["refs"].message == "RuntimeError: no such table"


def test_the_checks_write_below_the_lakes_root_where_the_functions_may(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = FakeStorage.put_if_absent
    paths = []

    def seen(self: FakeStorage, path: str, content: Any) -> bool:
        paths.append(self._key(path))
        return put(self, path, content)

    monkeypatch.setattr(FakeStorage, "put_if_absent", seen)
    run(dataclasses.replace(world))
    assert paths
    assert all(path.startswith(f"{ROOT}/{FOLDER}/_delta_log/check-") for path in paths)


def moved(table: Table, to: str = "file:///elsewhere") -> None:
    """Moves the files of a table as 'mv' does: the store does not know of it."""
    files = table.world.storages.files
    for path in [path for path in files if path.startswith(table.row["location"] + "/")]:
        files[to + path.removeprefix(table.row["location"])] = files.pop(path)


def test_i24_a_table_whose_folder_is_not_where_the_store_says_is_named() -> None:
    table = with_metadata()
    said = run(table.world)["folders"].message
    assert said.startswith("the log or metadata file is where the store says, of each of 1 tables")
    assert "turnstile verify TABLE --files" in said, "what is not looked at"
    moved(table)
    check = run(table.world)["folders"]
    assert (check.result, failed(table.world)) == ("failed", ["folders"])
    assert f"{table.row['name']} at {table.row['location']}" in check.message
    assert "turnstile repair" in check.remedy


def test_many_tables_without_a_folder_are_a_lake_that_moved() -> None:
    table = with_metadata()
    for number in range(5):
        row = {
            **table.row,
            "key": f"{table.key}{number}",
            "name": f"t{number}",
            "location": f"file:///lake/c/n/{number}",
        }
        table.world.refs.rows[row["key"]] = row
    check = run(table.world)["folders"]
    assert "5 of 6 tables" in check.message
    assert "and 2 more" in check.message
    assert "below file:///lake/c/n," in check.remedy


def test_a_dropped_table_whose_files_were_removed_has_no_folder() -> None:
    table = with_metadata()
    moved(table)
    table.world.refs.rows[table.key] |= {"state": "dropped", "reason": "purged"}
    assert run(table.world)["folders"].message.startswith(
        "the log or metadata file is where the store says, of each of 0 tables"
    )


def test_how_many_tables_were_not_looked_at_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_metadata()
    table.world.refs.rows |= {f"{table.key}{n}": {**table.row, "key": f"{table.key}{n}"} for n in range(99)}
    assert run(table.world)["folders"].result == "ok"
    monkeypatch.setattr(folders, "TABLES", 40)
    check = run(table.world)["folders"]
    assert (check.result, failed(table.world)) == ("warning", [])
    assert "of each of 40 tables (60 more were not looked at)" in check.message
    assert "turnstile verify" in check.remedy
    monkeypatch.setattr(folders, "LONGEST_MS", 0)
    assert "of each of 0 tables (100 more were not looked at)" in run(table.world)["folders"].message
    moved(table)
    monkeypatch.undo()
    monkeypatch.setattr(folders, "TABLES", 40)
    assert "40 of 40 tables (60 more were not looked at) have no log" in run(table.world)["folders"].message


def with_iceberg(count: int) -> tuple[FakeWorld, list[IcebergTable]]:
    services = fresh()
    services.namespaces.create("main", ("ice",))
    return fakes(services), [iceberg_table(services, f"ice.t{number}") for number in range(count)]


def test_an_iceberg_table_whose_metadata_file_is_not_where_the_store_says_is_named() -> None:
    world, (one, *_) = with_iceberg(3)
    assert "of each of 3 tables;" in run(world)["folders"].message
    del world.storages.files[one.metadata]
    check = run(world)["folders"]
    assert (check.result, failed(world)) == ("failed", ["folders"])
    assert f"1 of 3 tables have no log or metadata file where the store says: main.ice.t0 at {one.metadata}" in (
        check.message
    )
    assert "put the files back where they were" in check.remedy


def test_iceberg_tables_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = with_iceberg(5)
    table = Table(world)
    world.refs.rows |= {f"{table.key}{n}": {**table.row, "key": f"{table.key}{n}"} for n in range(9)}
    monkeypatch.setattr(folders, "TABLES", 3)
    check = run(world)["folders"]
    assert (check.result, "of each of 6 tables (9 more were not looked at)" in check.message) == ("warning", True)


def test_an_iceberg_file_that_a_commit_replaced_meanwhile_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, (one,) = with_iceberg(1)
    services = fresh(world)

    def dropped(self: FakeStorage, path: str) -> Stat | None:
        if path in one.metadata and one.metadata in world.storages.files:
            del world.storages.files[one.metadata]
            drop_iceberg(services, "ice.t0")
        return stat(self, path)

    stat = FakeStorage.stat
    monkeypatch.setattr(FakeStorage, "stat", dropped)
    assert run(world)["folders"].result == "ok"


def test_a_catalog_whose_tree_cannot_be_read_is_not_called_sound() -> None:
    world, _ = with_iceberg(1)
    for place in [place for place, obj in world.objs.rows.items() if obj.type in ("commit", "segment")]:
        world.objs.rows[place] = msgspec.structs.replace(world.objs.rows[place], payload=b"no content")
    check = run(world)["folders"]
    assert (check.result, "catalog main: obj" in check.message) == ("failed", True)


def test_tables_whose_storage_does_not_answer_are_not_called_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_metadata()

    def refused(self: FakeStorage, path: str) -> Stat | None:
        raise StorageFault("AccessDenied")

    monkeypatch.setattr(FakeStorage, "stat", refused)
    check = run(table.world)["folders"]
    assert (check.result, "AccessDenied" in check.message) == ("failed", True)
