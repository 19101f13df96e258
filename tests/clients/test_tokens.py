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
    from turnstile_local import Stack


@pytest.fixture
def table(guarded_stack: Stack) -> Engine:
    return Engine(guarded_stack).create().append(range(3))


@pytest.fixture
def stranger(guarded_stack: Stack) -> Any:
    """The same stack, seen by somebody with another token."""
    return SimpleNamespace(url=guarded_stack.url, token="another token")


@pytest.mark.parametrize("preview", [False, True])
def test_i12_deltas_clients(jvm: Any, guarded_stack: Stack, stranger: Any, table: Engine, preview: bool) -> None:
    def commits(stack: Any) -> Any:
        client = delta_jvm.client(jvm, stack, preview=preview)
        uri = client.cls("java.net.URI").create(table.location)
        name, none = client.identifier(table.name), client.maybe()
        return client.uc.getCommits(table.id, uri, name, none if not preview else client.maybe_long(0), none)

    assert commits(guarded_stack).getLatestTableVersion() == 1
    with pytest.raises(Py4JJavaError) as caught:
        commits(stranger)
    assert "401" in str(caught.value.java_exception)


def test_i12_duckdb(guarded_stack: Stack, stranger: Any, table: Engine, tmp_path: Path) -> None:
    db = duck.connect(tmp_path)
    duck.attach(db, guarded_stack)
    assert duck.ids(db, table.name) == [0, 1, 2]
    refused = duck.connect(tmp_path)
    with pytest.raises(duckdb.Error, match=r"401|Unauthorized"):
        duck.attach(refused, stranger)
        duck.ids(refused, table.name)


def test_i12_the_rust_kernel(program: Path, guarded_stack: Stack, stranger: Any, table: Engine) -> None:
    assert kernel_rs.Kernel(program, guarded_stack, table.name)("read") == {"version": 1, "ids": [0, 1, 2]}
    assert kernel_rs.Kernel(program, stranger, table.name)("read") == {"error": "Authentication failed"}


def test_i12_the_python_sdk(guarded_stack: Stack, stranger: Any, table: Engine) -> None:
    async def found(stack: Any) -> str:
        async with connect(stack) as session:
            return str((await uc.TablesApi(session).get_table(f"main.default.{table.name}")).table_id)

    assert asyncio.run(found(guarded_stack)) == table.id
    with pytest.raises(UnauthorizedException):
        asyncio.run(found(stranger))
