"""Signed tokens (I12): what is accepted, and every way in which one is not."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auth.issuer import AUDIENCE, ISSUER, KEY, Issuer, claims, jwk, pem, private, raw, token, verifier
from turnstile.api.auth.settings import SigningKey
from turnstile.api.auth.signed import LEEWAY_S, OwnTokens
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import NotAuthenticated


class FromNow(int):
    """A time, in seconds from when the test runs; tests are collected long before."""


def resolved(said: dict[str, Any]) -> dict[str, Any]:
    now = int(time.time())
    return {name: now + value if isinstance(value, FromNow) else value for name, value in said.items()}


def refusal(sent: str, **options: Any) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        verifier(**options).verify(sent)
    return caught.value.message


@pytest.mark.parametrize(
    ("key", "alg"),
    [("rsa", "RS256"), ("rsa", "RS512"), ("rsa", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")],
)
def test_a_token_of_the_issuer_is_its_subject_with_its_groups(key: str, alg: str) -> None:
    end_s = int(time.time()) + 300
    found = verifier(Issuer(jwk(key, alg=None))).verify(token(claims(exp=end_s), key=key, alg=alg))
    assert found.principal == Principal("alice", frozenset({"etl"}))
    assert found.expires_s == end_s + LEEWAY_S


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"aud": "other"}, "aud"),
        ({"aud": ["other", "another"]}, "aud"),
        ({"aud": None}, "no claim 'aud'"),
        ({"iss": "https://evil.test"}, "iss"),
        ({"iss": ISSUER + "/"}, "iss"),
        ({"iss": None}, "no claim 'iss'"),
        ({"exp": FromNow(-61)}, "expired"),
        ({"exp": None}, "no claim 'exp'"),
        ({"exp": "soon"}, "malformed"),
        ({"exp": 1e400}, "malformed"),
        ({"exp": [1]}, "malformed"),
        ({"nbf": FromNow(120)}, "not valid yet"),
        ({"nbf": "x"}, "malformed"),
        ({"iat": FromNow(120)}, "not valid yet"),
        ({"sub": None}, "not a name"),
        ({"sub": ""}, "not a name"),
        ({"sub": " alice"}, "not a name"),
        ({"sub": "a\nb"}, "not a name"),
        ({"sub": "a" * 256}, "not a name"),
        ({"sub": 7}, "malformed"),
        ({"sub": "operator"}, "cannot give"),
        ({"sub": "anonymous"}, "cannot give"),
        ({"sub": "client-00000000-0000-4000-8000-000000000001"}, "cannot give"),
        ({"groups": [f"g{number}" for number in range(501)]}, "more than 500"),
    ],
)
def test_i12_a_token_with_a_wrong_claim_is_refused_with_the_reason(said: dict[str, Any], why: str) -> None:
    assert why in refusal(token(claims(**resolved(said))))


@pytest.mark.parametrize(
    "said", [{"aud": ["other", AUDIENCE]}, {"exp": FromNow(-30)}, {"nbf": FromNow(30)}, {"iat": FromNow(30)}]
)
def test_one_of_several_audiences_and_a_clock_a_little_off_are_fine(said: dict[str, Any]) -> None:
    assert verifier().verify(token(claims(**resolved(said)))).principal.name == "alice"


def test_i12_a_token_without_a_signature_is_refused_however_it_says_so() -> None:
    signed = token()
    for alg in ("none", "None", "NONE", "", None, 5, ["RS256"], {"a": 1}):
        assert "algorithm" in refusal(raw({"alg": alg, "kid": "rsa"}, claims()))
    header, payload, _ = signed.split(".")
    assert refusal(f"{header}.{payload}.")
    assert "signature" in refusal(f"{header}.{payload}.{'A' * 342}")


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
def test_i12_a_public_key_is_no_secret(alg: str) -> None:
    """HMAC confusion: signed with what everybody can read, in the name of the issuer and in
    ours."""
    import hashlib
    import hmac

    for kid in ("rsa", KEY.id):
        for issuer in (ISSUER, "turnstile:test"):
            unsigned = raw({"alg": alg, "kid": kid}, claims(iss=issuer)).rpartition(".")[0]
            digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[alg]
            made = hmac.new(pem("rsa"), unsigned.encode(), digest).digest()
            forged = unsigned + "." + jwt.utils.base64url_encode(made).decode()
            assert refusal(forged)
            assert refusal(forged, own=())


def test_i12_another_keys_signature_does_not_count_under_a_known_kid() -> None:
    assert "signature" in refusal(token(key="rsa-other", kid="rsa"))


def test_i12_a_tampered_payload_is_refused() -> None:
    header, _, signature = token().split(".")
    forged = raw({}, claims(sub="root")).split(".")[1]
    assert "signature" in refusal(f"{header}.{forged}.{signature}")


def test_i12_a_token_of_one_realm_is_none_in_another() -> None:
    foreign = OwnTokens((KEY,), "other", 900).issue(Principal("client-1")).token
    assert "iss" in refusal(foreign)


def test_own_tokens_carry_the_principal_and_end() -> None:
    who = Principal("client-1", frozenset({"a", "b"}), admin=True)
    issued = OwnTokens((KEY,), "test", 900).issue(who)
    assert issued.lifetime_s == 900
    assert verifier().verify(issued.token).principal == who
    past = OwnTokens((KEY,), "test", 900, now=lambda: time.time() - 1000).issue(who).token
    assert "expired" in refusal(past)


def test_an_own_token_ends_with_what_it_was_given_for() -> None:
    own = OwnTokens((KEY,), "test", 900, now=lambda: 1000.0)
    assert own.issue(Principal("a"), until_s=1100).lifetime_s == 100
    assert own.issue(Principal("a"), until_s=5000).lifetime_s == 900
    assert own.issue(Principal("a"), until_s=900).lifetime_s == -100


def test_a_signing_key_is_replaced_without_a_gap() -> None:
    old = SigningKey("old", "O" * 43)
    new = SigningKey("new", "N" * 43)
    before = OwnTokens((old,), "test", 900).issue(Principal("client-1")).token
    assert verifier(own=(new, old)).verify(before).principal.name == "client-1"
    assert jwt.get_unverified_header(OwnTokens((new, old), "test", 900).issue(Principal("a")).token)["kid"] == "new"
    assert "kid" in refusal(before, own=(new,))


@pytest.mark.parametrize("missing", ["sub", "roles", "admin", "exp", "iss", "aud"])
def test_i12_what_our_key_signed_is_not_yet_an_access_token(missing: str) -> None:
    said = {
        "iss": "turnstile:test",
        "aud": "turnstile:test",
        "sub": "a",
        "roles": [],
        "admin": True,
        "exp": int(time.time()) + 99,
    }
    del said[missing]
    assert refusal(jwt.encode(said, KEY.secret, "HS256", {"kid": KEY.id}))


def test_i12_each_kind_of_token_is_refused_where_it_is_not_accepted() -> None:
    from turnstile.api.auth.signed import SignedTokens

    nothing = SignedTokens(None, None)
    for sent in (token(), OwnTokens((KEY,), "test", 900).issue(Principal("a")).token):
        with pytest.raises(NotAuthenticated, match="accepts no such tokens"):
            nothing.verify(sent)
    with pytest.raises(NotAuthenticated, match="algorithm"):
        verifier().verify_issuers(OwnTokens((KEY,), "test", 900).issue(Principal("a")).token)


@pytest.mark.parametrize(
    ("said", "settings", "name", "roles"),
    [
        ({"user": {"email": "a@x.test", "email_verified": True}}, {"name": "user.email"}, "a@x.test", {"etl"}),
        ({"email": "a@x.test", "email_verified": True}, {"name": "email"}, "a@x.test", {"etl"}),
        ({"roles": "one"}, {"roles": ("roles", "groups")}, "alice", {"one", "etl"}),
        ({"realm_access": {"roles": ["k"]}}, {"roles": ("realm_access.roles",)}, "alice", {"k"}),
        ({"https://x.test/roles": ["u"]}, {"roles": ("https://x.test/roles",)}, "alice", {"u"}),
        ({"groups": [1, "", "ok", None, "operator", "client-1"]}, {}, "alice", {"ok"}),
        ({"groups": None}, {}, "alice", set()),
        ({"groups": {"a": 1}}, {}, "alice", set()),
        ({"realm_access": "x"}, {"roles": ("realm_access.roles",)}, "alice", set()),
    ],
)
def test_name_and_roles_come_from_the_configured_claims(
    said: dict[str, Any], settings: dict[str, Any], name: str, roles: set[str]
) -> None:
    found = verifier(**settings).verify(token(claims(**resolved(said)))).principal
    assert found == Principal(name, frozenset(roles))


@pytest.mark.parametrize(
    "verified",
    [{}, *({"email_verified": value} for value in (False, None, 0, 1, "true", "false", "", [True], {"x": True}))],
    ids=str,
)
def test_i12_an_address_that_the_issuer_does_not_say_it_verified_names_no_principal(verified: dict[str, Any]) -> None:
    said = {"email": "root@x.test", **verified}
    assert "not verified" in refusal(token(claims(**said)), name="email", admins=frozenset({"root@x.test"}))
    inside = claims(user=said, email_verified=True)
    assert "user.email_verified must be true" in refusal(token(inside), name="user.email")


def test_administrators_are_named_by_name_or_by_role() -> None:
    assert verifier(admins=frozenset({"alice"})).verify(token()).principal.admin
    assert verifier(admin_roles=frozenset({"etl"})).verify(token()).principal.admin
    assert not verifier(admins=frozenset({"etl"}), admin_roles=frozenset({"alice"})).verify(token()).principal.admin


def test_i12_a_weak_key_is_not_trusted() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = token(key="rsa-weak")
    assert refusal(weak, issuer=Issuer(jwk("rsa-weak")))


TEXT = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(alphabet=st.characters(codec=None), max_size=200) | st.tuples(TEXT, TEXT, TEXT).map(".".join))
def test_i12_no_text_is_a_token_and_none_is_our_fault(sent: str) -> None:
    assert refusal(sent)


@given(
    st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jku", "jwk", "x5u", "zip"]), JSON),
    st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups"]), JSON),
    st.binary(max_size=40),
)
def test_i12_no_unsigned_header_or_payload_is_accepted(
    header: dict[str, Any], payload: dict[str, Any], signature: bytes
) -> None:
    assert refusal(raw({"alg": "RS256", "kid": "rsa", **header}, payload, signature))
    assert refusal(raw({"alg": "HS256", "kid": KEY.id, **header}, {**claims(), **payload}, signature))


@given(st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups", "jti"]), JSON, min_size=1))
def test_whatever_the_issuer_signs_is_judged_and_never_our_fault(said: dict[str, Any]) -> None:
    try:
        sent = jwt.encode({**claims(), **said}, private("rsa"), "RS256", {"kid": "rsa"})
    except (TypeError, ValueError):
        return  # PyJWT does not even sign it
    try:
        found = verifier().verify(sent)
    except NotAuthenticated:
        return
    assert found.principal.name == {**claims(), **said}["sub"]


def test_i12_nothing_in_a_header_makes_us_fetch_a_key_from_elsewhere() -> None:
    issuer = Issuer(jwk("rsa"))
    sent = token(key="rsa-evil", kid="rsa", jku="https://evil.test/keys", x5u="https://evil.test", jwk=jwk("rsa-evil"))
    assert "signature" in refusal(sent, issuer=issuer)
    assert {url.startswith(ISSUER) for url in issuer.fetched} == {True}
