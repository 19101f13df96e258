"""HTTP clients of several servers of one store, as behind a load balancer: some servers do not
answer for a while, and come back."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import httpx

AVOID_S: Final = 2.0
"""How long a server that did not answer gets no requests, while there are others."""


class Balancer:
    """The servers at some addresses, and which of them did not answer just now. Safe for
    threads."""

    def __init__(self, urls: Sequence[str], timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._avoided_s = dict.fromkeys(urls, 0.0)

    def connect(self) -> Anywhere:
        """Returns a client."""
        return Anywhere(self, list(self._avoided_s))

    def avoid(self, url: str) -> None:
        self._avoided_s[url] = time.monotonic() + AVOID_S

    def urls(self) -> list[str]:
        """Those that may answer."""
        now_s = time.monotonic()
        return [url for url, until_s in self._avoided_s.items() if until_s <= now_s] or list(self._avoided_s)


class Anywhere:
    """Sends each request to any of the servers. Raises httpx.TransportError where it does not
    answer: what became of the request nobody knows. For one thread."""

    def __init__(self, balancer: Balancer, urls: Sequence[str]) -> None:
        self._balancer = balancer
        self._rng = random.Random()
        self._clients = {url: httpx.Client(timeout=balancer.timeout_s, trust_env=False, base_url=url) for url in urls}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def get(self, url: str) -> httpx.Response:
        return self._send("GET", url, self._balancer.timeout_s)

    def post(
        self, url: str, *, json: Any, timeout: float | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self._send(
            "POST", url, self._balancer.timeout_s if timeout is None else timeout, json=json, headers=headers
        )

    def _send(self, method: str, url: str, timeout_s: float, **more: Any) -> httpx.Response:
        server = self._rng.choice(self._balancer.urls())
        try:
            return self._clients[server].request(method, url, timeout=timeout_s, **more)
        except httpx.TransportError:
            self._balancer.avoid(server)
            raise
