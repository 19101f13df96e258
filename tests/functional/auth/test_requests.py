"""Requests with and without the gateway's authorizer, through the functions as they are deployed
(I12)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.support.auth.deployment import OPERATOR, Deployment, Issuer, issuer
from tests.support.auth.issuer import jwk
from tests.support.fakes.refs import FakeRefs
from tests.support.functions import Answer, Function, event
from turnstile.api.auth.signed import LEEWAY_S
from turnstile.api.auth.verifier import VerifiedToken, to_context
from turnstile.rights.grants import Principal

PATHS = [
    ("commit", "GET", "/v1"),
    ("commit", "POST", "/v1/tables/6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1/commits"),
    ("commit", "GET", "/api/2.1/unity-catalog/delta/v1/catalogs/a/schemas/b/tables/c"),
    ("commit", "GET", "/api/2.1/unity-catalog/delta/preview/commits"),
    ("catalog", "GET", "/v1/catalogs"),
    ("catalog", "POST", "/v1/gc"),
    ("catalog", "GET", "/api/2.1/unity-catalog/tables"),
    ("catalog", "GET", "/nothing"),
    ("tokens", "GET", "/v1/clients"),
    ("tokens", "POST", "/v1/clients"),
]


@pytest.fixture(scope="module")
def trusted() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


@pytest.fixture(scope="module")
def here(trusted: Issuer) -> Deployment:
    return Deployment(trusted.url, TURNSTILE_ADMIN_ROLES="ops")


def told_as_its_api_does(path: str, answer: Answer) -> None:
    assert answer.status == 401, (path, answer.text)
    assert answer.headers["www-authenticate"].startswith('Bearer realm="turnstile"')
    if path.startswith("/api/2.1/unity-catalog/delta/v1"):
        assert set(answer.json["error"]) == {"message", "type", "code"}
        assert (answer.json["error"]["type"], answer.json["error"]["code"]) == ("NotAuthorizedException", 401)
    elif path.startswith("/api"):
        assert answer.json["error_code"] == "UNAUTHENTICATED"
    else:
        assert (answer.error["type"], answer.error["field"]) == ("NotAuthenticated", "Authorization")


@pytest.mark.parametrize(("function", "method", "path"), PATHS)
def test_i12_every_answer_without_rights_is_401(
    here: Deployment, trusted: Issuer, function: str, method: str, path: str
) -> None:
    bare = here.http(function).call(method, path)
    told_as_its_api_does(path, bare)
    assert "invalid_token" not in bare.headers["www-authenticate"]
    for bearer in ("x", "a.b.c", trusted.token(aud="other"), trusted.token(exp=int(time.time()) - 61)):
        for answer in (
            here.http(function, bearer).call(method, path),
            here.through_gateway(function, method, path, bearer),
        ):
            told_as_its_api_does(path, answer)
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "name", ["X-Principal", "X-Amzn-Authorizer", "X-Forwarded-User", "X-Turnstile-Principal", "Cookie"]
)
def test_i12_the_token_is_the_only_header_that_names_the_caller(here: Deployment, name: str) -> None:
    context = json.dumps(to_context(VerifiedToken(Principal("operator", admin=True))))
    answer = here.http("commit").call("GET", "/v1", headers={name: context})
    assert answer.status == 401


def test_every_kind_of_token_is_its_principal(here: Deployment, trusted: Issuer) -> None:
    client = here.client(admin=True)
    for bearer, status in (
        (OPERATOR, 200),
        (here.access_token(client), 200),
        (trusted.token(groups=["ops"]), 200),
        (trusted.token(), 403),
        (here.access_token(here.client()), 403),
    ):
        assert here.http("tokens", bearer).get("/v1/clients").status == status
        assert here.through_gateway("tokens", "GET", "/v1/clients", bearer).status == status


def test_the_authorizer_judges_a_token_once_and_the_functions_take_its_word() -> None:
    with issuer() as trusted:
        here = Deployment(trusted.url)
        bearer = trusted.token()
        for _ in range(10):
            assert here.through_gateway("commit", "GET", "/v1", bearer).status == 200
        assert here.verified == 1
        assert trusted.asked == ["/.well-known/openid-configuration", "/keys"], "the functions asked themselves"


@pytest.mark.slow
def test_i12_a_kept_verdict_ends_with_its_token(here: Deployment, trusted: Issuer) -> None:
    for lifetime_s in (2, 10, 50):  # a busy machine may take longer than a token lives
        end_s = int(time.time()) + lifetime_s
        bearer = trusted.token(exp=end_s - LEEWAY_S)
        if here.through_gateway("commit", "GET", "/v1", bearer).status == 200:
            break
    else:
        pytest.fail("no token was good when it was issued")
    time.sleep(max(0.0, end_s + 1 - time.time()))
    answer = here.through_gateway("commit", "GET", "/v1", bearer)
    assert f"Bearer {bearer}" in here.kept
    assert "expired" in answer.error["message"]


def test_keys_are_rotated_at_the_issuer_while_everything_runs() -> None:
    with issuer() as trusted:
        here = Deployment(trusted.url)
        assert here.http("commit", trusted.token()).get("/v1").status == 200
        trusted.keys = [jwk("ec"), jwk("rsa")]
        fresh = Deployment(trusted.url)
        assert fresh.http("commit", trusted.token(key="ec", alg="ES256")).get("/v1").status == 200
        assert fresh.http("commit", trusted.token()).get("/v1").status == 200


@pytest.mark.parametrize("path", ["/v1", "/api/2.1/unity-catalog/delta/v1/catalogs/a/schemas/b/tables/c"])
def test_while_the_issuer_is_away_nothing_is_refused_for_good(path: str) -> None:
    with issuer() as away:
        away.down = True
        here = Deployment(away.url)
        for answer in (
            here.http("commit", away.token()).get(path),
            here.through_gateway("commit", "GET", path, away.token()),
        ):
            assert answer.status == (503 if path == "/v1" else 500)
            assert answer.status != 503 or answer.headers["retry-after"] == "5"
        assert here.http("commit", OPERATOR).get("/v1").status == 200, "the operator needs no issuer"
        asked = len(away.asked)
        for _ in range(20):
            here.http("commit", away.token(sub="b")).get(path)
        assert len(away.asked) == asked, "one look in a while, however many ask"


def test_i12_with_authentication_on_a_missing_context_is_no_way_in(here: Deployment) -> None:
    for context in ({}, {"authorizer": {}}, {"authorizer": {"lambda": {}}}, {"authorizer": {"lambda": {"name": "x"}}}):
        sent = event("GET", "/v1")
        sent["requestContext"].update(context)
        assert here.http("commit").send(sent).status == 401
    assert here.http("commit").send({"rawPath": "/v1"}).status == 401


@pytest.mark.parametrize(
    "header", ["Bearer " + "a" * 100_000, "Bearer " + "." * 50_000, "é" * 5000, "\x00", "Bearer\n"]
)
def test_huge_and_broken_headers_are_401(here: Deployment, header: str) -> None:
    assert here.http("commit").call("GET", "/v1", headers={"Authorization": header}).status == 401
    assert here.authorizer.authorize({"identitySource": [header]}, None) == {"isAuthorized": True, "context": {}}


@pytest.mark.parametrize("sent", [{}, {"identitySource": None}, {"identitySource": []}, {"identitySource": [None]}])
def test_i12_the_authorizer_adds_nothing_to_what_it_cannot_judge(here: Deployment, sent: dict[str, object]) -> None:
    assert here.authorizer.authorize(sent, None) == {"isAuthorized": True, "context": {}}


def test_a_defect_of_the_authorizers_leaves_the_judgement_to_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Deployment()

    def fail(_: str) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(here.authorizer.tokens, "verify", fail)
    assert here.through_gateway("commit", "GET", "/v1", OPERATOR).status == 200
    assert here.through_gateway("commit", "GET", "/v1", "wrong").status == 401


def test_the_log_line_of_a_request_names_the_caller(here: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    here.http("commit", OPERATOR).get("/v1")
    here.http("commit", "wrong").get("/v1")
    lines = [record.__dict__ for record in caplog.records if record.name == "commit"]
    assert [line.get("principal") for line in lines] == ["operator", None]


def test_authentication_asks_no_table(here: Deployment, trusted: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kind of token costs more, warm or cold: a load or a commit takes the same requests as
    without."""
    tokens = [OPERATOR, here.access_token(here.client()), trusted.token()]

    def refuse(*_: object) -> None:
        raise AssertionError("a table was asked")

    for name in ("read", "read_many", "write", "transact", "scan"):
        monkeypatch.setattr(FakeRefs, name, refuse)
        monkeypatch.setattr(here.world.refs, name, refuse, raising=False)
    for bearer in tokens:
        assert here.http("commit", bearer).get("/v1").status == 200
        assert here.through_gateway("commit", "GET", "/v1", bearer).status == 200


def test_i12_an_authorizer_without_anything_to_judge_by_does_not_start() -> None:
    with pytest.raises(ValueError, match="nothing to judge"):
        Function("authorizer", TURNSTILE_AUTHENTICATION="none")


@pytest.mark.parametrize("function", ["commit", "catalog", "iceberg", "tokens", "authorizer"])
def test_i12_no_function_starts_without_a_way_to_authenticate(function: str) -> None:
    with pytest.raises(ValueError, match="no caller could authenticate"):
        Function(function, TURNSTILE_AUTHENTICATION="required")
