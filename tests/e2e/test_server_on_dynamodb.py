"""Servers on DynamoDB (here dynoxide): stateless, several on one table; publishing is woken by a
server's own commits and by the table's stream (I1, I2, I4, I11)."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cli import TURNSTILE
from tests.support.server import resting_background
from tests.support.stack import Table, eventually
from tests.support.store.backends import DYNOXIDE, OBJS_TABLE, REFS_TABLE, Backend
from tests.support.store.servers import Servers
from turnstile_server import Server
from turnstile_server.settings import ServerSettings

pytestmark = pytest.mark.slow
WITHOUT_STREAM = "without-stream-refs"


@pytest.fixture(scope="module")
def local(servers: Servers) -> Backend:
    """dynoxide with two tables for references: one with a stream, one without."""
    backend = servers.get(DYNOXIDE)
    backend.client.create_table(
        TableName=WITHOUT_STREAM,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
    )
    return backend


@pytest.fixture
def realm() -> str:
    """A new one."""
    return f"r{uuid4().hex[:8]}"


@pytest.fixture
def start(local: Backend, tmp_path: Path, realm: str) -> Callable[..., Server]:
    """Starts servers of one realm that share a lake; each has a home of its own."""

    def started(home: str, refs: str = REFS_TABLE, **more: Any) -> Server:
        settings = ServerSettings(
            str(tmp_path / home),
            lake_root=(tmp_path / "lake").as_uri(),
            store=f"dynamodb:{refs},{OBJS_TABLE}",
            store_endpoint=local.url or "",
            realm=realm,
            **more,
        )
        return Server.start(settings.home, 0, settings=settings)

    return started


def published_by_hints(server: Server) -> float:
    """Versions that this server published because of a hint, not because a sweep found the
    table."""
    with server.client() as api:
        families = text_string_to_metric_families(api.get("/metrics").text)
    samples = (sample for family in families for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == "turnstile_published_versions_total")


def fully_published(table: Table, latest: int) -> dict[str, Any]:
    return eventually(lambda: (head := table.get("head"))["floor"] == head["latest"] == latest and head)


def test_i4_i11_a_server_publishes_its_own_commits_without_a_stream_and_is_stateless(
    start: Callable[..., Server],
) -> None:
    with start("first", WITHOUT_STREAM) as server:
        table = Table(server, "kept")
        table.append(1)
        table.stage(2)
        assert table.published(1) and table.published(2)
        assert published_by_hints(server) >= 1
        fully_published(table, 2)
    with start("second", WITHOUT_STREAM) as server, server.client() as api:
        (found,) = api.get("/v1/tables").json()["tables"]
        assert (found["name"], found["latest"]) == ("main.default.kept", 2), (
            "from another home, with nothing of the first"
        )
        table.api = api
        table.append(3)
        assert table.published(3)


def test_i11_what_one_server_ratified_another_publishes_by_the_stream(start: Callable[..., Server]) -> None:
    with start("ratifies") as ratifies, start("publishes") as publishes, resting_background(ratifies):
        table = Table(ratifies)
        versions = itertools.count(1)

        def is_named_to_the_other() -> bool:
            """The stream is followed from some moment after the start on; a sweep finds earlier
            commits, so it is no hint."""
            table.append(next(versions))
            return published_by_hints(publishes) >= 1

        eventually(is_named_to_the_other, what="a hint of the stream, which is all that names the table to it")
        fully_published(table, next(versions) - 1)


def test_i1_i2_i4_two_servers_on_one_table_ratify_each_version_once_and_publish_what_was_answered(
    start: Callable[..., Server],
) -> None:
    with start("one") as one, start("other") as other:
        table = Table(one)
        clients = [one.client(), other.client()]

        def append(number: int) -> tuple[int, str]:
            """By ticket, so that no writer loses to the other server."""
            with_other = Table.__new__(Table)
            with_other.api = clients[number % 2]
            with_other.id = table.id
            answer = with_other.propose(None, txn=f"t{number}", base=0)
            assert answer.status_code == 200, answer.text
            commit = answer.json()["commit"]
            return commit["version"], commit["content"]

        with ThreadPoolExecutor(4) as pool:
            ratified = dict(pool.map(append, range(24)))
        assert sorted(ratified) == list(range(1, 25)), "each version once"
        fully_published(table, 24)
        for version, content in ratified.items():
            assert table.published(version) == content.encode()
        for api in clients:
            assert api.get(f"/v1/tables/{table.id}/head").json()["latest"] == 24
            api.close()


def test_serve_takes_the_store_and_its_endpoint_as_options(local: Backend, tmp_path: Path) -> None:
    command = [
        TURNSTILE, "serve", "--home", str(tmp_path / "home"), "--port", "0", "--realm", f"r{uuid4().hex[:8]}",
        "--store", f"dynamodb:{REFS_TABLE},{OBJS_TABLE}", "--store-endpoint", local.url or "",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = re.findall(r"http://\S+", process.stdout.readline())[0]
        eventually(lambda: _answers(url), what="it answers")
        table = Table(Server.attach(tmp_path / "home"))
        table.append(1)
        assert table.published(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def test_i11_i19_a_worker_publishes_by_the_stream_what_a_server_leaves_to_it(
    start: Callable[..., Server], realm: str, tmp_path: Path
) -> None:
    with start("answers", fleet=True, roles=()) as server:
        where = ("--store", server.state.store, "--store-endpoint", server.state.store_endpoint, "--realm", realm)
        with (tmp_path / "worker.log").open("wb") as log:
            worker = subprocess.Popen([TURNSTILE, "work", "--roles", "publish,events", *where], stdout=log, stderr=log)
        try:
            table = Table(server)
            versions = itertools.count(1)

            def is_published() -> bool:
                """The stream is followed from some moment after the start on, and there is no
                sweep."""
                table.append(next(versions))
                return int(table.get("head")["floor"]) > 0

            eventually(is_published, what="a version that the worker has published")
            fully_published(table, next(versions) - 1)
            with server.client() as api:
                assert api.get("/v1/fleet").json()["without_members"] == ["sweep", "maintain"]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
            with server.client() as api:
                report = api.get("/v1/fleet").json()
            assert [list(member["granules"]) for member in report["members"]] == [["catalogs"]]
        finally:
            worker.kill()
            worker.wait()
