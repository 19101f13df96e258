"""The HTTP API that is made by calls of API Gateway is the one that template.yaml describes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.repository import ROOT
from turnstile_local import routes
from turnstile_local.deployment import read_template
from turnstile_local.errors import StackError
from turnstile_local.routes import Deployed, make_routes

FUNCTIONS = ("Authorizer", "Branches", "Catalog", "Commit", "Console", "Iceberg", "Ingest", "Plans", "Tokens")


def stack(**parameters: str) -> Deployed:
    """The template with these parameters, and all functions there."""
    template = read_template(ROOT / "template.yaml")
    defaults = {name: str(one["Default"]) for name, one in template["Parameters"].items() if "Default" in one}
    arns = {f"{name}Function.Arn": f"arn:{name.lower()}" for name in FUNCTIONS}
    return Deployed(template, {**defaults, "AWS::StackName": "turnstile", **parameters}, {}, arns)


class Gateway:
    """API Gateway as far as it is asked: keeps what is made, and cannot list authorizers."""

    def __init__(self) -> None:
        self.made: dict[str, list[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        verb, _, kind = name.partition("_")
        if verb == "get":
            return lambda **_: {"Items": self.made.get(kind.removesuffix("s"), [])}
        identity = {"api": "ApiId", "integration": "IntegrationId", "authorizer": "AuthorizerId"}.get(kind, "Id")

        def create(**given: Any) -> dict[str, Any]:
            made = given | ({} if identity in given else {identity: f"{kind}{next(self._numbers)}"})
            self.made.setdefault(kind, []).append(made)
            return made

        return create


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    made = Gateway()
    monkeypatch.setattr(routes, "aws_client", lambda *_: made)
    return made


def test_every_route_leads_to_the_function_that_the_template_names(gateway: Gateway) -> None:
    url = make_routes("http://emulator", stack(IssueTokens="true", Console="true"))
    template = read_template(ROOT / "template.yaml")["Resources"].values()
    wanted = {one["Properties"]["RouteKey"] for one in template if one["Type"] == "AWS::ApiGatewayV2::Route"}
    functions = {one["IntegrationId"]: one["IntegrationUri"] for one in gateway.made["integration"]}
    found = {one["RouteKey"]: functions[one["Target"].removeprefix("integrations/")] for one in gateway.made["route"]}
    assert found.keys() == wanted
    assert "functions/arn:commit/" in found["POST /v1/tables/{table_id}/commits"]
    assert "functions/arn:iceberg/" in found["ANY /iceberg/{proxy+}"]
    assert url == f"http://emulator/_aws/execute-api-v2/{gateway.made['api'][0]['ApiId']}/$default"


@pytest.mark.parametrize("issue", ["true", "false"])
def test_what_a_condition_leaves_out_is_not_made(gateway: Gateway, issue: str) -> None:
    make_routes("http://emulator", stack(IssueTokens=issue))
    assert not [one for one in gateway.made["route"] if one["RouteKey"].startswith("GET /ui")]
    assert len(gateway.made.get("authorizer", ())) == (issue == "true")
    guarded = {one["RouteKey"] for one in gateway.made["route"] if one.get("AuthorizationType") == "CUSTOM"}
    assert ("$default" in guarded) == (issue == "true") and "POST /oauth/token" not in guarded


def test_made_again_it_adds_what_is_missing_and_nothing_else(gateway: Gateway) -> None:
    url = make_routes("http://emulator", stack(IssueTokens="true"))
    before = {kind: len(made) for kind, made in gateway.made.items()}
    assert make_routes("http://emulator", stack(IssueTokens="true", Console="true")) == url
    added = {kind: len(made) - before[kind] for kind, made in gateway.made.items()}
    assert added == {"api": 0, "integration": 1, "authorizer": 0, "route": 2, "stage": 0}


def test_a_resource_that_the_stack_has_not_is_named() -> None:
    with pytest.raises(StackError, match=r"no CommitFunction\.Arn"):
        Deployed({}, {}, {}, {}).value({"Fn::GetAtt": ["CommitFunction", "Arn"]})
