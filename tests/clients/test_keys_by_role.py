"""I12: keys for one table, from a stack that holds its functions to their roles, with a store that
authenticates its callers.

The emulator's IAM decides which keys open which files: role, trust policy and session policy, as on
AWS.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.fakes import delta
from tests.support.iceberg.client import SCHEMA
from turnstile.store.core.names import published_path

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DELTA = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/default"
ROLE = "vending"
ARN = f"arn:aws:iam::000000000000:role/{ROLE}"
LAKE: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::lake"},
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": "arn:aws:s3:::lake/warehouse/*",
        },
    ],
}
"""The rights that the role needs by docs/deploy.md."""


@pytest.fixture(scope="module")
def bare_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Deployed with the name of a role that is not there yet."""
    from turnstile_local import Stack

    home = tmp_path_factory.mktemp("roles")
    parameters = {"VendingRole": ARN}
    with Stack.start(home, port=0, lake="s3://lake/warehouse", parameters=parameters, roles=True) as running:
        yield running


@pytest.fixture(scope="module")
def http(bare_stack: Stack) -> Iterator[httpx.Client]:
    with bare_stack.client() as client:
        yield client


def create_role(stack: Stack, trusted: list[str]) -> None:
    allowed = {"Effect": "Allow", "Principal": {"AWS": trusted}, "Action": "sts:AssumeRole"}
    iam = stack.aws("iam")
    trust = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=trust)
    iam.put_role_policy(RoleName=ROLE, PolicyName="lake", PolicyDocument=json.dumps(LAKE))


def remove_role(stack: Stack) -> None:
    iam = stack.aws("iam")
    iam.delete_role_policy(RoleName=ROLE, PolicyName="lake")
    iam.delete_role(RoleName=ROLE)


@pytest.fixture
def vending(bare_stack: Stack, http: httpx.Client) -> Iterator[httpx.Client]:
    """With the role as docs/deploy.md has it."""
    create_role(bare_stack, [bare_stack.state.outputs[name] for name in ("CatalogRole", "IcebergRole")])
    yield http
    remove_role(bare_stack)


def new_place(http: httpx.Client, name: str) -> httpx.Response:
    """A place for a Delta table, with keys to write there."""
    return http.post(f"{DELTA}/staging-tables", json={"name": name})


def new_iceberg_table(http: httpx.Client, name: str) -> httpx.Response:
    vended = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    body = {"name": name, "schema": SCHEMA}
    return http.post("/iceberg/v1/main/namespaces/default/tables", json=body, headers=vended)


ASKS: dict[str, Callable[[httpx.Client, str], httpx.Response]] = {"delta": new_place, "iceberg": new_iceberg_table}


@pytest.mark.parametrize("asks", ASKS)
def test_i12_no_keys_come_from_a_role_that_is_not_there_or_trusts_another_account(
    bare_stack: Stack, http: httpx.Client, asks: str
) -> None:
    def refused(name: str) -> None:
        answer = ASKS[asks](http, f"{name}_{asks}")
        assert answer.status_code == {"delta": 500, "iceberg": 503}[asks], answer.text
        assert "cannot be assumed (AccessDenied)" in answer.text and "docs/deploy.md" in answer.text

    refused("nobody")
    roles = bare_stack.aws("iam").list_roles()["Roles"]
    create_role(bare_stack, [one["Arn"] for one in roles if "-CommitRole-" in one["RoleName"]])
    try:
        refused("somebody")
    finally:
        remove_role(bare_stack)


