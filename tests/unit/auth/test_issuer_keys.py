"""The issuer's keys (I12): kept, fetched again with restraint, and never guessed about."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.auth.issuer import ISSUER, Issuer, Ticks, jwk, token, verifier
from tests.support.threads import PATIENCE_S, join
from turnstile.api.auth import jwks
from turnstile.api.auth.jwks import FRESH_S, MAX_BYTES, PAUSE_S, RETRY_S, STALE_S, IssuerKeys, Unreachable, fetch_json
from turnstile.api.auth.verifier import AuthenticationUnavailable
from turnstile.store.core.errors import NotAuthenticated


def keys(issuer: Issuer, ticks: Ticks) -> IssuerKeys:
    return IssuerKeys(ISSUER, fetch=issuer.fetch, now=ticks)


def test_keys_are_fetched_once_for_many_tokens() -> None:
    issuer = Issuer(jwk("rsa"))
    judges = verifier(issuer)
    for _ in range(20):
        judges.verify(token())
    assert issuer.fetched == [ISSUER + "/.well-known/openid-configuration", ISSUER + "/keys"]


def test_a_key_that_the_issuer_adds_is_found_without_a_restart() -> None:
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    found.find("rsa", "RS256")
    issuer.keys = [jwk("rsa-next")]
    ticks.at += PAUSE_S
    assert found.find("rsa-next", "RS256").key_id == "rsa-next"
    with pytest.raises(NotAuthenticated):
        found.find("rsa", "RS256")  # it was withdrawn


def test_a_key_that_the_issuer_adds_during_the_pause_is_asked_for_again_not_refused() -> None:
    """Somebody's unknown key began the pause; whoever has a good token of the next key must not pay
    for it."""
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    with pytest.raises(NotAuthenticated):
        found.find("nobody's", "RS256")
    issuer.keys.append(jwk("rsa-next"))
    ticks.at += 12
    with pytest.raises(AuthenticationUnavailable) as later:
        found.find("rsa-next", "RS256")
    assert later.value.details == {"retry_after_ms": (PAUSE_S - 12) * 1000}
    assert found.find("rsa", "RS256").key_id == "rsa" and issuer.rounds == 1
    ticks.at += PAUSE_S - 12
    assert found.find("rsa-next", "RS256").key_id == "rsa-next"
    with pytest.raises(NotAuthenticated):
        found.find("nobody's", "RS256")


def test_i12_a_key_that_the_issuer_withdraws_stops_counting_soon() -> None:
    issuer = Issuer(jwk("rsa"), jwk("rsa-next"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    found.find("rsa", "RS256")
    issuer.keys = [jwk("rsa-next")]
    ticks.at += FRESH_S
    with pytest.raises(NotAuthenticated):
        found.find("rsa", "RS256")


@given(st.lists(st.tuples(st.floats(0, 40), st.sampled_from(["rsa", "bad1", "bad2", None])), max_size=60))
def test_i12_strangers_cannot_make_us_flood_the_issuer(steps: list[tuple[float, str | None]]) -> None:
    issuer = Issuer(jwk("rsa"), jwk("rsa-two"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    start = ticks.at
    for pause, kid in steps:
        ticks.at += pause
        try:
            assert found.find(kid, "RS256").key_id == "rsa"
        except (NotAuthenticated, AuthenticationUnavailable):
            assert kid != "rsa"
        assert issuer.rounds <= 1 + (ticks.at - start) / PAUSE_S


@given(st.lists(st.tuples(st.floats(0, 900), st.booleans(), st.sampled_from(["rsa", "bad"])), max_size=40))
def test_i12_an_issuer_that_comes_and_goes_makes_no_wrong_answer(steps: list[tuple[float, bool, str]]) -> None:
    """A known key is accepted while it is not too old, an unknown one never; refused only by the
    issuer's word."""
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    last = None
    for pause, down, kid in steps:
        ticks.at += pause
        issuer.down = down
        before = issuer.rounds
        try:
            found.find(kid, "RS256")
            assert kid == "rsa"
        except NotAuthenticated:
            assert kid == "bad"
        except AuthenticationUnavailable as error:
            assert 0 < error.details["retry_after_ms"] <= PAUSE_S * 1000  # noqa: PT017 - one of three endings
            assert kid == "bad" or last is None or ticks.at - last >= STALE_S
        if issuer.rounds > before and not down:
            last = ticks.at


def test_while_the_issuer_is_away_nothing_is_refused_that_might_be_good() -> None:
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    issuer.down = True
    found = keys(issuer, ticks)
    for _ in range(10):
        with pytest.raises(AuthenticationUnavailable):
            found.find("rsa", "RS256")
    assert issuer.rounds == 1
    issuer.down = False
    ticks.at += RETRY_S
    assert found.find("rsa", "RS256").key_id == "rsa"


def test_old_keys_count_while_the_issuer_is_away_but_not_for_ever() -> None:
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    found = keys(issuer, ticks)
    found.find("rsa", "RS256")
    issuer.down = True
    ticks.at += STALE_S - 1
    assert found.find("rsa", "RS256").key_id == "rsa"
    ticks.at += RETRY_S
    with pytest.raises(AuthenticationUnavailable):
        found.find("rsa", "RS256")


