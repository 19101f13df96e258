"""I12: sessions for clients are narrowed to one prefix and one operation, and are renewed before
they end."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.support.fakes.storage import FakeClock, FakeIds
from tests.support.unity import V1, B, Unity
from turnstile.adapters.credentials import (
    MAX_POLICY,
    StaticCredentials,
    StaticCredentialVendor,
    StsCredentialVendor,
    VendorByLocation,
    narrowest_policy,
    place_of_s3,
    session_name,
    session_policy,
)
from turnstile.catalog.core.branches import base_location
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.store.core.errors import InvalidRequest, PermissionDenied, StorageFault
from turnstile.store.ports import VendedCredentials

PLACE = "s3://lake/main/sales/t1"
ROLE = "arn:aws:iam::1:role/x"


LAKE = "arn:aws:s3:::lake"


def opens(policy: dict[str, Any], action: str, resource: str, prefix: str = "") -> bool:
    """Whether a session policy lets ``action`` pass, as IAM judges it: no denial, and something
    that allows it."""

    def matches(statement: dict[str, Any]) -> bool:
        actions, resources = (
            [one] if isinstance(one, str) else one for one in (statement["Action"], statement["Resource"])
        )
        listed = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        return (
            action in actions
            and any(fnmatchcase(resource, pattern) for pattern in resources)
            and (listed is None or fnmatchcase(prefix, listed))
        )

    effects = {one["Effect"] for one in policy["Statement"] if matches(one)}
    return effects == {"Allow"}


def test_i12_read_cannot_write_and_no_right_deletes_from_the_log() -> None:
    read = session_policy(PLACE, "READ")
    write = session_policy(PLACE, "READ_WRITE")
    table = f"{LAKE}/main/sales/t1"
    log = f"{LAKE}/main/sales/t1/_delta_log/00000000000000000000.json"
    for policy in (read, write):
        assert opens(policy, "s3:GetObject", f"{table}/x") and opens(policy, "s3:GetObject", log)
        assert opens(policy, "s3:GetObject", table), "S3A asks for the folder's own key, and has to be told 404"
        assert not opens(policy, "s3:GetObject", f"{LAKE}/main/sales/t12/x")
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert opens(write, action, f"{table}/x") and not opens(read, action, f"{table}/x")
        assert not opens(write, action, f"{LAKE}/main/sales/t12/x") and not opens(write, action, table)
    assert opens(write, "s3:PutObject", log) and not opens(write, "s3:DeleteObject", log)


def test_i12_keys_list_what_is_below_the_folder_and_nothing_that_only_begins_like_it() -> None:
    for operation in ("READ", "READ_WRITE"):
        policy = session_policy("s3://lake/ro", operation)
        assert opens(policy, "s3:ListBucket", LAKE, "ro/") and opens(policy, "s3:ListBucket", LAKE, "ro/_delta_log/")
        for prefix in ("", "ro", "r", "root", "root/", "other/"):
            assert not opens(policy, "s3:ListBucket", LAKE, prefix), (
                f"ListObjects would tell what begins with {prefix!r}"
            )


def test_wildcards_in_a_location_are_literal() -> None:
    resource = session_policy("s3://lake/a*b?c$d", "READ")["Statement"][1]["Resource"]
    assert resource == [f"arn:aws:s3:::lake/a${{*}}b${{?}}c${{$}}d{end}" for end in ("", "/*")]


class Sts:
    """STS as far as policies go: takes 2,048 characters of them, and no more than it can pack."""

    def __init__(self, packs: int = 2_048) -> None:
        self.packs = packs
        self.asked = 0

    def __call__(self, **given: Any) -> Any:
        self.asked += 1
        size = len(given["Policy"])
        if size > 2_048:
            raise ClientError({"Error": {"Code": "ValidationError"}}, "AssumeRole")
        if size > self.packs:
            raise ClientError({"Error": {"Code": "PackedPolicyTooLarge"}}, "AssumeRole")
        until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": until}}


@pytest.mark.parametrize("operation", ["READ", "READ_WRITE"])
def test_locations_of_450_bytes_get_keys_and_what_sts_would_not_take_is_refused_before_it_is_asked(
    operation: Literal["READ", "READ_WRITE"],
) -> None:
    sts = Sts()
    vendor = StsCredentialVendor(sts, ROLE, FakeClock(), FakeIds())
    assert vendor.vend("s3://" + "b" * 63 + "/" + "a" * 381, operation)
    with pytest.raises(InvalidRequest) as refused:
        vendor.vend("s3://lake/" + "a" * 600, operation)
    assert (refused.value.field, sts.asked) == ("location", 1) and "shorter" in str(refused.value.remedy)
    with pytest.raises(InvalidRequest, match="too long"):
        StsCredentialVendor(Sts(packs=100), ROLE, FakeClock(), FakeIds()).vend(PLACE, operation)


def test_a_place_that_gets_no_keys_leaves_no_staging_table_behind() -> None:
    """I10: nothing is to be collected after a refusal, however often it is sent."""
    unity = Unity(
        VendorByLocation(StsCredentialVendor(Sts(), ROLE, FakeClock(), FakeIds())), lake_root="s3://lake/root"
    )
    parts = ["x" * 100 + str(level) for level in range(6)]
    for level in range(1, 7):
        made = unity.cold.post("/v1/catalogs/main/namespaces", {"name": ".".join(parts[:level])})
        assert made.status == 201, made.text
    rows = set(unity.world.refs.rows)
    answer = unity.cold.post(f"{V1}/catalogs/main/schemas/{'.'.join(parts)}/staging-tables", {"name": "t"})
    assert answer.status == 400 and "too long" in answer.text, answer.text
    assert not [key for key in set(unity.world.refs.rows) - rows if "/staging/" in key]
    short = unity.cold.post(f"{V1}/catalogs/main/schemas/{parts[0]}/staging-tables", {"name": "t"})
    assert short.status == 200 and short.json["storage-credentials"], short.text


def test_a_session_is_used_again_for_five_minutes_so_one_that_was_revoked_is_not_handed_out_for_longer() -> None:
    clock = FakeClock(step_ms=0)
    asked = []

    def assume(**given: Any) -> Any:
        asked.append(given)
        until = dt.datetime.fromtimestamp(clock.now_ms() / 1000 + 3600, dt.UTC)
        return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": until}}

    vendor = VendorByLocation(StsCredentialVendor(assume, ROLE, clock, FakeIds()))
    (first,) = vendor.vend(PLACE, "READ")
    assert first.config["s3.session-token"] == "t" and first.expires_ms == clock.now_ms() + 3_600_000
    assert vendor.vend(PLACE, "READ") == (first,) and len(asked) == 1
    vendor.vend(PLACE, "READ_WRITE")
    assert len(asked) == 2
    clock.now += 299_000
    assert vendor.vend(PLACE, "READ") == (first,) and len(asked) == 2
    clock.now += 1_000
    (second,) = vendor.vend(PLACE, "READ")
    assert len(asked) == 3 and asked[0]["DurationSeconds"] == 3600
    assert second.expires_ms == clock.now_ms() + 3_600_000


def test_a_session_of_a_short_life_is_used_again_until_its_last_quarter() -> None:
    clock = FakeClock(step_ms=0)
    asked = []

    def assume(**given: Any) -> Any:
        asked.append(given)
        until = dt.datetime.fromtimestamp(clock.now_ms() / 1000 + 200, dt.UTC)
        return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": until}}

    vendor = StsCredentialVendor(assume, ROLE, clock, FakeIds(), life_s=200)
    vendor.vend(PLACE, "READ")
    clock.now += 149_000
    vendor.vend(PLACE, "READ")
    assert len(asked) == 1
    clock.now += 1_000
    vendor.vend(PLACE, "READ")
    assert len(asked) == 2


def test_unused_sessions_make_room() -> None:
    clock = FakeClock(step_ms=0)

    def assume(**given: Any) -> Any:
        until = dt.datetime.fromtimestamp(clock.now_ms() / 1000 + 3600, dt.UTC)
        return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": until}}

    vendor = StsCredentialVendor(assume, ROLE, clock, FakeIds())
    for number in range(1002):
        vendor.vend(f"{PLACE}{number}", "READ")
    assert len(vendor._sessions) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "AssumeRole"), "cannot be assumed (AccessDenied)"),
        (ClientError({"Error": {"Code": "Throttling"}}, "AssumeRole"), "STS vended no credentials (Throttling)"),
        (EndpointConnectionError(endpoint_url="https://sts"), "STS vended no credentials"),
    ],
)
def test_a_role_that_cannot_be_assumed_differs_from_an_issuer_that_does_not_answer(error: Exception, said: str) -> None:
    def assume(**given: Any) -> Any:
        raise error

    with pytest.raises(StorageFault) as refused:
        StsCredentialVendor(assume, ROLE, FakeClock(), FakeIds()).vend(PLACE, "READ")
    assert refused.value.message.endswith(said)
    assert ("docs/deploy.md" in str(refused.value.remedy)) == ("assumed" in said)


def test_a_session_is_of_the_partition_that_its_role_is_in() -> None:
    asked: list[dict[str, Any]] = []

    def assume(**given: Any) -> Any:
        asked.append(given)
        raise RuntimeError("enough")

    with pytest.raises(StorageFault):
        StsCredentialVendor(assume, "arn:aws-cn:iam::1:role/x", FakeClock(), FakeIds()).vend(PLACE, "READ")
    table = "arn:aws-cn:s3:::lake/main/sales/t1"
    resources = [one["Resource"] for one in json.loads(asked[0]["Policy"])["Statement"]]
    branches = "arn:aws-cn:s3:::*/_branches/*/_delta_log/*"
    assert resources == ["arn:aws-cn:s3:::lake", [table, f"{table}/*"], branches]


def test_without_an_issuer_there_are_no_keys() -> None:
    def broken(**given: Any) -> Any:
        raise RuntimeError("down")

    with pytest.raises(StorageFault):
        StsCredentialVendor(broken, ROLE, FakeClock(), FakeIds()).vend(PLACE, "READ")
    with pytest.raises(PermissionDenied):
        VendorByLocation().vend(PLACE, "READ")
    assert VendorByLocation().vend("file:///x", "READ") == ()
    (found,) = VendorByLocation(StaticCredentialVendor(StaticCredentials("a", "s"), FakeClock())).vend(PLACE, "READ")
    assert "s3.session-token" not in found.config  # members that do not apply are left out, never null


# -- keys that come with a plan ----------------------------------------------------------------------------------------


def narrowed(*files: str, **more: Any) -> dict[str, Any]:
    text = narrowest_policy(PLACE, [f"{PLACE}/{file}" for file in files], **more)
    assert len(text) <= MAX_POLICY
    return dict(json.loads(text))


def test_i12_keys_of_a_plan_read_its_files_and_nothing_else() -> None:
    policy = narrowed("day=1/a.parquet", "b*.parquet")
    table = f"{LAKE}/main/sales/t1"
    assert opens(policy, "s3:GetObject", f"{table}/day=1/a.parquet")
    assert policy["Statement"][0]["Resource"] == [f"{table}/b${{*}}.parquet", f"{table}/day=1/a.parquet"]
    for other in ("day=1/b.parquet", "_delta_log/00000000000000000000.json", "bc.parquet", ""):
        assert not opens(policy, "s3:GetObject", f"{table}/{other}")
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:ListBucket"):
        assert not opens(policy, action, f"{table}/day=1/a.parquet")
    assert narrowed("a", key="arn:aws:kms:x:1:key/k")["Statement"][1]["Action"] == ["kms:Decrypt"]


def test_i12_keys_of_a_plan_of_many_files_read_their_folders() -> None:
    table = f"{LAKE}/main/sales/t1"
    policy = narrowed(*(f"day=1/{n:036d}.parquet" for n in range(100)), "day=2/x")
    assert policy["Statement"][0]["Resource"] == [f"{table}/day=1/*", f"{table}/day=2/*"]
    months = narrowed(*(f"month={n % 3}/day={n:036d}/f" for n in range(100)))
    assert months["Statement"][0]["Resource"] == [f"{table}/month={n}/*" for n in range(3)]
    whole = session_policy(PLACE, "READ")
    assert narrowed(*(f"{n:036d}.parquet" for n in range(100))) == whole, "its folder is the table's"
    assert narrowed(*(f"day={n:036d}/f" for n in range(100))) == whole
    assert json.loads(narrowest_policy(PLACE, ["s3://elsewhere/f"])) == whole, "no file is the table's"


def test_i12_a_session_is_kept_for_each_scope_and_the_whole_table_is_vended_where_the_narrow_policy_does_not_pack() -> (
    None
):
    policies: list[Any] = []

    def assume(**request: Any) -> Any:
        policies.append(json.loads(request["Policy"]))
        return Sts().__call__(**request)

    vendor = StsCredentialVendor(assume, ROLE, FakeClock(), FakeIds())
    for files in ([f"{PLACE}/a"], [f"{PLACE}/a"], [f"{PLACE}/b"], []):
        vendor.vend(PLACE, "READ", files)
    assert len(policies) == 3
    vendor.vend(PLACE, "READ_WRITE", [f"{PLACE}/a"])
    assert policies[-1] == session_policy(PLACE, "READ_WRITE"), "what is written has no files yet"
    short = len(json.dumps(session_policy(PLACE, "READ"), separators=(",", ":")))
    many = [f"{PLACE}/{n:036d}" for n in range(20)]
    policies.clear()
    tight = StsCredentialVendor(Sts(packs=short), ROLE, FakeClock(), FakeIds())
    (issued,) = tight.vend(PLACE, "READ", many)
    assert issued.prefix == PLACE


def test_i12_an_audit_finds_a_principal_by_the_name_of_its_sessions_which_no_other_shares() -> None:
    names = iter(["ann", "ann", "bob@example.org", "ann"])
    sessions = list[str]()

    def assume(**request: Any) -> Any:
        sessions.append(request["RoleSessionName"])
        return Sts()(**request)

    vendor = StsCredentialVendor(assume, ROLE, FakeClock(), FakeIds(), who=lambda: next(names))
    for _ in range(3):
        vendor.vend(PLACE, "READ")
    vendor.vend(PLACE, "READ_WRITE")
    assert sessions == ["turnstile-ann", "turnstile-bob@example.org", "turnstile-ann"]
    odd = [session_name(name) for name in ("a b", "a-b", "a/b", "é", "x" * 54, "x" * 55, "x" * 56)]
    assert len(set(odd)) == len(odd) and all(re.fullmatch(r"[\w+=,.@-]{2,64}", name, re.ASCII) for name in odd)
    assert session_name("x" * 54) == "turnstile-" + "x" * 54 and session_name("") == ""


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, {}),
        ({"AWS_REGION": "eu-central-1"}, {"client.region": "eu-central-1", "s3.region": "eu-central-1"}),
        (
            {"AWS_ENDPOINT_URL_S3": "http://minio:9000"},
            {
                "client.region": "us-east-1",
                "s3.region": "us-east-1",
                "s3.endpoint": "http://minio:9000",
                "s3.path-style-access": "true",
            },
        ),
        ({"AWS_ENDPOINT_URL": "http://minio:9000", "TURNSTILE_CLIENT_S3_ENDPOINT": ""}, {}),
    ],
)
def test_clients_get_the_address_of_the_store(environment: dict[str, str], place: dict[str, str]) -> None:
    assert place_of_s3(environment) == place


BASE = PLACE
BRANCH = f"{BASE}/_branches/11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize("operation", ["READ", "READ_WRITE"])
def test_i12_keys_of_a_branchs_table_read_files_of_the_catalogs_and_change_their_own_folder_alone(
    operation: Literal["READ", "READ_WRITE"],
) -> None:
    policy = session_policy(BRANCH, operation, base=BASE)
    folder = f"{LAKE}/main/sales/t1"
    own = f"{folder}/_branches/11111111-1111-4111-8111-111111111111"
    other = f"{folder}/_branches/22222222-2222-4222-8222-222222222222"
    log = "_delta_log/00000000000000000001.json"
    for file in (f"{folder}/part-0.parquet", f"{other}/promoted.parquet", f"{own}/part-1.parquet", f"{own}/{log}", own):
        assert opens(policy, "s3:GetObject", file)
    assert not opens(policy, "s3:GetObject", f"{folder}/{log}"), "it has the names of files that came after the base"
    assert not opens(policy, "s3:GetObject", f"{LAKE}/main/sales/t12/part-0.parquet")
    for prefix in ("main/sales/t1/", "main/sales/t1/_branches/", "main/sales/t1/_branches/2", "main/sales/"):
        assert not opens(policy, "s3:ListBucket", LAKE, prefix), "others are read by name alone"
    assert opens(policy, "s3:ListBucket", LAKE, f"{own.removeprefix(LAKE + '/')}/_delta_log/")
    for action in ("s3:PutObject", "s3:DeleteObject"):
        for file in (f"{folder}/x.parquet", f"{folder}/{log}", f"{other}/x.parquet", f"{other}/{log}"):
            assert not opens(policy, action, file)
        assert opens(policy, action, f"{own}/x.parquet") == (operation == "READ_WRITE")
    assert opens(policy, "s3:PutObject", f"{own}/{log}") == (operation == "READ_WRITE")
    assert not opens(policy, "s3:DeleteObject", f"{own}/{log}")


def test_i12_keys_of_the_catalogs_table_read_and_delete_what_was_promoted_and_write_nothing_for_a_branch() -> None:
    branch = f"{LAKE}/main/sales/t1/_branches/22222222-2222-4222-8222-222222222222"
    log = f"{branch}/_delta_log/00000000000000000001.json"
    read = session_policy(BASE, "READ")
    write = session_policy(BASE, "READ_WRITE")
    for policy in (read, write):
        assert opens(policy, "s3:GetObject", f"{branch}/promoted.parquet")
        assert not opens(policy, "s3:GetObject", log)
        assert not opens(policy, "s3:PutObject", f"{branch}/promoted.parquet")
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert not opens(policy, action, log)
    assert opens(write, "s3:DeleteObject", f"{branch}/promoted.parquet"), "for VACUUM"
    assert not opens(read, "s3:DeleteObject", f"{branch}/promoted.parquet")


def test_a_table_below_a_folder_of_the_same_name_is_written_as_any_other() -> None:
    policy = session_policy("s3://lake/_branches/t", "READ_WRITE")
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert opens(policy, action, f"{LAKE}/_branches/t/x")


class Asked:
    """A vendor of keys that keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def vend(
        self, location: str, operation: Literal["READ", "READ_WRITE"], files: Sequence[str] = (), base: str = ""
    ) -> tuple[VendedCredentials, ...]:
        self.asked.append((location, operation, base))
        return (VendedCredentials(location, operation, 1, {"s3.access-key-id": "a", "s3.secret-access-key": "s"}),)


