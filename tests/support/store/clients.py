"""Clients whose answers a test decides, and one that botocore alone made; requests as they go over
the wire, counted below every adapter; items as the service weighs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError


@functools.cache
def _session() -> botocore.session.Session:
    session = botocore.session.get_session()
    session.set_credentials("test", "test")
    return session


def plain_dynamodb(url: str, **config: Any) -> Any:
    """A client of DynamoDB as botocore makes it, without ``adapters/dynamo/transport.py`` and
    without retries."""
    retries = {"mode": "standard", "total_max_attempts": 1}
    limits = Config(retries=retries, parameter_validation=False, read_timeout=60, **config)
    return _session().create_client("dynamodb", "us-east-1", endpoint_url=url, config=limits)


class Scripted:
    """Gives the scripted outcomes one after the other, the last one for ever, and records what was
    asked."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = list(outcomes)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**asked: Any) -> Any:
            self.asked.append((operation, asked))
            outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return call


class Deaf:
    """A real client that loses the answers of its first ``lost`` writes after they had effect."""

    def __init__(self, client: Any, lost: int) -> None:
        self._client = client
        self._lost = lost

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation == "get_item":
            return getattr(self._client, operation)  # type: ignore[no-any-return]

        def call(**asked: Any) -> Any:
            deaf = self._lost > 0
            self._lost -= 1
            try:
                return getattr(self._client, operation)(**asked)
            finally:
                if deaf:
                    raise timeout()

        return call


def timeout() -> ReadTimeoutError:
    """The request was sent and no answer came."""
    return ReadTimeoutError(endpoint_url="http://store")


def error(code: str, status: int = 400, **more: Any) -> ClientError:
    """What the service answers. ``more``: further members of the answer."""
    answer = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(answer, "Operation")  # type: ignore[arg-type]


def cancelled(*codes: str) -> ClientError:
    """A cancelled transaction with these reasons."""
    return error("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


@contextmanager
def wiretap(*clients: Any) -> Iterator[list[str]]:
    """The operations that ``clients`` send while the block runs, in order."""
    sent: list[str] = []

    def note(request: Any, event_name: str, **_: Any) -> None:
        sent.append(event_name.rpartition(".")[2])

    for client in clients:
        client.meta.events.register("before-send", note)
    try:
        yield sent
    finally:
        for client in clients:
            client.meta.events.unregister("before-send", note)


def weight(item: dict[str, Any]) -> int:
    """Bytes of an item. Source: DynamoDB, "Item sizes and formats"."""
    return sum(len(name.encode()) + _value(value) for name, value in item.items())


def _value(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "B":
            return len(content)
        case "N":
            digits = len(str(content).lstrip("-").strip("0"))
            return digits // 2 + digits % 2 + 1 + int(str(content).startswith("-"))
        case "BOOL" | "NULL":
            return 1
        case "SS":
            return sum(len(one.encode()) for one in content)
        case "L":
            return 3 + sum(1 + _value(one) for one in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value(one) for name, one in content.items())
    raise ValueError(kind)
