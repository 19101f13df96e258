"""Clones of Iceberg tables, with PyIceberg as it was released: written to, and nobody else
notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyiceberg.exceptions import NoSuchTableError

from tests.support.iceberg.pyarrow_tables import SCHEMA, Connect, ids, rows

if TYPE_CHECKING:
    from turnstile_server import Server


def clone(server: Server, source: str, to: str, **moment: Any) -> dict[str, Any]:
    """A clone of catalog ``main``, as any HTTP client makes it."""
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    body = {"from": source, "to": to, "of": moment or None}
    answer = httpx.post(f"{server.url}/v1/catalogs/main/clones", json=body, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_a_clone_is_appended_to_and_its_source_is_what_it_was(server: Server, connect: Connect, namespace: str) -> None:
    catalog = connect()
    source = catalog.create_table(f"{namespace}.orders", SCHEMA)
    source.append(rows(1, 2))
    source.append(rows(3))
    first = source.history()[0]
    clone(server, namespace, f"{namespace}_dev")
    copy = connect().load_table(f"{namespace}_dev.orders")
    assert ids(copy) == [1, 2, 3] and copy.metadata.table_uuid != source.metadata.table_uuid
    copy.append(rows(4))
    copy.delete("id = 1")
    with copy.update_schema() as schema:
        schema.rename_column("region", "area")
    source.append(rows(5))
    assert ids(connect().load_table(f"{namespace}_dev.orders")) == [2, 3, 4]
    again = connect().load_table(f"{namespace}.orders")
    assert ids(again) == [1, 2, 3, 5] and [field.name for field in again.schema().fields] == ["id", "region"]
    old = copy.scan(snapshot_id=first.snapshot_id, selected_fields=("id",)).to_arrow()
    assert sorted(old["id"].to_pylist()) == [1, 2], "the history before the clone came with it"
    own = connect().load_table(f"{namespace}_dev.orders").inspect.files()["file_path"].to_pylist()
    assert any(path.startswith(copy.location()) for path in own)
    assert any(path.startswith(source.location()) for path in own)


def test_a_clone_of_a_snapshot_shows_what_was_there_and_outlives_its_source(
    server: Server, connect: Connect, namespace: str
) -> None:
    catalog = connect()
    table = catalog.create_table(f"{namespace}.orders", SCHEMA)
    table.append(rows(1))
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    snapshots = f"{server.url}/v1/catalogs/main/snapshots"
    assert httpx.post(snapshots, json={"name": namespace}, headers=headers, timeout=60).status_code == 201
    table.append(rows(2))
    clone(server, f"{namespace}.orders", f"{namespace}.then", snapshot=namespace)
    catalog.purge_table(f"{namespace}.orders")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{namespace}.orders")
    then = connect().load_table(f"{namespace}.then")
    assert ids(then) == [1]
    then.append(rows(9))
    assert ids(connect().load_table(f"{namespace}.then")) == [1, 9]
