"""Requests of our own API, to the real handlers on a world of fakes."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, copied, fake_world
from tests.support.functions import Answer, Http, function
from tests.support.gateway import function_of
from tests.support.openapi import Operation, check, operations
from turnstile.store.core.names import published_path

NAMESPACES = "/v1/catalogs/main/namespaces"


def catalog_http(world: FakeWorld) -> Http:
    """The functions of catalogs and of branches on one world, chosen as by the gateway."""
    made = {name: function(name) for name in ("catalog", "branches")}
    for app in made.values():
        app.use_world(world)

    def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        request = event["requestContext"]["http"]
        chosen = function_of(request["method"], request["path"]) if "/branches/" in request["path"] else "catalog"
        answer: dict[str, Any] = made[chosen].app(event, context)
        return answer

    return Http(handler)


DEFAULT = NAMESPACES + "/default"
BRANCHES = "/v1/catalogs/main/branches"
DEV = "/v1/catalogs/main@dev/namespaces"
DEV_DEFAULT = DEV + "/default"


@dataclass
class CatalogApi:
    """The catalog function on a world with the catalog ``main``."""

    http: Http
    world: FakeWorld

    def stage(self, name: str = "t", namespace: str = "default", *features: str) -> dict[str, Any]:
        """A staging table with version 0 written, which names ``features``."""
        answer = self.http.post(f"{NAMESPACES}/{namespace}/staging-tables", {"name": name})
        assert answer.status == 201, answer.text
        content = delta.version_zero("create", self.world.clock.now_ms(), *features)
        self.world.storages.open(answer.json["location"]).put_if_absent(published_path(0), content)
        return dict(answer.json)

    def create(self, name: str = "t", namespace: str = "default", *features: str) -> dict[str, Any]:
        staged = self.stage(name, namespace, *features)
        answer = self.http.post(f"{NAMESPACES}/{namespace}/tables", {"name": name, "table_id": staged["table_id"]})
        assert answer.status == 201, answer.text
        return dict(answer.json)


class PlansApi(CatalogApi):
    """The same with the functions of plans and commits."""

    def __init__(self, api: CatalogApi) -> None:
        super().__init__(api.http, api.world)
        plans = function("plans")
        commits = function("commit")
        plans.use_world(api.world)
        commits.use_world(api.world)
        self.plans = Http(plans.app)
        self.commits = Http(commits.app)

    def table(self, name: str, tables: str = DEV_DEFAULT) -> dict[str, Any]:
        """The loaded table of a namespace, by default of the branch."""
        answer = self.commits.get(f"{tables}/tables/{name}")
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def add_files(self, table_id: str, *added: dict[str, Any], **info: Any) -> int:
        """A commit with these ``add`` actions, and further members of its commitInfo. Returns its
        version."""
        head = self.commits.get(f"/v1/tables/{table_id}/head").json
        version = int(head["latest"]) + 1
        stamp = max(self.world.clock.now_ms(), head["timestamp"] + 1)
        content = delta.lines(delta.info(f"c-{version}", stamp, **info), *added).decode()
        answer = self.commits.post(
            f"/v1/tables/{table_id}/commits", {"version": version, "inline": {"content": content}}
        )
        assert answer.status == 200, answer.text
        return version


def two_tables_on_a_branch(api: CatalogApi) -> PlansApi:
    """The tables ``t`` and ``u`` with one file each, and the branch ``dev`` after that."""
    site = PlansApi(api)
    for name in ("t", "u"):
        site.add_files(site.create(name)["table_id"], delta.add("a"))
    branch = site.http.post(BRANCHES, {"name": "dev"})
    assert branch.status == 201, branch.text
    return site


def refused(answer: Answer, status: int, type: str, field: str | None = None) -> dict[str, Any]:
    assert answer.status == status, answer.text
    error = answer.error
    assert error["type"] == type, error
    if field:
        assert error["field"] == field, error
    return error


NOBODY = "99999999-9999-4999-8999-999999999999"


class Site:
    """Both functions on one world, with a table ``main.sales.orders`` that has commits of every
    kind."""

    def __init__(self) -> None:
        self.world, self.table, self.token = _stocked()
        self._attach(copied(self.world))

    def _attach(self, world: FakeWorld) -> None:
        self.world = world
        self.http = {}
        for name in ("commit", "catalog", "plans", "branches", "ingest"):
            app = function(name)
            app.use_world(self.world)
            self.http[name] = Http(app.app)

    def _stock(self) -> None:
        self.ask("createCatalog", {"name": "main"})
        self.ask("createNamespace", {"name": "sales"})
        self.table = self.stage()
        self.register("orders", self.table)
        self.append(1, "t1")
        self.ask("publish")
        self.append(2, "t2")
        self.append(None, "t3", base=2)
        self.ask("createSnapshot", {"name": "named"})
        self.ask("createBranch", {"name": "dev"})
        self.token = self.ask("createRef", {"name": "app", "value": "a"}).json["token"]

    def now(self) -> int:
        return self.world.clock.now_ms()

    def path(self, operation: Operation) -> str:
        path = operation.path.replace("{catalog}", "main").replace("{namespace}", "sales").replace("{table}", "orders")
        path = path.replace("{securable_type}", "table").replace("{full_name}", "main.sales.orders")
        path = path.replace("{name}", "app").replace("{snapshot}", "named").replace("{branch}", "dev")
        path = (
            path.replace("{transaction_id}", NOBODY)
            .replace("{reservation_id}", NOBODY)
            .replace("{holder}", "stream")
            .replace("{attempt}", "1")
        )
        return path.replace("{table_id}", getattr(self, "table", NOBODY))

    def ask(self, id: str, json_body: Any = None, path: str = "", **options: Any) -> Answer:
        """Send an operation's request, to ``main.sales.orders`` unless ``path`` says otherwise."""
        one = operations()[id]
        http = options.pop("http", None) or self.http[one.function]
        answer: Answer = http.call(one.method, path or self.path(one), json_body=json_body, **options)
        check(one, answer)
        return answer

    def stage(self, name: str = "orders") -> str:
        made = self.ask("stageTable", {"name": name}).json
        content = delta.version_zero("zero", self.now(), **made["required_properties"])
        self.world.storages.open(made["location"]).put_if_absent("_delta_log/00000000000000000000.json", content)
        return str(made["table_id"])

    def register(self, name: str, table_id: str) -> Answer:
        return self.ask("registerTable", {"name": name, "table_id": table_id})

    def append(self, version: int | None, txn: str, **more: Any) -> Answer:
        content = delta.append(txn, self.now()).decode()
        return self.ask("commit", {"version": version, "inline": {"content": content}, **more})

    def head(self) -> dict[str, Any]:
        """The row of the table's HEAD."""
        return dict(self.world.refs.rows[self.world.space.table(self.table)])

    def set(self, **attributes: Any) -> None:
        self.world.refs.rows[self.world.space.table(self.table)].update(attributes)

    def loose_table(self, name: str) -> str:
        """A table of the file system, ready to be imported."""
        location = f"file:///elsewhere/{name}"
        zero = delta.lines(*PLAIN)
        self.world.storages.open(location).put_if_absent("_delta_log/00000000000000000000.json", zero)
        return location


