"""What access control costs, and how late it may be: requests counted, rights taken away while
sandboxes are warm (I12)."""

from __future__ import annotations

import pytest

from tests.support.access.operations import SALES, V1
from tests.support.access.realm import B, Realm
from tests.support.functions import Answer
from turnstile.access.authorizer import Authorizer, Target
from turnstile.access.grants import Grants
from turnstile.access.tables import STALE_MS
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.services import build
from turnstile.rights.grants import GrantChange, Privilege

D1 = f"{V1}/catalogs/main/schemas/sales/tables/t1"


@pytest.fixture
def realm() -> Realm:
    made = Realm()
    made.grant("catalog", "main", "ann", "USE CATALOG")
    made.grant("schema", "main.sales", "ann", "USE SCHEMA")
    made.grant("table", "main.sales.t1", "ann", "SELECT", "MODIFY")
    made.open()
    return made


def counted(realm: Realm, user: str, method: str, path: str, json_body: object = None) -> list[str]:
    """The requests of one call that succeeds: to refs and objs, sorted."""
    world = realm.world
    world.refs.requests.clear()
    world.objs.requests.clear()
    answer = realm.ask(user, method, path, json_body)
    assert answer.status == 200, answer.text
    return sorted([f"refs.{one}" for one in world.refs.requests] + [f"objs.{one}" for one in world.objs.requests])


@pytest.mark.parametrize("path", [f"{SALES}/tables/t1", D1])
def test_i12_a_warm_load_by_name_costs_no_further_request(realm: Realm, path: str) -> None:
    for user in ("ann", "root"):
        realm.ask(user, "GET", path)
        assert counted(realm, user, "GET", path) == ["refs.read_many"]


@pytest.mark.parametrize("path", [f"{SALES}/tables/t1", D1])
def test_i12_a_cold_load_reads_rights_beside_the_head_and_only_for_principals_that_need_some(
    realm: Realm, path: str
) -> None:
    """Catalog HEAD; commit obj; then side by side the table's HEAD, its newest metadata (a list),
    and the entities. Unity's Delta API asks the location's owner as well, whether clones need the
    files."""
    cold = sorted(["objs.get", "objs.list", "refs.read", "refs.read_many", *(["refs.read"] if path == D1 else [])])
    realm.open()
    assert counted(realm, "root", "GET", path) == cold
    realm.open()
    assert counted(realm, "ann", "GET", path) == sorted([*cold, "objs.get_many"])


def test_i12_a_warm_commit_by_uuid_is_one_write(realm: Realm) -> None:
    """The first commit of a sandbox learns by what the table's commits are judged: its HEAD and its
    metadata."""
    commits = f"/v1/tables/{realm.table}/commits"
    realm.ask("root", "POST", commits, realm.append(1, "t1"))
    assert counted(realm, "root", "POST", commits, realm.append(2, "t2")) == ["refs.write"]
    realm.ask("ann", "GET", f"{SALES}/tables/t1")
    realm.ask("ann", "POST", commits, realm.append(3, "t3"))
    assert counted(realm, "ann", "POST", commits, realm.append(4, "t4")) == ["refs.write"]
    realm.world.clock.now += STALE_MS
    assert counted(realm, "ann", "POST", commits, realm.append(5, "t5")) == ["refs.read", "refs.write"]
    assert counted(realm, "ann", "POST", commits, realm.append(6, "t6")) == ["refs.write"]


def test_i12_a_warm_commit_by_name_costs_no_further_request(realm: Realm) -> None:
    counts = []
    for user, version in (("root", 2), ("ann", 3), ("root", 4), ("ann", 5)):
        commit = {key.replace("_", "-"): value for key, value in realm.staged_commit(version).items()}
        required = [{"type": "assert-table-uuid", "uuid": realm.table}]
        body = {"requirements": required, "updates": [{"action": "add-commit", "commit": commit}]}
        counts.append(counted(realm, user, "POST", D1, body))
    assert counts[2] == counts[3]


def commit(realm: Realm, version: int) -> Answer:
    return realm.ask("ann", "POST", f"/v1/tables/{realm.table}/commits", realm.append(version, f"txn-{version}"))


def revoked_elsewhere(realm: Realm) -> None:
    """Ann's rights on the table are taken away in another sandbox: the warm ones have to find
    out."""
    services = build(realm.world, lake_root="file:///lake")
    grants = Grants(services, Authorizer(realm.world, services.reader))
    grants.change(Target("main", ("sales",), "t1"), [GrantChange("ann", (), (Privilege.MODIFY, Privilege.SELECT))])


