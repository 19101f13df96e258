"""Commits of one table and of several through the real handler, concurrent ones and failing ones
included (I3, I9)."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.storage import FakeStorage
from tests.support.faults import Crash, Faulty
from tests.support.functions import Answer
from tests.support.iceberg.client import (
    MAIN,
    SALES,
    SCHEMA,
    T1,
    Iceberg,
    add_snapshot,
    at_ref,
    creation,
    refused,
    set_properties,
    set_ref,
)
from tests.support.queries import finder
from turnstile.api.iceberg.errors import render
from turnstile.iceberg.core.draft import NEW_TABLE_DEFAULTS
from turnstile.iceberg.expiry import Expiry
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.errors import OutcomeUnknown, ServerClosed, StorageFault
from turnstile.store.core.writes import Write
from turnstile.store.ports import Rejected


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create("t1")
    made.create("t2")
    return made


T2 = f"{SALES}/tables/t2"
COMMIT = f"{MAIN}/transactions/commit"


def change(name: str, *updates: Any, require: Any = ()) -> dict[str, Any]:
    identifier = {"namespace": ["sales"], "name": name}
    return {"identifier": identifier, "requirements": list(require), "updates": list(updates)}


def between(client: Iceberg, act: Callable[[Iceberg], object], times: int = 1) -> None:
    """Let ``act`` happen, in another sandbox, just before the next swap of the catalog's HEAD."""
    refs = client.world.refs
    left = [times]
    other = Iceberg(beside=client)
    acting = [False]

    def interrupted(swap: Callable[..., Any]) -> Callable[..., Any]:
        def act_first(written: Any, *token: str) -> Any:
            keys = {write.key for write in ([written] if isinstance(written, Write) else written)}
            if left[0] and not acting[0] and "test/catalog/main" in keys:
                left[0] -= 1
                acting[0] = True
                act(other)
                acting[0] = False
            return swap(written, *token)

        return act_first

    refs.write = interrupted(refs.write)  # type: ignore[method-assign]
    refs.transact = interrupted(refs.transact)  # type: ignore[method-assign]


def properties(client: Iceberg, path: str) -> dict[str, str]:
    of_table = client.load(path)["metadata"]["properties"]
    return {name: value for name, value in of_table.items() if name not in NEW_TABLE_DEFAULTS}


def test_a_commit_is_a_new_file_and_one_swap(client: Iceberg) -> None:
    client.load()
    client.world.refs.requests.clear()
    client.world.storages.requests.clear()
    answer = client.commit(add_snapshot(1), set_ref(1), require=[at_ref(None)])
    assert answer.status == 200, answer.text
    assert client.world.refs.requests == ["read", "write"] and client.world.storages.requests == ["put"]
    file = answer.json["metadata-location"]
    said = answer.json["metadata"]
    assert file.rpartition("/")[2].startswith("00001-") and json.loads(client.world.storages.files[file][0]) == said
    assert said["metadata-log"][0]["metadata-file"].rpartition("/")[2].startswith("00000-")
    client.world.refs.requests.clear()
    assert client.load() == {**answer.json, "config": {}} and client.world.refs.requests == ["read"]


def test_what_a_request_costs_when_warm(client: Iceberg) -> None:
    """As docs/iceberg.md says it: requests to refs, to objs and to storage."""
    client.create("t3")
    for name in ("t1", "t2", "t3"):
        client.load(f"{SALES}/tables/{name}")
    refs = client.world.refs.requests
    objs = client.world.objs.requests
    storage = client.world.storages.requests

    def cost(act: Callable[[], Answer], status: int) -> tuple[int, int, int]:
        for counted in (refs, objs, storage):
            counted.clear()
        assert act().status == status
        return len(refs), len(objs), len(storage)

    tag = client.get(T1).headers["etag"]
    assert cost(lambda: client.get(T1), 200) == (1, 0, 0)
    assert cost(lambda: client.get(T1, headers={"If-None-Match": tag}), 304) == (1, 0, 0)
    assert cost(lambda: client.commit(set_properties(a="1")), 200) == (2, 1, 1)
    changes = [change(name, set_properties(a="2")) for name in ("t1", "t2", "t3")]
    assert cost(lambda: client.post(COMMIT, {"table-changes": changes}), 204) == (2, 1, 3)
    assert cost(lambda: client.post(f"{SALES}/tables", {"name": "t4", "schema": SCHEMA}), 200) == (4, 1, 1)


