"""A metadata file that somebody with keys for the location has overwritten is neither returned nor
built upon (I2, I9)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.iceberg.client import MAIN, SALES, T1, V1, VIEW, Iceberg, refused, set_properties
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.reader import View
from turnstile.iceberg.files import READ_BYTES

OTHER_UUID = "11111111-1111-4111-8111-111111111111"
UNAVAILABLE = (503, "ServiceUnavailableException")
NOT_APPLIED = (409, "CommitFailedException")


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def overwrite(client: Iceberg, path: str, change: Callable[[bytes], bytes]) -> None:
    files = client.world.storages.files
    files[path] = (change(files[path][0]), *files[path][1:])


def members(**changed: Any) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps({**json.loads(raw), **changed}).encode()


def forget_digest(client: Iceberg, *path: str) -> None:
    """Makes the entity one that a version without digests wrote."""

    def change(view: View) -> Edit:
        entry = view.tree.find(path)
        assert entry is not None
        return Edit("no digest", put={path: msgspec.structs.replace(view.entity(entry.obj), digest=b"")})

    client.services.open_catalog.committer.commit("main", change)


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "a property": members(properties={"owner": "mallory"}),
    "the uuid": members(**{"table-uuid": OTHER_UUID, "view-uuid": OTHER_UUID}),
    "the location": members(location="file:///lake/main/sales/another"),
    "white space": lambda raw: raw + b" ",
    "compression": gzip.compress,
    "no JSON": lambda _: b"{",
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("what", ALTERED)
def test_i2_an_altered_file_is_refused_by_a_sandbox_that_has_not_cached_it(client: Iceberg, what: str) -> None:
    made = client.create()
    view = client.post(f"{SALES}/views", VIEW).json
    for loaded in (made, view):
        overwrite(client, loaded["metadata-location"], ALTERED[what])
    cold = Iceberg(beside=client)
    for path, loaded in ((T1, made), (f"{SALES}/views/v1", view)):
        message = refused(cold.get(path), *UNAVAILABLE)
        assert loaded["metadata-location"] in message and "is not the one that was committed" in message


@pytest.mark.parametrize("what", ALTERED)
def test_i2_no_commit_builds_on_an_altered_file(client: Iceberg, what: str) -> None:
    made = client.create()
    view = client.post(f"{SALES}/views", VIEW).json
    for loaded in (made, view):
        overwrite(client, loaded["metadata-location"], ALTERED[what])
    cold = Iceberg(beside=client)
    rows = client.heads()
    files = client.files()
    change = {"requirements": [], "updates": [set_properties(a="1")]}
    refused(cold.post(T1, change), *NOT_APPLIED)
    refused(cold.post(f"{SALES}/views/v1", change), *NOT_APPLIED)
    changes = [{**change, "identifier": {"namespace": ["sales"], "name": "t1"}}]
    refused(cold.post(f"{MAIN}/transactions/commit", {"table-changes": changes}), *NOT_APPLIED)
    assert (client.heads(), client.files()) == (rows, files)


def test_i2_each_commit_keeps_the_digest_of_its_own_file(client: Iceberg) -> None:
    client.create()
    for number in range(3):
        file = client.commit(set_properties(n=str(number))).json["metadata-location"]
        assert Iceberg(beside=client).load()["metadata"]["properties"]["n"] == str(number)
        original = client.world.storages.files[file]
        overwrite(client, file, members(properties={}))
        refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)
        client.world.storages.files[file] = original


def test_i2_the_past_is_held_against_the_digests_of_then(client: Iceberg) -> None:
    file = client.create()["metadata-location"]
    client.services.open_catalog.named_snapshots.create("main", "then")
    client.commit(set_properties(a="1"))
    past = f"{V1}/{client.get(f'{V1}/config', warehouse='main@snapshot:then').json['overrides']['prefix']}"
    overwrite(client, file, members(properties={"a": "0"}))
    cold = Iceberg(beside=client)
    assert cold.load()["metadata"]["properties"]["a"] == "1"
    refused(cold.get(T1.replace(MAIN, past)), *UNAVAILABLE)


def test_i2_a_table_registered_again_after_its_file_changed_is_what_was_judged_then(client: Iceberg) -> None:
    file = client.create()["metadata-location"]
    assert client.delete(T1).status == 204
    overwrite(client, file, members(properties={"owner": "bob"}))
    answer = client.post(f"{SALES}/register", {"name": "t1", "metadata-location": file})
    assert answer.json["metadata"]["properties"] == {"owner": "bob"} == client.load()["metadata"]["properties"]
    assert Iceberg(beside=client).load()["metadata"]["properties"] == {"owner": "bob"}
    overwrite(client, file, members(properties={"owner": "eve"}))
    refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)


def test_i2_a_registered_file_with_gzip_is_held_against_the_bytes_that_are_stored(client: Iceberg) -> None:
    file = client.create()["metadata-location"]
    assert client.delete(T1).status == 204
    packed = file.replace(".metadata.json", ".gz.metadata.json")
    stored = client.world.storages.files[file]
    client.world.storages.files[packed] = (gzip.compress(stored[0]), *stored[1:])
    assert client.post(f"{SALES}/register", {"name": "t1", "metadata-location": packed}).status == 200
    assert Iceberg(beside=client).load()["metadata-location"] == packed
    overwrite(client, packed, lambda _: gzip.compress(stored[0] + b" "))
    refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)


@pytest.mark.parametrize("what", ["the uuid", "the location", "no JSON"])
def test_i2_a_table_of_a_version_without_digests_is_held_against_its_entity(client: Iceberg, what: str) -> None:
    file = client.create()["metadata-location"]
    forget_digest(client, "sales", "t1")
    original = client.world.storages.files[file]
    overwrite(client, file, ALTERED[what])
    assert "is not the one that was committed" in refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)
    client.world.storages.files[file] = original
    cold = Iceberg(beside=client)
    assert cold.load()["metadata-location"] == file
    next_file = cold.commit(set_properties(a="1")).json["metadata-location"]
    overwrite(client, next_file, members(properties={}))
    refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)  # the next commit has a digest


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_i11_a_file_of_any_size_is_read_up_to_a_limit(client: Iceberg, pack: Callable[[bytes], bytes]) -> None:
    file = client.create()["metadata-location"]
    forget_digest(client, "sales", "t1")
    overwrite(client, file, lambda raw: pack(raw + b" " * READ_BYTES))
    message = refused(Iceberg(beside=client).get(T1), *UNAVAILABLE)
    assert f"more than {READ_BYTES} bytes" in message
