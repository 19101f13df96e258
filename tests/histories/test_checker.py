"""The checker accepts possible histories and finds impossible ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.histories.check import Operation, judge, needs_go

pytestmark = needs_go


def at(call: int, returned: int, op: str = "commit", **more: Any) -> Operation:
    return Operation(client=call % 7, table=more.pop("table", "t"), op=op, call=call, returned=returned, **more)


def won(call: int, returned: int, version: int, txn: str, got: int = 0) -> Operation:
    return at(call, returned, version=version, txn=txn, result="ok", got=got or version)


def read(call: int, returned: int, latest: int, last: str) -> Operation:
    return at(call, returned, "load", result="ok", got=latest, last=last)


def lost(call: int, returned: int, version: int, txn: str, latest: int) -> Operation:
    return at(call, returned, version=version, txn=txn, result="conflict", got=latest)


GOOD = {
    "in order": [won(1, 2, 1, "a"), read(3, 4, 1, "a"), won(5, 6, 2, "b"), read(7, 8, 2, "b")],
    "a read beside a commit sees either": [won(1, 9, 1, "a"), read(2, 3, 0, ""), read(4, 5, 1, "a")],
    "one of two wins": [won(1, 5, 1, "a"), lost(2, 6, 1, "b", 1)],
    "a replay": [won(1, 2, 1, "a"), won(3, 4, 2, "b"), won(5, 6, 1, "a")],
    "tickets": [won(1, 9, 0, "a", 2), won(2, 8, 0, "b", 1), read(10, 11, 2, "a")],
    "an unknown one that happened": [at(1, 0, version=1, txn="a"), read(5, 6, 1, "a"), won(7, 8, 1, "a")],
    "an unknown one that never happened": [at(1, 0, version=1, txn="a"), won(5, 6, 1, "b"), lost(7, 8, 1, "a", 1)],
    "tables are independent": [won(1, 2, 1, "a"), at(3, 4, version=1, txn="a", result="ok", got=1, table="u")],
}
BAD = {
    "I2: a double win": [won(1, 2, 1, "a"), won(3, 4, 1, "b")],
    "I2: a double win at the same time": [won(1, 9, 1, "a"), won(2, 8, 1, "b")],
    "I6: a stale read": [won(1, 2, 1, "a"), won(3, 4, 2, "b"), read(5, 6, 1, "a")],
    "I6: latest goes back": [won(1, 9, 1, "a"), read(2, 3, 1, "a"), read(4, 5, 0, "")],
    "I1: a gap": [won(1, 2, 1, "a"), won(3, 4, 3, "b")],
    "I3: one transaction twice": [won(1, 2, 0, "a", 1), won(3, 4, 0, "a", 2), read(5, 6, 2, "a")],
    "I3: a conflict for an accepted commit": [won(1, 2, 1, "a"), lost(3, 4, 1, "a", 1)],
    "I3: refused, and there afterwards": [won(1, 2, 1, "b"), lost(3, 4, 2, "a", 2), read(5, 6, 2, "a")],
    "I6: somebody else's commit is shown": [won(1, 2, 1, "a"), read(3, 4, 1, "b")],
}


@pytest.mark.parametrize("name", GOOD)
def test_i1_i2_i3_i6_what_may_happen_is_accepted(name: str) -> None:
    judgement = judge(GOOD[name])
    assert judgement.linearizable, judgement.said


@pytest.mark.parametrize("name", BAD)
def test_i1_i2_i3_i6_what_may_not_happen_is_found(name: str) -> None:
    assert not judge(BAD[name]).linearizable
