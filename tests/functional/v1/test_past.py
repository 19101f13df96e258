"""A catalog's past over HTTP and from the command line, as docs/api.md describes it."""

from __future__ import annotations

import json

import pytest

from tests.support.catalog import complete
from tests.support.cli import run, service
from tests.support.functions import Http, function
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused

LOG, SNAPSHOTS, RESET = (f"/v1/catalogs/main/{what}" for what in ("log", "snapshots", "reset"))


def tables(api: CatalogApi) -> list[str]:
    return [one["name"] for one in api.http.get(DEFAULT + "/tables").json["tables"]]


def test_the_log_tells_what_changed_page_by_page_both_ways(api: CatalogApi) -> None:
    for n in range(5):
        assert api.http.post(NAMESPACES, {"name": f"n{n}"}).status == 201
    first = api.http.get(LOG, max_results=4).json
    rest = api.http.get(LOG, max_results=100, start=first["next"]).json
    down = first["commits"] + rest["commits"]
    assert "next" not in rest
    assert [one["message"] for one in down][:5] == [f"create namespace n{n}" for n in (4, 3, 2, 1, 0)]
    assert [one["seq"] for one in down] == list(range(len(down)))[::-1]
    assert api.http.get(LOG, oldest_first="true").json["commits"] == down[::-1]
    refused(api.http.get(LOG, start=99), 404, "NoSuchCatalogCommit", "start")
    refused(api.http.get("/v1/catalogs/nothing/log"), 404, "NoSuchCatalog")
    refused(api.http.get(LOG, start="x"), 400, "InvalidRequest", "start")


def test_snapshots_are_made_listed_gone_back_to_and_dropped(api: CatalogApi) -> None:
    id = api.create("t")["table_id"]
    made = api.http.post(SNAPSHOTS, {"name": "before", "comment": "c"})
    assert made.status == 201, made.text
    assert (made.json["name"], made.json["comment"], made.json["versions"]) == ("before", "c", {id: 0})
    assert api.http.get(SNAPSHOTS + "/BEFORE").json == made.json
    listed = {name: value for name, value in made.json.items() if name != "versions"} | {"tables": 1}
    assert api.http.get(SNAPSHOTS).json == {"snapshots": [listed]}
    refused(api.http.post(SNAPSHOTS, {"name": "BEFORE"}), 409, "AlreadyExists", "name")
    assert api.http.delete(DEFAULT + "/tables/t").status == 204
    api.create("u")
    answer = api.http.post(RESET, {"to": {"snapshot": "before"}})
    assert answer.status == 200, answer.text
    assert (answer.json["restored"], answer.json["dropped"]) == (["main.default.t"], ["main.default.u"])
    assert answer.json["to"] == made.json["head"]
    assert tables(api) == ["t"]
    assert api.http.delete(SNAPSHOTS + "/before").status == 204
    refused(api.http.delete(SNAPSHOTS + "/before"), 404, "NoSuchSnapshot", "snapshot")
    refused(api.http.get(SNAPSHOTS + "/before"), 404, "NoSuchSnapshot", "snapshot")
    refused(api.http.post(RESET, {"to": {"snapshot": "before"}}), 404, "NoSuchSnapshot", "to.snapshot")
    complete(api.world)


def test_i6_snapshots_are_listed_page_by_page_from_one_head(api: CatalogApi) -> None:
    for n in range(5):
        assert api.http.post(SNAPSHOTS, {"name": f"s{n}"}).status == 201
    first = api.http.get(SNAPSHOTS, max_results=2).json
    assert api.http.delete(SNAPSHOTS + "/s3").status == 204
    assert api.http.post(SNAPSHOTS, {"name": "s2a"}).status == 201
    second = api.http.get(SNAPSHOTS, max_results=100, page_token=first["next_page_token"]).json
    assert [one["name"] for one in (*first["snapshots"], *second["snapshots"])] == [f"s{n}" for n in range(5)]
    assert "next_page_token" not in second
    assert [one["name"] for one in api.http.get(SNAPSHOTS).json["snapshots"]] == ["s0", "s1", "s2", "s2a", "s4"]
    refused(api.http.get(NAMESPACES, page_token=first["next_page_token"]), 400, "InvalidRequest", "page_token")
    refused(api.http.get(SNAPSHOTS, max_results=-1), 400, "InvalidRequest", "max_results")
    refused(api.http.get("/v1/catalogs/nothing/snapshots"), 404, "NoSuchCatalog")


def test_snapshots_take_a_hundred_a_page_and_two_requests_whatever_is_asked_for(api: CatalogApi) -> None:
    for n in range(103):
        assert api.http.post(SNAPSHOTS, {"name": f"s{n:03d}"}).status == 201
    function("catalog").use_world(api.world)  # another sandbox, without the caches
    del api.world.objs.requests[:]
    page = api.http.get(SNAPSHOTS, max_results=1000).json
    assert len(page["snapshots"]) == 100
    assert api.world.objs.requests.count("get_many") == 1
    del api.world.objs.requests[:]
    rest = api.http.get(SNAPSHOTS, page_token=page["next_page_token"]).json
    assert [one["name"] for one in rest["snapshots"]] == ["s100", "s101", "s102"]
    assert api.world.objs.requests == ["get_many"]


