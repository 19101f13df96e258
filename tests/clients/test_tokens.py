"""I12 with real clients: each sends its token, and is told apart when it has the wrong one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from py4j.protocol import Py4JJavaError
from unitycatalog import client as uc
from unitycatalog.client.exceptions import UnauthorizedException

from tests.support.clients import delta_jvm, duck, kernel_rs
from tests.support.clients.engine import Engine
from tests.support.clients.sdk import connect

pytestmark = pytest.mark.timeout(kernel_rs.BUILD_SECONDS)

if TYPE_CHECKING:
    from turnstile_server import Server


@pytest.fixture
def table(guarded_server: Server) -> Engine:
    return Engine(guarded_server).create().append(range(3))


@pytest.fixture
def stranger(guarded_server: Server) -> Any:
    """The same server, seen by somebody with another token."""
    return SimpleNamespace(url=guarded_server.url, token="another token")


@pytest.mark.parametrize("preview", [False, True])
def test_i12_deltas_clients(jvm: Any, guarded_server: Server, stranger: Any, table: Engine, preview: bool) -> None:
    def commits(server: Any) -> Any:
        client = delta_jvm.client(jvm, server, preview=preview)
        uri = client.cls("java.net.URI").create(table.location)
        name = client.identifier(table.name)
        none = client.maybe()
        return client.uc.getCommits(table.id, uri, name, none if not preview else client.maybe_long(0), none)

    assert commits(guarded_server).getLatestTableVersion() == 1
    with pytest.raises(Py4JJavaError) as caught:
        commits(stranger)
    assert "401" in str(caught.value.java_exception)


def test_i12_duckdb(guarded_server: Server, stranger: Any, table: Engine, tmp_path: Path) -> None:
    db = duck.connect(tmp_path)
    duck.attach(db, guarded_server)
    assert duck.ids(db, table.name) == [0, 1, 2]
    refused = duck.connect(tmp_path)
    with pytest.raises(duckdb.Error, match=r"401|Unauthorized"):
        duck.attach(refused, stranger)
        duck.ids(refused, table.name)


def test_i12_the_rust_kernel(program: Path, guarded_server: Server, stranger: Any, table: Engine) -> None:
    assert kernel_rs.Kernel(program, guarded_server, table.name)("read") == {"version": 1, "ids": [0, 1, 2]}
    assert kernel_rs.Kernel(program, stranger, table.name)("read") == {"error": "Authentication failed"}


def test_i12_the_python_sdk(guarded_server: Server, stranger: Any, table: Engine) -> None:
    async def found(server: Any) -> str:
        async with connect(server) as session:
            return str((await uc.TablesApi(session).get_table(f"main.default.{table.name}")).table_id)

    assert asyncio.run(found(guarded_server)) == table.id
    with pytest.raises(UnauthorizedException):
        asyncio.run(found(stranger))