def test_i12_a_right_that_was_taken_away_serves_commits_by_uuid_for_five_seconds_at_most(realm: Realm) -> None:
    assert commit(realm, 2).status == 200
    revoked_elsewhere(realm)
    assert commit(realm, 3).status == 200  # this sandbox has not read the catalog's HEAD since
    realm.world.clock.now += STALE_MS
    before = realm.state()
    assert commit(realm, 4).status == 403
    assert realm.state() == before


def test_i12_a_clock_that_is_set_back_makes_no_right_last_longer(realm: Realm) -> None:
    assert commit(realm, 2).status == 200
    revoked_elsewhere(realm)
    realm.world.clock.now -= 3_600_000
    assert commit(realm, 3).status == 403


def test_i12_a_right_that_was_taken_away_serves_no_request_by_name_and_gets_no_keys(realm: Realm) -> None:
    asks = [
        ("GET", f"{SALES}/tables/t1", None),
        ("GET", D1, None),
        ("GET", f"{D1}/credentials?operation=READ", None),
        ("POST", f"{B}/temporary-table-credentials", {"table_id": realm.table, "operation": "READ"}),
    ]

    def statuses() -> list[int]:
        found = []
        for method, path, body in asks:
            path, _, query = path.partition("?")
            operation = {"operation": query.removeprefix("operation=")} if query else {}
            found.append(realm.ask("ann", method, path, body, **operation).status)
        return found

    assert statuses() == [200] * 4
    revoked_elsewhere(realm)
    assert statuses() == [403] * 4


@pytest.mark.parametrize("operation", ["READ", "READ_WRITE"])
def test_i12_keys_by_uuid_are_never_given_out_by_what_is_cached(realm: Realm, operation: str) -> None:
    keys = (f"{B}/temporary-table-credentials", {"table_id": realm.table, "operation": operation})
    assert realm.ask("ann", "POST", *keys).status == 200
    revoked_elsewhere(realm)
    assert realm.ask("ann", "POST", *keys).status == 403


def test_i12_a_right_that_was_given_serves_at_once(realm: Realm) -> None:
    realm.revoke("table", "main.sales.t1", "ann", "MODIFY")
    realm.ask("ann", "GET", f"{SALES}/tables/t1")
    assert commit(realm, 2).status == 403
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    assert commit(realm, 2).status == 200


def test_a_table_that_was_just_made_is_found_by_its_uuid_in_a_warm_sandbox(realm: Realm) -> None:
    commit(realm, 2)
    realm.grant("schema", "main.sales", "ann", "CREATE TABLE")
    commit(realm, 3)
    made = realm.create("t5", user="ann")
    answer = realm.ask("ann", "POST", f"/v1/tables/{made}/commits", realm.append(1, "first"))
    assert answer.status == 200, answer.text


def test_i12_a_commit_on_a_table_that_is_gone_is_not_found(realm: Realm) -> None:
    commit(realm, 2)
    realm.must("DELETE", f"{SALES}/tables/t1")
    realm.world.clock.now += STALE_MS
    assert commit(realm, 3).status == 404


def test_i12_a_uuid_is_found_by_its_name_however_many_names_there_are(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(*_: object) -> None:
        raise AssertionError("the whole index was searched")

    monkeypatch.setattr(Tree, "name_of", searched)
    assert commit(realm, 2).status == 200
    realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "more"})
    realm.world.clock.now += STALE_MS
    assert commit(realm, 3).status == 200
    realm.grant("schema", "main.hr", "ann", "USE SCHEMA")
    realm.must("POST", f"{SALES}/tables/t1/rename", {"name": "t9", "namespace": "hr"})
    realm.world.clock.now += STALE_MS
    assert commit(realm, 4).status == 200
    realm.revoke("schema", "main.hr", "ann", "USE SCHEMA")
    realm.world.clock.now += STALE_MS
    assert commit(realm, 5).status == 403
    realm.must("DELETE", "/v1/catalogs/main/namespaces/hr/tables/t9")
    assert commit(realm, 5).status == 404


def test_i12_an_external_table_is_found_by_its_uuid_under_every_name_it_gets(realm: Realm) -> None:
    realm.grant("table", "main.sales.e1", "ann", "SELECT")
    keys = {"table_id": realm.external, "operation": "READ"}

    def status() -> int:
        return realm.ask("ann", "POST", f"{B}/temporary-table-credentials", keys).status

    assert status() == 200
    realm.must("POST", f"{V1}/catalogs/main/schemas/sales/tables/e1/rename", {"new-name": "e9"})
    assert status() == 200
    realm.revoke("table", "main.sales.e9", "ann", "SELECT")
    assert status() == 403
    realm.must("DELETE", f"{SALES}/tables/e9")
    assert status() == 404
