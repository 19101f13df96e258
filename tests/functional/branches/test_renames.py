"""A Delta table that a branch renames has the name in the catalog after the promotion (I28)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.v1 import (
    BRANCHES,
    DEFAULT,
    DEV,
    DEV_DEFAULT,
    NAMESPACES,
    CatalogApi,
    PlansApi,
    refused,
    two_tables_on_a_branch,
)
from turnstile.store.core.names import published_path


@pytest.fixture
def site(api: CatalogApi) -> PlansApi:
    return two_tables_on_a_branch(api)


def rename(site: PlansApi, name: str, new_name: str, namespace: str = "default", tables: str = DEV_DEFAULT) -> None:
    answer = site.http.post(f"{tables}/tables/{name}/rename", {"name": new_name, "namespace": namespace})
    assert answer.status == 200, answer.text


def add_file(site: PlansApi, name: str, path: str, tables: str = DEV_DEFAULT) -> None:
    site.add_files(site.table(name, tables)["table_id"], delta.add(path), isBlindAppend=True)


def files(site: PlansApi, name: str, tables: str = DEFAULT) -> list[str]:
    answer = site.plans.post(f"/v1/tables/{site.table(name, tables)['table_id']}/plan", {})
    assert answer.status == 200, answer.text
    return sorted(file["path"].rpartition("/")[2] for file in answer.json["files"])


def diff(site: PlansApi) -> dict[str, Any]:
    answer = site.http.get(BRANCHES + "/dev/diff")
    assert answer.status == 200, answer.text
    return dict(answer.json)


def promote(site: PlansApi) -> dict[str, Any]:
    answer = site.http.post(BRANCHES + "/dev/promote", {"state": diff(site)["state"]})
    assert answer.status == 200, answer.text
    return dict(answer.json)


@pytest.mark.parametrize("writes", [False, True], ids=["only renamed", "also written"])
def test_i28_a_table_has_the_branchs_name_and_its_own_id_and_location_after_a_promotion(
    site: PlansApi, writes: bool
) -> None:
    before = site.table("t", DEFAULT)
    assert site.http.post(DEV, {"name": "of_branch"}).status == 201
    rename(site, "t", "New", "of_branch")
    new = DEV + "/of_branch"
    if writes:
        add_file(site, "new", "mine", new)
    add_file(site, "t", "theirs", DEFAULT)
    named = {"name": "of_branch.new", "kind": "table", "change": "renamed", "old_name": "default.t"}
    assert named in diff(site)["names"]
    done = promote(site)
    assert [one["name"] for one in done["tables"]] == (["of_branch.new"] if writes else [])
    assert named in done["names"]
    refused(site.commits.get(f"{DEFAULT}/tables/t"), 404, "NoSuchTable", "table")
    after = site.table("new", NAMESPACES + "/of_branch")
    assert after["name"] == "main.of_branch.New", "the HEAD has it, too: rights follow from it"
    assert [after[key] for key in ("table_id", "location")] == [before[key] for key in ("table_id", "location")]
    assert files(site, "new", NAMESPACES + "/of_branch") == sorted(["a", "theirs", *(["mine"] if writes else [])])
    add_file(site, "new", "later", NAMESPACES + "/of_branch")
    refused(site.http.get(BRANCHES + "/dev"), 404, "NoSuchBranch", "branch")


@pytest.mark.parametrize("writes", [False, True], ids=["only renamed", "also written"])
def test_i28_an_update_keeps_the_branchs_name_and_takes_over_commits(site: PlansApi, writes: bool) -> None:
    rename(site, "t", "new")
    if writes:
        add_file(site, "new", "mine")
    add_file(site, "t", "theirs", DEFAULT)
    for _ in range(2):
        assert site.http.post(BRANCHES + "/dev/update").status == 200
        expected = sorted(["a", "theirs", *(["mine"] if writes else [])])
        assert files(site, "new", DEV_DEFAULT) == expected
        refused(site.commits.get(f"{DEV_DEFAULT}/tables/t"), 404, "NoSuchTable", "table")
    promote(site)
    assert files(site, "new") == expected
    refused(site.commits.get(f"{DEFAULT}/tables/t"), 404, "NoSuchTable", "table")


GONE = "'default.t' was dropped, renamed or replaced in the catalog"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda site: site.http.delete(f"{DEFAULT}/tables/t"), GONE),
        (lambda site: site.http.post(f"{DEFAULT}/tables/t/rename", {"name": "other"}), GONE),
        (lambda site: site.create("new"), "'default.new' was created in the catalog, too"),
    ],
)
@pytest.mark.parametrize("action", ["promote", "update"])
def test_i28_a_name_that_the_catalog_changed_too_is_a_conflict(
    site: PlansApi, change: Any, reason: str, action: str
) -> None:
    rename(site, "t", "new")
    add_file(site, "new", "mine")
    change(site)
    assert diff(site)["conflicts"] == [reason]
    error = refused(site.http.post(f"{BRANCHES}/dev/{action}", {}), 409, "BranchConflict", "branch")
    assert error["conflicts"] == [reason]
    assert files(site, "new", DEV_DEFAULT) == ["a", "mine"]


def test_i28_a_table_that_is_renamed_twice_or_back_has_the_last_name(site: PlansApi) -> None:
    for name, new_name in (("t", "x"), ("x", "y"), ("u", "z"), ("z", "u")):
        rename(site, name, new_name)
    assert [(one["name"], one.get("old_name")) for one in diff(site)["names"]] == [("default.y", "default.t")]
    promote(site)
    assert files(site, "y") == files(site, "u") == ["a"]


OTHERS = "was renamed on the branch, and another table has its old name, or had its new one: give it its name again"


def test_i28_a_name_that_another_table_had_is_refused_with_its_remedy(site: PlansApi) -> None:
    rename(site, "t", "x")
    rename(site, "u", "t")
    reason = f"'default.t' {OTHERS}"
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert reason in error["conflicts"]
    rename(site, "t", "u")
    promote(site)
    assert files(site, "x") == files(site, "u") == ["a"]


def test_i28_a_table_with_the_old_name_of_another_is_refused(site: PlansApi) -> None:
    rename(site, "t", "old")
    staged = site.http.post(f"{DEV_DEFAULT}/staging-tables", {"name": "t"}).json
    content = delta.version_zero("create", site.world.clock.now_ms())
    site.world.storages.open(staged["location"]).put_if_absent(published_path(0), content)
    created = site.http.post(f"{DEV_DEFAULT}/tables", {"name": "t", "table_id": staged["table_id"]})
    assert created.status == 201, created.text
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert error["conflicts"] == [f"'default.old' {OTHERS}"]
    assert files(site, "t") == ["a"]


def test_a_name_that_differs_in_case_alone_is_given_in_the_catalog(site: PlansApi) -> None:
    site.table("t")
    answer = site.http.post(f"{DEV_DEFAULT}/tables/t/rename", {"name": "T"})
    error = refused(answer, 400, "InvalidRequest", "name")
    assert error["remedy"] == "rename it in the catalog, and update the branch"


def test_i28_a_renamed_table_is_promoted_with_its_branch_alone(site: PlansApi) -> None:
    rename(site, "t", "new")
    for name in ("new", "u"):
        add_file(site, name, "mine")
    refused(site.http.post(BRANCHES + "/dev/promote", {"tables": ["default.new"]}), 400, "InvalidRequest", "tables")
    assert site.http.post(BRANCHES + "/dev/promote", {"tables": ["default.u"]}).status == 200
    assert files(site, "u") == files(site, "new", DEV_DEFAULT) == ["a", "mine"]
    promote(site)
    assert files(site, "new") == ["a", "mine"]


def test_i28_a_table_that_the_branch_dropped_and_the_catalog_renamed_is_a_conflict(site: PlansApi) -> None:
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    rename(site, "t", "new", tables=DEFAULT)
    reason = "'default.t' was dropped on the branch and renamed in the catalog"
    assert diff(site)["conflicts"] == [reason]
    for action in ("promote", "update"):
        error = refused(site.http.post(f"{BRANCHES}/dev/{action}", {}), 409, "BranchConflict", "branch")
        assert error["conflicts"] == [reason]
    assert files(site, "new") == ["a"]


def test_i28_a_namespace_is_dropped_after_its_table_was_moved(site: PlansApi) -> None:
    assert site.http.post(NAMESPACES, {"name": "old"}).status == 201
    rename(site, "t", "t", "old", DEFAULT)
    assert site.http.post(BRANCHES + "/dev/update").status == 200
    rename(site, "t", "t", tables=DEV + "/old")
    assert site.http.delete(DEV + "/old").status == 204
    promote(site)
    refused(site.http.get(NAMESPACES + "/old"), 404, "NoSuchNamespace", "namespace")
    assert files(site, "t") == ["a"]