def test_a_commit_that_changes_nothing_writes_nothing(client: Iceberg) -> None:
    before = client.heads()
    files = client.files()
    answer = client.commit(set_properties())
    assert answer.status == 200 and client.heads() == before and client.files() == files


def test_i9_changes_of_two_tables_never_fail_each_other(client: Iceberg) -> None:
    between(client, lambda other: other.commit(set_properties(b="2"), path=T2))
    files = len(client.files())
    assert client.commit(add_snapshot(1), set_ref(1), require=[at_ref(None)]).status == 200
    assert properties(client, T2) == {"b": "2"} and client.load()["metadata"]["current-snapshot-id"] == 1
    assert len(client.files()) == files + 2  # what was written for the first attempt was used in the second


def test_i9_changes_of_one_table_that_do_not_contradict_each_other_both_count(client: Iceberg) -> None:
    between(client, lambda other: other.commit(set_properties(b="2")))
    assert client.commit(set_properties(a="1")).status == 200
    assert properties(client, T1) == {"a": "1", "b": "2"}
    said = client.load()["metadata"]
    assert len(said["metadata-log"]) == 2
    stored = {path for path in client.files() if path.startswith(said["location"])}
    assert len(stored) == 3  # the file of the attempt that lost is gone


def test_i9_what_contradicts_a_faster_change_is_a_conflict_and_leaves_nothing(client: Iceberg) -> None:
    between(client, lambda other: other.commit(add_snapshot(2), set_ref(2), require=[at_ref(None)]))
    answer = client.commit(set_properties(a="1"), require=[at_ref(None)])
    assert "created concurrently" in refused(answer, 409, "CommitFailedException")
    assert client.load()["metadata"]["current-snapshot-id"] == 2
    location = client.load()["metadata"]["location"]
    assert len([path for path in client.files() if path.startswith(location)]) == 2


def test_a_table_that_was_dropped_meanwhile_is_missing_and_one_renamed_is_too(client: Iceberg) -> None:
    between(client, lambda other: other.delete(T1))
    refused(client.commit(set_properties(a="1")), 404, "NoSuchTableException")


def test_a_table_replaced_meanwhile_is_another_table(client: Iceberg) -> None:
    uuid = client.load()["metadata"]["table-uuid"]
    client.delete(T1)
    client.create("t1")
    answer = client.commit(set_properties(a="1"), require=[{"type": "assert-table-uuid", "uuid": uuid}])
    refused(answer, 409, "CommitFailedException")


def test_i9_a_name_that_another_took_meanwhile_is_not_taken_from_it(client: Iceberg) -> None:
    staged = client.create("t3", **{"stage-create": True})["metadata"]
    between(client, lambda other: other.create("t3"))
    files = client.files()
    t3 = f"{SALES}/tables/t3"
    answer = client.commit(*creation(staged), require=[{"type": "assert-create"}], path=t3)
    assert "table already exists: sales.t3" in refused(answer, 409, "CommitFailedException")
    assert client.load(t3)["metadata"]["table-uuid"] != staged["table-uuid"]
    assert len(client.files()) == len(files) + 1, "that of the other table"


def test_i9_a_table_is_not_created_in_a_namespace_that_was_dropped_meanwhile(client: Iceberg) -> None:
    assert client.post(f"{MAIN}/namespaces", {"namespace": ["new"]}).status == 200
    path = f"{MAIN}/namespaces/new/tables"
    before = client.files()
    staged = client.post(path, {"name": "t", "schema": SCHEMA, "stage-create": True}).json["metadata"]
    between(client, lambda other: other.delete(f"{MAIN}/namespaces/new"))
    answer = client.commit(*creation(staged), require=[{"type": "assert-create"}], path=f"{path}/t")
    refused(answer, 404, "NoSuchNamespaceException")
    assert client.files() == before


def test_i9_a_name_that_is_spelled_anew_meanwhile_stays_so(client: Iceberg) -> None:
    def respell(other: Iceberg) -> None:
        names = {
            "source": {"namespace": ["sales"], "name": "t1"},
            "destination": {"namespace": ["sales"], "name": "T1"},
        }
        assert other.post(f"{MAIN}/tables/rename", names).status == 204

    between(client, respell)
    assert client.commit(set_properties(a="1")).status == 200
    assert [one["name"] for one in client.get(f"{SALES}/tables").json["identifiers"]] == ["T1", "t2"]


