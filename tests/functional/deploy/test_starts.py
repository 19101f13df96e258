"""The cost of a function's start, and the work that it leaves to the first request that needs
it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from layers import build as layers
from tests.support.fakes.world import fake_world
from tests.support.functions import cold_start
from tests.support.repository import ROOT
from turnstile.adapters import clients, opening
from turnstile.adapters.dynamo.models import KINDS
from turnstile.api import apps
from turnstile.api.http.handler import App
from turnstile.api.services import Services
from turnstile_local.deployment import read_template

FUNCTIONS: Final = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))


@pytest.fixture(autouse=True)
def open_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps that this process makes ask for no token."""
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")


MODULES: Final = {
    "authorizer": 28,
    "branches": 179,
    "catalog": 249,
    "commit": 128,
    "events": 140,
    "gc": 222,
    "iceberg": 219,
    "ingest": 126,
    "maintain": 162,
    "plans": 205,
    "rows": 142,
    "publish": 129,
    "tokens": 119,
}
"""Modules of ours that a start imports, at most: each is a file to find and to read, and classes to
make. A folder counts as one."""

_REPORT: Final = """
import gc, json, sys
collected = []
import turnstile.api.starts
gc.callbacks.append(lambda phase, info: collected.append(phase))
import app
models = sys.modules.get("turnstile.adapters.dynamo.models")
print(json.dumps({
    "own": sorted(name for name in sys.modules if name.startswith("turnstile")),
    "collected": collected, "looks": gc.isenabled(), "frozen": gc.get_freeze_count(),
    "declared": sorted(models.KINDS.declared) if models else [],
}))
"""


def started(function: str, **variables: str) -> dict[str, Any]:
    """Returns the state after a start of ``function``, in a process of its own."""
    answer: dict[str, Any] = cold_start(function, _REPORT, **variables)
    return answer


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_start_imports_few_modules_and_looks_for_no_garbage_in_them(function: str) -> None:
    state = started(function)
    assert len(state["own"]) <= MODULES[function], "\n".join(state["own"])
    assert not state["collected"]
    assert state["looks"] and state["frozen"] > 10_000, "garbage of requests is looked for, not what the start made"
    assert not state["declared"], "models of rows are declared when a row is read or written"


