"""DuckDB 1.5.5 with its ``unity_catalog`` and ``delta`` extensions, unmodified.

A DuckDB attachment keeps the snapshot it first read until it commits itself or is attached anew:
that is DuckDB's, and the tests say so.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from tests.support.clients import duck
from tests.support.clients.engine import B, Engine, fresh
from turnstile_client import connect

if TYPE_CHECKING:
    from turnstile_server import Server

Attach = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[Attach]:
    """Makes connections with a server's catalog attached."""
    made = []

    def connect(server: Server, options: str = "") -> duckdb.DuckDBPyConnection:
        made.append(db := duck.connect(tmp_path))
        duck.attach(db, server, options)
        return db

    yield connect
    for db in made:
        db.close()


def insert(db: duckdb.DuckDBPyConnection, table: Engine, id: int) -> None:
    db.execute(f"INSERT INTO lake.default.{table.name} VALUES ({id})")


def test_the_catalog_shows_schemas_tables_and_columns(attached: Attach, server: Server) -> None:
    table = Engine(server).create()
    schema = fresh("s")
    table.ask("POST", f"{B}/schemas", {"name": schema, "catalog_name": "main"})
    db = attached(server)
    # The extension marks a catalog as loaded before it has loaded it, and SHOW ALL TABLES looks
    # with several threads: with more than one, a thread that comes second may see nothing.
    db.execute("SET threads = 1")
    shown = db.execute("SELECT name, column_names, column_types FROM (SHOW ALL TABLES)").fetchall()
    assert (table.name, ["id"], ["BIGINT"]) in shown
    schemas = db.execute("SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'lake'").fetchall()
    assert {("default",), (schema,)} <= set(schemas)


def test_i6_unpublished_commits_are_read(attached: Attach, held_server: Server) -> None:
    """Staged by one engine and inline by another."""
    table = Engine(held_server).create().append(range(3), range(3, 5)).append_inline(range(5, 6))
    assert duck.ids(attached(held_server, ", READ_ONLY"), table.name) == [0, 1, 2, 3, 4, 5]
    assert table.files.published() == [0], "a reader publishes nothing"


def test_i6_a_new_attachment_sees_what_was_committed_meanwhile(attached: Attach, held_server: Server) -> None:
    table = Engine(held_server).create().append(range(3))
    first = attached(held_server)
    assert duck.ids(first, table.name) == [0, 1, 2]
    table.append(range(3, 5))
    assert duck.ids(attached(held_server), table.name) == [0, 1, 2, 3, 4]
    assert duck.ids(first, table.name) == [0, 1, 2], "the first one keeps its snapshot"


def test_i4_a_writer_publishes_what_others_left_and_commits(attached: Attach, held_server: Server) -> None:
    table = Engine(held_server).create().append(range(3), range(3, 5)).append_inline(range(5, 6))
    ratified = {
        commit["version"]: (table.files.staged / commit["file-name"]).read_bytes() for commit in table.load()["commits"]
    }
    db = attached(held_server)
    insert(db, table, 100)
    assert table.latest == 4
    assert table.ids() == duck.ids(db, table.name) == [0, 1, 2, 3, 4, 5, 100]
    for version, content in ratified.items():
        assert (table.files.log / f"{version:020d}.json").read_bytes() == content


def test_several_statements_of_one_writer_are_versions_in_order(attached: Attach, server: Server) -> None:
    table = Engine(server).create()
    db = attached(server)
    for id in range(5):
        insert(db, table, id)
    assert (table.latest, table.ids()) == (5, [0, 1, 2, 3, 4])


def test_a_transaction_that_is_rolled_back_leaves_no_version(attached: Attach, server: Server) -> None:
    table = Engine(server).create()
    db = attached(server)
    db.execute("BEGIN")
    insert(db, table, 1)
    db.execute("ROLLBACK")
    assert (table.latest, table.ids()) == (0, [])


def test_i2_of_two_transactions_on_one_version_the_second_gets_the_conflict(attached: Attach, server: Server) -> None:
    table = Engine(server).create().append(range(3))
    one = attached(server)
    two = attached(server)
    for db, id in ((one, 60), (two, 61)):
        db.execute("BEGIN")
        insert(db, table, id)
    two.execute("COMMIT")
    with pytest.raises(duckdb.TransactionException, match=r"HTTP 409(?s:.)*CommitVersionConflictException"):
        one.execute("COMMIT")
    assert (table.latest, table.ids()) == (2, [0, 1, 2, 61])


