"""The token endpoint: client credentials (RFC 6749) and token exchange (RFC 8693), every answer."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.auth.deployment import EXCHANGE, FORM, OPERATOR, TYPE, Deployment, Issuer, basic, issuer
from tests.support.auth.issuer import KEY
from tests.support.functions import Answer
from turnstile.store.core.errors import Throttled

GRANT = {"grant_type": "client_credentials"}
UNITY = "/api/1.0/unity-control/auth/tokens"


@pytest.fixture(scope="module")
def trusted() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


@pytest.fixture(scope="module")
def here(trusted: Issuer) -> Deployment:
    return Deployment(trusted.url)


@pytest.fixture(scope="module")
def client(here: Deployment) -> dict[str, Any]:
    return here.client(roles=["writers"])


def refused(answer: Answer, status: int, error: str) -> str:
    """The description of a refusal, once it has exactly the shape of RFC 6749, 5.2."""
    assert (answer.status, answer.json["error"]) == (status, error), answer.text
    assert set(answer.json) == {"error", "error_description"}
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
    assert answer.headers["content-type"] == "application/json"
    assert ("www-authenticate" in answer.headers) == (status == 401)
    described = str(answer.json["error_description"])
    assert all(" " <= letter <= "~" and letter not in '"\\' for letter in described)
    return described


# -- client credentials ----------------------------------------------------------------------------------------------


def test_a_client_gets_a_token_as_sparks_connector_asks_for_it(here: Deployment, client: dict[str, Any]) -> None:
    """Body and header to the letter of the Unity Catalog client's OAuthTokenProvider."""
    header = base64.b64encode(f"{client['client_id']}:{client['client_secret']}".encode()).decode()
    answer = here.ask_token("grant_type=client_credentials&scope=all-apis", Authorization="Basic " + header)
    assert answer.status == 200
    told = answer.json
    assert told | {"access_token": ""} == {
        "access_token": "", "token_type": "Bearer", "expires_in": 900, "scope": "all-apis"
    }  # fmt: skip
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
    claims = jwt.decode(told["access_token"], KEY.secret, ["HS256"], audience="turnstile:default")
    assert (claims["sub"], claims["roles"], claims["admin"]) == (client["client_id"], ["writers"], False)
    assert claims["exp"] - claims["iat"] == 900
    for function in ("commit", "catalog", "tokens"):
        path = {"commit": "/v1", "catalog": "/v1/catalogs", "tokens": "/v1/clients"}[function]
        assert here.http(function, told["access_token"]).get(path).status in (200, 403)


def test_a_client_may_show_its_secret_in_the_form_instead(here: Deployment, client: dict[str, Any]) -> None:
    shown = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    assert here.ask_token({**GRANT, **shown}).status == 200
    with_both_ids = here.ask_token({**GRANT, "client_id": client["client_id"]}, Authorization=basic(*shown.values()))
    assert with_both_ids.status == 200


def test_a_form_that_the_gateway_encoded_is_read_too(here: Deployment, client: dict[str, Any]) -> None:
    """API Gateway sends bodies that are not JSON or text in base64."""
    shown = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    body = base64.b64encode(urlencode({**GRANT, **shown}).encode())
    headers = {"Content-Type": FORM + "; charset=UTF-8"}
    http = here.http("tokens")
    assert http.call("POST", "/oauth/token", body=body, base64_encoded=True, headers=headers).status == 200
    broken = http.call("POST", "/oauth/token", body="!", base64_encoded=True, headers=headers)
    refused(broken, 400, "invalid_request")


