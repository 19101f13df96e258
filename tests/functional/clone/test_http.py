"""Clones over HTTP, of Delta and of Iceberg tables, as docs/api.md describes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.access.realm import B, Realm
from tests.support.catalog import complete
from tests.support.cli import run, service
from tests.support.clones import commit
from tests.support.functions import Answer, Http, function
from tests.support.gc import collect, days
from tests.support.iceberg.client import MAIN as ICEBERG
from tests.support.iceberg.client import SCHEMA, VIEW, add_snapshot, at_ref, set_properties, set_ref
from tests.support.v1 import NAMESPACES, CatalogApi, refused

CLONES = "/v1/catalogs/main/clones"
KEY = "01234567-89ab-4def-8123-456789abcdef"


def iceberg(api: CatalogApi) -> Http:
    """Iceberg's function on the same world."""
    app = function("iceberg")
    app.use_world(api.world)
    return Http(app.app)


def made(answer: Answer) -> dict[str, Any]:
    assert answer.status == 201, answer.text
    return dict(answer.json)


def ok(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.text
    return dict(answer.json)


def lake(api: CatalogApi) -> Http:
    """``sales`` with an Iceberg table that has a snapshot, and a view."""
    client = iceberg(api)
    made(api.http.post(NAMESPACES, {"name": "sales"}))
    asked = {"name": "T1", "schema": SCHEMA, "properties": {"a": "1"}}
    ok(client.post(f"{ICEBERG}/namespaces/sales/tables", asked))
    append(client, "sales", 7)
    ok(client.post(f"{ICEBERG}/namespaces/sales/views", VIEW))
    return client


def append(client: Http, namespace: str, id: int, parent: int | None = None, sequence: int = 1) -> dict[str, Any]:
    body = {
        "requirements": [at_ref(parent)],
        "updates": [add_snapshot(id, parent, sequence), set_ref(id), set_properties(written=str(id))],
    }
    return ok(client.post(f"{ICEBERG}/namespaces/{namespace}/tables/t1", body))


def load(client: Http, namespace: str, table: str = "t1") -> dict[str, Any]:
    return ok(client.get(f"{ICEBERG}/namespaces/{namespace}/tables/{table}"))


def owner(api: CatalogApi, location: str) -> dict[str, Any]:
    return api.world.refs.rows[api.world.space.location(location)]


# -- Delta ------------------------------------------------------------------------------------------------------------


def test_a_clone_is_answered_with_what_it_made_and_a_repetition_with_the_same(api: CatalogApi) -> None:
    table = api.create("Orders")
    body = {"from": "default", "to": "Copy"}
    headers = {"Idempotency-Key": KEY}
    first = made(api.http.call("POST", CLONES, json_body=body, headers=headers))
    assert (first["to"], first["namespaces"]) == ("Copy", 1)
    (one,) = first["tables"]
    assert (one["name"], one["kind"], one["version"]) == ("Copy.Orders", "table", 0)
    assert one["table_id"] != table["table_id"]
    assert made(api.http.call("POST", CLONES, json_body=body, headers=headers)) == first
    refused(api.http.post(CLONES, body), 409, "AlreadyExists", "to")
    log = api.http.get("/v1/catalogs/main/log").json["commits"]
    assert log[0]["message"] == f"clone from {first['of']}: default to Copy" and log[1]["head"] == first["of"]
    assert [one["name"] for one in api.http.get(f"{NAMESPACES}/copy/tables").json["tables"]] == ["Orders"]
    complete(api.world)


def test_every_way_to_name_a_moment_clones_it(api: CatalogApi) -> None:
    api.create("t")
    newest = api.http.get("/v1/catalogs/main/log").json["commits"][0]
    api.world.clock.now += 1000
    assert api.http.post("/v1/catalogs/main/snapshots", {"name": "s"}).status == 201
    assert api.http.delete(f"{NAMESPACES}/default/tables/t").status == 204
    moments = {"head": newest["head"], "seq": newest["seq"], "time": newest["at"] // 1000 + 500, "snapshot": "s"}
    for number, (kind, value) in enumerate(moments.items()):
        answer = made(api.http.post(CLONES, {"from": "default", "to": f"copy{number}", "of": {kind: value}}))
        assert [(one["name"], one["version"]) for one in answer["tables"]] == [(f"copy{number}.t", 0)]
        assert answer["of"] == newest["head"]
    assert made(api.http.post(CLONES, {"from": "default", "to": "now"}))["tables"] == []
    complete(api.world)


@pytest.mark.parametrize(
    ("body", "status", "type", "field"),
    [
        ({"from": "default"}, 400, "InvalidRequest", "to"),
        ({"to": "copy"}, 400, "InvalidRequest", "from"),
        ({"from": "default", "to": ""}, 400, "InvalidRequest", "to"),
        ({"from": "def ault", "to": "copy"}, 400, "InvalidRequest", "from"),
        ({"from": "default", "to": "copy", "of": {}}, 400, "InvalidRequest", "of"),
        ({"from": "default", "to": "copy", "of": {"seq": 1, "time": 1}}, 400, "InvalidRequest", "of"),
        ({"from": "default", "to": "copy", "as_of": {"seq": 1}}, 400, "InvalidRequest", None),
        ({"from": "default", "to": "default.copy"}, 400, "InvalidRequest", "to"),
        ({"from": "default", "to": "Default"}, 400, "InvalidRequest", "to"),
        ({"from": "", "to": "default.copy"}, 400, "InvalidRequest", "to"),
        ({"from": "nothing", "to": "copy"}, 404, "NoSuchNamespace", "from"),
        ({"from": "default.nothing", "to": "default.copy"}, 404, "NoSuchTable", "from"),
        ({"from": "default", "to": "nothing.copy"}, 404, "NoSuchNamespace", "to"),
        ({"from": "default", "to": "copy", "of": {"seq": 99}}, 404, "NoSuchCatalogCommit", "of.seq"),
        ({"from": "default", "to": "copy", "of": {"snapshot": "none"}}, 404, "NoSuchSnapshot", "of.snapshot"),
        ({"from": "default.t", "to": "default.T"}, 400, "InvalidRequest", "to"),
        ({"from": "default.t", "to": "copy"}, 400, "InvalidRequest", "to"),
        ({"from": "default.t", "to": "nothing.copy"}, 404, "NoSuchNamespace", "to"),
    ],
)
def test_i9_bad_clones_are_refused_and_the_head_is_what_it_was(
    api: CatalogApi, body: object, status: int, type: str, field: str | None
) -> None:
    api.create("t")
    before = {key: dict(row) for key, row in api.world.refs.rows.items()}
    refused(api.http.post(CLONES, body), status, type, field)
    assert api.world.refs.rows == before


def test_a_clone_is_refused_where_engines_would_take_it_for_its_source(api: CatalogApi) -> None:
    """Unity Catalog's clients find a table by its folder: they would read, and write, what the
    source is by now."""
    api.create("t")
    (one,) = made(api.http.post(CLONES, {"from": "default.t", "to": "default.copy"}))["tables"]
    id = one["table_id"]
    world = api.world
    hot = function("commit")
    hot.use_world(world)
    commits = Http(hot.app)
    path = f"{B}/delta/v1/catalogs/main/schemas/default/tables/copy"
    native = ok(commits.get(f"{NAMESPACES}/default/tables/copy"))
    assert (native["state"], native["latest"], native["commits"]) == ("pinned", 0, [])
    update = {"requirements": [{"type": "assert-table-uuid", "uuid": id}], "updates": [
        {"action": "set-properties", "updates": {"a": "b"}}]}  # fmt: skip
    asked = {"table_id": id, "start_version": 0}
    posted = {"table_id": id, "table_uri": native["location"], "latest_backfilled_version": 0}
    preview = f"{B}/delta/preview/commits"
    answers = [
        commits.get(path),
        commits.post(path, update),
        commits.call("GET", preview, query=asked),
        commits.post(preview, posted),
        api.http.get(f"{path}/credentials", operation="READ"),
        api.http.get(f"{B}/tables/main.default.copy"),
        api.http.post(f"{B}/temporary-table-credentials", {"table_id": id, "operation": "READ"}),
    ]
    for answer in answers:
        assert answer.status == 400, answer.text
        assert "pinned to version 0" in answer.text and "turnstile_spark" in answer.text
    listed = api.http.get(f"{B}/tables", catalog_name="main", schema_name="default").json["tables"]
    assert [one["name"] for one in listed] == ["t"]
    assert commits.call("HEAD", path).status == 204, "the name is taken"
    assert api.http.post(f"{path}/rename", {"new-name": "again"}).status < 300
    assert api.http.delete(f"{B}/tables/main.default.again").status == 200
    complete(world)


# -- Iceberg ----------------------------------------------------------------------------------------------------------


def test_an_iceberg_clone_is_a_table_of_its_own_over_the_same_snapshots(api: CatalogApi) -> None:
    client = lake(api)
    source = load(client, "sales")
    answer = made(api.http.post(CLONES, {"from": "sales", "to": "dev"}))
    kinds = {one["name"]: one["kind"] for one in answer["tables"]}
    assert kinds == {"dev.T1": "iceberg-table", "dev.v1": "iceberg-view"}
    copy = load(client, "dev")
    one = source["metadata"]
    other = copy["metadata"]
    assert other["table-uuid"] != one["table-uuid"] and other["location"] != one["location"]
    assert other["location"].endswith(f"/main/dev/{other['table-uuid']}")
    assert copy["metadata-location"].startswith(other["location"])
    assert other["properties"] == {**one["properties"], "gc.enabled": "false"}
    assert other["metadata-log"] == [] and one["metadata-log"]
    own = ("table-uuid", "location", "properties", "metadata-log", "last-updated-ms")
    assert {name: value for name, value in other.items() if name not in own} == {
        name: value for name, value in one.items() if name not in own
    }
    append(client, "dev", 8, 7, 2)
    append(client, "sales", 9, 7, 2)
    assert load(client, "dev")["metadata"]["current-snapshot-id"] == 8
    assert load(client, "sales")["metadata"]["current-snapshot-id"] == 9
    view = ok(client.get(f"{ICEBERG}/namespaces/dev/views/v1"))["metadata"]
    assert view["view-uuid"] != ok(client.get(f"{ICEBERG}/namespaces/sales/views/v1"))["metadata"]["view-uuid"]
    assert owner(api, one["location"])["clones"] == {other["table-uuid"]}
    assert not [key for key in api.world.refs.rows if "/staging/" in key], "places are used up"


def test_an_iceberg_clone_of_the_past_shows_the_snapshot_of_then(api: CatalogApi) -> None:
    client = lake(api)
    assert api.http.post("/v1/catalogs/main/snapshots", {"name": "then"}).status == 201
    append(client, "sales", 8, 7, 2)
    assert client.delete(f"{ICEBERG}/namespaces/sales/tables/t1", purgeRequested="true").status == 204
    made(api.http.post(CLONES, {"from": "sales.T1", "to": "sales.again", "of": {"snapshot": "then"}}))
    found = load(client, "sales", "again")["metadata"]
    assert (found["current-snapshot-id"], len(found["snapshots"])) == (7, 1)


def test_paths_of_the_source_are_not_written_to_by_its_clone(api: CatalogApi) -> None:
    client = lake(api)
    location = load(client, "sales")["metadata"]["location"]
    body = {"requirements": [], "updates": [set_properties(**{"write.data.path": f"{location}/elsewhere"})]}
    ok(client.post(f"{ICEBERG}/namespaces/sales/tables/t1", body))
    made(api.http.post(CLONES, {"from": "sales.t1", "to": "sales.copy"}))
    copy = load(client, "sales", "copy")["metadata"]
    assert copy["properties"]["write.data.path"] == f"{copy['location']}/elsewhere"


def test_i10_a_source_is_purged_when_its_last_iceberg_clone_is_gone_and_not_before(api: CatalogApi) -> None:
    client = lake(api)
    world = api.world
    location = load(client, "sales")["metadata"]["location"]
    world.storages.open(location).put_if_absent("data/1.parquet", b"x")
    for namespace, source in (("one", "sales"), ("two", "one")):
        made(api.http.post(NAMESPACES, {"name": namespace}))
        made(api.http.post(CLONES, {"from": f"{source}.t1", "to": f"{namespace}.t1"}))
    middle = load(client, "one")["metadata"]["location"]
    assert len(owner(api, location)["clones"]) == 2 and len(owner(api, middle)["clones"]) == 1
    answer = client.delete(f"{ICEBERG}/namespaces/sales/tables/t1")
    assert answer.status == 409 and "2 clones" in answer.json["error"]["message"]
    for namespace in ("sales", "one"):
        path = f"{ICEBERG}/namespaces/{namespace}/tables/t1"
        assert client.delete(path, purgeRequested="true").status == 204
    days(world, 30)
    problems = collect(world, "dropped").problems
    assert sorted(one.message for one in problems) == ["1 clones need its files, nothing is purged"] * 2
    assert world.storages.open(location).stat("data/1.parquet") is not None
    assert load(client, "two")["metadata"]["current-snapshot-id"] == 7
    assert client.delete(f"{ICEBERG}/namespaces/two/tables/t1", purgeRequested="true").status == 204
    days(world, 30)
    assert collect(world, "dropped").problems == ()
    assert not [path for path in world.storages.files if path.startswith((location, middle))]


def test_what_a_lost_clone_wrote_is_gone_again(api: CatalogApi) -> None:
    """The Delta table cannot be published, which is found out after the Iceberg table's file was
    written."""
    client = lake(api)
    world = api.world
    id = api.create("z", "sales")["table_id"]
    commit(world, id)
    location = f"file:///lake/main/sales/{id}"
    world.storages.open(location).put_if_absent(f"_delta_log/{1:020d}.json", b"something else")
    before = {path for path in world.storages.files if path.endswith(".metadata.json")}
    refused(api.http.post(CLONES, {"from": "sales", "to": "dev"}), 409, "TableNotActive", "from")
    assert {path for path in world.storages.files if path.endswith(".metadata.json")} == before
    assert load(client, "sales")["metadata"]["current-snapshot-id"] == 7


# -- rights -----------------------------------------------------------------------------------------------------------


def test_i12_a_refusal_does_not_tell_what_is_there() -> None:
    realm = Realm()
    realm.must("DELETE", "/v1/catalogs/main/namespaces/sales/tables/e1")
    realm.grant("catalog", "main", "ann", "USE CATALOG", "CREATE SCHEMA")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA", "CREATE TABLE")

    def said(source: str, to: str, **more: Any) -> str:
        answer = realm.ask("ann", "POST", CLONES, {"from": source, "to": to, **more})
        assert answer.status == 403, answer.text
        message = answer.error["message"]
        assert message == f"'ann' may not clone 'main.{source}' to 'main.{to}'", message
        return str(answer.error["remedy"])

    there = said("sales.t1", "sales.t2")
    missing = said("hr.nothing", "hr.t2")
    assert there == missing == said("sales", "dev") == said("hr", "dev") == said("hr.nothing", "sales.t9")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    said("sales", "dev")
    assert realm.ask("ann", "POST", CLONES, {"from": "sales.t1", "to": "sales.t2"}).status == 201
    said("sales.t1", "hr.t2")
    said("sales.t1", "sales.t3", of={"seq": 1})
    realm.grant("schema", "main.sales", "ann", "SELECT")
    answer = realm.ask("ann", "POST", CLONES, {"from": "sales", "to": "dev"})
    assert answer.status == 201 and len(answer.json["tables"]) == 2
    assert realm.ask("ann", "GET", "/v1/permissions/schema/main.dev").json["owner"] == "ann"
    assert realm.ask("bob", "GET", "/v1/catalogs/main/namespaces/dev/tables/t1").status == 403
    said("sales", "dev2", of={"snapshot": "unknown"})
    realm.own("catalog", "main", "ann")
    newest = realm.must("GET", "/v1/catalogs/main/log").json["commits"][0]
    assert realm.ask("ann", "POST", CLONES, {"from": "sales", "to": "dev2", "of": {"seq": newest["seq"]}}).status == 201


def test_i12_the_past_is_judged_by_the_rights_of_now() -> None:
    realm = Realm()
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA", "CREATE SCHEMA", "CREATE TABLE")
    realm.own("catalog", "main", "ann")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    newest = realm.must("GET", "/v1/catalogs/main/log").json["commits"][0]
    body = {"from": "sales.t1", "to": "sales.t2", "of": {"seq": newest["seq"]}}
    realm.revoke("table", "main.sales.t1", "ann", "SELECT")
    assert realm.ask("ann", "POST", CLONES, body).status == 403
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    assert realm.ask("ann", "POST", CLONES, body).status == 201
    realm.must("DELETE", "/v1/catalogs/main/namespaces/sales/tables/t1")
    again = {**body, "to": "sales.t3"}
    assert realm.ask("ann", "POST", CLONES, again).status == 403, "nobody has a right to what is no more"
    assert realm.ask("root", "POST", CLONES, again).status == 201


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_clones_names_moments_and_says_what_it_made() -> None:
    table = {"name": "dev.t", "kind": "table", "table_id": KEY, "version": 3}
    view = {"name": "dev.v", "kind": "iceberg-view", "table_id": KEY, "version": None}
    answer = {"to": "dev", "of": "commit/a", "head": "commit/b", "seq": 9, "namespaces": 1, "tables": [table, view]}
    with service({f"POST {CLONES}": (201, answer)}) as canned:
        url = ("--url", canned.url)
        told = run("catalog", "clone", "main", "sales", "dev", *url).stdout
        assert "number 9" in told and "dev.t, version 3 of its source" in told and "dev.v" in told
        assert json.loads(run("catalog", "clone", "main", "sales", "dev", *url, "-o", "json").stdout) == answer
        assert run("catalog", "clone", "main", "", "dev", "--of", "time:17", *url).exit_code == 0
        bodies = [body for _, _, body, _ in canned.seen if body]
    assert bodies == [*[{"from": "sales", "to": "dev", "of": None}] * 2, {"from": "", "to": "dev", "of": {"time": 17}}]
