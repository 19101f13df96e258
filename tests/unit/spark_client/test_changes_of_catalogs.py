"""Changes of a catalog with a lost answer. A change that may have been applied is never reported as
refused or as not applied (I3)."""

from __future__ import annotations

import httpx
import pytest

from tests.support.clients.scripted import LOST, Server, api, refused
from turnstile_http.errors import ApiError

DONE = httpx.Response(201, json={})
GATEWAY = httpx.Response(404, text="no such page")


def change(*answers: httpx.Response | Exception, deadline: float = 30.0) -> Server:
    server = Server(*answers)
    api(server, deadline).create_namespace("n", None, {})
    return server


def failure(*answers: httpx.Response | Exception, deadline: float = 30.0) -> ApiError:
    with pytest.raises(ApiError) as raised:
        change(*answers, deadline=deadline)
    return raised.value


def test_i3_a_change_whose_answer_was_lost_is_sent_again() -> None:
    assert change(LOST, refused("Throttled", 429), DONE).sent == ["POST namespaces"] * 3


@pytest.mark.parametrize("then", [refused("NotAuthenticated", 401), refused("PermissionDenied", 403), GATEWAY, LOST])
def test_i3_without_an_outcome_it_is_unknown(then: httpx.Response | Exception) -> None:
    error = failure(LOST, then, deadline=0.05)
    assert error.condition == "TURNSTILE_OUTCOME_UNKNOWN"
    assert "POST" in str(error) and "may or may not have happened" in str(error)
    assert change(LOST, then, DONE).sent == ["POST namespaces"] * 3


def test_i3_a_refusal_that_the_server_remembers_is_final_also_after_a_lost_answer() -> None:
    error = failure(LOST, refused("AlreadyExists", 409))
    assert (error.type, error.condition) == ("AlreadyExists", "TURNSTILE_REFUSED")


def test_a_refusal_is_reported_at_once_when_nothing_was_lost() -> None:
    assert failure(refused("NotAuthenticated", 401)).condition == "TURNSTILE_NOT_PERMITTED"
    down = failure(httpx.ConnectError("down"), deadline=0.05)
    assert down.condition == "TURNSTILE_UNREACHABLE"
