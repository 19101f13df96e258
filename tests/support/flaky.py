"""An HTTP proxy between client and server that misbehaves on request: loses answers, fails
requests, runs things first."""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_NOT_PASSED_ON = frozenset(("host", "connection", "content-length", "transfer-encoding", "expect"))
_OF_A_CONNECTION = frozenset(("connection", "keep-alive", "transfer-encoding", "server", "date"))


@dataclass
class Rule:
    """What happens to the next ``times`` requests whose ``METHOD path`` contains ``match``.
    ``once_each``: only to the first request of each ``METHOD path``."""

    match: str
    times: int
    lose_answer: bool = False
    answer: tuple[int, dict[str, Any]] | None = None
    refusal: tuple[int, str] | None = None
    hang_up: bool = False
    before: Callable[[], None] | None = None
    once_each: bool = False


@dataclass
class Flaky:
    """A running proxy. ``seen``: the ``METHOD path`` of every request, in order."""

    target: str
    rules: list[Rule] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def methods(self) -> Counter[str]:
        """Returns how many requests of each method came."""
        return Counter(line.split()[0] for line in self.seen)

    def lose_answers(self, match: str, times: int = 1) -> None:
        """The server carries these requests out; the client never hears of it."""
        self.rules.append(Rule(match, times, lose_answer=True))

    def lose_first_answers(self, match: str) -> None:
        """As ``lose_answers``, for the first request of each ``METHOD path``: its repetition is
        answered."""
        self.rules.append(Rule(match, 1_000_000, lose_answer=True, once_each=True))

    def fail(self, match: str, status: int, type: str, times: int = 1, **more: Any) -> None:
        """These requests never reach the server."""
        body = {"error": {"type": type, "message": "said the flaky proxy", "code": status, **more}}
        self.rules.append(Rule(match, times, answer=(status, body)))

    def refuse(self, match: str, status: int, code: str, times: int) -> None:
        """As ``fail``, in the form of S3."""
        self.rules.append(Rule(match, times, refusal=(status, code)))

    def go_away(self) -> None:
        """From now on no request is answered, and none reaches the server, until ``come_back``."""
        self.rules.append(Rule("", 1_000_000, hang_up=True))

    def come_back(self) -> None:
        """All rules end."""
        with self._lock:
            self.rules.clear()

    def first(self, match: str, do: Callable[[], None]) -> None:
        """Runs ``do`` before the next such request is passed on."""
        self.rules.append(Rule(match, 1, before=do))

    def _take(self, what: str) -> Rule | None:
        with self._lock:
            is_first = what not in self.seen
            self.seen.append(what)
            for rule in self.rules:
                if rule.times > 0 and rule.match in what and (is_first or not rule.once_each):
                    rule.times -= 1
                    return rule
        return None

    def _handle(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = _body(request)
        rule = self._take(f"{request.command} {request.path}")
        if rule and rule.answer:
            self._reply(request, rule.answer[0], json.dumps(rule.answer[1]).encode())
            return
        if rule and rule.refusal:
            status, code = rule.refusal
            text = f"<Error><Code>{code}</Code><Message>said the flaky proxy</Message></Error>"
            content = b"" if request.command == "HEAD" else text.encode()
            self._reply(request, status, content, [("Content-Type", "application/xml")])
            return
        if rule and rule.hang_up:
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if rule and rule.before:
            rule.before()
        target = urlsplit(self.target)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
        try:
            headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
            connection.request(request.command, target.path + request.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if rule and rule.lose_answer:
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        self._reply(request, answer.status, content, answer.headers.items())

    @staticmethod
    def _reply(
        request: http.server.BaseHTTPRequestHandler,
        status: int,
        content: bytes,
        headers: Iterable[tuple[str, str]] = (("Content-Type", "application/json"),),
    ) -> None:
        given = {name.lower(): value for name, value in headers if name.lower() not in _OF_A_CONNECTION}
        size = given.pop("content-length", None)  # of an answer to HEAD it is the file's
        request.send_response(status)
        for name, value in given.items():
            request.send_header(name, value)
        request.send_header("Content-Length", size if request.command == "HEAD" and size else str(len(content)))
        request.end_headers()
        request.wfile.write(content)


def _body(request: http.server.BaseHTTPRequestHandler) -> bytes:
    """The body, also of a request that sends it in chunks."""
    if request.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    parts = []
    while size := int(request.rfile.readline().partition(b";")[0], 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline()
    while request.rfile.readline().strip():
        pass
    return b"".join(parts)
