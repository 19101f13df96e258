"""The files that the current snapshot of an Iceberg table names are looked at, with their sizes
(I24)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.functions import Function, Http
from tests.support.iceberg.client import Iceberg
from tests.support.iceberg.planned_table import PlannedTable
from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg import named_files as iceberg_files
from turnstile.iceberg.core.metadata import TableMetadata, parse
from turnstile.iceberg.named_files import IcebergFiles
from turnstile.maintenance import named_files
from turnstile.maintenance.named_files import FilesLooked
from turnstile.store.core.errors import InvalidRequest, StateConflict

APPENDS = 3
PER_APPEND = 4
"""Data files; each append has a manifest for them."""


class Site:
    """A table with three manifests of data files and one of deletes, and all of its files."""

    def __init__(self) -> None:
        self.client = Iceberg()
        self.table = PlannedTable(self.client)
        for number in range(APPENDS):
            names = [f"{number}-{part}.parquet" for part in range(PER_APPEND)]
            deletes = [self.table.file("d.parquet", content="position")] if number == 1 else []
            for name in (*names, *(["d.parquet"] if deletes else [])):
                self.put(name)
            self.table.append(*(self.table.file(name) for name in names), *deletes)

    @property
    def stored(self) -> dict[str, tuple[bytes, int]]:
        return self.client.world.storages.files

    def path(self, name: str) -> str:
        return f"{self.table.location}/data/{name}"

    def put(self, name: str, size: int = 100) -> None:
        self.stored[self.path(name)] = (b"x" * size, self.client.world.clock.now)

    def metadata(self) -> tuple[IcebergTable, TableMetadata]:
        loaded = self.client.load(self.table.path)
        entity = IcebergTable("i1", self.table.id, self.table.location, loaded["metadata-location"], 0)
        return entity, parse(json.dumps(loaded["metadata"]).encode())

    def look(
        self, after: str = "", reload: Callable[[], Any] | None = None, until_ms: int | None = None
    ) -> FilesLooked:
        world = self.client.world
        files = IcebergFiles(world.storages, world.clock)
        return files.look(reload or self.metadata, [self.table.location], after, until_ms=until_ms)

    def found(self) -> list[tuple[str, str]]:
        return sorted((fault.path.rpartition("/")[2], fault.kind) for fault in self.look().deviations)


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_table_whose_files_are_as_it_says_has_no_deviation(site: Site) -> None:
    count = APPENDS * PER_APPEND + 1 + APPENDS + 1
    answer = site.look()
    assert answer == FilesLooked(site.table.id, APPENDS * 10, count, [])
    requests = site.client.world.storages.requests
    requests.clear()
    site.look()
    assert requests.count("stat") == count + 1, "and the metadata file"


def test_i24_data_files_manifests_lists_and_metadata_that_are_missing_or_of_another_size_are_found(site: Site) -> None:
    del site.stored[site.path("0-1.parquet")]
    site.put("1-2.parquet", 0)
    site.put("2-3.parquet", 99)
    site.put("d.parquet", 101)
    expected = [("0-1.parquet", "missing"), ("1-2.parquet", "size"), ("2-3.parquet", "size"), ("d.parquet", "size")]
    assert site.found() == expected
    for manifest in ("m10-data.avro", "m20-data.avro"):
        path = f"{site.table.location}/metadata/{manifest}"
        content, at = site.stored.pop(path)
        expected.append((manifest, "missing"))
        if manifest == "m20-data.avro":
            site.stored[path] = (content[: len(content) // 2], at)
            expected[-1:] = [(manifest, "size"), (manifest, "unreadable")]
    assert site.found() == sorted(each for each in expected if each[0] not in ("0-1.parquet", "1-2.parquet"))
    path = f"{site.table.location}/metadata/snap-30.avro"
    whole = site.stored.pop(path)
    assert site.found() == [("snap-30.avro", "missing")]
    site.stored[path] = (whole[0][:9], whole[1])
    assert site.found() == [("snap-30.avro", "unreadable")]
    entity, metadata = site.metadata()
    del site.stored[entity.metadata]
    kinds = {fault.kind: fault.path for fault in site.look(reload=lambda: (entity, metadata)).deviations}
    assert kinds["missing"] == entity.metadata


def test_files_of_older_snapshots_and_removed_entries_are_not_looked_at(site: Site) -> None:
    site.table.append(site.table.file("later.parquet"), kept=[])
    site.put("later.parquet")
    del site.stored[site.path("0-0.parquet")]
    assert (site.look().files, site.found()) == (2, [])


def test_a_table_without_a_snapshot_has_no_files(site: Site) -> None:
    entity, metadata = site.metadata()
    empty = msgspec.structs.replace(metadata, current_snapshot_id=None)
    assert site.look(reload=lambda: (entity, empty)) == FilesLooked(site.table.id, None, 0, [])


@pytest.mark.parametrize("most", [1, 2, PER_APPEND + 1, 100])
def test_a_call_looks_at_some_files_and_the_next_goes_on_until_all_were_seen(
    site: Site, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(named_files, "FILES_MAX", most)
    monkeypatch.setattr(named_files, "_BATCH", 1)
    names = [f"{number}-{part}.parquet" for number in range(APPENDS) for part in range(PER_APPEND)]
    for name in names:
        del site.stored[site.path(name)]
    after = ""
    paths = list[str]()
    files = 0
    while True:
        answer = site.look(after)
        paths += [fault.path for fault in answer.deviations]
        files += answer.files
        if answer.next is None:
            break
        after = answer.next
    assert sorted(paths) == sorted(map(site.path, names))
    assert files == APPENDS * PER_APPEND + 1 + APPENDS + 1


def test_a_call_ends_when_its_time_is_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "_BATCH", 1)
    clock = site.client.world.clock
    clock.step = 0
    assert site.look(until_ms=clock.now_ms()).files == 1
    assert site.look(until_ms=clock.now_ms() + 1).next is None


def test_files_of_a_snapshot_that_expired_meanwhile_are_not_judged(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "FILES_MAX", 1)
    monkeypatch.setattr(named_files, "_BATCH", 1)
    first = site.look()
    entity, metadata = site.metadata()
    expired = msgspec.structs.replace(metadata, snapshots=(), current_snapshot_id=None)
    assert first.next is not None
    with pytest.raises(StateConflict, match="has expired"):
        site.look(first.next, reload=lambda: (entity, expired))
    monkeypatch.setattr(named_files, "FILES_MAX", 100)
    del site.stored[site.path("0-0.parquet")]
    answers = iter([metadata, expired])
    with pytest.raises(StateConflict, match="has expired"):
        site.look(reload=lambda: (entity, next(answers)))


def test_i12_files_elsewhere_and_large_manifests_are_not_judged(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "file:///elsewhere/secret.parquet"
    site.stored[secret] = (b"x", 0)
    file = site.table.file("x")
    object.__setattr__(file, "_data", [secret if value == site.path("x") else value for value in file._data])
    site.table.append(file, kept=[])
    answer = site.look()
    assert (answer.deviations, [each.path for each in answer.not_judged]) == ([], [secret])
    entity, metadata = site.metadata()
    moved = tuple(msgspec.structs.replace(each, manifest_list=secret) for each in metadata.snapshots)
    answer = site.look(reload=lambda: (entity, msgspec.structs.replace(metadata, snapshots=moved)))
    assert (answer.deviations, [each.path for each in answer.not_judged]) == ([], [secret])
    read = [f"{site.table.location}/metadata/{name}" for name in ("snap-40.avro", "m40-data.avro")]
    largest = max(len(site.stored[path][0]) for path in read)
    monkeypatch.setattr(iceberg_files, "READ_BYTES", largest)
    assert [each.path for each in site.look().not_judged] == [secret]
    monkeypatch.setattr(iceberg_files, "READ_BYTES", 10)
    (large,) = site.look().not_judged
    assert large.path.endswith(".avro") and "more than 10 bytes" in large.reason


@pytest.mark.parametrize("after", ["x", "30", "30.1", "30.0.0.0", "30.a.0"])
def test_a_place_that_is_none_is_refused(site: Site, after: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        site.look(after)
    assert refused.value.field == "after"


def test_the_api_looks_at_a_table_by_its_name(site: Site) -> None:
    app = Function("catalog")
    app.use_world(site.client.world)
    http = Http(app.app)
    at = "/v1/catalogs/main/namespaces/sales/tables"
    del site.stored[site.path("0-1.parquet")]
    name = site.table.path.rpartition("/")[2]
    answer = http.call("GET", f"{at}/{name}/file-verification")
    assert (answer.status, [fault["kind"] for fault in answer.json["deviations"]]) == (200, ["missing"])
    assert http.call("GET", f"{at}/nosuch/file-verification").status == 404
    assert http.call("GET", f"{at}/{name}/file-verification", query={"after": "x"}).status == 400
