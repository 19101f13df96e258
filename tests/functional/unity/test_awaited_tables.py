"""Managed tables that a client registers before it writes version 0, as Sail and Unity's own SDK
do: what each API says of them, until version 0 comes, and then (I25)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.unity import T1, B, Unity, metadata, protocol
from turnstile.store.core.names import published_path

FULL = "main.sales.t1"
OLD = f"{B}/tables/{FULL}"
PREVIEW = f"{B}/delta/preview/commits"
COLUMNS = [
    {
        "name": "id",
        "type_text": "bigint",
        "type_json": '"long"',
        "type_name": "LONG",
        "position": 0,
        "comment": "the key",
    }
]


class Early:
    """A client that has registered ``t1`` and written nothing."""

    def __init__(self) -> None:
        self.unity = Unity()
        names = {"name": "t1", "catalog_name": "main", "schema_name": "sales"}
        staged = self.unity.post(f"{B}/staging-tables", names).json
        self.id = staged["id"]
        self.location = staged["staging_location"]
        self.request = {
            **names, "table_type": "MANAGED", "data_source_format": "DELTA", "storage_location": self.location,
            "columns": COLUMNS, "comment": "early", "properties": {"team": "sales"},
        }  # fmt: skip
        self.registered = self.register()

    def register(self, **changes: Any) -> Answer:
        return self.unity.post(f"{B}/tables", {**self.request, **changes})

    def write_zero(self, *actions: Any) -> None:
        lines = actions or (protocol(), metadata(**{"io.unitycatalog.tableId": self.id}))
        self.unity.write(self.location, published_path(0), delta.lines(delta.info("create", 1_770_000_000_000), *lines))

    def head(self) -> Any:
        return self.unity.world.refs.rows.get(self.unity.world.space.table(self.id))


@pytest.fixture
def early() -> Early:
    return Early()


def words(answer: Answer) -> str:
    return str((answer.json.get("error") or answer.json)["message"])


def test_i25_a_table_may_be_registered_before_its_version_0(early: Early) -> None:
    assert early.registered.status == 200, early.registered.text
    told = early.registered.json
    assert (told["table_type"], told["data_source_format"], told["table_id"]) == ("MANAGED", "DELTA", early.id)
    assert (told["storage_location"], told["comment"]) == (early.location, "early")
    assert (told["columns"][0]["name"], told["columns"][0]["comment"]) == ("id", "the key")
    assert told["properties"]["team"] == "sales"
    assert early.unity.get(OLD).json == told
    listed = early.unity.get(f"{B}/tables", catalog_name="main", schema_name="sales").json["tables"]
    assert [(table["name"], table["table_type"]) for table in listed] == [("t1", "MANAGED")]
    assert early.head() is None, "it has no version"


def test_i25_until_then_it_is_a_table_without_commits(early: Early) -> None:
    query = {"table_id": early.id, "start_version": "0"}
    assert early.unity.get(PREVIEW, **query).json == {"commits": [], "latest_table_version": 0}
    keys = early.unity.post(f"{B}/temporary-table-credentials", {"table_id": early.id, "operation": "READ_WRITE"})
    assert (keys.status, keys.json["url"]) == (200, early.location)
    assert early.unity.get(f"{T1}/credentials", operation="READ_WRITE").status == 200


def test_i25_what_needs_a_version_is_refused_in_words(early: Early) -> None:
    for answer in (early.unity.get(T1), early.unity.call("GET", "/v1/catalogs/main/namespaces/sales/tables/t1")):
        assert answer.status in (400, 409), answer.text
        assert "registered before its version 0 was written" in words(answer)
    commit = {
        "version": 1,
        "timestamp": 1,
        "file_name": f"{1:020}.{early.id}.json",
        "file_size": 1,
        "file_modification_timestamp": 1,
    }
    refused = early.unity.post(PREVIEW, {"table_id": early.id, "table_uri": early.location, "commit_info": commit})
    assert (refused.status, early.head()) == (400, None)
    assert "version 0" in words(refused)
    assert early.unity.call("HEAD", T1).status == 204


@pytest.mark.parametrize("first", ["older", "delta", "v1", "preview", "registered again"])
def test_i25_version_0_is_adopted_by_the_next_request_that_names_the_table(early: Early, first: str) -> None:
    early.write_zero()
    answers = {
        "older": lambda: early.unity.get(OLD),
        "delta": lambda: early.unity.get(T1),
        "v1": lambda: early.unity.get("/v1/catalogs/main/namespaces/sales/tables/t1"),
        "preview": lambda: early.unity.get(PREVIEW, table_id=early.id, start_version="0"),
        "registered again": early.register,
    }
    answer = answers[first]()
    assert answer.status == 200, answer.text
    assert (early.head()["latest"], early.head()["state"], early.head()["name"]) == (0, "active", FULL)
    loaded = early.unity.get(T1).json
    assert (loaded["latest-table-version"], loaded["metadata"]["table-uuid"]) == (0, early.id)
    assert early.unity.get(OLD).json["properties"]["team"] == "sales", "what the log does not say is kept beside it"
    space = early.unity.world.space
    rows = early.unity.world.refs.rows
    assert space.staging(early.id) not in rows and space.external(early.id) not in rows


def test_i25_a_version_0_that_breaks_the_contract_is_not_adopted(early: Early) -> None:
    early.write_zero(metadata())
    for answer in (early.unity.get(OLD), early.unity.get(T1)):
        assert answer.status == 400
        assert "cannot be adopted" in words(answer) and "protocol" in words(answer)
    assert early.head() is None
    assert early.unity.call("DELETE", OLD).status == 200
    assert early.unity.get(OLD).status == 404


def test_i9_the_name_is_taken_and_the_table_has_one_name(early: Early) -> None:
    other = early.unity.post(f"{B}/staging-tables", {"name": "t1", "catalog_name": "main", "schema_name": "sales"})
    assert other.status in (400, 409)
    assert early.register(name="t2").status in (400, 409)
    early.write_zero()
    assert early.register(name="t2").status in (400, 409)
    assert early.unity.get(T1).status == 200


def test_i25_it_can_be_renamed_and_dropped_before_it_has_a_version(early: Early) -> None:
    assert early.unity.post(f"{T1}/rename", {"new-name": "t2"}).status == 204
    early.write_zero()
    assert early.unity.get(T1.replace("t1", "t2")).json["latest-table-version"] == 0
    assert early.head()["name"] == "main.sales.t2"


def test_i25_what_was_dropped_is_never_adopted(early: Early) -> None:
    assert early.unity.call("DELETE", OLD).status == 200
    early.write_zero()
    assert early.unity.get(OLD).status == 404
    assert early.unity.get(PREVIEW, table_id=early.id, start_version="0").status == 404
    assert early.register().status == 404, "its staging table is gone"
    assert early.head() is None


def test_a_schema_is_dropped_with_what_is_awaited_in_it(early: Early) -> None:
    assert early.unity.call("DELETE", f"{B}/schemas/main.sales").status == 400
    assert early.unity.call("DELETE", f"{B}/schemas/main.sales", query={"force": "true"}).status == 200
    assert early.unity.get(OLD).status == 404
