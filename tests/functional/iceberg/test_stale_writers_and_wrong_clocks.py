"""Commits of writers that know an older table than there is, or whose clocks are wrong: done as
they should be, or a conflict that they can repeat; never a table that nobody can read (I2, I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.functions import Answer
from tests.support.iceberg.client import SALES, T1, Iceberg, add_snapshot, at_ref, refused, set_ref
from tests.support.iceberg.readers import check

MINUTE = 60_000


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create()
    return made


def append(client: Iceberg, id: int, ahead: int = 0) -> dict[str, Any]:
    """The table after an append whose writer's clock is some ms ahead."""
    parent = id - 1 or None
    time = client.world.clock.now_ms() + ahead
    done = client.commit(add_snapshot(id, parent, id, **{"timestamp-ms": time}), set_ref(id), require=[at_ref(parent)])
    assert done.status == 200, done.text
    check(done.json["metadata"])
    return dict(done.json["metadata"])


def replace(client: Iceberg, id: int, sequence: int) -> Answer:
    """CREATE OR REPLACE TABLE AS SELECT, which requires nothing but the table's uuid."""
    uuid = client.load()["metadata"]["table-uuid"]
    gone = {"action": "remove-snapshot-ref", "ref-name": "main"}
    require = [{"type": "assert-table-uuid", "uuid": uuid}]
    return client.commit(gone, add_snapshot(id, None, sequence), set_ref(id), require=require)


@pytest.mark.parametrize("sequence", [1, 2, 3])
def test_i2_a_replacement_overtaken_by_commits_begins_a_history_and_sets_no_number_back(
    client: Iceberg, sequence: int
) -> None:
    for id in (1, 2, 3):
        append(client, id)
    replaced = replace(client, 9, sequence)
    assert replaced.status == 200 and replaced.json["metadata"]["last-sequence-number"] == 3
    check(replaced.json["metadata"])
    stale = client.commit(add_snapshot(10, 9, 3), set_ref(10), require=[at_ref(9)])
    assert "sequence number" in refused(stale, 409, "CommitFailedException")
    after = client.commit(add_snapshot(10, 9, 4), set_ref(10), require=[at_ref(9)])
    assert after.status == 200 and after.json["metadata"]["last-sequence-number"] == 4
    check(after.json["metadata"])


def test_i2_the_first_snapshot_of_a_branch_begins_a_history(client: Iceberg) -> None:
    for id in (1, 2):
        append(client, id)
    unnumbered = client.commit(add_snapshot(9, None, 0), set_ref(9, "audit"), require=[at_ref(None, "audit")])
    refused(unnumbered, 409, "CommitFailedException")
    first = client.commit(add_snapshot(9, None, 1), set_ref(9, "audit"), require=[at_ref(None, "audit")])
    assert first.status == 200 and first.json["metadata"]["last-sequence-number"] == 2


def test_i2_row_ids_that_a_writer_left_out_are_not_given_to_another(client: Iceberg) -> None:
    client.create("t3", properties={"format-version": "3"})
    path = f"{SALES}/tables/t3"
    gap = add_snapshot(1, None, 1, **{"first-row-id": 10, "added-rows": 5})
    assert client.commit(gap, set_ref(1), path=path).json["metadata"]["next-row-id"] == 15
    behind = add_snapshot(2, 1, 2, **{"first-row-id": 5, "added-rows": 5})
    refused(client.commit(behind, set_ref(2), path=path), 409, "CommitFailedException")


@pytest.mark.parametrize("ahead", [5 * MINUTE, 10**12])
def test_a_clock_that_is_ahead_does_not_date_the_log_into_the_future(client: Iceberg, ahead: int) -> None:
    early = append(client, 1, ahead)
    assert early["snapshots"][0]["timestamp-ms"] > client.world.clock.now, "the snapshot keeps what its writer said"
    assert early["snapshot-log"][0]["timestamp-ms"] <= early["last-updated-ms"] <= client.world.clock.now
    right = append(client, 2)
    times = [one["timestamp-ms"] for one in right["snapshot-log"]]
    assert times == sorted(times) and times[1] <= client.world.clock.now


@pytest.mark.parametrize("behind", [2 * MINUTE, 10**12])
def test_a_clock_that_is_behind_does_not_lose_its_data_and_the_log_stays_in_order(client: Iceberg, behind: int) -> None:
    first = append(client, 1)
    late = append(client, 2, -behind)
    assert late["snapshot-log"][1]["timestamp-ms"] == first["snapshot-log"][0]["timestamp-ms"]
    assert late["snapshots"][1]["timestamp-ms"] < first["snapshots"][0]["timestamp-ms"]
    assert late["last-updated-ms"] > first["last-updated-ms"]


def test_a_table_that_was_registered_with_a_log_of_the_future_is_written_all_the_same(client: Iceberg) -> None:
    said = append(client, 1)
    future = client.world.clock.now + 10**9
    said["snapshot-log"][0]["timestamp-ms"] = said["last-updated-ms"] = future
    assert client.delete(T1).status == 204
    file = f"{said['location']}/metadata/v9.metadata.json"
    client.world.storages.files[file] = (json.dumps(said).encode(), 1)
    assert client.post(f"{SALES}/register", {"name": "t1", "metadata-location": file}).status == 200
    after = append(client, 2)
    assert [one["timestamp-ms"] for one in after["snapshot-log"]] == [future, future]
    assert after["last-updated-ms"] == future
