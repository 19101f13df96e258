"""What unmodified clients turned out to need, without the clients: ``tests/clients`` has them."""

from __future__ import annotations

import pytest

from tests.support.fakes import delta
from tests.support.unity import FIXED, SCHEMA, T1, Unity, metadata, protocol, refused

POLICY = "delta.checkpointPolicy"


@pytest.fixture
def unity() -> Unity:
    return Unity()


def zero_with(unity: Unity, **changed: str | None) -> dict[str, object]:
    """A staged table whose version 0 has the contract's properties but for these; the request that
    registers it."""
    staged = unity.stage()
    described = metadata(**{"io.unitycatalog.tableId": staged["table-id"]})
    config = described["metaData"]["configuration"] | changed
    described["metaData"]["configuration"] = {key: value for key, value in config.items() if value is not None}
    info = delta.info("create", unity.world.clock.now_ms(), "CREATE TABLE")
    content = delta.lines(info, protocol(), described)
    unity.write(staged["location"], f"_delta_log/{0:020d}.json", content)
    return unity.create_body(staged)


def test_a_checkpoint_policy_that_only_the_request_has_is_kept_beside_the_log(unity: Unity) -> None:
    """delta-kernel-rs sends it because the contract requires it, and cannot write it into version
    0."""
    made = unity.post(f"{SCHEMA}/tables", zero_with(unity, **{POLICY: None}))
    assert made.status == 200, made.text
    assert made.json["metadata"]["properties"][POLICY] == "v2"
    assert unity.update(unity.commit(1)).status == 200
    assert unity.get(T1).json["metadata"]["properties"][POLICY] == "v2"


def test_a_checkpoint_policy_that_the_log_contradicts_is_refused(unity: Unity) -> None:
    answer = unity.post(f"{SCHEMA}/tables", zero_with(unity, **{POLICY: "classic"}))
    assert POLICY in refused(answer, 400, "InvalidParameterValueException")["message"]


@pytest.mark.parametrize("key", sorted(FIXED.keys() - {POLICY}))
def test_every_other_property_of_delta_must_be_in_the_log(unity: Unity, key: str) -> None:
    refused(unity.post(f"{SCHEMA}/tables", zero_with(unity, **{key: None})), 400, "InvalidParameterValueException")
