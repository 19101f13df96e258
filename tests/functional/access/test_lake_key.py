"""A lake encrypted with the customer's KMS key: sessions of the vending role may use it, through S3
alone (I12)."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Literal

import pytest

from tests.support.fakes.world import fake_world
from turnstile.adapters import opening as clients
from turnstile.adapters.credentials import session_policy
from turnstile.api import settings as shared_settings

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ROLE = "arn:aws:iam::123456789012:role/lake"
PLACE = "s3://lake/main/sales/t1"


def of_key(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """The statements about KMS."""
    return [one for one in policy["Statement"] if any(action.startswith("kms:") for action in one["Action"])]


@pytest.mark.parametrize(
    ("operation", "uses"), [("READ", ["kms:Decrypt"]), ("READ_WRITE", ["kms:Decrypt", "kms:GenerateDataKey"])]
)
def test_i12_a_session_uses_the_key_for_what_s3_lets_it_do(
    operation: Literal["READ", "READ_WRITE"], uses: list[str]
) -> None:
    (statement,) = of_key(session_policy(PLACE, operation, key=KEY))
    assert (statement["Effect"], statement["Action"], statement["Resource"]) == ("Allow", uses, KEY)
    assert statement["Condition"] == {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}
    plain = session_policy(PLACE, operation)
    assert of_key(plain) == []
    assert [one for one in session_policy(PLACE, operation, key=KEY)["Statement"] if one != statement] == plain[
        "Statement"
    ]


def test_the_keys_variable_reaches_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Sts:
        def assume_role(self, **request: Any) -> dict[str, Any]:
            asked.append(json.loads(request["Policy"]))
            ends = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
            return {
                "Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": ends}
            }

    monkeypatch.setattr(clients, "sts", Sts)
    monkeypatch.setenv("TURNSTILE_VENDING_ROLE", ROLE)
    for key in ("", KEY):
        monkeypatch.setenv("TURNSTILE_LAKE_KEY", key)
        shared_settings.vending().open(fake_world()).vend(PLACE, "READ_WRITE")
        assert [one["Resource"] for one in of_key(asked[-1])] == ([key] if key else [])


def test_the_key_leaves_room_for_locations_of_400_bytes() -> None:
    """STS takes 2,048 characters."""
    location = "s3://" + "b" * 63 + "/" + "a" * (400 - 69)
    assert len(json.dumps(session_policy(location, "READ_WRITE", key=KEY), separators=(",", ":"))) <= 2048
