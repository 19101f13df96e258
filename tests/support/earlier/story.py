"""The requests that fill a store: everything that a later state of the code must find again."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from tests.support.earlier.exchanges import Requests
from tests.support.fakes import delta

ADMIN: Final = "token-of-an-admin"
READER: Final = "token-of-a-reader"
STRANGER: Final = "token-of-a-stranger"

MAIN: Final = "/v1/catalogs/main"
SALES: Final = f"{MAIN}/namespaces/sales"
ICEBERG: Final = "/iceberg/v1/main"

TAIL: Final = 40
"""Commits of the first table: more than a HEAD keeps once they are published."""


def tokens() -> str:
    """The value of TURNSTILE_TOKENS: the principals by their tokens' digests."""
    principals = {
        ADMIN: {"name": "root", "admin": True},
        READER: {"name": "ann"},
        STRANGER: {"name": "ben"},
    }
    return json.dumps({hashlib.sha256(token.encode()).hexdigest(): of for token, of in principals.items()})


def iceberg_catalog(url: str, s3_url: str) -> Any:
    """PyIceberg's client of the admin."""
    from pyiceberg.catalog import load_catalog

    options = {"uri": f"{url}/iceberg", "warehouse": "main", "token": ADMIN}
    keys = {"s3.access-key-id": "test", "s3.secret-access-key": "test", "s3.region": "us-east-1"}
    return load_catalog("earlier", type="rest", **options, **keys, **{"s3.endpoint": s3_url})


