"""Keys for clones of Iceberg tables: their own location, and their source's for principals that may
read the source (I12)."""

from __future__ import annotations

import json

from tests.support.clones import clone
from tests.support.iceberg.client import MAIN, SALES
from tests.support.iceberg.realm import ANN, Realm, guarded, realm
from turnstile.access.authorizer import Target
from turnstile.adapters.credentials import StaticCredentials, StaticCredentialVendor, VendorByLocation
from turnstile.catalog.services import build
from turnstile.rights.grants import Privilege as P

__all__ = ["realm"]

COPY = f"{MAIN}/namespaces/hr/tables/copy"
LAKE = "s3://lake/warehouse"


def cloned(realm: Realm) -> tuple[str, str]:
    """The locations of ``sales.s3`` and of its clone ``hr.copy``, which ann owns, with keys
    available for both."""
    vendor = VendorByLocation(StaticCredentialVendor(StaticCredentials("id", "secret"), realm.world.clock))
    guarded().use_world(realm.world, lake_root=LAKE, vendor=vendor)
    realm.services = build(realm.world, lake_root=LAKE)
    source = realm.must("POST", f"{SALES}/tables", {"name": "s3", "schema": {"type": "struct", "fields": []}}).json
    clone(realm.services, "sales.s3", "hr.copy")
    copy = realm.must("GET", COPY).json
    realm.grant(Target("main"), P.USE_CATALOG)
    for name in ("sales", "hr"):
        realm.grant(Target("main", (name,)), P.USE_SCHEMA)
    realm.grant(Target("main", ("hr",), "copy"), owner=ANN)
    return source["metadata"]["location"], copy["metadata"]["location"]


def keys(realm: Realm) -> dict[str, set[str]]:
    """Prefixes by caller, of the keys that a load and a request for keys give."""
    found = {}
    for user in ("root", ANN):
        answer = realm.ask(user, "GET", f"{COPY}/credentials")
        assert answer.status == 200, answer.text
        found[user] = {one["prefix"].rstrip("/") for one in answer.json["storage-credentials"]}
        delegating = {"X-Iceberg-Access-Delegation": "vended-credentials"}
        loaded = realm.ask(user, "GET", COPY, headers=delegating).json["storage-credentials"]
        assert {one["prefix"].rstrip("/") for one in loaded} == found[user]
    return found


def purge(realm: Realm, namespace: str, table: str) -> None:
    path = f"{MAIN}/namespaces/{namespace}/tables/{table}"
    assert realm.ask("root", "DELETE", path, query={"purgeRequested": "true"}).status == 204


def test_i12_keys_for_the_source_are_for_principals_that_may_read_it(realm: Realm) -> None:
    source, copy = cloned(realm)
    assert keys(realm) == {"root": {source, copy}, ANN: {copy}}
    realm.grant(Target("main", ("sales",), "s3"), P.SELECT)
    assert keys(realm)[ANN] == {source, copy}
    moved = {"source": {"namespace": ["sales"], "name": "s3"}, "destination": {"namespace": ["hr"], "name": "s4"}}
    realm.must("POST", f"{MAIN}/tables/rename", moved)
    assert keys(realm)[ANN] == {source, copy}, "rights go with the table, not with its name"
    purge(realm, "hr", "s4")
    assert keys(realm)[ANN] == {source, copy}, "what a dropped source left is its clones'"


def test_i12_a_source_without_rights_that_is_dropped_is_its_clones(realm: Realm) -> None:
    source, copy = cloned(realm)
    assert keys(realm)[ANN] == {copy}
    purge(realm, "sales", "s3")
    assert keys(realm)[ANN] == {source, copy}


def test_i12_a_table_that_has_the_uuid_of_a_source_opens_nothing_of_it(realm: Realm) -> None:
    """A principal that registers a file chooses its uuid, and owns the table."""
    source, copy = cloned(realm)
    content = realm.must("GET", f"{SALES}/tables/s3").json["metadata"]
    forged = json.dumps({**content, "location": "s3://elsewhere/a"}).encode()
    realm.world.storages.open("s3://elsewhere/a").put_if_absent("metadata/v1.metadata.json", forged)
    realm.grant(Target("main", ("sales",)), P.CREATE_TABLE)
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    body = {"name": "a", "metadata-location": "s3://elsewhere/a/metadata/v1.metadata.json"}
    assert realm.ask(ANN, "POST", f"{SALES}/register", body).status == 200
    assert keys(realm) == {"root": {source, copy}, ANN: {copy}}
