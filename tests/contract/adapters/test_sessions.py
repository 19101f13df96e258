"""Sessions of the role for clients' keys, by two emulations of STS: requests are accepted and
answers are used (I12)."""

from __future__ import annotations

import pytest

from tests.support.fakes.storage import FakeIds
from tests.support.store.backends import MINISTACK, MOTO
from tests.support.store.servers import Servers
from turnstile.adapters.clients import make_client
from turnstile.adapters.credentials import StsCredentialVendor
from turnstile.adapters.machine import SystemClock

ROLE = "arn:aws:iam::123456789012:role/vending"
LOCATION = "s3://lake/warehouse/t"


@pytest.mark.parametrize("name", [MINISTACK, MOTO])
@pytest.mark.parametrize("principal", ["", "ada", "ada lovelace <ada@example.com>", "x" * 300])
def test_i12_a_session_is_named_for_its_principal_and_ends(name: str, principal: str, servers: Servers) -> None:
    client = make_client("sts", servers.get(name).url)
    clock = SystemClock()
    vendor = StsCredentialVendor(client.assume_role, ROLE, clock, FakeIds(), who=lambda: principal)
    (read,) = vendor.vend(LOCATION, "READ", [f"{LOCATION}/a.parquet"])
    (write,) = vendor.vend(LOCATION, "READ_WRITE")
    assert read.config["s3.access-key-id"] != write.config["s3.access-key-id"]
    assert all(read.config[f"s3.{member}"] for member in ("access-key-id", "secret-access-key", "session-token"))
    left_ms = read.expires_ms - clock.now_ms()
    assert 0 < left_ms <= 3_660_000
