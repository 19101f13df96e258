"""Which requests a running emulated stack takes, decided from path and headers alone (I12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.local.asgi import GUARD, KEY, SESSION, request, signed
from turnstile_local.guards import Message, Scope, is_api, without_cors

AWS_PATHS = [
    "/",
    "/2015-03-31/functions",
    "/_ministack/reset",
    "/_turnstile/save",
    "/_turnstile/open",
    "/v1x",
    "/lake/a",
]
API_PATHS = ["/v1", "/v1/catalogs", "/api/2.1/unity-catalog/catalogs", "/iceberg/v1/config", "/oauth/token"]


def refused(scope: Scope) -> str:
    refusal = GUARD.refusal(scope)
    return refusal.type if refusal else ""


@pytest.mark.parametrize("host", ["127.0.0.1:8750", "localhost:8750", "LOCALHOST:9", "127.0.0.1"])
@pytest.mark.parametrize("path", API_PATHS)
def test_i12_a_program_on_this_machine_reaches_the_api(path: str, host: str) -> None:
    assert refused(request(path, host=host)) == ""


@pytest.mark.parametrize(
    "host",
    ["evil.example:8750", "127.0.0.1.evil.example:8750", "localhost.evil.example", "", "0.0.0.0:8750", "[::1]:8750"],
)
@pytest.mark.parametrize("path", [*API_PATHS, *AWS_PATHS, "/_turnstile/health"])
def test_i12_a_name_that_was_made_to_lead_here_is_refused_on_every_path(path: str, host: str) -> None:
    assert refused(request(path, host=host, authorization=signed(KEY))) == "ForeignHost"


@pytest.mark.parametrize("path", ["/v1", "/2015-03-31/functions"])
def test_i12_a_request_without_a_host_or_with_two_is_refused(path: str) -> None:
    scope = request(path, authorization=signed(KEY))
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"host"]
    assert refused(scope) == "ForeignHost"
    scope["headers"] += [(b"host", b"localhost"), (b"host", b"evil.example")]
    assert refused(scope) == "ForeignHost"


@pytest.mark.parametrize("path", [*API_PATHS, *AWS_PATHS, "/_turnstile/health"])
@pytest.mark.parametrize(
    "header",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
    ids=str,
)
def test_i12_what_a_web_page_makes_a_browser_send_is_refused_on_every_path(path: str, header: dict[str, str]) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert refused(request(path, method=method, authorization=signed(KEY), **header)) == "ForeignOrigin"


def test_an_address_that_a_person_typed_into_a_browser_is_no_web_page() -> None:
    assert refused(request("/v1", sec_fetch_site="none")) == ""


@pytest.mark.parametrize("path", AWS_PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": signed("test")},
        {"authorization": signed("000000000000")},
        {"authorization": signed(KEY.lower())},
        {"authorization": signed("")},
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"AWS {KEY}:00"},
        {"authorization": f"AWS4-HMAC-SHA256 {KEY}"},
        {"authorization": signed("test") + f", Credential={KEY}/x"},
        {"x_amz_access_key": KEY},
    ],
    ids=str,
)
def test_i12_the_emulated_aws_takes_nothing_that_is_not_signed_by_a_key_of_this_stack(
    path: str, headers: dict[str, str]
) -> None:
    assert refused(request(path, **headers)) == "NotSigned"


@pytest.mark.parametrize("key", [KEY, SESSION])
@pytest.mark.parametrize("path", AWS_PATHS)
def test_what_is_signed_by_a_key_of_this_stack_is_taken_in_the_header_or_presigned(path: str, key: str) -> None:
    assert refused(request(path, authorization=signed(key))) == ""
    assert refused(request(path, query=f"X-Amz-Credential={key}%2F20260101%2Fus-east-1%2Fs3%2Faws4_request")) == ""
    assert refused(request(path, query=f"AWSAccessKeyId={key}&Signature=00&Expires=1")) == ""


def test_i12_two_credentials_are_none() -> None:
    assert refused(request("/", query=f"X-Amz-Credential=test%2Fx&X-Amz-Credential={KEY}%2Fx")) == "NotSigned"
    assert refused(request("/", query=f"X-Amz-Credential={KEY}%2Fx&AWSAccessKeyId=test")) == "NotSigned"
    presigned = request("/", query=f"X-Amz-Credential={KEY}%2Fx", authorization=signed("test"))
    assert refused(presigned) == "NotSigned"


def test_the_health_check_needs_no_key() -> None:
    assert refused(request("/_turnstile/health")) == ""


@pytest.mark.parametrize("path", API_PATHS)
def test_what_is_signed_for_an_aws_service_is_no_request_of_the_api(path: str) -> None:
    assert is_api(request(path)) and is_api(request(path, authorization="Bearer x"))
    assert not is_api(request(path, authorization=signed(KEY)))
    assert refused(request(path, authorization=signed("test"))) == "NotSigned"


def test_i12_no_answer_allows_another_origin_to_read_it() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers: list[Any] = [(b"Access-Control-Allow-Origin", b"*"), (b"access-control-max-age", b"1"), (b"etag", b"x")]
    asyncio.run(without_cors(send)({"type": "http.response.start", "status": 200, "headers": headers}))
    asyncio.run(without_cors(send)({"type": "http.response.body", "body": b"x"}))
    assert sent[0]["headers"] == [(b"etag", b"x")]
    assert sent[1] == {"type": "http.response.body", "body": b"x"}