@pytest.mark.slow
def test_i2_writers_that_race_lose_nothing_and_write_nothing_twice(attached: Attach, server: Server) -> None:
    table = Engine(server).create()
    conflicts = []

    def write(writer: int) -> None:
        for n in range(4):
            write_one = functools.partial(insert, table=table, id=10 * writer + n)
            conflicts.extend(duck.insist(lambda: attached(server), write_one))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert table.ids() == [10 * writer + n for writer in range(3) for n in range(4)]
    assert table.latest == 12
    assert conflicts, "three writers of one table meet"


def test_a_checkpoint_that_duckdb_wrote_is_read_by_it(attached: Attach, server: Server) -> None:
    table = Engine(server).create().append(range(3), range(3, 5))
    db = attached(server)
    insert(db, table, 5)
    db.execute(f"CALL unity_catalog_force_checkpoint_table('lake.default.{table.name}')")
    assert list(table.files.log.glob("*.checkpoint*"))
    assert duck.ids(attached(server), table.name) == table.ids() == [0, 1, 2, 3, 4, 5]


def test_an_external_table_is_read(attached: Attach, server: Server, tmp_path: Path) -> None:
    table = Engine(server).create().append(range(3))
    copy = tmp_path / "elsewhere" / "table"
    shutil.copytree(table.files.root, copy, ignore=shutil.ignore_patterns("_staged_commits", ".turnstile-*"))
    zero = copy / "_delta_log" / f"{0:020d}.json"
    one = copy / "_delta_log" / f"{1:020d}.json"
    one.write_bytes(next(table.files.staged.glob("*.json")).read_bytes())
    zero.write_text(zero.read_text().replace('"catalogManaged",', ""))
    column = {"name": "id", "type_name": "LONG", "type_text": "bigint", "position": 0, "nullable": True,
              "type_json": '{"name":"id","type":"long","nullable":true,"metadata":{}}'}  # fmt: skip
    name = fresh("ext")
    table.ask("POST", f"{B}/tables", {
        "name": name, "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL",
        "data_source_format": "DELTA", "columns": [column], "storage_location": copy.as_uri(), "properties": {},
    })  # fmt: skip
    assert duck.ids(attached(server), name) == [0, 1, 2]


@pytest.mark.parametrize(
    "statement", ["UPDATE {0} SET id = 1", "DELETE FROM {0}", "DROP TABLE {0}", "CREATE TABLE {0}2 (id INT)"]
)
def test_what_this_version_of_duckdb_cannot_do_changes_nothing(
    attached: Attach, server: Server, statement: str
) -> None:
    """When DuckDB learns it, this test fails and ``docs/clients.md`` gets a better line."""
    table = Engine(server).create().append(range(3))
    with pytest.raises((duckdb.BinderException, duckdb.NotImplementedException)):
        attached(server).execute(statement.format(f"lake.default.{table.name}"))
    assert (table.latest, table.ids()) == (1, [0, 1, 2])


@pytest.mark.parametrize(
    "type",
    [pa.timestamp("us"), pytest.param(pa.map_(pa.string(), pa.decimal128(5, 2)), marks=pytest.mark.slow)],
    ids=str,
)
def test_a_table_with_a_type_that_duckdb_does_not_know_has_no_columns_there_and_hides_no_other_table(
    attached: Attach, server: Server, type: pa.DataType
) -> None:
    """DuckDB parses the types of every table of a schema, and ends at one that it does not know."""
    schema = fresh("odd")
    with connect(server.url) as lake:
        lake.create_namespace(schema)
        lake.create(f"{schema}.plain", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
        db = attached(server)
        assert db.execute(f"SELECT id FROM lake.{schema}.plain").fetchall() == [(1,)]
        lake.create(f"{schema}.odd", pa.schema([("c", type)]))
        table = Engine(server).create().append(range(3))
        again = attached(server)
        assert again.execute(f"SELECT id FROM lake.{schema}.plain").fetchall() == [(1,)]
        with pytest.raises(duckdb.BinderException, match="not found"):
            again.execute(f"SELECT c FROM lake.{schema}.odd")
        with pytest.raises(duckdb.IOException, match="max_catalog_version"):
            again.execute(f"SELECT * FROM delta_scan('{table.files.root}')")
        plain = lake.table(f"{schema}.plain").read()
        assert again.execute("SELECT id FROM plain").fetchall() == [(1,)], "DuckDB reads what the client read"
        assert plain.num_rows == 1
