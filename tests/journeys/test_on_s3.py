"""Each client with its tables in S3, in each way of running: answers are lost, the store is
overloaded, keys have expired, the endpoint goes away. Rows are right, errors typed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.flaky import Flaky
from tests.support.journeys.places import Failure
from tests.support.journeys.stores import CLIENTS, LASTING, PASSING, Client, Stored
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
