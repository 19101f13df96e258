"""One dropped table of any format comes back over HTTP, for principals that may drop it (I9, I10,
I12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.catalog import before_swaps, complete, no_attempt
from tests.support.fakes import delta
from tests.support.functions import Answer, Http, function
from tests.support.iceberg.client import SALES, T1, V1, VIEW, Iceberg, set_properties
from tests.support.v1 import DEFAULT, PLAIN, CatalogApi, refused
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.names import published_path

NS = "/v1/catalogs/main/namespaces/sales/tables"


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def undrop(client: Iceberg, name: str = "t1", **body: Any) -> Answer:
    """By the function that serves our own API, on the client's world."""
    app = function("catalog")
    app.use_world(client.world)
    return Http(app.app).post(f"{NS}/{name}/undrop", body)


def test_a_delta_table_comes_back_with_its_versions(api: CatalogApi) -> None:
    made = api.create("t")
    assert api.http.delete(f"{DEFAULT}/tables/t").status == 204
    back = api.http.post(f"{DEFAULT}/tables/T/undrop", {})
    assert back.status == 200, back.text
    assert (back.json["name"], back.json["id"], back.json["format"]) == ("main.default.t", made["table_id"], "delta")
    assert api.http.get(f"{DEFAULT}/tables/t/entry").json["id"] == made["table_id"]
    refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 404, "NoSuchTable", "table")
    complete(api.world)


def test_a_name_that_is_taken_is_refused_with_the_remedy(api: CatalogApi) -> None:
    first = api.create("t")
    api.http.delete(f"{DEFAULT}/tables/t")
    api.create("t")
    error = refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "AlreadyExists", "name")
    assert "another name" in error["remedy"]
    back = api.http.post(f"{DEFAULT}/tables/t/undrop", {"name": "Before"})
    assert (back.json["name"], back.json["id"]) == ("main.default.Before", first["table_id"])
    complete(api.world)


@pytest.mark.parametrize("at", [{"seq": 10**6}, {"snapshot": "never"}])
def test_a_moment_that_is_not_there_is_refused_at_its_member(api: CatalogApi, at: dict[str, Any]) -> None:
    answer = api.http.post(f"{DEFAULT}/tables/t/undrop", {"at": at})
    assert answer.status == 404 and answer.error["field"].startswith("at"), answer.text


def test_an_imported_table_comes_back_where_it_lies(api: CatalogApi) -> None:
    place = "s3://old/t"
    storage = api.world.storages.open(place)
    storage.put_if_absent(published_path(0), delta.lines(*PLAIN))
    made = api.http.post(f"{DEFAULT}/imports", {"name": "t", "location": place, "dry_run": False})
    assert made.status == 201, made.text
    assert api.http.delete(f"{DEFAULT}/tables/t").status == 204
    back = api.http.post(f"{DEFAULT}/tables/t/undrop", {})
    assert (back.status, back.json["id"]) == (200, made.json["table_id"]), back.text
    assert api.http.delete(f"{DEFAULT}/tables/t").status == 204
    again = api.http.post(f"{DEFAULT}/imports", {"name": "u", "location": place, "dry_run": False})
    assert again.status == 201, again.text
    error = refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "CannotUndrop", "table")
    assert "import" in error["remedy"]


def test_i11_an_imported_table_whose_log_went_on_is_not_brought_back(api: CatalogApi) -> None:
    place = "s3://old/t"
    storage = api.world.storages.open(place)
    storage.put_if_absent(published_path(0), delta.lines(*PLAIN))
    api.http.post(f"{DEFAULT}/imports", {"name": "t", "location": place, "dry_run": False})
    api.http.delete(f"{DEFAULT}/tables/t")
    storage.put_if_absent(published_path(2), b"{}")
    error = refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "CannotUndrop", "table")
    assert "went on" in error["message"] and error["remedy"] == "import it again"


@pytest.mark.parametrize("purge", [False, True])
def test_an_iceberg_table_comes_back_as_it_was_when_it_was_dropped(client: Iceberg, purge: bool) -> None:
    client.create()
    client.commit(set_properties(a="1"))
    before = client.load()
    assert client.delete(T1, purgeRequested=str(purge).lower()).status == 204
    back = undrop(client)
    assert back.status == 200, back.text
    assert (back.json["name"], back.json["format"]) == ("main.sales.t1", "iceberg")
    assert client.load() == before
    assert client.commit(set_properties(b="2")).status == 200
    assert client.delete(T1, purgeRequested="true").status == 204


