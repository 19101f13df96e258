"""Every line of docs/api.md is a route of template.yaml, on the function that serves it, and nothing else is."""

from __future__ import annotations

import re

from tests.support.repository import ROOT
from turnstile_local.deployment import read_template
from turnstile_local.gateway import API_ROOTS

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


def deployed() -> dict[str, str]:
    """Route -> function, as template.yaml has it."""
    routes: dict[str, str] = {}
    for resource in read_template(ROOT / "template.yaml")["Resources"].values():
        if resource["Type"] == "AWS::ApiGatewayV2::Route":
            key, target = resource["Properties"]["RouteKey"], resource["Properties"]["Target"]["Fn::Sub"]
            assert key not in routes
            routes[key] = re.fullmatch(r"integrations/\$\{(\w+)Integration\}", target).group(1).lower()  # type: ignore[union-attr]
    return routes


def test_every_documented_operation_has_its_route() -> None:
    assert len(documented()) >= 24
    assert deployed() == documented() | {"$default": "catalog", "ANY /iceberg/{proxy+}": "iceberg"}


def test_the_hot_path_is_what_the_functions_agree_on() -> None:
    from turnstile.api.http.handler import COMMIT

    mine = {f"{method} {path}" for path, methods in COMMIT.items() for method in methods}
    assert mine == {route for route, function in deployed().items() if function == "commit"}


def test_the_embedded_gateway_forwards_every_route() -> None:
    for route in deployed():
        path = route.split(" ")[-1]
        assert route == "$default" or path.startswith(tuple(f"{root}/" for root in API_ROOTS)) or path in API_ROOTS
