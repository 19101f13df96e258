"""I12: PyIceberg against a server that asks who is there, with tables in S3 and keys for one table
at a time; and against an emulated deployment whose functions are held to their roles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError
from pyiceberg.types import LongType

from tests.support.iceberg.pyarrow_tables import SCHEMA, ids, rows
from tests.support.server import VENDING_ROLE, server_on_s3
from tests.support.store.backends import MINISTACK

if TYPE_CHECKING:
    from tests.support.server import ServerOnS3
    from tests.support.store.servers import Servers
    from turnstile_local import Stack

pytestmark = pytest.mark.slow

OPERATOR = "a token for operators"
READER = "a token for readers"


@pytest.fixture(scope="module")
def guarded(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOnS3]:
    reader = {hashlib.sha256(READER.encode()).hexdigest(): {"name": "reader", "roles": []}}
    variables = {"TURNSTILE_TOKENS": json.dumps(reader), "TURNSTILE_VENDING_ROLE": VENDING_ROLE}
    endpoint = servers.get(MINISTACK).url
    with server_on_s3(tmp_path_factory.mktemp("guarded-iceberg"), endpoint, OPERATOR, variables) as running:
        yield running


def connect(server: ServerOnS3 | Stack, **more: Any) -> RestCatalog:
    endpoint = {"s3.endpoint": server.env["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    return RestCatalog("main", uri=f"{server.url}/iceberg", warehouse="main", **endpoint, **more)


def test_i12_without_a_token_or_with_a_wrong_one_nothing_is_shown(guarded: ServerOnS3) -> None:
    for wrong in ({}, {"token": "wrong"}):
        with pytest.raises(UnauthorizedError):
            connect(guarded, **wrong)


def test_i12_a_principal_that_may_not_use_the_catalog_is_refused(guarded: ServerOnS3) -> None:
    with pytest.raises(ForbiddenError):
        connect(guarded, token=READER)


def test_a_registered_client_signs_in_with_its_credentials(guarded: ServerOnS3) -> None:
    import httpx

    headers = {"Authorization": f"Bearer {OPERATOR}"}
    made = httpx.post(
        f"{guarded.url}/v1/clients", json={"name": "pyiceberg", "admin": True}, headers=headers, timeout=60
    ).json()
    catalog = connect(
        guarded,
        credential=f"{made['client_id']}:{made['client_secret']}",
        scope="all-apis",
        **{"oauth2-server-uri": f"{guarded.url}/oauth/token"},
    )
    assert ("default",) in catalog.list_namespaces()


def test_i12_keys_come_with_the_table_and_open_it_alone(guarded: ServerOnS3) -> None:
    catalog = connect(guarded, token=OPERATOR)
    table = catalog.create_table("default.vended", SCHEMA)
    assert table.location().startswith("s3://lake/warehouse/main/default/")
    table.append(rows(1, 2))
    read = connect(guarded, token=OPERATOR).load_table("default.vended")
    assert ids(read) == [1, 2]
    keys = read.io.properties
    assert keys["s3.access-key-id"] and keys["s3.session-token"]
    read.append(rows(3))
    catalog.drop_table("default.vended")
    back = catalog.register_table("default.again", read.metadata_location)
    assert ids(back) == [1, 2, 3]
    catalog.purge_table("default.again")


def test_i12_the_functions_role_is_enough_and_a_client_may_bring_its_own_keys(s3_stack: Stack) -> None:
    own = {
        "s3.access-key-id": s3_stack.env["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": s3_stack.env["AWS_SECRET_ACCESS_KEY"],
    }
    catalog = connect(s3_stack, **own)
    table = catalog.create_table("default.own", SCHEMA)
    table.append(rows(1))
    with table.update_schema() as schema:
        schema.add_column("x", LongType())
    catalog.rename_table("default.own", "default.renamed")
    assert ids(connect(s3_stack, **own).load_table("default.renamed")) == [1]
    catalog.purge_table("default.renamed")
    assert not {("default", "own"), ("default", "renamed")} & set(catalog.list_tables("default"))
