"""I9: a namespace that is renamed while engines of two formats use what is in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from pyiceberg.exceptions import NoSuchTableError, RESTError

from tests.support.fakes import delta
from tests.support.iceberg.pyarrow_tables import SCHEMA, Connect, ids, rows
from turnstile.store.core.names import published_path

if TYPE_CHECKING:
    from turnstile_server import Server

NAMESPACES = "/v1/catalogs/main/namespaces"


def test_i9_tables_of_both_formats_go_with_their_namespace(server: Server, connect: Connect, namespace: str) -> None:
    catalog = connect()
    new = f"{namespace}_renamed"
    iceberg = catalog.create_table(f"{namespace}.events", SCHEMA)
    iceberg.append(rows(1))
    with server.client() as http:
        staged = http.post(f"{NAMESPACES}/{namespace}/staging-tables", json={"name": "orders"}).json()
        zero = Path(urlsplit(staged["location"]).path) / published_path(0)
        zero.parent.mkdir(parents=True)
        zero.write_bytes(delta.version_zero("create", int(time.time() * 1000)))
        body = {"name": "orders", "table_id": staged["table_id"]}
        assert http.post(f"{NAMESPACES}/{namespace}/tables", json=body).status_code == 201

        answer = http.post(f"{NAMESPACES}/{namespace}/rename", json={"name": new})
        assert (answer.status_code, answer.json()["name"]) == (200, new), answer.text
        assert answer.json()["properties"] == {"owner": "tests"}
        loaded = http.get(f"{NAMESPACES}/{new}/tables/orders").json()
        assert (loaded["table_id"], loaded["name"]) == (staged["table_id"], f"main.{new}.orders")
        content = delta.append("a", int(time.time() * 1000) + 1).decode()
        commit = {"version": 1, "inline": {"content": content}}
        assert http.post(f"/v1/tables/{staged['table_id']}/commits", json=commit).status_code == 200

    moved = connect().load_table(f"{new}.events")
    moved.append(rows(2))
    assert ids(connect().load_table(f"{new}.events")) == [1, 2]
    with pytest.raises(NoSuchTableError):
        connect().load_table(f"{namespace}.events")
    with pytest.raises(RESTError, match="does not exist"):  # a session from before knows the name that was
        iceberg.append(rows(3))
