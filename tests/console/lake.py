"""The data that the browser shows: tables of both formats with real files, filled over HTTP, one of
them stuck; history, rights, transactions, branches."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.support.fakes import delta
from turnstile_client import connect

CATALOG = "/v1/catalogs/main"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "Number of the order"}},
        {"name": "region", "type": "string", "nullable": True, "metadata": {}},
        {"name": "amount", "type": "double", "nullable": True, "metadata": {"comment": "In euros"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "elementType": {
                    "type": "struct",
                    "fields": [
                        {"name": "sku", "type": "string", "nullable": True, "metadata": {}},
                        {"name": "pieces", "type": "integer", "nullable": True, "metadata": {}},
                    ],
                },
                "containsNull": True,
            },
            "nullable": True,
            "metadata": {},
        },
    ],
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Table:
    """A Delta table with Parquet files, written as an engine writes it."""

    def __init__(self, api: httpx.Client, namespace: str, name: str, comment: str | None = None) -> None:
        self.api = api
        self.version = 0
        self.name = f"main.{namespace}.{name}"
        path = f"{CATALOG}/namespaces/{namespace}"
        staged = ask(api, "POST", f"{path}/staging-tables", {"name": name})
        self.id = staged["table_id"]
        self.folder = Path(unquote(urlsplit(staged["location"]).path))
        metadata = delta.metadata(**staged["required_properties"], tier="gold")
        metadata["metaData"] |= {"id": str(uuid.uuid4()), "schemaString": json.dumps(SCHEMA), "description": comment}
        zero = delta.lines(delta.info(str(uuid.uuid4()), now_ms(), "CREATE TABLE"), delta.protocol(), metadata)
        self.write(f"_delta_log/{0:020d}.json", zero)
        ask(api, "POST", f"{path}/tables", {"name": name, "table_id": self.id})

    def write(self, path: str, content: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def content(self, rows: int, operation: str = "WRITE", txn: str = "") -> bytes:
        """A commit that adds one real file."""
        name = f"part-{uuid.uuid4()}.parquet"
        first = self.version * 1000
        lines = [[{"sku": f"s{number % 7}", "pieces": number % 3}] for number in range(rows)]
        data = {
            "id": list(range(first, first + rows)),
            "region": [("eu", "us", "asia")[number % 3] for number in range(rows)],
            "amount": [number * 1.5 for number in range(rows)],
            "lines": lines,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(data), self.folder / name)
        statistics = {"numRecords": rows, "minValues": {"id": first}, "maxValues": {"id": first + rows - 1}}
        size = (self.folder / name).stat().st_size
        add = delta.add(name, size=size, modificationTime=now_ms(), stats=json.dumps(statistics))
        return delta.lines(delta.info(txn or str(uuid.uuid4()), now_ms(), operation), add)

    def staged(self, content: bytes) -> dict[str, Any]:
        name = f"{self.version + 1:020d}.{uuid.uuid4()}.json"
        self.write(f"_delta_log/_staged_commits/{name}", content)
        return {"name": name, "size": len(content), "modified": now_ms()}

    def propose(self, content: bytes, version: int, *, staged: bool = False) -> httpx.Response:
        how = {"staged": self.staged(content)} if staged else {"inline": {"content": content.decode()}}
        return self.api.post(f"/v1/tables/{self.id}/commits", json={"version": version, **how})

    def commit(self, rows: int, *, staged: bool = False, operation: str = "WRITE", txn: str = "") -> None:
        answer = self.propose(self.content(rows, operation, txn), self.version + 1, staged=staged)
        assert answer.status_code == 200, answer.text
        self.version += 1


def ask(api: httpx.Client, method: str, path: str, body: Any = None) -> Any:
    answer = api.request(method, path, json=body)
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


def fill(url: str, token: str) -> dict[str, Any]:
    """Makes everything; returns the names and ids that the browser's script needs."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as api:
        for name, properties in (("sales", {"region": "eu", "owner": "sales team"}), ("sales.eu", {}), ("ops", {})):
            ask(api, "POST", f"{CATALOG}/namespaces", {"name": name, "properties": properties})
        orders = Table(api, "sales", "orders", "Orders of the web shop, one row each")
        others = [Table(api, "sales.eu", "customers"), Table(api, "sales", "payments"), Table(api, "ops", "jobs")]
        known = str(uuid.uuid4())
        orders.commit(50, txn=known)
        for number in range(2, 24):
            orders.commit(20 * number, staged=number % 3 == 0, operation=("WRITE", "MERGE", "UPDATE")[number % 3])
        for lost in range(3):  # three writers that come too late: conflicts
            assert orders.propose(orders.content(5), 5 + lost).status_code == 409
        for table in others:
            table.commit(100)
            table.commit(300, staged=True)
        ask(api, "POST", f"{CATALOG}/snapshots", {"name": "month_end", "comment": "Figures of the month"})
        ask(api, "POST", f"{CATALOG}/namespaces/ops/tables/jobs/rename", {"name": "runs"})
        ask(api, "POST", f"{CATALOG}/clones", {"from": "sales.payments", "to": "sales.payments_audit"})
        iceberg(url, token)
        branches(url, token)
        checked_elsewhere(api)
        mended = nightly_load(api, url, token)
        stuck = Table(api, "ops", "stuck_table")
        stuck.commit(10)
        stuck.write(f"_delta_log/{2:020d}.json", stuck.content(3, "a writer past the catalog"))
        stuck.commit(10)
        rights(api, orders)
        transactions(api, orders, others[1])
        old = path_table(orders.folder.parents[3] / "legacy" / "old_events")
        wait_until_stuck(api, stuck)
        Table(api, "ops", "thrown_away").commit(10)
        ask(api, "DELETE", f"{CATALOG}/namespaces/ops/tables/thrown_away")
    return {
        "orders": orders.id,
        "customers": others[0].id,
        "txn": known,
        "stuck": stuck.name,
        "import": old,
        "mended": mended,
    }


