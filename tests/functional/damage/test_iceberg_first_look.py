"""A server's first commit of an Iceberg table or view is not taken where the lake has metadata
files after the one that its store names (I1, I2)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.fakes.storage import FakeStorage
from tests.support.functions import Answer
from tests.support.gc import days
from tests.support.iceberg.client import MAIN, SALES, T1, VIEW, Iceberg, refused, set_properties
from turnstile.catalog.history.core import AsOf
from turnstile.store.core.errors import StorageFault


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def started(client: Iceberg) -> Iceberg:
    """A process of a server that has just started."""
    client.services = client.app.use_world(client.world, looks_at_logs=True)
    return client


def backup(client: Iceberg) -> dict[str, Any]:
    return copy.deepcopy(client.world.refs.rows)


def restore(client: Iceberg, rows: dict[str, Any]) -> None:
    client.world.refs.rows.clear()
    client.world.refs.rows.update(copy.deepcopy(rows))


def commits(client: Iceberg, count: int = 1, path: str = T1) -> Answer:
    answer = None
    for number in range(count):
        days(client.world, 0.01)
        answer = client.commit(set_properties(a=f"{client.world.clock.now}-{number}"), path=path)
    assert answer is not None
    return answer


def behind(client: Iceberg, lost: int) -> list[str]:
    """Restores an older store; returns the metadata files that it does not know, in order."""
    client.create()
    commits(client)
    rows = backup(client)
    known = client.files()
    assert commits(client, lost).status == 200
    restore(client, rows)
    return sorted(client.files() - known)


@pytest.mark.parametrize("lost", [2, 3, 7])
def test_i1_i2_a_store_behind_its_lake_takes_no_commit_until_the_latest_file_is_registered(
    client: Iceberg, lost: int
) -> None:
    files = behind(client, lost)
    before = client.heads()
    started(client)
    for _ in range(3):
        message = refused(commits(client), 409, "CommitFailedException")
        assert files[1].rpartition("/")[2] in message and "restored from a backup" in message
        assert "register" in message
    assert client.heads() == before and len(client.files()) == 2 + lost, "nothing is left of it"
    assert client.load()["metadata-location"] not in files, "reads go on"
    register = {"name": "t1", "metadata-location": files[-1], "overwrite": True}
    assert client.post(f"{SALES}/register", register).status == 200
    taken = commits(client)
    assert taken.status == 200 and f"/{lost + 2:05d}-" in taken.json["metadata-location"]
    assert commits(started(client)).status == 200


V1 = f"{SALES}/views/v1"


def replaced(client: Iceberg, value: str) -> Answer:
    """The answer to a change of the view."""
    days(client.world, 0.01)
    return client.post(V1, {"requirements": [], "updates": [set_properties(a=value)]})


@pytest.mark.parametrize("lost", [2, 3])
@pytest.mark.parametrize("path", ["", "s3://lake/warehouse/elsewhere"])
def test_i1_i2_a_view_of_a_store_behind_its_lake_takes_no_commit_until_its_latest_file_has_the_name(
    client: Iceberg, lost: int, path: str
) -> None:
    properties = {"write.metadata.path": path} if path else {}
    assert client.post(f"{SALES}/views", {**VIEW, "properties": properties}).status == 200
    assert replaced(client, "kept").status == 200
    rows = backup(client)
    known = client.files()
    for number in range(lost):
        assert replaced(client, f"lost {number}").status == 200
    restore(client, rows)
    files = sorted(client.files() - known)
    started(client)
    message = refused(replaced(client, "refused"), 409, "CommitFailedException")
    assert "view main.sales.v1 has the metadata file metadata/00003-" in message
    assert "under another name" in message and client.files() == known | set(files)
    assert client.get(V1).json["metadata"]["properties"]["a"] == "kept", "reads go on"
    registered = client.post(f"{SALES}/register-view", {"name": "v2", "metadata-location": files[-1]})
    assert registered.status == 200
    assert client.delete(V1).status == 204
    names = {name: {"namespace": ["sales"], "name": view} for name, view in (("source", "v2"), ("destination", "v1"))}
    assert client.post(f"{MAIN}/views/rename", names).status == 204
    assert replaced(client, "taken").status == 200
    assert client.get(V1).json["metadata"]["properties"]["a"] == "taken"
    assert replaced(started(client), "and again").status == 200


def test_a_view_that_no_other_process_has_changed_is_looked_at_once(client: Iceberg) -> None:
    assert client.post(f"{SALES}/views", VIEW).status == 200
    started(client)
    client.world.storages.requests.clear()
    for value in ("1", "2"):
        assert replaced(client, value).status == 200
    assert client.world.storages.requests.count("list") == 1


def test_without_the_look_a_second_history_begins_which_is_what_it_is_for(client: Iceberg) -> None:
    files = behind(client, 2)
    assert commits(client).status == 200
    assert client.load()["metadata-location"] not in files


def test_i1_other_tables_of_a_store_behind_its_lake_are_committed(client: Iceberg) -> None:
    client.create("t2")
    behind(client, 2)
    started(client)
    assert commits(client, path=f"{SALES}/tables/t2").status == 200
    refused(commits(client), 409, "CommitFailedException")
    both = {
        "table-changes": [
            {
                "identifier": {"namespace": ["sales"], "name": name},
                "requirements": [],
                "updates": [set_properties(b="1")],
            }
            for name in ("t2", "t1")
        ]
    }
    refused(client.post(f"{MAIN}/transactions/commit", both), 409, "CommitFailedException")


def test_a_file_of_a_writer_that_died_before_its_swap_stops_no_commit(client: Iceberg) -> None:
    behind(client, 1)
    assert commits(started(client), 3).status == 200
    assert commits(started(client)).status == 200


def test_a_table_is_looked_at_once_for_each_process_with_one_read_and_one_listing(client: Iceberg) -> None:
    client.create()
    commits(client)

    def cost() -> tuple[list[str], list[str]]:
        client.world.refs.requests.clear()
        client.world.storages.requests.clear()
        assert commits(client).status == 200
        return list(client.world.refs.requests), list(client.world.storages.requests)

    plain = cost()
    started(client)
    first = cost()
    assert first[0].count("read") - plain[0].count("read") == 1
    assert first[1].count("list") == 1 and plain[1].count("list") == 0
    assert cost() == plain


def test_a_table_of_a_catalog_that_was_reset_takes_commits(client: Iceberg) -> None:
    client.create()
    commits(client)
    head = client.world.refs.rows[client.world.space.catalog("main")]["head"]
    commits(client, 3)
    days(client.world, 0.01)
    client.services.open_catalog.resetter.reset("main", AsOf(head=head))
    assert commits(started(client)).status == 200


def test_files_that_another_catalog_has_left_stop_no_commit_of_a_table_registered_at_an_older_one(
    client: Iceberg,
) -> None:
    client.create()
    commits(client, 4)
    older = sorted(client.files())[1]
    days(client.world, 0.1)
    register = {"name": "t1", "metadata-location": older, "overwrite": True}
    assert client.post(f"{SALES}/register", register).status == 200
    assert commits(started(client)).status == 200


def test_i1_what_another_process_commits_during_the_look_is_no_sign(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create()
    commits(client)
    other = Iceberg(beside=client)
    started(client)
    real = FakeStorage.list
    left = [2]

    def overtaken(storage: FakeStorage, prefix: str, after: str = "") -> Any:
        if left[0]:
            left[0] -= 1
            assert commits(other, 2).status == 200
        return real(storage, prefix, after)

    monkeypatch.setattr(FakeStorage, "list", overtaken)
    assert commits(client).status == 200 and left == [0]


def test_a_lake_that_does_not_answer_refuses_the_commit_and_is_asked_again(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create()
    started(client)

    def fails(_storage: FakeStorage, prefix: str, _after: str = "") -> Any:
        raise StorageFault(f"{prefix} cannot be listed")

    with monkeypatch.context() as broken:
        broken.setattr(FakeStorage, "list", fails)
        refused(commits(client), 409, "CommitFailedException")
    assert commits(client).status == 200


def test_a_first_commit_of_a_missing_table_says_so(client: Iceberg) -> None:
    started(client)
    refused(commits(client), 404, "NoSuchTableException")
