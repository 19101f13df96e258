"""A warehouse as of a moment: the state of that moment is read through its prefix, and nothing can
be changed (I9, I12)."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, V1, VIEW, Iceberg, refused, set_properties
from tests.support.iceberg.realm import ANN, OPERATIONS, Realm
from turnstile.access.authorizer import Target
from turnstile.catalog.services import CatalogServices
from turnstile.gc.core import HOUR_MS
from turnstile.rights.grants import Privilege as P
from turnstile.store.ports import VendedCredentials

WEEK = 168 * HOUR_MS


@pytest.fixture
def client() -> Iceberg:
    """Catalog ``main`` with ``sales.t1`` and ``sales.v1``."""
    made = Iceberg()
    made.create("t1")
    assert made.post(f"{SALES}/views", VIEW).status == 200
    return made


def catalog(client: Iceberg) -> CatalogServices:
    return client.services.open_catalog


def head(client: Iceberg) -> str:
    return catalog(client).reader.current("main").head


def prefix(client: Iceberg, moment: str) -> str:
    """The configuration for a moment, as a path."""
    answer = client.get(f"{V1}/config", warehouse=f"main@{moment}")
    assert answer.status == 200, answer.text
    return f"{V1}/{answer.json['overrides']['prefix']}"


def at(path: str, past: str) -> str:
    """A path of catalog ``main``, as of a moment."""
    return path.replace(MAIN, past, 1)


def told(client: Iceberg, root: str) -> dict[str, Any]:
    """All that there is below a prefix, by every way to read it."""
    there: dict[str, Any] = {}
    for (namespace,) in client.get(f"{root}/namespaces").json["namespaces"]:
        of = f"{root}/namespaces/{namespace}"
        assert client.head(of) == 204
        there[namespace] = client.get(of).json["properties"]
        for kind in ("tables", "views"):
            for one in client.get(f"{of}/{kind}").json["identifiers"]:
                assert client.head(f"{of}/{kind}/{one['name']}") == 204
                there[f"{namespace}.{one['name']}"] = client.load(f"{of}/{kind}/{one['name']}")
    return there


def changed(client: Iceberg) -> None:
    """Everything becomes something else."""
    assert client.commit(set_properties(a="2")).status == 200
    assert client.post(f"{SALES}/views/v1", {"requirements": [], "updates": [set_properties(b="2")]}).status == 200
    assert client.post(f"{MAIN}/namespaces", {"namespace": ["later"]}).status == 200
    assert client.post(f"{SALES}/properties", {"updates": {"owner": "later"}}).status == 200
    client.create("t2")


def test_i9_every_way_to_name_a_moment_leads_to_one_prefix_that_shows_what_was_there(client: Iceberg) -> None:
    services = catalog(client)
    then = head(client)
    seq = services.reader.current("main").commit.seq
    before = told(client, MAIN)
    ms = services.reader.current("main").commit.at // 1000
    services.named_snapshots.create("main", "Month-End")
    client.world.clock.now += 60_000
    changed(client)
    assert told(client, MAIN) != before
    pinned = f"{V1}/main@head:{then.removeprefix('commit/')}"
    for moment in (f"head:{then}", f"seq:{seq}", f"time:{ms}", "snapshot:month-end"):
        assert prefix(client, moment) == pinned
    for root in (pinned, pinned.replace("@", "%40").replace(":", "%3A"), f"{V1}/MAIN@snapshot:month-end"):
        assert told(client, root) == before
        assert told(Iceberg(beside=client), root) == before
    assert set(told(client, MAIN)) - set(before) == {"later", "sales.t2"}


def test_i6_a_client_that_began_at_a_time_keeps_its_view(client: Iceberg) -> None:
    """A time yet to come means the present, for every caller, and stays that state."""
    ahead = client.world.clock.now + HOUR_MS
    root = prefix(client, f"time:{ahead}")
    before = told(client, MAIN)
    changed(client)
    assert told(client, root) == before
    assert prefix(client, f"time:{ahead}") != root


def test_clients_get_no_endpoint_that_the_past_refuses(client: Iceberg) -> None:
    now = client.get(f"{V1}/config", warehouse="main").json
    past = client.get(f"{V1}/config", warehouse=f"main@head:{head(client)}").json
    assert now["overrides"] == {"prefix": "main"}
    assert set(past["endpoints"]) < set(now["endpoints"])
    writes = [one for one in past["endpoints"] if one.split()[0] not in ("GET", "HEAD")]
    assert writes == ["POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"]


READS = ("/metrics", "/plan", "/tasks", "/plan/x")
WRITES = [one for one in OPERATIONS if one[0] in ("POST", "DELETE") and not one[1].endswith(READS)]


@pytest.mark.parametrize("operation", WRITES, ids=lambda one: f"{one[0]} {one[1]}")
def test_i9_no_change_gets_through_the_prefix_of_a_moment(client: Iceberg, operation: tuple[str, str, Any]) -> None:
    """Not even to the present as a moment, and whether or not its subject exists."""
    root = prefix(client, f"head:{head(client)}")
    before = (client.heads(), dict(client.world.objs.rows), dict(client.world.storages.files))
    method, path, body = operation
    keyed = {"idempotency-key": "01900000-0000-7000-8000-000000000001"}
    for of, headers in ((path, {}), (path, keyed), (path.replace("sales", "none"), {})):
        answer = client.call(method, at(of, root), body, headers=headers)
        assert "the past of a catalog cannot be changed" in refused(answer, 403, "ForbiddenException")
    assert (client.heads(), dict(client.world.objs.rows), dict(client.world.storages.files)) == before


def test_the_list_of_changes_is_whole() -> None:
    not_gets = [one for one in OPERATIONS if one[0] not in ("GET", "HEAD")]
    assert len(WRITES) == len(not_gets) - len(READS) - 1 == 15, "plans have two paths"


def test_a_scan_of_the_past_may_be_reported(client: Iceberg) -> None:
    root = prefix(client, f"head:{head(client)}")
    assert client.post(at(f"{T1}/metrics", root), {"report-type": "scan-report"}).status == 204


@pytest.mark.parametrize(
    ("warehouse", "status", "type"),
    [
        ("main@yesterday:1", 400, "BadRequestException"),
        ("main@seq:x", 400, "BadRequestException"),
        ("main@time:2026-11-01", 400, "BadRequestException"),
        ("@seq:1", 400, "BadRequestException"),
        ("main:seq", 400, "BadRequestException"),
        ("main@seq:999", 404, "NoSuchWarehouseException"),
        ("main@time:5", 404, "NoSuchWarehouseException"),
        ("main@snapshot:none", 404, "NoSuchWarehouseException"),
        ("other@seq:1", 404, "NoSuchWarehouseException"),
        ("main@seq", 404, "NoSuchWarehouseException"),
    ],
)
def test_a_moment_that_is_none_is_refused_at_the_configuration(
    client: Iceberg, warehouse: str, status: int, type: str
) -> None:
    refused(client.get(f"{V1}/config", warehouse=warehouse), status, type)
    if ":" in warehouse:
        refused(client.get(f"{V1}/{warehouse}/namespaces"), status, type)


def test_i10_a_moment_ends_with_the_history_unless_it_has_a_name(client: Iceberg) -> None:
    root = prefix(client, f"head:{head(client)}")
    before = told(client, MAIN)
    changed(client)
    client.world.clock.now += WEEK - HOUR_MS
    assert told(client, root) == before
    client.world.clock.now += 2 * HOUR_MS
    refused(client.get(f"{root}/namespaces"), 404, "NoSuchWarehouseException")
    refused(client.get(at(T1, root)), 404, "NoSuchWarehouseException")
    named = catalog(client).named_snapshots.create("main", "kept")
    now = told(client, MAIN)
    changed_root = prefix(client, "snapshot:kept")
    client.create("t3")
    client.world.clock.now += 2 * WEEK
    assert told(client, changed_root) == now
    assert changed_root.endswith(named.head.removeprefix("commit/"))
    catalog(client).named_snapshots.drop("main", "kept")
    refused(client.get(f"{changed_root}/namespaces"), 404, "NoSuchWarehouseException")


def test_what_was_purged_has_no_past_left_and_that_is_no_fault(client: Iceberg) -> None:
    root = prefix(client, f"head:{head(client)}")
    assert client.delete(T1, purgeRequested="true").status == 204
    assert client.delete(f"{SALES}/views/v1").status == 204
    assert client.load(at(T1, root))["metadata"]
    client.world.clock.now += WEEK - HOUR_MS
    for path in client.files():
        del client.world.storages.files[path]
    cold = Iceberg(beside=client)
    assert [one["name"] for one in cold.get(at(f"{SALES}/tables", root)).json["identifiers"]] == ["t1"]
    refused(cold.get(at(T1, root)), 404, "NoSuchTableException")
    refused(cold.get(at(f"{SALES}/views/v1", root)), 404, "NoSuchViewException")


def test_pages_of_the_past_are_not_pages_of_the_present(client: Iceberg) -> None:
    for name in ("a", "b", "c"):
        client.create(name)
    root = prefix(client, f"head:{head(client)}")
    listing = f"{SALES}/tables"
    first = client.get(at(listing, root), pageSize="2", pageToken="").json
    changed(client)
    token = first["next-page-token"]
    rest = client.get(at(listing, root), pageSize="9", pageToken=token).json
    assert [one["name"] for one in (*first["identifiers"], *rest["identifiers"])] == ["a", "b", "c", "t1"]
    refused(client.get(listing, pageToken=token), 400, "BadRequestException")
    assert [one["name"] for one in client.get(at(listing, root)).json["identifiers"]] == ["a", "b", "c", "t1"]


class Recording:
    """Vends keys, and remembers their purpose."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def vend(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[VendedCredentials, ...]:
        self.asked.append(operation)
        return (VendedCredentials(location, operation, 1, {"s3.access-key-id": "k"}),)


def test_i12_keys_for_the_past_only_read() -> None:
    vendor = Recording()
    client = Iceberg(vendor)
    client.create()
    root = prefix(client, f"head:{head(client)}")
    delegated = {"x-iceberg-access-delegation": "vended-credentials"}
    assert client.get(at(T1, root), headers=delegated).json["storage-credentials"]
    assert client.get(at(f"{T1}/credentials", root)).json["storage-credentials"]
    assert vendor.asked == ["READ", "READ"]
    client.get(T1, headers=delegated)
    assert vendor.asked[2:] == ["READ_WRITE"]


def test_what_the_past_costs(client: Iceberg) -> None:
    """One read more than nothing: the row of the catalog says which principals may read, and that
    the moment is still kept."""
    root = prefix(client, f"head:{head(client)}")
    for number in range(40):
        assert client.commit(set_properties(n=str(number))).status == 200
    client.load(at(T1, root))

    def requests(path: str, **headers: str) -> list[str]:
        client.world.refs.requests.clear()
        client.world.objs.requests.clear()
        assert client.get(path, headers=headers).status in (200, 304)
        return [*client.world.refs.requests, *client.world.objs.requests]

    assert requests(at(T1, root)) == ["read"]
    assert requests(at(f"{SALES}/tables", root)) == ["read"]
    tag = client.get(at(T1, root)).headers["etag"]
    assert requests(at(T1, root), **{"if-none-match": tag}) == ["read"]
    cold = Iceberg(beside=client)
    client.world.objs.requests.clear()
    cold.load(at(T1, root))
    assert len(client.world.objs.requests) <= 15


