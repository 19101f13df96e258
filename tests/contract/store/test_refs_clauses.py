"""Clauses: what a condition means, on every backend. A wrong one would let two writers be the same
version (I2)."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend
from tests.support.store.rows import change, head_row, stored
from turnstile.store.core.writes import Absent, AtLeast, AtMost, Below, Either, Equals, Lacks, Present, Set, Test
from turnstile.store.ports import Accepted, Rejected

STORED = {
    "latest": 5,
    "tail": [b"zero", b"one"],
    "ids": {"a", "b"},
    "apps": {"streaming": 3},
    "reason": "because",
    "managed": False,
}

HOLD: list[Test] = [
    Equals(("latest",), 5),
    Equals(("state",), "active"),
    Equals(("managed",), False),
    Equals(("tail", 1), b"one"),
    Equals(("apps", "streaming"), 3),
    Below(("latest",), 6),
    Below(("apps", "streaming"), 4),
    AtMost(("latest",), 5),
    AtMost(("latest",), 6),
    AtLeast(("latest",), 5),
    AtLeast(("latest",), 4),
    AtLeast(("latest",), -1),
    Absent(("row_hwm",)),
    Absent(("tail", 2)),
    Absent(("apps", "other")),
    Present(("latest",)),
    Present(("tail", 1)),
    Present(("apps", "streaming")),
    Lacks(("ids",), "c"),
    Either((Equals(("latest",), 4), Equals(("latest",), 5))),
    Either((Absent(("apps", "other")), AtMost(("apps", "other"), 1))),
    Either((Absent(("apps", "streaming")), AtMost(("apps", "streaming"), 3))),
    Either((Present(("row_hwm",)), Below(("latest",), 0), Lacks(("ids",), "z"))),
    Either((Lacks(("ids",), "c"),)),
]

FAIL: list[Test] = [
    Equals(("latest",), 4),
    Equals(("row_hwm",), 0),
    Equals(("state",), "dropped"),
    Equals(("managed",), True),
    Equals(("tail", 0), b"one"),
    Equals(("tail", 2), b"two"),
    Equals(("apps", "other"), 0),
    Below(("latest",), 5),
    Below(("latest",), 4),
    Below(("row_hwm",), 4),
    AtMost(("latest",), 4),
    AtMost(("row_hwm",), 4),
    AtMost(("apps", "other"), 4),
    AtLeast(("latest",), 6),
    AtLeast(("row_hwm",), 0),
    Absent(("latest",)),
    Absent(("tail", 0)),
    Absent(("apps", "streaming")),
    Present(("row_hwm",)),
    Present(("tail", 2)),
    Present(("apps", "other")),
    Lacks(("ids",), "a"),
    Either((Equals(("latest",), 4), Equals(("latest",), 6))),
    Either((Absent(("apps", "streaming")), AtMost(("apps", "streaming"), 2))),
]


@pytest.mark.parametrize("test", HOLD, ids=repr)
def test_i2_a_change_whose_clause_holds_is_applied_and_answers_the_row_after_it(
    backend: Backend, key: str, test: Test
) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key, **STORED))
    expected = before | {"metadata": "m1"}
    assert refs.write(change(key, Set(("metadata",), "m1"), when=(test,))) == Accepted(expected)
    assert refs.read(key) == expected


@pytest.mark.parametrize("test", FAIL, ids=repr)
def test_i2_a_change_whose_clause_fails_changes_nothing_and_answers_the_row_it_was_judged_on(
    backend: Backend, key: str, test: Test
) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key, **STORED))
    assert refs.write(change(key, Set(("metadata",), "m1"), when=(test,))) == Rejected(before)
    assert refs.read(key) == before


def test_i2_one_failing_clause_among_many_that_hold_refuses_the_change(backend: Backend, key: str) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key, **STORED))
    for position in range(3):
        when = [HOLD[0], HOLD[3], HOLD[-1]]
        when[position] = FAIL[0]
        assert refs.write(change(key, Set(("latest",), 6), when=tuple(when))) == Rejected(before)
    assert refs.read(key) == before


def test_i3_a_row_without_the_set_lacks_every_identity(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    assert isinstance(refs.write(change(key, Set(("latest",), 6), when=(Lacks(("ids",), "a"),))), Accepted)


@pytest.mark.parametrize("test", [*HOLD[:3], *FAIL[:3], Present(("key",)), Below(("latest",), 9)], ids=repr)
def test_i9_a_change_of_a_missing_row_is_refused_without_a_row_and_creates_nothing(
    backend: Backend, key: str, test: Test
) -> None:
    refs = backend.refs()
    assert refs.write(change(key, Set(("latest",), 6), when=(test,))) == Rejected(None)
    assert refs.read(key) is None


@pytest.mark.parametrize("test", [Absent(("latest",)), Lacks(("ids",), "a")], ids=repr)
def test_i9_a_change_whose_clauses_hold_where_nothing_is_still_makes_no_row(
    service: Backend, key: str, test: Test
) -> None:
    """A caller's mistake (the clauses of a Change must imply a row) must not leave half a row
    behind."""
    refs = service.refs()
    assert refs.write(change(key, Set(("latest",), 6), when=(test,))) == Rejected(None)
    assert refs.read(key) is None
