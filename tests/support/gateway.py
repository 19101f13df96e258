"""Which function the deployed gateway sends a request to: template.yaml's routes, the most specific
that matches.

A full match wins over a greedy one, then more literal segments, then a named method over ANY;
``$default`` takes the rest (AWS, "Routing API requests"; the embedded gateway does the same).
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from tests.support.repository import ROOT
from turnstile_local.deployment import read_template


class Route(NamedTuple):
    """A route of the template; ``open`` when it has no authorizer."""

    key: str
    function: str
    open: bool

    @property
    def method(self) -> str:
        return self.key.split(" ")[0] if " " in self.key else "ANY"

    @property
    def path(self) -> str:
        return self.key.split(" ")[-1]

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"(\{[^}]+\})", self.path)
        return re.compile(
            "".join(
                "(.+)" if part == "{proxy+}" else "([^/]+)" if part[:1] == "{" else re.escape(part) for part in parts
            )
        )

    def rank(self) -> tuple[bool, int, bool]:
        literal = sum(1 for segment in self.path.strip("/").split("/") if segment[:1] != "{")
        return "{proxy+}" not in self.path, literal, self.method != "ANY"


@functools.cache
def routes() -> tuple[Route, ...]:
    found: list[Route] = []
    for resource in read_template(ROOT / "template.yaml")["Resources"].values():
        if resource["Type"] == "AWS::ApiGatewayV2::Route":
            properties: dict[str, Any] = resource["Properties"]
            target = re.fullmatch(r"integrations/\$\{(\w+)Integration\}", properties["Target"]["Fn::Sub"])
            assert target is not None
            found.append(Route(properties["RouteKey"], target.group(1).lower(), "AuthorizationType" not in properties))
    return tuple(found)


@functools.cache
def route_of(method: str, path: str) -> Route:
    """The route that a request takes."""
    matching = [
        route
        for route in routes()
        if route.key != "$default" and route.method in ("ANY", method) and route.pattern.fullmatch(path)
    ]
    return max(matching, key=Route.rank) if matching else next(route for route in routes() if route.key == "$default")


def function_of(method: str, path: str) -> str:
    """The function that gets a request."""
    return route_of(method, path).function
