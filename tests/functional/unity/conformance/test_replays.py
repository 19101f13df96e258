"""The Delta API: a commit that is sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.conformance.actions import CONFLICT, INVALID, config, etag, properties, sets
from tests.support.conformance.cases import covers
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.unity import T1, Unity, metadata, published, refused
from turnstile.store.core.errors import StorageFault, Throttled


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


# -- replays ----------------------------------------------------------------------------------------------------------


@covers(updateTable=200)
def test_i3_a_replay_is_a_no_op_of_the_whole_request(unity: Unity) -> None:
    first = unity.commit(1)
    assert unity.update(first).status == 200
    unity.update(unity.commit(2))
    before = unity.rows()
    answer = unity.update(first, published(0), sets(other="1"), etag="stale")
    assert (answer.status, answer.json["latest-table-version"]) == (200, 2)
    assert "other" not in properties(answer)
    assert unity.rows() == before


@covers(updateTable=200)
def test_i3_a_replay_of_a_metadata_change_is_a_no_op_too(unity: Unity) -> None:
    change = sets(mine="1")
    old = etag(unity.get(T1))
    proposed = unity.commit(1, metadata(**config(unity, mine="1")))
    assert unity.update(proposed, change, etag=old).status == 200
    answer = unity.update(proposed, change, etag=old)
    assert properties(answer)["mine"] == "1" and answer.json["latest-table-version"] == 1


@covers(updateTable=200)
def test_i3_a_replay_is_answered_by_the_row_that_decided_it_without_another_read(unity: Unity) -> None:
    proposed = unity.commit(1)
    unity.update(proposed)
    unity.world.refs.requests.clear()
    assert unity.update(proposed).status == 200
    assert len(unity.world.refs.requests) == 2


@covers(updateTable=200)
def test_i3_a_replay_long_after_publication_is_known_by_the_index(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    for version in range(2, 9):
        unity.update(unity.commit(version))
        unity.publish()
    assert unity.head().tail_from > 1
    assert unity.update(first, etag="stale").json["latest-table-version"] == 8
    unity.world.storages.files.pop(
        f"{unity.head().location}/_delta_log/_staged_commits/{first['commit']['file-name']}"
    )  # gc took it meanwhile
    assert unity.update(first).status == 200


@covers(updateTable=(200, 409, 500))
def test_i3_contents_are_compared_where_names_are_forgotten(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    for version in range(2, 9):
        unity.update(unity.commit(version))
        unity.publish()
    objs = unity.world.objs.rows
    for key in [key for key in objs if "identity/" in str(key)]:
        objs.pop(key)
    assert unity.update(first).status == 200
    refused(unity.update(unity.commit(1, txn="other")), 409, CONFLICT)
    name = first["commit"]["file-name"]
    staged = f"{unity.head().location}/_delta_log/_staged_commits/{name}"
    content = unity.world.storages.files.pop(staged)
    refused(unity.update(first), 500, "CommitStateUnknownException")
    unity.world.storages.files[staged] = content
    for fault in (StorageFault("away"), Throttled()):  # neither may say that nothing was applied
        with pytest.MonkeyPatch.context() as patch:
            real = FakeStorage.read
            away = {"1.json": raising(fault), "staged": real}
            patch.setattr(
                FakeStorage,
                "read",
                lambda store, path, limit=None, away=away: away["staged" if "_staged" in path else "1.json"](
                    store, path, limit
                ),
            )
            refused(unity.update(first), 500, "CommitStateUnknownException")
    unity.world.storages.files.pop(f"{unity.head().location}/_delta_log/{1:020d}.json")
    refused(unity.update(first), 500, "CommitStateUnknownException")


@covers(updateTable=(200, 400))
def test_i3_a_transaction_that_is_another_version_already_is_final(unity: Unity) -> None:
    """Rebasing it would write it twice, so it is no conflict."""
    unity.update(unity.commit(1, txn="mine"))
    refused(unity.update(unity.commit(2, txn="mine")), 400, INVALID)
    assert unity.get(T1).json["latest-table-version"] == 1


@covers(updateTable=(200, 500))
@pytest.mark.parametrize("fault", [StorageFault("away"), Throttled()])
def test_i3_what_fails_after_a_commit_was_accepted_is_unknown_and_not_throttled(unity: Unity, fault: Exception) -> None:
    """The answer lists an inline commit whose file cannot be written; "try again, nothing was
    applied" would be a lie."""
    content = delta.append("inline", unity.world.clock.now_ms()).decode()
    inline = {"version": 1, "inline": {"content": content}}
    assert unity.hot.post(f"/v1/tables/{unity.uuid}/commits", inline).status == 200
    location = unity.head().location
    proposed = {"version": 2, "timestamp": unity.world.clock.now_ms(), "file-name": "2.json", "file-size": 1,
                "file-modification-timestamp": 1}  # fmt: skip
    staged = delta.append("staged", proposed["timestamp"])
    unity.write(location, "_delta_log/_staged_commits/2.json", staged)
    update = {"action": "add-commit", "commit": proposed | {"file-size": len(staged)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeStorage, "put_if_absent", raising(fault))
        refused(unity.update(update, uuid=unity.head().table_id), 500, "CommitStateUnknownException")
    assert unity.head().latest == 2
    assert unity.update(update).json["latest-table-version"] == 2


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail
