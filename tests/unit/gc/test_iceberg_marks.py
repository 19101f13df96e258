"""The files that Iceberg metadata name, from real manifests, and metadata that cannot be read
(I10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.iceberg.client import T1, Iceberg
from tests.support.iceberg.lake_files import MANIFEST, SYNC, LakeFiles
from turnstile.gc import iceberg_marks
from turnstile.gc.iceberg_marks import Marks, NotKnown
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.snapshots import PartitionStatisticsFile, Snapshot, StatisticsFile


@pytest.fixture
def lake() -> LakeFiles:
    api = Iceberg()
    api.create("t1")
    return LakeFiles(api)


def metadata(lake: LakeFiles, *snapshots: Snapshot, **more: Any) -> TableMetadata:
    raw = lake.client.world.storages.files[lake.client.load()["metadata-location"]][0]
    from turnstile.iceberg.core.metadata import parse

    return msgspec.structs.replace(parse(raw), snapshots=snapshots, **more)


def marks(lake: LakeFiles, *snapshots: Snapshot, present: bool = True, **more: Any) -> Marks:
    location = lake.client.load(T1)["metadata"]["location"]
    found = Marks(lake.client.world.storages, frozenset((location,)), 1)
    found.add(metadata(lake, *snapshots, **more), present=present)
    return found


def listed(lake: LakeFiles, **entry: Any) -> Snapshot:
    """A snapshot of one manifest, whose entry in the list has further members."""
    here = lake.client.load(T1)["metadata"]["location"]
    path = lake.snapshot(here, 1, [f"{here}/data/a.parquet"])
    (record,) = avro.read(lake.client.world.storages.files[path][0])
    raw = avro.write([{**record, **entry.pop("members", {})}], manifests.SCHEMA, {}, SYNC)
    return Snapshot(1, 1, None, 1, lake.put(here, "metadata/snap-1.avro", raw))


def with_status(lake: LakeFiles, status: int) -> Snapshot:
    here = lake.client.load(T1)["metadata"]["location"]
    entry = {
        manifests.STATUS: status,
        manifests.ENTRY_SNAPSHOT: 1,
        manifests.DATA_FILE: {manifests.FILE_PATH: f"{here}/data/a.parquet", 103: 1},
    }
    manifest = lake.put(here, "metadata/m.avro", avro.write([entry], MANIFEST, {}, SYNC))
    return Snapshot(1, 1, manifests=(manifest,))


@pytest.mark.parametrize(("status", "named"), [(0, True), (1, True), (2, False)])
def test_files_that_are_live_are_named_also_by_lists_of_format_1(lake: LakeFiles, status: int, named: bool) -> None:
    found = marks(lake, with_status(lake, status))
    assert ("s3://x/a.parquet" in found) == named and "m.avro" in found and "" not in found


def test_i10_an_unknown_status_or_an_encrypted_manifest_is_not_known(lake: LakeFiles) -> None:
    with pytest.raises(NotKnown, match="not understood"):
        marks(lake, with_status(lake, 3))
    with pytest.raises(NotKnown, match="encrypted"):
        marks(lake, listed(lake, members={manifests.KEY_METADATA: b"k"}))
    with pytest.raises(NotKnown, match="encrypted"):
        marks(lake, msgspec.structs.replace(listed(lake), key_id="k1"))


def test_i10_a_manifest_of_another_schema_is_not_known(lake: LakeFiles) -> None:
    here = lake.client.load(T1)["metadata"]["location"]
    raw = avro.write(
        [{1: 5}], {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long", "field-id": 1}]}, {}, SYNC
    )
    path = lake.put(here, "metadata/other.avro", raw)
    with pytest.raises(NotKnown, match="without a path"):
        marks(lake, Snapshot(1, 1, None, 1, path))
    with pytest.raises(NotKnown, match="not understood"):
        marks(lake, Snapshot(1, 1, manifests=(path,)))


def test_each_manifest_is_read_once(lake: LakeFiles) -> None:
    one = listed(lake)
    lake.client.world.storages.requests.clear()
    marks(lake, one, msgspec.structs.replace(one, snapshot_id=2))
    assert lake.client.world.storages.requests.count("read") == 2


def test_what_is_missing_may_be_of_former_metadata_only(lake: LakeFiles) -> None:
    here = lake.client.load(T1)["metadata"]["location"]
    gone = Snapshot(1, 1, None, 1, f"{here}/metadata/gone.avro")
    assert "gone.avro" in marks(lake, gone, present=False)
    with pytest.raises(NotKnown, match=r"gone\.avro is missing"):
        marks(lake, gone)


def test_i10_bounds(lake: LakeFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = listed(lake)
    largest = max(len(raw) for path, (raw, _) in lake.client.world.storages.files.items() if path.endswith(".avro"))
    monkeypatch.setattr(iceberg_marks, "READ_BYTES", largest)
    marks(lake, snapshot)
    monkeypatch.setattr(iceberg_marks, "READ_BYTES", largest - 1)
    with pytest.raises(NotKnown, match="bytes"):
        marks(lake, snapshot)
    monkeypatch.undo()
    monkeypatch.setattr(iceberg_marks, "MANIFESTS_MAX", 1)
    marks(lake, with_status(lake, 1))
    with pytest.raises(NotKnown, match="more than 1 manifests"):
        marks(lake, with_status(lake, 1), msgspec.structs.replace(snapshot, snapshot_id=2))


def test_statistics_are_named(lake: LakeFiles) -> None:
    found = marks(
        lake,
        statistics=(StatisticsFile(1, "s3://x/a%20b.stats", 1, 1, ()),),
        partition_statistics=(PartitionStatisticsFile(1, "s3://x/p.parquet", 1),),
    )
    assert "a b.stats" in found and "a%20b.stats" in found and "p.parquet" in found and "q.parquet" not in found
