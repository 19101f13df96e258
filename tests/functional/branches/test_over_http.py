"""Branches of a catalog over HTTP (docs/branches.md)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.catalog import complete
from tests.support.fakes import delta
from tests.support.v1 import BRANCHES, DEFAULT, DEV, DEV_DEFAULT, NAMESPACES, CatalogApi, PlansApi, refused
from turnstile.branches import comparison
from turnstile.store.core.names import published_path


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
    assert paths == ["../../a", "c"], found.json


def files(site: PlansApi, table_id: str) -> list[str]:
    answer = site.plans.post(f"/v1/tables/{table_id}/plan", {})
    assert answer.status == 200, answer.text
    return sorted(file["path"] for file in answer.json["files"])


def promoted(site: PlansApi) -> dict[str, Any]:
    answer = site.http.post(BRANCHES + "/dev/promote", {})
    assert answer.status == 200, answer.text
    return dict(answer.json)


def test_i28_a_promotion_makes_all_changes_of_a_branch_in_one_commit_of_the_catalog(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    gone = site.create("gone")["table_id"]
    untouched = site.create("untouched")["table_id"]
    site.add_files(id, add("a"))
    branched(site)
    mine = site.table("t")["table_id"]
    site.table("untouched")
    site.add_files(mine, add("b"), add("c"))
    site.add_files(mine, delta.remove("b"), add("d"))
    assert site.http.delete(DEV_DEFAULT + "/tables/gone").status == 204
    assert site.http.post(DEV, {"name": "made"}).status == 201
    changes = site.http.get(BRANCHES + "/dev/diff")
    assert changes.status == 200, changes.text
    assert [table["name"] for table in changes.json["tables"]] == ["default.t"]
    assert changes.json["conflicts"] == []
    before = site.http.get("/v1/catalogs/main/log").json["commits"][0]["seq"]
    done = promoted(site)
    assert done["seq"] == before + 1
    assert [(one["name"], one["change"]) for one in done["names"]] == [("default.gone", "dropped"), ("made", "created")]
    assert done["tables"][0]["version"] == 2
    folder = f"_branches/{mine}"
    assert files(site, id) == sorted(["a", f"{folder}/c", f"{folder}/d"])
    assert names(site) == ["t", "untouched"]
    assert site.commits.get(f"/v1/tables/{untouched}/head").json["latest"] == 0
    refused(site.http.get(BRANCHES + "/dev"), 404, "NoSuchBranch", "branch")
    states = [site.commits.get(f"/v1/tables/{each}/head").json["state"] for each in (id, untouched, gone, mine)]
    assert states == ["active", "active", "dropped", "dropped"]


# -- conflicts --------------------------------------------------------------------------------------------------------

APPEND = "append"
DELETE = "delete"
REWRITE = "rewrite"
DEFINE = "definition"
OTHER = "other file"


def operation_of(kind: str) -> str:
    return "DELETE" if kind == OTHER else kind.upper()


def commit(site: PlansApi, table: dict[str, Any], kind: str, name: str) -> None:
    """A commit of this kind; ``DELETE`` and ``REWRITE`` concern the file ``a``, ``OTHER`` the file
    ``o``. A branch names files of the catalog's table by their absolute paths."""
    id = table["table_id"]
    root = "" if "_branches" not in table["location"] else "../../"
    match kind:
        case "append":
            blind = {"isBlindAppend": True}
            actions = [add(name)]
        case "delete":
            blind = {"isBlindAppend": False}
            actions = [delta.remove(f"{root}a")]
        case "other file":
            blind = {"isBlindAppend": False}
            actions = [delta.remove(f"{root}o")]
        case "rewrite":
            blind = {"isBlindAppend": False}
            removed = delta.remove(f"{root}a")
            removed["remove"]["dataChange"] = False
            added = add(name)
            added["add"]["dataChange"] = False
            actions = [removed, added]
        case _:
            blind = {}
            head = site.commits.get(f"/v1/tables/{id}/head").json
            described = delta.metadata(note=name)
            assert head["state"] == "active"
            actions = [described]
    head = site.commits.get(f"/v1/tables/{id}/head").json
    version = int(head["latest"]) + 1
    stamp = max(site.world.clock.now_ms(), head["timestamp"] + 1)
    info = delta.info(f"{kind}-{name}", stamp, operation_of(kind), **blind)
    content = delta.lines(info, *actions).decode()
    answer = site.commits.post(f"/v1/tables/{id}/commits", {"version": version, "inline": {"content": content}})
    assert answer.status == 200, answer.text


