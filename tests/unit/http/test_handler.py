"""The handler around an app: token, routes, errors, and the one log line."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from chalice.app import Blueprint

from tests.support.functions import Http, event
from turnstile.api.auth.bearer import Bearer, Open, StaticTokens
from turnstile.api.auth.verifier import fingerprint
from turnstile.api.http.handler import App, routes_of
from turnstile.api.http.request import current, note
from turnstile.api.http.responses import STATUS, Answer, answer_201, refusal, render, status_of
from turnstile.delta.core.decide import Refused
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled, TurnstileError

COUNT = itertools.count()


def make(token: str = "", **views: Any) -> Http:
    """An app with ``/things/{name}``; ``get`` and ``post`` are its views."""
    api = Blueprint(__name__)
    api.route("/things/{name}", methods=["GET"])(views.get("get", lambda name: {"name": name}))
    api.route("/things/{name}", methods=["POST"], name="post")(
        views.get("post", lambda name: answer_201({"name": name}))
    )
    service = f"test-{next(COUNT)}"  # a logger of its own, which writes to this test's output
    others = Blueprint(__name__)
    others.route("/things", methods=["PUT"], name="other_put")(lambda: None)
    others.route("/things/{name}", methods=["DELETE"], name="other_delete")(lambda name: None)
    return Http(
        App(
            service,
            api,
            services=lambda: None,
            authentication=Bearer(StaticTokens({fingerprint(token): OPERATOR})) if token else Open(),
            elsewhere=lambda: [routes_of(others)],
        )
    )


def failing(error: Exception) -> Http:
    def get(name: str) -> None:
        raise error

    return make(get=get)


@pytest.fixture
def every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a deployment with ``MetricsDetail=all``."""
    monkeypatch.setenv("TURNSTILE_METRICS", "all")


def test_a_request_writes_no_metric_unless_every_figure_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    make().get("/things/a")
    failing(ValueError("broken")).get("/things/a")
    logged, metrics = lines(capsys)
    assert [line["status"] for line in logged] == [200, 500] and metrics == []


