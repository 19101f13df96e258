"""Appends of clients that come at the same time, over HTTP: one metadata file and one swap, each
with its own answer (I21)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.support.functions import Answer
from tests.support.iceberg.appends import append, rows_of
from tests.support.iceberg.client import T1, Iceberg, at_ref, refused
from turnstile.iceberg.core.metadata import TableMetadata, parse
from turnstile.store.core.writes import Write


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create("t1")
    return made


def at_once(client: Iceberg, *bodies: dict[str, Any], keys: tuple[str, ...] = ()) -> list[Answer]:
    """Sends all ``bodies``; the swap of the first waits until the others are in the line behind
    it."""
    answers: dict[int, Answer] = {}
    refs = client.world.refs
    left = [len(bodies)]
    write = refs.write
    transact = refs.transact

    def wait(keys: list[str]) -> None:
        lines = client.services.append_queue._lines
        while "test/catalog/main" in keys and sum(len(line.waiting) for line in list(lines.values())) < left[0]:
            threading.Event().wait(0.001)
        if "test/catalog/main" in keys:
            left[0] = 0

    def waiting(given: Write) -> Any:
        wait([given.key])
        return write(given)

    def waiting_for_all(given: Sequence[Write], token: str) -> Any:
        wait([one.key for one in given])
        return transact(given, token)

    def send(position: int) -> None:
        headers = {"Idempotency-Key": keys[position]} if keys else None
        answers[position] = client.http.call("POST", T1, json_body=bodies[position], headers=headers)

    # type: ignore[method-assign]
    refs.write = waiting
    refs.transact = waiting_for_all
    threads = [threading.Thread(target=send, args=(position,)) for position in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # type: ignore[method-assign]
    refs.write = write
    refs.transact = transact
    return [answers[position] for position in range(len(bodies))]


def metadata(client: Iceberg) -> TableMetadata:
    return parse(msgspec.json.encode(client.load()["metadata"]))


def commit(client: Iceberg, base: TableMetadata, id: int, **members: Any) -> dict[str, Any]:
    """The body of an append whose files are there."""
    files = client.world.storages.files
    now_ms = client.world.clock.now_ms()
    made = append(lambda path, raw: files.update({path: (raw, now_ms)}), lambda path: files[path][0], base, id, now_ms)
    snapshot = msgspec.to_builtins(msgspec.structs.replace(made, **members))
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, ref]
    return {"requirements": [at_ref(made.parent_snapshot_id)], "updates": updates}


def ids(client: Iceberg) -> list[int]:
    return sorted(one["snapshot-id"] for one in client.load()["metadata"]["snapshots"])


def test_i21_appends_that_come_while_one_is_applied_share_the_next_swap(client: Iceberg) -> None:
    base = metadata(client)
    files = client.files()
    seq = client.world.refs.rows["test/catalog/main"]["seq"]
    answers = at_once(client, *(commit(client, base, id) for id in range(1, 7)))
    assert [each.status for each in answers] == [200] * 6
    assert client.world.refs.rows["test/catalog/main"]["seq"] == seq + 2, "one alone, and five together"
    assert len(client.files() - files) == 2
    after = metadata(client)
    assert ids(client) == [1, 2, 3, 4, 5, 6]
    rows = rows_of(lambda path: client.world.storages.files[path][0], after.snapshots[-1])
    assert sorted(rows.values()) == [1, 2, 3, 4, 5, 6]
    for id, each in enumerate(answers, 1):
        assert id in [one["snapshot-id"] for one in each.json["metadata"]["snapshots"]]
        stored = client.world.storages.files[each.json["metadata-location"]][0]
        assert each.json["metadata"] == msgspec.json.decode(stored)


def test_i21_one_that_is_refused_is_told_why_and_the_others_are_applied(client: Iceberg) -> None:
    base = metadata(client)
    bodies = [commit(client, base, id) for id in (1, 2, 3, 4)]
    bodies[2]["requirements"] = [at_ref(99)]
    first, *answers = at_once(client, *bodies)
    assert first.status == 200
    assert sorted(each.status for each in answers) == [200, 200, 409]
    refused(answers[1], 409, "CommitFailedException")
    assert ids(client) == [1, 2, 4]


def test_i3_keys_of_members_are_remembered_and_replayed(client: Iceberg) -> None:
    base = metadata(client)
    bodies = [commit(client, base, id) for id in (1, 2, 3)]
    keys = tuple(str(uuid.UUID(int=7 << 76 | 1 << 63 | n)) for n in range(3))
    seq = client.world.refs.rows["test/catalog/main"]["seq"]
    assert [each.status for each in at_once(client, *bodies, keys=keys)] == [200] * 3
    assert client.world.refs.rows["test/catalog/main"]["seq"] == seq + 2
    for body, key in zip(bodies, keys, strict=True):
        again = client.post(T1, body, headers={"Idempotency-Key": key})
        assert again.status == 200
    assert ids(client) == [1, 2, 3]
    assert client.world.refs.rows["test/catalog/main"]["seq"] == seq + 2


def test_appends_to_a_table_that_merges_none_are_refused_but_one(client: Iceberg) -> None:
    client.commit({"action": "set-properties", "updates": {"turnstile.merge-appends": "false"}})
    base = metadata(client)
    answers = at_once(client, *(commit(client, base, id) for id in (1, 2, 3)))
    assert sorted(each.status for each in answers) == [200, 409, 409]
    assert len(ids(client)) == 1
