"""I12: nobody reaches the deployed API by mistake: rules, the authorizer on every route, the environment's table."""

from __future__ import annotations

import ipaddress
import itertools
import re
from typing import Any

import pytest

from tests.support.functions import Function, function
from tests.support.gateway import routes
from tests.support.openapi import REPAIR
from tests.support.repository import ROOT
from turnstile_local.deployment import read_template
from turnstile_local.settings import HOST, Keys, child_environment

PUBLIC = {"POST /oauth/token", "POST /api/1.0/unity-control/auth/tokens"}
ASKED_OVER_HTTP = {
    "CommitFunction", "CatalogFunction", "PlansFunction", "IcebergFunction", "TokensFunction", "AuthorizerFunction"
}  # fmt: skip
SECRETS = {"TURNSTILE_TOKEN", "TURNSTILE_TOKENS", "TURNSTILE_TOKEN_KEYS"}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def resources(template: dict[str, Any]) -> dict[str, Any]:
    return template["Resources"]


def value(node: Any, given: dict[str, str]) -> Any:
    """A condition function of CloudFormation's, evaluated."""
    if not isinstance(node, dict):
        return node
    ((name, argument),) = node.items()
    match name:
        case "Ref":
            return given[argument]
        case "Fn::Equals":
            return value(argument[0], given) == value(argument[1], given)
        case "Fn::Not":
            return not value(argument[0], given)
        case "Fn::And":
            return all(value(one, given) for one in argument)
        case "Fn::Or":
            return any(value(one, given) for one in argument)
    raise AssertionError(name)


def refused(template: dict[str, Any], **given: str) -> list[str]:
    """What the template's rules say against these parameters."""
    values = {name: str(found.get("Default", "")) for name, found in template["Parameters"].items()} | given
    return [
        assertion["AssertDescription"]
        for rule in template["Rules"].values()
        if value(rule["RuleCondition"], values)
        for assertion in rule["Assertions"]
        if not value(assertion["Assert"], values)
    ]