class Story:
    """Fills the store of one server.

    Args:
        requests: sends as the admin.
        write: puts a file below a location, as a client does.
        append: appends two rows to an Iceberg table by its full name, as PyIceberg does.
        quiet: stops publishing, as a server that dies just then would.
    """

    def __init__(
        self,
        requests: Requests,
        write: Callable[[str, str, bytes], None],
        append: Callable[[str], None],
        quiet: Callable[[], None],
    ) -> None:
        self._ask = requests.send
        self._write = write
        self._append_rows = append
        self._quiet = quiet
        self.ids: dict[str, str] = {}

    def tell(self) -> None:
        """Sends everything; ends with commits that are ratified and not published."""
        self._tables()
        self._rights()
        self._iceberg()
        self._catalog()
        self._commits()
        self._look()
        self._unpublished()

    # -- parts --------------------------------------------------------------------------------------

    def _tables(self) -> None:
        self._ask("POST", f"{MAIN}/namespaces", {"name": "sales"}, Idempotency_Key=str(uuid.uuid4()), repeat="same")
        self._ask("POST", f"{MAIN}/namespaces", {"name": "old", "comment": "c", "properties": {"k": "v"}})
        for name in ("orders", "lines", "spare", "moving"):
            self._create(name)

    def _create(self, name: str) -> None:
        staged = self._ask("POST", f"{SALES}/staging-tables", {"name": name})
        zero = delta.version_zero(str(uuid.uuid4()), _now_ms(), **staged["required_properties"])
        self._write(staged["location"], f"_delta_log/{0:020d}.json", zero)
        self.ids[name] = staged["table_id"]
        made = {"name": name, "table_id": staged["table_id"]}
        self._ask("POST", f"{SALES}/tables", made, Idempotency_Key=str(uuid.uuid4()))

    def _rights(self) -> None:
        for kind, name, right in (
            ("catalog", "main", "USE CATALOG"),
            ("schema", "main.sales", "USE SCHEMA"),
            ("table", "main.sales.orders", "SELECT"),
        ):
            change = {"changes": [{"principal": "ann", "add": [right]}]}
            self._ask("PATCH", f"/v1/permissions/{kind}/{name}", change, repeat="same")

    def _iceberg(self) -> None:
        key = str(uuid.uuid4())
        schema = {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
        }
        self._ask("POST", f"{ICEBERG}/namespaces/sales/tables", {"name": "berg", "schema": schema})
        change = {
            "requirements": [],
            "updates": [{"action": "set-properties", "updates": {"owner": "a team"}}],
        }
        path = f"{ICEBERG}/namespaces/sales/tables/berg"
        self._ask("POST", path, change, Idempotency_Key=key, repeat="no")
        self._append_rows("sales.berg")
        view = {
            "name": "seen",
            "schema": schema,
            "view-version": {
                "version-id": 1,
                "timestamp-ms": _now_ms(),
                "schema-id": 0,
                "summary": {"engine-name": "spark"},
                "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
                "default-namespace": ["sales"],
            },
            "properties": {},
        }
        self._ask("POST", f"{ICEBERG}/namespaces/sales/views", view)

    def _catalog(self) -> None:
        self._ask("POST", f"{SALES}/tables/moving/rename", {"name": "moved"}, Idempotency_Key=str(uuid.uuid4()))
        self._ask("PATCH", f"{MAIN}/maintenance-policy", {"set": {"min-commits": "7"}})
        made = self._ask("POST", "/v1/refs", {"name": "app", "value": "a", "request_id": "first"})
        swap = {"token": made["token"], "value": "b", "request_id": "second"}
        self._ask("POST", "/v1/refs/app", swap, repeat="same")
        self._ask("POST", f"{MAIN}/snapshots", {"name": "monday"}, Idempotency_Key=str(uuid.uuid4()), repeat="same")
        self._ask("DELETE", f"{SALES}/tables/spare")

    def _commits(self) -> None:
        orders = self.ids["orders"]
        lines = self.ids["lines"]
        for version in range(1, TAIL + 1):
            self._commit(orders, version, self._append(version))
        self._commit(orders, None, self._append(version), base=TAIL)
        staged = f"{TAIL + 2:020d}.{uuid.uuid4()}.json"
        content = delta.append(str(uuid.uuid4()), _now_ms())
        location = self._ask("GET", f"/v1/tables/{orders}/head")["location"]
        self._write(location, f"_delta_log/_staged_commits/{staged}", content)
        body = {"version": TAIL + 2, "staged": {"name": staged, "size": len(content), "modified": _now_ms()}}
        self._ask("POST", f"/v1/tables/{orders}/commits", body, repeat="commit")
        members = [self._member(orders, TAIL + 3), self._member(lines, 1)]
        self._ask("POST", "/v1/transactions", {"id": str(uuid.uuid4()), "commits": members}, repeat="commit")
        for id in (orders, lines):
            self._ask("POST", f"/v1/tables/{id}/publish")
        self._ask("POST", f"/v1/tables/{orders}/pins", {"version": 5, "holder": "stream", "ttl_ms": 604_800_000})

    def _look(self) -> None:
        """Reads whose answers must not change. Pages and cursors are recorded with what follows
        them."""
        orders = self.ids["orders"]
        for path in (
            f"{MAIN}/namespaces",
            f"{MAIN}/namespaces/old",
            f"{SALES}/tables",
            f"{SALES}/tables/moved/entry",
            f"{MAIN}/namespaces/sales?as_of=snapshot:monday",
            f"{SALES}/tables?as_of=snapshot:monday",
            f"{MAIN}/snapshots/monday",
            f"{MAIN}/log?oldest_first=true&max_results=10",
            f"{MAIN}/maintenance-policy",
            "/v1/refs/app/history",
            "/v1/permissions/table/main.sales.orders",
            f"{ICEBERG}/namespaces/sales/tables/berg",
            f"{ICEBERG}/namespaces/sales/views/seen",
            "/api/2.1/unity-catalog/tables/main.sales.orders",
        ):
            self._ask("GET", path, repeat="read")
        page = self._ask("GET", f"{SALES}/tables?max_results=1")
        self._ask("GET", f"{SALES}/tables?max_results=1&page_token={page['next_page_token']}", repeat="read")
        self._events()
        self._ask("GET", "/v1/permissions/table/main.sales.orders", token=READER, repeat="read")
        self._ask("GET", f"/v1/tables/{orders}/head", token=STRANGER, status=403, repeat="read")
        self._ask("GET", f"/v1/tables/{self.ids['lines']}/head", token=READER, status=403, repeat="read")

    def _events(self) -> None:
        """A cursor after the first five events; waits until all versions so far have theirs."""
        deadline = time.monotonic() + 60
        first = self._ask("GET", "/v1/events?catalog=main&limit=5")
        rest = f"/v1/events?catalog=main&after={first['cursor']}&limit=40"
        while len(self._ask("GET", rest)["events"]) < 40:
            assert time.monotonic() < deadline, "the events did not come"
            time.sleep(0.1)
        self._ask("GET", rest, repeat="read")

    def _unpublished(self) -> None:
        """Commits that only the store has, and a transaction that is announced and not sent."""
        orders = self.ids["orders"]
        lines = self.ids["lines"]
        self._quiet()
        self._commit(orders, TAIL + 4, self._append(TAIL + 4))
        self._commit(lines, 2, self._append(2))
        members = [self._member(orders, TAIL + 5), self._member(lines, 3)]
        body = {"commits": members, "ttl_ms": 604_800_000}
        self.ids["transaction"] = str(uuid.uuid4())
        self._ask("PUT", f"/v1/transactions/{self.ids['transaction']}", body, repeat="same")

    # -- commits ------------------------------------------------------------------------------------

    def _commit(self, id: str, version: int | None, content: str, **more: Any) -> None:
        body = {"version": version, "inline": {"content": content}, **more}
        self._ask("POST", f"/v1/tables/{id}/commits", body, repeat="commit")

    def _member(self, id: str, version: int) -> dict[str, Any]:
        return {"table_id": id, "version": version, "inline": {"content": self._append(version)}}

    @staticmethod
    def _append(version: int | None) -> str:
        return delta.append(str(uuid.uuid4()), _now_ms(), rows=version or 1).decode()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
