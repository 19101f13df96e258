"""Secrets in a store of secrets: when they are read, and which one counts while they cannot be read
(I12)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.support.fakes.storage import FakeClock
from tests.support.fakes.world import fake_world
from turnstile.adapters import clients, secret
from turnstile.adapters.secret import AGAIN_MS, FRESH_MS, USABLE_MS, Secret
from turnstile.api.auth.bearer import FromSecret, authentication
from turnstile.api.auth.settings import Accepted
from turnstile.api.auth.verifier import AuthenticationUnavailable
from turnstile.api.http.env import BadSetting
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import NotAuthenticated, StorageFault

KEYS = "k:" + "a" * 43
_number = count()


class Store:
    """A store of secrets: ``text`` is its secret, or the exception that it raises; ``reads``
    counts."""

    def __init__(self, **members: str) -> None:
        self.text: str | Exception = json.dumps(members)
        self.reads = 0

    def read(self) -> str:
        self.reads += 1
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    def put(self, **members: str) -> None:
        self.text = json.dumps(members)


def kept(store: Store) -> tuple[Secret, Callable[[int], None]]:
    """The secret in the store, and a way to move its clock."""
    clock = FakeClock(step_ms=0)

    def pass_ms(ms: int) -> None:
        clock.now += ms

    return Secret(store.read, clock, ("token", "token_keys")), pass_ms


def test_a_secret_is_read_once_and_again_when_it_is_no_longer_fresh() -> None:
    store = Store(token="a")
    held, pass_ms = kept(store)
    first = held.members()
    assert first == {"token": "a"}
    pass_ms(FRESH_MS - 1)
    assert held.members() is first
    assert store.reads == 1
    pass_ms(1)
    assert held.members() is first, "nothing has changed, so nobody need do anything"
    assert store.reads == 2
    store.put(token="b")
    pass_ms(FRESH_MS)
    assert held.members() == {"token": "b"}


@pytest.mark.parametrize(
    "text", [OSError("no answer"), "no JSON", "[]", '{"token": 1}', '{"tokn": "b"}', '{"token": "b", "more": ""}', ""]
)
def test_a_value_that_cannot_be_used_changes_nothing_for_an_hour(text: str | Exception) -> None:
    store = Store(token="a")
    held, pass_ms = kept(store)
    held.members()
    store.text = text
    pass_ms(USABLE_MS - 1)
    assert held.members() == {"token": "a"}
    pass_ms(AGAIN_MS)
    with pytest.raises(StorageFault, match="token, token_keys") as caught:
        held.members()
    assert "tokn" not in caught.value.message
    store.put(token="c")
    pass_ms(AGAIN_MS)
    assert held.members() == {"token": "c"}


def test_it_is_not_read_more_often_than_every_ten_seconds_however_often_that_is_asked_for() -> None:
    store = Store(token="a")
    held, pass_ms = kept(store)
    held.members()
    for _ in range(5):
        held.renew()
    assert store.reads == 1
    pass_ms(AGAIN_MS)
    held.renew()
    held.renew()
    assert store.reads == 2


def test_a_clock_that_went_back_does_not_keep_it_from_being_read() -> None:
    store = Store(token="a")
    held, pass_ms = kept(store)
    held.members()
    store.put(token="b")
    pass_ms(-10 * FRESH_MS)
    assert held.members() == {"token": "b"}


# -- authentication ----------------------------------------------------------------------------------------------------


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The store of the secret that the environment names; ``pass_ms`` moves the clock."""
    made = Store(token="first", token_keys=KEYS)
    held, made.pass_ms = kept(made)  # type: ignore[attr-defined]
    monkeypatch.setattr(secret, "deployed_secret", lambda named=secret.TOKENS: held if named == secret.TOKENS else None)
    for name in ("TURNSTILE_TOKEN", "TURNSTILE_TOKEN_KEYS", "TURNSTILE_TOKENS", "TURNSTILE_OIDC_ISSUER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TURNSTILE_AUTHENTICATION", raising=False)
    return made


def refused(by: FromSecret, token: str) -> bool:
    try:
        return by.principal(f"Bearer {token}", {}) is not OPERATOR
    except NotAuthenticated:
        return True


def test_i12_a_new_token_counts_at_once_and_the_old_one_no_more(store: Any) -> None:
    by = authentication()
    assert isinstance(by, FromSecret)
    assert by.principal("Bearer first", {}) is OPERATOR
    store.put(token="second", token_keys=KEYS)
    store.pass_ms(AGAIN_MS)
    assert by.principal("Bearer second", {}) is OPERATOR, "the token was unknown, so the secret was read"
    assert refused(by, "first")