def test_every_function_takes_its_modules_from_the_pack_and_looks_for_no_garbage_in_them() -> None:
    """The layer has no compiled modules beside its pack (ADR 77), so a function that does not begin
    with ``turnstile.api.starts`` compiles each module again."""
    functions = [
        resource["Properties"]
        for resource in read_template(ROOT / "template.yaml")["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    assert len(functions) > len(FUNCTIONS)
    for given in functions:
        file = ROOT / given["CodeUri"] / f"{given['Handler'].partition('.')[0]}.py"
        body = ast.parse(file.read_text()).body
        imported = [
            node.names[0].name if isinstance(node, ast.Import) else str(node.module)
            for node in body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        others = [name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names]
        assert others[0] == "turnstile.api.starts", file
        assert ast.unparse(body[-1]) == "turnstile.api.starts.end()", file


def test_the_console_starts_without_an_app_with_routes() -> None:
    report = "import json, sys, app; print(json.dumps(sorted(sys.modules)))"
    folder = ROOT / "server/turnstile_server/console"
    modules = set(cold_start("console", report, folder=folder, TURNSTILE_AUTHENTICATION="none"))
    assert not {"chalice", "botocore", "aws_lambda_powertools", "turnstile.api.http.handler"} & modules


LATER: Final = (
    "turnstile.api.unity.delta_commits",
    "turnstile.api.v1.transactions.journal",
    "turnstile.api.v1.transactions.snapshots",
    "turnstile.catalog.create",
    "turnstile.delta.transactions.groups",
    "turnstile_predicates.predicates",
)
"""The modules that the commit function imports with the first request that needs them."""


def test_the_commit_function_starts_with_commits_and_loads() -> None:
    assert not set(LATER) & set(started("commit")["own"])


def test_a_start_that_no_request_waits_for_imports_all_routes() -> None:
    """As of one that Lambda makes a snapshot of (test_snapshots.py)."""
    kind = "provisioned-concurrency"
    assert set(LATER) - {"turnstile_predicates.predicates"} <= set(
        started("commit", AWS_LAMBDA_INITIALIZATION_TYPE=kind)["own"]
    )


@pytest.mark.parametrize("make", [apps.commit, apps.catalog])
def test_routes_that_are_imported_later_are_those_that_are_imported_at_once(make: Callable[..., App]) -> None:
    assert make().routes.keys() == make(Services(fake_world())).routes.keys()


@pytest.mark.parametrize("make", [apps.commit, apps.catalog])
def test_each_route_is_below_the_path_that_imports_it(make: Callable[..., App]) -> None:
    for route, methods in make().routes.items():
        assert make().serves(route.replace("{", "").replace("}", ""), next(iter(methods))), route


def test_a_request_imports_the_routes_below_its_path_and_no_others() -> None:
    app = apps.commit()
    assert not app.serves("/v1/nothing", "GET")
    first = len(app._routes)
    assert app.serves("/v1/snapshots", "POST")
    assert len(app._routes) == first + 1
    assert app.serves("/api/2.1/unity-catalog/delta/v1/config", "GET")
    assert not app.serves("/v1/transactionsX", "GET")
    assert app.routes.keys() == apps.commit(Services(fake_world())).routes.keys()


def test_clients_of_one_process_share_what_they_read_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    import botocore.session

    opening.forget_clients()
    made: list[Any] = []
    whole = botocore.session.Session
    monkeypatch.setattr(botocore.session, "Session", lambda **given: made.append(whole(**given)) or made[-1])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    try:
        opening.dynamodb("http://127.0.0.1:9")
        opening.s3("http://127.0.0.1:9")
        opening.sts()
        assert len(made) == 1
    finally:
        opening.forget_clients()


EVENTS: Final = (
    *(
        "choose-service-name",
        "creating-client-class",
        "before-parameter-build",
        "before-endpoint-resolution",
        "before-call",
    ),
    *("request-created", "choose-signer", "before-sign", "needs-retry", "before-parse", "after-call", "getattr"),
)


@pytest.mark.parametrize("service", layers.SERVICES)
def test_a_client_has_all_handlers_of_its_service(service: str) -> None:
    import botocore.session

    own = clients._session_with("x", "x", None, None)
    whole = botocore.session.get_session()
    id = whole.get_service_model(service).service_id.hyphenize()
    for event in EVENTS:
        for name in (event, f"{event}.{id}", *(f"{event}.{id}.{operation}" for operation in layers.SERVICES[service])):
            assert handlers_of(own, name) == handlers_of(whole, name), name


def handlers_of(session: Any, event: str) -> list[str]:
    """Returns the names of the handlers that botocore would call, in order, but that of Powertools,
    which adds its name to the agent's."""
    emitter = session.get_component("event_emitter")._emitter
    names = [getattr(handler, "__qualname__", repr(handler)) for handler in emitter._handlers.prefix_search(event)]
    return [name for name in names if "powertools" not in name]


@pytest.mark.parametrize("token", [None, "t"])
def test_keys_of_the_environment_are_a_session_s_credentials(token: str | None) -> None:
    credentials = clients._session_with("key", "secret", token, None).get_credentials()
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("key", "secret", token)


def test_without_keys_and_with_a_profile_botocore_looks_for_credentials() -> None:
    assert clients._session_with(None, None, None, None)._credentials is None
    assert clients._session_with("key", "secret", None, "work")._credentials is None


def test_a_row_of_each_kind_has_a_model() -> None:
    assert {kind: model.__name__ for kind, model in KINDS.items()}.keys() == set(KINDS)
    assert KINDS["table"] is KINDS["table"]