PASSES = {
    (APPEND, APPEND), (APPEND, DELETE), (APPEND, REWRITE), (APPEND, OTHER),
    (DELETE, OTHER), (OTHER, DELETE), (OTHER, REWRITE), (REWRITE, APPEND), (REWRITE, OTHER),
}  # fmt: skip
"""Pairs of an operation on the branch and one on the catalog that are promoted; all others are
conflicts (``tests/spark/branches/test_pairs.py`` has statements of Spark)."""


@pytest.mark.parametrize("theirs", [APPEND, DELETE, REWRITE, OTHER, DEFINE])
@pytest.mark.parametrize("mine", [APPEND, DELETE, REWRITE, OTHER, DEFINE])
def test_i28_what_both_changed_is_a_conflict_with_names_and_all_else_is_promoted(
    site: PlansApi, mine: str, theirs: str
) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, add("a"), add("o"))
    branched(site)
    table = site.table("t")
    commit(site, table, mine, "mine")
    commit(site, {"table_id": id, "location": ""}, theirs, "theirs")
    conflicts = site.http.get(BRANCHES + "/dev/diff").json["conflicts"]
    answer = site.http.post(BRANCHES + "/dev/promote", {})
    if (mine, theirs) in PASSES:
        assert (answer.status, conflicts) == (200, []), answer.text
        assert answer.json["tables"][0]["version"] == 3
        return
    error = refused(answer, 409, "BranchConflict", "branch")
    assert error["conflicts"] == conflicts and len(conflicts) == 1
    assert "'default.t'" in conflicts[0] and "version 2" in conflicts[0] and operation_of(theirs) in conflicts[0]
    assert site.commits.get(f"/v1/tables/{id}/head").json["latest"] == 2
    assert site.table("t")["latest"] == 2


@pytest.mark.parametrize("mine", [APPEND, DELETE, REWRITE, OTHER, DEFINE])
def test_i28_every_operation_is_promoted_where_the_catalog_stood_still(site: PlansApi, mine: str) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, add("a"), add("o"))
    branched(site)
    commit(site, site.table("t"), mine, "mine")
    promoted(site)
    expected = {APPEND: ["a", "mine", "o"], DELETE: ["o"], REWRITE: ["mine", "o"], OTHER: ["a"], DEFINE: ["a", "o"]}
    assert sorted(path.rpartition("/")[2] for path in files(site, id)) == expected[mine]


