"""The auditor's own record: the permanent facts of a table, and the error when they are broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def audits(check: Callable[P, None]) -> Callable[P, None]:
    """A violation ends the run, even where a service would take it for a failure of its own and go
    on."""

    @wraps(check)
    def checked(*args: P.args, **more: P.kwargs) -> None:
        try:
            check(*args, **more)
        except Violation as violation:
            args[0]._state.scheduler.fail(violation)  # type: ignore[attr-defined]
            raise

    return checked


@dataclass(frozen=True, slots=True)
class Fact:
    """A ratified version as it was the moment it was ratified."""

    txn: str
    attempt: str
    content: bytes
    ict: int
    name: str
    metadata: bool
    apps: frozenset[str]


@dataclass
class History:
    """The permanent facts of one table."""

    table_id: str
    location: str
    first: int
    latest: int
    ict: int
    facts: dict[int, Fact] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    published_at: dict[int, int] = field(default_factory=dict)
    refused: set[tuple[str, str, int]] = field(default_factory=set)
    acknowledged: dict[str, int] = field(default_factory=dict)
    shown: int = 0
    rows_to: int | None = None
    floor: int = 0
