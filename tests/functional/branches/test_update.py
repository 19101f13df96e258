"""A branch takes over the changes of its catalog, over HTTP (docs/branches.md, I28)."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.support.catalog import LAKE
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
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.branches.comparison import Comparison
from turnstile.branches.tables import OwnTables
from turnstile.branches.update import Updater
from turnstile.store.core.names import published_path


@pytest.fixture
def site(api: CatalogApi) -> PlansApi:
    return two_tables_on_a_branch(api)


def files(site: PlansApi, name: str, tables: str = DEV_DEFAULT) -> list[str]:
    answer = site.plans.post(f"/v1/tables/{site.table(name, tables)['table_id']}/plan", {})
    assert answer.status == 200, answer.text
    return sorted(file["path"] for file in answer.json["files"])


def add_files(site: PlansApi, name: str, *actions: dict[str, Any], tables: str = DEV_DEFAULT) -> None:
    """A commit, which is a blind append if it only adds files."""
    blind = not any("remove" in action for action in actions)
    site.add_files(site.table(name, tables)["table_id"], *actions, isBlindAppend=blind)


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
    id = site.table("t")["table_id"]
    updated = update(site)
    assert updated["tables"] == [{"name": "default.t", "table_id": id, "base": 2, "version": 3}]
    assert updated["branch"]["seq"] > before["seq"] and updated["branch"]["at"] > before["at"]
    assert updated["branch"] == site.http.get(BRANCHES + "/dev").json
    assert site.table("t")["table_id"] == id
    assert files(site, "t") == ["../../a", "../../theirs", "mine"]
    assert files(site, "u") == ["../../a", "../../new"]
    assert [one["name"] for one in site.http.get(DEV).json["namespaces"]] == ["default", "of_branch", "of_main"]
    assert site.table("later")["latest"] == 0


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
    folder = f"_branches/{site.table('t', DEFAULT)['table_id']}"
    found = files(site, "t", DEFAULT)
    assert [path.rpartition("/")[2] for path in found if path.startswith("_branches/")] == ["mine0", "mine1", "mine2"]
    assert not any(path.startswith(folder) for path in found)
    assert [path for path in found if "/" not in path] == ["a", "theirs1", "theirs2"]


def test_i28_a_commit_of_an_update_is_in_the_branchs_log_with_its_catalog_and_versions(site: PlansApi) -> None:
    add_files(site, "t", delta.add("mine"))
    add_files(site, "t", delta.add("x"), tables=DEFAULT)
    add_files(site, "t", delta.remove("x"), delta.add("y"), tables=DEFAULT)
    update(site)
    loaded = site.table("t")
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
    assert site.table("t")["latest"] == 1
    assert site.http.delete(f"{DEFAULT}/tables/t").status == 204
    error = refused(site.http.post(BRANCHES + "/dev/update"), 409, "BranchConflict", "branch")
    assert error["conflicts"] == ["'default.t' was dropped, renamed or replaced in the catalog"]
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    update(site)
    assert [one["name"] for one in promote(site)["tables"]] == ["default.u"]


def test_an_update_of_a_branch_without_changes_shows_the_present(site: PlansApi) -> None:
    site.table("t")
    add_files(site, "t", delta.add("new"), tables=DEFAULT)
    assert update(site)["tables"] == []
    assert files(site, "t") == ["../../a", "../../new"]
    assert site.http.get(BRANCHES + "/dev/diff").json["tables"] == []


def test_i28_a_commit_between_the_comparison_and_the_write_is_taken_over(
    site: PlansApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_files(site, "t", delta.add("mine"))
    right = Updater.write
    plans: list[Comparison] = []

    def raced(updater: Updater, plan: Comparison, *more: Any) -> Any:
        if not plans:
            add_files(site, "t", delta.add("late"), tables=DEFAULT)
        plans.append(plan)
        return right(updater, plan, *more)

    monkeypatch.setattr(Updater, "write", raced)
    assert [one["base"] for one in update(site)["tables"]] == [2]
    assert len(plans) == 2
    assert files(site, "t") == ["../../a", "../../late", "mine"]


def test_i28_a_table_that_is_loaded_while_its_branch_is_updated_begins_at_the_new_base(
    site: PlansApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = OwnTables._write_log

    def raced(tables: OwnTables, *arguments: Any) -> Any:
        own = right(tables, *arguments)
        monkeypatch.setattr(OwnTables, "_write_log", right)
        add_files(site, "u", delta.add("late"), tables=DEFAULT)
        update(site)
        return own

    monkeypatch.setattr(OwnTables, "_write_log", raced)
    refused(site.commits.get(f"{DEV_DEFAULT}/tables/u"), 409, "ConcurrentChange")
    assert files(site, "u") == ["../../a", "../../late"]


def test_i28_rights_of_a_branch_stay_with_an_update_and_those_of_the_catalog_come(site: PlansApi) -> None:
    def grants(catalog: str, name: str) -> list[str]:
        answer = site.http.get(f"/v1/permissions/table/{catalog}.default.{name}")
        assert answer.status == 200, answer.text
        return sorted(each["principal"] for each in answer.json["grants"])

    def grant(catalog: str, name: str, principal: str) -> None:
        change = {"changes": [{"principal": principal, "add": ["SELECT"]}]}
        answer = site.http.patch(f"/v1/permissions/table/{catalog}.default.{name}", change)
        assert answer.status == 200, answer.text

    add_files(site, "u", delta.add("mine"))
    grant("main@dev", "t", "ann")
    grant("main", "u", "bob")
    add_files(site, "t", delta.add("new"), tables=DEFAULT)
    update(site)
    assert (grants("main@dev", "t"), grants("main@dev", "u")) == (["ann"], ["bob"])
    assert files(site, "t") == ["../../a", "../../new"]
    promote(site)
    assert (grants("main", "t"), grants("main", "u")) == ([], ["bob"])


def test_i2_an_update_gives_new_rows_of_the_branch_other_ids_than_the_catalogs_new_rows(site: PlansApi) -> None:
    def add_rows(path: str, first: int, *, tables: str = DEV_DEFAULT) -> None:
        mark = json.dumps({"rowIdHighWaterMark": first + 1})
        domain = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
        file = delta.add(path, baseRowId=first, defaultRowCommitVersion=1, stats='{"numRecords": 2}')
        add_files(site, "r", file, {"domainMetadata": domain}, tables=tables)

    def ids(tables: str) -> dict[str, int]:
        answer = site.plans.post(f"/v1/tables/{site.table('r', tables)['table_id']}/plan", {})
        return {file["path"].rpartition("/")[2]: file["baseRowId"] for file in answer.json["files"]}

    site.create("r", "default", "rowTracking", "domainMetadata")
    site.http.delete(BRANCHES + "/dev")
    site.http.post(BRANCHES, {"name": "dev"})
    add_rows("theirs", 0, tables=DEFAULT)
    add_rows("mine", 0)
    update(site)
    assert ids(DEV_DEFAULT) == {"theirs": 0, "mine": 2}
    add_rows("later", 4)
    add_rows("theirs_too", 2, tables=DEFAULT)
    update(site)
    assert ids(DEV_DEFAULT) == {"theirs": 0, "theirs_too": 2, "mine": 6, "later": 8}
    promote(site)
    assert ids(DEFAULT) == {"theirs": 0, "theirs_too": 2, "mine": 4, "later": 6}


# -- promotions of some tables ----------------------------------------------------------------------------------------


def promote_some(site: PlansApi, *tables: str) -> Any:
    return site.http.post(BRANCHES + "/dev/promote", {"tables": tables})


def test_i28_some_tables_are_promoted_and_the_branch_goes_on_with_the_others(site: PlansApi) -> None:
    add_files(site, "t", delta.add("of_t"))
    add_files(site, "u", delta.add("of_u"))
    add_files(site, "t", delta.add("theirs"), tables=DEFAULT)
    add_files(site, "u", delta.add("theirs"), tables=DEFAULT)
    assert site.http.post(DEV, {"name": "of_branch"}).status == 201
    answer = promote_some(site, "default.T")
    assert answer.status == 200, answer.text
    assert [(one["name"], one["version"]) for one in answer.json["tables"]] == [("default.t", 3)]
    assert answer.json["names"] == []
    assert [path.rpartition("/")[2] for path in files(site, "t", DEFAULT)] == ["of_t", "a", "theirs"]
    assert files(site, "u", DEFAULT) == ["a", "theirs"]
    assert files(site, "u") == ["../../a", "../../theirs", "of_u"]
    assert sorted(path.rpartition("/")[2] for path in files(site, "t")) == ["a", "of_t", "theirs"]
    left = site.http.get(BRANCHES + "/dev/diff").json
    assert [one["name"] for one in left["tables"]] == ["default.u"]
    assert [one["name"] for one in left["names"]] == ["of_branch"]
    add_files(site, "t", delta.add("again"))
    assert [one["name"] for one in promote(site)["tables"]] == ["default.t", "default.u"]
    assert len(files(site, "t", DEFAULT)) == 4
    assert len(files(site, "u", DEFAULT)) == 3


def test_a_table_that_the_branch_did_not_change_is_not_promoted(site: PlansApi) -> None:
    add_files(site, "t", delta.add("of_t"))
    site.table("u")
    error = refused(promote_some(site, "default.t", "default.u"), 400, "InvalidRequest", "tables")
    assert error["message"] == "'default.u' is no Delta table that branch 'main@dev' changed"
    refused(promote_some(site), 400, "InvalidRequest", "tables")
    assert files(site, "t", DEFAULT) == ["a"]


def test_i28_a_broken_expectation_of_another_table_does_not_keep_some_from_their_promotion(site: PlansApi) -> None:
    add_files(site, "t", delta.add("of_t"))
    unmet = delta.redefinition(
        site.table("u"), {"turnstile.expect.size": "row_count between 5 and 9"}, site.world.clock.now_ms()
    )
    assert site.commits.post(f"/v1/tables/{site.table('u')['table_id']}/commits", unmet).status == 200
    assert promote_some(site, "default.u").status == 409
    assert promote_some(site, "default.t").status == 200


def test_i28_a_promotion_of_some_tables_keeps_the_branchs_rights_on_the_others(site: PlansApi) -> None:
    add_files(site, "t", delta.add("of_t"))
    site.table("u")
    change = {"changes": [{"principal": "ann", "add": ["SELECT"]}]}
    assert site.http.patch("/v1/permissions/table/main@dev.default.u", change).status == 200
    assert promote_some(site, "default.t").status == 200
    grants = site.http.get("/v1/permissions/table/main@dev.default.u").json["grants"]
    assert [grant["principal"] for grant in grants] == ["ann"]
