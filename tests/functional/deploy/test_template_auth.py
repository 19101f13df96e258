"""I12: no client reaches the deployed API by mistake: rules, the authorizer on every route, the
environment's table."""

from __future__ import annotations

import base64
import ipaddress
import itertools
import json
import re
import runpy
from typing import Any

import pytest

from tests.support.functions import Function, function
from tests.support.gateway import routes
from tests.support.openapi import REPAIR
from tests.support.repository import ROOT
from tests.support.roles.rules import refused, value
from turnstile_local.deployment import read_template
from turnstile_local.settings import HOST, Keys, child_environment

PUBLIC = {"POST /oauth/token", "POST /api/1.0/unity-control/auth/tokens"}
CONSOLE = {"GET /ui", "GET /ui/{proxy+}"}
"""Files of a page, which hold no data."""
ASKED_OVER_HTTP = {
    "CommitFunction", "CatalogFunction", "PlansFunction", "BranchesFunction", "IngestFunction", "IcebergFunction",
    "TokensFunction", "AuthorizerFunction",
}  # fmt: skip


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return read_template(ROOT / "template.yaml")


@pytest.fixture(scope="module")
def resources(template: dict[str, Any]) -> dict[str, Any]:
    return template["Resources"]


def test_i12_a_deployment_that_says_nothing_about_authentication_is_refused(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Authentication"]["Default"] == "required"
    (why,) = refused(template)
    assert "Nobody could authenticate" in why
    assert refused(template, IssueTokens="true", AdminNames="alice"), "own tokens alone let nobody in"


def test_i12_an_open_deployment_is_open_on_purpose_and_entirely(template: dict[str, Any]) -> None:
    assert refused(template, Authentication="none") == []
    for name, given in {"StaticTokens": "{}", "OidcIssuer": "https://x", "IssueTokens": "true"}.items():
        assert refused(template, **{"Authentication": "none", name: given, "OidcAudience": "a", "Secret": "arn"}), name
    for name in ("Secret", "StaticTokens", "OidcIssuer"):
        assert refused(template, **{name: "https://x", "OidcAudience": "a"}) == [], name


def test_i12_an_issuer_without_an_audience_is_refused(template: dict[str, Any]) -> None:
    assert "OidcAudience" in refused(template, OidcIssuer="https://x")[0]


def test_the_functions_start_with_what_the_rules_let_through(
    template: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template's rules and the functions, at their start, judge a configuration alike. So does
    the authorizer, wherever there is one: it would fail every request."""
    from turnstile.api.auth.settings import read as settings
    from turnstile.api.http.env import BadSetting

    held: dict[str, str] = {}
    monkeypatch.setattr("turnstile.adapters.secret.read_secret", lambda arn: json.dumps(held))
    for number, (mode, token, keys, issuer, audience) in enumerate(
        itertools.product(("required", "none"), ("", "t"), ("", "k:" + "a" * 43), ("", "https://i"), ("", "a"))
    ):
        held.clear()
        held.update({name: text for name, text in (("token", token), ("token_keys", keys)) if text})
        parameters = {
            "Authentication": mode, "Secret": f"arn:{number}" if held else "",
            "IssueTokens": "true" if keys else "false",
            "OidcIssuer": issuer, "OidcAudience": audience,
        }  # fmt: skip
        variables = {"TURNSTILE_AUTHENTICATION": mode, "TURNSTILE_SECRET": parameters["Secret"],
                     "TURNSTILE_OIDC_ISSUER": issuer, "TURNSTILE_OIDC_AUDIENCE": audience}  # fmt: skip
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        try:
            settings()
            starts = True
        except BadSetting:
            starts = False
        lets_through = refused(template, **parameters) == []
        if keys and not token and not issuer:
            assert lets_through or mode == "none", "what is in the secret the rules do not see"
            assert not starts
            continue
        if mode == "none" and token and not keys and not issuer:
            assert (lets_through, starts) == (True, False), "nor this"
            continue
        assert starts == lets_through, parameters
        if starts and value(template["Conditions"]["WithAuthorizer"], parameters):
            Function("authorizer", **variables)


def test_i12_every_route_is_behind_the_authorizer_but_those_that_give_tokens_and_a_page(
    resources: dict[str, Any],
) -> None:
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
    assert open_routes == PUBLIC | CONSOLE


def test_i12_the_open_routes_are_those_that_the_tokens_app_answers_without_a_token() -> None:
    app = function("tokens").app
    public = {f"{method} {path}" for path, methods in app.routes.items() if path in app.public for method in methods}
    assert public == PUBLIC == {route.key for route in routes() if route.open} - CONSOLE
    assert all(
        not function(name).app.public for name in ("commit", "catalog", "plans", "branches", "ingest", "iceberg")
    )


def test_i12_the_console_is_a_choice_and_its_function_holds_no_secret_and_reads_no_row(
    template: dict[str, Any],
) -> None:
    resources = template["Resources"]
    assert template["Parameters"]["Console"]["Default"] == "false"
    named = [name for name in resources if "Console" in name]
    assert {resources[name].get("Condition") for name in named} == {"WithConsole"}
    (policy,) = resources["ConsoleRole"]["Properties"]["Policies"]
    statement, *conditional = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert [entry["Fn::If"][0] for entry in conditional] == ["WithEnvironmentKey", "WithTracing"]
    assert {route.key for route in routes() if route.function == "console"} == CONSOLE


def test_the_consoles_function_answers_with_the_page_that_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "required")
    monkeypatch.delenv("TURNSTILE_CONSOLE_CLIENT_ID", raising=False)
    serve = runpy.run_path(str(ROOT / "server" / "turnstile_server" / "console" / "app.py"))["serve"]

    def get(path: str) -> tuple[int, str, bytes]:
        answer = serve({"rawPath": path, "requestContext": {"stage": "$default", "http": {"method": "GET"}}}, None)
        return answer["statusCode"], answer["headers"]["content-type"], base64.b64decode(answer["body"])

    status, media, page = get("/ui/table/main.sales.orders")
    assert (status, media) == (200, "text/html; charset=utf-8")
    script = re.findall(rb'src="(/ui/assets/[^"]+)"', page)[0].decode()
    assert get(script)[:2] == (200, "text/javascript; charset=utf-8")
    assert json.loads(get("/ui/settings.json")[2])["authentication"] == "required"
    assert get("/ui/assets/gone.js")[0] == 404


def test_i12_strangers_are_let_through_to_the_token_endpoint_slowly(resources: dict[str, Any]) -> None:
    throttled = resources["ApiStage"]["Properties"]["RouteSettings"]
    assert set(throttled) == PUBLIC | REPAIR
    assert all(throttled[route]["ThrottlingRateLimit"] <= 50 for route in PUBLIC)
    keys = {resources[name]["Properties"]["RouteKey"] for name in resources["ApiStage"]["DependsOn"]}
    assert keys == PUBLIC | REPAIR, "a route must be there before its settings"


def test_i10_a_closed_api_lets_repairs_through_and_no_writes(template: dict[str, Any]) -> None:
    """``ApiRateLimit=0 ApiBurstLimit=0`` while rows are restored: a commit at that time takes a
    version that is published."""
    stage = template["Resources"]["ApiStage"]["Properties"]
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == {"Ref": "ApiRateLimit"}
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == {"Ref": "ApiBurstLimit"}
    assert all(template["Parameters"][name]["MinValue"] == 0 for name in ("ApiRateLimit", "ApiBurstLimit"))
    for route in REPAIR:
        assert stage["RouteSettings"][route]["ThrottlingRateLimit"] > 0


def test_i12_the_tokens_function_may_touch_rows_of_clients_only(resources: dict[str, Any]) -> None:
    (policy,) = resources["TokensRole"]["Properties"]["Policies"]
    for statement in policy["PolicyDocument"]["Statement"]:
        if "Fn::If" in statement:
            assert "RefsTable" not in str(statement) and "ObjsTable" not in str(statement)
        elif statement["Resource"] == {"Fn::GetAtt": ["RefsTable", "Arn"]} and statement["Action"] != "dynamodb:Scan":
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
    for own, issuer in itertools.product(("true", "false"), ("", "https://x")):
        assert value(condition, {"IssueTokens": own, "OidcIssuer": issuer}) == (own == "true" or bool(issuer))
    resources = template["Resources"]
    for name in ("AuthorizerPermission", "AuthorizerFunction", "AuthorizerRole", "AuthorizerLog"):
        assert resources[name]["Condition"] == "WithAuthorizer"
    assert resources["Authorizer"]["Condition"] == "WithPublicAuthorizer", "a private API describes it by itself"
    authorizer = resources["Authorizer"]["Properties"]
    assert authorizer["AuthorizerPayloadFormatVersion"] == "2.0"
    assert authorizer["EnableSimpleResponses"] is True
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"], "verdicts are kept by the token alone"
    assert 0 < authorizer["AuthorizerResultTtlInSeconds"] <= 300
    assert "Events" not in resources["AuthorizerFunction"]["Properties"]


def test_i12_secrets_are_named_and_read_where_tokens_are_judged_and_nowhere_else(template: dict[str, Any]) -> None:
    """No function has a secret among its variables; only those that judge tokens may read it."""
    assert not {"TURNSTILE_TOKEN", "TURNSTILE_TOKEN_KEYS", "TURNSTILE_SECRET"} & set(
        template["Globals"]["Function"]["Environment"]["Variables"]
    )
    for name, found in template["Resources"].items():
        if found["Type"] == "AWS::Serverless::Function":
            variables = found["Properties"].get("Environment", {}).get("Variables", {})
            assert ("TURNSTILE_SECRET" in variables) == (name in ASKED_OVER_HTTP), name
            assert not {"TURNSTILE_TOKEN", "TURNSTILE_TOKEN_KEYS", "TURNSTILE_S3_SECRET_ACCESS_KEY"} & set(variables)
    roles = {name: found for name, found in template["Resources"].items() if found["Type"] == "AWS::IAM::Role"}

    def readers_of(parameter: str) -> set[str]:
        read = ["secretsmanager:GetSecretValue", "ssm:GetParameter"]
        statement = {"Effect": "Allow", "Action": read, "Resource": {"Ref": parameter}}
        entry = {"Fn::If": [f"With{parameter}", statement, {"Ref": "AWS::NoValue"}]}
        listed = {
            name: role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"] for name, role in roles.items()
        }
        return {name for name, statements in listed.items() if entry in statements}

    readers = readers_of("Secret")
    assert {"CommitRole", "PublishRole", "CollectRole"} <= readers_of("LakeSecret")
    assert readers == {name.replace("Function", "Role") for name in ASKED_OVER_HTTP}


def test_a_vpc_has_security_groups_and_a_closed_endpoint_a_domain(template: dict[str, Any]) -> None:
    anybody = {"StaticTokens": "{}"}
    vpc = {"SubnetIds": "subnet-1,subnet-2", "SecurityGroupIds": "sg-1"}
    assert refused(template, **anybody, **vpc) == []
    for name in vpc:
        assert "belong together" in refused(template, **anybody, **{**vpc, name: ""})[0]
    assert "DomainName" in refused(template, **anybody, DisableExecuteApiEndpoint="true")[0]
    domain = {"DomainName": "t.example.com", "DomainCertificate": "arn"}
    assert refused(template, **anybody, **domain, DisableExecuteApiEndpoint="true") == []


def test_a_store_without_roles_has_an_endpoint_and_keys_and_nothing_of_aws(template: dict[str, Any]) -> None:
    enough = {"StaticTokens": "{}", "LakeEndpoint": "https://store", "LakeSecret": "arn"}
    assert refused(template, **enough) == []
    for name in ("LakeEndpoint", "LakeSecret"):
        assert "belong together" in refused(template, **{**enough, name: ""})[0]
    for name, given in {"CreateLakeBucket": "true", "VendingRole": "arn", "LakeKey": "arn"}.items():
        assert "are of AWS" in refused(template, **enough, **{name: given})[0]


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


def test_a_domain_has_a_certificate_and_is_the_address_that_is_printed(template: dict[str, Any]) -> None:
    enough = {"StaticTokens": "{}", "DomainName": "t.example.com", "DomainCertificate": "arn"}
    assert refused(template, **enough) == []
    for given in (
        {"DomainName": ""},
        {"DomainCertificate": ""},
        {"DomainName": "", "DomainCertificate": "", "DomainZone": "Z"},
    ):
        assert "belong together" in refused(template, **{**enough, **given})[0], given
    private, _, public = template["Outputs"]["Url"]["Value"]["Fn::If"]
    assert (private, public["Fn::If"][0]) == ("WithPrivate", "WithDomain")