def wait_until_stuck(api: httpx.Client, table: Table) -> None:
    deadline = time.monotonic() + 120
    while ask(api, "GET", f"/v1/tables/{table.id}/head")["state"] != "stuck":
        assert time.monotonic() < deadline, "the table did not become stuck"
        time.sleep(0.1)


def iceberg(url: str, token: str) -> None:
    catalog = RestCatalog("main", uri=f"{url}/iceberg", warehouse="main", token=token)
    catalog.create_namespace("web")
    fields = (NestedField(1, "id", LongType(), required=False), NestedField(2, "page", StringType(), required=False))
    table = catalog.create_table("web.clicks", Schema(*fields), properties={"owner": "web team"})
    for number in range(3):
        table.append(pa.table({"id": pa.array([number], pa.int64()), "page": [f"/page/{number}"]}))


def branches(url: str, token: str) -> None:
    """``main@november`` breaks an expectation, ``main@fix`` can be promoted. Both change Delta
    tables and create one; the first also changes an Iceberg table and drops a Delta table."""
    schema = pa.schema([("id", pa.int64()), ("reason", pa.string()), ("amount", pa.float64())])

    def returns(first: int, amount: float) -> pa.Table:
        return pa.table({"id": [first, first + 1], "reason": ["size", "late"], "amount": [9.5, amount]}, schema=schema)

    with connect(url, token=token) as lake:
        expectations = {"turnstile.expect.positive": "amount >= 0", "turnstile.expect.key": "unique(id)"}
        lake.create("sales.returns", schema, properties=expectations).append(returns(0, 3.0))
        lake.create("sales.refunds", schema).append(returns(0, 3.0))
        lake.create("sales.parcels", schema).append(returns(0, 3.0))
        lake.create("sales.returns_2025", schema).append(returns(0, 3.0))
        lake.branches.create("november", days=14, comment="Returns of November, by the nightly load")
        lake.branches.create("fix", days=2, comment="A column that was missing")
    for name, amount in (("november", -1.0), ("fix", 4.0)):
        with connect(url, token=token, catalog=f"main@{name}") as branch:
            branch.table("sales.returns").append(returns(2, amount))
            branch.table("sales.refunds").append_rows([{"id": 7, "carrier": "bike"}], evolve=True)
            branch.create(f"sales.audit_{name}", schema).append(returns(0, 1.0))
    with connect(url, token=token, catalog="main@november") as branch:
        branch.drop("sales.returns_2025")
    november = RestCatalog("branch", uri=f"{url}/iceberg", warehouse="main@november", token=token)
    november.load_table("web.clicks").append(pa.table({"id": pa.array([9], pa.int64()), "page": ["/returns"]}))