def lines(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The log lines and the metric lines written so far."""
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in found if "_aws" not in line], [line for line in found if "_aws" in line]


def test_a_view_answers_with_json_a_status_or_nothing() -> None:
    assert make().get("/things/a").json == {"name": "a"}
    assert make().post("/things/a", {}).status == 201
    assert make(get=lambda name: None).get("/things/a").status == 204
    teapot = make(get=lambda name: Answer({}, 418, {"X-Tea": "yes"})).get("/things/a")
    assert (teapot.status, teapot.headers["x-tea"]) == (418, "yes")


def test_an_unknown_path_is_404_and_a_wrong_method_405_in_our_shape() -> None:
    assert make().get("/thing/a").error["type"] == "NoSuchRoute"
    wrong = make().call("PATCH", "/things/a")
    assert (wrong.error["type"], wrong.headers["allow"]) == ("MethodNotAllowed", "DELETE, GET, POST")


def test_routes_of_another_function_are_known_as_wrong_methods_not_as_wrong_paths() -> None:
    assert make().get("/things").error["allowed"] == ["PUT"]
    assert make().call("DELETE", "/things/a").status == 405


def test_head_is_served_by_get_without_a_body() -> None:
    answer = make().call("HEAD", "/things/a")
    assert (answer.status, answer.text) == (200, "")
    assert make().call("HEAD", "/nothing").text == ""


def test_without_the_token_nothing_is_shown_not_even_that_a_path_does_not_exist() -> None:
    http = make(token="s3cret")
    for path in ("/things/a", "/nothing"):
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "s3cret"},
            {"Authorization": "Bearer é"},
        ):
            answer = http.call("GET", path, headers=headers)
            assert answer.error["type"] == "NotAuthenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert http.call("GET", "/things/a", headers={"authorization": "bearer s3cret"}).status == 200


def test_i12_a_request_without_the_token_never_reaches_a_view() -> None:
    seen: list[str] = []
    make(token="s3cret", get=seen.append).get("/things/a")
    assert seen == []


@pytest.mark.parametrize("media", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_body_that_a_foreign_page_could_send_is_refused(media: str) -> None:
    assert make().post("/things/a", {}, headers={"content-type": media}).error["type"] == "UnsupportedMediaType"


def test_json_with_a_charset_is_json() -> None:
    assert make().post("/things/a", {}, headers={"content-type": "Application/JSON; charset=utf-8"}).status == 201


def test_the_body_of_a_get_needs_no_media_type() -> None:
    http = make(get=lambda name: {"body": current().body.decode()})
    assert http.call("GET", "/things/a", body="{}", headers={"content-type": "text/plain"}).json == {"body": "{}"}


def test_an_unforeseen_error_is_500_without_internals_and_logged_with_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = failing(ValueError("password=hunter2")).call("GET", "/things/a", headers={"X-Correlation-Id": "abc-1"})
    assert answer.error["type"] == "InternalError"
    assert answer.error["correlation"] == answer.headers["x-correlation-id"] == "abc-1"
    assert "hunter2" not in answer.text
    (line,), _ = lines(capsys)
    assert (line["level"], line["correlation_id"], line["exception_name"]) == ("ERROR", "abc-1", "ValueError")
    assert "hunter2" in line["exception"]


def test_an_internal_fault_of_the_domain_is_as_silent() -> None:
    assert "row 17" not in failing(TurnstileError("row 17 is broken", remedy="look at row 17")).get("/things/a").text


@pytest.mark.usefixtures("every_figure")
def test_every_request_writes_one_line_with_status_type_duration_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    def get(name: str) -> None:
        note(version=5)
        raise Throttled

    http = make(get=get)
    lines(capsys)
    http.get("/things/a")
    (line,), (metric,) = lines(capsys)
    assert (line["status"], line["type"], line["version"]) == (429, "Throttled", 5)
    assert line["operation"] == "GET /things/{name}"
    assert line["duration_ms"] >= 0
    assert (metric["refused"], metric["failed"], metric["operation"]) == ([1.0], [0.0], "GET /things/{name}")
    http.get("/things/b")
    (line,), _ = lines(capsys)
    assert line["cold_start"] is False


@pytest.mark.usefixtures("every_figure")
def test_what_strangers_send_makes_no_new_metric(capsys: pytest.CaptureFixture[str]) -> None:
    http = make()
    lines(capsys)
    http.get("/no/such/path")
    http.call("FROB", "/things/a")
    _, metrics = lines(capsys)
    assert {metric["operation"] for metric in metrics} == {"unknown"}


@pytest.mark.usefixtures("every_figure")
def test_the_metrics_of_a_request_hold_nothing_of_another_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the one before, nor of those that were answered while metrics were switched
    off."""
    http = make()
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
    http.get("/no/such/path")
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED")
    lines(capsys)
    http.get("/no/such/path")
    http.get("/things/a")
    _, metrics = lines(capsys)
    assert [metric["operation"] for metric in metrics] == ["unknown", "GET /things/{name}"]
    assert [metric["refused"] for metric in metrics] == [[1.0], [0.0]]
    assert [len(metric["duration"]) for metric in metrics] == [1, 1]


@pytest.mark.parametrize("given", ["", "a b", "x" * 200, "ä", "\n"])
def test_a_correlation_id_that_could_spoil_a_log_is_replaced_by_the_gateways(given: str) -> None:
    answer = make().call("GET", "/things/a", headers={"X-Correlation-Id": given})
    assert answer.headers["x-correlation-id"] == "request-1"


def test_an_event_from_nowhere_is_answered() -> None:
    assert make().send({}).status == 404
    assert make().send({"rawPath": 5, "headers": {"a": None}, "requestContext": {"http": {}}}).status == 404


def test_a_retry_hint_is_also_a_header_in_whole_seconds() -> None:
    answer = failing(Throttled(retry_after_ms=1200)).get("/things/a")
    assert (answer.error["retry_after_ms"], answer.headers["retry-after"]) == (1200, "2")


def test_a_storage_fault_is_503_and_says_when_to_try_again() -> None:
    answer = failing(StorageFault("s3 is away", remedy="try again")).get("/things/a")
    assert (answer.status, answer.error["type"], answer.headers["retry-after"]) == (503, "StorageFault", "1")
    assert answer.error["retry_after_ms"] == 500


def test_an_unknown_outcome_is_500_and_says_not_to_rebase() -> None:
    answer = failing(OutcomeUnknown("the answer was lost")).get("/things/a")
    assert (answer.status, answer.error["type"]) == (500, "CommitStateUnknown")
    assert "do not rebase" in answer.error["remedy"]


def test_a_refusal_keeps_its_kind_field_remedy_and_data() -> None:
    refused = Refused("StaleMetadata", "it changed", "load again", "etag", {"etag": "e2"})
    answer = failing(refusal(refused)).get("/things/a")
    assert answer.error == {
        "type": "StaleMetadata",
        "message": "it changed",
        "code": 409,
        "field": "etag",
        "remedy": "load again",
        "etag": "e2",
    }


def test_data_never_overwrites_what_an_error_always_says() -> None:
    error = TurnstileError("m")
    error.type = "InvalidRequest"
    error.details = {"code": 200, "message": "x"}
    assert json.loads(render(error, "GET", "/v1", "c")[2]) == {
        "error": {"type": "InvalidRequest", "message": "m", "code": 400}
    }


def test_every_kind_of_missing_thing_is_404_and_unlisted_types_are_500() -> None:
    error = TurnstileError("m")
    error.type = "NoSuchView"
    assert status_of(error) == 404
    error.type = "Surprise"
    assert status_of(error) == 500
    assert all(400 <= code < 600 for code in STATUS.values())


def test_another_api_tells_errors_in_a_shape_of_its_own() -> None:
    api = Blueprint(__name__)

    def other(error: TurnstileError, _method: str, path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
        return 418, {"X-Other": correlation}, error.message.encode()

    http = Http(App("test", api, services=lambda: None, authentication=Open(), renders={"/other": other}))
    assert (http.get("/other/nothing").status, http.get("/other").text) == (418, "no operation has this path")
    assert http.get("/others").status == 404


def test_a_401_asks_for_a_token_in_every_shape() -> None:
    api = Blueprint(__name__)

    def other(error: TurnstileError, _method: str, path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
        return 401, {}, b"no"

    http = Http(
        App("test", api, services=lambda: None, authentication=Bearer(StaticTokens({})), renders={"/other": other})
    )
    assert http.get("/other").headers["www-authenticate"] == 'Bearer realm="turnstile"'
    wrong = http.call("GET", "/other", headers={"Authorization": "Bearer x"})
    assert wrong.headers["www-authenticate"] == 'Bearer realm="turnstile", error="invalid_token"'


def test_a_public_route_has_an_anonymous_caller() -> None:
    api = Blueprint(__name__)
    api.route("/door", methods=["POST"])(lambda: {"name": current().principal.name})
    api.route("/room", methods=["POST"])(lambda: {"name": current().principal.name})
    http = Http(App("test", api, services=lambda: None, authentication=Bearer(StaticTokens({})), public=("/door",)))
    asked = http.call("POST", "/door", body="x=y", headers={"Content-Type": "text/plain", "Authorization": "Basic x"})
    assert (asked.status, asked.json) == (200, {"name": "anonymous"})
    assert [http.post(path, {}).status for path in ("/room", "/door/", "/doors", "/")] == [401] * 4


def test_requests_at_once_do_not_see_each_others(capsys: pytest.CaptureFixture[str]) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    together = Barrier(8)

    def get(name: str) -> dict[str, str]:
        together.wait(60)
        return {"name": name, "query": current().query["q"][0]}

    handler = make(get=get)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: handler.send(event("GET", f"/things/{i}", query={"q": str(i)})), range(8)))
    assert [answer.json for answer in answers] == [{"name": str(i), "query": str(i)} for i in range(8)]
