"""Transactions of a catalog through the real handlers: changes of it, commits of Delta and Iceberg
tables (I3, I8, I9, I12)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.iceberg.client import SCHEMA, definition
from tests.support.store.catalog_site import (
    PATH,
    Lake,
    drop,
    iceberg,
    new_namespace,
    new_table,
    rename,
    without_requests,
)
from tests.support.v1 import NOBODY


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_i8_changes_of_a_catalog_and_commits_of_both_formats_are_one_swap_of_its_head(lake: Lake) -> None:
    staged = lake.stage("new")
    seq = lake.seq()
    id = str(uuid.uuid4())
    answer = lake.transact(
        new_namespace("eu.west"),
        new_table("new", staged, "eu.west"),
        rename("second", "moved", to_namespace="eu"),
        {"change": "update_namespace", "namespace": "sales", "set": {"a": "1"}},
        iceberg(a="1"),
        commits=[lake.inline(lake.table, 4, "a")],
        id=id,
    )
    assert answer.status == 200, answer.text
    assert (answer.json["outcome"], answer.json["id"], answer.json["seq"]) == ("applied", id, seq + 1)
    assert [member["commit"]["version"] for member in answer.json["commits"]] == [4]
    assert lake.seq() == seq + 1
    assert (lake.names(), lake.names("eu"), lake.names("eu.west")) == ({"orders"}, {"moved"}, {"new"})
    assert lake.properties()["a"] == "1" and lake.latest(lake.table, staged) == [4, 0]
    assert lake.ask("getNamespace").json["properties"] == {"a": "1"}


def staged_below(lake: Lake, namespace: str) -> str:
    """A staged table with version 0, in a namespace that is not there."""
    path = f"/v1/catalogs/main/namespaces/{namespace}/staging-tables"
    made = lake.ask("stageTable", {"name": "t", "new_namespace": True}, path=path).json
    content = delta.version_zero("zero", lake.now(), **made["required_properties"])
    lake.world.storages.open(made["location"]).put_if_absent("_delta_log/00000000000000000000.json", content)
    return str(made["table_id"])


def test_i9_a_namespace_and_a_table_in_it_are_created_by_one_transaction(lake: Lake) -> None:
    path = "/v1/catalogs/main/namespaces/{}/staging-tables".format
    missing = lake.ask("stageTable", {"name": "t"}, path=path("eu.west"))
    assert (missing.status, missing.error["type"]) == (404, "NoSuchNamespace")
    there = lake.ask("stageTable", {"name": "t", "new_namespace": True}, path=path("sales"))
    assert (there.status, there.error["type"], there.error["field"]) == (409, "AlreadyExists", "namespace")
    below_a_table = lake.ask("stageTable", {"name": "t", "new_namespace": True}, path=path("sales.orders.x"))
    assert (below_a_table.status, below_a_table.error["type"]) == (404, "NoSuchNamespace")
    top, below, inner = (staged_below(lake, name) for name in ("eu", "eu.west", "Sales.inner"))
    assert "/sales.inner/" in lake.world.refs.rows[lake.world.space.staging(inner)]["location"], "as it was written"
    before = lake.state()
    alone = lake.transact(new_table("t", top, "eu"))
    assert (alone.status, alone.error["field"]) == (404, "changes[0].namespace")
    assert without_requests(dict(lake.world.refs.rows)) == without_requests(before[0])
    id = str(uuid.uuid4())
    changes = [
        new_namespace("eu"),
        new_table("t", top, "eu"),
        new_namespace("eu.west"),
        new_table("t", below, "eu.west"),
    ]
    assert lake.transact(*changes, id=id, commits=[lake.inline(lake.table, 4, "a")]).json["outcome"] == "applied"
    assert (lake.names("eu"), lake.names("eu.west"), lake.latest(lake.table, top, below)) == ({"t"}, {"t"}, [4, 0, 0])
    late = lake.transact(new_namespace("eu"), new_table("t2", inner, "eu"))
    assert (late.status, late.error["members"][0]["type"]) == (409, "AlreadyExists"), "somebody else created it first"


def test_i9_a_name_that_a_change_frees_can_be_taken_by_the_next_one(lake: Lake) -> None:
    assert lake.transact(drop("orders"), rename("second", "orders")).status == 200
    assert lake.names() == {"orders"}
    assert lake.ask("loadTable").json["table_id"] == lake.second


def test_changes_alone_and_with_reads_are_transactions_too(lake: Lake) -> None:
    assert lake.transact(rename("second", "a")).status == 200
    assert lake.transact(rename("a", "b"), reads=[{"table_id": lake.table, "version": 3}]).status == 200
    stale = lake.transact(rename("b", "c"), reads=[{"table_id": lake.table, "version": 2}])
    (member,) = stale.error["members"]
    assert (stale.status, member["field"], member["because"]) == (409, "reads[0].version", "read")
    assert lake.names() == {"orders", "b"}


def test_i8_commits_are_written_although_the_changes_change_nothing(lake: Lake) -> None:
    answer = lake.transact(rename("second", "second"), commits=[lake.inline(lake.table, 4, "a")])
    assert answer.status == 200 and lake.latest(lake.table) == [4]


def test_i8_an_iceberg_table_may_be_created_and_changed_with_a_delta_commit(lake: Lake) -> None:
    staged = lake.iceberg.post(
        "/iceberg/v1/main/namespaces/sales/tables", {"name": "ice2", "schema": SCHEMA, "stage-create": True}
    ).json["metadata"]
    updates = definition(staged)
    create = {
        "change": "commit_iceberg_table",
        "commit": {
            "identifier": {"namespace": ["eu"], "name": "ice2"},
            "requirements": [{"type": "assert-create"}],
            "updates": updates,
        },
    }
    answer = lake.transact(new_namespace("eu"), create, iceberg(a="2"), commits=[lake.inline(lake.table, 4, "a")])
    assert answer.status == 200, answer.text
    assert lake.iceberg.get("/iceberg/v1/main/namespaces/eu/tables/ice2").status == 200
    assert lake.properties()["a"] == "2" and lake.latest(lake.table) == [4]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_i8_a_commit_that_lost_names_its_winners_and_nothing_is_changed(lake: Lake) -> None:
    before = lake.state()
    answer = lake.transact(rename("second", "moved"), iceberg(a="1"), commits=[lake.inline(lake.table, 2, "a")])
    (member,) = answer.error["members"]
    assert (answer.status, answer.error["type"]) == (409, "TransactionConflict")
    assert (member["table_id"], member["type"], member["field"]) == (
        lake.table,
        "CommitVersionConflict",
        "commits[0].version",
    )
    assert [winner["version"] for winner in member["winners"]] == [3, 2]
    after = lake.state()
    assert after[1] == before[1] and without_requests(after[0]) == before[0]


REFUSED: list[tuple[list[dict[str, Any]], tuple[int, str, str, str | None]]] = [
    ([rename("second", "orders")], (409, "AlreadyExists", "changes[0].name", "main.sales.second")),
    ([new_namespace("eu"), new_namespace("eu")], (409, "AlreadyExists", "changes[1].name", "main.eu")),
    ([iceberg("ice", {"type": "assert-table-uuid", "uuid": NOBODY}, a="1")],
     (409, "CommitFailed", "changes[0]", "main.sales.ice")),
    ([new_namespace("eu"), rename("nothing", "x")], (404, "NoSuchTable", "changes[1].table", None)),
    ([rename("second", "x", to_namespace="nowhere")], (404, "NoSuchNamespace", "changes[0].namespace", None)),
    ([new_namespace("eu"), new_table("t", NOBODY)], (404, "NoSuchStagingTable", "changes[1].table_id", None)),
    ([rename("second", "x"), drop("x")], (400, "InvalidRequest", "changes[1]", None)),
    ([rename("orders", "x")], (400, "InvalidRequest", "commits[0].table_id", None)),
    ([drop("ice")], (404, "NoSuchTable", "changes[0].table", None)),
    ([iceberg("nothing", a="1")], (404, "NoSuchTable", "changes[0].table", None)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), REFUSED)
def test_i8_a_change_that_is_refused_is_named_with_the_error_it_gets_alone_and_refuses_the_commit(
    lake: Lake, changes: list[dict[str, Any]], expected: tuple[int, str, str, str | None]
) -> None:
    status, type, field, name = expected
    before = lake.state()
    seq = lake.seq()
    answer = lake.transact(*changes, commits=[lake.inline(lake.table, 4, "a")])
    assert answer.status == status, answer.text
    if status == 409:
        (member,) = answer.error["members"]
        assert (member["type"], member["field"], member["name"], member["seq"]) == (type, field, name, seq)
        assert answer.error["field"] == field
    else:
        assert (answer.error["type"], answer.error["field"]) == (type, field)
    after = lake.state()
    assert after[1] == before[1] and without_requests(after[0]) == before[0]


def test_i10_a_table_that_is_not_active_is_named(lake: Lake) -> None:
    lake.world.refs.rows[lake.world.space.table(lake.second)]["state"] = "leaving"
    answer = lake.transact(new_namespace("eu"), drop("second"), commits=[lake.inline(lake.table, 4, "a")])
    (member,) = answer.error["members"]
    assert (member["name"], member["type"], member["state"]) == ("main.sales.second", "TableNotActive", "leaving")
    assert lake.latest(lake.table) == [3]


def test_a_table_that_was_imported_or_is_only_registered_is_dropped_alone(lake: Lake) -> None:
    location = lake.loose_table("loose")
    lake.ask("importTable", {"name": "loose", "location": location, "dry_run": False})
    answer = lake.transact(drop("loose"))
    assert (answer.status, answer.error["type"]) == (400, "UnsupportedTable") and "loose" in lake.names()


def test_a_staged_table_that_is_registered_already_is_refused(lake: Lake) -> None:
    answer = lake.transact(new_namespace("eu"), new_table("x", lake.second, "eu"))
    (member,) = answer.error["members"]
    assert (answer.status, member["type"], member["field"]) == (409, "StagingTableUsed", "changes[1].table_id")


def test_i8_a_staged_iceberg_location_that_was_used_is_a_conflict_of_the_change(lake: Lake) -> None:
    path = "/iceberg/v1/main/namespaces/sales/tables"
    staged = lake.iceberg.post(path, {"name": "ice2", "schema": SCHEMA, "stage-create": True}).json["metadata"]
    key = lake.world.space.staging(staged["table-uuid"])
    lake.world.refs.rows[key]["state"] = "collecting"
    commit = {
        "identifier": {"namespace": ["sales"], "name": "ice2"},
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": staged["table-uuid"]},
            {"action": "set-location", "location": staged["location"]},
        ],
    }
    answer = lake.transact(new_namespace("eu"), {"change": "commit_iceberg_table", "commit": commit})
    (member,) = answer.error["members"]
    assert (answer.status, member["type"], member["field"]) == (409, "CommitFailed", "changes[1]")


def test_commits_of_another_catalog_are_refused(lake: Lake) -> None:
    lake.ask("createCatalog", {"name": "other"})
    answer = lake.ask(
        "transactCatalog",
        {
            "id": str(uuid.uuid4()),
            "changes": [new_namespace("eu")],
            "commits": [lake.inline(lake.table, 4, "a")],
        },
        path="/v1/catalogs/other/transactions",
    )
    assert (answer.status, answer.error["field"]) == (400, "commits[0].table_id")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "no uuid"}, "id"),
        ({"changes": []}, "changes"),
        ({"changes": [{"change": "drop_catalog"}]}, "changes[0]"),
        ({"changes": [new_namespace("eu") | {"nmae": "x"}]}, "changes[0].nmae"),
        ({"changes": [new_namespace("a/b")]}, "changes[0].name"),
        ({"changes": [{"change": "update_namespace", "namespace": "sales", "set": {"a": "1"}, "unset": ["a"]}]},
         "changes[0].unset"),
        ({"changes": [{"change": "commit_iceberg_table", "commit": {"requirements": [], "updates": []}}]},
         "changes[0].commit.identifier"),
        ({"changes": [{"change": "commit_iceberg_table", "commit": 3}]}, "changes[0].commit"),
        ({"changes": [new_namespace(f"n{at}") for at in range(101)]}, "changes"),
        ({"reads": [{"table_id": NOBODY, "version": 0}] * 2}, "commits"),
        ({"isolation": "any"}, "isolation"),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused_with_its_member_and_changes_nothing(
    lake: Lake, change: dict[str, Any], field: str
) -> None:
    before = lake.state()
    good = {"id": str(uuid.uuid4()), "changes": [new_namespace("eu")], "commits": [lake.inline(lake.table, 4, "a")]}
    answer = lake.ask("transactCatalog", good | change)
    assert (answer.status, answer.error["type"]) == (400, "InvalidRequest"), answer.text
    assert answer.error["field"].startswith(field), answer.text
    assert lake.state() == before


def test_more_rows_than_a_transaction_holds_are_refused(lake: Lake) -> None:
    changes = [new_table(f"t{at}", lake.stage(f"t{at}")) for at in range(33)]  # three rows each
    answer = lake.transact(*changes)
    assert (answer.status, answer.error["field"]) == (400, "changes"), answer.text
    both = {"commits": [lake.inline(lake.table, 4, "a")]}
    assert lake.transact(*changes[:32], rename("second", "x"), new_namespace("eu"), **both).status == 200  # 98 rows


def test_i8_commits_that_do_not_fit_beside_the_changes_are_prepared_and_come_with_them(lake: Lake) -> None:
    changes = [new_table(f"t{at}", lake.stage(f"t{at}")) for at in range(32)]  # three rows each
    third = lake.stage("third")
    lake.register("third", third)
    more = {"commits": [lake.inline(lake.table, 4, "a")], "reads": [{"table_id": third, "version": 0}]}
    stale = {**more, "reads": [{"table_id": third, "version": 1}]}
    refusal = lake.transact(*changes, rename("second", "x"), **stale)
    assert (refusal.status, refusal.error["type"]) == (409, "TransactionConflict"), refusal.text
    assert lake.transact(*changes, rename("second", "x"), **more).status == 200
    assert lake.transact(*changes, rename("second", "x"), **more).status == 409, "the changes are made already"


def test_a_hundred_members_are_a_transaction(lake: Lake) -> None:
    assert lake.transact(*(new_namespace(f"n{at}") for at in range(100))).status == 200


def test_a_table_that_is_changed_is_not_read_in_the_same_transaction(lake: Lake) -> None:
    answer = lake.transact(rename("second", "x"), reads=[{"table_id": lake.second, "version": 0}])
    assert (answer.status, answer.error["field"]) == (400, "reads[0].table_id")


# -- replays ----------------------------------------------------------------------------------------------------------


def test_i3_the_same_transaction_again_is_answered_with_what_was_done(lake: Lake) -> None:
    request = {
        "id": str(uuid.uuid4()),
        "changes": [rename("second", "moved"), iceberg(a="1")],
        "commits": [lake.inline(lake.table, None, "a", base=3)],
    }
    first = lake.ask("transactCatalog", request)
    lake.append(5, "later")
    lake.transact(rename("moved", "elsewhere"))
    rows = dict(lake.world.refs.rows)
    again = lake.ask("transactCatalog", request)
    assert (first.json["outcome"], again.json["outcome"]) == ("applied", "replayed")
    assert (again.json["seq"], again.json["commits"][0]["commit"]) == (
        first.json["seq"],
        first.json["commits"][0]["commit"],
    )
    assert lake.world.refs.rows == rows and lake.names() == {"orders", "elsewhere"}


def test_i3_the_same_transaction_after_its_row_is_gone_is_known_by_the_entries_of_its_commits(lake: Lake) -> None:
    request = {
        "id": str(uuid.uuid4()),
        "changes": [rename("second", "moved")],
        "commits": [lake.inline(lake.table, 4, "a")],
    }
    lake.ask("transactCatalog", request)
    for key in [key for key, row in lake.world.refs.rows.items() if row["kind"] == "request"]:
        del lake.world.refs.rows[key]
    again = lake.ask("transactCatalog", request)
    assert again.status == 200 and again.json["outcome"] == "replayed" and "seq" not in again.json, again.text


def test_i3_a_change_refused_since_the_transaction_made_it_is_a_replay_too(lake: Lake) -> None:
    """The commit's table was not seen yet by the sandbox that is asked again, so the change is
    refused first."""
    request = {
        "id": str(uuid.uuid4()),
        "changes": [rename("second", "moved")],
        "commits": [lake.inline(lake.table, None, "a", base=3)],
    }
    lake.ask("transactCatalog", request)
    for key in [key for key, row in lake.world.refs.rows.items() if row["kind"] == "request"]:
        del lake.world.refs.rows[key]
    assert lake.ask("transactCatalog", request).json["outcome"] == "replayed"


def test_i8_commits_that_were_ratified_without_the_changes_are_not_taken_for_the_transaction(lake: Lake) -> None:
    commits = [lake.inline(lake.table, 4, "a"), lake.inline(lake.second, 1, "b")]
    id = str(uuid.uuid4())
    assert lake.ask("transact", {"id": id, "commits": commits}).status == 200
    answer = lake.transact(new_namespace("eu"), commits=commits, id=id)
    assert answer.status == 409, answer.text
    assert {member["type"] for member in answer.error["members"]} == {"AlreadyRatified"}


def test_i3_a_refusal_stays_and_another_request_with_the_id_is_refused(lake: Lake) -> None:
    id = str(uuid.uuid4())
    refused = lake.transact(rename("second", "orders"), id=id)
    lake.transact(drop("orders"))
    again = lake.transact(rename("second", "orders"), id=id)
    assert (refused.status, again.status, again.error["type"]) == (409, 409, "TransactionConflict")
    assert again.error["message"] == refused.error["message"] and lake.names() == {"second"}
    other = lake.transact(rename("second", "x"), id=id)
    assert (other.status, other.error["type"]) == (422, "KeyReused")
    assert lake.transact(rename("second", "orders")).status == 200


# -- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def realm() -> Realm:
    realm = Realm()
    for kind, name, right in (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA")):
        realm.grant(kind, name, "ann", right)
    return realm


def asked(realm: Realm, *changes: dict[str, Any], **more: Any) -> Answer:
    return realm.ask("ann", "POST", PATH, {"id": str(uuid.uuid4()), "changes": list(changes), **more})


def test_i12_every_member_needs_what_it_needs_alone_and_one_that_is_denied_refuses_all(realm: Realm) -> None:
    commit = {"table_id": realm.table, **realm.append(2, "mine")}
    create = new_table("t2", realm.staged["ann"])
    before = realm.state()
    assert asked(realm, create, commits=[commit]).status == 403
    realm.grant("schema", "main.sales", "ann", "CREATE TABLE")
    assert asked(realm, create, commits=[commit]).status == 403, "she may not write the other table"
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    rows = dict(realm.world.refs.rows)
    assert asked(realm, create, drop("t1"), commits=[]).status == 403, "nor drop it"
    assert asked(realm, create, new_namespace("eu"), commits=[commit]).status == 403, "nor create a namespace"
    assert dict(realm.world.refs.rows) == rows != before
    assert asked(realm, create, commits=[commit]).status == 200


def test_i12_a_table_is_staged_in_a_namespace_to_be_by_principals_that_may_create_it(realm: Realm) -> None:
    path = "/v1/catalogs/main/namespaces/mine/staging-tables"
    sent = {"name": "t", "new_namespace": True}
    before = realm.state()
    assert realm.ask("ann", "POST", path, sent).status == 403
    realm.grant("catalog", "main", "ann", "CREATE TABLE")
    assert realm.ask("ann", "POST", path, sent).status == 403, "that is no right to create a namespace"
    realm.grant("catalog", "main", "ann", "CREATE SCHEMA")
    staged = realm.ask("ann", "POST", path, sent)
    assert staged.status == 201 and realm.state() != before
    id = staged.json["table_id"]
    credentials = f"/api/2.1/unity-catalog/delta/v1/staging-tables/{id}/credentials"
    assert realm.ask("ann", "GET", credentials).status == 200
    assert realm.ask("bob", "GET", credentials).status == 403
    realm.zero(staged.json["location"])
    assert asked(realm, new_namespace("mine"), new_table("t", id, "mine")).status == 200
    realm.revoke("catalog", "main", "ann", "CREATE SCHEMA")
    assert realm.ask("ann", "POST", path.replace("mine", "mine.inner"), sent).status == 201, "it is hers"


def test_i12_a_change_is_authorized_where_those_before_it_lead(realm: Realm) -> None:
    """What she creates is hers; a name that now leads to another's table gives her no right on that
    one."""
    realm.grant("catalog", "main", "ann", "CREATE SCHEMA")
    assert asked(realm, new_namespace("mine"), new_table("t", realm.staged["ann"], "mine")).status == 200
    mine = realm.create("mine")
    realm.own("table", "main.sales.mine", "ann")
    realm.grant("schema", "main.sales", "ann", "CREATE TABLE")
    before = dict(realm.world.refs.rows)
    update = {"change": "update_namespace", "namespace": "sales", "set": {"a": "1"}}
    assert asked(realm, rename("mine", "other"), update).status == 403
    assert asked(realm, drop("mine"), rename("t1", "mine")).status == 403
    assert dict(realm.world.refs.rows) == before and mine
    assert asked(realm, rename("mine", "other"), new_table("mine", realm.stage_of("ann"))).status == 200
