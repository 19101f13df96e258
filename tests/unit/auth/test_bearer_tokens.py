"""A request's bearer token, the authorizer's verdict, and settings that a deployment may leave out
(I12)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auth.issuer import KEY, Issuer, jwk, token, verifier
from tests.support.repository import ROOT
from turnstile.api.auth.bearer import MAX_TOKEN, Bearer, Open, StaticTokens, authentication
from turnstile.api.auth.settings import AuthSettings, read
from turnstile.api.auth.signed import OwnTokens
from turnstile.api.auth.verifier import VerifiedToken, Verifier, fingerprint, from_context, to_context
from turnstile.api.http.env import BadSetting
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import NotAuthenticated

READER = Principal("reader", frozenset({"analysts"}))
STATIC = StaticTokens({fingerprint("s3cret"): OPERATOR, fingerprint("r34der"): READER})


def bearer() -> Bearer:
    return Bearer(STATIC, verifier)


def context(judged: VerifiedToken) -> dict[str, Any]:
    return {"authorizer": {"lambda": to_context(judged)}}


# -- the header ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["Bearer s3cret", "bearer s3cret", "BEARER   s3cret ", " Bearer s3cret"])
def test_a_static_token_is_its_principal(header: str) -> None:
    assert bearer().principal(header, {}) is OPERATOR
    assert bearer().principal("Bearer r34der", {}) == READER


@pytest.mark.parametrize(
    "header",
    [
        "", " ", "Bearer", "Bearer ", "s3cret", "Basic s3cret", "Basic czNjcmV0", "Bearer s3cre", "Bearer s3cret2",
        "Bearer S3CRET", "Bearer s3cret s3cret", "Bearer, s3cret", "Bearer s3cret,Bearer s3cret", "Bearer\ts3cret",
        "Bearer \x00", "Bearer é", "Bearer \ud800", "Bearer a.b.c", "Bearer ..", "Bearer .s3cret.", "Negotiate x",
        "Bearer " + "a" * MAX_TOKEN + "a", "Bearer " + ("a" * 3000 + ".") * 2 + "b",
    ],
)  # fmt: skip
def test_i12_no_other_header_names_a_principal(header: str) -> None:
    with pytest.raises(NotAuthenticated) as caught:
        bearer().principal(header, {})
    assert caught.value.field == "Authorization"
    assert "s3cret" not in caught.value.message


def test_i12_a_token_must_fit_to_the_last_bit() -> None:
    """Tokens with fingerprints that begin or end as the operator's does."""
    right = fingerprint("s3cret")
    alike = [
        sent
        for sent in map(str, range(20_000))
        if fingerprint(sent)[:3] == right[:3] or fingerprint(sent)[-3:] == right[-3:]
    ]
    assert alike
    assert {STATIC.find(sent) for sent in alike} == {None}


def test_a_token_that_is_too_long_to_be_one_is_not_looked_at() -> None:
    def never() -> Verifier:
        raise AssertionError("it was looked at")

    for sent in ("a" * (MAX_TOKEN + 1), ("a" * MAX_TOKEN) + ".b.c"):
        with pytest.raises(NotAuthenticated, match="longer than 8192"):
            Bearer(STATIC, never).principal(f"Bearer {sent}", {})


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_i12_no_header_is_our_fault(header: str) -> None:
    for sent in (header, f"Bearer {header}"):
        with pytest.raises(NotAuthenticated):
            bearer().principal(sent, {})


def test_signed_tokens_are_refused_where_none_are_accepted() -> None:
    with pytest.raises(NotAuthenticated):
        Bearer(STATIC).principal(f"Bearer {token()}", {})


# -- the verdict -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [READER, OPERATOR, Principal('é"\\,', frozenset({"a,b", '"', "é"}))])
@pytest.mark.parametrize("until", [None, 1_800_000_000])
def test_a_verdict_comes_back_as_it_went(who: Principal, until: int | None) -> None:
    judged = VerifiedToken(who, until)
    encoded = json.loads(json.dumps(to_context(judged)))
    assert all(isinstance(value, str) for value in encoded.values())
    assert from_context({"authorizer": {"lambda": encoded}}) == judged


