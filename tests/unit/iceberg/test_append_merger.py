"""Appends of several writers made one history, and everything that is not merged (I2, I9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyiceberg.manifest import ManifestEntryStatus

from tests.support.fakes.storage import FakeIds
from tests.support.iceberg.client import SCHEMA
from tests.support.iceberg.manifests import Lake
from turnstile.adapters.opening import FileStorages
from turnstile.iceberg.append_merger import MERGE, AppendMerger
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import AssertCurrentSchemaId, AssertRefSnapshotId, AssertTableUuid
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.iceberg.core.table_updates import applied

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
NOW = 1_780_000_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def table(lake: Lake, *snapshots: Snapshot, version: str = "2", merge: str = "true") -> TableMetadata:
    made = new_table(
        uuid=UUID, location=lake.location, schema=msgspec.convert(SCHEMA, Schema), spec=None, order=None,
        properties={MERGE: merge, "format-version": version}, now_ms=1,
    )  # fmt: skip
    for snapshot in snapshots:  # format 1 counts no sequences
        counted = snapshot if version != "1" else msgspec.structs.replace(snapshot, sequence_number=0)
        made = applied(made, commit(counted), NOW)
    return made


def commit(snapshot: Snapshot, ref: str = "main", **more: Any) -> tuple[u.TableUpdate, ...]:
    return u.AddSnapshot(snapshot), u.SetSnapshotRef(ref, snapshot.snapshot_id, "branch", **more)


def requires(snapshot: Snapshot) -> tuple[Any, ...]:
    return AssertTableUuid(UUID), AssertRefSnapshotId("main", snapshot.parent_snapshot_id)


def merger() -> AppendMerger:
    return AppendMerger(FileStorages(), FakeIds())


def test_i9_the_slower_append_follows_the_faster_one(lake: Lake) -> None:
    base = lake.append(1, None, 1)
    faster, slower = lake.append(2, base, 2, files=2), lake.append(3, base, 2, files=3)
    now = table(lake, base, faster)
    merged = merger().merge(now, requires(slower), commit(slower))
    assert merged is not None
    after = applied(now, merged.updates, NOW)
    made = after.snapshot(3)
    assert made is not None and (made.parent_snapshot_id, made.sequence_number, after.current_snapshot_id) == (2, 3, 3)
    assert made.manifest_list == merged.manifest_list and merged.manifest_list.startswith(
        f"{lake.location}/metadata/snap-3-"
    )
    assert made.summary == {
        "operation": "append", "added-data-files": "3", "added-records": "9", "total-data-files": "6",
        "total-records": "18", "total-delete-files": "0",
    }  # fmt: skip
    manifests = lake.read(merged.manifest_list)
    assert [(one.added_snapshot_id, one.sequence_number, one.min_sequence_number) for one in manifests] == [
        (3, 3, 3), (2, 2, 2), (1, 1, 1),
    ]  # fmt: skip
    entries = [entry for manifest in manifests for entry in lake.entries(manifest)]
    assert [entry.sequence_number for entry in entries] == [3, 3, 3, 2, 2, 1]
    assert len({entry.data_file.file_path for entry in entries}) == 6
    assert [entry.snapshot_id for entry in entries] == [3, 3, 3, 2, 2, 1]


def test_i9_appends_to_a_table_that_was_empty_follow_each_other_too(lake: Lake) -> None:
    snapshots = [lake.append(id, None, 1) for id in (1, 2, 3)]
    now = table(lake, snapshots[0])
    for snapshot in snapshots[1:]:
        merged = merger().merge(now, requires(snapshot), commit(snapshot))
        assert merged is not None
        now = applied(now, merged.updates, NOW)
    assert [one.sequence_number for one in now.snapshots] == [1, 2, 3]
    assert len(lake.read(now.snapshots[-1].manifest_list)) == 3


def stale_schema(lake: Lake, slower: Snapshot) -> Any:
    return (AssertCurrentSchemaId(0), *requires(slower)), commit(slower)


def other_ref(lake: Lake, slower: Snapshot) -> Any:
    return requires(slower), commit(slower, "audit")


def more_updates(lake: Lake, slower: Snapshot) -> Any:
    return requires(slower), (*commit(slower), u.SetProperties({"a": "1"}))


def another_table(lake: Lake, slower: Snapshot) -> Any:
    return (AssertTableUuid("00000000-0000-4000-8000-000000000009"),), commit(slower)


def other_requirement(lake: Lake, slower: Snapshot) -> Any:
    return (AssertRefSnapshotId("main", 77),), commit(slower)


def changed(**changes: Any) -> Callable[[Lake, Snapshot], Any]:
    def make(lake: Lake, slower: Snapshot) -> Any:
        made = msgspec.structs.replace(slower, **changes)
        return requires(made), commit(made)

    return make


def without_parents(lake: Lake, slower: Snapshot) -> Any:
    """A list that leaves its parent's manifests out: an overwrite that calls itself an append."""
    made = msgspec.structs.replace(slower, manifest_list=lake.list(3, 1, 2, [lake.manifest(3)]))
    return requires(made), commit(made)


