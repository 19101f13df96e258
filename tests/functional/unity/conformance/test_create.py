"""The Delta API: configuration, staging tables and new tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.unity import COLUMNS, SCHEMA, T1, V1, B, Unity, refused

INVALID = "InvalidParameterValueException"


@pytest.fixture
def unity() -> Unity:
    return Unity()


# -- config -----------------------------------------------------------------------------------------------------------


@covers(getConfig=200)
def test_config_names_what_is_served_and_the_version(unity: Unity) -> None:
    answer = unity.get(f"{V1}/config", **{"catalog": "main", "protocol-versions": "1.1,2.3"})
    assert answer.status == 200
    assert set(answer.json) == {"endpoints", "protocol-version"}
    assert answer.json["protocol-version"] == "1.0"
    assert len(answer.json["endpoints"]) == 11


@covers(
    createStagingTable=400,
    createTable=400,
    deleteTable=404,
    getConfig=200,
    getStagingTableCredentials=404,
    getTableCredentials=400,
    getTemporaryPathCredentials=400,
    loadTable=404,
    renameTable=400,
    reportMetrics=400,
    tableExists=404,
    updateTable=400,
)
def test_everything_that_config_advertises_has_a_route(unity: Unity) -> None:
    for endpoint in unity.get(f"{V1}/config", **{"catalog": "main", "protocol-versions": "1.0"}).json["endpoints"]:
        method, path = endpoint.split()
        answer = unity.call(method, f"{B}/delta{path}".replace("{", "").replace("}", ""), json_body={})
        assert "no operation" not in answer.text and answer.status != 405, endpoint


@covers(getConfig=400)
@pytest.mark.parametrize("versions", ["2.0", "", "x", "1", "0.9,2.1"])
def test_config_without_a_common_version_is_400_and_names_what_is_spoken(unity: Unity, versions: str) -> None:
    answer = unity.get(f"{V1}/config", **{"catalog": "main", "protocol-versions": versions})
    assert "1.0" in refused(answer, 400, INVALID)["message"]


@covers(getConfig=(400, 404))
def test_config_of_no_catalog_is_400_and_of_an_unknown_one_404(unity: Unity) -> None:
    refused(unity.get(f"{V1}/config", **{"protocol-versions": "1.0"}), 400, INVALID)
    asked = {"catalog": "nope", "protocol-versions": "1.0"}
    refused(unity.get(f"{V1}/config", **asked), 404, "NoSuchCatalogException")


# -- staging ----------------------------------------------------------------------------------------------------------


@covers(createStagingTable=200)
def test_a_staging_table_is_as_the_recording_has_it(unity: Unity) -> None:
    made = unity.stage()
    assert set(made) == {
        "table-id", "table-type", "location", "storage-credentials", "required-protocol", "suggested-protocol",
        "required-properties", "suggested-properties",
    }  # fmt: skip
    assert made["table-type"] == "MANAGED"
    assert made["location"].endswith(made["table-id"])
    assert made["storage-credentials"] == []
    assert made["required-protocol"]["reader-features"] == [
        "catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors",
    ]  # fmt: skip
    assert made["required-protocol"]["writer-features"][-1] == "inCommitTimestamp"
    assert made["suggested-protocol"] == {
        "reader-features": ["columnMapping"],
        "writer-features": ["columnMapping", "domainMetadata", "rowTracking"],
    }
    assert made["required-properties"]["io.unitycatalog.tableId"] == made["table-id"]
    assert len(made["required-properties"]) == 6
    assert made["suggested-properties"]["delta.columnMapping.maxColumnId"] is None
    assert len(made["suggested-properties"]) == 7


@covers(createStagingTable=200, updateCatalog=200)
def test_a_catalog_may_ask_for_lean_tables(unity: Unity) -> None:
    assert (
        unity.call("PATCH", f"{B}/catalogs/main", {"properties": {"turnstile.create-contract": "lean"}}).status == 200
    )
    made = unity.stage()
    assert made["required-protocol"]["reader-features"] == ["catalogManaged", "vacuumProtocolCheck"]
    assert made["suggested-properties"] == {} and len(made["required-properties"]) == 2


@covers(createStagingTable=(200, 409), createTable=200)
def test_staging_does_not_reserve_the_name_but_a_taken_one_is_409(unity: Unity) -> None:
    first = unity.stage()
    second = unity.stage()
    assert first["table-id"] != second["table-id"]
    unity.create()
    refused(unity.post(f"{SCHEMA}/staging-tables", {"name": "t1"}), 409, "AlreadyExistsException")


@covers(createStagingTable=400)
@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "a b"}, {"name": None}])
def test_staging_needs_a_name(unity: Unity, body: Any) -> None:
    refused(unity.post(f"{SCHEMA}/staging-tables", body), 400, INVALID)


@covers(createStagingTable=404)
def test_staging_in_what_is_not_there_is_404(unity: Unity) -> None:
    path = f"{V1}/catalogs/main/schemas/nope/staging-tables"
    refused(unity.post(path, {"name": "x"}), 404, "NoSuchSchemaException")
    refused(unity.post(path.replace("main", "nope"), {"name": "x"}), 404, "NoSuchCatalogException")


# -- create -----------------------------------------------------------------------------------------------------------


@covers(loadTable=200)
def test_a_created_table_is_answered_as_load_answers_it(unity: Unity) -> None:
    made = unity.create("t1", **{"my.own": "1"})
    said = made["metadata"]
    assert made["commits"] == [] and made["latest-table-version"] == 0
    assert set(said) == {
        "etag", "table-type", "table-uuid", "location", "created-time", "updated-time", "columns",
        "partition-columns", "properties", "last-commit-version", "last-commit-timestamp-ms",
    }  # fmt: skip
    assert said["columns"] == COLUMNS and said["partition-columns"] == []
    assert (said["table-type"], said["last-commit-version"]) == ("MANAGED", 0)
    properties = said["properties"]
    assert properties["my.own"] == "1"
    assert properties["delta.feature.catalogManaged"] == "supported"
    assert (properties["delta.minReaderVersion"], properties["delta.minWriterVersion"]) == ("3", "7")
    assert properties["delta.lastUpdateVersion"] == "0"
    assert properties["delta.lastCommitTimestamp"] == str(said["last-commit-timestamp-ms"])
    assert made["allowed-maintenance-operations"] == ["DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"]
    assert unity.get(T1).json == made


@covers(createTable=200)
def test_i3_a_create_whose_answer_was_lost_is_answered_again(unity: Unity) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    first = unity.post(f"{SCHEMA}/tables", body)
    second = unity.post(f"{SCHEMA}/tables", body)
    assert (first.status, second.status) == (200, 200)
    assert first.json == second.json


@covers(createTable=(200, 400))
def test_i2_a_staging_table_becomes_one_table_only(unity: Unity) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    assert unity.post(f"{SCHEMA}/tables", unity.create_body(staged)).status == 200
    refused(unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t2")), 400, INVALID)


@covers(createTable=(200, 409))
def test_i9_a_taken_name_is_409_and_the_staging_table_stays_usable(unity: Unity) -> None:
    unity.create()
    staged = unity.stage("t2")
    unity.write_zero(staged)
    refused(unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "T1")), 409, "AlreadyExistsException")
    assert unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t2")).status == 200


@covers(createTable=400)
@pytest.mark.parametrize(
    "member", ["name", "location", "table-type", "columns", "protocol", "properties", "last-commit-timestamp-ms"]
)
def test_create_without_a_compulsory_member_is_400(unity: Unity, member: str) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    del body[member]
    refused(unity.post(f"{SCHEMA}/tables", body), 400, INVALID)


@covers(createTable=400, loadTable=404)
@pytest.mark.parametrize(
    "change",
    [
        {"protocol": {"min-reader-version": 1, "min-writer-version": 2}},
        {"protocol": {"min-reader-version": 3, "min-writer-version": 7, "reader-features": ["catalogManaged"]}},
        {"properties": {}},
        {"columns": {"type": "struct", "fields": []}},
        {"columns": {"type": "long"}},
        {"columns": {"type": "struct", "fields": [{"name": "other", "type": "long", "nullable": True}]}},
        {"columns": {"type": "struct", "fields": [{"name": "id", "type": {"type": "list"}, "nullable": True}]}},
        {"partition-columns": ["nope"]},
        {"partition-columns": ["id"]},
        {"domain-metadata": {"delta.rowTracking": {"rowIdHighWaterMark": 1}}},
        {"domain-metadata": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
        {"last-commit-timestamp-ms": 0},
        {"table-type": "VIEW"},
        {"uniform": {"iceberg": {"metadata-location": "x", "converted-delta-version": 0,
                                 "converted-delta-timestamp": 1}}},
    ],
)  # fmt: skip
def test_create_against_the_contract_is_400(unity: Unity, change: Any) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    refused(unity.post(f"{SCHEMA}/tables", unity.create_body(staged) | change), 400, INVALID)
    refused(unity.get(T1), 404, "NoSuchTableException")


@covers(createTable=400)
def test_create_before_version_0_is_written_is_400(unity: Unity) -> None:
    refused(unity.post(f"{SCHEMA}/tables", unity.create_body(unity.stage())), 400, INVALID)


@covers(createTable=404)
def test_create_at_a_location_that_was_not_staged_is_404(unity: Unity) -> None:
    body = unity.create_body(unity.stage())
    body["location"] = "file:///lake/main/sales/00000000-0000-4000-8000-999999999999"
    refused(unity.post(f"{SCHEMA}/tables", body), 404, "NotFoundException")


@covers(getTable=200)
def test_the_comment_of_a_new_table_is_kept_when_version_0_does_not_hold_it(unity: Unity) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    assert unity.post(f"{SCHEMA}/tables", unity.create_body(staged) | {"comment": "table one"}).status == 200
    assert unity.get(f"{B}/tables/main.sales.t1").json["comment"] == "table one"


@covers(createTable=200)
def test_row_tracking_and_clustering_of_version_0_are_shown(unity: Unity) -> None:
    staged = unity.stage()
    features = ("rowTracking", "domainMetadata", "clustering")
    from tests.support.fakes import delta
    from tests.support.unity import metadata, protocol

    content = delta.lines(
        delta.info("create", unity.world.clock.now_ms(), "CTAS"),
        protocol(*features),
        metadata(**{"io.unitycatalog.tableId": staged["table-id"]}),
        {"domainMetadata": {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}',
                            "removed": False}},
        {"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}',
                            "removed": False}},
    )  # fmt: skip
    unity.write(staged["location"], "_delta_log/00000000000000000000.json", content)
    domains = {"delta.clustering": {"clusteringColumns": [["id"]]}, "delta.rowTracking": {"rowIdHighWaterMark": 9}}
    body = unity.create_body(staged, "t1", *features) | {"domain-metadata": domains}
    properties = unity.post(f"{SCHEMA}/tables", body).json["metadata"]["properties"]
    assert properties["clusteringColumns"] == '[["id"]]'
    assert properties["delta.rowTracking.rowIdHighWaterMark"] == "9"