def test_a_table_is_found_by_the_time_of_its_last_commit(client: Iceberg) -> None:
    find = finder(client.services.open_catalog).find
    client.world.clock.now += 60_000
    query = f"/main/sales/[updated >= {client.world.clock.now}]"
    assert find(query).items == ()
    assert client.commit(set_properties(a="1"), path=T2).status == 200
    assert [match.path for match in find(query).items] == [("sales", "t2")]


def test_a_table_that_others_keep_changing_is_a_conflict_and_not_an_unknown_outcome(client: Iceberg) -> None:
    count = [0]

    def act(other: Iceberg) -> None:
        count[0] += 1
        client.world.clock.now += 1_000
        other.post(f"{MAIN}/namespaces", {"namespace": [f"n{count[0]}"]})

    between(client, act, times=10_000)
    answer = client.commit(set_properties(a="1"))
    assert "during every attempt" in refused(answer, 409, "CommitFailedException")
    assert count[0] > 1 and properties(client, T1) == {}


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-location", "location": "s3://elsewhere/x"},
        set_properties(**{"write.data.path": "s3://elsewhere/x"}),
        set_properties(**{"write.metadata.path": "file:///lake/main/sales"}),
    ],
)
def test_i10_a_table_stays_in_its_location(client: Iceberg, update: Any) -> None:
    before = client.heads()
    refused(client.commit(update), 400, "BadRequestException")
    assert client.heads() == before


def test_i10_a_table_that_a_commit_creates_stays_in_its_location(client: Iceberg) -> None:
    staged = client.create("t3", **{"stage-create": True})["metadata"]
    heads = client.heads()
    files = client.files()
    elsewhere = {**staged, "properties": {"write.data.path": "s3://elsewhere/x"}}
    changes = [change("t3", *creation(elsewhere), require=[{"type": "assert-create"}])]
    message = refused(client.post(COMMIT, {"table-changes": changes}), 400, "BadRequestException")
    assert "write.data.path leads out of the table's location" in message
    assert (client.heads(), client.files()) == (heads, files)


@pytest.mark.parametrize(
    ("written", "location"), [("s3a://other//t3/", "s3://other/t3"), ("file:/other/t3", "file:/other/t3")]
)
def test_i10_a_table_that_a_commit_creates_has_the_location_that_is_claimed_for_it(
    client: Iceberg, written: str, location: str
) -> None:
    """Writers put their files below what the metadata say, and gc looks below what was claimed."""
    staged = client.create("t3", **{"stage-create": True})["metadata"]
    changes = [change("t3", *creation({**staged, "location": written}), require=[{"type": "assert-create"}])]
    assert client.post(COMMIT, {"table-changes": changes}).status == 204
    assert client.load(f"{SALES}/tables/t3")["metadata"]["location"] == location


def test_a_folder_below_the_location_may_hold_the_data(client: Iceberg) -> None:
    location = client.load()["metadata"]["location"]
    assert client.commit(set_properties(**{"write.data.path": f"{location}/elsewhere"})).status == 200
    beside = set_properties(**{"write.data.path": f"{location}-elsewhere/data"})
    refused(client.commit(beside), 400, "BadRequestException")


