"""Requests to a server, recorded with their answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx
import msgspec

Repeat = Literal["no", "commit", "same", "read"]
"""How a later state of the code is asked about an exchange.

``no``      not at all: the request changed what only it could change
``commit``  the same request gets the version that it got
``same``    the same request gets an answer that contains the recorded one
``read``    the same, and the request changes nothing
"""


class Exchange(msgspec.Struct, frozen=True):
    """One request and its answer.

    Attributes:
        token: bearer token of the sender.
        answer: the body as JSON; None for an empty one.
    """

    repeat: Repeat
    method: str
    path: str
    status: int
    body: Any = None
    answer: Any = None
    token: str = ""
    headers: dict[str, str] = {}

    @property
    def title(self) -> str:
        """What a failing test shows of it."""
        return f"{self.method} {self.path}"


class Requests:
    """Sends requests to the server at ``url`` and keeps the exchanges in ``sent``."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60.0)
        self._token = token
        self.sent: list[Exchange] = []

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        repeat: Repeat = "no",
        token: str | None = None,
        status: int | None = None,
        **headers: str,
    ) -> Any:
        """Returns the answer's body.

        Raises:
            AssertionError: the answer has another ``status``; without one, no success.
        """
        token = self._token if token is None else token
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._http.request(method, path, json=body, headers={"Authorization": f"Bearer {token}", **named})
        expected = answer.is_success if status is None else answer.status_code == status
        assert expected, f"{method} {path}: {answer.status_code} {answer.text}"
        content = answer.json() if answer.content else None
        self.sent.append(Exchange(repeat, method, path, answer.status_code, body, content, token, named))
        return content

    def again(self, exchange: Exchange) -> httpx.Response:
        """Sends a recorded request once more and returns the answer."""
        return self._http.request(
            exchange.method,
            exchange.path,
            json=exchange.body,
            headers={"Authorization": f"Bearer {exchange.token}", **exchange.headers},
        )

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()


@contextmanager
def requests(url: str, token: str) -> Iterator[Requests]:
    """Requests of the holder of ``token``; the connections end with the block."""
    sender = Requests(url, token)
    try:
        yield sender
    finally:
        sender.close()


def missing(recorded: Any, today: Any, at: str = "") -> list[str]:
    """Returns where ``today`` lacks what ``recorded`` has. Members that are new are no
    difference."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        return [
            line
            for name, value in recorded.items()
            for line in (
                missing(value, today[name], f"{at}.{name}") if name in today else [f"{at}.{name} is not there"]
            )
        ]
    if _named(recorded) and _named(today):
        return missing(_by_name(recorded), _by_name(today), at)
    if isinstance(recorded, list) and isinstance(today, list) and len(recorded) == len(today):
        return [
            line
            for index, (before, after) in enumerate(zip(recorded, today, strict=True))
            for line in missing(before, after, f"{at}[{index}]")
        ]
    return [] if recorded == today else [f"{at}: {recorded!r} was answered, today {today!r}"]


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value)


def _by_name(members: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["name"]: one for one in members}