def test_a_verdict_is_taken_without_another_look_at_the_token() -> None:
    assert bearer().principal("Bearer whatever", context(VerifiedToken(READER, int(time.time()) + 60))) == READER


def test_i12_a_verdict_that_the_gateway_kept_too_long_is_none() -> None:
    over = context(VerifiedToken(READER, int(time.time()) - 1))
    with pytest.raises(NotAuthenticated):
        bearer().principal("Bearer whatever", over)
    assert bearer().principal("Bearer s3cret", over) is OPERATOR


@pytest.mark.parametrize(
    "sent",
    [
        {}, {"authorizer": None}, {"authorizer": {}}, {"authorizer": {"lambda": None}}, {"authorizer": {"lambda": {}}},
        {"authorizer": {"lambda": []}}, {"authorizer": "operator"},
        {"authorizer": {"jwt": {"claims": {"sub": "operator", "name": "operator"}}}},
        {"authorizer": {"iam": {"userId": "operator"}}},
        {"authorizer": to_context(VerifiedToken(OPERATOR))},
        {"lambda": to_context(VerifiedToken(OPERATOR))},
        *({"authorizer": {"lambda": {**to_context(VerifiedToken(OPERATOR)), **change}}} for change in (
            {"name": ""}, {"name": 5}, {"admin": True}, {"admin": "yes"}, {"roles": ["a"]}, {"roles": "a"},
            {"roles": '{"a": 1}'}, {"roles": "[1]"}, {"until": 5}, {"until": "soon"}, {"until": "-1"}, {"until": "²"},
        )),
    ],
)  # fmt: skip
def test_i12_without_a_verdict_the_token_is_judged(sent: Mapping[str, Any]) -> None:
    """Fail closed: a context that is missing or strange is no verdict, and a missing token is no
    principal."""
    with pytest.raises(NotAuthenticated):
        bearer().principal("", sent)
    assert bearer().principal("Bearer s3cret", sent) is OPERATOR


def test_i12_a_verdict_counts_only_where_an_authorizer_is_deployed() -> None:
    with pytest.raises(NotAuthenticated):
        Bearer(STATIC).principal("", context(VerifiedToken(OPERATOR)))


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("AUTHENTICATION", "TOKEN", "TOKENS", "TOKEN_KEYS", "TOKEN_SECONDS", "OIDC_ISSUER", "OIDC_AUDIENCE",
                 "OIDC_NAME_CLAIM", "OIDC_ROLES_CLAIM", "ADMIN_NAMES", "ADMIN_ROLES", "REALM"):  # fmt: skip
        monkeypatch.delenv(f"TURNSTILE_{name}", raising=False)
    return monkeypatch


def put(env: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        env.setenv(f"TURNSTILE_{name}", value)


def test_i12_a_deployment_without_principals_does_not_start(env: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSetting, match="no caller could authenticate"):
        authentication()
    put(env, TOKEN_KEYS="k:" + "a" * 43, ADMIN_NAMES="alice", OIDC_AUDIENCE="x")
    with pytest.raises(BadSetting, match="no caller could authenticate"):
        authentication()


def test_open_requests_are_allowed_only_where_the_deployment_says_so(env: pytest.MonkeyPatch) -> None:
    put(env, AUTHENTICATION="none")
    assert isinstance(authentication(), Open)
    assert authentication().principal("", {}) is OPERATOR


P = fingerprint("x")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"AUTHENTICATION": "off", "TOKEN": "x"}, "required or none"),
        ({"AUTHENTICATION": "none", "TOKEN": "x"}, "but tokens"),
        ({"AUTHENTICATION": "none", "OIDC_ISSUER": "https://i", "OIDC_AUDIENCE": "a"}, "but tokens"),
        ({"OIDC_ISSUER": "https://i"}, "AUDIENCE"),
        ({"OIDC_ISSUER": "https://i", "OIDC_AUDIENCE": " , "}, "AUDIENCE"),
        ({"OIDC_ISSUER": "http://i", "OIDC_AUDIENCE": "a"}, "https"),
        ({"OIDC_ISSUER": "i", "OIDC_AUDIENCE": "a"}, "https"),
        ({"TOKENS": "x"}, "TURNSTILE_TOKENS"),
        ({"TOKENS": '{"x": {"name": "a"}}'}, "SHA-256"),
        ({"TOKENS": json.dumps({P.upper(): {"name": "a"}})}, "SHA-256"),
        ({"TOKENS": json.dumps({P: {"name": ""}})}, "named"),
        ({"TOKENS": json.dumps({P: {"name": "a", "adnim": True}})}, "adnim"),
        ({"TOKENS": json.dumps({P: {}})}, "name"),
        ({"TOKEN": "x", "TOKEN_KEYS": "short:abc"}, "43"),
        ({"TOKEN": "x", "TOKEN_KEYS": "a" * 50}, "43"),
        ({"TOKEN": "x", "TOKEN_KEYS": f"k:{'a' * 43},k:{'b' * 43}"}, "twice"),
        ({"TOKEN": "x", "TOKEN_SECONDS": "30"}, "between"),
    ],
)
def test_i12_a_setting_that_cannot_be_right_stops_the_start(
    env: pytest.MonkeyPatch, values: dict[str, str], match: str
) -> None:
    put(env, **values)
    with pytest.raises(BadSetting, match=match) as caught:
        read()
    assert "aaaa" not in str(caught.value), "a secret was repeated"