class Pair(Site):
    """A site with two more tables, ``second`` and ``third``, at version 0."""

    def __init__(self) -> None:
        super().__init__()
        self.second, self.third = (self._new(name) for name in ("second", "third"))

    def _new(self, name: str) -> str:
        id = self.stage(name)
        self.register(name, id)
        return id

    def inline(self, table_id: str, version: int | None, txn: str, **more: Any) -> dict[str, Any]:
        content = delta.append(txn, self.now()).decode()
        return {"table_id": table_id, "version": version, "inline": {"content": content}, **more}

    def transact(self, *commits: dict[str, Any], id: str = "", **more: Any) -> Answer:
        return self.ask("transact", {"id": id or str(uuid.uuid4()), "commits": list(commits), **more})

    def latest(self, *table_ids: str) -> list[int]:
        return [self.world.refs.rows[self.world.space.table(id)]["latest"] for id in table_ids]

    def shown(self, table_id: str) -> int:
        """The latest version as the API tells it."""
        return int(self.ask("listCommits", path=f"/v1/tables/{table_id}/commits").json["latest"])

    def state(self) -> Any:
        return dict(self.world.refs.rows), dict(self.world.storages.files)


PLAIN: list[dict[str, Any]] = [
    {"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE"}},
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {**delta.metadata()["metaData"], "configuration": {}}},
]


@functools.cache
def _stocked() -> tuple[FakeWorld, str, str]:
    """World, table and token of a site, made once."""
    site = Site.__new__(Site)
    site._attach(fake_world())
    site._stock()
    return site.world, site.table, site.token
