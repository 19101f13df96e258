"""Each client with its tables in S3, in each way of running: answers are lost, the store is
overloaded, keys have expired, the endpoint goes away. Rows are right, errors typed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.flaky import Flaky
from tests.support.journeys.places import Failure
from tests.support.journeys.stores import CLIENTS, LASTING, PASSING, Client, Stored
from tests.support.stack import eventually
from turnstile_client.errors import StorageFailure

RUNNING = ("s3_up", "s3_serve", "s3_dynamodb", "s3_emulated")
OF_APPENDS = {"client": {"PUT": 1}, "rows": {}, "pyiceberg": {"PUT": 3, "POST": 6, "HEAD": 3, "GET": 1}}
"""The requests of a client for an append of one row. PyIceberg uploads three files in parts, and
looks at each. Rows over HTTP are written by the server."""

OF_READS = {"client": {"GET": 2}, "rows": {"GET": 2}, "pyiceberg": {"HEAD": 3, "GET": 4}}
"""The requests for a read of one row. The plain client gets the files from the server's plan, and
reads the end of a file and its rows. PyIceberg reads a manifest list, a manifest and a file."""


def cells(faults: Any) -> Iterator[Any]:
    """All of them, quick those of a server that wait for little; the own requests of a deployment's
    functions do not pass a proxy."""
    for running, client, fault in itertools.product(RUNNING, CLIENTS, faults):
        if running != "s3_emulated" or CLIENTS[client].writes == "clients":
            is_quick = running == "s3_up" and (fault != "the endpoint is gone" or client == "client")
            yield pytest.param(running, client, fault, marks=() if is_quick else pytest.mark.slow)


@pytest.fixture
def stored(request: pytest.FixtureRequest, running: str) -> Iterator[Stored]:
    place: Stored = request.getfixturevalue(running)
    yield place
    for proxy in (place.clients, place.servers):
        proxy.come_back()


@pytest.fixture
def table(stored: Stored, client: str) -> str:
    name = f"default.{stored.place.fresh('s3')}"
    CLIENTS[client].create(stored, name)
    return name


def passed(stored: Stored, client: Client) -> Flaky:
    """The proxy between a client's files and the store."""
    return stored.clients if client.writes == "clients" else stored.servers


@pytest.mark.parametrize(("running", "client", "fault"), cells(PASSING))
def test_rows_are_right_after_a_fault_that_passes(
    stored: Stored, client: str, fault: str, table: str, running: str
) -> None:
    """The server's own requests fail as well: it writes Iceberg's metadata files."""
    one = CLIENTS[client]
    PASSING[fault](passed(stored, one))
    (rule,) = passed(stored, one).rules
    if stored.servers is not stored.clients:
        PASSING[fault](stored.servers)
    one.append(stored, table, [2])
    assert rule.times == 0
    stored.clients.lose_answers("GET /lake/")
    assert one.read(stored, table) == [1, 2]


@pytest.mark.parametrize(("running", "client", "fault"), cells(LASTING))
def test_a_fault_that_lasts_is_an_error_of_its_client_and_afterwards_rows_are_right(
    stored: Stored, client: str, fault: str, table: str, running: str
) -> None:
    one = CLIENTS[client]
    kinds = {"client": StorageFailure, "rows": Failure, "pyiceberg": OSError}
    proxy = passed(stored, one)
    LASTING[fault](proxy)
    with pytest.raises(kinds[client]):
        one.append(stored, table, [2])
    proxy.come_back()
    LASTING[fault](stored.clients)
    with pytest.raises(StorageFailure if client != "pyiceberg" else OSError):
        one.read(stored, table)
    stored.clients.come_back()
    assert one.read(stored, table) == [1]
    one.append(stored, table, [3])
    assert one.read(stored, table) == [1, 3]


@pytest.mark.parametrize(
    "running", [pytest.param(one, marks=() if one == "s3_up" else pytest.mark.slow) for one in RUNNING]
)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_read_and_an_append_send_no_more_requests_than_these(
    stored: Stored, client: str, table: str, running: str
) -> None:
    stored.clients.seen.clear()
    assert CLIENTS[client].read(stored, table) == [1]
    assert not stored.clients.methods() - Counter(OF_READS[client]), stored.clients.seen
    stored.clients.seen.clear()
    CLIENTS[client].append(stored, table, [2])
    assert not stored.clients.methods() - Counter(OF_APPENDS[client]), stored.clients.seen


@pytest.mark.parametrize(
    "running", [pytest.param(one, marks=() if one == "s3_up" else pytest.mark.slow) for one in RUNNING[:3]]
)
def test_the_first_answer_to_each_write_of_the_server_is_lost_and_its_files_are_whole(
    stored: Stored, running: str
) -> None:
    """Of publishing, the checkpoint, its pointer and the version checksum."""
    client = CLIENTS["client"]
    name = f"default.{stored.place.fresh('s3')}"
    client.create(stored, name)
    stored.servers.seen.clear()
    stored.servers.lose_first_answers("PUT /lake/")
    for id in range(2, 13):
        client.append(stored, name, [id])
    wait_for_writes(stored, ".json", ".checkpoint.parquet", "/_last_checkpoint", ".crc")
    stored.servers.come_back()
    assert client.read(stored, name) == list(range(1, 13))
    loaded = stored.place.ask("GET", f"/v1/catalogs/main/namespaces/default/tables/{name.partition('.')[2]}")
    verified = stored.place.ask("GET", f"/v1/tables/{loaded['table_id']}/verification")
    assert (verified["last"], verified["deviations"]) == (12, [])


def wait_for_writes(stored: Stored, *ends: str) -> None:
    """Waits until the server has repeated a PUT of a file of each name that ends like this."""

    def repeated(end: str) -> bool:
        lines = Counter(line for line in list(stored.servers.seen) if line.startswith("PUT ") and line.endswith(end))
        return any(count > 1 for count in lines.values())

    for end in ends:
        eventually(partial(repeated, end), what=f"a repeated PUT of *{end}")


@pytest.mark.parametrize(
    "running", [pytest.param(one, marks=() if one == "s3_up" else pytest.mark.slow) for one in RUNNING[:3]]
)
def test_a_plan_without_an_index_reads_each_commit_once(stored: Stored, running: str) -> None:
    """A later plan lists the log, and reads the commits that it has not read yet."""
    client = CLIENTS["client"]
    name = f"default.{stored.place.fresh('s3')}"
    client.create(stored, name)
    client.append(stored, name, [2])
    wait_until_published(stored, name)
    assert [requests_of_read(stored, name) for _ in range(2)] == [{"list": 1, "commit": 3}, {"list": 1}]
    client.append(stored, name, [3])
    wait_until_published(stored, name)
    assert [requests_of_read(stored, name) for _ in range(2)] == [{"list": 1, "commit": 1}, {"list": 1}]


def wait_until_published(stored: Stored, name: str) -> None:
    path = f"/v1/catalogs/main/namespaces/default/tables/{name.partition('.')[2]}"

    def is_published() -> bool:
        loaded = stored.place.ask("GET", path)
        return bool(loaded["latest"] == loaded["floor"])

    eventually(is_published, what=f"{name} is published")


def requests_of_read(stored: Stored, name: str) -> Counter[str]:
    """The server's requests to the store while the plain client reads."""
    stored.servers.seen.clear()
    CLIENTS["client"].read(stored, name)
    kinds = (("?list-type=", "list"), ("/_delta_log/0000", "commit"), ("", "other"))
    return Counter(next(kind for text, kind in kinds if text in line) for line in stored.servers.seen)
