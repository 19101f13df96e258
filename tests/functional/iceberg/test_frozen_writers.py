"""An append whose writer was frozen until gc had removed its files is refused, so that its client
writes all of them again (I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gc import DAY
from tests.support.iceberg.client import SALES, T1, Iceberg, add_snapshot, at_ref, refused, set_properties, set_ref
from tests.support.iceberg.lake_files import LakeFiles
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS
from turnstile.iceberg.core.expiry import REMOVE

HALF = 84 * HOUR_MS
"""Of the grace for files that nothing names."""


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create(properties={REMOVE: "true"})
    made.world.clock.now += 10 * DAY
    return made


@pytest.fixture
def lake(client: Iceberg) -> LakeFiles:
    return LakeFiles(client)


def written(lake: LakeFiles, id: int, parent: int | None = None) -> tuple[list[Any], list[Any]]:
    """Updates and requirements of an append whose files are there."""
    metadata = lake.client.load()["metadata"]
    location = metadata["location"]
    now = lake.client.world.clock.now_ms()
    listed = lake.snapshot(location, id, [lake.data(location)])
    added = add_snapshot(
        id, parent, metadata["last-sequence-number"] + 1, **{"manifest-list": listed, "timestamp-ms": now}
    )
    return [added, set_ref(id)], [at_ref(parent)]


def test_i10_an_append_that_was_frozen_until_gc_was_through_is_refused_and_the_table_stays(
    client: Iceberg, lake: LakeFiles
) -> None:
    updates, require = written(lake, 1)
    client.world.clock.now += 8 * DAY
    assert Collector(client.world, workers=1).collect(("iceberg-files",), dry_run=False).deleted == 3
    before = client.load()
    late = client.commit(*updates, require=require)
    said = refused(late, 400, "BadRequestException")
    assert "is not there" in said and "new data files" in said
    assert client.load() == before
    lake.commit()
    assert len(client.load()["metadata"]["snapshots"]) == 1


@pytest.mark.parametrize(("age_ms", "status"), [(HALF - 60_000, 200), (HALF + 60_000, 400)])
def test_i10_a_list_that_is_older_than_half_of_the_grace_is_refused_while_it_is_there(
    client: Iceberg, lake: LakeFiles, age_ms: int, status: int
) -> None:
    """Its data files are older: nothing says by how much."""
    updates, require = written(lake, 1)
    client.world.clock.now += age_ms
    answer = client.commit(*updates, require=require)
    assert answer.status == status, answer.text
    if status == 400:
        assert "84 h ago" in refused(answer, 400, "BadRequestException")


def test_i10_the_age_of_a_list_is_storages_and_not_the_writers(client: Iceberg, lake: LakeFiles) -> None:
    updates, require = written(lake, 1)
    client.world.clock.now += HALF + 60_000
    updates[0]["snapshot"]["timestamp-ms"] = client.world.clock.now_ms()
    refused(client.commit(*updates, require=require), 400, "BadRequestException")
    updates, require = written(lake, 2)
    updates[0]["snapshot"]["timestamp-ms"] = 1_000_000_000_000 + 770_000_000_000
    assert client.commit(*updates, require=require).status == 200


@pytest.mark.parametrize("removed", [True, False])
def test_i10_a_frozen_append_is_no_conflict_after_which_its_client_would_write_the_list_alone(
    client: Iceberg, lake: LakeFiles, *, removed: bool
) -> None:
    """Java and PyIceberg repeat a commit after 409 with the manifests that they have written, and
    give up after 400."""
    lake.commit()
    parent = client.load()["metadata"]["current-snapshot-id"]
    updates, require = written(lake, 7, parent)
    lake.commit()
    client.world.clock.now += 8 * DAY
    if removed:
        del client.world.storages.files[updates[0]["snapshot"]["manifest-list"]]
    refused(client.commit(*updates, require=require), 400, "BadRequestException")
    refused(client.commit(*updates, require=[at_ref(99)]), 400, "BadRequestException")


def test_i10_a_snapshot_that_the_table_has_is_a_conflict_as_before(client: Iceberg, lake: LakeFiles) -> None:
    """After 400 a client deletes what it has written, which the table needs."""
    updates, require = written(lake, 1)
    assert client.commit(*updates, require=require).status == 200
    client.world.clock.now += 8 * DAY
    refused(client.commit(*updates, require=require), 409, "CommitFailedException")


def test_where_gc_removes_nothing_the_age_of_a_list_is_no_reason(client: Iceberg, lake: LakeFiles) -> None:
    assert client.commit(set_properties(**{REMOVE: "false"})).status == 200
    updates, require = written(lake, 1)
    client.world.clock.now += 30 * DAY
    assert client.commit(*updates, require=require).status == 200
    updates, require = written(lake, 2, 1)
    del client.world.storages.files[updates[0]["snapshot"]["manifest-list"]]
    refused(client.commit(*updates, require=require), 400, "BadRequestException")


def test_a_list_outside_of_the_location_is_not_looked_at(client: Iceberg) -> None:
    client.world.storages.requests.clear()
    assert client.commit(add_snapshot(1), set_ref(1), require=[at_ref(None)]).status == 200
    assert client.world.storages.requests == ["put"]


def test_an_append_costs_one_request_more_and_a_merged_one_none(client: Iceberg, lake: LakeFiles) -> None:
    updates, require = written(lake, 1)
    client.load()
    client.world.storages.requests.clear()
    assert client.commit(*updates, require=require).status == 200
    assert client.world.storages.requests == ["stat", "put"]
    updates, require = written(lake, 5, 1)
    lake.commit()
    client.world.storages.requests.clear()
    refused(client.commit(*updates, require=require), 409, "CommitFailedException")
    assert client.world.storages.requests.count("stat") <= 1


def test_i10_a_transaction_of_several_tables_is_refused_whole(client: Iceberg, lake: LakeFiles) -> None:
    client.create("t2")
    updates, require = written(lake, 1)
    client.world.clock.now += 8 * DAY
    changes = [
        {"identifier": {"namespace": ["sales"], "name": "t2"}, "requirements": [], "updates": [set_properties(a="b")]},
        {"identifier": {"namespace": ["sales"], "name": "t1"}, "requirements": require, "updates": updates},
    ]
    before = client.load(f"{SALES}/tables/t2"), client.load(T1)
    refused(client.post("/iceberg/v1/main/transactions/commit", {"table-changes": changes}), 400, "BadRequestException")
    assert (client.load(f"{SALES}/tables/t2"), client.load(T1)) == before


def test_a_snapshot_of_format_1_that_names_no_list_is_not_looked_at(client: Iceberg) -> None:
    client.create("t2", properties={"format-version": "1"})
    client.world.storages.requests.clear()
    added = add_snapshot(1, None, 0, **{"manifest-list": "", "manifests": ["file:///lake/m.avro"]})
    assert client.commit(added, set_ref(1), require=[at_ref(None)], path=f"{SALES}/tables/t2").status == 200
    assert "stat" not in client.world.storages.requests
