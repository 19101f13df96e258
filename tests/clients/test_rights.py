"""I12 with real clients: a principal that may read reads, and cannot write; any other finds
nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import httpx
import pytest
from py4j.protocol import Py4JJavaError

from tests.support.clients import delta_jvm, duck, kernel_rs
from tests.support.clients.delta_jvm import Table, thrown
from tests.support.clients.engine import READER_TOKEN, B, Engine, fresh
from tests.support.stack import eventually

pytestmark = pytest.mark.timeout(kernel_rs.BUILD_SECONDS)

if TYPE_CHECKING:
    from turnstile_server import Server


@pytest.fixture
def reader(guarded_server: Server) -> Any:
    """The server as a principal with the right to use the schema sees it."""
    asker = Engine(guarded_server)
    for kind, name, privilege in (("catalog", "main", "USE CATALOG"), ("schema", "main.default", "USE SCHEMA")):
        allow(asker, kind, name, privilege)
    return SimpleNamespace(url=guarded_server.url, token=READER_TOKEN)


def allow(asker: Engine, kind: str, name: str, privilege: str) -> None:
    change = {"principal": "reader", "add": [privilege], "remove": []}
    asker.ask("PATCH", f"{B}/permissions/{kind}/{name}", {"changes": [change]})


def listing(reader: Any) -> list[dict[str, Any]]:
    """The tables of the schema as the reader is told them, without a client in between."""
    headers = {"Authorization": f"Bearer {reader.token}"}
    query = {"catalog_name": "main", "schema_name": "default"}
    answer = httpx.get(f"{reader.url}{B}/tables", headers=headers, params=query, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["tables"]
    return found


@pytest.fixture
def table(guarded_server: Server) -> Engine:
    """A table that the reader may read."""
    made = Engine(guarded_server).create().append(range(3))
    allow(made, "table", f"main.default.{made.name}", "SELECT")
    return made


def test_i12_duckdb_reads_and_cannot_write(reader: Any, table: Engine, tmp_path: Path) -> None:
    db = duck.connect(tmp_path)
    duck.attach(db, reader)
    assert duck.ids(db, table.name) == [0, 1, 2]
    with pytest.raises(duckdb.Error, match="HTTP 403"):
        db.execute(f"INSERT INTO lake.default.{table.name} VALUES (9)")
    assert (table.latest, table.ids()) == (1, [0, 1, 2])


def test_i12_duckdb_does_not_find_what_it_may_not_read(
    reader: Any, table: Engine, guarded_server: Server, tmp_path: Path
) -> None:
    hidden = Engine(guarded_server).create().append(range(3))
    listed = {one["name"] for one in listing(reader)}
    assert table.name in listed and hidden.name not in listed, "what the server lists, before DuckDB is asked"
    db = duck.connect(tmp_path)
    duck.attach(db, reader)
    # DuckDB sometimes shows an empty catalog at first, on a busy machine and although the server
    # lists the table.
    shown = eventually(lambda: {row[0] for row in db.execute("SELECT name FROM (SHOW ALL TABLES)").fetchall()})
    assert table.name in shown and hidden.name not in shown
    with pytest.raises(duckdb.CatalogException):
        duck.ids(db, hidden.name)


def test_i12_the_rust_kernel_reads_and_cannot_write(reader: Any, table: Engine, program: Path) -> None:
    client = kernel_rs.Kernel(program, reader, table.name)
    assert client("read") == {"version": 1, "ids": [0, 1, 2]}
    assert "403" in str(client("append", 9, 1)), "it asks for keys that write first"
    assert table.latest == 1


def test_i12_deltas_client_is_not_asked_to_rebase(jvm: Any, reader: Any, guarded_server: Server) -> None:
    """Delta tries a commit again that is neither refused for good nor a conflict: 403 is an
    IOException to its client."""
    made = Table(delta_jvm.client(jvm, guarded_server), fresh())
    allow(Engine(guarded_server), "table", f"main.default.{made.name}", "SELECT")
    mine = made.staged_commit(1)
    made.client = delta_jvm.client(jvm, reader)
    assert made.commits() == ([], 0)
    with pytest.raises(Py4JJavaError) as caught:
        made.propose(mine)
    assert thrown(caught.value) == "IOException" and "403" in str(caught.value.java_exception)
    assert Engine(guarded_server, made.name).latest == 0
