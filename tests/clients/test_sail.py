"""Sail's own tests of Unity Catalog and of Iceberg's REST API, unmodified, against a server: its
wheel carries them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.clients.sail import suite
from tests.support.downloads import Missing
from tests.support.server import ServerOnS3, aws_client, aws_environment, resting_background
from tests.support.store.backends import MOTO

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.store.servers import Servers

FIRST: Final = "test_unity_column_mapped_query_matches_reference[{}partitioned-first_struct]"
COMPARES: Final = "Sail's first() compares types with their columns' metadata, which Turnstile gives as the log has it"
NOT_PASSED: Final = {
    FIRST.format(""): COMPARES,
    FIRST.format("un"): COMPARES,
    "test_managed_delta_create_and_schema_merge_write_spark_struct_field_type_json": (
        "Sail writes SPARK::metadata::json into the log's schema, which Turnstile gives as it is"
    ),
}
"""Tests that fail, by name, with the reason."""


@pytest.mark.slow
def test_sails_tests_of_unity_catalog_pass_but_for_those_with_a_reason(tmp_path: Path) -> None:
    from turnstile_server import Server

    try:
        interpreter = suite.python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: Sail; {missing}")
    lake = f"file://{tmp_path / suite.TABLES}"
    # They look at staged commits that are not published yet, and damage what is published.
    with Server.start(tmp_path / "server", 0, lake=lake) as server, resting_background(server):
        outcomes = suite.unity(interpreter, server, tmp_path)
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} == set(NOT_PASSED)
    assert Counter(outcomes.values()) == {"passed": 220, "expected": 8, "failed": 3}


BUCKET: Final = "icebergdata"
CATALOG: Final = "demo"
"""The names that the tests of Iceberg's REST API expect; the catalog is the only one."""

SORTED: Final = "test_create_table_sort_order_transforms[sort_{}]"
VIEW: Final = "test_create_view_{}"
REASONS: Final = {
    "the test asks without the prefix that the server's configuration gives": (
        "test_ctas_records_rest_catalog_metadata_location",
        "test_delete_advances_rest_catalog_metadata_location_with_equality_delete",
        "test_insert_advances_rest_catalog_metadata_location",
        "test_insert_overwrite_advances_rest_catalog_metadata_location",
        "test_merge_advances_rest_catalog_metadata_location_with_position_delete",
        "test_merge_schema_append_advances_rest_catalog_metadata_location",
        "test_rest_catalog_rejects_catalog_managed_iceberg_alter",
        "test_stale_merge_catalog_conflict_cleans_only_commit_owned_artifacts",
        SORTED.format(
            "bucket_truncate-bucket(16, id) ASC, truncate(3, name) DESC, truncate(category, 4) ASC-expected3"
        ),
        SORTED.format("identity-id ASC, name DESC, category-expected0"),
        SORTED.format("temporal_plural-years(ts) ASC, months(ts) DESC, days(d) ASC, hours(ts) DESC-expected1"),
        SORTED.format("temporal_singular-year(ts) DESC, month(ts) ASC, day(d) DESC, hour(ts) ASC-expected2"),
        "test_create_multiple_views_can_share_location_property",
        VIEW.format("resolves_negative_one_schema_id_to_added_schema"),
        VIEW.format("uses_path_or_location_property_as_metadata_location[location]"),
        VIEW.format("uses_path_or_location_property_as_metadata_location[path]"),
        VIEW.format("without_path_or_location_property_uses_default_location"),
    ),
    "write.data.path leads out of the table's location, which Turnstile refuses": (
        "test_rest_catalog_write_honors_absolute_data_path",
        "test_nessie_write_honors_absolute_data_path",
    ),
    "the table's location is in the lake's folder, where Turnstile chooses locations": (
        "test_create_a_partitioned_table",
    ),
    "CASCADE of Sail drops no namespaces below, and Turnstile drops none that is not empty": (
        "test_create_a_child_namespace_under_a_parent",
        "test_describe_a_multilevel_namespace",
    ),
    "the test is of another server, or of a separator that the server chooses": (
        "test_create_write_uses_configured_credentials_with_lakekeeper_session_hints",
        "test_namespace_separator_custom_server_catalog_work_with_config",
        "test_namespace_separator_custom_config_cannot_resolve_default_separator_namespace",
    ),
}
"""Tests of Iceberg's REST API that fail, by reason."""


@pytest.mark.slow
def test_sails_tests_of_icebergs_api_pass_but_for_those_with_a_reason(servers: Servers, tmp_path: Path) -> None:
    endpoint = servers.get(MOTO).url
    assert endpoint is not None
    try:
        interpreter = suite.python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: Sail; {missing}")
    aws_client("s3", endpoint).create_bucket(Bucket=BUCKET)
    keys = aws_environment(endpoint)
    with ServerOnS3.start(tmp_path / "server", 0, lake=f"s3://{BUCKET}", environment=keys) as server:
        with server.client() as client:
            client.post("/v1/catalogs", json={"name": CATALOG}).raise_for_status()
            client.delete("/api/2.1/unity-catalog/catalogs/main", params={"force": "true"}).raise_for_status()
        outcomes = suite.iceberg(interpreter, server, endpoint, tmp_path)
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    assert failed == {name for names in REASONS.values() for name in names}
    assert Counter(outcomes.values()) == {"passed": 66, "failed": 25}
