"""``turnstile doctor``: its checks from the client's side, and the service's checks that it passes
on."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.support.cli import Canned, run, service
from turnstile_release import version

FINE = {"name": "refs", "result": "ok", "message": "conditional writes are honoured", "remedy": ""}
STUCK = {"name": "stuck", "result": "failed", "message": "main.s.t (stuck)", "remedy": "turnstile repair --all"}
NO_TOKEN = (401, {"error": {"type": "NotAuthenticated", "message": "a bearer token is required"}})


def answers(*checks: dict[str, Any], ahead_ms: int = 0, there: str | None = None) -> dict[str, Any]:
    now_ms = round(time.time() * 1000) + ahead_ms
    return {
        "GET /v1": (200, {"service": "turnstile", "version": there or version()}),
        "GET /v1/catalogs": NO_TOKEN,
        "POST /v1/checks": (200, {"now_ms": now_ms, "checks": list(checks)}),
    }


def ask(canned: Canned, exit: int = 0) -> dict[str, dict[str, Any]]:
    ended = run("doctor", "--url", canned.url, "--token", "t", "-o", "json")
    assert ended.exit_code == exit, ended.output
    answer = json.loads(ended.stdout)
    assert answer["ok"] == (exit == 0)
    return {check["name"]: check for check in answer["checks"]}


def test_what_is_right_passes_and_is_shown() -> None:
    with service(answers(FINE)) as canned:
        checks = ask(canned)
        shown = run("doctor", "--url", canned.url, "--token", "t").stdout
    assert list(checks) == ["service", "version", "strangers", "rights", "local clock", "refs"]
    assert {check["result"] for check in checks.values()} == {"ok"}
    assert "all of 6 checks passed" in shown


def test_what_the_service_finds_is_passed_on_with_its_remedy_and_fails() -> None:
    with service(answers(FINE, STUCK)) as canned:
        assert ask(canned, exit=1)["stuck"] == STUCK
        shown = run("doctor", "--url", canned.url, "--token", "t").stdout
    assert "remedy: turnstile repair --all" in shown
    assert "1 of 7 checks failed" in shown


def test_a_clock_that_is_minutes_away_fails() -> None:
    with service(answers(ahead_ms=300_000)) as canned:
        assert ask(canned, exit=1)["local clock"]["result"] == "failed"


def test_another_version_is_a_warning() -> None:
    with service(answers(there="9.9.9")) as canned:
        assert ask(canned)["version"]["result"] == "warning"


def test_a_token_that_is_no_administrators_leaves_the_services_checks_out() -> None:
    denied = (403, {"error": {"type": "PermissionDenied", "message": "for administrators"}})
    with service({**answers(), "POST /v1/checks": denied}) as canned:
        assert ask(canned)["rights"]["result"] == "warning"
    with service({**answers(), "POST /v1/checks": NO_TOKEN}) as canned:
        assert ask(canned, exit=1)["rights"]["result"] == "failed"


def test_a_deployment_that_answers_strangers_fails_and_a_server_of_this_machine_may() -> None:
    with service({**answers(), "GET /v1/catalogs": (200, {"catalogs": []})}) as canned:
        assert ask(canned, exit=1)["strangers"]["result"] == "failed"
        port = canned.url.rpartition(":")[2]
        ended = run("doctor", "--home", "/nonexistent", "--port", port, "-o", "json")
    assert ended.exit_code == 0, ended.output


def test_something_else_at_the_url_is_an_error_of_its_own() -> None:
    with service({"GET /v1": (200, b"<html>")}) as canned:
        ended = run("doctor", "--url", canned.url, "-o", "json")
    assert json.loads(ended.stderr)["error"]["type"] == "NotTurnstile"
