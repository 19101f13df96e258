"""Names as free as those of Java's catalogs: normalised, returned as written, never part of a path
as they are (I9, I10, I12)."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.functions import function
from tests.support.iceberg.client import MAIN, SCHEMA, VIEW, Iceberg, refused, set_properties
from turnstile.api.iceberg.errors import DELTA_PREFIX, PREFIX
from turnstile.catalog.core.paths import managed_location, stored_name
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import RESERVED, check_name, is_identifier, plain

ODD = [
    "a.b",
    "a b",
    "a/b",
    "a/b/c",
    "...",
    "tables",
    "a\\b",
    "a%2Fb",
    "a%b",
    "é",
    "日本語",
    "🦆",
    "a:b",
    "a?b",
    "a#b",
    "a*b",
    "~",
    " a ",
    "'",
]
NEVER = [
    ".",
    "..",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    "a/tables",
    "views/b",
    "x/namespaces/y",
    "",
    "a\x00b",
    "a\x1fb",
    "\n",
    "a+b",
    "x" * 256,
    "é" * 128,
    "\x7f",
]


def encoded(*levels: str) -> str:
    return quote("\x1f".join(levels), safe="")


def at(name: str) -> str:
    return f"{MAIN}/namespaces/{encoded(name)}"


@pytest.mark.parametrize("name", ODD)
def test_i9_an_odd_name_is_created_found_listed_renamed_and_dropped(name: str) -> None:
    client = Iceberg()
    assert client.head(at(name)) == 404
    assert client.post(f"{MAIN}/namespaces", {"namespace": [name]}).json["namespace"] == [name]
    assert client.head(at(name)) == 204 and client.get(at(name)).json["namespace"] == [name]
    assert [name] in client.get(f"{MAIN}/namespaces").json["namespaces"]
    for kind, body in (("tables", {"name": name, "schema": SCHEMA}), ("views", {**VIEW, "name": f"v{name}"})):
        path = f"{at(name)}/{kind}/{encoded(str(body['name']))}"
        assert client.head(path) == 404
        made = client.post(f"{at(name)}/{kind}", body)
        assert made.status == 200, made.text
        identifier = {"namespace": [name], "name": body["name"]}
        assert client.get(f"{at(name)}/{kind}").json["identifiers"] == [identifier]
        assert client.head(path) == 204 and client.get(path).json == made.json
        change = {"requirements": [], "updates": [set_properties(a="1")]}
        assert client.post(path, {**change, "identifier": identifier} if kind == "tables" else change).status == 200
        to = {"source": identifier, "destination": {"namespace": [name], "name": f"{name}2"}}
        assert client.post(f"{MAIN}/{kind}/rename", to).status == 204
        assert client.head(path) == 404
        assert client.delete(f"{at(name)}/{kind}/{encoded(name + '2')}").status == 204
    assert client.delete(at(name)).status == 204 and client.head(at(name)) == 404


@pytest.mark.parametrize("name", NEVER)
def test_i9_what_can_be_no_name_is_not_found_and_not_created(name: str) -> None:
    client = Iceberg()
    refused(client.post(f"{MAIN}/namespaces", {"namespace": [name]}), 400, "BadRequestException")
    refused(
        client.post(f"{MAIN}/namespaces/sales/tables", {"name": name, "schema": SCHEMA}), 400, "BadRequestException"
    )
    refused(client.post(f"{MAIN}/namespaces/sales/views", {**VIEW, "name": name}), 400, "BadRequestException")
    if name:
        assert client.head(f"{at('sales')}/tables/{encoded(name)}") == 404
        refused(client.get(f"{at('sales')}/tables/{encoded(name)}"), 404, "NoSuchTableException")
        refused(client.get(f"{at('sales')}/views/{encoded(name)}"), 404, "NoSuchViewException")
        refused(client.get(at(name)), 404, "NoSuchNamespaceException")


@pytest.mark.parametrize("name", ["a/b", "a/b/c", "tables", "views"])
def test_i9_a_gateway_that_decodes_slashes_changes_nothing(name: str) -> None:
    client = Iceberg()
    client.post(f"{MAIN}/namespaces", {"namespace": ["n", name]})
    space = f"{MAIN}/namespaces/n%1F{name}"
    assert client.http.get(space).json["namespace"] == ["n", name]
    made = client.http.post(f"{space}/tables", {"name": name, "schema": SCHEMA}).json
    assert client.http.get(f"{space}/tables/{name}").json == made
    assert client.http.get(f"{space}/tables").json["identifiers"] == [{"namespace": ["n", name], "name": name}]
    view = client.http.post(f"{space}/views", {**VIEW, "name": "v/w"}).json
    assert client.http.get(f"{space}/views/v/w").json == view
    assert client.http.get(f"{space}/tables/{name}/credentials").status == 200
    assert client.http.post(f"{space}/properties", {"updates": {"a": "1"}}).status == 200
    assert client.http.get(f"{MAIN}/nowhere/a/b").error["type"] != "NoSuchNamespaceException"


def test_the_words_that_names_with_slashes_cannot_hold_are_those_of_the_paths() -> None:
    templates = [one.replace(DELTA_PREFIX, PREFIX) for one in function("iceberg").app.routes]
    assert {part for one in templates for part in one.split("/") if part and "{" not in part} == RESERVED


def test_a_space_may_be_written_as_javas_clients_write_it() -> None:
    client = Iceberg()
    client.post(f"{MAIN}/namespaces", {"namespace": ["a b", "c d"]})
    assert client.head(f"{MAIN}/namespaces/{quote_plus('a b')}%1F{quote_plus('c d')}") == 204
    client.post(f"{MAIN}/namespaces/a+b/tables", {"name": "x y", "schema": SCHEMA})
    assert (
        client.head(f"{MAIN}/namespaces/a+b/tables/x+y") == client.head(f"{MAIN}/namespaces/a%20b/tables/x%20y") == 204
    )


def test_i9_spellings_of_one_name_are_one_name() -> None:
    client = Iceberg()
    composed = unicodedata.normalize("NFC", "Café")
    apart = unicodedata.normalize("NFD", "Café")
    assert client.post(f"{MAIN}/namespaces", {"namespace": [apart]}).json["namespace"] == [composed]
    refused(client.post(f"{MAIN}/namespaces", {"namespace": [composed]}), 409, "AlreadyExistsException")
    for spelling in (composed, apart, composed.upper()):
        assert client.head(at(spelling)) == 204


@pytest.mark.parametrize("name", ODD)
def test_i10_an_odd_name_is_no_part_of_a_path_on_disk(name: str) -> None:
    client = Iceberg()
    client.post(f"{MAIN}/namespaces", {"namespace": [name]})
    table = client.post(f"{at(name)}/tables", {"name": name, "schema": SCHEMA}).json["metadata"]
    view = client.post(f"{at(name)}/views", {**VIEW, "name": "v"}).json["metadata"]
    for location in (table["location"], view["location"]):
        *_, root, catalog, folder, _ = normalise(location).split("/")
        assert (root, catalog) == ("lake", "main") and is_identifier(folder)


def test_i12_a_name_with_a_dot_is_not_taken_for_two_levels() -> None:
    """Rows of staged and dropped tables name their namespace in one text, by which rights are
    looked up."""
    client = Iceberg()
    client.post(f"{MAIN}/namespaces", {"namespace": ["a.b"]})
    client.post(f"{at('a.b')}/tables", {"name": "t.u", "schema": SCHEMA, "stage-create": True})
    (staging,) = [row for key, row in client.heads().items() if key.startswith("test/staging/")]
    assert staging["namespace"] == "a%2Eb"
    client.post(f"{at('a.b')}/tables", {"name": "t.u", "schema": SCHEMA})
    assert client.delete(f"{at('a.b')}/tables/t.u", purgeRequested="true").status == 204
    (dropped,) = [row for row in client.heads().values() if row.get("state") == "dropped"]
    assert dropped["name"] == "main.a%2Eb.t%2Eu"


def test_i9_the_other_apis_list_only_names_that_they_can_use() -> None:
    client = Iceberg()
    for levels in (["a.b"], ["a", "b"], ["a", "b c", "d"]):
        client.post(f"{MAIN}/namespaces", {"namespace": levels})
    listings = client.services.open_catalog.listings
    assert {one.name for one in listings.namespaces("main", deep=True).items} == {("a",), ("a", "b"), ("sales",)}


def valid(name: str) -> bool:
    try:
        return bool(check_name(name, "name"))
    except InvalidRequest:
        return False


NAMES = st.one_of(st.sampled_from(ODD), st.text(min_size=1, max_size=40)).filter(valid)


@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=3))
def test_i12_two_names_have_two_stored_forms(first: list[Any], second: list[Any]) -> None:
    assert (stored_name(*first) == stored_name(*second)) == (first == second)
    assert len(stored_name(*first).split(".")) == len(first)
    assert all(plain(name) == name for name in first if is_identifier(name))


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_i10_every_managed_location_is_one_folder_for_a_namespace_and_one_for_the_uuid(names: list[Any]) -> None:
    location = managed_location("s3://lake/w", "main", tuple(names), "uuid")
    assert normalise(location) == location and location.count("/") == 6
