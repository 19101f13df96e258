"""From a gateway's event to a request: paths, decoding, methods, bodies."""

from __future__ import annotations

import base64

import pytest

from tests.support.functions import event
from turnstile.api.http.handler import Router, incoming_of, method_of, path_of, to_gateway
from turnstile.api.http.request import MAX_BODY, body_of, query_of
from turnstile.api.http.responses import Response
from turnstile.store.core.errors import InvalidRequest, TooLarge

ROUTES = ["/v1/tables/{table_id}/head", "/v1/tables/{table_id}", "/v1/tables", "/v1/tables/all"]


def test_a_path_parameter_is_percent_decoded_exactly_once() -> None:
    router = Router(ROUTES)
    assert router.match("/v1/tables/a%40b/head") == ("/v1/tables/{table_id}/head", {"table_id": "a@b"})
    assert router.match("/v1/tables/%252e%252e") == ("/v1/tables/{table_id}", {"table_id": "%2e%2e"})
    assert router.match("/v1/tables/%2e%2e%2fx") == ("/v1/tables/{table_id}", {"table_id": "../x"})


def test_what_a_gateway_has_decoded_but_for_percent_signs_comes_out_the_same() -> None:
    assert Router(ROUTES).match("/v1/tables/a@b%2541") == ("/v1/tables/{table_id}", {"table_id": "a@b%41"})


def test_a_literal_segment_wins_over_a_parameter() -> None:
    assert Router(ROUTES).match("/v1/tables/all") == ("/v1/tables/all", {})


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/tables/", "/v1/tables//head", "/v1/tables/x/head/", "/v2/tables"])
def test_a_path_that_is_no_route_matches_none(path: str) -> None:
    assert Router(ROUTES).match(path) is None


def test_a_named_stage_is_no_part_of_the_path() -> None:
    made = event("GET", "/live/v1/tables")
    made["requestContext"]["stage"] = "live"
    assert path_of(made) == "/v1/tables"
    made["rawPath"] = "/lively/v1"
    assert path_of(made) == "/lively/v1"


def test_extra_leading_slashes_count_as_one() -> None:
    assert path_of(event("GET", "//v1/tables")) == "/v1/tables"


@pytest.mark.parametrize("broken", [{}, {"requestContext": {}}, {"rawPath": None, "headers": None}])
def test_an_event_without_the_usual_members_is_a_get_of_the_root(broken: dict[str, object]) -> None:
    assert (method_of(broken), path_of(broken), incoming_of(broken).query, body_of(broken)) == ("GET", "/", "", b"")


def test_a_base64_body_is_decoded() -> None:
    assert body_of({"body": base64.b64encode(b'{"a": 1}').decode(), "isBase64Encoded": True}) == b'{"a": 1}'


@pytest.mark.parametrize(
    "broken", [{"body": "%%%", "isBase64Encoded": True}, {"body": "é", "isBase64Encoded": True}, {"body": "\ud800"}]
)
def test_a_body_that_is_no_text_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="UTF-8") as refused:
        body_of(broken)
    assert refused.value.field == "body"


@pytest.mark.parametrize("size", [MAX_BODY + 1, 2 * MAX_BODY])
def test_a_body_over_the_limit_is_too_large_and_says_the_limit(size: int) -> None:
    with pytest.raises(TooLarge) as refused:
        body_of({"body": "x" * size})
    assert refused.value.details == {"limit": MAX_BODY, "size": size}
    assert len(body_of({"body": "x" * MAX_BODY})) == MAX_BODY
    assert len(body_of({"body": base64.b64encode(b"x" * MAX_BODY).decode(), "isBase64Encoded": True})) == MAX_BODY


def test_the_query_is_decoded_once_and_keeps_repetitions_and_empty_members() -> None:
    assert query_of("a=1&a=%2532&b=&c") == {"a": ["1", "%32"], "b": [""], "c": [""]}


def test_an_endless_query_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="too long"):
        query_of("a=1&" * 5000)


def test_neither_head_nor_no_content_carries_a_body() -> None:
    response = Response(200, {"A": "b"}, b"{}")
    assert to_gateway(response, head=True) == {
        "statusCode": 200,
        "headers": {"A": "b"},
        "body": "",
        "isBase64Encoded": False,
    }
    assert to_gateway(Response(204, {}, b"{}"))["body"] == ""
    assert to_gateway(response)["body"] == "{}"
