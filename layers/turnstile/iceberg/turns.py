"""Turns of commits that rewrite an Iceberg table, beside appends. Pure.

A delete or an overwrite is computed from all rows, so it cannot be merged (``append_merger``), and
loses against each append that comes while its writer works. After a lost attempt the table's entity
says that a rewrite has its turn: appends wait until one was committed, ``TURN_MS`` at most. No
other turn begins until as long a rest is over, unless the rewrite was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg.core import updates as u
from turnstile.store.core.errors import ErrorType, StateConflict

TURN_MS: Final = 5_000
"""For how long appends wait for a rewrite that lost: less than any limit of an answer."""

POLL_MS: Final = 100
"""How often an append that waits looks again."""

_REWRITES: Final = frozenset({"overwrite", "delete", "replace"})


class TableTurn(StateConflict):
    """A rewrite of the table has its turn, and the commit is to wait."""

    def __init__(self, name: str) -> None:
        problem = f"a commit that rewrites table '{name}' has its turn"
        super().__init__(ErrorType.COMMIT_FAILED, problem, remedy="send the commit again", retry_after_ms=POLL_MS)


def rewrites(updates: Sequence[u.TableUpdate]) -> bool:
    """Whether these updates add a snapshot that replaces or removes rows or files."""
    return any(_operation(update) in _REWRITES for update in updates)


def begins(table: IcebergTable, now_ms: int) -> bool:
    """Whether a rewrite of ``table`` that lost now gets a turn: none is, or was lately. One that is
    further ahead than a turn takes was written by a clock that is ahead, and counts for nothing."""
    return not table.turn_until - TURN_MS <= now_ms < table.turn_until + TURN_MS


def has_to_wait(table: IcebergTable, updates: Sequence[u.TableUpdate], now_ms: int) -> bool:
    """Whether a commit of ``table`` with these updates waits for a rewrite."""
    adds = any(isinstance(update, u.AddSnapshot) for update in updates)
    return adds and not rewrites(updates) and table.turn_until - TURN_MS <= now_ms < table.turn_until


def _operation(update: u.TableUpdate) -> str:
    return (update.snapshot.summary or {}).get("operation", "") if isinstance(update, u.AddSnapshot) else ""
