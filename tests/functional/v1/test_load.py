"""Load a table by name over the real handler: one consistent view, and what it costs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.lake import LOCATION, ORDERS, START, Lake, make_lake
from turnstile.catalog.core.index import Index, IndexEntry, pack
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.core.rows import CatalogHead, swap_head
from turnstile.catalog.core.tree import CatalogCommit
from turnstile.catalog.store import CatalogStore

PATH = "/v1/catalogs/main/namespaces/sales/tables/orders"
OTHER = "33333333-3333-4333-8333-333333333333"


@pytest.fixture
def lake() -> Lake:
    made = make_lake("rowTracking", owner="me")
    made.append(1, "t1")
    made.publish()
    made.append(2, "t2")
    made.append(3, "t3")
    made.forget_requests()
    return made


def load(lake: Lake, path: str = PATH, **query: Any) -> Answer:
    return lake.http.get(path, **query)


def change_catalog(lake: Lake, table_id: str | None) -> None:
    """Another writer's change of the catalog: the name leads to ``table_id`` now (None:
    nowhere)."""
    store = CatalogStore(lake.world)
    key = lake.world.space.catalog("main")
    head = CatalogHead.from_row(lake.world.refs.rows[key])
    entries = {key_of(["sales"]): IndexEntry("namespace", "entity/1")}
    if table_id:
        entries[key_of(["sales", "orders"])] = IndexEntry("table", "entity/2", table_id)
    commit = CatalogCommit(head.seq + 1, (head.head,), "changed", START, pack(Index().with_changes(entries)))
    name = f"commit/{head.seq + 2}"
    store.write("main", name, commit, {})
    lake.world.refs.write(swap_head(head, name, START))


def test_a_table_is_loaded_with_metadata_tail_and_latest_in_one_view(lake: Lake) -> None:
    found = load(lake).json
    assert (found["name"], found["table_id"], found["location"]) == ("main.sales.orders", ORDERS, LOCATION)
    assert (found["format"], found["state"], found["created"]) == ("delta", "active", START)
    assert (found["latest"], found["floor"], found["etag"]) == (3, 1, lake.head.metadata)
    metadata = found["metadata"]
    assert metadata["schema"]["fields"][0]["name"] == "id"
    assert metadata["properties"] == {"delta.enableInCommitTimestamps": "true", "owner": "me"}
    assert metadata["protocol"]["readerFeatures"] == ["catalogManaged"]
    assert (metadata["id"], metadata["partition_columns"], metadata["comment"], metadata["version"]) == (
        "m",
        [],
        None,
        0,
    )
    assert metadata["domains"] == {}
    assert [commit["version"] for commit in found["commits"]] == [1, 2, 3]
    for commit in found["commits"][1:]:
        assert lake.staged(commit["name"]) is not None


def test_content_true_returns_the_tail_inline_and_writes_nothing(lake: Lake) -> None:
    files = dict(lake.world.storages.files)
    found = load(lake, content="true").json
    assert ["content" in commit for commit in found["commits"]] == [False, True, True]
    assert lake.world.storages.files == files


def test_metadata_is_that_of_the_version_shown(lake: Lake) -> None:
    lake.inline(
        4,
        delta.lines(
            delta.info("t4", lake.now()),
            delta.metadata(owner="you"),
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
        ),
    )
    found = load(lake).json
    assert (found["latest"], found["metadata"]["version"]) == (4, 4)
    assert found["metadata"]["properties"]["owner"] == "you"
    assert found["metadata"]["domains"] == {"d": "{}"}
    assert found["etag"] == lake.head.metadata


def test_a_warm_load_is_one_request(lake: Lake) -> None:
    load(lake, content="true")
    lake.forget_requests()
    assert load(lake, content="true").status == 200
    assert (lake.world.refs.requests, lake.world.objs.requests) == (["read_many"], [])


def test_a_warm_load_sees_every_commit(lake: Lake) -> None:
    load(lake)
    for version in (4, 5):
        lake.append(version, f"t{version}")
        assert load(lake).json["latest"] == version  # I6


def test_a_cold_load_is_three_rounds_the_last_with_two_requests_side_by_side(lake: Lake) -> None:
    together = threading.Barrier(2)
    real_read = lake.world.refs.read
    real_newest = lake.world.objs.newest

    def read(key: str) -> Any:
        together.wait(60)  # breaks, and fails the test, unless the other request is under way as well
        return real_read(key)

    def newest(space: str, prefix: str) -> Any:
        together.wait(60)
        return real_newest(space, prefix)

    # type: ignore[method-assign]
    lake.world.refs.read = read
    lake.world.objs.newest = newest
    assert load(lake, content="true").status == 200
    assert lake.world.refs.requests == ["read_many", "read"]
    assert lake.world.objs.requests == ["get", "list"]  # the commit obj, then the newest snapshot


def test_a_cold_load_is_right_also_when_the_newest_snapshot_belongs_to_a_proposal_that_lost(lake: Lake) -> None:
    change = delta.lines(delta.info("t4", lake.now()), delta.metadata(owner="loser"))
    real = lake.world.refs.write

    def overtaken(write: Any) -> Any:
        lake.world.refs.write = real  # type: ignore[method-assign]
        assert lake.append(4, "winner").status == 200
        return real(write)

    lake.world.refs.write = overtaken  # type: ignore[method-assign]
    assert lake.inline(4, change).status == 409
    assert load(lake).json["metadata"]["properties"]["owner"] == "me"


def test_a_change_of_the_catalog_elsewhere_costs_one_more_request(lake: Lake) -> None:
    load(lake, content="true")
    change_catalog(lake, ORDERS)
    lake.forget_requests()
    assert load(lake, content="true").json["latest"] == 3
    assert (lake.world.refs.requests, lake.world.objs.requests) == (["read_many"], ["get"])


def test_i9_a_cached_name_is_used_only_while_the_head_of_the_catalog_is_unchanged(lake: Lake) -> None:
    load(lake)
    row = dict(lake.world.refs.rows[lake.world.space.table(ORDERS)])
    key = lake.world.space.table(OTHER)
    snapshot = next(obj for obj in lake.world.objs.rows.values() if obj.type == "metadata")
    lake.world.refs.rows[key] = {
        **row,
        "key": key,
        "table_id": OTHER,
        "latest": 9,
        "floor": 9,
        "tail": [],
        "tail_from": 10,
    }
    change_catalog(lake, OTHER)
    found = load(lake).json
    assert (found["table_id"], found["latest"], found["etag"]) == (OTHER, 9, snapshot.id)


def test_i9_a_dropped_name_is_gone_at_once_and_a_created_one_is_there_at_once(lake: Lake) -> None:
    load(lake)
    change_catalog(lake, None)
    assert load(lake).error["type"] == "NoSuchTable"
    assert load(lake).error["field"] == "table"
    change_catalog(lake, ORDERS)
    assert load(lake).status == 200


def test_a_table_dropped_between_the_two_reads_of_a_batch_is_not_shown(lake: Lake) -> None:
    load(lake)
    lake.set(state="dropped")
    error = load(lake).error
    assert (error["type"], error["code"]) == ("NoSuchTable", 404)
    assert error["remedy"]


def test_a_recovering_table_is_not_shown(lake: Lake) -> None:
    lake.set(state="recovering")
    assert load(lake).error["type"] == "TableNotActive"


def test_names_are_compared_without_regard_to_case(lake: Lake) -> None:
    found = load(lake, "/v1/catalogs/MAIN/namespaces/Sales/tables/ORDERS")
    assert (found.status, found.json["name"]) == (200, "main.sales.orders")


@pytest.mark.parametrize(
    ("path", "type", "field"),
    [
        ("/v1/catalogs/nope/namespaces/sales/tables/orders", "NoSuchCatalog", "catalog"),
        ("/v1/catalogs/main/namespaces/nope/tables/orders", "NoSuchNamespace", "namespace"),
        ("/v1/catalogs/main/namespaces/sales.deeper/tables/orders", "NoSuchNamespace", "namespace"),
        ("/v1/catalogs/main/namespaces/sales/tables/nope", "NoSuchTable", "table"),
    ],
)
def test_whichever_part_of_the_name_is_missing_first_is_named(lake: Lake, path: str, type: str, field: str) -> None:
    error = load(lake, path).error
    assert (error["type"], error["code"], error["field"]) == (type, 404, field)
    assert error["remedy"]


@pytest.mark.parametrize(
    ("catalog", "namespace", "table", "field"),
    [
        ("..", "sales", "orders", "catalog"),
        ("main%2f..", "sales", "orders", "catalog"),
        ("main", "..", "orders", "namespace"),
        ("main", "sales.", "orders", "namespace"),
        ("main", "a..b", "orders", "namespace"),
        ("main", "sales", "%2e%2e", "table"),
        ("main", "sales", "%252e", "table"),
        ("main", "sales", "or%00ders", "table"),
        ("main", "sales", "x" * 256, "table"),
        ("main", "sales", "orders%20", "table"),
        ("main", "sales", "%C3%A9", "table"),
    ],
)
def test_a_name_that_is_none_is_refused(lake: Lake, catalog: str, namespace: str, table: str, field: str) -> None:
    error = load(lake, f"/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}").error
    assert (error["type"], error["code"], error["field"]) == ("InvalidRequest", 400, field)


def test_an_unknown_query_member_is_refused(lake: Lake) -> None:
    assert load(lake, contents="true").error["field"] == "contents"
