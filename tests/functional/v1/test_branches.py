"""Branches of a catalog over HTTP (docs/branches.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, PlansApi, refused

BRANCHES = "/v1/catalogs/main/branches"
DEV = "/v1/catalogs/main@dev/namespaces"
DEV_DEFAULT = DEV + "/default"


@pytest.fixture
def site(api: CatalogApi) -> PlansApi:
    return PlansApi(api)


def branched(site: PlansApi, **options: Any) -> dict[str, Any]:
    answer = site.http.post(BRANCHES, {"name": "dev", **options})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def add(name: str, rows: int = 1) -> dict[str, Any]:
    return delta.add(name, rows=rows)


def names(site: PlansApi, catalog: str = "main") -> list[str]:
    listed = site.http.get(f"/v1/catalogs/{catalog}/namespaces/default/tables")
    assert listed.status == 200, listed.text
    return [table["name"] for table in listed.json["tables"]]


def test_a_branch_is_made_listed_shown_renewed_and_dropped(site: PlansApi) -> None:
    made = branched(site, comment="nightly", days=2)
    assert (made["name"], made["full_name"], made["comment"]) == ("dev", "main@dev", "nightly")
    assert made["until"] - made["created"] == 2 * 86_400_000
    assert site.http.get(BRANCHES).json == {"branches": [made]}
    assert site.http.get(BRANCHES + "/DEV").json == made
    renewed = site.http.patch(BRANCHES + "/dev", {"days": 9}).json
    assert renewed["until"] > made["until"] and renewed["base"] == made["base"]
    refused(site.http.post(BRANCHES, {"name": "DEV"}), 409, "AlreadyExists", "name")
    assert site.http.delete(BRANCHES + "/dev").status == 204
    assert site.http.get(BRANCHES).json == {"branches": []}
    refused(site.http.get(BRANCHES + "/dev"), 404, "NoSuchBranch", "branch")
    refused(site.http.get(DEV), 404, "NoSuchCatalog", "catalog")
    assert branched(site)["name"] == "dev"


def test_a_branch_has_a_name_of_its_own_and_no_branches(site: PlansApi) -> None:
    refused(site.http.post(BRANCHES, {"name": "a@b"}), 400, "InvalidRequest", "name")
    refused(site.http.post(BRANCHES, {"name": "a b"}), 400, "InvalidRequest", "name")
    refused(site.http.post(BRANCHES, {"name": "x" * 251}), 400, "InvalidRequest", "name")
    refused(site.http.post(BRANCHES, {"name": "dev", "days": 0}), 400, "InvalidRequest", "days")
    refused(site.http.post("/v1/catalogs/none/branches", {"name": "dev"}), 404, "NoSuchCatalog", "catalog")
    branched(site)
    refused(site.http.post("/v1/catalogs/main@dev/branches", {"name": "x"}), 400, "InvalidRequest", "catalog")
    refused(site.http.post("/v1/catalogs", {"name": "other@dev"}), 400, "InvalidRequest", "name")
    snapshots = "/v1/catalogs/main/snapshots"
    assert site.http.get(snapshots).json["snapshots"] == []
    refused(site.http.post(snapshots, {"name": "@x"}), 400, "InvalidRequest", "name")
    refused(site.http.delete(snapshots + "/@dev"), 409, "HasBranch", "snapshot")
    refused(site.http.post("/v1/catalogs/main@dev/snapshots", {"name": "x"}), 400, "InvalidRequest", "catalog")


def test_i28_names_that_change_on_a_branch_stay_on_the_catalog_and_the_other_way_round(site: PlansApi) -> None:
    site.create("t")
    branched(site)
    assert site.http.post(DEV, {"name": "of_branch"}).status == 201
    assert site.http.post(NAMESPACES, {"name": "of_main"}).status == 201
    site.create("u")
    assert site.http.delete(DEV_DEFAULT + "/tables/t").status == 204
    assert (names(site), names(site, "main@dev")) == (["t", "u"], [])
    shown = [[one["name"] for one in site.http.get(of).json["namespaces"]] for of in (NAMESPACES, DEV)]
    assert shown == [["default", "of_main"], ["default", "of_branch"]]
    assert site.commits.get(DEFAULT + "/tables/t").json["latest"] == 0


def test_i28_a_delta_table_of_a_branch_is_that_of_its_base_and_goes_on_by_itself(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, add("a"))
    branched(site)
    site.add_files(id, add("b"))
    loaded = site.commits.get(DEV_DEFAULT + "/tables/t").json
    main = site.commits.get(DEFAULT + "/tables/t").json
    assert loaded["table_id"] != id == main["table_id"]
    assert loaded["location"].startswith(main["location"] + "/_branches/")
    assert (loaded["latest"], main["latest"]) == (1, 2)
    site.add_files(loaded["table_id"], add("c"))
    assert site.commits.get(DEV_DEFAULT + "/tables/t").json["latest"] == 2
    assert site.commits.get(f"/v1/tables/{id}/head").json["latest"] == 2
    found = site.plans.post(f"/v1/tables/{loaded['table_id']}/plan", {})
    assert found.status == 200, found.text
    paths = sorted(file["path"] for file in found.json["files"])
    assert paths == ["c", main["location"] + "/a"], found.json