def test_metadata_that_no_answer_could_carry_is_refused_until_it_shrinks(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.commit(*(add_snapshot(id, None, id) for id in range(1, 50))).status == 200
    monkeypatch.setattr("turnstile.iceberg.files.MAX_BYTES", 5_000)
    assert "expire snapshots" in refused(client.commit(add_snapshot(99, None, 99)), 400, "BadRequestException")
    assert client.commit({"action": "remove-snapshots", "snapshot-ids": list(range(1, 20))}).status == 200
    assert client.load()["metadata"]["last-sequence-number"] == 49


def test_a_table_at_the_limit_takes_the_property_that_the_refusal_names_and_expiry_makes_room(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [add_snapshot(id, id - 1 or None, id) for id in range(1, 30)]
    assert client.commit(*made, set_ref(29)).status == 200
    monkeypatch.setattr("turnstile.iceberg.files.MAX_BYTES", 5_000)
    said = refused(client.commit(add_snapshot(30, 29, 30), set_ref(30)), 400, "BadRequestException")
    assert "turnstile.maintenance.expire-snapshots=true" in said
    much = set_properties(**{"turnstile.maintenance.expire-snapshots": "true", "note": "x" * 5_000})
    refused(client.commit(much), 400, "BadRequestException")
    refused(client.commit(set_properties(a="1")), 400, "BadRequestException")
    assert client.commit(set_properties(**{"turnstile.maintenance.expire-snapshots": "true"})).status == 200
    refused(client.commit(set_properties(a="1")), 400, "BadRequestException")
    client.world.clock.now += 6 * 24 * 3_600_000
    committer = client.services.open_catalog.committer
    expiry = Expiry(client.world, committer, MetadataFiles(client.world.storages, client.world.ids))
    table_id = client.load()["metadata"]["table-uuid"]
    assert len(expiry.expire("main", ("sales", "t1"), table_id).snapshot_ids) == 28
    assert client.commit(add_snapshot(30, 29, 30), set_ref(30)).status == 200


# -- several tables ---------------------------------------------------------------------------------------------------


def test_i9_a_transaction_changes_all_its_tables_in_one_swap(client: Iceberg) -> None:
    before = client.world.refs.rows["test/catalog/main"]["seq"]
    changes = [
        change("t1", add_snapshot(1), set_ref(1), require=[at_ref(None)]),
        change("t2", set_properties(a="1")),
        change("t3", *_creation(client), require=[{"type": "assert-create"}]),
    ]
    assert client.post(COMMIT, {"table-changes": changes}).status == 204
    assert client.load()["metadata"]["current-snapshot-id"] == 1 and properties(client, T2) == {"a": "1"}
    assert client.head(f"{SALES}/tables/t3") == 204
    assert client.world.refs.rows["test/catalog/main"]["seq"] == before + 1


def _creation(client: Iceberg) -> list[Any]:

    return creation(client.create("t3", **{"stage-create": True})["metadata"])


def test_i9_one_requirement_that_fails_is_enough_for_none_to_change(client: Iceberg) -> None:
    before = client.heads()
    files = client.files()
    changes = [change("t1", set_properties(a="1")), change("t2", set_properties(a="1"), require=[at_ref(7)])]
    refused(client.post(COMMIT, {"table-changes": changes}), 409, "CommitFailedException")
    changes[1] = change("none", set_properties(a="1"))
    refused(client.post(COMMIT, {"table-changes": changes}), 404, "NoSuchTableException")
    assert client.heads() == before and client.files() == files


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [change("t1"), change("T1")],
        [{"requirements": [], "updates": []}],
        [change(f"t{n}") for n in range(101)],
    ],
    ids=["none", "twice", "nameless", "too many"],
)
def test_a_transaction_that_is_none_is_refused(client: Iceberg, changes: list[Any]) -> None:
    refused(client.post(COMMIT, {"table-changes": changes}), 400, "BadRequestException")


WRITES = 4
"""Writes of a transaction over two tables: two metadata files, the objs, the swap."""


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
def test_i9_a_transaction_is_there_entirely_or_not_at_all_wherever_it_fails(client: Iceberg, at: int, how: Any) -> None:
    faulty = Faulty(client.world, at, how)
    client.app.use_world(faulty.world)
    changes = [change("t1", set_properties(a="1")), change("t2", set_properties(a="1"))]
    status = 0
    try:
        answer = client.post(COMMIT, {"table-changes": changes})
        status = answer.status
    except Crash:
        pass
    client.app.use_world(client.world)
    done = [properties(client, path) == {"a": "1"} for path in (T1, T2)]
    assert done[0] == done[1]
    if status == 204:
        assert done == [True, True]
    elif status in (400, 404, 409):
        assert done == [False, False]
    if at < WRITES:
        assert not done[0] or status == 204
    for path in (T1, T2):
        assert client.load(path)["metadata-location"] in client.files()


