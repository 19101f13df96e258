"""I12: sessions for clients are narrowed to one prefix and one operation, and are renewed before they end."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.fakes.storage import FakeClock, FakeIds
from turnstile.adapters.vending import FileVendor, Keys, StaticVendor, StsVendor, session_policy
from turnstile.core.errors import PermissionDenied, StorageFault

PLACE = "s3://lake/main/sales/t1"
ROLE = "arn:aws:iam::1:role/x"


def test_read_cannot_write_and_nobody_deletes_from_the_log() -> None:
    read, write = session_policy(PLACE, "READ"), session_policy(PLACE, "READ_WRITE")
    granted = {action for one in read["Statement"] for action in [one["Action"]] if isinstance(action, str)}
    assert granted == {"s3:ListBucket"} and read["Statement"][1]["Action"] == ["s3:GetObject"]
    assert "s3:PutObject" in write["Statement"][1]["Action"]
    assert write["Statement"][2] == {
        "Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::lake/main/sales/t1/_delta_log/*",
    }  # fmt: skip
    for policy in (read, write):
        assert policy["Statement"][1]["Resource"] == "arn:aws:s3:::lake/main/sales/t1/*"
        assert policy["Statement"][0]["Condition"]["StringLike"]["s3:prefix"] == ["main/sales/t1", "main/sales/t1/*"]
        assert len(json.dumps(policy, separators=(",", ":"))) < 2048


def test_wildcards_in_a_location_are_literal() -> None:
    resource = session_policy("s3://lake/a*b?c$d", "READ")["Statement"][1]["Resource"]
    assert resource == "arn:aws:s3:::lake/a${*}b${?}c${$}d/*"


def test_a_session_is_used_again_until_the_last_quarter_of_its_life() -> None:
    clock, asked = FakeClock(step_ms=0), []

    def assume(**given: Any) -> Any:
        asked.append(given)
        until = dt.datetime.fromtimestamp(clock.now_ms() / 1000 + 3600, dt.UTC)
        return {"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": until}}

    vendor = FileVendor(StsVendor(assume, ROLE, clock, FakeIds()))
    (first,) = vendor.vend(PLACE, "READ")
    assert first.config["s3.session-token"] == "t" and first.expires == clock.now_ms() + 3_600_000
    assert vendor.vend(PLACE, "READ") == (first,) and len(asked) == 1
    vendor.vend(PLACE, "READ_WRITE")
    assert len(asked) == 2
    clock.now += 2_699_000
    assert vendor.vend(PLACE, "READ") == (first,) and len(asked) == 2
    clock.now += 1_000
    (second,) = vendor.vend(PLACE, "READ")
    assert len(asked) == 3 and asked[0]["DurationSeconds"] == 3600
    assert second.expires == clock.now_ms() + 3_600_000


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "AssumeRole"), "cannot be assumed (AccessDenied)"),
        (ClientError({"Error": {"Code": "Throttling"}}, "AssumeRole"), "could not be asked (Throttling)"),
        (EndpointConnectionError(endpoint_url="https://sts"), "could not be asked"),
    ],
)
def test_a_role_that_cannot_be_assumed_is_told_from_an_issuer_that_does_not_answer(error: Exception, said: str) -> None:
    def assume(**given: Any) -> Any:
        raise error

    with pytest.raises(StorageFault) as refused:
        StsVendor(assume, ROLE, FakeClock(), FakeIds()).vend(PLACE, "READ")
    assert refused.value.message.endswith(said)
    assert ("docs/deploy.md" in str(refused.value.remedy)) == ("assumed" in said)


def test_a_session_is_of_the_partition_that_its_role_is_in() -> None:
    asked: list[dict[str, Any]] = []

    def assume(**given: Any) -> Any:
        asked.append(given)
        raise RuntimeError("enough")

    with pytest.raises(StorageFault):
        StsVendor(assume, "arn:aws-cn:iam::1:role/x", FakeClock(), FakeIds()).vend(PLACE, "READ")
    resources = [one["Resource"] for one in json.loads(asked[0]["Policy"])["Statement"]]
    assert resources == ["arn:aws-cn:s3:::lake", "arn:aws-cn:s3:::lake/main/sales/t1/*"]


def test_without_an_issuer_there_are_no_keys() -> None:
    def broken(**given: Any) -> Any:
        raise RuntimeError("down")

    with pytest.raises(StorageFault):
        StsVendor(broken, ROLE, FakeClock(), FakeIds()).vend(PLACE, "READ")
    with pytest.raises(PermissionDenied):
        FileVendor().vend(PLACE, "READ")
    assert FileVendor().vend("file:///x", "READ") == ()
    (found,) = FileVendor(StaticVendor(Keys("a", "s"), FakeClock())).vend(PLACE, "READ")
    assert "s3.session-token" not in found.config  # members that do not apply are left out, never null