def elsewhere(lake: Lake, slower: Snapshot) -> Any:
    return changed(manifest_list="file:///etc/passwd")(lake, slower)


def with_manifest(status: Any, **entry: Any) -> Callable[[Lake, Snapshot], Any]:
    def make(lake: Lake, slower: Snapshot) -> Any:
        before = [one for one in lake.read(slower.manifest_list) if one.added_snapshot_id == 1]
        made = lake.manifest(3, 1, status, **entry)
        made = msgspec.structs.replace(slower, manifest_list=lake.list(3, 1, 2, [made, *before]))
        return requires(made), commit(made)

    return make


REFUSED: dict[str, Callable[[Lake, Snapshot], Any]] = {
    "another requirement": stale_schema,
    "another branch": other_ref,
    "another update": more_updates,
    "another table": another_table,
    "another requirement of main": other_requirement,
    "an overwrite": changed(summary={"operation": "overwrite"}),
    "an encrypted snapshot": changed(key_id="k"),
    "a parent that is not in the history": changed(parent_snapshot_id=99),
    "a snapshot that is there": changed(snapshot_id=2),
    "a list that is missing": changed(manifest_list="file:///none/x.avro"),
    "a list of somebody else": elsewhere,
    "a list without the parent's manifests": without_parents,
    "a manifest that deletes": with_manifest(ManifestEntryStatus.DELETED, sequence_number=1, file_sequence_number=1),
    "a manifest with existing files": with_manifest(ManifestEntryStatus.EXISTING, sequence_number=1, file_sequence_number=1),
    "a file with a sequence number of its own": with_manifest(ManifestEntryStatus.ADDED, sequence_number=1),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_i2_what_is_no_plain_append_is_not_merged(lake: Lake, what: str) -> None:
    base = lake.append(1, None, 1)
    faster, slower = lake.append(2, base, 2), lake.append(3, base, 2)
    files = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")}
    requirements, updates = REFUSED[what](lake, slower)
    more = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")} - files
    assert merger().merge(table(lake, base, faster), requirements, updates) is None
    left = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")}
    assert left == files | more, "nothing was written"


@pytest.mark.parametrize("options", [{"merge": "false"}, {"version": "1"}])
def test_a_table_that_does_not_ask_for_it_is_not_merged(lake: Lake, options: Any) -> None:
    base = lake.append(1, None, 1)
    faster, slower = lake.append(2, base, 2), lake.append(3, base, 2)
    now = table(lake, base, faster, **options)
    assert merger().merge(now, requires(slower), commit(slower)) is None


def test_version_3_numbers_rows_and_is_not_merged(lake: Lake) -> None:
    rows = {"first_row_id": 0, "added_rows": 3}
    base = lake.append(1, None, 1, **rows)
    slower = lake.append(3, None, 1, **rows)
    now = table(lake, base, version="3")
    assert merger().merge(now, requires(slower), commit(slower)) is None


def test_an_append_after_an_expired_parent_is_not_merged(lake: Lake) -> None:
    base = lake.append(1, None, 1)
    faster, slower = lake.append(2, base, 2), lake.append(3, base, 2)
    now = applied(table(lake, base, faster), [u.RemoveSnapshots((1,))], NOW)
    merged = merger().merge(now, requires(slower), commit(slower))
    assert merged is None