@pytest.mark.parametrize("bound", ["COMMITS_MAX", "FILES_MAX"])
def test_a_comparison_reads_no_more_commits_and_holds_no_more_files_than_its_bounds(
    site: PlansApi, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    one = site.create("t")["table_id"]
    site.add_files(one, add("a"))
    site.create("u")
    branched(site)
    for name in ("t", "u"):
        site.add_files(site.table(name)["table_id"], add("new"))
    monkeypatch.setattr(comparison, bound, 1)
    for answer in (site.http.get(BRANCHES + "/dev/diff"), site.http.post(BRANCHES + "/dev/promote", {})):
        error = refused(answer, 413, "TooLarge", "branch")
        assert (error["limit"], error["size"]) == (1, 1)
        assert "'main@dev.default.u' has 1" in error["message"]
    monkeypatch.setattr(comparison, bound, 2)
    assert site.http.post(BRANCHES + "/dev/promote", {}).status == 200


def test_i28_names_that_both_changed_are_conflicts(site: PlansApi) -> None:
    site.create("dropped_here")
    changed = site.create("changed_there")["table_id"]
    branched(site)
    for name in ("dropped_here", "changed_there"):
        assert site.http.delete(f"{DEV_DEFAULT}/tables/{name}").status == 204
    assert site.http.post(DEV, {"name": "both"}).status == 201
    site.add_files(changed, add("x"))
    assert site.http.delete(DEFAULT + "/tables/dropped_here").status == 204
    assert site.http.post(NAMESPACES, {"name": "both"}).status == 201
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert error["conflicts"] == [
        "'default.changed_there' was dropped on the branch and got version 1 in the catalog",
        "'both' was created in the catalog, too",
    ], "both dropped the other table"
    assert names(site) == ["changed_there"]


def test_i28_a_commit_of_the_catalog_keeps_a_table_that_the_branch_dropped(site: PlansApi) -> None:
    changed = site.create("t")["table_id"]
    branched(site)
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    site.add_files(changed, add("x"))
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert error["conflicts"] == ["'default.t' was dropped on the branch and got version 1 in the catalog"]
    assert names(site) == ["t"]


def test_a_branch_without_changes_is_not_promoted_and_costs_no_write(site: PlansApi) -> None:
    site.create("t")
    branched(site)
    before = site.http.get("/v1/catalogs/main/log").json["commits"][0]["seq"]
    assert promoted(site) == {"branch": "main@dev", "seq": None, "tables": [], "names": []}
    assert site.http.get("/v1/catalogs/main/log").json["commits"][0]["seq"] == before
    assert site.http.get(BRANCHES + "/dev").status == 200


def created_on_branch(site: PlansApi, name: str) -> str:
    """The uuid of a new table of the branch."""
    staged = site.http.post(f"{DEV_DEFAULT}/staging-tables", {"name": name}).json
    content = delta.version_zero("create", site.world.clock.now_ms())
    site.world.storages.open(staged["location"]).put_if_absent("_delta_log/00000000000000000000.json", content)
    created = site.http.post(f"{DEV_DEFAULT}/tables", {"name": name, "table_id": staged["table_id"]})
    assert created.status == 201, created.text
    return str(staged["table_id"])


def test_i28_a_table_created_on_a_branch_is_the_catalogs_after_its_promotion(site: PlansApi) -> None:
    branched(site)
    made = created_on_branch(site, "n")
    site.add_files(made, add("x"))
    done = promoted(site)
    assert [(one["name"], one["change"]) for one in done["names"]] == [("default.n", "created")]
    loaded = site.commits.get(DEFAULT + "/tables/n").json
    assert (loaded["table_id"], loaded["latest"]) == (made, 1)
    site.add_files(made, add("y"))
    assert site.http.delete(DEFAULT + "/tables/n").status == 204


# -- listings and bounds ----------------------------------------------------------------------------------------------


def test_i28_a_listed_table_of_a_branch_has_an_id_that_leads_nowhere_until_it_has_a_log_of_its_own(
    site: PlansApi,
) -> None:
    id = site.create("t")["table_id"]
    branched(site)
    listing = f"{DEV_DEFAULT}/tables"
    (listed,) = site.http.get(listing).json["tables"]
    assert listed["table_id"] != id
    refused(site.commits.get(f"/v1/tables/{listed['table_id']}/head"), 404, "NoSuchTable")
    assert site.http.get(f"{listing}/t/entry").json.get("table_id") != id
    mine = site.table("t")["table_id"]
    (listed,) = site.http.get(listing).json["tables"]
    assert listed["table_id"] == mine
    (listed,) = site.http.get(DEFAULT + "/tables").json["tables"]
    assert listed["table_id"] == id


def test_an_external_table_of_a_branch_is_that_of_its_catalog(site: PlansApi) -> None:
    unity = "/api/2.1/unity-catalog"
    made = site.http.post(
        f"{unity}/tables",
        {
            "name": "ext", "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL",
            "data_source_format": "PARQUET", "storage_location": "file:///elsewhere/ext", "columns": [],
        },
    )  # fmt: skip
    assert made.status == 200, made.text
    branched(site)
    listed = site.http.get(f"{unity}/tables", catalog_name="main@dev", schema_name="default").json["tables"]
    assert [table["table_id"] for table in listed] == [made.json["table_id"]]
    shown = site.http.get(f"{unity}/tables/main@dev.default.ext")
    assert (shown.status, shown.json["storage_location"]) == (200, "file:///elsewhere/ext"), shown.text
    assert promoted(site)["seq"] is None


def test_bounds_of_names_comments_and_days(site: PlansApi) -> None:
    longest = "x" * (255 - len("main@"))
    assert site.http.post(BRANCHES, {"name": longest, "days": 366}).status == 201
    refused(site.http.post(BRANCHES, {"name": longest + "x"}), 400, "InvalidRequest", "name")
    refused(site.http.post(BRANCHES, {"name": "dev", "days": 367}), 400, "InvalidRequest", "days")
    refused(site.http.post(BRANCHES, {"name": "dev", "comment": "x" * 40_000}), 413, "TooLarge", "comment")
    branched(site)
    for days in (0, 367):
        refused(site.http.patch(BRANCHES + "/dev", {"days": days}), 400, "InvalidRequest", "days")
    refused(site.http.patch(BRANCHES + "/none", {"days": 3}), 404, "NoSuchBranch", "branch")
    refused(site.http.get(BRANCHES + "/@dev"), 404, "NoSuchBranch", "branch")


def test_a_branch_shows_the_catalog_as_of_the_moment_that_it_is_made_from(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, add("a"))
    then = site.world.clock.now_ms()
    site.add_files(id, add("b"))
    site.create("later")
    made = branched(site, **{"from": {"time": then}})
    assert names(site, "main@dev") == ["t"]
    assert (site.table("t")["latest"], made["at"]) == (1, then * 1000)
    refused(site.http.post(BRANCHES, {"name": "x", "from": {"seq": 99}}), 404, "NoSuchCatalogCommit", "from.seq")
    refused(site.http.post(BRANCHES, {"name": "x", "from": "tail"}), 400, "InvalidRequest")


def test_a_catalog_with_branches_is_not_dropped(site: PlansApi) -> None:
    unity = "/api/2.1/unity-catalog/catalogs"
    branched(site)
    answer = site.http.delete(f"{unity}/main", force="true")
    assert (answer.status, "main@dev; drop them first" in answer.text) == (400, True), answer.text
    assert site.http.get(f"{unity}/main@dev").json["name"] == "main@dev"
    assert [one["name"] for one in site.http.get("/v1/catalogs").json["catalogs"]] == ["main"]
    assert site.http.delete(f"{unity}/main@dev").status == 400
    assert site.http.get(BRANCHES + "/dev").status == 200


def test_clones_are_made_in_the_catalog_alone(site: PlansApi) -> None:
    site.create("t")
    branched(site)
    clone = site.http.post("/v1/catalogs/main@dev/clones", {"from": "default.t", "to": "default.u"})
    refused(clone, 400, "InvalidRequest", "catalog")


def test_many_own_tables_are_dropped_with_their_branch(site: PlansApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.catalog.branches.TABLES_PER_CHANGE", 2)
    ids = []
    for number in range(5):
        site.create(f"t{number}")
    branched(site)
    for number in range(5):
        ids.append(site.table(f"t{number}")["table_id"])
    assert site.http.delete(BRANCHES + "/dev").status == 204
    assert {site.commits.get(f"/v1/tables/{id}/head").json["state"] for id in ids} == {"dropped"}
    assert names(site) == [f"t{number}" for number in range(5)]


def test_i12_the_creator_owns_a_branch_and_the_owner_of_the_catalog_may_do_all_on_it() -> None:
    realm = Realm()
    realm.own("catalog", "main", "member")
    for right in ("USE CATALOG", "USE SCHEMA", "SELECT"):
        realm.grant("catalog", "main", "bob", right)
    made = realm.ask("bob", "POST", BRANCHES, {"name": "dev"})
    assert (made.status, made.json["owner"]) == (201, "bob"), made.text
    assert realm.ask("bob", "POST", DEV, {"name": "made"}).status == 201
    assert realm.ask("member", "POST", DEV, {"name": "of_member"}).status == 201
    assert realm.ask("bob", "POST", NAMESPACES, {"name": "made"}).status == 403
    assert realm.ask("bob", "POST", BRANCHES + "/dev/promote", {}).status == 403
    assert realm.ask("bob", "GET", BRANCHES + "/dev/diff").status == 200
    assert realm.ask("ann", "GET", BRANCHES + "/dev/diff").status == 403
    assert realm.ask("ann", "DELETE", BRANCHES + "/dev").status == 403
    assert realm.ask("member", "POST", BRANCHES + "/dev/promote", {}).status == 200
    assert realm.ask("member", "POST", BRANCHES, {"name": "dev"}).status == 403, (
        "the owner of a catalog may not read all of it"
    )


# -- found by trying --------------------------------------------------------------------------------------------------


def key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid.uuid4())}


