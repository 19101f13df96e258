"""A realm with users behind the real handlers: every request carries a bearer token, every right
was granted over HTTP.

realm = Realm()
realm.grant("catalog", "main", "ann", "USE CATALOG")
realm.ask("ann", "GET", "/v1/...").status
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from typing import Any, Self

import pyarrow as pa

from tests.support.fakes import delta
from tests.support.fakes.rows import parquet_body
from tests.support.fakes.world import FakeWorld, copied, fake_world
from tests.support.functions import Answer, Function, Http
from tests.support.gateway import function_of
from tests.support.unity import COLUMNS, FIXED, api_protocol
from tests.support.unity import metadata as unity_metadata
from tests.support.unity import protocol as unity_protocol
from turnstile.catalog.services import build
from turnstile.delta.core.head import TableHead
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.ports import CredentialVendor

USERS: dict[str, dict[str, Any]] = {
    "root": {"name": "root", "admin": True},
    "ann": {"name": "ann"},
    "member": {"name": "member", "roles": ["team"]},
    "bob": {"name": "bob"},
}
"""The principals, by token."""

LAKE = "file:///lake"
B = "/api/2.1/unity-catalog"
EXTERNAL = "s3://other/e1"


@functools.cache
def functions() -> dict[str, Function]:
    """The functions, as they are deployed with these users."""
    tokens = json.dumps({hashlib.sha256(token.encode()).hexdigest(): user for token, user in USERS.items()})
    names = ("commit", "catalog", "plans", "branches", "ingest", "rows")
    return {name: Function(name, TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKENS=tokens) for name in names}


def _api(kind: str, privileges: tuple[str, ...]) -> str:
    """The API that knows this kind of securable and these privileges."""
    return "/v1" if kind == "ref" or "PROMOTE" in privileges else B


@functools.cache
def _data_file() -> bytes:
    """The content of the file that version 1 of ``sales.t1`` adds."""
    return parquet_body(pa.table({"id": [1]}))


class Realm:
    """Catalog ``main`` with schemas ``sales`` and ``hr``, the table ``sales.t1`` with one commit,
    the external table ``sales.e1``, a staging table of ann's and one of bob's, and the reference
    ``app``. Only admins own them.

    Args:
        world: one that has all of that, or nothing at all.
    """

    def __init__(self, world: FakeWorld | None = None, vendor: CredentialVendor | None = None) -> None:
        self.world = world or fake_world()
        self._vendor = vendor
        self.open()
        if world is not None:
            return
        self.must("POST", "/v1/catalogs", {"name": "main"})
        for name in ("sales", "hr"):
            self.must("POST", "/v1/catalogs/main/namespaces", {"name": name})
        self.table = self.create("t1")
        self.must("POST", f"/v1/tables/{self.table}/commits", self.append(1, "secret"))
        self.world.storages.open(self.head().location).put_if_absent("secret.parquet", _data_file())
        external = {"name": "e1", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                    "data_source_format": "DELTA", "columns": [], "storage_location": EXTERNAL}  # fmt: skip
        self.external = self.must("POST", f"{B}/tables", external).json["table_id"]
        self.staged = {user: self.stage_of(user) for user in ("ann", "bob")}
        self.must("POST", "/v1/refs", {"name": "app", "value": "a"})
        for kind, name in (("ref", "app"), ("catalog", "main"), ("schema", "main.sales"), ("schema", "main.hr"),
                           ("table", "main.sales.t1"), ("table", "main.sales.e1")):  # fmt: skip
            self.own(kind, name, "")

    def open(self) -> None:
        """Sandboxes that know nothing yet."""
        functions()["commit"].use_world(self.world)
        functions()["plans"].use_world(self.world)
        functions()["branches"].use_world(self.world, lake_root=LAKE)
        functions()["ingest"].use_world(self.world)
        functions()["rows"].use_world(self.world, lake_root=LAKE)
        functions()["catalog"].use_world(self.world, vendor=self._vendor, lake_root=LAKE)

    def copy(self) -> Self:
        """The same realm again, to be changed on its own; its sandboxes are the ones that are asked
        from now on."""
        made = copy.copy(self)
        made.world = copied(self.world)
        made.open()
        return made

    # -- requests -----------------------------------------------------------------------------------------------------

    def ask(self, user: str, method: str, path: str, json_body: Any = None, **query: Any) -> Answer:
        """One request of a user, to the function that the gateway would choose."""
        http = Http(functions()[function_of(method, path)].app, user)
        return http.call(method, path, json_body=json_body, query=query)

    def must(self, method: str, path: str, json_body: Any = None, **query: Any) -> Answer:
        """A request of the admin, which succeeds."""
        answer = self.ask("root", method, path, json_body, **query)
        assert answer.status < 300, answer.text
        return answer

    def grant(self, kind: str, name: str, principal: str, *privileges: str) -> None:
        change = {"principal": principal, "add": privileges, "remove": []}
        self.must("PATCH", f"{_api(kind, privileges)}/permissions/{kind}/{name}", {"changes": [change]})

    def revoke(self, kind: str, name: str, principal: str, *privileges: str) -> None:
        change = {"principal": principal, "add": [], "remove": privileges}
        self.must("PATCH", f"{_api(kind, privileges)}/permissions/{kind}/{name}", {"changes": [change]})

    def own(self, kind: str, name: str, principal: str) -> None:
        self.must("PATCH", f"/v1/permissions/{kind}/{name}", {"owner": principal})

    # -- things -------------------------------------------------------------------------------------------------------

    def create(self, name: str, schema: str = "sales", user: str = "root") -> str:
        """A managed table, all steps; its uuid."""
        namespace = f"/v1/catalogs/main/namespaces/{schema}"
        made = self.ask(user, "POST", f"{namespace}/staging-tables", {"name": name}).json
        self.zero(made["location"])
        answer = self.ask(user, "POST", f"{namespace}/tables", {"name": name, "table_id": made["table_id"]})
        assert answer.status == 201, answer.text
        return str(made["table_id"])

    def zero(self, location: str) -> None:
        content = delta.version_zero("create", self.world.clock.now_ms())
        self.world.storages.open(location).put_if_absent(published_path(0), content)

    def stage_of(self, user: str) -> str:
        """A staging table of a user, with version 0 as the Delta API wants it; its uuid."""
        made = build(self.world, lake_root=LAKE).staging.create("main", ("sales",), "t2", creator=user)
        content = delta.lines(
            delta.info("create", self.world.clock.now_ms(), "CREATE TABLE"),
            unity_protocol(),
            unity_metadata(**{"io.unitycatalog.tableId": made.table_id}),
        )
        self.world.storages.open(made.location).put_if_absent(published_path(0), content)
        return made.table_id

    def location(self, table_id: str) -> str:
        return f"{LAKE}/main/sales/{table_id}"

    def append(self, version: int | None, txn: str, **more: Any) -> dict[str, Any]:
        """The proposal of an inline blind append."""
        content = delta.append(txn, self.world.clock.now_ms()).decode()
        return {"version": version, "inline": {"content": content}, **more}

    def staged_commit(self, version: int) -> dict[str, Any]:
        """Write a staged file; Unity's description of it."""
        now = self.world.clock.now_ms()
        name = f"{version:020d}.{now}.json"
        content = delta.append(f"staged-{now}", now)
        self.world.storages.open(self.head().location).put_if_absent(staged_path(name), content)
        return {"version": version, "timestamp": now, "file_name": name, "file_size": len(content),
                "file_modification_timestamp": now}  # fmt: skip

    def finalised(self, table_id: str) -> dict[str, Any]:
        """The Delta API's request that makes a staging table the table ``t2``."""
        return {"name": "t2", "location": self.location(table_id), "table-type": "MANAGED", "columns": COLUMNS,
                "partition-columns": [], "protocol": api_protocol(), "last-commit-timestamp-ms": 1,
                "properties": {**FIXED, "io.unitycatalog.tableId": table_id}}  # fmt: skip

    def head(self, table_id: str = "") -> TableHead:
        return TableHead.from_row(self.world.refs.rows[self.world.space.table(table_id or self.table)])

    def state(self) -> Any:
        """Everything that is stored but the content of a staged commit, to show that nothing
        changed."""
        world = self.world  # writes replace rows, they do not change them
        return dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files)


Change = tuple[str, str, Any]


def ask(user: str, change: Change, **headers: str) -> Answer:
    """A request of one of the realm's users."""
    method, path, body = change
    return Http(functions()["catalog"].app, user).call(method, path, json_body=body, headers=headers)