def test_i10_what_came_back_after_a_purge_was_asked_for_is_not_purged(client: Iceberg) -> None:
    made = client.create()
    client.delete(T1, purgeRequested="true")
    assert undrop(client, name="t1").status == 200
    client.world.clock.now += 10**9
    Collector(client.world, Grace(dropped_ms=1_000)).collect(dry_run=False, until_ms=2**60)
    assert client.load() == made


def test_i10_what_gc_has_removed_is_refused_at_once(client: Iceberg) -> None:
    client.create()
    client.delete(T1, purgeRequested="true")
    client.world.clock.now += 10_000
    assert Collector(client.world, Grace(dropped_ms=1_000)).collect(["dropped"], dry_run=False, until_ms=2**60).deleted
    error = refused(undrop(client), 409, "CannotUndrop", "table")
    assert "gc has removed its files" in error["message"]


def test_an_iceberg_table_whose_files_were_removed_is_refused(client: Iceberg) -> None:
    made = client.create()
    client.delete(T1)
    del client.world.storages.files[made["metadata-location"]]
    refused(undrop(client), 409, "CannotUndrop", "table")


def test_an_iceberg_table_that_was_renamed_or_registered_again_is_not_brought_back_twice(client: Iceberg) -> None:
    made = client.create()
    old, new = ({"namespace": ["sales"], "name": name} for name in ("t1", "t2"))
    assert client.post(f"{V1}/main/tables/rename", {"source": old, "destination": new}).status == 204
    refused(undrop(client), 404, "NoSuchTable", "table")
    client.delete(f"{SALES}/tables/t2")
    refused(undrop(client), 404, "NoSuchTable", "table")
    body = {"name": "t3", "metadata-location": made["metadata-location"], "overwrite": False}
    assert client.post(f"{SALES}/register", body).status == 200
    refused(undrop(client, "t2"), 404, "NoSuchTable", "table")


def test_a_moment_before_an_earlier_drop_does_not_bring_back_what_the_table_was_then(client: Iceberg) -> None:
    """Its state of then may name files that were collected since."""
    client.create()
    there = client.services.open_catalog.history.log("main").commits[0].seq
    client.delete(T1)
    for number in range(12):
        client.services.open_catalog.namespaces.update("main", ("sales",), set={"n": str(number)})
    undrop(client)
    client.commit(set_properties(later="1"))
    last = client.load()
    client.delete(T1)
    assert "went on" in refused(undrop(client, at={"seq": there}), 409, "CannotUndrop", "at")["message"]
    assert undrop(client).status == 200 and client.load() == last


def test_i10_a_clone_holds_the_files_of_its_source_again(client: Iceberg) -> None:
    made = client.create()
    app = function("catalog")
    app.use_world(client.world)
    http = Http(app.app)
    assert http.post("/v1/catalogs/main/clones", {"from": "sales.t1", "to": "sales.c1"}).status == 201
    place = f"test/location/{made['metadata']['location']}"
    held = client.heads()[place]["clones"]
    assert client.delete(f"{SALES}/tables/c1").status == 204 and not client.heads()[place].get("clones")
    assert undrop(client, "c1").status == 200
    assert client.heads()[place]["clones"] == held
    client.delete(f"{SALES}/tables/c1")
    client.delete(T1, purgeRequested="true")
    client.world.clock.now += 10_000
    Collector(client.world, Grace(dropped_ms=1_000)).collect(["dropped"], dry_run=False, until_ms=2**60)
    error = refused(undrop(client, "c1"), 409, "CannotUndrop", "table")
    assert "gone or being removed" in error["message"]


def test_i10_a_clone_of_a_delta_table_holds_the_files_of_its_source_again(api: CatalogApi) -> None:
    api.create("t")
    assert api.http.post("/v1/catalogs/main/clones", {"from": "default.t", "to": "default.c"}).status == 201
    assert api.http.delete(f"{DEFAULT}/tables/c").status == 204
    complete(api.world)
    assert api.http.post(f"{DEFAULT}/tables/c/undrop", {}).status == 200
    complete(api.world)