def test_a_request_with_a_known_key_does_not_wait_for_another_ones_fetch() -> None:
    issuer = Issuer(jwk("rsa"))
    ticks = Ticks()
    reached = threading.Event()
    go = threading.Event()

    def slow(url: str) -> Mapping[str, Any]:
        if issuer.rounds:
            reached.set()
            assert go.wait(PATIENCE_S)
        return issuer.fetch(url)

    found = IssuerKeys(ISSUER, fetch=slow, now=ticks)
    issuer.fetched.clear()
    found._fetch = issuer.fetch
    found.find("rsa", "RS256")
    found._fetch = slow
    ticks.at += FRESH_S
    other = threading.Thread(target=found.find, args=("rsa", "RS256"))
    other.start()
    assert reached.wait(PATIENCE_S)
    assert found.find("rsa", "RS256").key_id == "rsa"  # while the other one waits for the issuer
    go.set()
    join(other)


@pytest.mark.parametrize(
    "more",
    [
        {"kty": "oct", "k": "c2VjcmV0"},
        {"use": "enc"},
        {"alg": "RS512"},
        {"key_ops": ["encrypt"]},
        {"key_ops": 5},
        {"n": "!"},
        {"n": None},
    ],
)
def test_i12_a_key_for_another_purpose_verifies_nothing(more: dict[str, Any]) -> None:
    with pytest.raises(NotAuthenticated):
        verifier(Issuer(jwk("rsa", **more))).verify(token())


def test_i12_a_key_of_another_kind_is_not_used_though_its_name_fits() -> None:
    with pytest.raises(NotAuthenticated):
        verifier(Issuer(jwk("ec", kid="rsa"))).verify(token())


def test_of_two_keys_of_one_name_the_fitting_one_is_used() -> None:
    both = Issuer(jwk("ec", kid="rsa"), jwk("rsa"))
    assert verifier(both).verify(token()).principal.name == "alice"


def test_without_a_kid_the_only_key_of_the_kind_is_meant() -> None:
    assert verifier(Issuer(jwk("rsa"), jwk("ec"))).verify(token(kid=None)).principal.name == "alice"
    with pytest.raises(NotAuthenticated):
        verifier(Issuer(jwk("rsa"), jwk("rsa-two"))).verify(token(kid=None))


@pytest.mark.parametrize("set_", [None, "x", {"a": 1}, 5])
def test_a_key_set_that_is_none_says_nothing_about_a_token(set_: object) -> None:
    issuer = Issuer()
    issuer.keys = set_
    with pytest.raises(AuthenticationUnavailable):
        keys(issuer, Ticks()).find("rsa", "RS256")


def test_members_of_a_key_set_that_are_no_keys_are_passed_over() -> None:
    issuer = Issuer(jwk("rsa"))
    issuer.keys += [None, "x", {}, {"kid": "rsa"}]
    assert keys(issuer, Ticks()).find("rsa", "RS256").key_id == "rsa"


def test_i12_a_discovery_document_in_another_issuers_name_is_not_followed() -> None:
    issuer = Issuer(jwk("rsa"), name="https://evil.test")
    with pytest.raises(AuthenticationUnavailable):
        keys(issuer, Ticks()).find("rsa", "RS256")
    assert len(issuer.fetched) == 1


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:9001/2018-06-01/runtime", "http://issuer.test", "file:///etc", None, 5]
)
def test_i12_a_key_set_is_not_looked_for_in_less_safe_a_place_than_its_issuer(place: object) -> None:
    asked: list[str] = []

    def fetch(url: str) -> Mapping[str, Any]:
        asked.append(url)
        return {"issuer": ISSUER, "jwks_uri": place}

    with pytest.raises(AuthenticationUnavailable):
        IssuerKeys(ISSUER, fetch=fetch, now=Ticks()).find("rsa", "RS256")
    assert len(asked) == 1


def test_symmetric_algorithms_and_none_are_not_among_those_accepted() -> None:
    assert set(jwks.ALGORITHMS.values()) == {"RSA", "EC", "OKP"}


# -- over HTTP -------------------------------------------------------------------------------------------------------


@contextmanager
def site(status: int, body: bytes, **headers: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/x"
    finally:
        server.shutdown()
        server.server_close()


def test_a_document_is_fetched_over_http() -> None:
    with site(200, b'{"a": 1}') as url:
        assert fetch_json(url) == {"a": 1}


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (404, b"{}", {}),
        (500, b"{}", {}),
        (200, b"[]", {}),
        (200, b"{", {}),
        (200, b"\xff\xfe", {}),
        (200, b"[" * 100_000, {}),
        (200, b'{"keys": "' + b"x" * MAX_BYTES + b'"}', {}),
        (200, b'{"keys": []}' + b" " * MAX_BYTES, {}),
    ],
)
def test_what_is_no_document_of_the_issuers_is_unreachable(status: int, body: bytes, headers: dict[str, str]) -> None:
    with site(status, body, **headers) as url, pytest.raises(Unreachable):
        fetch_json(url)


@pytest.mark.slow
def test_i12_a_redirect_is_not_followed_wherever_it_leads() -> None:
    with site(200, b'{"keys": []}') as elsewhere:
        assert fetch_json(elsewhere) == {"keys": []}
        for status in (301, 302, 303, 307, 308):
            with site(status, b"", location=elsewhere) as url, pytest.raises(Unreachable):
                fetch_json(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.test/keys",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "",
        "None",
        "https://",
        "http://[",
        "data:,{}",
    ],
)
def test_i12_only_https_is_trusted(url: str) -> None:
    with pytest.raises(Unreachable, match="https"):
        fetch_json(url)


def test_a_missing_server_is_unreachable() -> None:
    with site(200, b"{}") as url:
        pass
    with pytest.raises(Unreachable):
        fetch_json(url)
