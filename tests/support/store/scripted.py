"""Clients whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError


class Scripted:
    """Gives the scripted outcomes one after the other, the last one for ever, and records what was asked."""

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
    """A real client that loses the answers of its first ``lost`` calls after they had effect."""

    def __init__(self, client: Any, lost: int) -> None:
        self._client, self._lost = client, lost

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**asked: Any) -> Any:
            self._lost, deaf = self._lost - 1, self._lost > 0
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
