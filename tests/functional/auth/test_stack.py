"""Authentication on the deployed template: the gateway's authorizer, an issuer over HTTP, roles
held to (I12)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.auth.deployment import Issuer, issuer
from tests.support.auth.issuer import AUDIENCE
from turnstile.api.auth.signed import LEEWAY_S
from turnstile.api.auth.verifier import fingerprint
from turnstile_local import Stack
from turnstile_local.errors import StackError

pytestmark = [pytest.mark.stack, pytest.mark.slow]
DELTA = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/default/tables/none"


@pytest.fixture(scope="module")
def trusted() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(trusted: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    parameters = {"OidcIssuer": trusted.url, "OidcAudience": AUDIENCE, "AdminRoles": "ops"}
    parameters |= {"Console": "true", "ConsoleClientId": "console"}
    home = tmp_path_factory.mktemp("guarded")
    with Stack.start(home, port=0, token="s3cret", parameters=parameters, roles=True) as running:
        yield running


@pytest.fixture(scope="module")
def api(guarded: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.url, timeout=60, trust_env=False) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def verdicts(stack: Stack) -> list[str]:
    log = stack.log.with_name("functions.log").read_text().splitlines()
    return [line for line in log if line.startswith("AuthorizerFunction") and '"message"' in line]


def access_token(api: httpx.Client, **client: Any) -> str:
    """Of a new client, asked for as Spark's connector does."""
    made = api.post("/v1/clients", json={"name": "etl", **client}, headers=bearer("s3cret"))
    assert made.status_code == 201, made.text
    shown = (made.json()["client_id"], made.json()["client_secret"])
    answer = api.post("/oauth/token", data={"grant_type": "client_credentials", "scope": "all-apis"}, auth=shown)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), answer.text
    return str(answer.json()["access_token"])


def test_every_kind_of_token_opens_every_function(api: httpx.Client, trusted: Issuer) -> None:
    own = access_token(api, admin=True)
    for token in ("s3cret", own, trusted.token(groups=["ops"])):
        for path, status in (("/v1", 200), ("/v1/catalogs", 200), ("/v1/clients", 200), (DELTA, 404)):
            answer = api.get(path, headers=bearer(token))
            assert answer.status_code == status, (path, answer.text)
    assert api.get("/v1/clients", headers=bearer(trusted.token())).status_code == 403
    assert api.get("/v1/clients", headers=bearer(access_token(api))).status_code == 403


def test_i12_a_refusal_has_the_shape_of_the_api(api: httpx.Client, trusted: Issuer) -> None:
    for token in ("wrong", "a.b.c", trusted.token(aud="other"), trusted.token(exp=int(time.time()) - 61)):
        own = api.get("/v1", headers=bearer(token))
        assert (own.status_code, own.json()["error"]["type"]) == (401, "NotAuthenticated")
        assert own.headers["www-authenticate"] == 'Bearer realm="turnstile", error="invalid_token"'
        delta = api.get(DELTA, headers=bearer(token))
        assert (delta.status_code, delta.json()["error"]["type"]) == (401, "NotAuthorizedException")
        older = api.get("/api/2.1/unity-catalog/catalogs", headers=bearer(token))
        assert (older.status_code, older.json()["error_code"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("path", ["/v1", DELTA, "/v1/clients", "/v1/nothing"])
def test_i12_without_a_header_the_gateway_itself_refuses(api: httpx.Client, path: str) -> None:
    for headers in ({}, {"x-principal": "operator"}):
        answer = api.get(path, headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"message": "Unauthorized"})


def test_a_token_is_judged_once_for_many_requests(api: httpx.Client, guarded: Stack, trusted: Issuer) -> None:
    token = trusted.token(groups=["ops"], jti="once")
    before = len(verdicts(guarded))
    asked = len(trusted.asked)
    for _ in range(10):
        assert api.get("/v1", headers=bearer(token)).status_code == 200
        assert api.get("/v1/catalogs", headers=bearer(token)).status_code == 200
    deadline = time.monotonic() + 60
    while len(verdicts(guarded)) == before and time.monotonic() < deadline:
        time.sleep(0.1)  # a log line may come later than its answer
    assert len(verdicts(guarded)) == before + 1
    assert len(trusted.asked) - asked <= 2


def test_i12_a_kept_verdict_does_not_outlive_its_token(api: httpx.Client, trusted: Issuer) -> None:
    for lifetime_s in (3, 15, 60):  # a busy machine may take longer than a token lives
        end_s = int(time.time()) + lifetime_s
        token = trusted.token(groups=["ops"], exp=end_s - LEEWAY_S)
        if api.get("/v1", headers=bearer(token)).status_code == 200:
            break
    else:
        pytest.fail("no token was good when it was issued")
    time.sleep(max(0.0, end_s + 1 - time.time()))
    answer = api.get("/v1", headers=bearer(token))
    assert (answer.status_code, "expired" in answer.text) == (401, True)


def test_an_issuers_token_is_exchanged_at_unitys_path(api: httpx.Client, trusted: Issuer) -> None:
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "subject_token": trusted.token(groups=["ops"]),
    }
    answer = api.post("/api/1.0/unity-control/auth/tokens", data=form)
    assert answer.status_code == 200, answer.text
    assert api.get("/v1/clients", headers=bearer(answer.json()["access_token"])).status_code == 200


