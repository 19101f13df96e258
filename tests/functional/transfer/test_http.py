"""Import and export through the handler."""

from __future__ import annotations

from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from tests.support.functions import Http, function
from turnstile.catalog import services as bootstrap
from turnstile.store.core.names import published_path

DEFAULT = "/v1/catalogs/main/namespaces/default"
PLACE = "s3://old/t"


def test_a_table_comes_in_and_goes_out_over_http() -> None:
    world = fake_world()
    bootstrap.ensure(world, lake_root="file:///lake")
    app = function("catalog")
    app.use_world(world)
    http = Http(app.app)
    body = {"name": "t", "location": PLACE}
    report = http.post(f"{DEFAULT}/imports", body)
    assert report.status == 200
    assert (report.json["possible"], report.json["problems"][0]["type"]) == (False, "UnsupportedTable")
    refused = http.post(f"{DEFAULT}/imports", {**body, "dry_run": False})
    assert (refused.status, refused.error["type"], refused.error["field"]) == (400, "UnsupportedTable", "location")

    storage = world.storages.open(PLACE)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    storage.put_if_absent(published_path(0), delta.lines(protocol, delta.metadata()))
    assert http.post(f"{DEFAULT}/imports", body).json["upgrade_version"] == 1
    assert storage.stat(published_path(1)) is None, "a dry run unless told otherwise"
    made = http.post(f"{DEFAULT}/imports", {**body, "dry_run": False})
    assert made.status == 201
    assert (made.json["name"], made.json["latest"], made.json["location"]) == ("main.default.t", 1, PLACE)
    assert made.json["metadata"]["version"] == 1

    assert http.post(f"{DEFAULT}/tables/t/export", {}).json["dry_run"] is True
    left = http.post(f"{DEFAULT}/tables/t/export", {"dry_run": False})
    assert (left.status, left.json["state"], left.json["release_version"]) == (200, "dropped", 2)
    assert http.post(f"{DEFAULT}/tables/t/export", {"dry_run": False}).status == 404
    assert http.get(f"{DEFAULT}/tables").json["tables"] == []
