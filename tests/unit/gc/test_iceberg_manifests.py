"""Putting manifests together is a change of the catalog like every other, of tables that ask for
it, with the same files (I9)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults import Crash, Faulty
from tests.support.gc import everything
from tests.support.iceberg.client import SALES, Iceberg, add_snapshot, at_ref, set_properties, set_ref
from tests.support.iceberg.small_manifests import BY_REGION, SmallManifests, entry, entry_schema, nullable
from turnstile.catalog.core.entities import IcebergTable
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace
from turnstile.iceberg import manifest_rewrite as carrying_out
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.files.manifest_rewrite import MIN_COUNT, REWRITE, TARGET_BYTES
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.manifest_rewrite import ManifestRewrite, Rewritten

ASKED = {REWRITE: "true", MIN_COUNT: "4"}
SPEC = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"}]}


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


@pytest.fixture
def table(client: Iceberg) -> SmallManifests:
    """A table with five manifests of one file each."""
    client.create("t1", properties=ASKED, **{"partition-spec": SPEC})
    table = SmallManifests(client)
    for _ in range(5):
        table.append()
    return table


def collect(client: Iceberg, world: Any = None, *, dry_run: bool = False) -> Report:
    return Collector(world or client.world, Grace(), workers=1).collect(["iceberg-manifests"], dry_run=dry_run)


def paths(table: SmallManifests) -> list[str]:
    return [record[manifests.PATH] for record in table.listed()]


def rewriting(client: Iceberg) -> ManifestRewrite:
    files = MetadataFiles(client.world.storages, client.world.ids)
    return ManifestRewrite(client.world, client.services.open_catalog.committer, files)


def test_a_dry_run_says_which_and_a_run_commits_one_with_the_same_files(client: Iceberg, table: SmallManifests) -> None:
    files = table.files()
    before = everything(client.world)
    table_id = table.metadata["table-uuid"]
    report = collect(client, dry_run=True)
    assert [item.id for item in report.items] == [f"{table_id}/5 manifests"] and everything(client.world) == before
    assert collect(client).deleted == 1
    (record,) = table.listed()
    assert table.files() == files
    metadata = table.metadata
    id = metadata["current-snapshot-id"]
    sequence = metadata["last-sequence-number"]
    assert sequence == 6 and metadata["snapshots"][-1]["parent-snapshot-id"] == 5 and id > 0
    assert record == dict.fromkeys(manifests.REQUIRED, 0) | {
        manifests.PATH: record[manifests.PATH],
        manifests.LENGTH: len(client.world.storages.files[record[manifests.PATH]][0]),
        manifests.SEQUENCE: 6,
        manifests.MIN_SEQUENCE: 1,
        manifests.ADDED_SNAPSHOT: id,
        manifests.EXISTING_FILES: 5,
        manifests.EXISTING_ROWS: 5,
        manifests.PARTITIONS: [{509: True, 518: False, 510: b"eu", 511: b"eu"}],
        manifests.KEY_METADATA: None,
    }
    assert metadata["snapshots"][-1]["summary"] == {
        "operation": "replace",
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "5",
        "entries-processed": "5",
    }
    assert collect(client).items == () and table.metadata == metadata
    assert "rewrite manifests of sales.t1" in [
        commit.message for commit in client.services.open_catalog.history.log("main").commits
    ]


@pytest.mark.parametrize(
    "properties", [{REWRITE: "false"}, {MIN_COUNT: "6"}, {TARGET_BYTES: "100"}, {MIN_COUNT: "9" * 18}]
)
def test_a_table_that_does_not_ask_or_has_few_or_large_manifests_stays(
    client: Iceberg, table: SmallManifests, properties: dict[str, str]
) -> None:
    assert client.commit(set_properties(**properties)).status == 200
    assert collect(client).items == () and len(table.listed()) == 5


@pytest.mark.parametrize("name", [MIN_COUNT, TARGET_BYTES])
def test_a_property_that_is_no_number_is_a_problem_and_changes_nothing(
    client: Iceberg, table: SmallManifests, name: str
) -> None:
    assert client.commit(set_properties(**{name: "many"})).status == 200
    before = everything(client.world)
    (problem,) = collect(client).problems
    assert "sales.t1" in problem.message and "many" in problem.message and everything(client.world) == before


def test_a_table_of_another_format_or_without_a_snapshot_stays(client: Iceberg) -> None:
    client.create("t1", properties={**ASKED, "format-version": "3"})
    client.create("t2", properties=ASKED)
    table = SmallManifests(client)
    for number in range(5):
        table.append(**{"first-row-id": number, "added-rows": 1})
    report = collect(client)
    assert report.items == () and report.problems == () and len(table.listed()) == 5


def test_a_table_at_a_location_of_its_own_choice_is_left_alone(client: Iceberg) -> None:
    client.create("t2", location="s3://other/t2", properties=ASKED, **{"partition-spec": SPEC})
    table = SmallManifests(client, f"{SALES}/tables/t2")
    for _ in range(5):
        table.append()
    assert collect(client).items == () and len(table.listed()) == 5


UNREADABLE = {
    "missing": "006-m0.avro is missing",
    "damaged": "not a readable Avro file",
    "large": "has more than 33554432 bytes",
    "no larger": "not a readable Avro file",
    "no numbers": "has an entry of status 0",
}


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_manifest_that_cannot_be_read_changes_nothing(client: Iceberg, table: SmallManifests, how: str) -> None:
    raw = {"damaged": b"Obj\x01", "large": bytes(32 * 2**20 + 1), "no larger": bytes(32 * 2**20)}.get(how)
    entries = [entry("data/x", status=manifests.EXISTING)] if how == "no numbers" else None
    path = table.append(entries, raw=raw, record={manifests.LENGTH: 100})
    if how == "missing":
        del client.world.storages.files[path]
    before = everything(client.world)
    report = collect(client)
    assert report.deleted == 0 and UNREADABLE[how] in report.problems[0].message and len(report.problems) == 1
    assert len(table.listed()) == 6 and everything(client.world) == before


@pytest.mark.parametrize("how", ["missing", "outside", "unknown member", "missing member", "encrypted"])
def test_a_manifest_list_that_cannot_be_read_changes_nothing(client: Iceberg, table: SmallManifests, how: str) -> None:
    if how == "missing":
        listed = table.put("none.avro", b"")
        table.append(**{"manifest-list": listed})
        del client.world.storages.files[listed]
    elif how == "outside":
        outside = "file:///lake/else/snap.avro"
        client.world.storages.files[outside] = (avro.write(table.listed(), manifests.SCHEMA, {}, bytes(16)), 0)
        table.append(**{"manifest-list": outside})
    elif how == "encrypted":
        table.append(**{"key-id": "k1"})
    elif how == "missing member":
        some = [field for field in manifests.SCHEMA["fields"] if field["field-id"] != manifests.MIN_SEQUENCE]
        raw = avro.write(table.listed(), {**manifests.SCHEMA, "fields": some}, {}, bytes(16))
        table.append(**{"manifest-list": table.put("snap-old.avro", raw)})
    else:
        schema = {**manifests.SCHEMA, "fields": [*manifests.SCHEMA["fields"], nullable("new", 520, "long")]}
        raw = avro.write(table.listed(), schema, {}, bytes(16))
        table.append(**{"manifest-list": table.put("snap-new.avro", raw)})
    before = everything(client.world)
    report = collect(client)
    assert report.items == () and len(report.problems) == (how != "encrypted") and everything(client.world) == before


def test_what_is_not_to_be_put_together_stays_in_the_list_behind_the_new_ones(
    client: Iceberg, table: SmallManifests
) -> None:
    """Manifests of deletes, of another table's location, with keys, large ones, and ones with
    members of another format."""
    strange = entry_schema(nullable("region", 1000, "string"))
    strange["fields"].append(nullable("new", 9, "long"))
    elsewhere = "file:///lake/elsewhere/metadata/m0.avro"
    client.world.storages.files[elsewhere] = (b"", 0)
    kept = [
        table.append(record={manifests.CONTENT: 1}),
        table.append(path=elsewhere),
        table.append(record={manifests.KEY_METADATA: b"k"}),
        table.append(record={manifests.LENGTH: 4 * 1024 * 1024 + 1}),
        *(table.append(record={manifests.SPEC_ID: 7}) for _ in range(4)),
        table.append([entry("data/s.parquet")], strange),
    ]
    table.append(record={manifests.LENGTH: 4 * 1024 * 1024})
    assert collect(client).problems == ()
    assert paths(table)[1:] == kept[::-1]
    assert table.listed()[0][manifests.EXISTING_FILES] == 6
    assert table.metadata["snapshots"][-1]["summary"]["manifests-kept"] == "9"


def test_files_are_in_the_order_of_partitions_and_removed_ones_are_left_out(
    client: Iceberg, table: SmallManifests
) -> None:
    numbers = {"snapshot": 2, "sequence": 1, "file_sequence": 1}
    table.append(
        [
            entry("data/old.parquet", "aa", status=manifests.EXISTING, rows=9, **numbers),
            entry("data/gone.parquet", "aa", status=manifests.REMOVED, snapshot=6, sequence=6, file_sequence=6),
            entry("data/new.parquet", "aa", snapshot=6, sequence=3),
        ]
    )
    files = table.files()
    assert files["data/old.parquet"][:3] == (2, 1, 1) and files["data/new.parquet"][:3] == (6, 3, 6)
    size = sum(record[manifests.LENGTH] for record in table.listed())
    assert client.commit(set_properties(**{TARGET_BYTES: str(max(-(-size // 2), 2 * 600))})).status == 200
    assert collect(client).problems == () and table.files() == files
    assert [file[-1][manifests.PARTITION][1000] for file in table.files().values()] == [
        None,
        None,
        "aa",
        "aa",
        "eu",
        "eu",
        "eu",
    ]
    assert [record[manifests.EXISTING_FILES] for record in table.listed()] == [3, 4]
    assert [record[manifests.PARTITIONS] for record in table.listed()] == [
        [{509: True, 518: False, 510: b"aa", 511: b"aa"}],
        [{509: False, 518: False, 510: b"aa", 511: b"eu"}],
    ]


def test_manifests_of_writers_with_other_schemas_are_put_together_apart(client: Iceberg, table: SmallManifests) -> None:
    other = entry_schema(nullable("region", 1000, "string"), more=(nullable("note", 555, "string"),))
    for number in range(3):
        record = entry(f"data/o{number}.parquet", "us")
        record[manifests.DATA_FILE][555] = "kept"
        table.append([record], other)
    files = table.files()
    assert collect(client).deleted == 1
    assert table.files() == files and [record[manifests.EXISTING_FILES] for record in table.listed()] == [3, 5]
    assert files["data/o1.parquet"][3][555] == "kept"


def test_a_single_manifest_of_a_schema_is_not_written_again(client: Iceberg, table: SmallManifests) -> None:
    other = entry_schema(nullable("region", 1000, "string"), more=(nullable("note", 555, "string"),))
    path = table.append([entry("data/o.parquet")], other)
    collect(client)
    assert paths(table)[1:] == [path]


@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_BYTES"])
def test_a_commit_takes_no_more_than_its_limits_and_the_next_goes_on(
    client: Iceberg, table: SmallManifests, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = table.files()
    monkeypatch.setattr(carrying_out, limit, 2 if limit == "MAX_FILES" else 22 + 19)
    done = rewriting(client).rewrite("main", ("sales", "t1"), table.metadata["table-uuid"])
    assert len(done.replaced) == 2 and len(done.created) == 1 and table.files() == files


def test_as_many_as_the_property_says_are_enough(client: Iceberg, table: SmallManifests) -> None:
    assert client.commit(set_properties(**{MIN_COUNT: "5"})).status == 200
    collect(client)
    assert len(table.listed()) == 1


def test_where_none_can_be_written_again_nothing_is_committed(client: Iceberg) -> None:
    client.create("t1", properties=ASKED, **{"partition-spec": SPEC})
    table = SmallManifests(client)
    strange = entry_schema(nullable("region", 1000, "string"))
    strange["fields"].append(nullable("new", 9, "long"))
    for _ in range(5):
        table.append(schema=strange)
    before = everything(client.world)
    report = collect(client)
    assert report.problems == () and len(table.listed()) == 5
    assert everything(client.world)[1:] == before[1:]


def test_a_table_that_asks_no_longer_is_left_as_it_is(client: Iceberg, table: SmallManifests) -> None:
    assert client.commit(set_properties(**{REWRITE: "false"})).status == 200
    assert rewriting(client).rewrite("main", ("sales", "t1"), table.metadata["table-uuid"]) == Rewritten()
    assert len(table.listed()) == 5


def test_the_table_counts_as_changed_now(client: Iceberg, table: SmallManifests) -> None:
    client.world.clock.now += 60_000
    now_ms = client.world.clock.now_ms()
    collect(client)
    reader = client.services.open_catalog.reader
    entry = reader.current("main").find(("sales", "t1"))
    assert entry is not None
    entity = reader.store.entity("main", entry.obj)
    assert isinstance(entity, IcebergTable) and entity.updated >= now_ms


def test_what_main_says_of_expiry_stays(client: Iceberg, table: SmallManifests) -> None:
    ages = {"max-ref-age-ms": 7, "max-snapshot-age-ms": 5, "min-snapshots-to-keep": 3}
    assert client.commit(set_ref(5, **ages)).status == 200
    collect(client)
    metadata = table.metadata
    main = metadata["refs"]["main"]
    assert main == {"snapshot-id": metadata["current-snapshot-id"], "type": "branch", **ages}


class Racing:
    """A world in which ``meanwhile`` happens just before the ``at``-th file is written; ``put``
    names the files that are."""

    def __init__(self, client: Iceberg, meanwhile: Any, at: int = 3) -> None:
        inner = client.world.storages
        left = [at]
        self.put = list[str]()
        names = self.put

        class Storages:
            def open(self, location: str) -> Any:
                storage = inner.open(location)
                put = storage.put_if_absent

                def put_if_absent(path: str, content: Any) -> bool:
                    names.append(path)
                    left[0] -= 1
                    if left[0] == 0:
                        meanwhile()
                    return put(path, content)

                storage.put_if_absent = put_if_absent  # type: ignore[method-assign]
                return storage

        self.world = replace(client.world, storages=Storages())


@pytest.mark.parametrize("at", [1, 2, 3])
def test_i9_an_append_that_comes_between_stays_and_nothing_is_copied_twice(
    client: Iceberg, table: SmallManifests, at: int
) -> None:
    newest: list[str] = []
    world = Racing(client, lambda: newest.append(table.append()), at).world
    report = collect(client, world)
    assert report.problems == () and paths(table)[1:] == newest
    assert sorted(table.files()) == [f"data/00{number}.parquet" for number in range(1, 7)]
    assert _unnamed(client, table) == set(), "no attempt left a file"


def test_i9_manifests_that_were_written_are_used_again(client: Iceberg, table: SmallManifests) -> None:
    racing = Racing(client, lambda: client.commit(set_ref(2, "early", "tag")))
    assert collect(client, racing.world).problems == () and len(table.listed()) == 1
    assert sum(path.endswith("-m0.avro") for path in racing.put) == 1
    assert "early" in table.metadata["refs"] and _unnamed(client, table) == set()


def test_i9_manifests_that_went_meanwhile_are_not_brought_back(client: Iceberg, table: SmallManifests) -> None:
    def roll_back() -> None:
        assert client.commit(set_ref(4)).status == 200

    report = collect(client, Racing(client, roll_back).world)
    assert report.problems == () and sorted(table.files()) == [f"data/00{number}.parquet" for number in range(1, 5)]
    assert _unnamed(client, table) == set()


def _unnamed(client: Iceberg, table: SmallManifests) -> set[str]:
    """Files of manifests, lists and metadata that nothing leads to."""
    said = client.load()
    named = {said["metadata-location"], *(one["metadata-file"] for one in said["metadata"]["metadata-log"])}
    for snapshot in said["metadata"]["snapshots"]:
        named.add(snapshot["manifest-list"])
        files = client.world.storages.files
        named |= {one[manifests.PATH] for one in avro.read(files[snapshot["manifest-list"]][0])}
    return {path for path in client.world.storages.files if "/metadata/" in path} - named


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", range(1, 6))
def test_i9_wherever_it_dies_the_table_is_whole_and_the_next_run_finishes(
    client: Iceberg, table: SmallManifests, at: int, how: Any
) -> None:
    files = table.files()
    with suppress(Crash):
        collect(client, Faulty(client.world, at, how).world)
    assert table.files() == files and len(table.listed()) in {1, 5}
    collect(client)
    assert table.files() == files and len(table.listed()) == 1


def test_an_append_from_before_is_merged_with_the_manifests_of_now(client: Iceberg, table: SmallManifests) -> None:
    """A rewrite never makes an append fail."""
    files = table.files()
    before = table.listed()
    collect(client)
    path = table.put("late-m0.avro", b"")
    raw = avro.write([entry("data/late.parquet")], BY_REGION, {}, bytes(16))
    client.world.storages.files[path] = (raw, 0)
    record = dict.fromkeys(manifests.REQUIRED, 0) | {
        manifests.PATH: path, manifests.LENGTH: len(raw), manifests.ADDED_SNAPSHOT: 6, manifests.SEQUENCE: 6,
        manifests.MIN_SEQUENCE: 6, 504: 1,
    }  # fmt: skip
    listed = table.put("snap-late.avro", avro.write([record, *before], manifests.SCHEMA, {}, bytes(16)))
    late = add_snapshot(66, 5, 6, **{"manifest-list": listed, "timestamp-ms": client.world.clock.now_ms()})
    late["snapshot"]["snapshot-id"] = 6
    answer = client.commit(late, set_ref(6), require=[at_ref(5)])
    assert answer.status == 200, answer.text
    assert table.files().keys() == {*files, "data/late.parquet"} and len(table.listed()) == 2


def test_another_table_by_that_name_is_left_as_it_is(client: Iceberg, table: SmallManifests) -> None:
    before = everything(client.world)
    assert rewriting(client).rewrite("main", ("sales", "t1"), "another") == Rewritten()
    assert rewriting(client).rewrite("main", ("sales", "t1"), "0") == Rewritten()
    assert rewriting(client).rewrite("main", ("sales",), "") == Rewritten()
    assert rewriting(client).rewrite("main", ("sales", "none"), "") == Rewritten()
    assert everything(client.world) == before
