"""A warehouse as of a moment, with PyIceberg 0.12 unmodified: every table together is what it was
then (I9)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError

from tests.support.iceberg.pyarrow_tables import SCHEMA, Connect, ids, rows

if TYPE_CHECKING:
    from turnstile_server import Server


def snapshot(server: Server, name: str) -> None:
    """Name the present HEAD of ``main``."""
    answer = httpx.post(f"{server.url}/v1/catalogs/main/snapshots", json={"name": name}, timeout=60)
    assert answer.status_code == 201, answer.text


def contents(catalog: RestCatalog, namespace: str) -> dict[str, list[int]]:
    return {name: ids(catalog.load_table((of, name))) for of, name in catalog.list_tables(namespace)}


def test_all_tables_are_read_together_as_they_were_at_a_snapshot_and_at_a_time(
    server: Server, connect: Connect, namespace: str
) -> None:
    now = connect()
    for name in ("orders", "items", "dropped"):
        now.create_table(f"{namespace}.{name}", SCHEMA).append(rows(1, 2))
    snapshot(server, f"{namespace}_end")
    ms = time.time_ns() // 1_000_000 + 1
    time.sleep(0.05)
    for name in ("orders", "items"):
        now.load_table(f"{namespace}.{name}").append(rows(3))
    with now.load_table(f"{namespace}.orders").update_schema() as schema:
        schema.rename_column("region", "area")
    now.drop_table(f"{namespace}.dropped")
    now.rename_table(f"{namespace}.items", f"{namespace}.things")
    now.create_table(f"{namespace}.later", SCHEMA)
    now.create_namespace(f"{namespace}_later")
    then = {"orders": [1, 2], "items": [1, 2], "dropped": [1, 2]}
    for moment in (f"snapshot:{namespace}_end", f"time:{ms}"):
        past = connect_at(server, moment)
        assert contents(past, namespace) == then
        assert past.load_table(f"{namespace}.orders").schema() == SCHEMA
        assert past.table_exists(f"{namespace}.dropped") and not past.table_exists(f"{namespace}.later")
        assert (f"{namespace}_later",) not in past.list_namespaces()
        with pytest.raises(NoSuchNamespaceError):
            past.load_namespace_properties(f"{namespace}_later")
        with pytest.raises(NoSuchTableError):
            past.load_table(f"{namespace}.things")
    assert contents(now, namespace) == {"orders": [1, 2, 3], "things": [1, 2, 3], "later": []}


def connect_at(server: Server, moment: str) -> RestCatalog:
    return RestCatalog("past", uri=f"{server.url}/iceberg", warehouse=f"main@{moment}")


def test_a_client_of_the_past_writes_nothing(server: Server, connect: Connect, namespace: str) -> None:
    """PyIceberg does not try what the configuration does not list; and who tries is refused."""
    table = connect().create_table(f"{namespace}.t", SCHEMA)
    table.append(rows(1))
    snapshot(server, f"{namespace}_ro")
    past = connect_at(server, f"snapshot:{namespace}_ro")
    for change in (
        lambda: past.load_table(f"{namespace}.t").append(rows(2)),
        lambda: past.create_table(f"{namespace}.u", SCHEMA),
        lambda: past.drop_table(f"{namespace}.t"),
        lambda: past.rename_table(f"{namespace}.t", f"{namespace}.u"),
        lambda: past.create_namespace(f"{namespace}_n"),
        lambda: past.update_namespace_properties(namespace, updates={"a": "1"}),
    ):
        with pytest.raises(NotImplementedError, match="does not support"):
            change()
    prefix = past.properties["prefix"]
    assert prefix.startswith("main@head:")
    for root in (prefix, quote(prefix, safe="")):
        answer = httpx.delete(f"{server.url}/iceberg/v1/{root}/namespaces/{namespace}/tables/t")
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
    assert contents(connect(), namespace) == {"t": [1]}


def test_a_moment_that_never_was_is_refused_when_the_client_connects(server: Server) -> None:
    for moment, said in (("snapshot:never", "never"), ("time:5", "does not exist"), ("yesterday:1", "names no moment")):
        with pytest.raises(RESTError, match=said):
            connect_at(server, moment)