def test_comments_of_snapshots_have_a_limit_and_end_pages(api: CatalogApi) -> None:
    refused(api.http.post(SNAPSHOTS, {"name": "s", "comment": "x" * 32_769}), 413, "TooLarge", "comment")
    for n in range(25):
        assert api.http.post(SNAPSHOTS, {"name": f"s{n:02d}", "comment": "\x01" * 32_768}).status == 201
    page = api.http.get(SNAPSHOTS).json
    assert 15 < len(page["snapshots"]) < 25
    rest = api.http.get(SNAPSHOTS, page_token=page["next_page_token"]).json
    assert len(page["snapshots"]) + len(rest["snapshots"]) == 25


def test_every_way_to_name_a_moment_leads_to_the_same_head(api: CatalogApi) -> None:
    api.create("t")
    newest = api.http.get(LOG).json["commits"][0]
    api.world.clock.now += 1000
    assert api.http.delete(DEFAULT + "/tables/t").status == 204
    moments = {"head": newest["head"], "seq": newest["seq"], "time": newest["at"] // 1000 + 500}
    for number, (kind, value) in enumerate(moments.items()):
        made = api.http.post(SNAPSHOTS, {"name": f"s{number}", "of": {kind: value}})
        assert made.status == 201, made.text
        assert made.json["head"] == newest["head"]


@pytest.mark.parametrize("to", [{}, {"seq": 1, "time": 1}, {"seq": "1"}, {"when": 1}, 5, None])
def test_a_moment_that_is_unclear_is_refused(api: CatalogApi, to: object) -> None:
    before = dict(api.world.refs.rows)
    refused(api.http.post(RESET, {"to": to}), 400, "InvalidRequest")
    refused(api.http.post(RESET, {}), 400, "InvalidRequest")
    assert api.world.refs.rows == before


def test_a_lost_head_is_reported_with_those_that_may_be_whole(api: CatalogApi) -> None:
    api.http.post(NAMESPACES, {"name": "n"})
    recent = api.world.refs.rows["test/catalog/main"]["recent"]
    api.world.objs.delete("test/main", recent[0])
    function("catalog").use_world(api.world)  # another sandbox, without the caches
    app = CatalogApi(Http(function("catalog").app), api.world)
    error = refused(app.http.post(RESET, {"to": {"seq": 1}}), 409, "CannotReset", "to")
    assert error["recent"] == recent
    assert app.http.post(RESET, {"to": {"head": recent[1]}}).status == 200
    assert [one["name"] for one in app.http.get(NAMESPACES).json["namespaces"]] == ["default"]


def test_counters_of_a_namespace_are_merged_where_they_are(api: CatalogApi) -> None:
    for value in (5, 7):
        answer = api.http.patch(DEFAULT, {"merge": {"rows": {"op": "add", "value": value}}})
        assert answer.status == 200, answer.text
    assert answer.json["properties"] == {"rows": "12"}
    refused(api.http.patch(DEFAULT, {"merge": {"rows": {"op": "div", "value": 2}}}), 400, "InvalidRequest")
    both = {"set": {"rows": "1"}, "merge": {"rows": {"op": "add", "value": 1}}}
    refused(api.http.patch(DEFAULT, both), 400, "InvalidRequest", "merge")


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_shows_the_log_names_moments_and_goes_back() -> None:
    head = "commit/" + "a" * 32
    commit = {"head": head, "seq": 7, "at": 1_770_000_000_000_000, "message": "create table main.default.t"}
    snapshot = {"name": "s", "head": head, "seq": 7, "at": commit["at"], "created": 1, "comment": None, "versions": {}}
    listed = {**{name: value for name, value in snapshot.items() if name != "versions"}, "tables": 3}
    shown = {**snapshot, "versions": {"a1": 41}}
    was = {"to": head, "head": head, "seq": 9, "restored": ["main.default.t"], "dropped": [], "renamed": []}
    with service({
        "GET /v1/catalogs/main/log": (200, {"commits": [commit]}),
        "GET /v1/catalogs/main/snapshots": (200, {"snapshots": [listed]}),
        "GET /v1/catalogs/main/snapshots/s": (200, shown),
        "POST /v1/catalogs/main/snapshots": (201, snapshot),
        "DELETE /v1/catalogs/main/snapshots/s": (204, None),
        "POST /v1/catalogs/main/reset": (200, was),
    }) as canned:  # fmt: skip
        url = ("--url", canned.url)
        assert (
            "create table main.default.t" in run("catalog", "log", "--limit", "5", "--url", f"{canned.url}/v1").stdout
        )
        assert "create table main.default.t" in run("catalog", "log", "--max", "5", *url).stdout
        assert json.loads(run("catalog", "snapshots", *url, "-o", "json").stdout) == {"snapshots": [listed]}
        assert "3" in run("catalog", "snapshots", *url).stdout.splitlines()[1].split()
        assert json.loads(run("catalog", "show-snapshot", "main", "s", *url, "-o", "json").stdout) == shown
        assert "41" in run("catalog", "show-snapshot", "main", "s", *url).stdout
        assert "number 7" in run("catalog", "snapshot", "main", "s", "--of", "time:17", *url).stdout
        assert run("catalog", "drop-snapshot", "main", "s", *url).exit_code == 0
        for to in (head, "7", "time:17", "s"):
            told = run("catalog", "reset", "main", "--to", to, *url)
            assert "restored main.default.t" in told.stdout
        assert run("catalog", "reset", "main", *url).exit_code == 2
        bodies = [body for _, _, body, _ in canned.seen if body]
    assert bodies[0] == {"name": "s", "comment": None, "of": {"time": 17}}
    assert [body["to"] for body in bodies[1:]] == [{"head": head}, {"seq": 7}, {"time": 17}, {"snapshot": "s"}]
