"""Moments of a catalog's past as users write them: the service's own words, or shorter where nothing else can be meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from turnstile_cli.errors import usage

WORDS: Final = "head:ID, seq:NUMBER of the log, time:2026-11-01T00:00:00Z (or ms since 1970) or snapshot:NAME"
"""No angle brackets: help is rendered as Markdown, which takes them for HTML and shows nothing."""

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", help=f"What was there at a moment: {WORDS}. Short: commit/..., a number, a snapshot's name."
    ),
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_text(given: str) -> str:
    """The moment in the service's words. A snapshot whose name is a number, or begins like one of them, needs all of
    them."""
    if given.startswith("commit/"):
        return f"head:{given}"
    if given.isascii() and given.isdigit():
        return f"seq:{given}"
    return given if ":" in given else f"snapshot:{given}"


def query(given: str | None) -> dict[str, Any]:
    """The moment as a query has it."""
    return {} if given is None else {"as_of": as_text(given)}


def body(given: str) -> dict[str, Any]:
    """The moment as request bodies have it.

    Raises:
        CliError: it is none.
    """
    kind, _, value = as_text(given).partition(":")
    if kind == "head" and value:
        return {"head": value if value.startswith("commit/") else f"commit/{value}"}
    if kind == "seq" and value.isdigit():
        return {"seq": int(value)}
    if kind == "time":
        return {"time": int(value) if value.isdigit() else _ms(value)}
    if kind == "snapshot" and value:
        return {"snapshot": value}
    raise usage(f"'{given}' names no moment", f"write {WORDS}")


def _ms(value: str) -> int:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise usage(f"'{value}' is not a time with its zone", "write 2026-11-01T00:00:00Z, or ms since 1970")
    return (time - _EPOCH) // timedelta(milliseconds=1)
