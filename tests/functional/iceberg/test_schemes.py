"""Only schemes that the deployment serves: with a lake on S3 no request reaches the server's own
disk (I12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes.world import fake_world
from tests.support.functions import Http, function
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, creation, refused


@pytest.fixture
def http() -> Http:
    """A client of a deployment whose lake is on S3."""
    services = function("iceberg").use_world(fake_world(), lake_root="s3://lake/warehouse")
    services.open_catalog.catalogs.create("main")
    http = Http(function("iceberg").app)
    assert http.post(f"{MAIN}/namespaces", {"namespace": ["sales"]}).status == 200
    return http


@pytest.mark.parametrize("location", ["file:/some/where", "file:///some/where", "FILE:///some/where", "gs://b/x"])
def test_i12_no_table_is_created_at_a_scheme_that_is_not_served(http: Http, location: str) -> None:
    body = {"name": "t1", "schema": SCHEMA, "location": location}
    for stage in (False, True):
        message = refused(http.post(f"{SALES}/tables", {**body, "stage-create": stage}), 400, "BadRequestException")
        assert "is not served: this deployment keeps tables at s3" in message
    staged = http.post(f"{SALES}/tables", {"name": "t1", "schema": SCHEMA, "stage-create": True}).json["metadata"]
    updates = creation({**staged, "location": location, "properties": {}})
    answer = http.post(T1, {"requirements": [{"type": "assert-create"}], "updates": updates})
    refused(answer, 400, "BadRequestException")
    assert http.get(f"{SALES}/tables").json["identifiers"] == []


def test_i12_registering_does_not_tell_which_local_files_exist(http: Http, tmp_path: Path) -> None:
    there = tmp_path / "there.metadata.json"
    missing = tmp_path / "missing.metadata.json"
    there.write_text("{}")
    for path in (there, missing):
        answer = http.post(f"{SALES}/register", {"name": "t1", "metadata-location": f"file://{path}"})
        message = refused(answer, 400, "BadRequestException")
        assert message.replace(str(path), "").startswith("file:// is not served")


def test_another_bucket_is_served(http: Http) -> None:
    answer = http.post(f"{SALES}/tables", {"name": "t1", "schema": SCHEMA, "location": "s3a://other/t1"})
    assert answer.status == 200