class Keys:
    """The store as a holder of these keys sees it."""

    def __init__(self, stack: Stack, found: list[dict[str, Any]]) -> None:
        ((prefix, config),) = [(one["prefix"], one["config"]) for one in found]
        self.bucket, _, self.prefix = prefix.removeprefix("s3://").partition("/")
        self._s3 = boto3.client(
            "s3",
            endpoint_url=stack.env["AWS_ENDPOINT_URL"],
            region_name=stack.env["AWS_REGION"],
            aws_access_key_id=config["s3.access-key-id"],
            aws_secret_access_key=config["s3.secret-access-key"],
            aws_session_token=config["s3.session-token"],
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def may(self, operation: str, key: str, **more: Any) -> bool:
        """Whether the store lets ``operation`` of the object ``key`` happen."""
        return _lets(partial(getattr(self._s3, operation), Bucket=self.bucket, Key=key, **more))

    def head(self, key: str) -> int:
        """The status with which the store answers to a HEAD of ``key``."""
        try:
            found = self._s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            found = error.response
        return int(found["ResponseMetadata"]["HTTPStatusCode"])

    def may_list(self, prefix: str) -> bool:
        """Whether the store lists objects that begin with ``prefix``."""
        return _lets(partial(self._s3.list_objects_v2, Bucket=self.bucket, Prefix=prefix))


def _lets(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


def test_i12_keys_to_write_open_one_table_and_remove_nothing_of_its_log(
    bare_stack: Stack, vending: httpx.Client
) -> None:
    """The table is made with them: version 0 by the client, then it is registered, and read by keys
    that read."""
    place, other = (new_place(vending, name).json() for name in ("mine", "other"))
    keys, others = (Keys(bare_stack, one["storage-credentials"]) for one in (place, other))
    assert keys.head(keys.prefix) == 404, "so S3A asks whether a folder exists, before it writes there"
    assert keys.head(others.prefix) == 403
    zero = f"{keys.prefix}/{published_path(0)}"
    assert keys.may("put_object", zero, Body=delta.version_zero("create", int(time.time() * 1000)))
    assert keys.may("put_object", f"{keys.prefix}/part-0.parquet", Body=b"x")
    assert keys.may_list(f"{keys.prefix}/")
    assert not keys.may("put_object", f"{others.prefix}/part-0.parquet", Body=b"x")
    assert others.may("put_object", f"{others.prefix}/part-0.parquet", Body=b"x")
    assert not keys.may("get_object", f"{others.prefix}/part-0.parquet")
    assert not keys.may_list(f"{others.prefix}/") and not keys.may_list("warehouse/")
    assert not keys.may_list(keys.prefix), "without a slash that lists what only begins like it"
    assert not keys.may("delete_object", zero)
    assert keys.may("delete_object", f"{keys.prefix}/part-0.parquet")

    body = {"name": "mine", "table_id": place["table-id"]}
    made = vending.post("/v1/catalogs/main/namespaces/default/tables", json=body)
    assert made.status_code == 201, made.text
    found = vending.get(f"{DELTA}/tables/mine/credentials", params={"operation": "READ"}).json()
    reader = Keys(bare_stack, found["storage-credentials"])
    assert reader.may("get_object", zero) and reader.may_list(f"{keys.prefix}/")
    assert not reader.may("put_object", f"{keys.prefix}/part-1.parquet", Body=b"x")
    assert not reader.may("delete_object", zero)


def test_i12_keys_of_a_branchs_table_read_the_catalogs_files_and_write_their_own_folder_alone(
    bare_stack: Stack, vending: httpx.Client
) -> None:
    place = new_place(vending, "based").json()
    keys = Keys(bare_stack, place["storage-credentials"])
    zero = f"{keys.prefix}/{published_path(0)}"
    assert keys.may("put_object", zero, Body=delta.version_zero("create", int(time.time() * 1000)))
    assert keys.may("put_object", f"{keys.prefix}/part-0.parquet", Body=b"x")
    body = {"name": "based", "table_id": place["table-id"]}
    assert vending.post("/v1/catalogs/main/namespaces/default/tables", json=body).status_code == 201
    for name in ("dev", "other"):
        assert vending.post("/v1/catalogs/main/branches", json={"name": name}).status_code == 201

    def keys_of(branch: str, operation: str) -> Keys:
        path = f"{DELTA}/tables/based/credentials".replace("/catalogs/main/", f"/catalogs/main@{branch}/")
        found = vending.get(path, params={"operation": operation})
        assert found.status_code == 200, found.text
        return Keys(bare_stack, found.json()["storage-credentials"])

    writer = keys_of("dev", "READ_WRITE")
    others = keys_of("other", "READ_WRITE")
    reader = keys_of("dev", "READ")
    own_log = f"{writer.prefix}/{published_path(0)}"
    for dev in (writer, reader):
        assert dev.may("get_object", f"{keys.prefix}/part-0.parquet") and dev.may("get_object", own_log)
        assert dev.may_list(f"{writer.prefix}/_delta_log/")
        assert not dev.may("get_object", zero) and not dev.may_list(f"{keys.prefix}/")
        for place in (keys.prefix, others.prefix):
            assert not dev.may("put_object", f"{place}/part-1.parquet", Body=b"x")
            assert not dev.may("delete_object", f"{place}/part-0.parquet")
    assert writer.may("put_object", f"{writer.prefix}/part-1.parquet", Body=b"x")
    assert not reader.may("put_object", f"{writer.prefix}/part-1.parquet", Body=b"x")
    assert keys.may("get_object", f"{writer.prefix}/part-1.parquet"), "as after a promotion"
    assert not keys.may("put_object", f"{writer.prefix}/part-1.parquet", Body=b"y")
    assert not keys.may("delete_object", f"{writer.prefix}/part-1.parquet")
    assert not keys.may("get_object", own_log)


def test_i12_keys_that_come_with_an_iceberg_table_open_it_alone(bare_stack: Stack, vending: httpx.Client) -> None:
    first, second = (new_iceberg_table(vending, name) for name in ("first", "second"))
    assert first.status_code == 200, first.text
    keys = Keys(bare_stack, first.json()["storage-credentials"])
    mine, others = (one.json()["metadata-location"].removeprefix("s3://lake/") for one in (first, second))
    assert keys.may("get_object", mine) and not keys.may("get_object", others)
    assert keys.may("put_object", f"{keys.prefix}/data/part-0.parquet", Body=b"x")
    assert not keys.may("put_object", others, Body=b"x")
