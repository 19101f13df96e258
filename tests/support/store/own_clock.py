"""Retries of a store's client on a clock of their own: no test waits, and no busy machine ends a
deadline early."""

from __future__ import annotations

from typing import TypeVar

from turnstile.adapters.dynamo.calls import Caller
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs

Store = TypeVar("Store", DynamoRefs, DynamoObjs)


def caller_of(store: DynamoRefs | DynamoObjs) -> Caller:
    """Returns the object that sends the store's requests."""
    return store._rows._caller if isinstance(store, DynamoObjs) else store._caller  # type: ignore[attr-defined]


class OwnTime:
    """The part of ``time`` that retries use: the clock moves while they pause, and only then."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


def on_own_clock(store: Store) -> Store:
    """Gives the store's retries a clock of their own. Returns the store."""
    own = OwnTime()
    caller = caller_of(store)
    caller._sleep = own.sleep
    caller._now = own.monotonic
    return store
