"""Rows and writes as contract tests make them."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.store.backends import REALM
from turnstile.delta.core.head import new_head_row
from turnstile.store.core.writes import Action, Change, Clause, Insert, Row, Test, new_row
from turnstile.store.ports import Accepted, Refs


def head_row(key: str, **more: Any) -> Row:
    """A small HEAD; ``more`` replaces attributes or adds them."""
    row = new_head_row(
        key=key,
        table_id=key.rpartition("/")[2],
        catalog="main",
        name="main.default.t",
        location="file:///lake/t",
        metadata="m0",
        version=5,
        ict=1_000,
        row_hwm=None,
        created=1,
        managed=True,
    )
    return row | more


def clause(test: Test) -> Clause:
    return Clause("tested", "I2", "what the test is about", test)


def change(key: str, *actions: Action, when: tuple[Test, ...] = ()) -> Change:
    return Change(key, tuple(clause(test) for test in when), actions)


def stored(refs: Refs, row: Row) -> Row:
    """Write ``row`` as a new one and return it."""
    assert isinstance(refs.write(Insert(row, (new_row("I2"),))), Accepted)
    return row


_NAMES = itertools.count()


def fresh_key(kind: str = "table") -> str:
    return f"{REALM}/{kind}/{next(_NAMES):06d}"
