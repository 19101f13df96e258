"""A branch takes over the changes of its catalog, over HTTP (docs/branches.md, I28)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.support.catalog import LAKE
from tests.support.fakes import delta
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, PlansApi, refused
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.store.core.names import published_path

BRANCHES = "/v1/catalogs/main/branches"
DEV = "/v1/catalogs/main@dev/namespaces"
DEV_DEFAULT = DEV + "/default"


@pytest.fixture
def site(api: CatalogApi) -> PlansApi:
    site = PlansApi(api)
    for name in ("t", "u"):
        site.add_files(site.create(name)["table_id"], delta.add("a"))
    branched = site.http.post(BRANCHES, {"name": "dev"})
    assert branched.status == 201, branched.text
    return site


def table(site: PlansApi, name: str, tables: str = DEV_DEFAULT) -> dict[str, Any]:
    answer = site.commits.get(f"{tables}/tables/{name}")
    assert answer.status == 200, answer.text
    return dict(answer.json)


def files(site: PlansApi, name: str, tables: str = DEV_DEFAULT) -> list[str]:
    answer = site.plans.post(f"/v1/tables/{table(site, name, tables)['table_id']}/plan", {})
    assert answer.status == 200, answer.text
    return sorted(file["path"] for file in answer.json["files"])


def add_files(site: PlansApi, name: str, *actions: dict[str, Any], tables: str = DEV_DEFAULT) -> None:
    """A commit, which is a blind append if it only adds files."""
    blind = all("add" in action for action in actions)
    site.add_files(table(site, name, tables)["table_id"], *actions, isBlindAppend=blind)


def update(site: PlansApi) -> dict[str, Any]:
    answer = site.http.post(BRANCHES + "/dev/update")
    assert answer.status == 200, answer.text
    return dict(answer.json)


def promote(site: PlansApi) -> dict[str, Any]:
    answer = site.http.post(BRANCHES + "/dev/promote", {})
    assert answer.status == 200, answer.text
    return dict(answer.json)


def test_i28_an_update_takes_over_commits_and_names_of_the_catalog_and_keeps_the_branchs(site: PlansApi) -> None:
    before = site.http.get(BRANCHES + "/dev").json
    add_files(site, "t", delta.add("mine"))
    add_files(site, "t", delta.add("theirs"), tables=DEFAULT)
    add_files(site, "u", delta.add("new"), tables=DEFAULT)
    site.create("later")
    assert site.http.post(NAMESPACES, {"name": "of_main"}).status == 201
    assert site.http.post(DEV, {"name": "of_branch"}).status == 201
    id = table(site, "t")["table_id"]
    updated = update(site)
    assert updated["tables"] == [{"name": "default.t", "table_id": id, "base": 2, "version": 3}]
    assert updated["branch"]["seq"] > before["seq"] and updated["branch"]["at"] > before["at"]
    assert updated["branch"] == site.http.get(BRANCHES + "/dev").json
    assert table(site, "t")["table_id"] == id
    assert files(site, "t") == ["../../a", "../../theirs", "mine"]
    assert files(site, "u") == ["../../a", "../../new"]
    assert [one["name"] for one in site.http.get(DEV).json["namespaces"]] == ["default", "of_branch", "of_main"]
    assert table(site, "later")["latest"] == 0


def test_i28_a_promotion_after_updates_has_the_changes_of_the_branch_alone(site: PlansApi) -> None:
    for round in range(3):
        add_files(site, "t", delta.add(f"mine{round}"))
        add_files(site, "t", delta.add(f"theirs{round}"), tables=DEFAULT)
        update(site)
    add_files(site, "t", delta.remove("../../theirs0"))
    changes = site.http.get(BRANCHES + "/dev/diff").json
    assert changes["conflicts"] == []
    assert [(one["files_added"], one["files_removed"]) for one in changes["tables"]] == [(3, 1)]
    (promoted,) = promote(site)["tables"]
    assert promoted["version"] == 5
    folder = f"_branches/{table(site, 't', DEFAULT)['table_id']}"
    found = files(site, "t", DEFAULT)
    assert [path.rpartition("/")[2] for path in found if path.startswith("_branches/")] == ["mine0", "mine1", "mine2"]
    assert not any(path.startswith(folder) for path in found)
    assert [path for path in found if "/" not in path] == ["a", "theirs1", "theirs2"]


def test_i28_a_commit_of_an_update_is_in_the_branchs_log_with_its_catalog_and_versions(site: PlansApi) -> None:
    add_files(site, "t", delta.add("mine"))
    add_files(site, "t", delta.add("x"), tables=DEFAULT)
    add_files(site, "t", delta.remove("x"), delta.add("y"), tables=DEFAULT)
    update(site)
    loaded = table(site, "t")
    Services(cast("Any", site.world), Settings(lake_root=LAKE)).publisher.publish(loaded["table_id"])
    read = site.world.storages.open(loaded["location"]).read(published_path(3), 100_000)
    assert read is not None
    actions = [json.loads(line) for line in read[0].splitlines()]
    assert actions[0]["commitInfo"]["operation"] == "UPDATE BRANCH"
    assert actions[0]["commitInfo"]["operationParameters"]["versions"] == "[2,3]"
    assert [next(iter(action)) for action in actions[1:]] == ["add"]


def test_i28_what_both_changed_refuses_an_update_and_changes_nothing(site: PlansApi) -> None:
    add_files(site, "t", delta.remove("../../a"))
    add_files(site, "t", delta.remove("a"), tables=DEFAULT)
    add_files(site, "u", delta.add("new"), tables=DEFAULT)
    error = refused(site.http.post(BRANCHES + "/dev/update"), 409, "BranchConflict", "branch")
    assert error["message"].startswith("branch 'main@dev' cannot be updated: ")
    assert len(error["conflicts"]) == 1
    assert files(site, "t") == []
    assert files(site, "u") == ["../../a"]
    promoting = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert promoting["conflicts"] == error["conflicts"]


def test_i28_a_table_that_the_branch_dropped_and_the_catalog_wrote_refuses_an_update(site: PlansApi) -> None:
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    add_files(site, "t", delta.add("new"), tables=DEFAULT)
    error = refused(site.http.post(BRANCHES + "/dev/update"), 409, "BranchConflict", "branch")
    assert error["conflicts"] == ["'default.t' was dropped on the branch and got version 2 in the catalog"]


def test_i28_a_drop_on_the_branch_stays_after_an_update_and_is_promoted(site: PlansApi) -> None:
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    update(site)
    refused(site.commits.get(f"{DEV_DEFAULT}/tables/t"), 404, "NoSuchTable", "table")
    assert [(one["name"], one["change"]) for one in promote(site)["names"]] == [("default.t", "dropped")]
    refused(site.commits.get(f"{DEFAULT}/tables/t"), 404, "NoSuchTable", "table")


def test_i28_a_drop_in_the_catalog_reaches_the_branch_with_an_update(site: PlansApi) -> None:
    add_files(site, "u", delta.add("mine"))
    assert table(site, "t")["latest"] == 1
    assert site.http.delete(f"{DEFAULT}/tables/t").status == 204
    error = refused(site.http.post(BRANCHES + "/dev/update"), 409, "BranchConflict", "branch")
    assert error["conflicts"] == ["'default.t' was dropped, renamed or replaced in the catalog"]
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    update(site)
    assert [one["name"] for one in promote(site)["tables"]] == ["default.u"]


def test_an_update_of_a_branch_without_changes_shows_the_present(site: PlansApi) -> None:
    table(site, "t")
    add_files(site, "t", delta.add("new"), tables=DEFAULT)
    assert update(site)["tables"] == []
    assert files(site, "t") == ["../../a", "../../new"]
    assert site.http.get(BRANCHES + "/dev/diff").json["tables"] == []
