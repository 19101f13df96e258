"""An HTTP client of several servers of one store, as one behind a load balancer is: some do not answer, and come back."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import httpx

AVOID_S: Final = 1.0
"""How long a server that did not answer gets no requests, while there are others."""


class Anywhere:
    """Sends each request to any of the servers. Raises httpx.TransportError where it does not answer: what became of the request nobody knows.
    For one thread."""

    def __init__(self, urls: Sequence[str], timeout_s: float) -> None:
        self._clients = [httpx.Client(base_url=url, timeout=timeout_s, trust_env=False) for url in urls]
        self._timeout_s, self._avoided = timeout_s, dict[httpx.Client, float]()
        self._rng = random.Random()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def get(self, url: str) -> httpx.Response:
        return self._send("GET", url, self._timeout_s)

    def post(
        self, url: str, *, json: Any, timeout: float | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self._send("POST", url, self._timeout_s if timeout is None else timeout, json=json, headers=headers)

    def _send(self, method: str, url: str, timeout_s: float, **more: Any) -> httpx.Response:
        now_s = time.monotonic()
        well = [client for client in self._clients if self._avoided.get(client, 0.0) <= now_s]
        client = self._rng.choice(well or self._clients)
        try:
            return client.request(method, url, timeout=timeout_s, **more)
        except httpx.TransportError:
            self._avoided[client] = now_s + timeout_s + AVOID_S
            raise
