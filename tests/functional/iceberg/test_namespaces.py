"""Namespaces and listings through the real handler (I9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.iceberg.client import MAIN, SALES, SCHEMA, Iceberg, refused

DEEP = f"{MAIN}/namespaces/sales%1Femea%1Fnorth"


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def test_levels_are_joined_by_the_unit_separator(client: Iceberg) -> None:
    made = client.post(f"{MAIN}/namespaces", {"namespace": ["sales", "emea", "north"], "properties": {"a": "1"}})
    properties = {"location": "file:///lake/main/sales.emea.north", "a": "1"}
    assert made.json == {"namespace": ["sales", "emea", "north"], "properties": properties}
    assert client.get(DEEP).json == made.json and client.head(DEEP) == 204
    assert client.get(f"{MAIN}/namespaces").json["namespaces"] == [["sales"]]
    assert client.get(f"{MAIN}/namespaces", parent="").json["namespaces"] == [["sales"]]
    assert client.get(f"{MAIN}/namespaces", parent="sales").json["namespaces"] == [["sales", "emea"]]
    below = client.get(f"{MAIN}/namespaces", parent="sales\x1femea").json
    assert below == {"namespaces": [["sales", "emea", "north"]], "next-page-token": None}
    refused(client.delete(SALES), 409, "NamespaceNotEmptyException")
    assert client.delete(DEEP).status == 204 and client.head(DEEP) == 404


def test_a_comment_is_the_namespaces_comment(client: Iceberg) -> None:
    client.post(f"{MAIN}/namespaces", {"namespace": ["n"], "properties": {"comment": "cold", "a": "1"}})
    found = client.services.open_catalog.namespaces.get("main", ("n",)).entity
    assert (found.comment, found.properties) == ("cold", {"a": "1"})
    path = f"{MAIN}/namespaces/n"
    folder = {"location": "file:///lake/main/n"}
    assert client.get(path).json["properties"] == {"a": "1", "comment": "cold", **folder}
    changed = client.post(f"{path}/properties", {"updates": {"comment": "warm", "b": "2"}, "removals": ["a", "none"]})
    assert changed.json == {"updated": ["b", "comment"], "removed": ["a"], "missing": ["none"]}
    assert client.get(path).json["properties"] == {"b": "2", "comment": "warm", **folder}
    gone = client.post(f"{path}/properties", {"removals": ["comment"]})
    assert gone.json["removed"] == ["comment"] and client.get(path).json["properties"] == {"b": "2", **folder}


def test_a_namespace_says_where_its_new_tables_go_and_may_say_something_else(client: Iceberg) -> None:
    client.post(f"{MAIN}/namespaces", {"namespace": ["n"]})
    path = f"{MAIN}/namespaces/n"
    own = client.get(path).json["properties"]["location"]
    made = client.post(f"{path}/tables", {"name": "t", "schema": SCHEMA})
    assert made.json["metadata"]["location"].startswith(f"{own}/")
    assert client.post(f"{path}/properties", {"removals": ["location"]}).json["missing"] == ["location"]
    client.post(f"{path}/properties", {"updates": {"location": "s3://bucket/n"}})
    assert client.get(path).json["properties"]["location"] == "s3://bucket/n"


def test_a_location_that_a_client_derives_from_the_namespace_is_the_catalogs_to_choose(client: Iceberg) -> None:
    """As Trino and Sail derive it: the namespace's location, and the table's name."""
    client.post(f"{MAIN}/namespaces", {"namespace": ["sales"]})
    own = client.get(SALES).json["properties"]["location"]
    for name, proposed in (("t1", f"{own}/t1"), ("t2", f"{own.replace('main', 'MAIN')}/t2/")):
        location = client.create(name, location=proposed)["metadata"]["location"]
        assert location.rpartition("/")[0] == own and location != proposed
    staged = client.create("t3", location=f"{own}/t3", **{"stage-create": True})["metadata"]["location"]
    assert staged.rpartition("/")[0] == own
    answer = client.post(f"{SALES}/tables", {"name": "t4", "schema": SCHEMA, "location": f"{own}/deeper/t4"})
    refused(answer, 400, "BadRequestException")


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", f"{MAIN}/namespaces", {"namespace": ["SALES"]}, (409, "AlreadyExistsException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": []}, (400, "BadRequestException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": ["a+b"]}, (400, "BadRequestException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": ["a"] * 11}, (400, "BadRequestException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": "sales"}, (400, "BadRequestException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": ["n"], "properties": {"a": 1}}, (400, "BadRequestException")),
        ("POST", f"{MAIN}/namespaces", {"namespace": ["n"], "properties": {"a": "x" * 40_000}},
         (400, "BadRequestException")),
        ("GET", f"{MAIN}/namespaces/none", None, (404, "NoSuchNamespaceException")),
        ("GET", f"{MAIN}/namespaces/a%1F%1Fb", None, (404, "NoSuchNamespaceException")),
        ("DELETE", f"{MAIN}/namespaces/none", None, (404, "NoSuchNamespaceException")),
        ("POST", f"{SALES}/properties", {"updates": {"a": "1"}, "removals": ["a"]},
         (422, "UnprocessableEntityException")),
        ("POST", f"{MAIN}/namespaces/none/properties", {"updates": {}}, (404, "NoSuchNamespaceException")),
        ("GET", f"{MAIN}/namespaces/none/tables", None, (404, "NoSuchNamespaceException")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_as_specified_and_changes_nothing(
    client: Iceberg, method: str, path: str, body: Any, says: tuple[int, str]
) -> None:
    before = client.heads()
    refused(client.call(method, path, body), *says)
    assert client.heads() == before


def test_without_a_token_everything_is_listed_and_with_one_pages_of_one_head(client: Iceberg) -> None:
    for n in range(5):
        client.create(f"t{n}")
    assert len(client.get(f"{SALES}/tables").json["identifiers"]) == 5
    assert client.get(f"{SALES}/tables", pageSize="2").json["next-page-token"] is None
    names = []
    token = ""
    for page in range(3):
        found = client.get(f"{SALES}/tables", pageToken=token, pageSize="2").json
        names += [one["name"] for one in found["identifiers"]]
        token = found["next-page-token"]
        assert (token is None) == (page == 2)
        client.delete(f"{SALES}/tables/t{4 - page}")
    assert names == [f"t{n}" for n in range(5)], "all pages show the HEAD that the first one saw"


def test_tokens_of_other_listings_damaged_or_expired_ones_are_refused(client: Iceberg) -> None:
    for n in range(3):
        client.create(f"t{n}")
    token = client.get(f"{SALES}/tables", pageToken="", pageSize="1").json["next-page-token"]
    for path, given in (
        (f"{SALES}/views", token),
        (f"{MAIN}/namespaces", token),
        (f"{SALES}/tables", token[:-3] + "xyz"),
    ):
        refused(client.get(path, pageToken=given), 400, "BadRequestException")
    for size in ("0", "-1", "x"):
        refused(client.get(f"{SALES}/tables", pageToken="", pageSize=size), 400, "BadRequestException")
    client.world.clock.now += 3_600_001
    assert "expired" in refused(client.get(f"{SALES}/tables", pageToken=token), 400, "BadRequestException")


def test_too_many_names_for_one_answer_are_asked_for_in_pages(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.iceberg.listing.MAX_ALL", 2)
    for n in range(3):
        client.create(f"t{n}")
    assert "pageToken" in refused(client.get(f"{SALES}/tables"), 400, "BadRequestException")


def test_delta_tables_of_the_same_namespace_are_there_to_be_read(client: Iceberg) -> None:
    from tests.support.catalog import staged

    services = client.services.open_catalog
    services.registrar.register("main", ("sales",), "d1", staged(services, "d1", "sales"))
    assert [one["name"] for one in client.get(f"{SALES}/tables").json["identifiers"]] == ["d1"]
    assert client.get(f"{SALES}/tables/d1").json["config"]["scan-planning-mode"] == "server"
    refused(client.delete(f"{SALES}/tables/d1"), 400, "BadRequestException")
    client.create("i1")
    assert [one.name for one in services.listings.tables("main", ("sales",)).items] == ["d1"]