# -- rights: those of now (I12) ---------------------------------------------------------------------------------------


def test_i12_only_what_still_has_its_name_is_read_of_the_past(realm: Realm) -> None:
    root = f"{V1}/main@head:{realm.services.reader.current('main').head.removeprefix('commit/')}"
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE, P.SELECT)
    assert realm.ask(ANN, "GET", at(T1, root)).status == 200
    assert realm.ask(ANN, "GET", at(f"{SALES}/tables", root)).json["identifiers"] != []
    realm.must("DELETE", T1)
    realm.must("DELETE", f"{SALES}/views/v1")
    made = realm.ask(ANN, "POST", f"{SALES}/tables", {"name": "t1", "schema": SCHEMA})
    assert made.status == 200, made.text
    assert realm.ask(ANN, "GET", T1).status == 200
    for path, missing in (
        (T1, "NoSuchTableException"),
        (f"{T1}/credentials", "NoSuchTableException"),
        (f"{SALES}/views/v1", "NoSuchViewException"),
    ):
        said = refused(realm.ask(ANN, "GET", at(path, root)), 404, missing)
        never = path.replace("t1", "never").replace("views/v1", "views/never")
        assert refused(realm.ask(ANN, "GET", at(never, root)), 404, missing) == said.replace(
            "sales.t1", "sales.never"
        ).replace("sales.v1", "sales.never")
        assert realm.must("GET", at(path, root)).status == 200
    for kind in ("tables", "views"):
        assert realm.ask(ANN, "GET", at(f"{SALES}/{kind}", root)).json["identifiers"] == []
        assert realm.must("GET", at(f"{SALES}/{kind}", root)).json["identifiers"] != []


def test_i12_registering_the_uuid_of_what_had_a_name_reads_nothing_of_its_past(realm: Realm) -> None:
    """A registered file may have any uuid, and its owner the right to the name."""
    secret = realm.must("POST", T1, {"requirements": [], "updates": [set_properties(secret="1")]}).json["metadata"]
    number = realm.services.reader.current("main").commit.seq
    moved = {"source": {"namespace": ["sales"], "name": "t1"}, "destination": {"namespace": ["hr"], "name": "t1"}}
    realm.must("POST", f"{MAIN}/tables/rename", moved)
    forged = json.dumps({**secret, "location": "s3://elsewhere/t1", "properties": {}}).encode()
    realm.world.storages.open("s3://elsewhere/t1").put_if_absent("metadata/v1.metadata.json", forged)
    realm.grant(Target("main"), P.USE_CATALOG)
    realm.grant(Target("main", ("sales",)), P.USE_SCHEMA, P.CREATE_TABLE)
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    body = {"name": "t1", "metadata-location": "s3://elsewhere/t1/metadata/v1.metadata.json"}
    assert realm.ask(ANN, "POST", f"{SALES}/register", body).status == 200
    past = f"{V1}/main@seq:{number}/namespaces/sales/tables"
    assert realm.ask("root", "GET", f"{past}/t1").json["metadata"]["properties"]["secret"] == "1"
    shown = realm.ask(ANN, "GET", f"{past}/t1")
    assert shown.status == 404, shown.text
    assert realm.ask(ANN, "GET", past).json["identifiers"] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one[0]} {one[1]}")
def test_i12_a_principal_without_a_right_now_gets_nothing_of_the_past(
    realm: Realm, operation: tuple[str, str, Any]
) -> None:
    root = f"{V1}/main@head:{realm.services.reader.current('main').head.removeprefix('commit/')}"
    method, path, body = operation
    path, _, query = path.partition("?")
    query = query.replace("main", "main@seq:1")
    for of in (at(path, root), at(path.replace("sales", "none"), root)):
        assert realm.ask(ANN, method, of, body, query=query).status == 403