def test_i10_an_import_that_comes_between_wins(api: CatalogApi) -> None:
    place = "s3://old/t"
    api.world.storages.open(place).put_if_absent(published_path(0), delta.lines(*PLAIN))
    api.http.post(f"{DEFAULT}/imports", {"name": "t", "location": place, "dry_run": False})
    api.http.delete(f"{DEFAULT}/tables/t")
    rows = api.world.refs.rows
    key = api.world.space.location(place)
    before_swaps(api.world, lambda: rows.update({key: {**rows[key], "importing": "another run"}}))
    error = refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "CannotUndrop", "table")
    assert "belongs to another table" in error["message"]


def test_a_view_comes_back(client: Iceberg) -> None:
    assert client.post(f"{SALES}/views", VIEW).status == 200
    before = client.get(f"{SALES}/views/v1").json
    assert client.delete(f"{SALES}/views/v1").status == 204
    back = undrop(client, "v1")
    assert (back.status, back.json["kind"]) == (200, "iceberg-view"), back.text
    assert client.get(f"{SALES}/views/v1").json == before


def test_i12_a_right_to_create_tables_is_no_right_to_bring_back_those_of_others() -> None:
    realm = Realm()
    for kind, name, privilege in (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA"),
                                  ("schema", "main.sales", "CREATE TABLE")):  # fmt: skip
        realm.grant(kind, name, "ann", privilege)
    path = f"{NS}/t1"
    realm.must("DELETE", path)
    there = realm.ask("ann", "POST", f"{path}/undrop", {})
    nowhere = realm.ask("ann", "POST", f"{NS}/never/undrop", {})
    assert (there.status, nowhere.status) == (403, 403)
    assert there.text.replace("t1", "") == nowhere.text.replace("never", "")


def test_i12_a_namespace_of_the_same_name_gives_no_right_to_what_an_earlier_one_held() -> None:
    realm = Realm()
    realm.must("DELETE", "/v1/catalogs/main/namespaces/sales", None, cascade="true")
    realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "sales"})
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.own("schema", "main.sales", "ann")
    assert realm.ask("ann", "POST", f"{NS}/t1/undrop", {}).status == 403
    assert realm.ask("root", "POST", f"{NS}/t1/undrop", {}).status == 200


def imported(api: CatalogApi, place: str = "s3://old/t") -> str:
    """Imports ``main.default.t`` and drops it; returns its uuid."""
    api.world.storages.open(place).put_if_absent(published_path(0), delta.lines(*PLAIN))
    made = api.http.post(f"{DEFAULT}/imports", {"name": "t", "location": place, "dry_run": False})
    assert api.http.delete(f"{DEFAULT}/tables/t").status == 204
    return str(made.json["table_id"])


def test_i10_an_imported_table_without_a_head_is_refused(api: CatalogApi) -> None:
    id = imported(api)
    del api.world.refs.rows[api.world.space.table(id)]
    refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "CannotUndrop", "table")


@pytest.mark.parametrize("owner", [None, "another table"])
def test_i10_an_imported_table_whose_location_is_not_its_own_any_more_is_refused(
    api: CatalogApi, owner: str | None
) -> None:
    imported(api)
    key = api.world.space.location("s3://old/t")
    row = api.world.refs.rows.pop(key)
    if owner is not None:
        api.world.refs.rows[key] = {**row, "table_id": owner}
    error = refused(api.http.post(f"{DEFAULT}/tables/t/undrop", {}), 409, "CannotUndrop", "table")
    assert "belongs to another table" in error["message"]


def test_a_clone_comes_back_though_its_source_went_on(api: CatalogApi) -> None:
    made = api.create("t")
    assert api.http.post("/v1/catalogs/main/clones", {"from": "default.t", "to": "default.c"}).status == 201
    assert api.http.delete(f"{DEFAULT}/tables/c").status == 204
    api.world.storages.open(made["location"]).put_if_absent(published_path(1), b"{}")
    assert api.http.post(f"{DEFAULT}/tables/c/undrop", {}).status == 200


def test_i10_a_purge_of_an_iceberg_table_that_has_begun_is_seen_before_any_attempt(client: Iceberg) -> None:
    made = client.create()
    client.delete(T1, purgeRequested="true")
    key = client.world.space.table(made["metadata"]["table-uuid"])
    client.world.refs.rows[key] = {**client.world.refs.rows[key], "reason": "purging"}
    no_attempt(client.world)
    refused(undrop(client), 409, "CannotUndrop", "table")