def test_settings_are_read_as_they_are_written(env: pytest.MonkeyPatch) -> None:
    put(
        env, REALM="r", TOKEN="s3cret", TOKENS=json.dumps({P: {"name": "ci", "roles": ["a"], "admin": False}}),
        TOKEN_KEYS=f"new:{'a' * 43}, old:{'b' * 43}", OIDC_ISSUER="https://i/", OIDC_AUDIENCE="a, b",
        OIDC_NAME_CLAIM="email", OIDC_ROLES_CLAIM="groups,roles", ADMIN_NAMES="x,y", ADMIN_ROLES="ops",
    )  # fmt: skip
    found = read()
    assert isinstance(found, AuthSettings)
    assert found.tokens == {P: Principal("ci", frozenset({"a"})), fingerprint("s3cret"): OPERATOR}
    assert [key.id for key in found.keys] == ["new", "old"]
    assert "aaa" not in repr(found)
    assert (found.realm, found.lifetime_s) == ("r", 900)
    assert found.oidc is not None
    assert (found.oidc.issuer, found.oidc.audiences, found.oidc.name) == ("https://i/", ("a", "b"), "email")
    assert (found.oidc.roles, found.oidc.admins, found.oidc.admin_roles) == (("groups", "roles"), {"x", "y"}, {"ops"})
    judged = authentication()
    own = OwnTokens(found.keys, "r", 900).issue(READER).token
    assert judged.principal(f"Bearer {own}", {}) == READER


# -- what it costs ---------------------------------------------------------------------------------------------------

PROBE = """
import json, sys
from tests.support.functions import Function, Http
for settings, sent in json.loads(sys.argv[2]):
    app = Function(sys.argv[1], **settings)
    Http(app.app, token=sent).get("/v1/nothing")
    print(json.dumps([name for name in ("jwt", "cryptography", "urllib.request") if name in sys.modules]))
"""
SIGNING = {"TURNSTILE_TOKEN": "s3cret", "TURNSTILE_TOKEN_KEYS": f"{KEY.id}:{KEY.secret}"}


@pytest.mark.parametrize("function", ["commit", "catalog"])
def test_what_signed_tokens_need_is_loaded_when_the_first_one_comes(function: str) -> None:
    without = [({}, ""), ({"TURNSTILE_TOKEN": "s3cret"}, "s3cret"), ({"TURNSTILE_TOKEN": "s3cret"}, "a.b.c"),
               (SIGNING, "s3cret")]  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, function, json.dumps([*without, (SIGNING, "a.b.c")])],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *before, after = map(json.loads, ended.stdout.splitlines()[-len(without) - 1 :])
    assert not any({"jwt", "cryptography"} & set(loaded) for loaded in before)
    assert "jwt" in after


def test_a_token_is_judged_without_a_request_once_the_keys_are_there() -> None:
    issuer = Issuer(jwk("rsa"))
    judged = Bearer(STATIC, lambda: verifier(issuer))
    judged.principal(f"Bearer {token()}", {})
    asked = len(issuer.fetched)
    for _ in range(50):
        judged.principal(f"Bearer {token()}", {})
    assert len(issuer.fetched) == asked == 2
