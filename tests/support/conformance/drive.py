"""Brings every operation of Unity's APIs to every answer it has: the request that succeeds, and
every obstacle."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from tests.support.access.realm import functions as guarded
from tests.support.functions import Answer, Http
from tests.support.openapi import UNITY
from tests.support.unity import SCHEMA, SEEN, T1, V1, B, Unity, judged
from turnstile.store.core.errors import StorageFault, Throttled

NOBODY = "99999999-9999-4999-8999-999999999999"
PREVIEW = f"{B}/delta/preview/commits"


class Ask(msgspec.Struct, frozen=True):
    """A request: path, body (None for none) and query."""

    path: str
    body: Any = None
    query: dict[str, Any] = {}


def stocked() -> Unity:
    """A client whose catalog has the table ``t1`` with one commit, and the external table
    ``e1``."""
    unity, seen = _stocked()
    SEEN.extend(seen)
    return unity.copy()


@functools.cache
def _stocked() -> tuple[Unity, list[tuple[str, int]]]:
    """Such a client, and the answers that made it; made once."""
    before = len(SEEN)
    unity = Unity()
    unity.create()
    unity.update(unity.commit(1))
    unity.external()
    seen = SEEN[before:]
    del SEEN[before:]
    return unity, seen


def _create(unity: Unity) -> Ask:
    staged = unity.stage("t2")
    unity.write_zero(staged)
    return Ask(f"{SCHEMA}/tables", unity.create_body(staged, "t2"))


def posted(unity: Unity, version: int, *actions: Any, **more: Any) -> dict[str, Any]:
    """The body of a commit for the older endpoint."""
    commit = unity.commit(version, *actions)["commit"]
    return {
        "table_id": unity.uuid,
        "table_uri": unity.head().location.replace("file:///", "file:/"),
        "commit_info": {key.replace("-", "_"): value for key, value in commit.items()},
        **more,
    }


def _update(unity: Unity) -> Ask:
    required = [{"type": "assert-table-uuid", "uuid": unity.uuid}]
    return Ask(T1, {"requirements": required, "updates": [unity.commit(2)]})


NEW = {"name": "new", "catalog_name": "main"}
OF = {"catalog_name": "main", "schema_name": "sales"}
EXTERNAL = {"name": "e2", **OF, "table_type": "EXTERNAL", "storage_location": "s3://other/e2"}

GOOD: dict[str, Callable[[Unity], Ask]] = {
    "getConfig": lambda unity: Ask(f"{V1}/config", query={"catalog": "main", "protocol-versions": "1.0"}),
    "createStagingTable": lambda unity: Ask(f"{SCHEMA}/staging-tables", {"name": "t2"}),
    "createTable": _create,
    "loadTable": lambda unity: Ask(T1),
    "tableExists": lambda unity: Ask(T1),
    "updateTable": _update,
    "deleteTable": lambda unity: Ask(T1),
    "renameTable": lambda unity: Ask(f"{T1}/rename", {"new-name": "t2"}),
    "getTableCredentials": lambda unity: Ask(f"{T1}/credentials", query={"operation": "READ"}),
    "reportMetrics": lambda unity: Ask(f"{T1}/metrics", {"table-id": unity.uuid}),
    "getStagingTableCredentials": lambda unity: Ask(f"{V1}/staging-tables/{unity.stage('t2')['table-id']}/credentials"),
    "getTemporaryPathCredentials": lambda unity: Ask(
        f"{V1}/temporary-path-credentials", query={"location": "s3://other/new", "operation": "READ_WRITE"}
    ),
    "getCommits": lambda unity: Ask(PREVIEW, {"table_id": unity.uuid, "table_uri": "file:/x", "start_version": 0}),
    "commit": lambda unity: Ask(PREVIEW, posted(unity, 2)),
    "listCatalogs": lambda unity: Ask(f"{B}/catalogs"),
    "createCatalog": lambda unity: Ask(f"{B}/catalogs", {"name": "new"}),
    "getCatalog": lambda unity: Ask(f"{B}/catalogs/main"),
    "updateCatalog": lambda unity: Ask(f"{B}/catalogs/main", {"comment": "c"}),
    "deleteCatalog": lambda unity: Ask(f"{B}/catalogs/main", query={"force": "true"}),
    "listSchemas": lambda unity: Ask(f"{B}/schemas", query={"catalog_name": "main"}),
    "createSchema": lambda unity: Ask(f"{B}/schemas", NEW),
    "getSchema": lambda unity: Ask(f"{B}/schemas/main.sales"),
    "updateSchema": lambda unity: Ask(f"{B}/schemas/main.sales", {"comment": "c"}),
    "deleteSchema": lambda unity: Ask(f"{B}/schemas/main.sales", query={"force": "true"}),
    "listTables": lambda unity: Ask(f"{B}/tables", query=OF),
    "createUnityTable": lambda unity: Ask(f"{B}/tables", EXTERNAL),
    "getTable": lambda unity: Ask(f"{B}/tables/main.sales.t1"),
    "deleteUnityTable": lambda unity: Ask(f"{B}/tables/main.sales.t1"),
    "createUnityStagingTable": lambda unity: Ask(f"{B}/staging-tables", {"name": "t2", **OF}),
    "generateTemporaryTableCredentials": lambda unity: Ask(
        f"{B}/temporary-table-credentials", {"table_id": unity.uuid, "operation": "READ"}
    ),
    "generateTemporaryPathCredentials": lambda unity: Ask(
        f"{B}/temporary-path-credentials", {"url": "s3://other/new", "operation": "PATH_READ"}
    ),
    "summary": lambda unity: Ask(f"{B}/metastore_summary"),
    "getPermissions": lambda unity: Ask(f"{B}/permissions/table/main.sales.t1"),
    "updatePermissions": lambda unity: Ask(
        f"{B}/permissions/table/main.sales.t1", {"changes": [{"principal": "ann", "add": ["SELECT"]}]}
    ),
}
"""Requests that succeed if nothing is in their way."""


def send(unity: Unity, id: str, ask: Ask, **options: Any) -> Answer:
    """Send ``ask`` as operation ``id``."""
    query = options.pop("query", ask.query)
    return unity.call(UNITY.operations[id].method, ask.path, ask.body, query=query, **options)


def good(unity: Unity, id: str) -> Answer:
    """The request that succeeds."""
    return send(unity, id, GOOD[id](unity))


def malformed(unity: Unity, id: str) -> Answer:
    """A body that is no object; a query that no gateway would let pass, where there is no body."""
    ask = GOOD[id](unity)
    if UNITY.operations[id].body and ask.body is not None:
        return send(unity, id, msgspec.structs.replace(ask, body=[1]))
    return send(unity, id, ask, query="x=" + "y" * 9000)


def as_user(unity: Unity, id: str, user: str) -> Answer:
    """The request that would succeed, of a user (none: without a token) of a stack that asks for
    tokens."""
    one = UNITY.operations[id]
    ask = GOOD[id](unity)
    for name in ("commit", "catalog"):
        guarded()[name].use_world(unity.world)
    http = Http(guarded()[one.function].app, user)
    return judged(one.method, ask.path, http.call(one.method, ask.path, json_body=ask.body, query=ask.query))


def without_token(unity: Unity, id: str) -> Answer:
    """A request without a principal."""
    return as_user(unity, id, "")


def without_right(unity: Unity, id: str) -> Answer:
    """A request of a principal without grants."""
    return as_user(unity, id, "bob")


def failing(error: Exception) -> Callable[[Unity, str], Answer]:
    """The request that would succeed, while every access to the catalog's rows ends with
    ``error``."""

    def drive(unity: Unity, id: str) -> Answer:
        ask = GOOD[id](unity)

        def fail(*_: Any, **__: Any) -> Any:
            raise error

        for name in ("read", "read_many", "scan", "write", "transact"):
            setattr(unity.world.refs, name, fail)
        return send(unity, id, ask)

    return drive


MISSING: dict[str, dict[str, Any]] = {
    "getConfig": {"catalog": "nope", "protocol-versions": "1.0"},
    "listSchemas": {"catalog_name": "nope"},
    "listTables": {"catalog_name": "main", "schema_name": "nope"},
    "createSchema": NEW | {"catalog_name": "nope"},
    "createUnityTable": EXTERNAL | {"schema_name": "nope"},
    "createUnityStagingTable": {"name": "t2", "catalog_name": "main", "schema_name": "nope"},
    "generateTemporaryTableCredentials": {"table_id": NOBODY, "operation": "READ"},
    "getCommits": {"table_id": NOBODY, "start_version": 0},
    "commit": {"table_id": NOBODY, "table_uri": "file:///x", "latest_backfilled_version": 1},
}
"""Bodies, or queries of GET, that name missing entities; other operations have them in their
path."""


def not_there(unity: Unity, id: str) -> Answer:
    """A request for something that does not exist."""
    ask = GOOD[id](unity)
    found = MISSING.get(id)
    if found is not None and ask.body is None:
        return send(unity, id, ask, query=found)
    if found is not None:
        return send(unity, id, msgspec.structs.replace(ask, body=found))
    path = (
        UNITY.operations[id]
        .path.replace("{securable_type}", "table")
        .replace("{full_name}", "main.nope.nope")
        .replace("{table_id}", NOBODY)
    )
    schema = "sales" if "{table}" in path else "nope"
    for name, value in (("catalog", "main"), ("schema", schema), ("table", "nope"), ("name", "nope")):
        path = path.replace("{" + name + "}", value)
    return send(unity, id, msgspec.structs.replace(ask, path=path))


def taken(unity: Unity, id: str) -> Answer:
    """A name that another has already."""
    ask = GOOD[id](unity)
    if id == "updateSchema":
        send(unity, "createSchema", GOOD["createSchema"](unity))
        return send(unity, id, msgspec.structs.replace(ask, body={"new_name": "new"}))
    name = "new-name" if id == "renameTable" else "name"
    other = {"createCatalog": "main", "createSchema": "sales"}.get(id, "E1")
    return send(unity, id, msgspec.structs.replace(ask, body={**ask.body, name: other}))


def lost(unity: Unity, id: str) -> Answer:
    """A version that belongs to another writer."""
    if id == "commit":
        return unity.post(PREVIEW, posted(unity, 1))
    return unity.update(unity.commit(1))


def not_served(unity: Unity, id: str) -> Answer:
    """Parts of the reference that Turnstile does not have."""
    ask = GOOD[id](unity)
    other = {"table_type": "STREAMING_TABLE"} if id == "createUnityTable" else {"new_name": "other"}
    return send(unity, id, msgspec.structs.replace(ask, body={**ask.body, **other}))


def driver(id: str, status: int) -> Callable[[Unity, str], Answer]:
    """Brings operation ``id`` to ``status``."""
    return {
        200: good,
        204: good,
        400: malformed,
        401: without_token,
        403: without_right,
        404: not_there,
        409: lost if id in ("updateTable", "commit") else taken,
        429: failing(Throttled()),
        500: failing(StorageFault("the bucket cannot be reached")),
        501: not_served,
    }[status]
