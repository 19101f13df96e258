"""How requests may look on the wire: names in paths, headers, bodies of every wrong kind, and
limits."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.conformance.drive import GOOD, stocked
from tests.support.fakes import delta
from tests.support.openapi import UNITY
from tests.support.unity import SCHEMA, T1, V1, B, Unity, refused, refused_old
from turnstile.api.http.request import MAX_BODY

WITH_BODY = sorted(one.id for one in UNITY.operations.values() if one.body)
POSTED = [id for id in WITH_BODY if UNITY.operations[id].method != "GET"]
H2C = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAA"}


@pytest.fixture
def unity() -> Unity:
    return stocked()


def is_old(path: str) -> bool:
    return not path.startswith(V1)


# -- names in paths ---------------------------------------------------------------------------------------------------


@covers(loadTable=200, getTable=200, deleteTable=204)
@pytest.mark.parametrize(("name", "wire"), [("t@2", "t%402"), ("t@2", "t@2"), ("a-b_c", "a%2Db%5Fc")])
def test_names_come_encoded_or_not(unity: Unity, name: str, wire: str) -> None:
    unity.create(name)
    assert unity.get(f"{SCHEMA}/tables/{wire}").status == 200
    assert unity.get(f"{B}/tables/main.sales.{wire}").json["name"] == name
    assert unity.call("DELETE", f"{SCHEMA}/tables/{wire}").status == 204


@covers(createStagingTable=400, loadTable=404)
@pytest.mark.parametrize(
    ("name", "wire"), [("Été", "%C3%89t%C3%A9"), ("a b", "a%20b"), ("a.b", "a.b"), ("💩", "%F0%9F%92%A9")]
)
def test_what_cannot_be_a_name_is_refused_when_it_is_made_and_not_found_when_it_is_looked_up(
    unity: Unity, name: str, wire: str
) -> None:
    refused(unity.post(f"{SCHEMA}/staging-tables", {"name": name}), 400, "InvalidParameterValueException")
    refused(unity.get(f"{SCHEMA}/tables/{wire}"), 404, "NoSuchTableException")


@covers(loadTable=200)
def test_names_compare_without_regard_to_case_and_are_shown_as_written(unity: Unity) -> None:
    assert unity.get(T1.replace("main", "MAIN").replace("sales", "Sales").replace("t1", "T1")).status == 200
    found = unity.get(f"{B}/tables/MAIN.SALES.T1").json
    assert (found["catalog_name"], found["schema_name"], found["name"]) == ("main", "sales", "t1")


TRICKS = [
    "..", "%2e%2e", ".", "a%2Fb", "%2F", "a%5Cb", "a%00b", "%00", "a.b", "a%20b", "a b", "%25", "%2525", "%ZZ", "%",
    "%E0%A4",
    "t1;x=1", "t1%3Bx", "t1%0a", "~", "x" * 300, "%F0%9F%92%A9",
]  # fmt: skip


@covers(loadTable=404, tableExists=404, deleteTable=404, getTableCredentials=404)
@pytest.mark.parametrize("name", TRICKS)
def test_what_cannot_be_a_name_is_not_found(unity: Unity, name: str) -> None:
    before = unity.rows()
    refused(unity.get(f"{SCHEMA}/tables/{name}"), 404, "NoSuchTableException")
    assert unity.call("HEAD", f"{SCHEMA}/tables/{name}").status == 404
    refused(unity.call("DELETE", f"{SCHEMA}/tables/{name}"), 404, "NoSuchTableException")
    refused(unity.get(f"{SCHEMA}/tables/{name}/credentials", operation="READ"), 404, "NoSuchTableException")
    assert unity.rows() == before


@covers(getTable=404, getSchema=404, getCatalog=404)
@pytest.mark.parametrize("name", TRICKS)
def test_what_cannot_be_a_name_is_not_found_in_the_older_api(unity: Unity, name: str) -> None:
    refused_old(unity.get(f"{B}/catalogs/{name}"), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas/main.{name}"), 404, "SCHEMA_NOT_FOUND")
    found = unity.get(f"{B}/tables/main.sales.{name}")
    assert found.status == 404 and found.json["error_code"] in ("TABLE_NOT_FOUND", "SCHEMA_NOT_FOUND")


@pytest.mark.parametrize(
    "path",
    [f"{T1}/", f"{SCHEMA}/tables/", f"{SCHEMA}/tables//", f"{T1}/../t1", f"{V1}/", V1, f"{B}/delta/v2/config",
     f"{V1}/catalogs/main/schemas/sales/tables/t1/snapshots"],
)  # fmt: skip
def test_a_path_without_a_route_is_404(unity: Unity, path: str) -> None:
    answer = unity.get(path)
    assert answer.status == 404
    if path.startswith(f"{V1}/") or path == V1:
        refused(answer, 404, "NotFoundException")
    else:
        refused_old(answer, 404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
def test_a_wrong_method_is_405_and_says_which_are_right(unity: Unity, method: str) -> None:
    answer = unity.call(method, T1, {})
    assert answer.status == 405 and answer.headers["allow"] == "DELETE, GET, HEAD, POST"
    assert set(answer.json["error"]) == {"message", "type", "code"}


# -- headers ----------------------------------------------------------------------------------------------------------


@covers(loadTable=200, updateTable=200, listSchemas=200)
def test_the_upgrade_that_java_offers_is_ignored(unity: Unity) -> None:
    assert unity.call("GET", T1, headers=H2C).status == 200
    assert unity.call("GET", f"{B}/schemas", query={"catalog_name": "main"}, headers=H2C).status == 200
    body = GOOD["updateTable"](unity).body
    answer = unity.post(T1, body, headers=H2C)
    assert answer.status == 200 and "upgrade" not in answer.headers


@pytest.mark.parametrize("id", [pytest.param(id, marks=covers(**{id: 400})) for id in POSTED])
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "", "application/xml"])
def test_a_body_is_declared_as_json(id: str, media: str) -> None:
    unity = stocked()
    before = unity.rows()
    ask = GOOD[id](unity)
    before = unity.rows()
    answer = unity.call(UNITY.operations[id].method, ask.path, ask.body, headers={"Content-Type": media})
    if is_old(ask.path):
        refused_old(answer, 400, "INVALID_ARGUMENT")
    else:
        refused(answer, 400, "BadRequestException")
    assert unity.rows() == before


@covers(createSchema=200)
@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"]
)
def test_json_may_be_declared_with_its_encoding(unity: Unity, media: str) -> None:
    asked = {"name": "s2", "catalog_name": "main"}
    assert unity.post(f"{B}/schemas", asked, headers={"Content-Type": media}).status == 200


# -- bodies -----------------------------------------------------------------------------------------------------------

WRONG: dict[str, Any] = {
    "nothing": "",
    "not JSON": "{",
    "two objects": "{}{}",
    "not UTF-8": base64.b64encode(b'{"name": "\xff", "comment": "\xff"}').decode(),
    "endless nesting": "[" * 50_000,
    "a list": "[]",
    "a number": "1",
    "null": "null",
    "NaN": "NaN",
}


@pytest.mark.parametrize("id", [pytest.param(id, marks=covers(**{id: 400})) for id in POSTED])
@pytest.mark.parametrize("kind", WRONG)
def test_a_body_of_the_wrong_kind_is_400(id: str, kind: str) -> None:
    unity = stocked()
    path = GOOD[id](unity).path
    before = unity.rows()
    encoded = kind == "not UTF-8"
    answer = unity.call(UNITY.operations[id].method, path, body=WRONG[kind], base64_encoded=encoded)
    if is_old(path):
        refused_old(answer, 400, "INVALID_ARGUMENT")
    else:
        error = refused(answer, 400, answer.json["error"]["type"])
        assert error["type"] in ("BadRequestException", "InvalidParameterValueException")
    assert unity.rows() == before


@pytest.mark.parametrize("id", [pytest.param(id, marks=covers(**{id: 400})) for id in POSTED])
def test_a_body_over_the_limit_is_400_and_says_the_limit(id: str) -> None:
    unity = stocked()
    ask = GOOD[id](unity)
    padded = json.dumps({**ask.body, "padding": "x" * MAX_BODY})
    answer = unity.call(UNITY.operations[id].method, ask.path, body=padded)
    if is_old(ask.path):
        refused_old(answer, 400, "INVALID_ARGUMENT")
    else:
        refused(answer, 400, "InvalidParameterValueException")
    assert str(MAX_BODY) in answer.text


@covers(createSchema=200)
def test_a_body_just_within_the_limit_is_taken(unity: Unity) -> None:
    asked = {"name": "s2", "catalog_name": "main", "later": ""}
    asked["later"] = "x" * (MAX_BODY - len(json.dumps(asked)))
    assert unity.call("POST", f"{B}/schemas", body=json.dumps(asked)).status == 200


@covers(createStagingTable=200, renameTable=204)
def test_unknown_members_are_skipped_and_the_last_of_two_counts(unity: Unity) -> None:
    assert unity.post(f"{SCHEMA}/staging-tables", {"name": "t2", "later": [1]}).status == 200
    body = '{"new-name": "no way", "new-name": "t2", "x": null}'
    assert unity.call("POST", f"{T1}/rename", body=body).status == 204


@covers(getCommits=(200, 400), loadTable=200)
def test_a_body_of_a_get_is_read_where_the_api_has_one_and_else_ignored(unity: Unity) -> None:
    path = f"{B}/delta/preview/commits"
    asked = {"table_id": unity.uuid, "table_uri": "file:/any", "start_version": 0}
    by_body = unity.call("GET", path, asked)
    by_query = unity.call("GET", path, query={"table_id": unity.uuid, "start_version": 0})
    assert by_body.json == by_query.json and by_body.json["latest_table_version"] == 1
    refused_old(unity.call("GET", path, body="{"), 400, "INVALID_ARGUMENT")
    assert unity.call("GET", T1, body="not json", headers={"Content-Type": "text/plain"}).status == 200


# -- inline commits ---------------------------------------------------------------------------------------------------


@covers(loadTable=200, getCommits=200, updateTable=200)
def test_inline_commits_are_files_before_any_answer_lists_them() -> None:
    """Whatever lists commits: a load, an update's answer, the older endpoint."""
    for ask in (
        lambda unity: unity.get(T1).json["commits"][0]["file-name"],
        lambda unity: unity.update({"action": "set-table-comment", "comment": "x"}).json["commits"][0]["file-name"],
        lambda unity: unity.call("GET", f"{B}/delta/preview/commits",
                                 query={"table_id": unity.uuid, "start_version": 2})
        .json["commits"][0]["file_name"],
    ):  # fmt: skip
        unity = stocked()
        content = delta.append("inline", unity.world.clock.now_ms()).decode()
        proposal = {"version": 2, "inline": {"content": content}}
        assert unity.hot.post(f"/v1/tables/{unity.uuid}/commits", proposal).status == 200
        assert not [path for path in unity.world.storages.files if path.endswith(".json") and f"/{2:020d}." in path]
        name = ask(unity)
        path = f"{unity.head().location}/_delta_log/_staged_commits/{name}"
        assert unity.world.storages.files[path][0] == content.encode()
