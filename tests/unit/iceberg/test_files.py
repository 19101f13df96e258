"""Metadata files at the edges: how large they may be, how they are packed, and which are none
(I2)."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

import msgspec
import pytest

from tests.support.fakes.storage import FakeClock, FakeIds, FakeStorage, FakeStorages
from tests.support.iceberg.client import SCHEMA
from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg import files as module
from turnstile.iceberg.core import metadata
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.files import FileAltered, FileMissing, MetadataFiles, StoredFile
from turnstile.store.core.errors import InvalidRequest, NotFound, StorageFault, TooLarge
from turnstile.store.core.limits import escaped_size, response_size

PLACE = "s3://bucket/t"
PATH = f"{PLACE}/metadata/00001-a.metadata.json"


@pytest.fixture
def storages() -> FakeStorages:
    return FakeStorages(FakeClock())


def sandbox(storages: FakeStorages) -> MetadataFiles:
    return MetadataFiles(storages, FakeIds())


def table(location: str = PLACE, **properties: str) -> TableMetadata:
    schema = msgspec.convert(SCHEMA, Schema)
    return new_table(
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", location=location, schema=schema, spec=None, order=None,
        properties=properties, now_ms=1,
    )  # fmt: skip


def entity(made: TableMetadata, file: StoredFile) -> IcebergTable:
    return IcebergTable("t", made.table_uuid, PLACE, file.path, 1, digest=file.digest)


def limited(monkeypatch: pytest.MonkeyPatch, most: int, name: str = "MAX_BYTES") -> None:
    monkeypatch.setattr(module, name, most)


def test_a_file_that_a_request_names_may_have_as_many_bytes_as_the_limit(
    storages: FakeStorages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = table()
    size = response_size(metadata.document(made))
    raw = metadata.encode(made).ljust(size + 100)
    storages.files[PATH] = (raw, 1)
    limited(monkeypatch, len(raw))
    assert sandbox(storages).foreign_table(PATH) == (StoredFile(PATH, hashlib.sha256(raw).digest()), made)
    limited(monkeypatch, len(raw) - 1)
    with pytest.raises(TooLarge):
        sandbox(storages).foreign_table(PATH)


def test_a_file_that_a_request_names_is_counted_as_in_an_answer(
    storages: FakeStorages, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = table(note='"' * 1_000)
    raw = metadata.encode(made)
    size = response_size(metadata.document(made))
    assert size > len(raw)
    storages.files[PATH] = (raw, 1)
    limited(monkeypatch, size)
    assert sandbox(storages).foreign_table(PATH)[1] == made
    limited(monkeypatch, size - 1)
    with pytest.raises(TooLarge):
        sandbox(storages).foreign_table(PATH)


@pytest.mark.parametrize("name", ["00001-a.gz.metadata.json", "00001-a.metadata.json.gz"])
def test_a_packed_file_is_limited_packed_and_unpacked(
    storages: FakeStorages, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made = table()
    raw = metadata.encode(made).ljust(response_size(metadata.document(made)) + 100)
    path = f"{PLACE}/metadata/{name}"

    def read(packed: bytes, most: int) -> TableMetadata:
        storages.files[path] = (packed, 1)
        limited(monkeypatch, most)
        return sandbox(storages).foreign_table(path)[1]

    packed = gzip.compress(raw)
    as_it_is = gzip.compress(raw, compresslevel=0)
    assert len(packed) < len(raw) < len(as_it_is)
    assert read(packed, len(raw)) == read(as_it_is, len(as_it_is)) == made
    for content, most in ((packed, len(raw) - 1), (as_it_is, len(as_it_is) - 1)):
        with pytest.raises(TooLarge):
            read(content, most)


def test_i2_a_path_that_is_no_file_or_leads_to_none_is_refused(storages: FakeStorages) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sandbox(storages).foreign_table("s3://bucket")
    assert refused.value.field == "metadata-location"
    with pytest.raises(NotFound):
        sandbox(storages).foreign_table("s3://bucket/a.metadata.json")
    storages.files["s3://bucket/a.metadata.json"] = (metadata.encode(table()), 1)
    assert sandbox(storages).foreign_table("s3://bucket/a.metadata.json")[1] == table()


def test_a_file_larger_than_the_limit_is_written_only_in_place_of_a_larger_one(
    storages: FakeStorages, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sandbox(storages)
    made = table(note="x" * 100)
    size = escaped_size(metadata.encode(made))
    limited(monkeypatch, size)
    before = entity(made, files.write(PLACE, made))
    limited(monkeypatch, size - 50)
    assert files.encode(table(note="x" * 99), before)
    for other in (table(note="y" * 100), table(note="y" * 101)):
        with pytest.raises(TooLarge):
            files.encode(other, before)
    with pytest.raises(TooLarge):
        files.encode(table(note="x" * 99))
    with pytest.raises(TooLarge):
        sandbox(storages).encode(table(note="x" * 99), before)
    assert files.encode(table(note="x" * 50))


def test_i2_a_file_that_is_there_is_never_written_over(storages: FakeStorages) -> None:
    first = sandbox(storages).write(PLACE, table())
    before = dict(storages.files)
    with pytest.raises(StorageFault, match="exists"):
        sandbox(storages).write(PLACE, table(note="x"))  # with ids that begin anew
    assert storages.files == before and first.path in before


def test_a_file_whose_answer_was_lost_is_the_one_that_is_there(
    storages: FakeStorages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of S3 sends a request again whose answer was lost, and is told that the file
    exists."""
    created = FakeStorage.put_if_absent

    def lost(self: FakeStorage, path: str, content: bytes) -> bool:
        return created(self, path, content) and created(self, path, content)

    monkeypatch.setattr(FakeStorage, "put_if_absent", lost)
    file = sandbox(storages).write(PLACE, table())
    assert storages.files[file.path][0] == sandbox(storages).encode(table())


def test_i2_a_file_that_is_read_has_a_limit_of_its_own(storages: FakeStorages, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table()
    raw = metadata.encode(made).ljust(3_000)
    storages.files[PATH] = (raw, 1)
    old = entity(made, StoredFile(PATH, b""))
    limited(monkeypatch, len(raw), "READ_BYTES")
    assert sandbox(storages).table(old) == made
    limited(monkeypatch, len(raw) - 1, "READ_BYTES")
    with pytest.raises(FileAltered, match=f"more than {len(raw) - 1} bytes"):
        sandbox(storages).table(old)
    del storages.files[PATH]
    with pytest.raises(FileMissing):
        sandbox(storages).table(old)


@pytest.mark.parametrize(
    ("location", "made"), [("s3://bucket/t", []), ("file:///lake/t", ["metadata/.turnstile-staged"])]
)
def test_only_a_file_system_has_folders_to_make(storages: FakeStorages, location: str, made: list[Any]) -> None:
    sandbox(storages).make_folder(location)
    assert [path.removeprefix(f"{location}/") for path in storages.files] == made
