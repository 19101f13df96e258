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
from turnstile.iceberg.append_merger import MAX_MANIFESTS, MERGE, AppendMerger, MergedAppend
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import AssertCurrentSchemaId, AssertRefSnapshotId, AssertTableUuid
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.iceberg.core.table_updates import apply_updates

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
NOW = 1_780_000_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def table(lake: Lake, *snapshots: Snapshot, version: str = "2", **properties: str) -> TableMetadata:
    made = new_table(
        uuid=UUID, location=lake.location, schema=msgspec.convert(SCHEMA, Schema), spec=None, order=None,
        properties={"format-version": version, **properties}, now_ms=1,
    )  # fmt: skip
    for snapshot in snapshots:  # format 1 counts no sequences
        counted = snapshot if version != "1" else msgspec.structs.replace(snapshot, sequence_number=0)
        made = apply_updates(made, commit(counted), NOW)
    return made


def commit(snapshot: Snapshot, ref: str = "main", **more: Any) -> tuple[u.TableUpdate, ...]:
    return u.AddSnapshot(snapshot), u.SetSnapshotRef(ref, snapshot.snapshot_id, "branch", **more)


def requires(snapshot: Snapshot) -> tuple[Any, ...]:
    return AssertTableUuid(UUID), AssertRefSnapshotId("main", snapshot.parent_snapshot_id)


class Merger(AppendMerger):
    """Writes the manifest list of what it merges, as a commit does."""

    def merge(self, base: TableMetadata, *change: Any) -> MergedAppend | None:
        merged = super().merge(base, *change)
        if merged is not None:
            assert merged.manifest_list == f"{base.location}/{merged.name}"
            Path(merged.manifest_list.removeprefix("file://")).write_bytes(merged.content)
        return merged


def merger() -> AppendMerger:
    return Merger(FileStorages(), FakeIds())


def test_i9_the_slower_append_follows_the_faster_one(lake: Lake) -> None:
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2, files=2)
    slower = lake.append(3, base, 2, files=3)
    now = table(lake, base, faster)
    merged = merger().merge(now, requires(slower), commit(slower))
    assert merged is not None
    after = apply_updates(now, merged.updates, NOW)
    made = after.snapshot(3)
    assert made is not None and (made.parent_snapshot_id, made.sequence_number, after.current_snapshot_id) == (2, 3, 3)
    assert made.manifest_list == merged.manifest_list and merged.manifest_list.startswith(
        f"{lake.location}/metadata/snap-3-"
    )
    assert made.summary == {
        "operation": "append", "added-data-files": "3", "added-records": "9", "total-data-files": "6",
        "total-records": "18", "total-delete-files": "0",
    }  # fmt: skip
    listed_now = lake.read(merged.manifest_list)
    assert [(one.added_snapshot_id, one.sequence_number, one.min_sequence_number) for one in listed_now] == [
        (3, 3, 3), (2, 2, 2), (1, 1, 1),
    ]  # fmt: skip
    entries = [entry for manifest in listed_now for entry in lake.entries(manifest)]
    assert [entry.sequence_number for entry in entries] == [3, 3, 3, 2, 2, 1]
    assert len({entry.data_file.file_path for entry in entries}) == 6
    assert [entry.snapshot_id for entry in entries] == [3, 3, 3, 2, 2, 1]


def test_i9_an_append_is_no_older_than_the_one_that_it_follows(lake: Lake) -> None:
    """Readers find the snapshot of a moment by these times: a writer's clock may be behind the
    faster one's."""
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2, timestamp_ms=NOW)
    slower = lake.append(3, base, 2)
    assert slower.timestamp_ms < NOW
    merged = merger().merge(table(lake, base, faster), requires(slower), commit(slower))
    assert merged is not None and isinstance(merged.updates[0], u.AddSnapshot)
    assert merged.updates[0].snapshot.timestamp_ms == NOW
    faster = lake.append(2, base, 2)
    slower = lake.append(4, base, 2, timestamp_ms=NOW)
    merged = merger().merge(table(lake, base, faster), requires(slower), commit(slower))
    assert merged is not None and isinstance(merged.updates[0], u.AddSnapshot)
    assert merged.updates[0].snapshot.timestamp_ms == NOW, "and not when it was merged"


