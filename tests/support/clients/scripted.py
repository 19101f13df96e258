"""A server that answers the Spark client's calls as a test says, in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from turnstile_http.api import Api
from turnstile_http.http import Http

LOST = httpx.ReadTimeout("no answer")


def refused(type: str, status: int = 409) -> httpx.Response:
    return httpx.Response(status, json={"error": {"type": type, "message": "no"}})


def outcome(what: str) -> httpx.Response:
    return httpx.Response(200, json={"outcome": what, "latest": 4, "version": 3 if what == "ratified" else None})


class Server:
    """Answers in this order, the last one for ever; ``sent`` has the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.sent = list[str]()
        self.bodies = list[Any]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(f"{request.method} {request.url.path.rpartition('/')[2]}")
        if request.content:
            self.bodies.append(json.loads(request.content))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def api(handler: Callable[[httpx.Request], httpx.Response], deadline: float = 60.0) -> Api:
    http = Http("http://server", None, deadline)
    http._client = httpx.Client(transport=httpx.MockTransport(handler))
    return Api(http, "main")
