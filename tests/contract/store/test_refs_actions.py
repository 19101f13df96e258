"""Actions: what a write changes, and that every action sees the values from before the write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store.backends import Backend
from tests.support.store.rows import change, clause, head_row, stored
from turnstile.store.core.writes import (
    Action,
    Append,
    Drop,
    Equals,
    Erase,
    Exclude,
    Include,
    Insert,
    Row,
    Set,
    SetSum,
    new_row,
)
from turnstile.store.ports import Accepted, Rejected

STORED = {"tail": [b"zero", b"one"], "ids": {"a", "b"}, "apps": {"one": 1, "two": 2}, "row_hwm": 7, "pending": 5}

CASES: list[tuple[tuple[Action, ...], dict[str, Any], tuple[str, ...]]] = [
    ((Set(("latest",), 6),), {"latest": 6}, ()),
    ((Set(("metadata",), "m1"), Set(("managed",), False)), {"metadata": "m1", "managed": False}, ()),
    ((Set(("tail",), [b"x"]),), {"tail": [b"x"]}, ()),
    ((Set(("tail", 1), b""),), {"tail": [b"zero", b""]}, ()),
    ((Set(("apps", "two"), 9),), {"apps": {"one": 1, "two": 9}}, ()),
    ((Set(("apps", "three"), 3),), {"apps": {"one": 1, "two": 2, "three": 3}}, ()),
    ((Set(("apps",), {}),), {"apps": {}}, ()),
    ((SetSum(("latest",), ("latest",), 1),), {"latest": 6}, ()),
    ((SetSum(("bytes",), ("bytes",), -3),), {"bytes": -3}, ()),
    ((SetSum(("pending",), ("latest",), 1), Set(("latest",), 90)), {"pending": 6, "latest": 90}, ()),
    ((SetSum(("apps", "new"), ("latest",), 1),), {"apps": {"one": 1, "two": 2, "new": 6}}, ()),
    ((Append(("tail",), (b"two", b"three")),), {"tail": [b"zero", b"one", b"two", b"three"]}, ()),
    ((Include(("ids",), frozenset({"b", "c"})),), {"ids": {"a", "b", "c"}}, ()),
    ((Exclude(("ids",), frozenset({"b", "c"})),), {"ids": {"a"}}, ()),
    ((Exclude(("ids",), frozenset({"a", "b"})),), {}, ("ids",)),
    ((Drop(("pending",)),), {}, ("pending",)),
    ((Drop(("reason",)),), {}, ()),
    ((Drop(("tail", 0)),), {"tail": [b"one"]}, ()),
    ((Drop(("apps", "one")), Drop(("apps", "none"))), {"apps": {"two": 2}}, ()),
    (
        (
            SetSum(("latest",), ("latest",), 1),
            SetSum(("pending",), ("latest",), 1),
            Append(("tail",), (b"two",)),
            Include(("ids",), frozenset({"c"})),
            SetSum(("bytes",), ("bytes",), 30),
            SetSum(("apps", "one"), ("latest",), 1),
            Drop(("row_hwm",)),
        ),
        {
            "latest": 6,
            "pending": 6,
            "tail": [b"zero", b"one", b"two"],
            "ids": {"a", "b", "c"},
            "bytes": 30,
            "apps": {"one": 6, "two": 2},
        },
        ("row_hwm",),
    ),
]


def _expected(before: Row, changed: dict[str, Any], gone: tuple[str, ...]) -> Row:
    return {name: value for name, value in (before | changed).items() if name not in gone}


@pytest.mark.parametrize(("actions", "changed", "gone"), CASES, ids=lambda case: "")
def test_i2_actions_change_what_they_say_and_nothing_else(
    backend: Backend, key: str, actions: tuple[Action, ...], changed: dict[str, Any], gone: tuple[str, ...]
) -> None:
    refs = backend.refs()
    expected = _expected(stored(refs, head_row(key, **STORED)), changed, gone)
    assert refs.write(change(key, *actions, when=(Equals(("latest",), 5),))) == Accepted(expected)
    assert refs.read(key) == expected


def test_i2_a_set_that_does_not_exist_yet_is_made_by_its_first_member(backend: Backend, key: str) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key))
    included = refs.write(change(key, Include(("ids",), frozenset({"a"})), when=(Equals(("latest",), 5),)))
    assert included == Accepted(before | {"ids": {"a"}})


def test_i2_values_come_back_exactly_as_they_were_written(backend: Backend, key: str) -> None:
    odd = {
        "latest": 2**53 - 1,
        "bytes": -(2**53 - 1),
        "tail": [b"", bytes(range(256)), b"\xff" * 1000],
        "reason": 'ünïcödé \U0001f600 "quoted" \n line',
        "location": "",
        "ids": {"", "ä", "x" * 200},
        "apps": {"a.b": 1, "a b": 2, "#c": 0, ":d": -1},
    }
    refs = backend.refs()
    assert refs.read(stored(refs, head_row(key, **odd))["key"]) == head_row(key, **odd)


def test_i2_a_first_write_is_accepted_once_and_the_second_answers_the_row_that_is_there(
    backend: Backend, key: str
) -> None:
    refs = backend.refs()
    first = head_row(key, latest=1)
    second = head_row(key, latest=2)
    assert refs.write(Insert(first, (new_row("I2"),))) == Accepted(first)
    assert refs.write(Insert(second, (new_row("I2"),))) == Rejected(first)
    assert refs.read(key) == first


def test_i2_an_insert_under_other_clauses_replaces_the_whole_row(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, reason="old"))
    new = head_row(key, latest=9)
    assert refs.write(Insert(new, (clause(Equals(("latest",), 5)),))) == Accepted(new)
    assert refs.read(key) == new


def test_i10_an_erase_removes_the_row_only_under_its_clauses(backend: Backend, key: str) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key))
    assert refs.write(Erase(key, (clause(Equals(("state",), "dropped")),))) == Rejected(before)
    assert refs.write(Erase(key, (clause(Equals(("state",), "active")),))) == Accepted(None)
    assert refs.read(key) is None
    assert refs.write(Erase(key, (clause(Equals(("state",), "active")),))) == Rejected(None)
