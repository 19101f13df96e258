"""The older commits endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.conformance.drive import PREVIEW, posted
from tests.support.unity import T1, Unity, metadata, refused_old


@pytest.fixture
def unity() -> Unity:
    return Unity()


@covers(commit=200, createStagingTable=200, createTable=200, getCommits=200, loadTable=200)
def test_commits_of_the_older_endpoint_as_the_recording_has_them(unity: Unity) -> None:
    unity.create()
    first = posted(unity, 1, latest_backfilled_version=0)
    answer = unity.post(PREVIEW, first)
    assert (answer.status, answer.json) == (200, {})
    assert unity.post(PREVIEW, first).status == 200  # I3
    asked = {"table_id": unity.uuid, "table_uri": first["table_uri"], "start_version": 0}
    found = unity.call("GET", PREVIEW, asked).json
    assert found == {"commits": [first["commit_info"]], "latest_table_version": 1}
    own = {"io.unitycatalog.tableId": unity.uuid}
    properties = {"properties": own | {"delta.checkpointPolicy": "v2", "mine": "1"}}
    changing = metadata(**own, mine="1")
    changed = posted(unity, 2, changing, latest_backfilled_version=1, metadata={"properties": properties})
    assert unity.post(PREVIEW, changed).status == 200
    assert unity.get(T1).json["metadata"]["properties"]["mine"] == "1"
    claim = {"table_id": unity.uuid, "table_uri": first["table_uri"], "latest_backfilled_version": 2}
    assert unity.post(PREVIEW, claim).status == 200


@covers(commit=(200, 400, 404, 409), createStagingTable=200, createTable=200, deleteTable=204)
def test_refusals_of_the_older_endpoint(unity: Unity) -> None:
    unity.create()
    first = posted(unity, 1)
    refused_old(unity.post(PREVIEW, first | {"table_uri": "s3://else/where"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"commit_info": None}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"metadata": {}}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"metadata": {"properties": {"properties": {}}}}), 400, "INVALID_ARGUMENT")
    missing = "99999999-9999-4999-8999-999999999999"
    refused_old(unity.post(PREVIEW, first | {"table_id": missing}), 404, "TABLE_NOT_FOUND")
    assert unity.post(PREVIEW, first).status == 200
    refused_old(unity.post(PREVIEW, posted(unity, 1)), 409, "COMMIT_VERSION_CONFLICT")
    refused_old(unity.post(PREVIEW, posted(unity, 5)), 400, "INVALID_ARGUMENT")
    alone = {"table_id": unity.uuid, "table_uri": first["table_uri"], "latest_backfilled_version": 9}
    refused_old(unity.post(PREVIEW, alone), 400, "INVALID_ARGUMENT")
    unity.call("DELETE", T1)
    refused_old(unity.post(PREVIEW, alone), 404, "TABLE_NOT_FOUND")


def asked(unity: Unity, **more: Any) -> Any:
    return unity.call("GET", PREVIEW, {"table_id": unity.uuid, "start_version": 0, **more})


def versions(unity: Unity, **more: Any) -> list[int]:
    return [one["version"] for one in asked(unity, **more).json["commits"]]


@covers(getCommits=200)
def test_commits_are_answered_whole_ascending_and_between_the_bounds(unity: Unity) -> None:
    """The reference pages them by ten."""
    unity.create()
    assert asked(unity).json == {"commits": [], "latest_table_version": 0}
    for version in range(1, 13):
        assert unity.post(PREVIEW, posted(unity, version)).status == 200
    assert versions(unity) == list(range(1, 13))
    assert versions(unity, start_version=5, end_version=7) == [5, 6, 7]
    assert versions(unity, start_version=12, end_version=None) == [12]
    assert asked(unity, start_version=13).json == {"commits": [], "latest_table_version": 12}
    unity.publish()
    assert asked(unity).json == {"commits": [], "latest_table_version": 12}


@covers(getCommits=400)
@pytest.mark.parametrize(
    "change",
    [{"start_version": -1}, {"start_version": None}, {"start_version": 3, "end_version": 2}, {"end_version": -1},
     {"start_version": "x"}, {"start_version": 2**63}, {"table_id": "x"}, {"table_id": None}],
)  # fmt: skip
def test_questions_that_cannot_be(unity: Unity, change: dict[str, Any]) -> None:
    unity.create()
    refused_old(asked(unity, **change), 400, "INVALID_ARGUMENT")


ICEBERG = {
    "metadata_location": "LOCATION/metadata/v.json",
    "converted_delta_version": 1,
    "converted_delta_timestamp": "2026-01-02T03:04:05.678Z",
}


@covers(commit=(200, 400))
def test_uniform_rides_with_a_commit_and_its_time_is_text(unity: Unity) -> None:
    formats = {"delta.universalFormat.enabledFormats": "iceberg"}
    unity.create()
    own = {"io.unitycatalog.tableId": unity.uuid, **formats}
    body = posted(unity, 1, metadata(**own), metadata={"properties": {"properties": own}})
    refused_old(unity.post(PREVIEW, body), 400, "INVALID_ARGUMENT")
    iceberg = ICEBERG | {"metadata_location": f"{unity.head().location}/metadata/v.json"}
    refused_old(unity.post(PREVIEW, body | {"uniform": {"iceberg": iceberg | {"converted_delta_timestamp": "now"}}}),
                400,
                "INVALID_ARGUMENT")  # fmt: skip
    assert unity.post(PREVIEW, body | {"uniform": {"iceberg": iceberg}}).status == 200
    said = unity.get(T1).json["uniform"]["iceberg"]
    assert (said["converted-delta-version"], said["converted-delta-timestamp"]) == (1, 1767323045678)
    alone = {"table_id": unity.uuid, "table_uri": unity.head().location, "latest_backfilled_version": 1}
    for extra in ({"uniform": {"iceberg": iceberg}}, {"metadata": {"description": "x"}}):
        refused_old(unity.post(PREVIEW, alone | extra), 400, "INVALID_ARGUMENT")


@covers(commit=(200, 409))
def test_i3_replays_and_conflicts_of_the_older_endpoint(unity: Unity) -> None:
    unity.create()
    first = posted(unity, 1)
    assert unity.post(PREVIEW, first).status == 200
    assert unity.post(PREVIEW, posted(unity, 2, latest_backfilled_version=1)).status == 200
    before = unity.rows()
    assert unity.post(PREVIEW, first | {"latest_backfilled_version": 2}).status == 200
    refused_old(unity.post(PREVIEW, posted(unity, 1, latest_backfilled_version=2)), 409, "COMMIT_VERSION_CONFLICT")
    assert unity.rows() == before


@covers(commit=404)
def test_an_external_table_has_no_commits_here(unity: Unity) -> None:
    made = unity.external()
    body = {"table_id": made["table_id"], "table_uri": made["storage_location"], "latest_backfilled_version": 1}
    refused_old(unity.post(PREVIEW, body), 404, "TABLE_NOT_FOUND")
