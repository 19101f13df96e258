"""Exit codes and error documents: the same meaning for every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import turnstile_cli
from tests.support.cli import run, service
from turnstile_cli.errors import MEANINGS, Exit

TABLE = "/v1/catalogs/main/namespaces/default/tables/t"


def refusal(status: int, kind: str, **more: object) -> tuple[int, dict[str, object]]:
    return status, {"error": {"type": kind, "message": "because", "code": status, "remedy": "do this", **more}}


@pytest.mark.parametrize(
    ("answer", "exit"),
    [
        (refusal(404, "NoSuchTable"), Exit.NOT_FOUND),
        (refusal(409, "TableNotActive", state="dropped"), Exit.REFUSED),
        (refusal(400, "InvalidRequest", field="table"), Exit.REFUSED),
        (refusal(401, "NotAuthenticated"), Exit.REFUSED),
        (refusal(429, "Throttled", retry_after_ms=100), Exit.REFUSED),
        (refusal(500, "CommitStateUnknown"), Exit.UNKNOWN),
        (refusal(500, "InternalError"), Exit.FAILURE),
        ((502, b"<html>bad gateway</html>"), Exit.FAILURE),
        ((503, b""), Exit.FAILURE),
    ],
)
def test_answers_become_exit_codes(answer: tuple[int, object], exit: Exit) -> None:
    with service({f"GET {TABLE}": answer}) as canned:
        ended = run("head", "default.t", "--url", canned.url, "--output", "json")
    assert ended.exit_code == exit
    assert ended.stdout == ""
    error = json.loads(ended.stderr)["error"]
    assert error["exit"] == exit
    if isinstance(answer[1], dict):
        told = answer[1]["error"]
        assert error["type"] == told["type"]
        of_token = "give a token: --token, or the variable TURNSTILE_TOKEN"
        assert error["remedy"] == (of_token if told["type"] == "NotAuthenticated" else "do this")
        assert set(told) <= set(error)


def test_text_names_what_where_and_remedy() -> None:
    with service({f"GET {TABLE}": refusal(404, "NoSuchTable")}) as canned:
        ended = run("head", "main.default.t", "--url", canned.url)
    assert ended.exit_code == Exit.NOT_FOUND
    assert "NoSuchTable: because" in ended.stderr
    assert TABLE in ended.stderr
    assert "remedy: do this" in ended.stderr


def test_no_server_there(tmp_path: Path) -> None:
    ended = run("tables", "--url", "http://127.0.0.1:9", "-o", "json")
    assert ended.exit_code == Exit.UNREACHABLE
    ended = run("tables", "--home", str(tmp_path), "-o", "json")
    assert ended.exit_code == Exit.UNREACHABLE
    assert json.loads(ended.stderr)["error"]["type"] == "NotRunning"
    assert run("status", "--home", str(tmp_path)).exit_code == Exit.UNREACHABLE


def test_a_lost_answer_is_unknown_when_something_may_have_changed() -> None:
    told = {"table_id": "id", "latest": 1}
    with service({f"GET {TABLE}": (200, told), "POST /v1/tables/id/publish": (0, None)}) as canned:
        ended = run("publish", "default.t", "--url", canned.url, "-o", "json")
    assert ended.exit_code == Exit.UNKNOWN
    with service({f"GET {TABLE}": (0, None)}) as canned:
        assert run("head", "default.t", "--url", canned.url).exit_code == Exit.UNREACHABLE


@pytest.mark.parametrize("name", ["t", "", "a..t", "main.default.t/../x", "main.de fault.t", "a.b.[red]"])
def test_a_name_that_cannot_be_right_is_usage(name: str) -> None:
    ended = run("head", name, "--url", "http://127.0.0.1:9", "-o", "json")
    assert ended.exit_code == Exit.USAGE
    assert json.loads(ended.stderr)["error"]["remedy"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["tables", "--nosuch"],
        ["head"],
        ["up", "--port", "70000"],
        ["log", "a.b", "-n", "0"],
        ["gc", "-o", "x"],
    ],
)
def test_bad_options_are_usage(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == Exit.USAGE


def test_outcome_wants_one_identity() -> None:
    assert run("outcome", "default.t", "--url", "http://127.0.0.1:9").exit_code == Exit.USAGE


def test_the_codes_are_documented() -> None:
    shown = " ".join(run("--help").output.split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in shown
        assert f"{code.value}    {meaning}" in (turnstile_cli.__doc__ or "")
    assert set(MEANINGS) == set(Exit)


@pytest.mark.parametrize("answer", [b"<html>please log in</html>", b"", b"[]", b'"up"', b"{"])
def test_a_success_that_is_no_json_object_is_from_another_service(answer: bytes) -> None:
    for arguments, where in ((("tables",), "GET /v1/tables"), (("clients", "create", "x"), "POST /v1/clients")):
        with service({where: (200, answer)}) as canned:
            ended = run(*arguments, "--url", canned.url, "-o", "json")
        assert (ended.exit_code, ended.stdout) == (Exit.FAILURE, "")
        error = json.loads(ended.stderr)["error"]
        assert error["type"] == "NotTurnstile"
        assert canned.url in error["message"] and "--url" in error["remedy"]


@pytest.mark.parametrize("status", [302, 404, 405])
@pytest.mark.parametrize("answer", [b"<html>nothing here</html>", b"", b'{"message": "Not Found"}'])
def test_a_refusal_without_an_error_of_ours_is_from_another_service(status: int, answer: bytes) -> None:
    with service({"GET /v1/tables": (status, answer), "POST /v1/clients": (status, answer)}) as canned:
        for arguments in (("tables",), ("clients", "create", "x")):
            ended = run(*arguments, "--url", canned.url, "-o", "json")
            error = json.loads(ended.stderr)["error"]
            assert (ended.exit_code, error["type"]) == (Exit.FAILURE, "NotTurnstile")
            assert "--url" in error["remedy"]


def test_a_deletion_is_answered_without_a_word() -> None:
    with service({"DELETE /v1/clients/client-1": (204, b"")}) as canned:
        assert run("clients", "delete", "client-1", "--url", canned.url).exit_code == 0


@pytest.mark.parametrize("token", ["té", "t\n", "t\r", "\u200bt"])
def test_a_token_that_no_header_can_carry_is_refused_before_anything_is_sent(token: str) -> None:
    with service({}) as canned:
        ended = run("status", "--url", canned.url, "--token", token, "-o", "json")
        assert run("status", "--url", canned.url, TURNSTILE_TOKEN=token).exit_code == Exit.USAGE
    assert (ended.exit_code, canned.seen) == (Exit.USAGE, [])
    error = json.loads(ended.stderr)["error"]
    assert "token" in error["message"] and token not in error["message"]


@pytest.mark.parametrize(
    ("arguments", "path", "remedy"),
    [
        (("create", "etl"), "/v1/clients", "turnstile clients list"),
        (("rotate", "client-1"), "/v1/clients/client-1/rotate", "rotate again"),
    ],
)
def test_i12_a_secret_that_was_never_shown_is_not_asked_for_twice(
    arguments: tuple[str, ...], path: str, remedy: str
) -> None:
    """The answer is lost: the same command again would leave a client behind whose secret nobody
    has."""
    with service({f"POST {path}": (0, None)}) as canned:
        ended = run("clients", *arguments, "--url", canned.url, "-o", "json")
    error = json.loads(ended.stderr)["error"]
    assert (ended.exit_code, len(canned.seen)) == (Exit.UNKNOWN, 1)
    assert remedy in error["remedy"]