def test_i10_a_purge_of_an_iceberg_table_that_begins_between_the_look_and_the_change_wins(client: Iceberg) -> None:
    made = client.create()
    client.delete(T1, purgeRequested="true")
    rows = client.world.refs.rows
    key = client.world.space.table(made["metadata"]["table-uuid"])
    before_swaps(client.world, lambda: rows.update({key: {**rows[key], "reason": "purging"}}))
    refused(undrop(client), 409, "CannotUndrop", "table")
    assert rows[key]["reason"] == "purging"


def test_i10_an_iceberg_table_whose_location_has_another_owner_is_refused(client: Iceberg) -> None:
    made = client.create()
    key = client.world.space.location(made["metadata"]["location"])
    row = client.world.refs.rows[key]
    client.delete(T1)
    client.world.refs.rows[key] = {**row, "table_id": "another table"}
    assert "has an owner" in refused(undrop(client), 409, "CannotUndrop", "table")["message"]


def test_i10_an_owner_of_an_iceberg_tables_location_that_comes_between_wins(client: Iceberg) -> None:
    made = client.create()
    rows = client.world.refs.rows
    key = client.world.space.location(made["metadata"]["location"])
    row = rows[key]
    client.delete(T1)
    before_swaps(client.world, lambda: rows.update({key: {**row, "table_id": "another table"}}))
    assert "has an owner" in refused(undrop(client), 409, "CannotUndrop", "table")["message"]


def test_i10_an_iceberg_clone_whose_source_is_being_removed_is_refused(client: Iceberg) -> None:
    made = client.create()
    app = function("catalog")
    app.use_world(client.world)
    assert Http(app.app).post("/v1/catalogs/main/clones", {"from": "sales.t1", "to": "sales.c1"}).status == 201
    client.delete(f"{SALES}/tables/c1")
    key = client.world.space.location(made["metadata"]["location"])
    client.world.refs.rows[key] = {**client.world.refs.rows[key], "purging": True}
    error = refused(undrop(client, "c1"), 409, "CannotUndrop", "table")
    assert "gone or being removed" in error["message"]


def test_the_last_state_before_the_drop_that_followed_the_moment_comes_back(client: Iceberg) -> None:
    made = client.create()
    there = client.services.open_catalog.history.log("main").commits[0].seq
    client.commit(set_properties(later="1"))
    last = client.load()
    folder = made["metadata-location"].rpartition("/")[0]
    for stray in ("99999-of-another-writer.avro", "notes.metadata.json"):
        client.world.storages.open(folder).put_if_absent(stray, b"")
    client.delete(T1)
    for number in range(5):
        client.services.open_catalog.namespaces.update("main", ("sales",), set={"n": str(number)})
    assert undrop(client, at={"seq": there}).status == 200
    assert client.load() == last


def test_a_table_whose_metadata_has_a_name_of_another_writers_comes_back(client: Iceberg) -> None:
    made = client.create()
    folder, _, name = made["metadata-location"].rpartition("/")
    storage = client.world.storages.open(folder)
    storage.put_if_absent("last.metadata.json", storage.read(name)[0])
    client.delete(T1)
    body = {"name": "t3", "metadata-location": f"{folder}/last.metadata.json", "overwrite": False}
    assert client.post(f"{SALES}/register", body).status == 200
    there = client.services.open_catalog.history.log("main").commits[0].seq
    client.delete(f"{SALES}/tables/t3")
    assert undrop(client, "t3", at={"seq": there}).status == 200


def test_i12_rights_on_a_namespace_that_is_still_there_are_those_of_now() -> None:
    realm = Realm()
    for user in ("ann", "bob"):
        realm.grant("catalog", "main", user, "USE CATALOG")
    realm.own("schema", "main.sales", "ann")
    realm.must("DELETE", f"{NS}/t1")
    realm.own("schema", "main.sales", "bob")
    assert realm.ask("ann", "POST", f"{NS}/t1/undrop", {}).status == 403
    assert realm.ask("bob", "POST", f"{NS}/t1/undrop", {}).status == 200
