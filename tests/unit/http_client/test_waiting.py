"""A call that waits reports it, for whatever reason; a call that is answered at once reports
nothing."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from turnstile_http import waiting
from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_http.http import Http
from turnstile_http.waiting import WaitReporter


class Lines(logging.Handler):
    """Lines that were logged, to be awaited."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.some = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.some.set()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Returns the reports, by waits that report at once."""
    monkeypatch.setattr("turnstile_http.http.WAIT_REPORTER", WaitReporter(pause_s=0.05))
    handler = Lines()
    waiting.log.addHandler(handler)
    yield handler
    waiting.log.removeHandler(handler)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def nowhere() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_call_without_an_answer_says_what_it_waits_for(lines: Lines, silent: str) -> None:
    http = Http(silent, None, deadline=0.1)

    def ask() -> None:
        with pytest.raises(ApiError):
            http.once("load", "GET", "/v1")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert lines.some.wait(30)
    assert silent in lines.lines[0] and "load" in lines.lines[0] and "no answer yet" in lines.lines[0]
    http.close()


def test_repeated_attempts_say_why_the_last_one_failed(lines: Lines, nowhere: str) -> None:
    http = Http(nowhere, None, deadline=1.0)
    with pytest.raises(ApiError) as caught:
        Api(http, "main").namespaces()
    assert any("cannot be reached" in line and "tried again" in line for line in lines.lines)
    assert "turnstile serve" in str(caught.value)


def test_a_wait_inside_of_another_is_part_of_it() -> None:
    waits = WaitReporter(pause_s=1000)
    with waits.of("the whole") as outer, waits.of("a part") as inner:
        inner.problem = "lost"
        assert outer is inner
        assert waits.due(outer.began_s + 999) == []
        (line,) = waits.due(outer.began_s + 1001)
        assert "the whole" in line and "lost" in line
        assert waits.due(outer.began_s + 1500) == []
        assert len(waits.due(outer.began_s + 2002)) == 1
    assert waits.due(outer.began_s + 5000) == []


def test_lines_come_before_three_seconds_have_passed() -> None:
    assert waiting.PAUSE_S < 3


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8750", "localhost:8750", "lake.example.com", "", "http://", "ftp://host", "/v1"]
)
def test_a_text_that_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        Http(url, None)


def test_a_server_that_does_not_run_is_given_up_with_a_remedy(nowhere: str) -> None:
    with pytest.raises(ApiError, match="turnstile serve") as caught:
        Http(nowhere, None).reach(0.2)
    assert caught.value.type == "Unreachable"


def test_whatever_answers_is_reached(canned_404: Any) -> None:
    Http(canned_404, None).reach(5)


@pytest.fixture
def canned_404() -> Iterator[str]:
    """A server that knows no route."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Nothing) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_closed_client_says_so() -> None:
    http = Http("http://127.0.0.1:1", None)
    http.close()
    with pytest.raises(ApiError, match="use the newer one") as caught:
        Api(http, "main").namespaces()
    assert (caught.value.type, caught.value.transient) == ("Closed", False)
    assert caught.value.condition == "TURNSTILE_DETACHED"