def test_i12_every_route_asks_for_keys_of_a_branchs_table_with_the_catalogs_folder() -> None:
    vendor = Asked()
    unity = Unity(vendor)
    unity.create("t1")
    assert unity.cold.post("/v1/catalogs/main/branches", {"name": "dev"}).status == 201
    shown = unity.cold.get(f"{B}/tables/main@dev.sales.t1").json
    location = shown["storage_location"]
    base = unity.cold.get(f"{B}/tables/main.sales.t1").json["storage_location"]
    assert location == f"{base}/_branches/{shown['table_id']}"
    vendor.asked.clear()
    for operation in ("READ", "READ_WRITE"):
        path = f"{B}/delta/v1/catalogs/main@dev/schemas/sales/tables/t1/credentials"
        assert unity.cold.get(path, operation=operation).status == 200
        body = {"table_id": shown["table_id"], "operation": operation}
        assert unity.cold.post(f"{B}/temporary-table-credentials", body).status == 200
        assert vendor.asked == [(location, operation, base)] * 2
        vendor.asked.clear()
    body = {"table_id": unity.cold.get(f"{B}/tables/main.sales.t1").json["table_id"], "operation": "READ"}
    assert unity.cold.post(f"{B}/temporary-table-credentials", body).status == 200
    assert vendor.asked == [(base, "READ", "")]


