"""Requests as they go over the wire, counted below every adapter, and items as the service weighs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
