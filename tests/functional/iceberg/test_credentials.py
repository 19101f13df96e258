"""Keys for files as Iceberg's clients want them: when they end, where to fetch others, and early
enough (I12)."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.support.clones import clone
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, V1, Iceberg
from turnstile.adapters.credentials import StaticCredentials, StaticCredentialVendor
from turnstile.store.ports import CredentialVendor, VendedCredentials

DELEGATED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
SECRETS = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}


class Sessions:
    """Vends role sessions that all end at the same time."""

    def vend(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[VendedCredentials, ...]:
        return (VendedCredentials(location, operation, 1_770_003_600_000, {**SECRETS, "s3.session-token": "t"}),)


def opened(vendor: CredentialVendor) -> Iceberg:
    client = Iceberg(vendor)
    client.create()
    return client


@pytest.fixture
def client() -> Iceberg:
    return opened(Sessions())


def given(client: Iceberg, path: str = T1, **options: Any) -> tuple[dict[str, str], list[dict[str, str]]]:
    """What a load gives to every client, and by prefix."""
    answer = client.get(path, headers=DELEGATED, **options)
    assert answer.status == 200, answer.text
    return answer.json["config"], [one["config"] for one in answer.json.get("storage-credentials", ())]


def test_session_keys_say_when_they_end_and_where_others_are(client: Iceberg) -> None:
    config, (keys,) = given(client)
    assert keys["s3.session-token-expires-at-ms"] == "1770003600000"
    path = keys["client.refresh-credentials-endpoint"]
    assert path == "v1/main/namespaces/sales/tables/t1/credentials", "Java puts the catalog's address before it"
    (again,) = client.get(f"{V1.removesuffix('v1')}{path}").json["storage-credentials"]
    assert again["config"] == keys, "Java refuses an answer with more or fewer than one"
    assert config == keys, "clients that know no storage-credentials look there"


def test_the_path_to_other_keys_holds_whatever_names_may_hold(client: Iceberg) -> None:
    client.post(f"{MAIN}/namespaces", {"namespace": ["sales", "e-u@1"]})
    path = f"{SALES}%1Fe-u@1/tables"
    assert client.post(path, {"name": "a@b", "schema": SCHEMA}).status == 200
    _, (keys,) = given(client, f"{path}/a@b")
    refresh = keys["client.refresh-credentials-endpoint"]
    assert refresh == "v1/main/namespaces/sales%1Fe-u%401/tables/a%40b/credentials"
    assert len(client.get(f"{V1.removesuffix('v1')}{refresh}").json["storage-credentials"]) == 1


def test_a_table_that_is_only_staged_has_nowhere_to_fetch_other_keys(client: Iceberg) -> None:
    asked = {"name": "t2", "schema": SCHEMA, "stage-create": True}
    staged = client.post(f"{SALES}/tables", asked, headers=DELEGATED).json
    assert staged["config"]["s3.session-token-expires-at-ms"] and staged["storage-credentials"]
    assert "client.refresh-credentials-endpoint" not in staged["config"]


def test_keys_without_a_session_do_not_end(client: Iceberg) -> None:
    fixed = opened(StaticCredentialVendor(StaticCredentials("k", "s"), client.world.clock))
    assert given(fixed) == (SECRETS, [SECRETS])
    place = {"client.region": "eu-central-1", "s3.region": "eu-central-1"}
    placed = opened(StaticCredentialVendor(StaticCredentials("k", "s"), client.world.clock, place))
    assert given(placed) == (SECRETS | place, [SECRETS | place])


def test_keys_of_several_locations_differ_by_their_prefixes_alone(client: Iceberg) -> None:
    """A clone reads its source's files as well. Java renews keys only where there is one of
    them."""
    clone(client.services.open_catalog, "sales.t1", "sales.copy")
    config, keys = given(client, f"{SALES}/tables/copy")
    assert config == {} and len(keys) == 2
    assert all("s3.session-token-expires-at-ms" in one for one in keys)
    assert not any("client.refresh-credentials-endpoint" in one for one in keys)


def test_a_principal_that_is_due_keys_does_not_get_that_nothing_changed(client: Iceberg) -> None:
    """The client's keys may have ended since its last load, whatever became of the table."""
    known = {"If-None-Match": client.get(T1).headers["etag"]}
    assert client.get(T1, headers=known).status == 304
    loaded = client.get(T1, headers={**known, **DELEGATED})
    assert loaded.status == 200 and loaded.json["storage-credentials"]


def test_where_no_keys_are_needed_nothing_changed_is_an_answer() -> None:
    files = Iceberg()
    files.create()
    known = {"If-None-Match": files.get(T1).headers["etag"], **DELEGATED}
    assert files.get(T1, headers=known).status == 304
