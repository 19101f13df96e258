"""Servers of a fleet on DynamoDB (here dynoxide), which hear of each other's commits by the table's
stream (I4, I11, I19)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.counting_proxy import CountingProxy
from tests.histories.killing import needs_proc
from tests.support.stack import WITHIN_S, Table, until
from tests.support.store.backends import DYNOXIDE
from tests.support.store.fleets import Fleet
from tests.support.store.servers import Servers

pytestmark = [pytest.mark.slow, needs_proc, pytest.mark.timeout(600)]

TABLES = 6
VERSIONS = 4


@pytest.fixture(scope="module")
def endpoint(servers: Servers) -> str:
    """The URL of dynoxide."""
    return servers.get(DYNOXIDE).url or ""


class StreamProxy(CountingProxy):
    """Passes on what is sent to DynamoDB. Of its streams nothing is answered while ``hangs``, and
    an error while ``fails``."""

    hangs = fails = False

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("X-Amz-Target", "").startswith("DynamoDBStreams"):
            while self.hangs:  # noqa: ASYNC110 - another thread ends it
                await asyncio.sleep(0.1)
            if self.fails:
                return web.Response(status=500, text='{"__type": "InternalServerError", "message": "no"}')
        return await super()._pass_on(request)


@pytest.fixture
def proxy(endpoint: str) -> Iterator[StreamProxy]:
    with StreamProxy(endpoint) as running:
        yield running


def published(fleet: Fleet) -> int:
    """How many versions the servers have published since their start."""
    count = 0.0
    for server in fleet.servers.values():
        with server.client() as api:
            families = text_string_to_metric_families(api.get("/metrics").text)
        samples = (sample for family in families for sample in family.samples)
        count += sum(sample.value for sample in samples if sample.name == "turnstile_published_versions_total")
    return int(count)


def append(fleet: Fleet, tables: list[Table], first: int) -> None:
    """The next versions of each table, by turns by way of every server; they are published within a
    minute."""
    for version in range(first, first + VERSIONS):
        for number, table in enumerate(tables):
            servers = list(fleet.servers.values())
            with closing(servers[(version + number) % len(servers)].client()) as table.api:
                table.append(version)
    latest = first + VERSIONS - 1
    for table in tables:
        with closing(next(iter(fleet.servers.values())).client()) as table.api:
            head = table.settled(WITHIN_S)
            assert (head["latest"], head["floor"], head["state"]) == (latest, latest, "active")
        assert all(table.storage.version(version) for version in range(1, latest + 1))


@pytest.mark.parametrize("count", [2, 3])
def test_i4_i11_i19_servers_share_publishing_and_go_on_without_each_other(
    endpoint: str, tmp_path: Path, count: int
) -> None:
    with Fleet(tmp_path, count, endpoint=endpoint) as fleet:
        fleet.rests()
        tables = [Table(server) for server in fleet.servers.values() for _ in range(TABLES // count)]
        append(fleet, tables, 1)
        fleet.rests()
        before = published(fleet)
        append(fleet, tables, 1 + VERSIONS)
        every = TABLES * VERSIONS
        # A sweep publishes what it comes across, and is not counted: the stream's part is the most
        # of it.
        until(lambda: published(fleet) - before > every // 2, "it is counted, too")
        assert published(fleet) - before < count * every, "a granule that changes hands may have some done twice"
        fleet.kill(0)
        append(fleet, tables, 1 + 2 * VERSIONS)
        fleet.rests(count - 1)
        fleet.start(0)
        fleet.rests(count)
        fleet.stop(1)
        assert len(fleet.report().members) == count - 1, "it left when it stopped"
        append(fleet, tables, 1 + 3 * VERSIONS)


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_i11_i19_a_server_that_cannot_read_the_stream_leaves_the_fleet_until_it_can(
    endpoint: str, proxy: StreamProxy, tmp_path: Path, how: str
) -> None:
    with Fleet(tmp_path, 2, endpoint=endpoint, endpoints={0: proxy.url}) as fleet:
        fleet.rests()
        tables = [Table(fleet.servers[number % 2]) for number in range(TABLES)]
        setattr(proxy, how, True)
        deaf = fleet.member_of(0)
        fleet.until(lambda report: deaf not in {member.id for member in report.members}, "it leaves")
        fleet.rests(1)
        append(fleet, tables, 1)
        setattr(proxy, how, False)
        fleet.rests(2)
        until(lambda: fleet.member_of(0) not in ("", deaf), "it is another member")
        append(fleet, tables, 1 + VERSIONS)
