"""Routes are declared by views: docs/api.md names each with its function, and the gateway sends
each there."""

from __future__ import annotations

import re

import pytest

from tests.support.functions import function
from tests.support.gateway import function_of, routes
from tests.support.repository import ROOT
from turnstile_local.settings import API_ROOTS

NAMES = {"{c}": "{catalog}", "{ns}": "{namespace}", "{t}": "{table}"}


def documented() -> dict[str, str]:
    """Route -> function, as docs/api.md has it."""
    found: dict[str, str] = {}
    function = ""
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        if line.startswith("## "):
            named = re.search(r"\(function `(\w+)`", line)
            function = named.group(1) if named else function
        for method, path in re.findall(r"`(GET|POST|PATCH|DELETE|PUT|HEAD) ([^`\s?]+)", line):
            if line.startswith(("`", "| `")):
                full = path.replace("…/{ns}", "/v1/catalogs/{c}/namespaces/{ns}")
                for short, long in NAMES.items():
                    full = full.replace(short, long)
                found[f"{method} {full}"] = function
    return found


APPS = ("commit", "catalog", "plans", "branches", "ingest", "tokens", "iceberg")


def served() -> dict[str, str]:
    """Route -> function, as the apps' views declare it."""
    return {
        f"{method} {path}": name
        for name in APPS
        for path, methods in function(name).app.routes.items()
        for method in methods
    }


def example(path: str) -> str:
    """A path of this template."""
    return re.sub(r"\{\w+\}", "x", path)


def test_no_two_functions_serve_one_route() -> None:
    assert len(served()) == sum(len(methods) for name in APPS for methods in function(name).app.routes.values())


def test_every_documented_operation_is_served_by_the_function_that_is_named_and_no_other_is() -> None:
    assert len(documented()) >= 24
    assert documented() == {route: name for route, name in served().items() if name != "iceberg"}


@pytest.mark.parametrize("route", served())
def test_the_gateway_sends_every_route_to_the_function_that_serves_it(route: str) -> None:
    method, path = route.split(" ")
    assert function_of(method, example(path)) == served()[route]


def test_every_route_of_the_gateway_leads_to_a_view_or_to_a_whole_prefix() -> None:
    views = [route for route in routes() if route.function != "console"]  # which has files
    exact = {route.key: route.function for route in views if "{proxy+}" not in route.path and route.method != "ANY"}
    assert exact.items() <= served().items()
    others = {route.key: route.function for route in routes() if route.key not in exact and route.method == "ANY"}
    assert others == {
        "ANY /v1/clients": "tokens",
        "ANY /v1/clients/{proxy+}": "tokens",
        "ANY /v1/{proxy+}": "catalog",
        "ANY /api/2.1/unity-catalog/{proxy+}": "catalog",
        "ANY /api/2.1/unity-catalog/iceberg-rest/{proxy+}": "iceberg",
        "ANY /iceberg/{proxy+}": "iceberg",
        "$default": "catalog",
    }


def test_the_hot_path_is_the_commit_function_and_all_of_it_has_routes_of_its_own() -> None:
    hot = {route.key for route in routes() if route.function == "commit"}
    assert hot == {route for route, name in served().items() if name == "commit"}


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("PUT", "/v1/tables/x/commits", "catalog"),
        ("DELETE", "/v1/catalogs/c/namespaces/n/tables/t", "catalog"),
        ("GET", "/v1/catalogs/c/namespaces/n/tables/t/entry", "catalog"),
        ("GET", "/v1/catalogs/c/namespaces/n/tables/t/file-verification", "catalog"),
        ("GET", "/v1/nothing/of/the/kind", "catalog"),
        ("GET", "/oauth/token", "catalog"),
        ("POST", "/v1/clients/x/rotate", "tokens"),
        ("GET", "/", "catalog"),
        ("GET", "/v1/", "catalog"),
    ],
)
def test_what_has_no_route_of_its_own_goes_to_the_function_of_its_prefix(method: str, path: str, name: str) -> None:
    assert function_of(method, path) == name


def test_the_embedded_gateway_forwards_every_route() -> None:
    for route in routes():
        path = route.path
        assert route.key == "$default" or path.startswith(tuple(f"{root}/" for root in API_ROOTS)) or path in API_ROOTS
