"""Commits that rewrite a table beside writers that append to it: after a lost attempt a rewrite has
its turn (defect: it starved)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions import Answer
from tests.support.iceberg.client import T1, Iceberg, add_snapshot, at_ref, refused, set_ref
from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg.turns import POLL_MS, TURN_MS, begins, has_to_wait

PAUSE = "turnstile.api.iceberg.context.pause"


@pytest.fixture
def client() -> Iceberg:
    """A table with snapshot 1, and a rewrite that was computed before it and lost."""
    made = Iceberg()
    made.create("t1")
    assert append(made, 1, None).status == 200
    refused(rewrite(made, 9, None), 409, "CommitFailedException")
    return made


def write(client: Iceberg, operation: str, id: int, parent: int | None) -> Answer:
    added = add_snapshot(id, parent, (parent or 0) + 1, summary={"operation": operation})
    return client.commit(added, set_ref(id), require=[at_ref(parent)])


def append(client: Iceberg, id: int, parent: int | None) -> Answer:
    return write(client, "append", id, parent)


def rewrite(client: Iceberg, id: int, parent: int | None, operation: str = "overwrite") -> Answer:
    return write(client, operation, id, parent)


def current(client: Iceberg) -> Any:
    return client.load()["metadata"]["current-snapshot-id"]


@pytest.mark.parametrize("operation", ["overwrite", "delete", "replace"])
def test_an_append_waits_while_a_rewrite_that_lost_tries_again(
    client: Iceberg, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            assert rewrite(client, 2, 1, operation).status == 200

    monkeypatch.setattr(PAUSE, pause)
    refused(append(client, 3, 1), 409, "CommitFailedException")
    assert (waited, current(client)) == ([POLL_MS / 1000] * 3, 2)
    assert append(client, 3, 2).status == 200, "its turn is over"
    assert len(waited) == 3


def test_an_append_waits_no_longer_than_a_turn(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()
    monkeypatch.setattr(PAUSE, waited.append)
    assert append(client, 2, 1).status == 200
    assert sum(waited) * 1000 == pytest.approx(TURN_MS)


def test_a_turn_that_is_over_delays_no_other_process(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PAUSE, lambda _seconds: pytest.fail("it waited"))
    client.world.clock.now += TURN_MS
    assert append(client, 2, 1).status == 200


def test_nothing_but_snapshots_waits(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PAUSE, lambda _seconds: pytest.fail("it waited"))
    assert client.commit({"action": "set-properties", "updates": {"a": "1"}}).status == 200
    assert client.get(T1).status == 200


def test_an_append_that_lost_gets_no_turn() -> None:
    client = Iceberg()
    client.create("t1")
    assert append(client, 1, None).status == 200
    before = client.files()
    refused(append(client, 9, None), 409, "CommitFailedException")
    assert client.files() == before
    assert append(client, 2, 1).status == 200


@pytest.mark.parametrize(
    ("after_ms", "waits", "begun"),
    [(-2 * TURN_MS, False, True), (-TURN_MS, True, False), (-1, True, False), (0, False, False),
     (TURN_MS - 1, False, False), (TURN_MS, False, True)],
)  # fmt: skip
def test_a_turn_is_followed_by_a_rest_and_one_of_a_clock_ahead_counts_for_nothing(
    after_ms: int, waits: bool, begun: bool
) -> None:
    end = 1_770_000_000_000
    table = IcebergTable("t", "id", "file:///lake/t", "file", 1, turn_until=end)
    assert has_to_wait(table, appended(), end + after_ms) == waits
    assert begins(table, end + after_ms) == begun


def appended() -> list[Any]:
    from turnstile.iceberg.core import updates as u
    from turnstile.iceberg.core.snapshots import Snapshot

    return [u.AddSnapshot(Snapshot(1, 1, None, 1, "list", {"operation": "append"}))]
