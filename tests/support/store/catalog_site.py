"""A site with tables of both formats, and changes of its catalog as a transaction sends them."""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.fakes import delta
from tests.support.functions import Answer, Http, function
from tests.support.iceberg.client import SCHEMA, set_properties
from tests.support.v1 import Site

PATH = "/v1/catalogs/main/transactions"


class Lake(Site):
    """A site with a second Delta table ``second`` at version 0 and the Iceberg table ``ice``, in
    ``main.sales``."""

    def __init__(self) -> None:
        super().__init__()
        self.second = self.stage("second")
        self.register("second", self.second)
        app = function("iceberg")
        app.use_world(self.world)
        self.iceberg = Http(app.app)
        answer = self.iceberg.post("/iceberg/v1/main/namespaces/sales/tables", {"name": "ice", "schema": SCHEMA})
        assert answer.status == 200, answer.text

    def inline(self, table_id: str, version: int | None, txn: str, **more: Any) -> dict[str, Any]:
        content = delta.append(txn, self.now()).decode()
        return {"table_id": table_id, "version": version, "inline": {"content": content}, **more}

    def transact(self, *changes: dict[str, Any], id: str = "", **more: Any) -> Answer:
        return self.ask("transactCatalog", {"id": id or str(uuid.uuid4()), "changes": list(changes), **more})

    def latest(self, *table_ids: str) -> list[int]:
        return [self.world.refs.rows[self.world.space.table(id)]["latest"] for id in table_ids]

    def names(self, namespace: str = "sales") -> set[str]:
        path = f"/v1/catalogs/main/namespaces/{namespace}/tables"
        return {table["name"] for table in self.ask("listTables", path=path).json["tables"]}

    def seq(self) -> int:
        return int(self.world.refs.rows[self.world.space.catalog("main")]["seq"])

    def properties(self) -> dict[str, str]:
        answer = self.iceberg.get("/iceberg/v1/main/namespaces/sales/tables/ice")
        return dict(answer.json["metadata"]["properties"])

    def state(self) -> Any:
        """All rows, and the files of tables. (Objs that nothing leads to may be written; gc removes
        them.)"""
        return dict(self.world.refs.rows), dict(self.world.storages.files)


def rename(table: str, name: str, **more: Any) -> dict[str, Any]:
    return {"change": "rename_table", "namespace": "sales", "table": table, "name": name, **more}


def drop(table: str) -> dict[str, Any]:
    return {"change": "drop_table", "namespace": "sales", "table": table}


def new_namespace(name: str, **more: Any) -> dict[str, Any]:
    return {"change": "create_namespace", "name": name, **more}


def new_table(name: str, table_id: str, namespace: str = "sales") -> dict[str, Any]:
    return {"change": "create_table", "namespace": namespace, "name": name, "table_id": table_id}


def iceberg(name: str = "ice", *requirements: Any, **properties: str) -> dict[str, Any]:
    identifier = {"namespace": ["sales"], "name": name}
    commit = {"identifier": identifier, "requirements": requirements, "updates": [set_properties(**properties)]}
    return {"change": "commit_iceberg_table", "commit": commit}


def without_requests(rows: dict[str, Any]) -> dict[str, Any]:
    return {key: row for key, row in rows.items() if row["kind"] != "request"}
