"""A deployment whose lake is on S3 never looks at its own disk, whatever location a request names
(I12)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Answer, Http, function
from tests.support.unity import COLUMNS, SCHEMA, B, Unity
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.locations import require_served
from turnstile.catalog.services import build
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import published_path
from turnstile.transfer.imports import Importer

DEFAULT = "/v1/catalogs/main/namespaces/default"
ON_S3 = "s3://lake/root"
PROTOCOL = {"min-reader-version": 3, "min-writer-version": 7, "reader-features": [], "writer-features": []}


@pytest.fixture
def world() -> FakeWorld:
    """A world with the real adapters for storage."""
    world = fake_world()
    bootstrap.ensure(world, lake_root=ON_S3)
    object.__setattr__(world, "storages", FileStorages())
    return world


@pytest.fixture
def http(world: FakeWorld) -> Http:
    function("catalog").use_world(world, lake_root=ON_S3)
    return Http(function("catalog").app)


def delta_table(folder: Path) -> str:
    """A real table on this machine's disk."""
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    file = folder / published_path(0)
    file.parent.mkdir(parents=True)
    file.write_bytes(delta.lines(protocol, delta.metadata()))
    os.utime(file, (1_700_000_000, 1_700_000_000))  # before the fake clock's time
    return f"file://{folder}"


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("dry_run", [True, False])
def test_i12_an_import_from_the_servers_disk_is_refused_whatever_lies_there(
    http: Http, tmp_path: Path, dry_run: bool
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    places = [delta_table(tmp_path / "table"), f"file://{tmp_path}/file", f"file://{tmp_path}/missing", "file:/etc"]
    before = files_in(tmp_path)
    answers = [
        http.post(f"{DEFAULT}/imports", {"name": "t", "location": place, "dry_run": dry_run}) for place in places
    ]
    assert {answer.status for answer in answers} == {400}
    assert len({answer.error["message"] for answer in answers}) == 1
    assert answers[0].error["field"] == "location" and "s3" in answers[0].error["message"]
    assert files_in(tmp_path) == before


def test_i12_an_export_never_writes_to_the_servers_disk(world: FakeWorld, http: Http, tmp_path: Path) -> None:
    """Of a table that an earlier release took in from there."""
    location = delta_table(tmp_path / "table")
    Importer(build(world, lake_root="file:///elsewhere")).run("main", ("default",), "t", location)
    before = files_in(tmp_path)
    for dry_run in (True, False):
        answer = http.post(f"{DEFAULT}/tables/t/export", {"dry_run": dry_run})
        assert (answer.status, answer.error["field"]) == (400, "location")
    assert files_in(tmp_path) == before


def external(unity: Unity, location: str) -> list[Answer]:
    """Both ways to register an external table."""
    new = {"name": "e1", "location": location, "table-type": "EXTERNAL", "columns": COLUMNS, "protocol": PROTOCOL,
           "properties": {}, "last-commit-timestamp-ms": 5}  # fmt: skip
    old: dict[str, Any] = {"name": "e1", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                           "data_source_format": "DELTA", "columns": [], "storage_location": location}  # fmt: skip
    return [unity.post(f"{SCHEMA}/tables", new), unity.post(f"{B}/tables", old)]


@pytest.mark.parametrize("location", ["file:/etc/passwd", "file:///no/such/place", "FILE:/tmp"])
def test_i12_an_external_table_on_the_servers_disk_is_refused_where_the_lake_is_on_s3(location: str) -> None:
    unity = Unity(lake_root=ON_S3)
    before = unity.rows()
    for answer in external(unity, location):
        assert answer.status == 400 and "file: are not served" in answer.text
    assert unity.rows() == before


@pytest.mark.parametrize("location", ["s3://other/e1", "gs://other/e1", "abfss://c@account/e1"])
def test_an_external_table_in_another_object_store_is_registered_because_nothing_is_read_there(location: str) -> None:
    assert external(Unity(lake_root=ON_S3), location)[0].status == 200


def test_where_the_lake_is_on_disk_tables_on_disk_are_served() -> None:
    assert external(Unity(), "file:/data/e1")[0].status == 200


@pytest.mark.parametrize(
    ("location", "root", "only_registered", "served"),
    [
        ("s3a://b/x", "s3://lake", False, True),
        ("s3://b/x", "file:///lake", False, True),
        ("file:/x", "file:///lake", False, True),
        ("file:/x", "s3://lake", False, False),
        ("file:/x", "s3://lake", True, False),
        ("gs://b/x", "s3://lake", False, False),
        ("gs://b/x", "s3://lake", True, True),
    ],
)
def test_s3_and_the_lakes_own_scheme_are_served(location: str, root: str, only_registered: bool, served: bool) -> None:
    if served:
        assert require_served(location, root, only_registered=only_registered).startswith(location[:2])
        return
    with pytest.raises(InvalidRequest, match="are not served") as refused:
        require_served(location, root, only_registered=only_registered)
    assert refused.value.remedy
