"""An HTTP proxy between client and server that misbehaves on request: loses answers, fails requests, runs things first."""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Rule:
    """What happens to the next ``times`` requests whose ``METHOD path`` contains ``match``."""

    match: str
    times: int
    lose_answer: bool = False
    answer: tuple[int, dict[str, Any]] | None = None
    before: Callable[[], None] | None = None


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

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any

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

    def lose_answers(self, match: str, times: int = 1) -> None:
        """The server carries these requests out; the client never hears of it."""
        self.rules.append(Rule(match, times, lose_answer=True))

    def fail(self, match: str, status: int, type: str, times: int = 1, **more: Any) -> None:
        """These requests never reach the server."""
        body = {"error": {"type": type, "message": "said the flaky proxy", "code": status, **more}}
        self.rules.append(Rule(match, times, answer=(status, body)))

    def first(self, match: str, do: Callable[[], None]) -> None:
        """Runs ``do`` before the next such request is passed on."""
        self.rules.append(Rule(match, 1, before=do))

    def _take(self, what: str) -> Rule | None:
        with self._lock:
            self.seen.append(what)
            for rule in self.rules:
                if rule.times > 0 and rule.match in what:
                    rule.times -= 1
                    return rule
        return None

    def _handle(self, request: http.server.BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        rule = self._take(f"{request.command} {request.path}")
        if rule and rule.answer:
            self._reply(request, rule.answer[0], json.dumps(rule.answer[1]).encode())
            return
        if rule and rule.before:
            rule.before()
        target = urlsplit(self.target)
        connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
        try:
            headers = {k: v for k, v in request.headers.items() if k.lower() not in ("host", "connection")}
            connection.request(request.command, target.path + request.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if rule and rule.lose_answer:
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        self._reply(request, answer.status, content)

    @staticmethod
    def _reply(request: http.server.BaseHTTPRequestHandler, status: int, content: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
