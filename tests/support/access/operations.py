"""One request of every operation, as the authorization matrix sends it: complete except for
rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.support.access.realm import EXTERNAL, B, Realm

V1 = f"{B}/delta/v1"
NS = "/v1/catalogs/main/namespaces"
SALES = f"{NS}/sales"
T1 = f"{SALES}/tables/t1"
CLONES = "/v1/catalogs/main/clones"
SCHEMA = f"{V1}/catalogs/main/schemas/sales"
D1 = f"{SCHEMA}/tables/t1"
OF = {"catalog_name": "main", "schema_name": "sales"}
FREE = "s3://other/free"
POLICY = "/maintenance-policy"


class Ask(msgspec.Struct, frozen=True):
    """A request."""

    method: str
    path: str
    body: Any = None
    query: dict[str, Any] = {}


TRANSACTION = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def _by_id(realm: Realm, operation: str) -> str:
    return f"/v1/tables/{realm.table}/{operation}"


def _ref(realm: Realm, method: str, what: str = "") -> Ask:
    """A request about a reference that is there."""
    token = realm.must("GET", "/v1/refs/app").json["token"]
    body = {"token": token, "value": "b"} if method == "POST" else None
    return Ask(method, f"/v1/refs/app{what}", body, {"token": token} if method == "DELETE" else {})


def _now(realm: Realm) -> dict[str, Any]:
    """The present moment as one of the past."""
    newest = realm.must("GET", "/v1/catalogs/main/log").json["commits"][0]
    return {"as_of": f"seq:{newest['seq']}"}


def _run(realm: Realm) -> Ask:
    """Renews a run that was begun."""
    realm.must("PATCH", f"{T1}{POLICY}", {"set": {"enabled": "true", "vacuum": "true"}})
    attempt = realm.must("POST", _by_id(realm, "maintenance-runs"), {}).json["attempt"]
    return Ask("POST", _by_id(realm, f"maintenance-runs/{attempt}"), {"outcome": "running"})


def _show_snapshot(realm: Realm) -> Ask:
    realm.must("POST", "/v1/catalogs/main/snapshots", {"name": "s"})
    return Ask("GET", "/v1/catalogs/main/snapshots/s")


def _drop_snapshot(realm: Realm) -> Ask:
    realm.must("POST", "/v1/catalogs/main/snapshots", {"name": "s"})
    return Ask("DELETE", "/v1/catalogs/main/snapshots/s")


BRANCHES = "/v1/catalogs/main/branches"


def _branch(realm: Realm, method: str, tail: str = "", body: Any = None) -> Ask:
    realm.must("POST", BRANCHES, {"name": "dev"})
    return Ask(method, f"{BRANCHES}/dev{tail}", body)


def _promote(realm: Realm) -> Ask:
    """Of a branch that creates a namespace."""
    asked = _branch(realm, "POST", "/promote", body={})
    realm.must("POST", "/v1/catalogs/main@dev/namespaces", {"name": "it"})
    return asked


def _record_checks(realm: Realm) -> Ask:
    """Of a table that the branch changed."""
    _branch(realm, "GET")
    own = realm.must("GET", "/v1/catalogs/main@dev/namespaces/sales/tables/t1").json["table_id"]
    realm.must("POST", f"/v1/tables/{own}/commits", realm.append(2, "branch"))
    state = realm.must("GET", f"{BRANCHES}/dev/diff").json["state"]
    finding = {"table": "sales.t1", "expectation": "size", "text": "row_count > 0", "rows": 1}
    return Ask("POST", f"{BRANCHES}/dev/checks", {"state": state, "findings": [finding]})


def _reset(realm: Realm) -> Ask:
    """To where it is."""
    newest = realm.must("GET", "/v1/catalogs/main/log").json["commits"][0]
    return Ask("POST", "/v1/catalogs/main/reset", {"to": {"seq": newest["seq"]}})


def _undrop(realm: Realm) -> Ask:
    realm.must("DELETE", T1)
    return Ask("POST", f"{T1}/undrop", {})


def _clone_the_past(realm: Realm) -> Ask:
    newest = realm.must("GET", "/v1/catalogs/main/log").json["commits"][0]
    return Ask("POST", CLONES, {"from": "hr", "to": "hr9", "of": {"seq": newest["seq"]}})


def _keys(realm: Realm, operation: str) -> Ask:
    return Ask("POST", f"{B}/temporary-table-credentials", {"table_id": realm.table, "operation": operation})


def _path_keys(operation: str, url: str = FREE) -> Ask:
    return Ask("POST", f"{B}/temporary-path-credentials", {"url": url, "operation": operation})


def _path_keys_delta(operation: str) -> Ask:
    return Ask("GET", f"{V1}/temporary-path-credentials", query={"location": FREE, "operation": operation})


def _grant(kind: str, name: str, own: bool = False) -> Ask:
    privilege = "CREATE CATALOG" if kind == "metastore" else "SELECT"
    path = f"/v1/permissions/{kind}/{name}" if own else f"{B}/permissions/{kind}/{name}"
    return Ask("PATCH", path, {"changes": [{"principal": "zoe", "add": [privilege], "remove": []}]})


def _legacy(realm: Realm, user: str) -> Ask:
    asked = {"name": "t2", **OF, "table_type": "MANAGED", "storage_location": realm.location(realm.staged[user])}
    return Ask("POST", f"{B}/tables", asked)


def _preview(realm: Realm) -> Ask:
    asked = {"table_id": realm.table, "table_uri": realm.head().location, "commit_info": realm.staged_commit(2)}
    return Ask("POST", f"{B}/delta/preview/commits", asked)


def _update(realm: Realm) -> Ask:
    commit = {key.replace("_", "-"): value for key, value in realm.staged_commit(2).items()}
    required = [{"type": "assert-table-uuid", "uuid": realm.table}]
    return Ask("POST", D1, {"requirements": required, "updates": [{"action": "add-commit", "commit": commit}]})


def _external(kebab: bool) -> Ask:
    if not kebab:
        asked = {"name": "e2", **OF, "table_type": "EXTERNAL", "storage_location": "s3://other/e2", "columns": []}
        return Ask("POST", f"{B}/tables", asked)
    struct = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    protocol = {"min-reader-version": 1, "min-writer-version": 2}
    body = {"name": "e2", "location": "s3://other/e2", "table-type": "EXTERNAL", "columns": struct,
            "protocol": protocol, "properties": {}, "last-commit-timestamp-ms": 1}  # fmt: skip
    return Ask("POST", f"{SCHEMA}/tables", body)


def _register(realm: Realm, user: str) -> Ask:
    return Ask("POST", f"{SALES}/tables", {"name": "t2", "table_id": realm.staged[user]})


def _transaction(realm: Realm) -> dict[str, Any]:
    return {"id": realm.table, "commits": [{"table_id": realm.table, **realm.append(2, "mine")}]}


def _announced(realm: Realm, method: str, what: str = "") -> Ask:
    """A request about a transaction that another principal announced."""
    path = f"/v1/transactions/{realm.table}"
    realm.must("PUT", path, {"commits": _transaction(realm)["commits"]})
    return Ask(method, path + what)


def _together(*changes: dict[str, Any], **more: Any) -> Ask:
    """A transaction of the catalog."""
    return Ask("POST", "/v1/catalogs/main/transactions", {"id": TRANSACTION, "changes": [*changes], **more})


def _announced_together(realm: Realm) -> Ask:
    """A request about a transaction of the catalog that another principal announced."""
    path = f"/v1/catalogs/main/transactions/{TRANSACTION}"
    realm.must("PUT", path, {"changes": [{"change": "update_namespace", "namespace": "sales", "comment": "c"}]})
    return Ask("POST", f"{path}/resume")


def _renamed_together(realm: Realm) -> Ask:
    """With a namespace that is created for it."""
    rename = {"change": "rename_table", "namespace": "sales", "table": "t1", "name": "t9", "to_namespace": "it"}
    return _together({"change": "create_namespace", "name": "it"}, rename)


OPERATIONS: dict[str, Callable[[Realm], Ask]] = {
    # -- /v1, by uuid
    "commit": lambda realm: Ask("POST", _by_id(realm, "commits"), realm.append(2, "mine")),
    "transact": lambda realm: Ask("POST", "/v1/transactions", _transaction(realm)),
    "announce": lambda realm: Ask(
        "PUT", f"/v1/transactions/{realm.table}", {"commits": _transaction(realm)["commits"]}
    ),
    "show transaction": lambda realm: _announced(realm, "GET"),
    "resume": lambda realm: _announced(realm, "POST", "/resume"),
    "abort": lambda realm: _announced(realm, "DELETE"),
    "list transactions": lambda _: Ask("GET", "/v1/transactions"),
    "show fleet": lambda _: Ask("GET", "/v1/fleet"),
    "read fleet events": lambda _: Ask("GET", "/v1/fleet/events"),
    "reserve": lambda realm: Ask("PUT", f"/v1/reservations/{TRANSACTION}", {"tables": [realm.table]}),
    "release": lambda _: Ask("DELETE", f"/v1/reservations/{TRANSACTION}"),
    "list reservations": lambda _: Ask("GET", "/v1/reservations"),
    "cut": lambda realm: Ask("POST", "/v1/snapshots", {"tables": [realm.table]}),
    "cut by name": lambda realm: Ask("POST", "/v1/snapshots", {"tables": ["main.sales.t1"]}),
    "list commits": lambda realm: Ask("GET", _by_id(realm, "commits")),
    "head": lambda realm: Ask("GET", _by_id(realm, "head")),
    "outcome": lambda realm: Ask("GET", _by_id(realm, "outcome"), query={"txn_id": "secret"}),
    "publish": lambda realm: Ask("POST", _by_id(realm, "publish")),
    # -- /v1, by name
    "load": lambda _: Ask("GET", T1),
    "service": lambda _: Ask("GET", "/v1"),
    "list catalogs": lambda _: Ask("GET", "/v1/catalogs"),
    "create catalog": lambda _: Ask("POST", "/v1/catalogs", {"name": "second"}),
    "list namespaces": lambda _: Ask("GET", NS),
    "list nested namespaces": lambda _: Ask("GET", NS, query={"parent": "sales"}),
    "create namespace": lambda _: Ask("POST", NS, {"name": "it"}),
    "namespace and commit": lambda realm: _together(
        {"change": "create_namespace", "name": "it"}, commits=_transaction(realm)["commits"]
    ),
    "namespace and rename": _renamed_together,
    "update ns, together": lambda _: _together({"change": "update_namespace", "namespace": "sales", "comment": "c"}),
    "announce, together": lambda _: Ask(
        "PUT",
        f"/v1/catalogs/main/transactions/{TRANSACTION}",
        {"changes": [{"change": "update_namespace", "namespace": "sales", "comment": "c"}]},
    ),
    "resume, together": _announced_together,
    "stage in new namespace": lambda _: Ask("POST", f"{NS}/it/staging-tables", {"name": "t", "new_namespace": True}),
    "register and commit": lambda realm: _together(
        {"change": "create_table", "namespace": "sales", "name": "t2", "table_id": realm.staged["ann"]},
        commits=_transaction(realm)["commits"],
    ),
    "drop, together": lambda _: _together({"change": "drop_table", "namespace": "sales", "table": "t1"}),
    "create nested namespace": lambda _: Ask("POST", NS, {"name": "sales.eu"}),
    "get namespace": lambda _: Ask("GET", SALES),
    "update namespace": lambda _: Ask("PATCH", SALES, {"comment": "c"}),
    "rename namespace": lambda _: Ask("POST", f"{SALES}/rename", {"name": "s9"}),
    "rename namespace's case": lambda _: Ask("POST", f"{SALES}/rename", {"name": "SALES"}),
    "move namespace": lambda _: Ask("POST", f"{SALES}/rename", {"name": "sales", "namespace": "hr"}),
    "drop namespace": lambda _: Ask("DELETE", SALES, query={"cascade": "true"}),
    "list tables": lambda _: Ask("GET", f"{SALES}/tables"),
    "stage": lambda _: Ask("POST", f"{SALES}/staging-tables", {"name": "t3"}),
    "register own": lambda realm: _register(realm, "ann"),
    "register bob's": lambda realm: _register(realm, "bob"),
    "rename": lambda _: Ask("POST", f"{T1}/rename", {"name": "t9"}),
    "rename elsewhere": lambda _: Ask("POST", f"{T1}/rename", {"name": "t9", "namespace": "hr"}),
    "drop": lambda _: Ask("DELETE", T1),
    "undrop": _undrop,
    "import": lambda _: Ask("POST", f"{SALES}/imports", {"name": "i", "location": FREE}),
    "export": lambda _: Ask("POST", f"{T1}/export", {}),
    "list namespaces, as of": lambda _: Ask("GET", NS, query={"as_of": "seq:1"}),
    "get namespace, as of": lambda realm: Ask("GET", SALES, query=_now(realm)),
    "list tables, as of": lambda realm: Ask("GET", f"{SALES}/tables", query=_now(realm)),
    "entry": lambda _: Ask("GET", f"{T1}/entry"),
    "entry, as of": lambda realm: Ask("GET", f"{T1}/entry", query=_now(realm)),
    "find, as of": lambda realm: Ask("GET", "/v1/find", query={"query": "/main/*", **_now(realm)}),
    "find": lambda _: Ask("GET", "/v1/find", query={"query": "/main/*"}),
    "find files": lambda _: Ask("GET", "/v1/find/files", query={"query": "/main/*/*/files[]"}),
    # -- /v1, operators
    "read events": lambda _: Ask("GET", "/v1/events", query={"catalog": "main"}),
    "list heads": lambda _: Ask("GET", "/v1/tables"),
    "diagnose": lambda realm: Ask("GET", _by_id(realm, "repair")),
    "repair": lambda realm: Ask("POST", _by_id(realm, "repair")),
    "verify": lambda realm: Ask("GET", _by_id(realm, "verification")),
    "verify files": lambda _: Ask("GET", f"{T1}/file-verification"),
    "list pins": lambda realm: Ask("GET", _by_id(realm, "pins")),
    "hold versions": lambda realm: Ask("POST", _by_id(realm, "pins"), {"holder": "report", "version": 0}),
    "release versions": lambda realm: Ask("DELETE", _by_id(realm, "pins/report")),
    "announce vacuum": lambda realm: Ask("POST", _by_id(realm, "vacuums"), {}),
    "maintenance": lambda realm: Ask("GET", _by_id(realm, "maintenance")),
    "describe table": lambda realm: Ask("GET", _by_id(realm, "detail")),
    "sample table": lambda realm: Ask("GET", _by_id(realm, "sample")),
    "plan scan": lambda realm: Ask("POST", _by_id(realm, "plan"), {}),
    "judge reads": lambda realm: Ask("POST", _by_id(realm, "judge"), {"after": 0, "predicates": [""]}),
    "append rows": lambda realm: Ask("POST", _by_id(realm, "rows"), [{"id": 1}]),
    "append rows by name": lambda _: Ask("POST", f"{T1}/rows", [{"id": 1}]),
    "begin run": lambda realm: Ask("POST", _by_id(realm, "maintenance-runs"), {}),
    "update run": _run,
    "catalog policy": lambda _: Ask("GET", f"/v1/catalogs/main{POLICY}"),
    "change catalog policy": lambda _: Ask("PATCH", f"/v1/catalogs/main{POLICY}", {"set": {"enabled": "true"}}),
    "namespace policy": lambda _: Ask("GET", f"{SALES}{POLICY}"),
    "change ns policy": lambda _: Ask("PATCH", f"{SALES}{POLICY}", {"set": {"enabled": "true"}}),
    "table policy": lambda _: Ask("GET", f"{T1}{POLICY}"),
    "change table policy": lambda _: Ask("PATCH", f"{T1}{POLICY}", {"set": {"enabled": "true"}}),
    "catalog log": lambda _: Ask("GET", "/v1/catalogs/main/log"),
    "list snapshots": lambda _: Ask("GET", "/v1/catalogs/main/snapshots"),
    "show snapshot": _show_snapshot,
    "create snapshot": lambda _: Ask("POST", "/v1/catalogs/main/snapshots", {"name": "s"}),
    "drop snapshot": _drop_snapshot,
    "list branches": lambda _: Ask("GET", BRANCHES),
    "show branch": lambda realm: _branch(realm, "GET"),
    "create branch": lambda _: Ask("POST", BRANCHES, {"name": "dev"}),
    "renew branch": lambda realm: _branch(realm, "PATCH", body={"days": 9}),
    "drop branch": lambda realm: _branch(realm, "DELETE"),
    "diff branch": lambda realm: _branch(realm, "GET", "/diff"),
    "record checks": _record_checks,
    "update branch": lambda realm: _branch(realm, "POST", "/update"),
    "promote branch": _promote,
    "reset catalog": _reset,
    "clone table": lambda _: Ask("POST", CLONES, {"from": "sales.t1", "to": "sales.t9"}),
    "clone namespace": lambda _: Ask("POST", CLONES, {"from": "hr", "to": "hr9"}),
    "clone the past": _clone_the_past,
    "create ref": lambda _: Ask("POST", "/v1/refs", {"name": "other", "value": "a"}),
    "read ref": lambda realm: _ref(realm, "GET"),
    "ref history": lambda realm: _ref(realm, "GET", "/history"),
    "swap ref": lambda realm: _ref(realm, "POST"),
    "delete ref": lambda realm: _ref(realm, "DELETE"),
    "grant on ref": lambda _: _grant("ref", "app", own=True),
    "show rights on ref": lambda _: Ask("GET", "/v1/permissions/ref/app"),
    "check": lambda _: Ask("POST", "/v1/checks"),
    "collect garbage": lambda _: Ask("POST", "/v1/gc", {}),
    # -- rights
    "show rights": lambda _: Ask("GET", "/v1/permissions/table/main.sales.t1"),
    "show permissions": lambda _: Ask("GET", f"{B}/permissions/table/main.sales.t1"),
    "grant on metastore": lambda _: _grant("metastore", "x"),
    "grant on catalog": lambda _: _grant("catalog", "main"),
    "grant on schema": lambda _: _grant("schema", "main.sales"),
    "grant on table": lambda _: _grant("table", "main.sales.t1"),
    "grant on table, /v1": lambda _: _grant("table", "main.sales.t1", own=True),
    "hand table over": lambda _: Ask("PATCH", "/v1/permissions/table/main.sales.t1", {"owner": "zoe"}),
    # -- Unity's Delta API
    "config": lambda _: Ask("GET", f"{V1}/config", query={"catalog": "main", "protocol-versions": "1.0"}),
    "delta load": lambda _: Ask("GET", D1),
    "delta exists": lambda _: Ask("HEAD", D1),
    "delta update": _update,
    "delta metrics": lambda realm: Ask("POST", f"{D1}/metrics", {"table-id": realm.table, "report": {}}),
    "delta stage": lambda _: Ask("POST", f"{SCHEMA}/staging-tables", {"name": "t3"}),
    "delta create own": lambda realm: Ask("POST", f"{SCHEMA}/tables", realm.finalised(realm.staged["ann"])),
    "delta create bob's": lambda realm: Ask("POST", f"{SCHEMA}/tables", realm.finalised(realm.staged["bob"])),
    "delta create external": lambda _: _external(kebab=True),
    "delta rename": lambda _: Ask("POST", f"{D1}/rename", {"new-name": "t9"}),
    "delta drop": lambda _: Ask("DELETE", D1),
    "delta read keys": lambda _: Ask("GET", f"{D1}/credentials", query={"operation": "READ"}),
    "delta write keys": lambda _: Ask("GET", f"{D1}/credentials", query={"operation": "READ_WRITE"}),
    "own staging keys": lambda realm: Ask("GET", f"{V1}/staging-tables/{realm.staged['ann']}/credentials"),
    "bob's staging keys": lambda realm: Ask("GET", f"{V1}/staging-tables/{realm.staged['bob']}/credentials"),
    "delta path keys": lambda _: _path_keys_delta("PATH_READ"),
    # -- Unity's older API
    "unity summary": lambda _: Ask("GET", f"{B}/metastore_summary"),
    "unity list catalogs": lambda _: Ask("GET", f"{B}/catalogs"),
    "unity create catalog": lambda _: Ask("POST", f"{B}/catalogs", {"name": "second"}),
    "unity get catalog": lambda _: Ask("GET", f"{B}/catalogs/main"),
    "unity update catalog": lambda _: Ask("PATCH", f"{B}/catalogs/main", {"comment": "c"}),
    "unity drop catalog": lambda _: Ask("DELETE", f"{B}/catalogs/main", query={"force": "true"}),
    "unity list schemas": lambda _: Ask("GET", f"{B}/schemas", query={"catalog_name": "main"}),
    "unity create schema": lambda _: Ask("POST", f"{B}/schemas", {"name": "it", "catalog_name": "main"}),
    "unity get schema": lambda _: Ask("GET", f"{B}/schemas/main.sales"),
    "unity update schema": lambda _: Ask("PATCH", f"{B}/schemas/main.sales", {"comment": "c"}),
    "unity rename schema": lambda _: Ask("PATCH", f"{B}/schemas/main.sales", {"new_name": "s9"}),
    "unity drop schema": lambda _: Ask("DELETE", f"{B}/schemas/main.sales", query={"force": "true"}),
    "unity list tables": lambda _: Ask("GET", f"{B}/tables", query=OF),
    "unity get table": lambda _: Ask("GET", f"{B}/tables/main.sales.t1"),
    "unity create own": lambda realm: _legacy(realm, "ann"),
    "unity create bob's": lambda realm: _legacy(realm, "bob"),
    "unity create external": lambda _: _external(kebab=False),
    "unity drop": lambda _: Ask("DELETE", f"{B}/tables/main.sales.t1"),
    "unity stage": lambda _: Ask("POST", f"{B}/staging-tables", {"name": "t3", **OF}),
    "unity read keys": lambda realm: _keys(realm, "READ"),
    "unity write keys": lambda realm: _keys(realm, "READ_WRITE"),
    "path keys to read": lambda _: _path_keys("PATH_READ"),
    "path keys to write": lambda _: _path_keys("PATH_READ_WRITE"),
    "path keys to create": lambda _: _path_keys("PATH_CREATE_TABLE"),
    "path keys of a table": lambda _: _path_keys("PATH_READ", f"{EXTERNAL}/part"),
    "preview commits": lambda realm: Ask(
        "GET", f"{B}/delta/preview/commits", query={"table_id": realm.table, "start_version": 0}
    ),
    "preview commit": _preview,
}