def test_i9_a_merged_append_has_the_schema_of_the_table_that_it_is_put_on(lake: Lake) -> None:
    """Reading by snapshot, tag or time goes by the snapshot's schema: an older one would leave a
    column out."""
    base = lake.append(1, None, 1)
    slower = lake.append(2, base, 2, schema_id=0)
    wider = {
        **SCHEMA,
        "schema-id": 1,
        "fields": [*SCHEMA["fields"], {"id": 9, "name": "x", "type": "long", "required": False}],
    }
    now = apply_updates(table(lake, base), (u.AddSchema(msgspec.convert(wider, Schema)), u.SetCurrentSchema(-1)), NOW)
    faster = lake.append(3, base, 2, schema_id=1)
    now = apply_updates(now, commit(faster), NOW)
    merged = merger().merge(now, requires(slower), commit(slower))
    assert merged is not None and isinstance(merged.updates[0], u.AddSnapshot)
    assert merged.updates[0].snapshot.schema_id == now.current_schema_id == 1


def test_i9_appends_to_a_table_that_was_empty_follow_each_other_too(lake: Lake) -> None:
    snapshots = [lake.append(id, None, 1) for id in (1, 2, 3)]
    now = table(lake, snapshots[0])
    for snapshot in snapshots[1:]:
        merged = merger().merge(now, requires(snapshot), commit(snapshot))
        assert merged is not None
        now = apply_updates(now, merged.updates, NOW)
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


def requirement_of_a_branch(lake: Lake, slower: Snapshot) -> Any:
    return (*requires(slower), AssertRefSnapshotId("audit", slower.parent_snapshot_id)), commit(slower)


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
        made = lake.manifest(3, 1, status, **entry)
        made = msgspec.structs.replace(slower, manifest_list=lake.list(3, 1, 2, [made, *before_of(lake, slower)]))
        return requires(made), commit(made)

    return make


def listed(field: int, value: Any) -> Callable[[Lake, Snapshot], Any]:
    """A list that says something else of the manifest that is added."""
    return listing(lambda entry: {**entry, field: value})


def listing(change: Callable[[Any], Any], make_first: Any = None, *more: Any) -> Callable[[Lake, Snapshot], Any]:
    """A list whose entry of the manifest that is added is changed; ``make_first`` makes the
    snapshot that has it; ``more`` fields than the usual ones, or others."""

    def make(lake: Lake, slower: Snapshot) -> Any:
        if make_first is not None:
            slower = make_first(lake, slower)[1][0].snapshot
        first, *others = avro.read(lake.bytes(slower.manifest_list))
        entries = [change(first), *others]
        path = f"{lake.location}/metadata/listed.avro"
        other = {field["field-id"] for field in more}
        usual = [field for field in manifests.SCHEMA["fields"] if field["field-id"] not in other]
        schema = {**manifests.SCHEMA, "fields": [*usual, *more]}
        raw = avro.write(entries, schema, {"format-version": "2"}, bytes(16))
        Path(path.removeprefix("file://")).write_bytes(raw)
        made = msgspec.structs.replace(slower, manifest_list=path)
        return requires(made), commit(made)

    return make


def test_a_list_that_is_written_anew_as_it_was_is_merged(lake: Lake) -> None:
    """So that those below are refused for what they say."""
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2)
    slower = lake.append(3, base, 2)
    assert merger().merge(table(lake, base, faster), *listed(manifests.CONTENT, 0)(lake, slower)) is not None


def before_of(lake: Lake, slower: Snapshot) -> list[Any]:
    """The manifests of the snapshot's parent."""
    return [one for one in lake.read(slower.manifest_list) if one.added_snapshot_id == 1]


def outside(lake: Lake, slower: Snapshot) -> Any:
    """Of a place that the table's writers have no keys for, perhaps."""
    path = Path(lake.location.removeprefix("file://")).parent / "beside.avro"
    path.write_bytes(lake.bytes(slower.manifest_list))
    return changed(manifest_list=f"file://{path}")(lake, slower)


