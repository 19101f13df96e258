"""I3: requests with a key against the emulated DynamoDB: their rows are stored, found again, and
expire."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.support.iceberg.client import SCHEMA

if TYPE_CHECKING:
    from turnstile_server import Server


def test_i3_a_request_sent_again_is_applied_once(server: Server, namespace: str) -> None:
    path = f"/iceberg/v1/main/namespaces/{namespace}/tables"
    key = {"Idempotency-Key": str(uuid.uuid4())}
    with server.client() as http:
        first = http.post(path, json={"name": "t", "schema": SCHEMA}, headers=key)
        again = http.post(path, json={"name": "t", "schema": SCHEMA}, headers=key)
        assert (first.status_code, again.status_code) == (200, 200), again.text
        assert again.json() == first.json()
        assert http.post(path, json={"name": "t", "schema": SCHEMA}).status_code == 409
        taken = {"Idempotency-Key": str(uuid.uuid4())}
        refusals = [http.post(path, json={"name": "t", "schema": SCHEMA}, headers=taken) for _ in range(2)]
        assert [one.status_code for one in refusals] == [409, 409] and refusals[0].json() == refusals[1].json()