def test_i28_a_drop_under_a_key_drops_all_of_the_branch_and_is_done_once(site: PlansApi) -> None:
    site.create("t")
    branched(site)
    mine = site.table("t")["table_id"]
    headers = key()
    for _ in range(2):
        assert site.http.call("DELETE", BRANCHES + "/dev", headers=headers).status == 204
    refused(site.http.get(BRANCHES + "/dev"), 404, "NoSuchBranch")
    assert site.commits.get(f"/v1/tables/{mine}/head").json["state"] == "dropped"
    assert names(site) == ["t"]


@pytest.mark.parametrize("number", [45, 60], ids=["one write", "prepared"])
def test_i28_many_tables_are_promoted_in_one_instant_and_tables_that_were_only_read_cost_none(
    site: PlansApi, number: int
) -> None:
    ids = [site.create(f"t{at}")["table_id"] for at in range(number)]
    branched(site)
    mine = [site.table(f"t{at}")["table_id"] for at in range(number)]
    for id in mine[3:]:
        site.add_files(id, add("x"))
    answer = promoted(site)
    assert len(answer["tables"]) == number - 3
    assert [site.commits.get(f"/v1/tables/{id}/head").json["latest"] for id in ids] == [0] * 3 + [1] * (number - 3)
    assert {site.commits.get(f"/v1/tables/{id}/head").json["state"] for id in mine} == {"dropped"}
    assert any("/group/" in key for key in site.world.refs.rows) == (number > 49 + 3)