def test_members_without_a_value_count_as_left_out_and_unknown_ones_are_skipped(
    here: Deployment, client: dict[str, Any]
) -> None:
    form = f"grant_type=client_credentials&scope=&client_secret=&{urlencode({'x': 'y'})}"
    assert here.ask_token(form, Authorization=basic(client["client_id"], client["client_secret"])).status == 200


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ("", "invalid_request"),
        ("scope=all-apis", "invalid_request"),
        ("grant_type=", "invalid_request"),
        ("grant_type=client_credentials&grant_type=client_credentials", "invalid_request"),
        ("grant_type=client_credentials&scope=a&scope=b", "invalid_request"),
        ("grant_type=client_credentials&client_secret=x", "invalid_request"),
        ("grant_type=client_credentials&client_id=client-other", "invalid_request"),
        ("grant_type=%ff", "invalid_request"),
        ("&".join(f"a{number}=b" for number in range(30)), "invalid_request"),
        ("grant_type=client_credentials&x=" + "y" * 40_000, "invalid_request"),
        ("grant_type=password&username=a&password=b", "unsupported_grant_type"),
        ("grant_type=%22%5C%C3%A9", "unsupported_grant_type"),
        ("grant_type=client_credentials&scope=offline_access", "invalid_scope"),
        ("grant_type=client_credentials&scope=all-apis+more", "invalid_scope"),
    ],
)
def test_a_wrong_request_is_reported(here: Deployment, client: dict[str, Any], form: str, error: str) -> None:
    assert refused(here.ask_token(form, Authorization=basic(client["client_id"], client["client_secret"])), 400, error)


@pytest.mark.parametrize("media", ["application/json", "text/plain", ""])
def test_only_forms_are_read(here: Deployment, media: str) -> None:
    answer = here.http("tokens").call("POST", "/oauth/token", body="{}", headers={"Content-Type": media})
    assert FORM in refused(answer, 400, "invalid_request")


def test_i12_a_secret_in_the_url_is_refused(here: Deployment, client: dict[str, Any]) -> None:
    query = {**GRANT, "client_id": client["client_id"], "client_secret": client["client_secret"]}
    for body in ("", urlencode(query)):
        answer = here.http("tokens").call(
            "POST", "/oauth/token", query=query, body=body, headers={"Content-Type": FORM}
        )
        assert "URL" in refused(answer, 400, "invalid_request")


def headers_that_are_no_client(client: dict[str, Any]) -> list[str]:
    id = client["client_id"]
    secret = client["client_secret"]
    return [
        basic(id, "wrong"), basic(id, ""), basic(id, secret + "x"), basic(id.upper(), secret),
        basic("client-1", secret),
        basic("", ""), basic("operator", OPERATOR), f"Bearer {OPERATOR}", f"Bearer {secret}", "Basic", "Basic ",
        "Basic !",
        "Basic " + base64.b64encode(id.encode()).decode(), "Basic " + base64.b64encode(b"\xff:\xff").decode(), "x",
        basic(id + "/../x", secret), basic("a" * 5000, secret),
    ]  # fmt: skip


def test_i12_a_caller_without_the_right_secret_gets_nothing(here: Deployment, client: dict[str, Any]) -> None:
    for header in headers_that_are_no_client(client):
        refused(here.ask_token(GRANT, Authorization=header), 401, "invalid_client")
    for form in ({}, {"client_id": client["client_id"]}, {"client_secret": client["client_secret"]}):
        refused(here.ask_token({**GRANT, **form}), 401, "invalid_client")


def test_i12_a_deleted_client_gets_no_token_and_a_rotated_secret_none_either(here: Deployment) -> None:
    made = here.client()
    operator = here.http("tokens", OPERATOR)
    path = f"/v1/clients/{made['client_id']}"
    fresh = operator.post(path + "/rotate", {}).json
    old = here.ask_token(GRANT, Authorization=basic(made["client_id"], made["client_secret"]))
    refused(old, 401, "invalid_client")
    assert here.access_token(fresh)
    assert operator.delete(path).status == 204
    refused(
        here.ask_token(GRANT, Authorization=basic(made["client_id"], fresh["client_secret"])), 401, "invalid_client"
    )


def test_a_deployment_without_a_key_issues_no_tokens() -> None:
    bare = Deployment(TURNSTILE_TOKEN_KEYS="")
    made = bare.client()
    answer = bare.ask_token(GRANT, Authorization=basic(made["client_id"], made["client_secret"]))
    assert "token_keys" in refused(answer, 400, "unsupported_grant_type")


