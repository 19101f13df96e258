"""Services belong to the app that answers: several sandboxes of one function, and all apps on one
world, in one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.fakes.world import fake_world
from tests.support.functions import Function, Http
from turnstile.api import apps
from turnstile.api.services import Services


def test_two_sandboxes_of_a_function_have_a_world_each() -> None:
    sandboxes = [Function("catalog") for _ in range(2)]
    for number, sandbox in enumerate(sandboxes):
        sandbox.use_world(fake_world())
        assert Http(sandbox.app).post("/v1/catalogs", {"name": f"c{number}"}).status == 201

    def listed(number: int) -> list[str]:
        return [one["name"] for one in Http(sandboxes[number % 2].app).get("/v1/catalogs").json["catalogs"]]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(listed, range(20))) == [["c0"], ["c1"]] * 10


def test_all_apps_of_a_process_may_share_their_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    services = Services(fake_world())
    commit, catalog, iceberg, tokens = (
        Http(make(services)) for make in (apps.commit, apps.catalog, apps.iceberg, apps.tokens)
    )
    assert catalog.post("/v1/catalogs", {"name": "main"}).status == 201
    made = catalog.post("/v1/catalogs/main/namespaces", {"name": "sales"})
    assert made.status == 201, made.text
    assert iceberg.get("/iceberg/v1/main/namespaces").json["namespaces"] == [["sales"]]
    assert commit.get("/v1/catalogs/main/namespaces/sales/tables/t").error["type"] == "NoSuchTable"
    assert tokens.get("/v1/clients").json == {"clients": []}


def test_an_app_that_is_built_again_serves_the_same_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    first = apps.catalog()
    second = apps.catalog()
    assert first.routes == second.routes