def test_i28_a_prepared_promotion_under_a_key_is_made_once_with_new_and_dropped_tables(site: PlansApi) -> None:
    ids = [site.create(f"t{at}")["table_id"] for at in range(55)]
    branched(site)
    for at in range(1, 55):
        site.add_files(site.table(f"t{at}")["table_id"], add("x"))
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t0").status == 204
    made = created_on_branch(site, "made")
    headers = key()
    answers = [site.http.call("POST", BRANCHES + "/dev/promote", json_body={}, headers=headers) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200], answers[1].text
    assert answers[0].json["seq"] == answers[1].json["seq"]
    assert [site.commits.get(f"/v1/tables/{id}/head").json["latest"] for id in ids[1:]] == [1] * 54
    assert names(site) == sorted(["made", *(f"t{at}" for at in range(1, 55))])
    assert site.commits.get(f"/v1/tables/{made}/head").json["state"] == "active"
    complete(site.world)


def test_i28_more_tables_are_only_read_than_one_change_returns(site: PlansApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.branches.unchanged.TABLES_PER_CHANGE", 1)
    for at in range(15):
        site.create(f"t{at}")
    branched(site)
    for at in range(15):
        site.table(f"t{at}")
    site.add_files(site.table("t0")["table_id"], add("x"))
    assert [table["name"] for table in promoted(site)["tables"]] == ["default.t0"]


def test_i28_a_promotion_under_a_key_promotes_beside_a_table_that_was_only_read(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    site.create("read")
    branched(site)
    site.table("read")
    site.add_files(site.table("t")["table_id"], add("x"))
    headers = key()
    done = site.http.call("POST", BRANCHES + "/dev/promote", json_body={}, headers=headers)
    assert (done.status, [one["name"] for one in done.json["tables"]]) == (200, ["default.t"]), done.text
    again = site.http.call("POST", BRANCHES + "/dev/promote", json_body={}, headers=headers)
    assert (again.status, again.json["seq"]) == (200, done.json["seq"]), again.text
    assert site.commits.get(f"/v1/tables/{id}/head").json["latest"] == 1


def test_i28_a_branch_whose_drop_has_begun_can_only_be_dropped(site: PlansApi, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create("t")
    branched(site)
    site.table("t")
    dead = RuntimeError("the process ends here")

    def die(*_: Any) -> Any:
        raise dead

    monkeypatch.setattr("turnstile.catalog.branches.drop_branch", die)
    assert site.http.delete(BRANCHES + "/dev").status == 500
    monkeypatch.undo()
    assert names(site, "main@dev") == []
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "ConcurrentChange")
    assert "a drop of branch 'main@dev' has begun" in error["message"]
    refused(site.http.get(BRANCHES + "/dev/diff"), 409, "ConcurrentChange")
    assert site.http.delete(BRANCHES + "/dev").status == 204
    assert names(site) == ["t"]


def test_i9_a_table_is_not_promoted_into_a_namespace_that_the_catalog_dropped(site: PlansApi) -> None:
    assert site.http.post(NAMESPACES, {"name": "one"}).status == 201
    branched(site)
    staged = site.http.post(f"{DEV}/one/staging-tables", {"name": "n"}).json
    content = delta.version_zero("create", site.world.clock.now_ms())
    site.world.storages.open(staged["location"]).put_if_absent("_delta_log/00000000000000000000.json", content)
    assert site.http.post(f"{DEV}/one/tables", {"name": "n", "table_id": staged["table_id"]}).status == 201
    assert site.http.delete(f"{NAMESPACES}/one").status == 204
    error = refused(site.http.post(BRANCHES + "/dev/promote", {}), 409, "BranchConflict", "branch")
    assert error["conflicts"] == ["namespace 'one' of 'one.n' was dropped in the catalog"]


def test_i12_grants_on_a_branch_stay_there_and_grants_in_the_catalog_are_no_conflict(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    assert site.http.post(NAMESPACES, {"name": "n"}).status == 201
    branched(site)
    rights = "/v1/permissions"
    granted = {"changes": [{"principal": "eve", "add": ["SELECT", "USE SCHEMA"]}]}
    for name in ("main@dev.default", "main@dev.default.t"):
        kind = "table" if name.endswith(".t") else "schema"
        change = granted if kind == "schema" else {"changes": [{"principal": "eve", "add": ["SELECT"]}]}
        answer = site.http.patch(f"{rights}/{kind}/{name}", change)
        assert answer.status == 200, answer.text
    assert site.http.get(BRANCHES + "/dev/diff").json["names"] == []
    for kind, name in (("schema", "main.n"), ("table", "main.default.t")):
        change = {"changes": [{"principal": "bob", "add": ["SELECT"]}]}
        assert site.http.patch(f"{rights}/{kind}/{name}", change).status == 200
    update = {"set": {"a": "b"}}
    assert site.http.patch(f"{DEV}/n", update).status == 200
    site.add_files(site.table("t")["table_id"], add("x"))
    promoted(site)
    assert site.commits.get(f"/v1/tables/{id}/head").json["latest"] == 1
    shown = {name: site.http.get(f"{rights}/{kind}/main{name}").text for kind, name in (
        ("schema", ".default"), ("schema", ".n"), ("table", ".default.t"))}  # fmt: skip
    assert "eve" not in str(shown) and "bob" in shown[".n"] and "bob" in shown[".default.t"]
    assert site.http.get(f"{NAMESPACES}/n").json["properties"] == {"a": "b"}


def test_i9_a_table_that_was_replaced_on_a_branch_replaces_the_catalogs(site: PlansApi) -> None:
    old = site.create("t")["table_id"]
    branched(site)
    assert site.http.delete(f"{DEV_DEFAULT}/tables/t").status == 204
    staged = site.http.post(f"{DEV_DEFAULT}/staging-tables", {"name": "t"}).json
    content = delta.version_zero("create", site.world.clock.now_ms())
    site.world.storages.open(staged["location"]).put_if_absent("_delta_log/00000000000000000000.json", content)
    assert site.http.post(f"{DEV_DEFAULT}/tables", {"name": "t", "table_id": staged["table_id"]}).status == 201
    assert [one["change"] for one in promoted(site)["names"]] == ["replaced"]
    heads = {id: site.commits.get(f"/v1/tables/{id}/head").json for id in (old, staged["table_id"])}
    assert [head["state"] for head in heads.values()] == ["dropped", "active"]
    assert heads[staged["table_id"]]["name"] == "main.default.t"
    site.add_files(staged["table_id"], add("x"))
    complete(site.world)


def test_a_namespace_with_tables_of_the_catalog_is_dropped_on_a_branch_and_by_its_promotion(site: PlansApi) -> None:
    site.create("t")
    site.create("u")
    branched(site)
    site.table("u")
    assert site.http.delete(f"{DEV_DEFAULT}", cascade="true").status == 204
    assert names(site) == ["t", "u"]
    assert sorted((one["name"], one["change"]) for one in promoted(site)["names"]) == [
        ("default", "dropped"), ("default.t", "dropped"), ("default.u", "dropped"),
    ]  # fmt: skip
    refused(site.http.get(DEFAULT + "/tables"), 404, "NoSuchNamespace")


def test_operations_that_a_branch_does_not_have_are_refused_by_their_names(site: PlansApi) -> None:
    site.create("t")
    branched(site)
    catalog = "/v1/catalogs/main@dev"
    refusals = {
        "resets": site.http.post(f"{catalog}/reset", {"to": {"seq": 1}}),
        "exports": site.http.post(f"{DEV_DEFAULT}/tables/t/export", {}),
        "renames of namespaces": site.http.post(f"{DEV_DEFAULT}/rename", {"name": "other"}),
        "snapshots": site.http.post(f"{catalog}/snapshots", {"name": "s"}),
        "clones": site.http.post(f"{catalog}/clones", {"from": "default", "to": "other"}),
        "branches of their own": site.http.post(f"{catalog}/branches", {"name": "x"}),
    }
    for words, answer in refusals.items():
        error = refused(answer, 400, "InvalidRequest", "catalog")
        assert f"'main@dev' is a branch, and branches have no {words}" in error["message"], answer.text


def test_i10_a_clone_that_a_branch_drops_releases_the_files_of_its_source(site: PlansApi) -> None:
    site.create("t")
    clone = site.http.post("/v1/catalogs/main/clones", {"from": "default.t", "to": "default.c"})
    assert clone.status == 201, clone.text
    branched(site)
    assert site.http.delete(f"{DEV_DEFAULT}/tables/c").status == 204
    promoted(site)
    held = [row for row in site.world.refs.rows.values() if row["kind"] == "location" and row.get("clones")]
    assert (names(site), held) == (["t"], [])
    complete(site.world)


def test_i12_no_log_is_written_for_a_table_that_the_principal_may_not_see() -> None:
    realm = Realm()
    realm.must("POST", BRANCHES, {"name": "dev"})
    before = realm.state()
    for method, path in (("GET", f"{DEV}/sales/tables/t1"), ("DELETE", f"{DEV}/sales/tables/t1")):
        assert realm.ask("ann", method, path).status == 403
    assert realm.state() == before
    assert realm.ask("root", "GET", f"{DEV}/sales/tables/t1").status == 200
    assert realm.state() != before


def test_i28_a_promotion_of_a_state_promotes_no_other_changes(site: PlansApi) -> None:
    id = site.create("t")["table_id"]
    site.add_files(id, add("a"))
    branched(site)
    site.add_files(site.table("t")["table_id"], add("b"))
    staged = site.http.post(DEV_DEFAULT + "/staging-tables", {"name": "made"}).json
    content = delta.version_zero("create", site.world.clock.now_ms())
    site.world.storages.open(staged["location"]).put_if_absent(published_path(0), content)
    created = {"name": "made", "table_id": staged["table_id"]}
    assert site.http.post(DEV_DEFAULT + "/tables", created).status == 201
    promote = BRANCHES + "/dev/promote"
    for change in (
        lambda: site.add_files(site.table("t")["table_id"], add("c")),
        lambda: site.add_files(staged["table_id"], add("d")),
        lambda: site.http.post(DEV, {"name": "of_branch"}),
    ):
        state = site.http.get(BRANCHES + "/dev/diff").json["state"]
        assert state == site.http.get(BRANCHES + "/dev/diff").json["state"]
        change()
        refused(site.http.post(promote, {"state": state}), 409, "BranchConflict", "state")
    state = site.http.get(BRANCHES + "/dev/diff").json["state"]
    site.create("of_main")
    answer = site.http.post(promote, {"state": state})
    assert answer.status == 200, answer.text
    assert names(site) == ["made", "of_main", "t"]
    for state in (1, ""):
        refused(site.http.post(promote, {"state": state}), 400, "InvalidRequest", "state")
