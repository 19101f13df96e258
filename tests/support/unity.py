"""A Unity client against the real handlers: both functions on one world, and an engine's files in
its storage."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any, Self

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, copied, fake_world
from tests.support.functions import Answer, Http, function
from tests.support.gateway import function_of
from tests.support.openapi import UNITY
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.store.ports import CredentialVendor

B = "/api/2.1/unity-catalog"
V1 = f"{B}/delta/v1"
SCHEMA = f"{V1}/catalogs/main/schemas/sales"
T1 = f"{SCHEMA}/tables/t1"
COLUMNS: dict[str, Any] = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}
READER = ["catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"]
WRITER = [*READER, "inCommitTimestamp", "appendOnly", "invariants"]
FIXED = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}


def protocol(*features: str) -> dict[str, Any]:
    """A protocol action in Delta's JSON."""
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": READER,
            "writerFeatures": [*WRITER, *features],
        }
    }


def api_protocol(*features: str) -> dict[str, Any]:
    """The same in the API's spelling."""
    said = protocol(*features)["protocol"]
    return {
        "min-reader-version": said["minReaderVersion"],
        "min-writer-version": said["minWriterVersion"],
        "reader-features": said["readerFeatures"],
        "writer-features": said["writerFeatures"],
    }


def external_protocol(*features: str) -> dict[str, Any]:
    """As ``api_protocol``, of a table whose commits no catalog coordinates."""
    said = api_protocol(*features)
    for member in ("reader-features", "writer-features"):
        said[member] = [feature for feature in said[member] if feature != "catalogManaged"]
    return said


def metadata(columns: dict[str, Any] = COLUMNS, partitions: Any = (), description: Any = None, **config: str) -> Any:
    """A metaData action with the fixed properties and these."""
    made = delta.metadata(**FIXED, **config)
    said = made["metaData"]
    said |= {"schemaString": json.dumps(columns), "partitionColumns": list(partitions)}
    if description:
        said["description"] = description
    return made


SEEN: list[tuple[str, int]] = []
"""Operation and status of every answer that was judged, in order; who looks at it empties it
first."""


def judged(method: str, path: str, answer: Answer) -> Answer:
    """``answer``, if it is one that openapi/unity.yaml describes for the request; a path nobody
    serves has no operation."""
    operation = UNITY.of(method, path)
    if operation is not None:
        UNITY.check(operation, answer)
        SEEN.append((operation.id, answer.status))
    return answer


