"""Access control on the deployed template: users behind the gateway, real requests to DynamoDB,
functions held to their roles (I12)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.fakes import delta
from turnstile.access.tables import STALE_MS
from turnstile.api.auth.verifier import fingerprint
from turnstile_local import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

B = "/api/2.1/unity-catalog"
NS = "/v1/catalogs/main/namespaces"
USERS = {fingerprint("ann-token"): {"name": "ann", "roles": ["team"]}, fingerprint("bob-token"): {"name": "bob"}}


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    parameters = {"StaticTokens": json.dumps(USERS)}
    with Stack.start(
        tmp_path_factory.mktemp("users"), port=0, token="s3cret", parameters=parameters, roles=True
    ) as running:
        yield running


def client(stack: Stack, token: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=stack.url, headers=headers, timeout=60, trust_env=False)


def grant(admin: httpx.Client, securable: str, principal: str, *privileges: str, remove: bool = False) -> None:
    change = {"principal": principal, "remove" if remove else "add": privileges}
    answer = admin.patch(f"{B}/permissions/{securable}", json={"changes": [change]})
    assert answer.status_code == 200, answer.text


def create(api: httpx.Client, name: str) -> httpx.Response:
    """A table of whoever asks, all three steps; the answer of the last that was let pass."""
    staged = api.post(f"{NS}/sales/staging-tables", json={"name": name})
    if staged.status_code != 201:
        return staged
    made = staged.json()
    zero = Path(made["location"].removeprefix("file://")) / "_delta_log" / f"{0:020d}.json"
    zero.parent.mkdir(parents=True)
    zero.write_bytes(delta.version_zero("create", int(time.time() * 1000)))
    return api.post(f"{NS}/sales/tables", json={"name": name, "table_id": made["table_id"]})


def commit(api: httpx.Client, table_id: str, version: int) -> httpx.Response:
    content = delta.append(str(uuid.uuid4()), int(time.time() * 1000)).decode()
    return api.post(f"/v1/tables/{table_id}/commits", json={"version": version, "inline": {"content": content}})


def test_i12_users_do_what_they_were_granted_and_no_more(realm: Stack) -> None:
    with client(realm, "s3cret") as admin, client(realm, "ann-token") as ann, client(realm, "bob-token") as bob:
        assert admin.post(NS, json={"name": "sales"}).status_code == 201
        assert create(ann, "orders").status_code == 403
        assert ann.get(f"{NS}/sales").status_code == ann.get(f"{NS}/nope").status_code == 403

        grant(admin, "catalog/main", "team", "USE CATALOG")
        grant(admin, "schema/main.sales", "team", "USE SCHEMA", "CREATE TABLE")
        made = create(ann, "orders")
        assert made.status_code == 201, made.text
        table_id = made.json()["table_id"]
        assert commit(ann, table_id, 1).status_code == 200
        assert commit(bob, table_id, 2).status_code == 403
        shown = ann.get("/v1/permissions/table/main.sales.orders").json()
        assert shown == {"owner": "ann", "grants": []}

        grant(admin, "catalog/main", "bob", "USE CATALOG", "USE SCHEMA")
        grant(ann, "table/main.sales.orders", "bob", "SELECT")
        assert bob.get(f"{NS}/sales/tables/orders").status_code == 200
        assert commit(bob, table_id, 2).status_code == 403
        grant(ann, "table/main.sales.orders", "bob", "MODIFY")
        assert commit(bob, table_id, 2).status_code == 200
        assert bob.delete(f"{NS}/sales/tables/orders").status_code == 403

        grant(ann, "table/main.sales.orders", "bob", "SELECT", "MODIFY", remove=True)
        assert bob.get(f"{NS}/sales/tables/orders").status_code == 403
        time.sleep(STALE_MS / 1000)
        assert commit(bob, table_id, 3).status_code == 403
        assert ann.delete(f"{NS}/sales/tables/orders").status_code == 204


def test_whole_names_travel_through_the_gateway(realm: Stack) -> None:
    with client(realm, "s3cret") as admin:
        assert admin.post(NS, json={"name": "a.b"}).status_code == 201
        for name in ("main.a.b", "main%2Ea%2Eb"):
            grant(admin, f"schema/{name}", "name with a space@example.org", "USE SCHEMA")
        found = admin.get(f"{B}/permissions/schema/main.a.b", params={"principal": "name with a space@example.org"})
        assert [one["privileges"] for one in found.json()["privilege_assignments"]] == [["USE SCHEMA"]]
