"""A private way in: a REST API with the routes of the HTTP API, whose events and authorizer have
another form (ADR 73)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest

from tests.support.conformance.drive import GOOD, send, stocked
from tests.support.functions import Function, Http, event, function
from tests.support.gateway import route_of
from tests.support.lake import make_lake
from tests.support.repository import ROOT
from tests.support.roles.resolved import Resolved
from tests.support.roles.rules import refused
from tests.support.roles.translated import references, translated
from turnstile.api.auth.verifier import VerifiedToken, from_context, to_context
from turnstile.api.http.rest import as_http_api
from turnstile.rights.grants import Principal
from turnstile_local.deployment import read_template

APPS: Final = ("commit", "catalog", "plans", "branches", "ingest", "tokens", "iceberg")
PRIVATE: Final = {
    "LakeRoot": "s3://lake/w",
    "Exposure": "private",
    "VpcEndpointIds": "vpce-1,vpce-2",
    "StaticTokens": "{}",
    "OidcIssuer": "https://issuer.example",
    "OidcAudience": "turnstile",
}
ANY: Final = "x-amazon-apigateway-any-method"
METHOD: Final = "arn:aws:execute-api:eu-west-1:123456789012:abc123/turnstile/GET/v1/tables"


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def paths(template: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"]["PrivateApi"]["Properties"]["DefinitionBody"]["paths"]
    return found


def place(paths: Mapping[str, Any], path: str) -> str:
    """The path of a REST API's tree that a request reaches: from above, a literal before a
    parameter before the rest, and never back."""
    here = ""
    for part in path.strip("/").split("/") if path != "/" else []:
        below = {each for each in paths if each.startswith(f"{here}/") and each != "/"}
        names = {each[len(here) + 1 :].split("/")[0] for each in below}
        parameters = [name for name in names if name.startswith("{") and name != "{proxy+}"]
        assert len(parameters) <= 1 and not (parameters and "{proxy+}" in names), f"{here}: one parameter a level"
        if part in names:
            here = f"{here}/{part}"
        elif parameters:
            here = f"{here}/{parameters[0]}"
        else:
            return f"{here}/{{proxy+}}"
    return here or "/"


def reached(paths: Mapping[str, Any], method: str, path: str) -> tuple[str, bool]:
    """The function that gets a request, and whether it is open."""
    operations = paths[place(paths, path)]
    operation = operations.get(method.lower()) or operations[ANY]
    (name,) = {
        found.removesuffix("Function").removesuffix("Alias").lower()
        for found in references(operation["x-amazon-apigateway-integration"])
        if not found.startswith("AWS::")
    }
    return name, "security" not in operation


def example(route: str) -> str:
    return re.sub(r"\{\w+\+?\}", "x0x", route)


def test_each_request_reaches_the_function_that_it_reaches_by_the_public_api(paths: dict[str, Any]) -> None:
    routes = {(name, route) for name in APPS for route in function(name).app.routes}
    asked = 0
    for _, route in sorted(routes):
        whole = example(route)
        parts = whole.strip("/").split("/")
        above = ["/" + "/".join(parts[:end]) for end in range(len(parts) + 1)]
        for path in (*above, f"{whole}/more", f"{whole}/more/still"):
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                public = route_of(method, path)
                assert reached(paths, method, path) == (public.function, public.open), f"{method} {path}"
                asked += 1
    assert asked > 1_000


def test_a_private_api_has_no_more_paths_than_a_rest_api_may_have(paths: dict[str, Any]) -> None:
    assert len(paths) <= 300


def as_rest(made: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a REST API of the same request as an HTTP API's."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(made["rawQueryString"], keep_blank_values=True):
        query.setdefault(name, []).append(value)
    verdict = made["requestContext"].get("authorizer", {}).get("lambda")
    return {
        "resource": "/{proxy+}",
        "path": made["rawPath"],
        "httpMethod": made["requestContext"]["http"]["method"],
        "headers": {name.title(): value for name, value in made["headers"].items()},
        "multiValueHeaders": {name.title(): [value] for name, value in made["headers"].items()},
        "queryStringParameters": {name: values[-1] for name, values in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": {"proxy": made["rawPath"].lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "stage": "turnstile", "path": f"/turnstile{made['rawPath']}", "requestId": "request-1", "apiId": "abc123",
            "authorizer": {**verdict, "principalId": verdict["name"], "integrationLatency": 12} if verdict else None,
        },
        "body": made.get("body"),
        "isBase64Encoded": made["isBase64Encoded"],
    }  # fmt: skip


def through_rest(http: Http) -> Http:
    """The same handler, asked by a REST API."""
    handler = http._handler
    return Http(lambda made, context: handler(as_rest(made), context), http._token)


@pytest.mark.parametrize("name", GOOD)
def test_requests_of_unitys_api_are_answered_by_a_rest_api_as_by_an_http_api(name: str) -> None:
    answers = []
    for private in (False, True):
        unity = stocked()
        ask = GOOD[name](unity)
        if private:
            unity.hot = through_rest(unity.hot)
            unity.cold = through_rest(unity.cold)
        answers.append(send(unity, name, ask))
    assert answers[0].status == answers[1].status < 300
    assert (answers[0].json or {}).keys() == (answers[1].json or {}).keys()


def test_commits_conflicts_and_refusals_through_a_rest_api() -> None:
    lake = make_lake()
    lake.http = through_rest(lake.http)
    assert [lake.append(version, f"t{version}").status for version in (1, 2)] == [200, 200]
    assert lake.append(2, "other").error["type"] == "CommitVersionConflict"
    assert [each["version"] for each in lake.get("commits", start=1).json["commits"]] == [1, 2]
    assert lake.http.get("/v1/nothing").status == 404
    assert lake.http.delete("/v1/snapshots").status in (404, 405)


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/v1/find", "query=%2Fmain%2Fsales%2F*&limit=2", "query=%2Fmain%2Fsales%2F%2A&limit=2"),
        ("/v1/find", "a=1&a=2&b=", "a=1&a=2&b="),
        ("/v1/catalogs/a%2Fb/namespaces", "name=%C3%A9+x%26y", "name=%C3%A9+x%26y"),
        ("/v1", "", ""),
    ],
)
def test_path_and_query_arrive_as_they_were_sent(path: str, query: str, expected: str) -> None:
    made = as_http_api(as_rest(event("GET", path, query=query)))
    assert (made["rawPath"], made["rawQueryString"]) == (path, expected)
    assert made["requestContext"]["http"]["method"] == "GET"


def test_a_stage_is_not_taken_for_the_beginning_of_a_path() -> None:
    made = as_rest(event("GET", "/v1/nothing"))
    made["requestContext"]["stage"] = "v1"
    answer = function("commit").app(made, None)
    assert answer["statusCode"] == 404 and "/v1/nothing" in answer["body"]


def test_several_values_of_a_header_are_one_line_and_a_body_may_be_base64() -> None:
    made = as_rest(event("POST", "/v1/x", body="eyJhIjogMX0=", base64_encoded=True))
    made["multiValueHeaders"]["Accept"] = ["a/b", "c/d"]
    turned = as_http_api(made)
    assert turned["headers"]["Accept"] == "a/b,c/d"
    assert (turned["body"], turned["isBase64Encoded"]) == ("eyJhIjogMX0=", True)
    assert as_http_api({**made, "multiValueHeaders": None})["headers"]["Content-Type"] == "application/json"


# -- who asks ---------------------------------------------------------------------------------------------------------


def test_i12_the_authorizer_answers_a_rest_api_with_a_policy_and_never_refuses() -> None:
    authorizer = Function("authorizer", TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKEN="secret")
    asked = {"type": "TOKEN", "authorizationToken": "Bearer secret", "methodArn": METHOD}
    accepted = authorizer.authorize(asked, None)
    public = authorizer.authorize({"identitySource": ["Bearer secret"]}, None)
    assert accepted["context"] == public["context"] and accepted["principalId"] == public["context"]["name"]
    (statement,) = accepted["policyDocument"]["Statement"]
    assert statement["Resource"] == "arn:aws:execute-api:eu-west-1:123456789012:abc123/turnstile/*"
    unknown = authorizer.authorize({**asked, "authorizationToken": "Bearer other"}, None)
    assert unknown["context"] == {} and unknown["policyDocument"] == accepted["policyDocument"]


def test_i12_a_verdict_reaches_the_function_by_either_gateway() -> None:
    verified = VerifiedToken(Principal("ann", frozenset({"etl"}), admin=False), 4_000_000_000)
    made = event("GET", "/v1/catalogs")
    made["requestContext"]["authorizer"] = {"lambda": to_context(verified)}
    assert from_context(as_http_api(as_rest(made))["requestContext"]) == verified
    del made["requestContext"]["authorizer"]
    assert from_context(as_http_api(as_rest(made))["requestContext"]) is None


def test_i12_what_a_client_writes_is_no_verdict() -> None:
    forged = as_rest(event("GET", "/v1", headers={"authorizer": "admin", "name": "root", "admin": "true"}))
    forged["requestContext"]["authorizer"] = {"principalId": "unknown", "integrationLatency": 3}
    assert from_context(as_http_api(forged)["requestContext"]) is None


# -- the template -----------------------------------------------------------------------------------------------------


def test_a_private_deployment_has_no_public_api_and_lets_the_endpoints_in_alone(template: dict[str, Any]) -> None:
    whole = {**template, "Resources": translated(template)}
    private = Resolved(whole, PRIVATE)
    kinds = {resource["Type"] for resource in private.resources.values()}
    assert not [kind for kind in kinds if kind.startswith("AWS::ApiGatewayV2::")]
    api = private.resources["PrivateApi"]["Properties"]
    assert api["EndpointConfiguration"]["Types"] == ["PRIVATE"]
    allow, deny = api["Body"]["x-amazon-apigateway-policy"]["Statement"]
    assert (allow["Effect"], deny["Effect"], deny["Principal"]) == ("Allow", "Deny", "*")
    assert deny["Condition"] == {"StringNotEquals": {"aws:SourceVpce": api["EndpointConfiguration"]["VpcEndpointIds"]}}
    public = Resolved(whole, {"LakeRoot": "s3://lake/w", "StaticTokens": "{}"})
    assert not [kind["Type"] for kind in public.resources.values() if kind["Type"].startswith("AWS::ApiGateway::")]


def test_i12_each_function_may_be_called_by_the_private_api_alone_and_each_route_asks_the_authorizer(
    template: dict[str, Any],
) -> None:
    private = Resolved({**template, "Resources": translated(template)}, PRIVATE)
    permissions = [r["Properties"] for r in private.resources.values() if r["Type"] == "AWS::Lambda::Permission"]
    from_gateways = [each for each in permissions if each["Principal"] == "apigateway.amazonaws.com"]
    assert len(from_gateways) == len(APPS) + 1 and all(":PrivateApi/" in each["SourceArn"] for each in from_gateways)
    body = private.resources["PrivateApi"]["Properties"]["Body"]
    assert body["components"]["securitySchemes"]["bearer"]["x-amazon-apigateway-authorizer"]["type"] == "token"
    opened = {
        f"{method} {path}"
        for path, operations in body["paths"].items()
        for method, operation in operations.items()
        if operation.get("security") != [{"bearer": []}]
    }
    assert opened == {"post /oauth/token", "post /api/1.0/unity-control/auth/tokens"}


def test_other_routes_make_another_deployment_of_the_private_api(template: dict[str, Any]) -> None:
    def deployments(of: dict[str, Any]) -> set[str]:
        return {name for name, each in translated(of).items() if each["Type"] == "AWS::ApiGateway::Deployment"}

    api = template["Resources"]["PrivateApi"]
    body = api["Properties"]["DefinitionBody"]
    fewer = {path: each for path, each in body["paths"].items() if path != "/v1/find"}
    changed = {**api, "Properties": {**api["Properties"], "DefinitionBody": {**body, "paths": fewer}}}
    other = {**template, "Resources": {**template["Resources"], "PrivateApi": changed}}
    assert len(deployments(template)) == 1 and deployments(template) != deployments(other)


def test_a_web_acl_judges_requests_to_the_private_api_alone(template: dict[str, Any]) -> None:
    arn = "arn:aws:wafv2:us-east-1:123456789012:regional/webacl/company/0a1b"
    whole = {**template, "Resources": translated(template)}
    found = Resolved(whole, {**PRIVATE, "WebAcl": arn}).resources["PrivateWebAcl"]["Properties"]
    assert found["WebACLArn"] == arn
    assert found["ResourceArn"].partition("::/")[2] == "restapis/PrivateApi/stages/PrivateApiturnstileStage", "by ref"
    assert "PrivateWebAcl" not in Resolved(whole, PRIVATE).resources
    assert "WAF" in refused(template, StaticTokens="{}", WebAcl=arn)[0]


def test_what_belongs_to_the_other_way_in_is_refused(template: dict[str, Any]) -> None:
    assert refused(template, **PRIVATE) == []
    assert "needs VpcEndpointIds" in refused(template, **{**PRIVATE, "VpcEndpointIds": ""})[0]
    assert "private" in refused(template, StaticTokens="{}", VpcEndpointIds="vpce-1")[0]
    for more in ({"DomainName": "t.example.com", "DomainCertificate": "arn"}, {"Console": "true"}):
        assert "are of a public API" in refused(template, **PRIVATE, **more)[0]