class Unity:
    """A client with everything an engine does around its requests."""

    def __init__(
        self,
        vendor: CredentialVendor | None = None,
        *,
        catalog: str = "main",
        schema: str = "sales",
        lake_root: str = "file:///lake",
    ) -> None:
        self.world: FakeWorld = fake_world()
        self.attach(vendor, lake_root)
        self.hot = Http(function("commit").app)
        self.cold = Http(function("catalog").app)
        assert self.call("POST", f"{B}/catalogs", {"name": catalog}).status == 200
        assert self.call("POST", f"{B}/schemas", {"name": schema, "catalog_name": catalog}).status == 200

    def copy(self) -> Self:
        """The same client on a world of its own, which the functions work on from now on."""
        twin = copy.copy(self)
        twin.world = copied(self.world)
        twin.attach()
        return twin

    def attach(self, vendor: CredentialVendor | None = None, lake_root: str = "file:///lake") -> None:
        """Let the functions work on this world (again)."""
        function("commit").use_world(self.world)
        function("catalog").use_world(self.world, vendor=vendor, lake_root=lake_root)

    def call(self, method: str, path: str, json_body: Any = None, **options: Any) -> Answer:
        """One request, to the function that the gateway would choose; the answer is judged by
        openapi/unity.yaml."""
        hot = function_of(method, path) == "commit"
        return judged(method, path, (self.hot if hot else self.cold).call(method, path, json_body=json_body, **options))

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, json_body: Any = None, **options: Any) -> Answer:
        return self.call("POST", path, json_body, **options)

    # -- tables -------------------------------------------------------------------------------------------------------

    def stage(self, name: str = "t1") -> dict[str, Any]:
        answer = self.post(f"{SCHEMA}/staging-tables", {"name": name})
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def write(self, location: str, path: str, content: bytes) -> None:
        self.world.storages.open(location).put_if_absent(path, content)

    def create_body(self, staged: dict[str, Any], name: str = "t1", *features: str, **config: str) -> dict[str, Any]:
        """The request that finalises a staging table."""
        return {
            "name": name,
            "location": staged["location"],
            "table-type": "MANAGED",
            "columns": COLUMNS,
            "partition-columns": [],
            "protocol": api_protocol(*features),
            "properties": {**FIXED, "io.unitycatalog.tableId": staged["table-id"], **config},
            "last-commit-timestamp-ms": self.world.clock.now_ms(),
        }

    def write_zero(
        self, staged: dict[str, Any], *features: str, description: Any = None, instead: Any = (), **config: str
    ) -> None:
        """Version 0 of a table with the test's columns; ``instead``: other metadata and domains."""
        usual = metadata(description=description, **{"io.unitycatalog.tableId": staged["table-id"]}, **config)
        info = delta.info("create", self.world.clock.now_ms(), "CREATE TABLE")
        content = delta.lines(info, protocol(*features), *(instead or [usual]))
        self.write(staged["location"], "_delta_log/00000000000000000000.json", content)

    def create(self, name: str = "t1", *features: str, **config: str) -> dict[str, Any]:
        """A managed table, all steps; the answer."""
        staged = self.stage(name)
        self.write_zero(staged, *features, **config)
        answer = self.post(f"{SCHEMA}/tables", self.create_body(staged, name, *features, **config))
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def external(self, name: str = "e1", location: str = "s3://other/e1", **more: Any) -> dict[str, Any]:
        asked = {
            "name": name,
            "catalog_name": "main",
            "schema_name": "sales",
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [],
            "storage_location": location,
            "properties": {},
        }
        answer = self.post(f"{B}/tables", {**asked, **more})
        assert answer.status == 200, answer.text
        return dict(answer.json)

    # -- commits ------------------------------------------------------------------------------------------------------

    def commit(self, version: int, *actions: Any, name: str = "", txn: str = "", ict: int = 0) -> dict[str, Any]:
        """Write a staged file; the ``add-commit`` action that proposes it."""
        loaded = self.get(T1).json["metadata"]
        ict = ict or self.world.clock.now_ms()
        tracked = "delta.feature.rowTracking" in loaded["properties"]
        ids = {"baseRowId": 10 * version, "defaultRowCommitVersion": version} if tracked else {}
        append = delta.add(f"f{version}.parquet", partitionValues=dict.fromkeys(loaded["partition-columns"]), **ids)
        content = delta.lines(delta.info(txn or f"txn-{version}-{ict}", ict), *(actions or (append,)))
        name = name or f"{version:020d}.{ict}.json"
        self.write(loaded["location"], f"_delta_log/_staged_commits/{name}", content)
        return {
            "action": "add-commit",
            "commit": {
                "version": version,
                "timestamp": ict,
                "file-name": name,
                "file-size": len(content),
                "file-modification-timestamp": ict + 1,
            },
        }

    @functools.cached_property
    def uuid(self) -> str:
        return str(self.get(T1).json["metadata"]["table-uuid"])

    def update(self, *updates: Any, etag: str | None = None, uuid: str | None = None, path: str = T1) -> Answer:
        required = [{"type": "assert-table-uuid", "uuid": uuid or self.uuid}]
        if etag is not None:
            required.append({"type": "assert-etag", "etag": etag})
        return self.post(path, {"requirements": required, "updates": list(updates)})

    def head(self) -> TableHead:
        return TableHead.from_row(self.world.refs.rows[self.world.space.table(self.uuid)])

    def publish(self) -> None:
        Publisher(self.world).publish(self.uuid)

    def rows(self) -> Any:
        """All mutable rows, to show that nothing changed."""
        return {key: dict(row) for key, row in self.world.refs.rows.items()}


def published(version: int) -> dict[str, Any]:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def refused(answer: Answer, status: int, type: str) -> dict[str, Any]:
    """The error of the Delta API, exactly: no member more."""
    assert answer.status == status, answer.text
    (error,) = answer.json.values()
    assert set(answer.json) == {"error"} and set(error) == {"message", "type", "code"}
    assert (error["code"], error["type"]) == (status, type), answer.text
    return dict(error)


def refused_old(answer: Answer, status: int, code: str) -> None:
    """The error of the older API, exactly."""
    assert answer.status == status, answer.text
    assert set(answer.json) == {"error_code", "message", "details"}
    assert answer.json["error_code"] == code, answer.text
    assert answer.json["details"] == [{"reason": code, "@type": "google.rpc.ErrorInfo"}]
