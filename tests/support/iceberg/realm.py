"""A realm with users behind the Iceberg API: every request carries a bearer token."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import pytest

from tests.support.access.realm import USERS
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Answer, Function, Http
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, V1, VIEW, set_properties
from turnstile.access.authorizer import Authorizer, Target
from turnstile.access.grants import Grants
from turnstile.api.iceberg.errors import DELTA_PREFIX
from turnstile.catalog.services import CatalogServices, build
from turnstile.rights.grants import Privilege as P

ANN = "ann"


OTHER = {"namespace": ["hr"], "name": "t1"}


@functools.cache
def guarded() -> Function:
    tokens = json.dumps({hashlib.sha256(token.encode()).hexdigest(): user for token, user in USERS.items()})
    return Function("iceberg", TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKENS=tokens)


class Realm:
    """Catalog ``main`` with ``sales.t1`` and ``sales.v1``, made by the admin; ann has nothing."""

    def __init__(self) -> None:
        self.world: FakeWorld = fake_world()
        self.services: CatalogServices = build(self.world, lake_root="file:///lake")
        guarded().use_world(self.world)
        self.services.catalogs.create("main")
        for name in ("sales", "hr"):
            self.must("POST", f"{MAIN}/namespaces", {"namespace": [name]})
        self.must("POST", f"{SALES}/tables", {"name": "t1", "schema": SCHEMA})
        self.must("POST", f"{SALES}/views", VIEW)

    def ask(self, user: str, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return Http(guarded().app, user).call(method, path, json_body=body, **options)

    def must(self, method: str, path: str, body: Any = None) -> Answer:
        answer = self.ask("root", method, path, body)
        assert answer.status < 300, answer.text
        return answer

    def grant(self, target: Target, *privileges: P, owner: str | None = None) -> None:
        from turnstile.rights.grants import GrantChange

        grants = Grants(self.services, Authorizer(self.world, self.services.reader))
        grants.change(target, [GrantChange(ANN, privileges)] if privileges else [], owner=owner)


@pytest.fixture
def realm() -> Realm:
    return Realm()


COMMIT = {"requirements": [], "updates": [set_properties(a="1")]}


TRANSACTION = {"table-changes": [{"identifier": {"namespace": ["sales"], "name": "t1"}, **COMMIT}]}


RENAME = {"source": {"namespace": ["sales"], "name": "t1"}, "destination": OTHER}


OPERATIONS: list[tuple[str, str, Any]] = [
    ("GET", f"{V1}/config?warehouse=main", None),
    ("GET", f"{MAIN}/namespaces", None),
    ("POST", f"{MAIN}/namespaces", {"namespace": ["n"]}),
    ("GET", SALES, None),
    ("HEAD", SALES, None),
    ("POST", f"{SALES}/properties", {"updates": {"a": "1"}}),
    ("DELETE", SALES, None),
    ("GET", f"{SALES}/tables", None),
    ("POST", f"{SALES}/tables", {"name": "t2", "schema": SCHEMA}),
    ("POST", f"{SALES}/register", {"name": "t2", "metadata-location": "s3://x/y/v1.metadata.json"}),
    ("POST", f"{SALES}/register-view", {"name": "v2", "metadata-location": "s3://x/y/v1.metadata.json"}),
    ("GET", T1, None),
    ("HEAD", T1, None),
    ("POST", T1, COMMIT),
    ("DELETE", T1, None),
    ("POST", f"{T1}/unregister", None),
    ("GET", f"{T1}/credentials", None),
    ("POST", f"{T1}/metrics", {"report-type": "scan-report"}),
    ("POST", f"{T1}/plan", {}),
    ("GET", f"{T1}/plan/x", None),
    ("DELETE", f"{T1}/plan/x", None),
    ("POST", f"{T1}/tasks", {"plan-task": "none"}),
    ("GET", f"{DELTA_PREFIX}/v1/config?warehouse=main", None),
    ("POST", f"{DELTA_PREFIX}/v1/main/namespaces/sales/tables/t1/plan", {}),
    ("POST", f"{MAIN}/tables/rename", RENAME),
    ("POST", f"{MAIN}/transactions/commit", TRANSACTION),
    ("GET", f"{SALES}/views", None),
    ("POST", f"{SALES}/views", {**VIEW, "name": "v2"}),
    ("GET", f"{SALES}/views/v1", None),
    ("HEAD", f"{SALES}/views/v1", None),
    ("POST", f"{SALES}/views/v1", COMMIT),
    ("DELETE", f"{SALES}/views/v1", None),
    ("POST", f"{MAIN}/views/rename", {**RENAME, "source": {"namespace": ["sales"], "name": "v1"}}),
]