def test_i3_an_answer_that_stays_lost_is_an_unknown_outcome_and_keeps_the_files(client: Iceberg) -> None:
    files = client.files()

    class Silent:
        def __init__(self, refs: Any) -> None:
            self._refs = refs

        def write(self, given: Write) -> Any:
            self._refs.write(given)
            client.world.clock.now += 4_000
            raise OutcomeUnknown("no answer")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._refs, name)

    client.app.use_world(dataclasses.replace(client.world, refs=Silent(client.world.refs)))
    answer = client.commit(set_properties(a="1"))
    refused(answer, 500, "CommitStateUnknownException")
    assert len(client.files()) == len(files) + 1
    client.app.use_world(client.world)
    assert properties(client, T1) == {"a": "1"}


def test_i9_writers_of_different_tables_all_succeed_at_once() -> None:
    client = Iceberg()
    names = [f"w{n}" for n in range(4)]
    for name in names:
        client.create(name)
    failed: list[Answer] = []

    def work(name: str) -> None:
        for n in range(10):
            parent = n or None
            answer = client.commit(
                add_snapshot(n + 1, parent, n + 1),
                set_ref(n + 1),
                require=[at_ref(parent)],
                path=f"{SALES}/tables/{name}",
            )
            if answer.status != 200:
                failed.append(answer)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for name in names:
        said = client.load(f"{SALES}/tables/{name}")["metadata"]
        assert said["current-snapshot-id"] == 10 and len(said["metadata-log"]) == 10
    assert len(client.files()) == 4 * 11
    assert client.world.refs.rows["test/catalog/main"]["seq"] == 1 + 4 + 40


def test_a_row_that_is_refused_is_one_of_refs(client: Iceberg) -> None:
    """The kit's interruption really makes the swap fail: without it the tests above would show
    nothing."""
    seen: list[Any] = []
    write = client.world.refs.write

    def noted(given: Write) -> Any:
        seen.append(write(given))
        return seen[-1]

    client.world.refs.write = noted  # type: ignore[method-assign]
    between(client, lambda other: other.commit(set_properties(b="2"), path=T2))
    client.commit(set_properties(a="1"))
    assert [isinstance(one, Rejected) for one in seen] == [False, True, False]


@pytest.mark.parametrize("operation", ["put_if_absent", "read"])
def test_a_commit_whose_file_cannot_be_written_or_read_is_refused_for_certain_and_nothing_is_changed(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """A 503 means "commit state unknown" to Java's clients: nobody tries again, and a person has to
    look."""
    before = client.load()
    cold = Iceberg(beside=client)

    def refused_by_storage(*_: Any) -> bool:
        raise StorageFault("metadata/1.metadata.json: AccessDenied")

    with monkeypatch.context() as patch:
        patch.setattr(FakeStorage, operation, refused_by_storage)
        answer = cold.commit({"action": "set-properties", "updates": {"a": "1"}})
    assert (answer.status, answer.json["error"]["type"]) == (409, "CommitFailedException"), answer.text
    assert "AccessDenied" in answer.json["error"]["message"]
    assert client.load() == before
    assert client.commit({"action": "set-properties", "updates": {"a": "1"}}).status == 200


def test_a_fault_of_storage_after_a_swap_that_was_refused_is_a_refusal_too(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(client, lambda other: other.commit(set_properties(b="2")))
    puts = iter(range(100))
    put_if_absent = FakeStorage.put_if_absent

    def refused_by_storage(storage: FakeStorage, *args: Any) -> bool:
        if next(puts) > 1:  # after the own first file, and that of the other
            raise StorageFault("metadata/3.metadata.json: AccessDenied")
        return put_if_absent(storage, *args)

    with monkeypatch.context() as patch:
        patch.setattr(FakeStorage, "put_if_absent", refused_by_storage)
        answer = client.commit(set_properties(a="1"))
    assert (answer.status, answer.json["error"]["type"]) == (409, "CommitFailedException"), answer.text
    properties = client.load()["metadata"]["properties"]
    assert (properties.get("a"), properties["b"]) == (None, "2")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", T1, 409), ("POST", COMMIT, 409), ("POST", f"{SALES}/views/v", 409), ("DELETE", T1, 503), ("GET", T1, 503),
     ("POST", f"{SALES}/tables", 503), ("POST", f"{MAIN}/namespaces", 503)],
)  # fmt: skip
def test_a_refusal_before_a_commit_is_no_unknown_outcome(method: str, path: str, status: int) -> None:
    assert render(ServerClosed("it is closed"), method, path, "c")[0] == status
