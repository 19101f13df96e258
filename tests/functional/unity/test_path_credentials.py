"""I12: keys that no table's name was given for: of places that a path names, and of places for
tables to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from tests.support.access.realm import B, Realm, functions
from tests.support.fakes.world import fake_world
from tests.support.functions import Answer, Http
from turnstile.catalog.core.location_rows import owner_row
from turnstile.store.ports import Accepted, VendedCredentials

V1 = f"{B}/delta/v1"
OPERATIONS = ("PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE")


class Seen:
    """Vends keys for everything, and remembers the purposes."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def vend(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[VendedCredentials, ...]:
        self.places.append(location)
        return (
            VendedCredentials(
                location, operation, 2_000_000_000_000, {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
            ),
        )


@pytest.fixture
def fresh() -> tuple[Callable[[str, str], Answer], Seen]:
    """A deployment without a table yet; ann has every right on files outside the catalog."""
    seen = Seen()
    world = fake_world()
    functions()["catalog"].use_world(world, vendor=seen, lake_root="s3://lake/base")
    root, ann = (Http(functions()["catalog"].app, user) for user in ("root", "ann"))
    assert root.post("/v1/catalogs", {"name": "main"}).status == 201
    grant = {"principal": "ann", "add": ["READ FILES", "WRITE FILES", "CREATE EXTERNAL TABLE"], "remove": []}
    assert root.call("PATCH", f"{B}/permissions/metastore/x", json_body={"changes": [grant]}).status == 200
    assert not [key for key in world.refs.rows if "/location/" in key], "nothing says yet that the lake root is one"

    def ask(url: str, operation: str) -> Answer:
        return ann.post(f"{B}/temporary-path-credentials", {"url": url, "operation": operation})

    return ask, seen


@pytest.mark.parametrize("operation", OPERATIONS)
def test_i10_the_lake_root_is_closed_before_the_first_table_claims_it(
    fresh: tuple[Callable[[str, str], Answer], Seen], operation: str
) -> None:
    ask, seen = fresh
    for place in ("s3://lake/base", "s3a://lake//base/", "s3://lake/base/main", "s3://lake/base/main/sales/x"):
        answer = ask(place, operation)
        assert answer.status == 403 and "belongs to tables of the catalog" in answer.text, (place, answer.text)
    assert seen.places == []
    assert ask("s3://lake/baseless", operation).status == 200 and seen.places == ["s3://lake/baseless"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_keys_open_a_whole_bucket(fresh: tuple[Callable[[str, str], Answer], Seen], operation: str) -> None:
    ask, seen = fresh
    for place in ("s3://lake", "s3://other", "s3a://other//", "file:///"):
        answer = ask(place, operation)
        assert answer.status == 400 and "whole bucket" in answer.text, (place, answer.text)
    assert seen.places == []


def test_i12_a_right_to_create_that_was_taken_away_gives_no_more_keys_to_places_for_tables() -> None:
    realm = Realm(vendor=Seen())
    path = f"{V1}/staging-tables/{realm.staged['ann']}/credentials"
    assert realm.ask("ann", "GET", path).status == 403, "ann was given the place, and may not use the catalog"
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA", "CREATE TABLE")
    assert realm.ask("ann", "GET", path).status == 200
    assert realm.ask("bob", "GET", path).status == 403
    realm.revoke("catalog", "main", "ann", "CREATE TABLE")
    assert realm.ask("ann", "GET", path).status == 403
    realm.grant("schema", "main.hr", "ann", "CREATE TABLE")
    assert realm.ask("ann", "GET", path).status == 403, "the place is for a table of another schema"
    realm.grant("schema", "main.sales", "ann", "CREATE TABLE")
    assert realm.ask("ann", "GET", path).status == 200
    realm.must("DELETE", f"{B}/catalogs/main", force="true")
    assert realm.ask("ann", "GET", path).status in (403, 404)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("user", ["ann", "root"])
def test_i10_i12_no_keys_open_a_folder_that_holds_registered_tables(user: str, operation: str) -> None:
    """The right to files outside the catalog gives no right to the files of one table or of
    several."""
    realm = Realm(vendor=(seen := Seen()))
    deep = {"name": "deep", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
            "data_source_format": "DELTA", "columns": [], "storage_location": "s3://far/teams/a/deep"}  # fmt: skip
    realm.must("POST", f"{B}/tables", deep)
    realm.grant("metastore", "x", "ann", "READ FILES", "WRITE FILES", "CREATE EXTERNAL TABLE")
    for place in ("s3://far/teams", "s3://far/teams/a", "s3a://far/teams/a/"):
        answer = realm.ask(user, "POST", f"{B}/temporary-path-credentials", {"url": place, "operation": operation})
        assert answer.status == 403 and "belongs to tables of the catalog" in answer.text, (place, answer.text)
        answer = realm.ask(user, "GET", f"{V1}/temporary-path-credentials", location=place, operation=operation)
        assert answer.status in (400, 403), (place, answer.text)
    assert seen.places == []
    beside = {"url": "s3://far/teams/b", "operation": operation}
    assert realm.ask(user, "POST", f"{B}/temporary-path-credentials", beside).status == 200
    assert seen.places == ["s3://far/teams/b"]


@pytest.mark.parametrize("operation", ["READ", "READ_WRITE"])
def test_i10_a_dropped_table_has_no_keys_for_any_principal(operation: str) -> None:
    """Its files wait for gc, or for a reset; a writer of them would change the restored state."""
    realm = Realm(vendor=(seen := Seen()))
    body = {"table_id": realm.table, "operation": operation}
    assert realm.ask("root", "POST", f"{B}/temporary-table-credentials", body).status == 200
    realm.must("DELETE", f"{B}/tables/main.sales.t1")
    seen.places.clear()
    answer = realm.ask("root", "POST", f"{B}/temporary-table-credentials", body)
    assert (answer.status, answer.json["error_code"]) == (404, "TABLE_NOT_FOUND")
    assert seen.places == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_i10_i12_places_of_tables_and_zones_outside_the_lake_root_are_closed(operation: str) -> None:
    """A coordinated table that was imported from elsewhere, and the root that the lake had
    before."""
    realm = Realm(vendor=(seen := Seen()))
    world = realm.world
    space = realm.world.space
    for location, table_id in (("s3://far/imported", realm.table), ("s3://far/earlier", "")):
        assert isinstance(world.refs.write(owner_row(space, location, table_id, "main", 1)), Accepted)
    for place in ("s3://far/imported", "s3://far/imported/part", "s3://far/earlier", "s3://far/earlier/x"):
        answer = realm.ask("root", "POST", f"{B}/temporary-path-credentials", {"url": place, "operation": operation})
        assert answer.status == 403 and "belongs to tables of the catalog" in answer.text, (place, answer.text)
    assert seen.places == []


def test_i12_below_a_registered_table_its_rights_count_and_not_the_metastores() -> None:
    realm = Realm(vendor=(seen := Seen()))
    table = {"name": "near", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
             "data_source_format": "DELTA", "columns": [], "storage_location": "s3://far/near"}  # fmt: skip
    realm.must("POST", f"{B}/tables", table)
    realm.grant("metastore", "x", "bob", "READ FILES", "WRITE FILES", "CREATE EXTERNAL TABLE")
    for place in ("s3://far/near", "s3://far/near/part"):
        request = {"url": place, "operation": "PATH_READ"}
        assert realm.ask("bob", "POST", f"{B}/temporary-path-credentials", request).status == 403
        assert realm.ask("root", "POST", f"{B}/temporary-path-credentials", request).status == 200
    assert seen.places == ["s3://far/near", "s3://far/near/part"]
