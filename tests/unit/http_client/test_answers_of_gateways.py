"""Refusals by a gateway in front of the service are reported in words of the client, with a
remedy."""

from __future__ import annotations

import pytest

from tests.support.cli import run, service
from turnstile_cli.errors import Exit
from turnstile_http.errors import ApiError
from turnstile_http.http import Http

PATH = "/v1/catalogs"


def refusal(status: int, body: object, token: str | None = None) -> ApiError:
    with service({f"GET {PATH}": (status, body)}) as canned:
        http = Http(canned.url, token, 5)
        with pytest.raises(ApiError) as caught:
            http.once("catalogs", "GET", PATH)
        http.close()
    return caught.value


@pytest.mark.parametrize("body", [{"message": "Unauthorized"}, {"Message": "Unauthorized"}, {}])
def test_a_401_of_a_gateway_says_that_a_token_is_needed_as_the_servers_own(body: object) -> None:
    error = refusal(401, body)
    assert (error.status, error.type, error.condition) == (401, "NotAuthenticated", "TURNSTILE_NOT_PERMITTED")
    assert "no token was sent" in str(error) and "TURNSTILE_TOKEN" in str(error)
    assert "Check the uri" not in str(error)


def test_an_address_with_the_first_part_of_the_paths_is_that_of_the_server() -> None:
    with service({f"GET {PATH}": (200, {"catalogs": []})}) as canned:
        http = Http(f"{canned.url}/v1/", None, 5)
        assert http.once("catalogs", "GET", PATH) == {"catalogs": []}
        http.close()


def test_a_401_to_a_token_says_that_it_is_not_accepted() -> None:
    error = refusal(401, {"message": "Unauthorized"}, token="old")
    assert "the token was not accepted" in str(error) and "give another token" in str(error)


def test_a_403_of_a_gateway_is_a_refusal_and_no_wrong_address() -> None:
    error = refusal(403, {"message": "Forbidden"}, token="t")
    assert (error.type, error.condition) == ("PermissionDenied", "TURNSTILE_NOT_PERMITTED")
    assert "before the server" in str(error) and "Forbidden" in str(error)


def test_a_body_that_a_gateway_finds_too_large_is_said_so() -> None:
    error = refusal(413, {"message": "Request Too Long"})
    assert error.type == "TooLarge" and "smaller" in str(error)


@pytest.mark.parametrize("status", [400, 404, 405])
def test_other_answers_of_something_else_name_the_address(status: int) -> None:
    error = refusal(status, {"message": "Not Found"})
    assert error.type == f"Http{status}" and "Check the uri" in str(error)


def test_the_command_line_says_the_same_of_a_403() -> None:
    with service({f"GET {PATH}": (403, {"message": "Forbidden"})}) as canned:
        ended = run("catalogs", "--url", canned.url)
    assert ended.exit_code == Exit.REFUSED
    assert "PermissionDenied" in ended.stderr and "before the server" in ended.stderr
