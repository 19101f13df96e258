"""Requests with an Idempotency-Key change something once, whatever becomes of their answers
(I3)."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from tests.support.faults import Crash, Faulty
from tests.support.functions import Answer
from tests.support.iceberg.client import (
    MAIN,
    SALES,
    SCHEMA,
    T1,
    VIEW,
    Iceberg,
    add_snapshot,
    at_ref,
    refused,
    set_properties,
    set_ref,
)

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create("t1")
    return made


def keyed(client: Iceberg, method: str, path: str, body: Any = None, key: str = KEY, **more: Any) -> Answer:
    return client.call(method, path, body, headers={"Idempotency-Key": key}, **more)


def append(id: int, parent: int | None = None) -> dict[str, Any]:
    return {"requirements": [at_ref(parent)], "updates": [add_snapshot(id, parent, id), set_ref(id)]}


def rename(to: str) -> dict[str, Any]:
    name = {"namespace": ["sales"], "name": to}
    return {"source": {"namespace": ["sales"], "name": "t1"}, "destination": name}


CHANGES: dict[str, tuple[str, str, Any]] = {
    "namespace": ("POST", f"{MAIN}/namespaces", {"namespace": ["n"], "properties": {"a": "1"}}),
    "properties": ("POST", f"{SALES}/properties", {"updates": {"a": "1"}}),
    "create": ("POST", f"{SALES}/tables", {"name": "t2", "schema": SCHEMA}),
    "commit": ("POST", T1, append(1)),
    "transaction": ("POST", f"{MAIN}/transactions/commit",
                    {"table-changes": [{"identifier": {"namespace": ["sales"], "name": "t1"}, **append(1)}]}),
    "rename": ("POST", f"{MAIN}/tables/rename", rename("t9")),
    "drop": ("DELETE", T1, None),
    "view": ("POST", f"{SALES}/views", VIEW),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_i3_a_request_sent_again_changes_nothing_more_and_is_answered_the_same(client: Iceberg, what: str) -> None:
    method, path, body = CHANGES[what]
    first = keyed(client, method, path, body)
    assert first.status in (200, 204), first.text
    seq = client.world.refs.rows["test/catalog/main"]["seq"]
    files = client.files()
    again = keyed(client, method, path, body)
    assert (again.status, again.json) == (first.status, first.json)
    assert client.world.refs.rows["test/catalog/main"]["seq"] == seq and client.files() == files


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_i3_a_commit_repeated_after_any_fault_is_applied_once(client: Iceberg, at: int, how: Any) -> None:
    client.app.use_world(Faulty(client.world, at, how).world)
    answer = None
    with contextlib.suppress(Crash):
        answer = keyed(client, "POST", T1, append(1))
    client.app.use_world(client.world)
    again = keyed(client, "POST", T1, append(1))
    assert again.status == 200, again.text
    assert answer is None or answer.status >= 500 or answer.json == again.json
    said = client.load()["metadata"]
    assert said["current-snapshot-id"] == 1 and len(said["metadata-log"]) == 1


def test_i3_without_the_key_a_commit_repeated_is_a_conflict(client: Iceberg) -> None:
    assert client.post(T1, append(1)).status == 200
    refused(client.post(T1, append(1)), 409, "CommitFailedException")


def test_i3_a_final_refusal_stays_one_whatever_happens_meanwhile(client: Iceberg) -> None:
    body = {"name": "t1", "schema": SCHEMA}
    first = refused(keyed(client, "POST", f"{SALES}/tables", body), 409, "AlreadyExistsException")
    client.delete(T1)
    assert refused(keyed(client, "POST", f"{SALES}/tables", body), 409, "AlreadyExistsException") == first
    assert keyed(client, "POST", f"{SALES}/tables", body, KEY.replace("0", "1")).status == 200


def test_i3_what_failed_for_the_moment_may_succeed_later(client: Iceberg) -> None:
    broken = Faulty(client.world, 1, "unsent")
    client.app.use_world(broken.world)
    refused(keyed(client, "POST", T1, append(1)), 503, "ServiceUnavailableException")
    client.app.use_world(client.world)
    assert keyed(client, "POST", T1, append(1)).status == 200


def test_i3_a_key_belongs_to_one_request(client: Iceberg) -> None:
    assert keyed(client, "POST", T1, append(1)).status == 200
    refused(keyed(client, "POST", T1, append(2, 1)), 422, "UnprocessableEntityException")
    refused(keyed(client, "DELETE", T1), 422, "UnprocessableEntityException")
    assert keyed(client, "POST", T1, append(2, 1), KEY.replace("0", "1")).status == 200


def test_what_changes_nothing_is_remembered_too(client: Iceberg) -> None:
    nothing = {"requirements": [], "updates": []}
    assert keyed(client, "POST", T1, nothing).status == 200
    refused(keyed(client, "POST", T1, append(1)), 422, "UnprocessableEntityException")


@pytest.mark.parametrize("key", ["", "x", KEY[:-1], KEY + "0"])
def test_a_key_that_is_none_is_refused(client: Iceberg, key: str) -> None:
    before = client.heads()
    refused(keyed(client, "POST", T1, append(1), key), 400, "BadRequestException")
    assert client.heads() == before


def test_i3_the_same_request_from_many_threads_is_one(client: Iceberg) -> None:
    body = {"requirements": [], "updates": [set_properties(a="1"), add_snapshot(1), set_ref(1)]}
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(keyed(client, "POST", T1, body))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["metadata-location"] for answer in answers}) == 1
    location = client.load()["metadata"]["location"]
    assert len([path for path in client.files() if path.startswith(location)]) == 2


def test_rows_of_requests_expire(client: Iceberg) -> None:
    keyed(client, "POST", T1, append(1))
    (row,) = (row for row in client.world.refs.rows.values() if row["kind"] == "request")
    assert row["expires"] * 1000 - row["created"] >= 30 * 60 * 1000, "not before the lifetime that clients are told"