REFUSED: dict[str, Callable[[Lake, Snapshot], Any]] = {
    "another requirement": stale_schema,
    "another branch": other_ref,
    "a requirement of another branch": requirement_of_a_branch,
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
    "a manifest with existing files": with_manifest(ManifestEntryStatus.EXISTING, sequence_number=1,
                                                    file_sequence_number=1),
    "no manifest": lambda lake, slower: changed(manifest_list=lake.list(3, 1, 2, before_of(lake, slower)))(lake,
    slower),
    "more manifests than are looked at": lambda lake, slower: changed(
        manifest_list=lake.list(3, 1, 2,
                                [*(lake.manifest(3) for _ in range(MAX_MANIFESTS + 1)), *before_of(lake, slower)])
    )(lake, slower),
    "a file of another snapshot": listing(
        lambda entry: {**entry, manifests.ADDED_SNAPSHOT: 3},
        lambda lake, slower: changed(
            manifest_list=lake.list(7, 1, 2, [lake.manifest(7), *before_of(lake, slower)])
        )(lake, slower),
    ),
    "a file with a file sequence number of its own": with_manifest(ManifestEntryStatus.ADDED, file_sequence_number=1),
    "an old file in a manifest that says it is new": listing(
        lambda entry: {**entry, manifests.MIN_SEQUENCE: 2}, with_manifest(ManifestEntryStatus.ADDED, sequence_number=1)
    ),
    "a list that leaves out what is required": listing(
        lambda entry: {**entry, manifests.SPEC_ID: 0, 504: None},
        None,
        {"name": "added_files_count", "type": ["null", "int"], "field-id": 504},
    ),
    "a real list outside the table": outside,
    "a list that says more than is known here": listing(
        lambda entry: {**entry, 9_999: 1}, None, {"name": "later", "type": ["null", "int"], "field-id": 9_999}
    ),
    "a manifest of an older sequence number": listed(manifests.SEQUENCE, 1),
    "a manifest of a later sequence number": listed(manifests.SEQUENCE, 3),
    "a manifest with files of an older sequence number": listed(manifests.MIN_SEQUENCE, 1),
    "a manifest of deletes": listed(manifests.CONTENT, 1),
    "a manifest that counts existing files": listed(manifests.EXISTING_FILES, 1),
    "a manifest that counts deleted files": listed(manifests.DELETED_FILES, 1),
    "a manifest of an unknown partition spec": listed(manifests.SPEC_ID, 7),
    "an encrypted manifest": listed(manifests.KEY_METADATA, b"k"),
    "a file with a sequence number of its own": with_manifest(ManifestEntryStatus.ADDED, sequence_number=1),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_i2_what_is_no_plain_append_is_not_merged(lake: Lake, what: str) -> None:
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2)
    slower = lake.append(3, base, 2)
    files = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")}
    requirements, updates = REFUSED[what](lake, slower)
    more = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")} - files
    assert merger().merge(table(lake, base, faster), requirements, updates) is None
    left = {path.name for path in Path(lake.location.removeprefix("file://")).rglob("*")}
    assert left == files | more, "nothing was written"


@pytest.mark.parametrize(("choice", "merges"), [({}, False), ({MERGE: "true"}, True), ({MERGE: "false"}, False)])
def test_i2_a_writer_that_relies_on_the_refusal_gets_it_unless_the_table_says_otherwise(
    lake: Lake, choice: dict[str, str], merges: bool
) -> None:
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2)
    slower = lake.append(3, base, 2)
    summary = {**slower.summary, "kafka.connect.offsets.topic.group": "{}"}
    slower = msgspec.structs.replace(slower, summary=summary)
    now = table(lake, base, faster, **choice)
    assert (merger().merge(now, requires(slower), commit(slower)) is not None) == merges


@pytest.mark.parametrize("options", [{MERGE: "false"}, {MERGE: "FALSE"}, {MERGE: "no"}, {"version": "1"}])
def test_a_table_that_turns_it_off_is_not_merged(lake: Lake, options: Any) -> None:
    base = lake.append(1, None, 1)
    faster = lake.append(2, base, 2)
    slower = lake.append(3, base, 2)
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
    faster = lake.append(2, base, 2)
    slower = lake.append(3, base, 2)
    now = apply_updates(table(lake, base, faster), [u.RemoveSnapshots((1,))], NOW)
    merged = merger().merge(now, requires(slower), commit(slower))
    assert merged is None
