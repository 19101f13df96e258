"""Reading a catalog's tree as of a moment over HTTP, as docs/api.md describes it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.functions import Answer
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused
from turnstile.store.core.names import published_path

SNAPSHOTS = "/v1/catalogs/main/snapshots"
READS: tuple[tuple[str, dict[str, Any]], ...] = (
    (NAMESPACES, {}),
    (DEFAULT, {}),
    (DEFAULT + "/tables", {}),
    (DEFAULT + "/tables/t/entry", {}),
    ("/v1/find", {"query": "/main/default/*"}),
)


def newest(api: CatalogApi) -> dict[str, Any]:
    return dict(api.http.get("/v1/catalogs/main/log", max_results=1).json["commits"][0])


def answers(api: CatalogApi, as_of: str) -> list[Any]:
    """Every read as of a moment."""
    found = [api.http.get(path, as_of=as_of, **query) for path, query in READS]
    assert {one.status for one in found} == {200}, [one.text for one in found]
    return [one.json for one in found]


def test_every_read_of_the_tree_goes_back_by_every_way_to_name_a_moment(api: CatalogApi) -> None:
    id = api.create("t")["table_id"]
    api.http.post(NAMESPACES, {"name": "old", "comment": "then"})
    then = newest(api)
    api.http.post(SNAPSHOTS, {"name": "Month_End"})
    api.world.clock.now += 5_000
    api.http.post(f"{DEFAULT}/tables/t/rename", {"name": "u"})
    api.http.delete(f"{NAMESPACES}/old")
    api.http.patch(DEFAULT, {"comment": "now"})
    head = then["head"]
    wanted = answers(api, f"head:{head}")
    assert [one["head"] for one in wanted] == [head] * 5
    namespaces, default, tables, entry, found = wanted
    assert [(one["name"], one["comment"]) for one in namespaces["namespaces"]] == [("default", None), ("old", "then")]
    assert default["comment"] is None
    assert [(one["name"], one["table_id"]) for one in tables["tables"]] == [("t", id)]
    assert (entry["name"], entry["id"], entry["kind"], entry["format"]) == ("main.default.t", id, "table", "delta")
    assert found["found"] == [{name: value for name, value in entry.items() if name != "head"}]
    for same in (f"head:{head.removeprefix('commit/')}", f"seq:{then['seq']}", f"time:{then['at'] // 1000}"):
        assert answers(api, same) == wanted
    named = answers(api, "snapshot:month_end")
    assert [one["head"] for one in named] == [head] * 5
    assert (named[2]["tables"][0]["version"], named[3]["version"], named[4]["found"][0]["version"]) == (0, 0, 0)
    assert "version" not in tables["tables"][0] and "version" not in entry, "a HEAD knows no versions"
    now = api.http.get(f"{DEFAULT}/tables").json
    assert [one["name"] for one in now["tables"]] == ["u"] and "head" not in now
    assert api.http.get(f"{DEFAULT}/tables/u/entry").json["head"] == newest(api)["head"]
    refused(api.http.get(f"{DEFAULT}/tables/t/entry"), 404, "NoSuchTable", "table")
    refused(api.http.get(f"{DEFAULT}/tables/u/entry", as_of=f"head:{head}"), 404, "NoSuchTable", "table")


def test_a_time_is_written_as_people_do(api: CatalogApi) -> None:
    api.world.clock.now = 1_793_491_200_000 - 100  # 2026-11-01T00:00:00Z
    api.http.post(NAMESPACES, {"name": "new"})
    for time, there in (
        ("2026-11-01T00:00:00Z", True),
        ("2026-11-01T01:00:00+01:00", True),
        ("2026-10-31T23:59:59.9Z", False),
    ):
        names = [one["name"] for one in api.http.get(NAMESPACES, as_of=f"time:{time}").json["namespaces"]]
        assert ("new" in names) is there


def test_pages_of_a_moment_need_the_moment_again(api: CatalogApi) -> None:
    for name in "abc":
        api.http.post(NAMESPACES, {"name": name})
    as_of = f"seq:{newest(api)['seq']}"
    first = api.http.get(NAMESPACES, as_of=as_of, max_results=2).json
    api.http.delete(f"{NAMESPACES}/c")
    token = first["next_page_token"]
    second = api.http.get(NAMESPACES, as_of=as_of, max_results=2, page_token=token).json
    assert [one["name"] for one in (*first["namespaces"], *second["namespaces"])] == ["a", "b", "c", "default"]
    assert first["head"] == second["head"]
    refused(api.http.get(NAMESPACES, page_token=token), 400, "InvalidRequest", "page_token")


@pytest.mark.parametrize(("path", "query"), READS)
def test_a_moment_that_is_none_or_is_gone_is_reported_and_changes_nothing(
    api: CatalogApi, path: str, query: dict[str, Any]
) -> None:
    api.create("t")
    before = dict(api.world.refs.rows)
    for unclear in ("yesterday", "41", "time:2026-11-01", "seq:x", "snapshot:a b", "head:entity/1", "moment:1"):
        error = refused(api.http.get(path, as_of=unclear, **query), 400, "InvalidRequest", "as_of")
        assert error["remedy"]
    for gone in ("seq:999", "time:1", "head:commit/00"):
        refused(api.http.get(path, as_of=gone, **query), 404, "NoSuchCatalogCommit", "as_of")
    refused(api.http.get(path, as_of="snapshot:none", **query), 404, "NoSuchSnapshot", "as_of")
    assert api.world.refs.rows == before


def test_a_query_for_what_the_past_does_not_hold_says_so(api: CatalogApi) -> None:
    api.create("t")
    asked = {"query": '/main/default/[tier = "gold"]', "as_of": f"seq:{newest(api)['seq']}"}
    error = refused(api.http.get("/v1/find", **asked), 400, "InvalidRequest", "query")
    assert "main.default.t" in error["message"]


# -- rights: those of now (I12) ---------------------------------------------------------------------------------------

T1 = "/v1/catalogs/main/namespaces/sales/tables/t1"


def seen(realm: Realm, user: str, as_of: str) -> list[str]:
    """Tables of ``sales`` as of a moment, by two ways."""
    listed = realm.ask(user, "GET", "/v1/catalogs/main/namespaces/sales/tables", as_of=as_of)
    found = realm.ask(user, "GET", "/v1/find", query="/main/sales/*", as_of=as_of)
    names = [one["name"] for one in listed.json["tables"]]
    assert sorted(one["name"].split(".")[-1] for one in found.json["found"]) == sorted(names)
    return names


def entry(realm: Realm, user: str, as_of: str, name: str = "t1") -> Answer:
    return realm.ask(user, "GET", f"/v1/catalogs/main/namespaces/sales/tables/{name}/entry", as_of=as_of)


@pytest.fixture
def realm() -> Realm:
    """Ann may use everything, and read t1."""
    made = Realm()
    made.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA")
    made.grant("table", "main.sales.t1", "ann", "SELECT")
    return made


def snapshot(realm: Realm) -> str:
    realm.must("POST", SNAPSHOTS, {"name": "then"})
    return "snapshot:then"


def test_i12_a_right_that_was_taken_away_opens_no_past_and_a_new_one_does(realm: Realm) -> None:
    then = snapshot(realm)
    assert seen(realm, "ann", then) == ["t1"]
    assert seen(realm, "root", then) == ["e1", "t1"]
    realm.revoke("table", "main.sales.t1", "ann", "SELECT")
    realm.grant("table", "main.sales.e1", "ann", "SELECT")
    assert seen(realm, "ann", then) == ["e1"]
    assert entry(realm, "ann", then).status == 403
    assert entry(realm, "ann", then, "e1").status == 200


def test_i12_a_name_that_went_to_another_table_opens_nothing_of_the_one_before(realm: Realm) -> None:
    """Bob makes a table that is called as one that was dropped: its past, and its location, are
    none of his."""
    then = snapshot(realm)
    realm.must("DELETE", T1)
    realm.grant("catalog", "main", "bob", "USE CATALOG", "USE SCHEMA", "CREATE TABLE")
    realm.create("t1", user="bob")
    assert realm.ask("bob", "GET", f"{T1}/entry").status == 200
    assert seen(realm, "bob", then) == []
    hidden = entry(realm, "bob", then)
    never = entry(realm, "bob", then, "never")
    assert (hidden.status, never.status) == (404, 404)
    assert hidden.text.replace("t1", "never") == never.text, "not even that there was one"
    assert [entry(realm, "root", then).json["id"], entry(realm, "root", then).json["version"]] == [realm.table, 1]


def test_i12_what_was_renamed_or_dropped_is_for_admins_to_see(realm: Realm) -> None:
    then = snapshot(realm)
    realm.must("POST", f"{T1}/rename", {"name": "t9", "namespace": "hr"})
    assert realm.ask("ann", "GET", "/v1/catalogs/main/namespaces/hr/tables/t9/entry").status == 200
    assert seen(realm, "ann", then) == []
    assert entry(realm, "ann", then).status == 403
    assert entry(realm, "root", then).json["name"] == "main.sales.t1"


def test_i12_a_namespace_that_was_made_again_has_no_past(realm: Realm) -> None:
    hr = "/v1/catalogs/main/namespaces/hr"
    realm.must("PATCH", hr, {"comment": "salaries: see the safe"})
    then = snapshot(realm)
    assert realm.ask("ann", "GET", hr, as_of=then).json["comment"]
    realm.must("DELETE", hr)
    realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "hr"})
    assert realm.ask("ann", "GET", hr).status == 200
    for path in (hr, f"{hr}/tables"):
        assert realm.ask("ann", "GET", path, as_of=then).status == 404
        assert realm.must("GET", path, as_of=then).status == 200
    listed = realm.ask("ann", "GET", "/v1/catalogs/main/namespaces", as_of=then).json["namespaces"]
    assert [one["name"] for one in listed] == ["sales"]


def test_i6_a_delta_tables_version_then_is_one_that_can_still_be_read(realm: Realm) -> None:
    """What a snapshot tells leads to a file of the log."""
    then = snapshot(realm)
    realm.must("POST", f"/v1/tables/{realm.table}/commits", realm.append(2, "later"))
    realm.must("POST", f"/v1/tables/{realm.table}/publish")
    told = entry(realm, "ann", then).json
    assert told["version"] == 1
    assert realm.world.storages.open(told["location"]).read(published_path(told["version"])) is not None
