"""An Iceberg client against the real handler on a world in memory."""

from __future__ import annotations

import functools
from typing import Any

from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Answer, Function, Http, function
from tests.support.gc import days
from tests.support.openapi import Document
from turnstile.catalog.core.rows import RECENT
from turnstile.store.ports import CredentialVendor

DOCUMENT = Document("iceberg.yaml")
SEEN: list[tuple[str, int]] = []
"""Operation and status of every checked answer, in order; a reader of the list empties it first."""

V1 = "/iceberg/v1"
MAIN = f"{V1}/main"
SALES = f"{MAIN}/namespaces/sales"
T1 = f"{SALES}/tables/t1"

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "region", "type": "string", "required": False},
    ],
}
VIEW: dict[str, Any] = {
    "name": "v1",
    "schema": SCHEMA,
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1_770_000_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        "default-namespace": ["sales"],
    },
    "properties": {},
}


@functools.cache
def second_sandbox() -> Function:
    """The function once more, with caches and locks of its own."""
    return Function("iceberg")


class Iceberg:
    """A client of catalog ``main``, which has the namespace ``sales``.

    Args:
        beside: share the world of this one, in a sandbox of its own.
    """

    def __init__(self, vendor: CredentialVendor | None = None, beside: Iceberg | None = None) -> None:
        self.world: FakeWorld = fake_world() if beside is None else beside.world
        self.app = function("iceberg") if beside is None else second_sandbox()
        self.services = self.app.use_world(self.world, vendor=vendor)
        self.http = Http(self.app.app)
        if beside is None:
            self.services.open_catalog.catalogs.create("main")
            assert self.post(f"{MAIN}/namespaces", {"namespace": ["sales"]}).status == 200

    def call(self, method: str, path: str, json_body: Any = None, **options: Any) -> Answer:
        """One request; the answer is judged by openapi/iceberg.yaml."""
        answer = self.http.call(method, path, json_body=json_body, **options)
        operation = DOCUMENT.of(method, path)
        if operation is not None:
            DOCUMENT.check(operation, answer)
            SEEN.append((operation.id, answer.status))
        return answer

    def get(self, path: str, *, headers: Any = None, **query: Any) -> Answer:
        return self.call("GET", path, query=query, headers=headers)

    def head(self, path: str) -> int:
        return self.call("HEAD", path).status

    def post(self, path: str, json_body: Any = None, **options: Any) -> Answer:
        return self.call("POST", path, json_body, **options)

    def delete(self, path: str, **query: Any) -> Answer:
        return self.call("DELETE", path, query=query)

    def create(self, name: str = "t1", **more: Any) -> dict[str, Any]:
        answer = self.post(f"{SALES}/tables", {"name": name, "schema": SCHEMA, **more})
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def load(self, path: str = T1, **query: Any) -> dict[str, Any]:
        answer = self.get(path, **query)
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def commit(self, *updates: Any, require: Any = (), path: str = T1, **options: Any) -> Answer:
        return self.post(path, {"requirements": list(require), "updates": list(updates)}, **options)

    def files(self) -> set[str]:
        """Every metadata file there is."""
        return {path for path in self.world.storages.files if path.endswith(".metadata.json")}

    def heads(self) -> dict[str, Any]:
        """All mutable rows, to show that nothing changed."""
        return {key: dict(row) for key, row in self.world.refs.rows.items()}


def snapshot(id: int, parent: int | None = None, sequence: int = 1, **more: Any) -> dict[str, Any]:
    """A snapshot as a client would add it."""
    made: dict[str, Any] = {
        "snapshot-id": id,
        "sequence-number": sequence,
        "timestamp-ms": 1_770_000_000_000 + id,
        "manifest-list": f"file:///lake/snap-{id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }
    return made if parent is None else {**made, "parent-snapshot-id": parent}


def add_snapshot(id: int, parent: int | None = None, sequence: int = 1, **more: Any) -> dict[str, Any]:
    return {"action": "add-snapshot", "snapshot": snapshot(id, parent, sequence, **more)}


def set_ref(id: int, name: str = "main", type: str = "branch", **more: Any) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": type, "snapshot-id": id, **more}


def at_ref(id: int | None, name: str = "main") -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": id}


def set_properties(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def refused(answer: Answer, status: int, type: str) -> str:
    """The message of a refusal, in exactly the specified shape."""
    assert answer.status == status, answer.text
    assert set(answer.json) == {"error"} and set(answer.json["error"]) == {"message", "type", "code"}
    assert (answer.json["error"]["code"], answer.json["error"]["type"]) == (status, type), answer.text
    return str(answer.json["error"]["message"])


def definition(said: Any) -> list[Any]:
    """Returns the updates that create a table with the metadata ``said`` of a staged one, without
    properties and rows."""
    return [
        {"action": "assign-uuid", "uuid": said["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": said["format-version"]},
        {"action": "add-schema", "schema": said["schemas"][0], "last-column-id": said["last-column-id"]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": said["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": said["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": said["location"]},
    ]


def creation(said: Any) -> list[Any]:
    return [*definition(said), set_properties(**said["properties"]), add_snapshot(5), set_ref(5)]


def others(client: Iceberg, each: float = 0.4) -> None:
    """Other changes: what was current before is no longer among the HEADs that the catalog's row
    remembers."""
    for _ in range(RECENT):
        client.services.open_catalog.namespaces.update("main", ("sales",), set={"n": str(client.world.clock.now_ms())})
        days(client.world, each)
