"""Reads of the catalog in transactions of it: refused where what they returned has changed, and
nowhere else (I3, I9, I12)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.store.catalog_site import (
    PATH,
    Lake,
    drop,
    iceberg,
    new_namespace,
    rename,
    without_requests,
)


@pytest.fixture
def lake() -> Lake:
    return Lake()


def at_head(lake: Lake, query: str) -> dict[str, Any]:
    """A read as its answer is: the query, and the HEAD that it was answered from."""
    return {"query": query, "head": lake.ask("find", query={"query": query}).json["head"]}


IN_SALES = "/main/sales/*"
CHANGED: list[tuple[str, dict[str, Any], list[dict[str, str]] | None]] = [
    (IN_SALES, rename("second", "later"), [{"change": "renamed", "name": "sales.second", "to": "sales.later"}]),
    (IN_SALES, drop("second"), [{"change": "gone", "name": "sales.second"}]),
    (IN_SALES, new_namespace("sales.eu"), [{"change": "appeared", "name": "sales.eu"}]),
    ('/main/sales/*[kind = "table"]', new_namespace("sales.eu"), None),
    (IN_SALES, new_namespace("eu"), None),
    (IN_SALES, iceberg(a="1"), None),
    ("/main/*", rename("second", "later"), None),
    ('/main/sales/*[name prefix "ord"]', rename("second", "order_items"),
     [{"change": "appeared", "name": "sales.order_items"}]),
    ('/main/sales/*[name prefix "ord"]', rename("second", "later"), None),
    ("/main/sales/second", drop("second"), [{"change": "gone", "name": "sales.second"}]),
    ("/main/sales/third", rename("second", "third"), [{"change": "appeared", "name": "sales.third"}]),
    ('/main/*[tier = "gold"]', {"change": "update_namespace", "namespace": "sales", "set": {"tier": "gold"}},
     [{"change": "appeared", "name": "sales"}]),
    ('/main/*[tier = "gold"]', {"change": "update_namespace", "namespace": "sales", "set": {"tier": "none"}}, None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "change", "expected"), CHANGED)
def test_i9_a_read_conflicts_with_a_change_that_its_query_would_have_seen_and_with_no_other(
    lake: Lake, query: str, change: dict[str, Any], expected: list[dict[str, str]] | None
) -> None:
    read = at_head(lake, query)
    assert lake.transact(change).status == 200
    answer = lake.transact(catalog_reads=[read], commits=[lake.inline(lake.table, 4, "a")])
    if expected is None:
        assert (answer.status, lake.latest(lake.table)) == (200, [4]), answer.text
        return
    (member,) = answer.error["members"]
    assert (answer.status, member["type"], member["field"]) == (409, "RequirementFailed", "catalog_reads[0]")
    assert (member["changes"], member["name"], lake.latest(lake.table)) == (expected, query, [3])
    assert expected[0]["name"] in answer.error["message"]


def test_i9_what_was_read_as_ids_is_compared_with_what_the_name_leads_to_when_it_commits(lake: Lake) -> None:
    second = {"query": "/main/sales/second", "ids": [lake.second]}
    free = {"query": "/main/sales/third", "ids": []}
    assert lake.transact(new_namespace("a"), catalog_reads=[second, free]).status == 200
    assert lake.transact(rename("second", "third"), catalog_reads=[second, free]).status == 200
    answer = lake.transact(new_namespace("b"), catalog_reads=[free])
    assert answer.error["members"][0]["changes"] == [{"change": "appeared", "name": "sales.third"}]
    answer = lake.transact(new_namespace("b"), catalog_reads=[free | {"ids": [lake.second]}, second])
    assert answer.error["members"][0]["field"] == "catalog_reads[1]"
    assert answer.error["members"][0]["changes"] == [{"change": "gone", "name": lake.second}]


def test_i9_its_own_changes_are_no_conflict_and_reads_alone_refuse_without_a_change(lake: Lake) -> None:
    read = at_head(lake, IN_SALES)
    assert lake.transact(drop("second"), catalog_reads=[read]).status == 200
    seq = lake.seq()
    assert lake.transact(catalog_reads=[at_head(lake, IN_SALES)]).json["outcome"] == "applied"
    assert (lake.transact(catalog_reads=[read]).status, lake.seq()) == (409, seq)


def test_i3_a_refused_read_is_remembered_and_an_applied_one_is_answered_as_it_was(lake: Lake) -> None:
    read = at_head(lake, IN_SALES)
    id = str(uuid.uuid4())
    request = {"id": id, "changes": [drop("second")], "catalog_reads": [read]}
    assert lake.ask("transactCatalog", request).json["outcome"] == "applied"
    assert lake.ask("transactCatalog", request).json["outcome"] == "replayed"
    refused = {"id": str(uuid.uuid4()), "changes": [new_namespace("eu")], "catalog_reads": [read]}
    assert lake.ask("transactCatalog", refused).status == 409
    assert lake.ask("transactCatalog", refused).status == 409


def test_i3_a_read_that_the_transaction_itself_has_changed_since_is_a_replay_too(lake: Lake) -> None:
    """The commit's table was not seen yet by the sandbox that is asked again, so the read is judged
    first."""
    request = {
        "id": str(uuid.uuid4()),
        "changes": [new_namespace("sales.eu")],
        "commits": [lake.inline(lake.table, None, "a", base=3)],
        "catalog_reads": [at_head(lake, IN_SALES)],
    }
    assert lake.ask("transactCatalog", request).json["outcome"] == "applied"
    for key in [key for key, row in lake.world.refs.rows.items() if row["kind"] == "request"]:
        del lake.world.refs.rows[key]
    assert lake.ask("transactCatalog", request).json["outcome"] == "replayed"


@pytest.mark.parametrize(
    ("read", "field"),
    [
        ({"query": "/main/sales/*"}, "catalog_reads[0]"),
        ({"query": "/main/sales/*", "ids": [], "head": f"commit/{'0' * 32}"}, "catalog_reads[0]"),
        ({"query": "/other/sales/*", "ids": []}, "catalog_reads[0].query"),
        ({"query": "sales", "ids": []}, "catalog_reads[0].query"),
        ({"query": "/main/*", "ids": ["x"]}, "catalog_reads[0].ids"),
        ({"query": "/main/*", "ids": [str(uuid.UUID(int=at)) for at in range(1001)]}, "catalog_reads[0].ids"),
        ({"query": "/main/*", "head": "a b"}, "catalog_reads[0].head"),
        ({"query": "/main/*/[tier = 1]", "ids": []}, "catalog_reads[0].query"),
        ({"query": "/main/*", "ids": [], "isolation": 1}, "catalog_reads[0].isolation"),
    ],
)  # fmt: skip
def test_a_bad_read_is_refused_with_its_member_and_changes_nothing(
    lake: Lake, read: dict[str, Any], field: str
) -> None:
    before = lake.state()
    answer = lake.transact(new_namespace("eu"), catalog_reads=[read])
    assert (answer.status, answer.error["type"], answer.error["field"]) == (400, "InvalidRequest", field), answer.text
    assert without_requests(lake.state()[0]) == before[0]


def test_more_reads_than_a_transaction_may_have_and_a_head_that_never_was_are_refused(lake: Lake) -> None:
    read = {"query": "/main/sales/orders", "ids": [lake.table]}
    assert lake.transact(catalog_reads=[read] * 100).status == 200
    assert lake.transact(catalog_reads=[read] * 101).error["field"] == "catalog_reads"
    most = {"query": "/main/sales/*", "ids": [str(uuid.UUID(int=at)) for at in range(1000)]}
    assert lake.transact(catalog_reads=[most]).status == 409
    head = at_head(lake, IN_SALES)["head"]
    never = lake.transact(catalog_reads=[{"query": IN_SALES, "head": head[:-32] + "0" * 32}])
    assert (never.status, never.error["field"]) == (404, "catalog_reads[0].head"), never.text


def test_i12_what_may_not_be_seen_is_no_conflict_and_what_is_gone_is_not_named() -> None:
    realm = Realm()
    for kind, name, right in (
        ("catalog", "main", "USE CATALOG"),
        ("schema", "main.sales", "USE SCHEMA"),
        ("catalog", "main", "CREATE SCHEMA"),
        ("table", "main.sales.t1", "SELECT"),
    ):
        realm.grant(kind, name, "ann", right)
    head = realm.ask("ann", "GET", "/v1/find", query="/main/sales/*").json["head"]
    read = {"query": "/main/sales/*", "head": head}

    def transact(user: str, namespace: str, **more: Any) -> Any:
        changes = [new_namespace(namespace)]
        more = {"catalog_reads": [read]} | more
        return realm.ask(user, "POST", PATH, {"id": str(uuid.uuid4()), "changes": changes, **more})

    realm.create("hidden")
    assert transact("ann", "a").status == 200
    realm.must("POST", "/v1/catalogs/main/namespaces/sales/tables/t1/rename", {"name": "t9"})
    refused = transact("ann", "b")
    (member,) = refused.error["members"]
    assert (refused.status, member["changes"]) == (409, [])
    assert "t9" not in refused.text and "something is gone" in refused.text
    by_id = {"query": "/main/sales/t1", "ids": [realm.table]}
    (member,) = transact("ann", "c", catalog_reads=[by_id]).error["members"]
    assert member["changes"] == [{"change": "gone", "name": realm.table}], "an id that she named"
    nobody = realm.ask("bob", "POST", PATH, {"id": str(uuid.uuid4()), "changes": [], "catalog_reads": [read]})
    assert nobody.status == 403