def test_i12_a_deployment_that_says_nothing_about_authentication_is_refused(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Authentication"]["Default"] == "required"
    (why,) = refused(template)
    assert "Nobody could authenticate" in why
    assert refused(template, TokenKeys="k:" + "a" * 43, AdminNames="alice"), "keys alone let nobody in"


def test_i12_an_open_deployment_is_open_on_purpose_and_entirely(template: dict[str, Any]) -> None:
    assert refused(template, Authentication="none") == []
    for name in ("StaticToken", "StaticTokens", "OidcIssuer", "TokenKeys"):
        assert refused(template, **{"Authentication": "none", name: "https://x", "OidcAudience": "a"}), name
    for name in ("StaticToken", "StaticTokens", "OidcIssuer"):
        assert refused(template, **{name: "https://x", "OidcAudience": "a"}) == [], name


def test_i12_an_issuer_without_an_audience_is_refused(template: dict[str, Any]) -> None:
    assert "OidcAudience" in refused(template, OidcIssuer="https://x")[0]


def test_the_functions_start_with_what_the_rules_let_through(
    template: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two judgements of a configuration agree: the template's rules, and what the functions read at their start. So
    does the authorizer, wherever there is one: it would fail every request."""
    from turnstile.api.auth.settings import read as settings
    from turnstile.api.http.env import BadSetting

    for mode, token, keys, issuer, audience in itertools.product(
        ("required", "none"), ("", "t"), ("", "k:" + "a" * 43), ("", "https://i"), ("", "a")
    ):
        parameters = {
            "Authentication": mode, "StaticToken": token, "TokenKeys": keys, "OidcIssuer": issuer, "OidcAudience": audience
        }  # fmt: skip
        variables = dict(zip(("AUTHENTICATION", "TOKEN", "TOKEN_KEYS", "OIDC_ISSUER", "OIDC_AUDIENCE"),
                             parameters.values(), strict=True))  # fmt: skip
        for name, text in variables.items():
            monkeypatch.setenv(f"TURNSTILE_{name}", text)
        try:
            settings()
            starts = True
        except BadSetting:
            starts = False
        assert starts == (refused(template, **parameters) == []), parameters
        if starts and value(template["Conditions"]["WithAuthorizer"], parameters):
            Function("authorizer", **{f"TURNSTILE_{name}": text for name, text in variables.items()})


def test_i12_every_route_is_behind_the_authorizer_but_those_that_give_tokens(resources: dict[str, Any]) -> None:
    open_routes = set()
    for found in resources.values():
        if found["Type"] == "AWS::ApiGatewayV2::Route":
            route = found["Properties"]
            if "AuthorizationType" not in route:
                open_routes.add(route["RouteKey"])
                continue
            assert route["AuthorizationType"] == {"Fn::If": ["WithAuthorizer", "CUSTOM", "NONE"]}
            assert route["AuthorizerId"] == {
                "Fn::If": ["WithAuthorizer", {"Ref": "Authorizer"}, {"Ref": "AWS::NoValue"}]
            }
    assert open_routes == PUBLIC


def test_i12_the_open_routes_are_those_that_the_tokens_app_answers_without_a_token() -> None:
    app = function("tokens").app
    public = {f"{method} {path}" for path, methods in app.routes.items() if path in app.public for method in methods}
    assert public == PUBLIC == {route.key for route in routes() if route.open}
    assert all(not function(name).app.public for name in ("commit", "catalog", "plans", "iceberg"))


def test_i12_strangers_are_let_through_to_the_token_endpoint_slowly(resources: dict[str, Any]) -> None:
    throttled = resources["ApiStage"]["Properties"]["RouteSettings"]
    assert set(throttled) == PUBLIC | REPAIR
    assert all(throttled[route]["ThrottlingRateLimit"] <= 50 for route in PUBLIC)
    keys = {resources[name]["Properties"]["RouteKey"] for name in resources["ApiStage"]["DependsOn"]}
    assert keys == PUBLIC | REPAIR, "a route must be there before its settings"


def test_i10_a_closed_api_lets_repairs_through_and_nobody_who_writes(template: dict[str, Any]) -> None:
    """``ApiRateLimit=0 ApiBurstLimit=0`` while rows are restored: whoever commits then takes a version that is published."""
    stage = template["Resources"]["ApiStage"]["Properties"]
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == {"Ref": "ApiRateLimit"}
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == {"Ref": "ApiBurstLimit"}
    assert all(template["Parameters"][name]["MinValue"] == 0 for name in ("ApiRateLimit", "ApiBurstLimit"))
    for route in REPAIR:
        assert stage["RouteSettings"][route]["ThrottlingRateLimit"] > 0


def test_i12_the_tokens_function_may_touch_rows_of_clients_only(resources: dict[str, Any]) -> None:
    (policy,) = resources["TokensRole"]["Properties"]["Policies"]
    for statement in policy["PolicyDocument"]["Statement"]:
        if statement["Resource"] == {"Fn::GetAtt": ["RefsTable", "Arn"]} and statement["Action"] != "dynamodb:Scan":
            (condition,) = statement["Condition"].values()
            assert condition == {"dynamodb:LeadingKeys": [{"Fn::Sub": "${Realm}/client/*"}]}
            break
    else:
        pytest.fail("no statement on refs")


def test_i12_an_open_stack_listens_on_this_machine_only() -> None:
    environment = child_environment(port=1, state="", s3="", tmp="", roles=False, keys=Keys.random())
    assert ipaddress.ip_address(HOST).is_loopback
    assert environment["BIND_HOST"] == HOST


def test_the_authorizer_is_there_where_signed_tokens_are_accepted(template: dict[str, Any]) -> None:
    condition = template["Conditions"]["WithAuthorizer"]
    for keys, issuer in itertools.product(("", "k"), ("", "https://x")):
        assert value(condition, {"TokenKeys": keys, "OidcIssuer": issuer}) == bool(keys or issuer)
    resources = template["Resources"]
    for name in ("Authorizer", "AuthorizerPermission", "AuthorizerFunction", "AuthorizerRole", "AuthorizerLog"):
        assert resources[name]["Condition"] == "WithAuthorizer"
    authorizer = resources["Authorizer"]["Properties"]
    assert authorizer["AuthorizerPayloadFormatVersion"] == "2.0"
    assert authorizer["EnableSimpleResponses"] is True
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"], "verdicts are kept by the token alone"
    assert 0 < authorizer["AuthorizerResultTtlInSeconds"] <= 300
    assert "Events" not in resources["AuthorizerFunction"]["Properties"]


def test_i12_secrets_are_where_tokens_are_judged_and_nowhere_else(template: dict[str, Any]) -> None:
    assert not SECRETS & set(template["Globals"]["Function"]["Environment"]["Variables"])
    for name, found in template["Resources"].items():
        if found["Type"] == "AWS::Serverless::Function":
            variables = set(found["Properties"].get("Environment", {}).get("Variables", ()))
            assert SECRETS & variables == (SECRETS if name in ASKED_OVER_HTTP else set()), name
            assert ("SECRETS_VERSION" in variables) == (name in ASKED_OVER_HTTP), "or a new secret would not get there"
    for name in ("StaticToken", "StaticTokens", "TokenKeys"):
        assert template["Parameters"][name]["NoEcho"] is True


def test_the_table_of_variables_names_all_that_the_functions_read_and_the_template_sets(
    template: dict[str, Any],
) -> None:
    head = (ROOT / "template.yaml").read_text().split("\nParameters:")[0]
    listed = set(re.findall(r"^# \| ([A-Z_0-9]+) +\|", head, re.MULTILINE))
    read_ = {
        name
        for folder in ("functions", "layers")
        for file in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\"(TURNSTILE_[A-Z0-9_]+)\"", file.read_text())
    }
    set_ = set(template["Globals"]["Function"]["Environment"]["Variables"])
    for found in template["Resources"].values():
        if found["Type"] == "AWS::Serverless::Function":
            set_ |= set(found["Properties"].get("Environment", {}).get("Variables", ()))
    assert set_ <= listed
    assert {name for name in listed if name.startswith("TURNSTILE_")} == read_