def test_a_store_that_is_slow_or_broken_is_reported_in_the_same_shape(client: dict[str, Any]) -> None:
    for error, status, code in (
        (Throttled(retry_after_ms=1500), 503, "temporarily_unavailable"),
        (RuntimeError("row 17"), 500, "server_error"),
    ):
        broken = Deployment()

        def fail(_key: str, error: Exception = error) -> None:
            raise error

        broken.world.refs.read = fail  # type: ignore[assignment]
        answer = broken.ask_token(GRANT, Authorization=basic(client["client_id"], client["client_secret"]))
        assert "row 17" not in refused(answer, status, code)
        assert status == 500 or answer.headers["retry-after"] == "2"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_only_post_is_allowed(here: Deployment, method: str) -> None:
    answer = here.http("tokens").call(method, "/oauth/token")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert here.http("catalog", OPERATOR).call(method, "/oauth/token").headers["allow"] == "POST"


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.one_of(
        st.text(max_size=200), st.dictionaries(st.sampled_from(["grant_type", "scope", "client_id", "x"]), st.text())
    ),
    st.one_of(
        st.just(""), st.text(max_size=60), st.binary(max_size=40).map(lambda b: "Basic " + base64.b64encode(b).decode())
    ),
)
def test_no_request_of_a_stranger_is_our_fault(form: dict[str, str] | str, header: str) -> None:
    answer = GENERATED.ask_token(form, **({"Authorization": header} if header else {}))
    assert answer.status in (400, 401), answer.text


GENERATED = Deployment()


# -- token exchange --------------------------------------------------------------------------------------------------


def exchange(subject: str, **more: str) -> dict[str, str]:
    return {"grant_type": EXCHANGE, "subject_token": subject, "subject_token_type": TYPE + "id_token", **more}


@pytest.mark.parametrize("path", ["/oauth/token", UNITY])
@pytest.mark.parametrize("kind", ["id_token", "access_token", "jwt"])
def test_an_issuers_token_is_exchanged_for_one_of_the_same_principal(
    here: Deployment, trusted: Issuer, path: str, kind: str
) -> None:
    form = exchange(trusted.token(exp=int(time.time()) + 120), requested_token_type=TYPE + "access_token")
    answer = here.ask_token(form | {"subject_token_type": TYPE + kind}, path)
    assert answer.status == 200, answer.text
    assert (answer.json["issued_token_type"], answer.json["token_type"]) == (TYPE + "access_token", "Bearer")
    assert 110 <= answer.json["expires_in"] <= 120, "it ends with the token it was given for"
    claims = jwt.decode(answer.json["access_token"], KEY.secret, ["HS256"], audience="turnstile:default")
    assert (claims["sub"], claims["roles"]) == ("alice", ["etl"])


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"subject_token": ""}, "invalid_request"),
        ({"subject_token": "x"}, "invalid_request"),
        ({"subject_token": OPERATOR}, "invalid_request"),
        ({"subject_token_type": ""}, "invalid_request"),
        ({"subject_token_type": TYPE + "saml2"}, "invalid_request"),
        ({"requested_token_type": TYPE + "refresh_token"}, "invalid_request"),
        ({"actor_token": "x"}, "invalid_request"),
        ({"audience": "other"}, "invalid_target"),
        ({"resource": "https://x"}, "invalid_target"),
        ({"scope": "more"}, "invalid_scope"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
    ],
)
def test_a_wrong_exchange_is_reported(here: Deployment, trusted: Issuer, more: dict[str, str], error: str) -> None:
    refused(here.ask_token(exchange(trusted.token()) | more, UNITY), 400, error)


def test_i12_neither_a_bad_token_nor_one_of_ours_is_exchanged(
    here: Deployment, trusted: Issuer, client: dict[str, Any]
) -> None:
    """Ours would otherwise last for ever, a new one for each that ends."""
    bad = (
        trusted.token(aud="other"),
        trusted.token(exp=int(time.time()) - 61),
        trusted.token(sub="operator"),
        here.access_token(client),
    )
    for subject in bad:
        assert "subject_token" in refused(here.ask_token(exchange(subject)), 400, "invalid_request")
    within_the_leeway = trusted.token(exp=int(time.time()) - 30)
    assert "expired" in refused(here.ask_token(exchange(within_the_leeway)), 400, "invalid_request")


def test_without_an_issuer_nothing_is_exchanged() -> None:
    refused(Deployment().ask_token(exchange("a.b.c")), 400, "unsupported_grant_type")


def test_while_the_issuer_is_away_the_exchange_is_put_off_not_refused() -> None:
    with issuer() as away:
        away.down = True
        answer = Deployment(away.url).ask_token(exchange(away.token()))
    refused(answer, 503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "5"