def checked_elsewhere(api: httpx.Client) -> None:
    """``main@large`` changes two tables. A file of one is too large for the server's checks; a
    program recorded that its rows satisfy an expectation, and another stays unchecked."""
    ask(api, "POST", f"{CATALOG}/branches", {"name": "large", "comment": "Checked in Spark"})
    for name, size in (("parcels", 10), ("returns", 200 * 1024 * 1024)):
        table = ask(api, "GET", f"/v1/catalogs/main@large/namespaces/sales/tables/{name}")
        file = delta.add(f"part-{name}.parquet", 10, size=size)
        info = delta.info(str(uuid.uuid4()), now_ms(), isBlindAppend=True)
        content = delta.lines(info, file).decode()
        proposal = {"version": table["latest"] + 1, "inline": {"content": content}}
        ask(api, "POST", f"/v1/tables/{table['table_id']}/commits", proposal)
    state = ask(api, "GET", f"{CATALOG}/branches/large/diff")["state"]
    finding = {"table": "sales.returns", "expectation": "positive", "text": "amount >= 0", "rows": 10}
    ask(api, "POST", f"{CATALOG}/branches/large/checks", {"state": state, "findings": [finding]})


def nightly_load(api: httpx.Client, url: str, token: str) -> dict[str, Any]:
    """The branch ``main@night`` of docs/how-to/branches.md, with a row that breaks an expectation.
    Returns the table's path and the commit that mends it."""
    schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    expectations = {"turnstile.expect.positive": "amount >= 0", "turnstile.expect.key": "unique(id)"}
    with connect(url, token=token) as lake:
        lake.create("default.sales", schema, properties=expectations)
        night = lake.branches.create("night", days=2)
    with connect(url, token=token, catalog=night.full_name) as load:
        load.table("default.sales").append(pa.table({"id": [1, 2], "amount": [9.5, -1.0]}, schema=schema))
    table = ask(api, "GET", f"/v1/catalogs/{night.full_name}/namespaces/default/tables/sales")
    (broken,) = ask(api, "POST", f"/v1/tables/{table['table_id']}/plan", {})["files"]
    file = Path(unquote(urlsplit(table["location"]).path)) / "part-mended.parquet"
    pq.write_table(pa.table({"id": [1], "amount": [9.5]}, schema=schema), file)
    statistics = {
        "numRecords": 1,
        "minValues": {"amount": 9.5},
        "maxValues": {"amount": 9.5},
        "nullCount": {"amount": 0},
    }
    add = delta.add(file.name, size=file.stat().st_size, stats=json.dumps(statistics))
    info = delta.info(str(uuid.uuid4()), now_ms(), "DELETE")
    content = delta.lines(info, delta.remove(broken["path"]), add).decode()
    proposal = {"version": table["latest"] + 1, "base": table["latest"], "inline": {"content": content}}
    return {"path": f"/v1/tables/{table['table_id']}/commits", "proposal": proposal}


def rights(api: httpx.Client, orders: Table) -> None:
    wide = {"principal": "analysts", "add": ["USE CATALOG", "USE SCHEMA", "SELECT"]}
    ask(api, "PATCH", "/v1/permissions/catalog/main", {"changes": [wide]})
    narrow = {"principal": "writers", "add": ["SELECT", "MODIFY"]}
    ask(api, "PATCH", f"/v1/permissions/table/{orders.name}", {"changes": [narrow], "owner": "alice"})
    ask(api, "POST", "/v1/clients", {"name": "nightly loads", "roles": ["writers"]})


def transactions(api: httpx.Client, orders: Table, payments: Table) -> None:
    for settled in (True, False, False):
        commits = [
            {"table_id": table.id, "version": table.version + 1, "inline": {"content": table.content(4).decode()}}
            for table in (orders, payments)
        ]
        id = str(uuid.uuid4())
        ask(api, "PUT", f"/v1/transactions/{id}", {"commits": commits, "isolation": "serializable"})
        if settled:
            ask(api, "POST", "/v1/transactions", {"id": id, "commits": commits, "journal": True})
            orders.version = orders.version + 1
            payments.version = payments.version + 1


def path_table(folder: Path) -> str:
    """A table that no catalog has, to be imported."""
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "part-0.parquet")
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = delta.metadata()
    metadata["metaData"] |= {"id": str(uuid.uuid4()), "configuration": {}}
    add = delta.add("part-0.parquet", 3, size=(folder / "part-0.parquet").stat().st_size)
    info = {"commitInfo": {"timestamp": now_ms(), "operation": "WRITE", "operationParameters": {}}}
    (folder / "_delta_log" / f"{0:020d}.json").write_bytes(delta.lines(info, protocol, metadata, add))
    return folder.as_uri()