def test_i12_a_token_that_was_taken_out_ends_after_five_minutes_though_no_other_is_used(store: Any) -> None:
    by = authentication()
    assert isinstance(by, FromSecret)
    store.put(token="second", token_keys=KEYS)
    store.pass_ms(FRESH_MS - 1)
    assert not refused(by, "first")
    store.pass_ms(1)
    assert refused(by, "first")


def test_i12_a_secret_that_would_lock_all_principals_out_leaves_what_was_there(store: Any) -> None:
    by = authentication()
    assert isinstance(by, FromSecret)
    for members in ({}, {"token_keys": KEYS}, {"token": "second", "token_keys": "short"}):
        store.put(**members)
        store.pass_ms(FRESH_MS)
        assert not refused(by, "first"), members
    assert refused(by, "second")


def test_i12_wrong_tokens_cost_one_read_in_ten_seconds(store: Any) -> None:
    by = authentication()
    assert isinstance(by, FromSecret)
    store.pass_ms(AGAIN_MS)
    before = store.reads
    assert all(refused(by, f"wrong{number}") for number in range(20))
    assert store.reads == before + 1


def test_i12_no_request_is_let_in_when_the_secret_was_not_readable_for_an_hour(store: Any) -> None:
    by = authentication()
    assert isinstance(by, FromSecret)
    store.text = OSError("no answer")
    store.pass_ms(USABLE_MS)
    with pytest.raises(AuthenticationUnavailable):
        by.principal("Bearer first", {})


def test_i12_a_deployment_does_not_start_with_a_secret_that_it_cannot_read(store: Any) -> None:
    store.text = OSError("no answer")
    with pytest.raises(StorageFault):
        Accepted()
    store.put()
    store.pass_ms(AGAIN_MS)
    with pytest.raises(BadSetting, match="no caller could authenticate"):
        Accepted()


def test_the_keys_that_sign_follow_the_secret(store: Any) -> None:
    from turnstile.api.services import Services
    from turnstile.api.settings import Settings

    services = Services(fake_world(), Settings(auth=Accepted()))
    first = services.signed_tokens
    assert services.signed_tokens is first
    store.put(token="first", token_keys=f"n:{'b' * 43},{KEYS}")
    store.pass_ms(FRESH_MS)
    assert services.signed_tokens is not first


# -- where secrets are -------------------------------------------------------------------------------------------------


def test_the_secret_of_the_lake_and_that_of_tokens_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    number = next(_number)
    values = {
        f"arn:aws:ssm:r:1:parameter/t/{number}": json.dumps({"token": "t"}),
        f"arn:aws:secretsmanager:r:1:secret:l{number}": json.dumps({"s3_access_key_id": "id"}),
    }
    monkeypatch.setattr("turnstile.adapters.secret.read_secret", values.__getitem__)
    tokens, lake = values
    monkeypatch.setenv("TURNSTILE_TOKEN", "of the environment")
    monkeypatch.setenv("TURNSTILE_S3_ACCESS_KEY_ID", "of the environment")
    assert (secret.text("TURNSTILE_TOKEN"), secret.text("TURNSTILE_S3_ACCESS_KEY_ID")) == ("of the environment",) * 2
    monkeypatch.setenv("TURNSTILE_SECRET", tokens)
    monkeypatch.setenv("TURNSTILE_LAKE_SECRET", lake)
    assert (secret.text("TURNSTILE_TOKEN"), secret.text("TURNSTILE_S3_ACCESS_KEY_ID")) == ("t", "id")
    assert secret.text("TURNSTILE_TOKEN_KEYS") == secret.text("TURNSTILE_S3_SESSION_TOKEN") == ""


def test_a_secret_is_read_from_the_service_that_its_arn_names(monkeypatch: pytest.MonkeyPatch) -> None:

    class Client:
        def __init__(self, service: str) -> None:
            self.service = service

        def get_parameter(self, **given: Any) -> Any:
            assert self.service == "ssm" and given.pop("WithDecryption")
            return {"Parameter": {"Value": given["Name"]}}

        def get_secret_value(self, **given: Any) -> Any:
            assert (self.service, given) == ("secretsmanager", {"SecretId": "arn:aws:secretsmanager:r:1:secret:s"})
            return {"SecretString": "s"}

    monkeypatch.setattr(clients, "make_client", lambda service, _endpoint, **_: Client(service))
    monkeypatch.setenv("TURNSTILE_ACCOUNT", "1")
    assert clients.read_secret("arn:aws:ssm:r:1:parameter/turnstile/secret") == "/turnstile/secret"
    other = "arn:aws:ssm:r:2:parameter/turnstile/secret"
    assert clients.read_secret(other) == other, "a parameter of this name is another one here"
    monkeypatch.delenv("TURNSTILE_ACCOUNT")
    assert clients.read_secret(other) == other
    assert clients.read_secret("arn:aws:secretsmanager:r:1:secret:s") == "s"