def test_an_unknown_key_is_looked_for_but_not_for_every_token(api: httpx.Client, trusted: Issuer) -> None:
    api.get("/v1", headers=bearer(trusted.token(groups=["ops"])))
    asked = len(trusted.asked)
    told = {
        api.get("/v1", headers=bearer(trusted.token(key="ec", alg="ES256", jti=str(number)))).status_code
        for number in range(10)
    }
    assert told <= {401, 503}, "503: the issuer may have made the key since it was asked"
    processes = 4  # of the authorizer and the function, each with a memory of its own
    assert len(trusted.asked) - asked <= 2 * processes


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"Authentication": "required"}, "Nobody could authenticate"),
        ({"OidcIssuer": "https://issuer.test"}, "OidcAudience"),
    ],
)
def test_i12_a_stack_that_is_open_by_mistake_is_refused(tmp_path: Path, parameters: dict[str, str], why: str) -> None:
    with pytest.raises(StackError, match=why):
        Stack.start(tmp_path, port=0, parameters=parameters)


def test_a_stack_may_know_static_tokens_by_their_hashes_only(tmp_path: Path) -> None:
    known = {
        fingerprint("4dmin"): {"name": "root", "admin": True},
        fingerprint("r34der"): {"name": "reader", "roles": ["analysts"]},
    }
    parameters = {"StaticTokens": json.dumps(known)}
    with Stack.start(tmp_path, port=0, parameters=parameters) as running:
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as api:
            assert api.get("/v1").status_code == 401
            assert api.get("/v1", headers=bearer("r34der")).status_code == 200
            assert api.post("/v1/catalogs", json={"name": "a"}, headers=bearer("r34der")).status_code == 403
            assert api.post("/v1/catalogs", json={"name": "a"}, headers=bearer("4dmin")).status_code == 201
        kept = json.loads((tmp_path / "stack.json").read_text())["keys"]
        assert kept.startswith("local:")
    with Stack.start(tmp_path, port=0, parameters=parameters) as running:
        assert json.loads((tmp_path / "stack.json").read_text())["keys"] == kept, "tokens outlive a restart"


def test_i12_the_console_is_handed_out_without_a_token_and_nothing_else_is(guarded: Stack, trusted: Issuer) -> None:
    with httpx.Client(base_url=guarded.url) as stranger:
        page = stranger.get("/ui/browse")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert f"connect-src 'self' {trusted.url};" in page.headers["content-security-policy"]
        script = stranger.get(re.findall(r'src="(/ui/assets/[^"]+)"', page.text)[0])
        assert (script.status_code, script.headers["content-encoding"]) == (200, "gzip")
        told = stranger.get("/ui/settings.json").json()
        assert (told["authentication"], told["issuer"], told["client_id"]) == ("required", trusted.url, "console")
        assert stranger.get("/v1").status_code == 401
        assert stranger.get("/v1/tables").status_code == 401


def test_another_secret_counts_without_a_deployment(guarded: Stack, api: httpx.Client) -> None:
    """The new token at once, for it is unknown and the secret is read for it; both are in the
    emulated Parameter Store."""
    held = guarded.aws("ssm").get_parameter(Name="/turnstile/secret", WithDecryption=True)["Parameter"]["Value"]
    later = json.dumps({**json.loads(held), "token": "n3w"})
    assert api.get("/v1/catalogs", headers=bearer("n3w")).status_code == 401
    guarded.aws("ssm").put_parameter(Name="/turnstile/secret", Type="SecureString", Overwrite=True, Value=later)
    try:
        end = time.monotonic() + 60
        while api.get("/v1/catalogs", headers=bearer("n3w")).status_code != 200:
            assert time.monotonic() < end, "the functions do not read the secret again"
            time.sleep(0.5)
    finally:
        guarded.aws("ssm").put_parameter(Name="/turnstile/secret", Type="SecureString", Overwrite=True, Value=held)
    variables = guarded.aws("lambda").list_functions()["Functions"]
    assert variables
    assert all("s3cret" not in json.dumps(each["Environment"]) for each in variables)
