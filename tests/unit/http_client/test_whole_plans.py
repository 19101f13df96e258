"""A plan of several pages begins again when its pages have ended, and has every file once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import dumps, loads
from threading import Thread
from typing import Any

import pytest

from tests.support.cli import run
from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_http.http import Http

ID = "6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1"
ENDED = (400, {"error": {"type": "InvalidRequest", "message": "it is of another plan", "field": "page_token"}})
REFUSED = (400, {"error": {"type": "InvalidRequest", "message": "no column", "field": "predicate"}})

Answer = tuple[int, dict[str, Any]]


def page(*files: str, token: str | None = None) -> Answer:
    statistics = {"files": 3, "index_version": 1, "total_files": None, "dropped": {}}
    found = [{"path": file} for file in files]
    return 200, {"version": 7, "files": found, "next_page_token": token, "statistics": statistics}


@contextmanager
def planning(answers: Iterable[Answer]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a service that has these answers to plans, in order, and the questions."""
    script = iter(answers)
    questions: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            questions.append(loads(self.rfile.read(int(self.headers["content-length"]))))
            self.reply(*next(script))

        def do_GET(self) -> None:
            self.reply(200, {"tables": [{"name": "t", "table_id": ID}]})

        def reply(self, status: int, document: dict[str, Any]) -> None:
            content = dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", questions
    finally:
        server.shutdown()
        server.server_close()


def whole(answers: Iterable[Answer], **more: Any) -> tuple[list[str], list[dict[str, Any]]]:
    with planning(answers) as (url, questions):
        http = Http(url, None, 5)
        try:
            plan = Api(http, "main").whole_plan(ID, {"max_results": 2, "definition": True}, **more)
        finally:
            http.close()
    return [file["path"] for file in plan["files"]], questions


def test_all_pages_are_one_plan_and_the_definition_is_asked_for_once() -> None:
    files, questions = whole([page("a", "b", token="1"), page("c")])
    assert files == ["a", "b", "c"]
    assert questions[1] == {"max_results": 2, "definition": False, "page_token": "1"}


def test_a_plan_whose_pages_end_begins_again() -> None:
    files, questions = whole([page("a", "b", token="1"), ENDED, page("a", token="2"), page("b", "c")])
    assert files == ["a", "b", "c"]
    assert "page_token" not in questions[2]


def test_a_plan_whose_pages_always_end_is_given_up() -> None:
    with pytest.raises(ApiError, match="of another plan"):
        whole([page("a", token="1"), ENDED] * 3)


def test_another_refusal_is_reported_at_once() -> None:
    with pytest.raises(ApiError, match="no column"):
        whole([page("a", token="1"), REFUSED])


def test_no_page_is_asked_for_after_the_most_files() -> None:
    assert whole([page("a", "b", token="1"), page("c", token="2")], most_files=2)[0] == ["a", "b", "c"]


def test_the_command_begins_again_too() -> None:
    with planning([page("a", token="1"), ENDED, page("a", token="2"), page("b")]) as (url, _):
        ended = run("plan", "default.t", "--url", url, "--output", "json")
    assert ended.exit_code == 0, ended.stderr
    assert [file["path"] for file in loads(ended.stdout)["files"]] == ["a", "b"]