def test_i12_a_location_that_a_client_has_chosen_opens_nothing_above_it() -> None:
    """An imported table has its own uuid from its log, and lies where the client says."""
    head = TableHead.from_row(
        new_head_row(
            key="table/1", table_id=BRANCH.rpartition("/")[2], catalog="main@dev", name="main@dev.sales.t",
            metadata="m", location=BRANCH, version=0, ict=1, row_hwm=None, created=1, managed=False,
        )
    )  # fmt: skip
    assert base_location(head) == ""
    assert base_location(msgspec.structs.replace(head, managed=True)) == BASE
    assert base_location(msgspec.structs.replace(head, managed=True, catalog="main")) == ""
    assert base_location(msgspec.structs.replace(head, managed=True, location=f"{BASE}/_branches/x")) == ""


def test_keys_that_read_name_the_folder_of_all_files_and_keys_that_write_the_one_to_write_in() -> None:
    vendor = StsCredentialVendor(Sts(), ROLE, FakeClock(), FakeIds())
    (read,), (write,) = (vendor.vend(BRANCH, operation, (), BASE) for operation in ("READ", "READ_WRITE"))
    assert (read.prefix, write.prefix) == (BASE, BRANCH)
    text = narrowest_policy(BRANCH, [f"{BASE}/a.parquet", f"{BRANCH}/b.parquet"], base=BASE)
    (statement,) = json.loads(text)["Statement"]
    assert [file.rpartition("/")[2] for file in statement["Resource"]] == ["b.parquet", "a.parquet"]
