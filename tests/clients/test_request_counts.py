"""How many requests an operation of each client costs, counted where they are answered.
``docs/clients.md`` has the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clients import delta_jvm, duck, kernel_rs
from tests.support.clients.delta_jvm import Table
from tests.support.clients.engine import Engine, fresh
from tests.support.clients.requests import Requests

pytestmark = pytest.mark.timeout(kernel_rs.BUILD_SECONDS)

if TYPE_CHECKING:
    from turnstile_server import Server

PREVIEW = "/delta/preview/commits"


def test_deltas_default_client_commits_with_one_request_and_publishes_with_another(jvm: Any, server: Server) -> None:
    table = Table(delta_jvm.client(jvm, server), fresh())
    asked = Requests(server)
    table.commit(1)
    assert asked.seen(2) == {"update": 1, "load": 1}
    table.commits()
    assert asked.seen(1) == {"load": 1}
    table.client.uc.loadTable(table.identifier)
    assert asked.seen(1) == {"load": 1}


def test_deltas_preview_client_commits_with_one_request_and_publishes_with_another(jvm: Any, server: Server) -> None:
    table = Table(delta_jvm.client(jvm, server), fresh())
    table.client = delta_jvm.client(jvm, server, preview=True)
    asked = Requests(server)
    table.commit(1)
    assert asked.seen(2) == {f"POST {PREVIEW}": 1, f"GET {PREVIEW}": 1}
    table.commits()
    assert asked.seen() == {f"GET {PREVIEW}": 1}


def test_duckdb_reads_with_one_request_and_writes_with_one(server: Server, tmp_path: Path) -> None:
    """Names come with the first use of an attachment, and a snapshot is read again only after a
    commit of one's own."""
    table = Engine(server).create().append(range(3))
    db = duck.connect(tmp_path)
    asked = Requests(server)
    duck.attach(db, server)
    assert asked.seen() == {}
    duck.ids(db, table.name)
    first = asked.seen(3)
    assert first.pop("GET /schemas") == 1
    assert first.pop("GET /tables") == 1
    assert first == {"load": 1}
    duck.ids(db, table.name)
    assert asked.seen() == {}
    db.execute(f"INSERT INTO lake.default.{table.name} VALUES (9)")
    assert asked.seen(1) == {"update": 1}
    db.execute(f"INSERT INTO lake.default.{table.name} VALUES (10)")
    assert asked.seen(2) == {"load": 1, "update": 1}


def test_the_rust_kernel_reads_and_writes_with_one_request_beside_load_and_keys(program: Path, server: Server) -> None:
    table = Engine(server).create().append(range(3))
    client = kernel_rs.Kernel(program, server, table.name)
    asked = Requests(server)
    client("read")
    assert asked.seen(2) == {"load": 1, "credentials": 1}
    client("append", 10, 1)
    assert asked.seen(3) == {"load": 1, "credentials": 1, "update": 1}
    client("publish")
    assert asked.seen(2) == {"load": 1, "credentials": 1}
