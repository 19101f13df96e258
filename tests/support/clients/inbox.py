"""A webhook of a test: an HTTP server that stores requests, and answers as the test sets it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    headers: dict[str, str]
    body: bytes


@dataclass
class Inbox:
    """Stores requests; ``status`` and ``headers`` are its answer. Requests that it does not answer
    with success are stored, too, but not their ``events``."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                inbox.requests.append(Request({name.lower(): text for name, text in self.headers.items()}, body))
                status = inbox.status
                if 200 <= status < 300:
                    inbox.events += json.loads(body)
                self.send_response(status)
                for name, text in {"content-length": "0", **inbox.headers}.items():
                    self.send_header(name, text)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/events"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def first_seen(self) -> list[dict[str, Any]]:
        """The events without repeated ones."""
        return list({event["id"]: event for event in self.events}.values())

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
