"""Cuts: several rows as of one moment (I8), while other writers change them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar

import pytest

from tests.support.store.backends import Backend, Counter
from tests.support.store.rows import change, fresh_key, head_row, stored
from tests.support.threads import together
from turnstile.store.core.errors import Throttled
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.writes import Erase, Insert, Present, Set, SetSum, Write, new_row
from turnstile.store.ports import AllAccepted

ROWS = 5
CUTTING = 3
"""Threads that take cuts while others write."""

DIFFERENT = 5
"""States that each of them sees before it ends."""

T = TypeVar("T", bound=Hashable)


def _cuts(write: Callable[[str], None], cut: Callable[[], T], writing: int) -> list[list[T]]:
    """What the threads that call ``cut`` saw, each in order, while ``writing`` others call
    ``write`` with a token of its own each time. What was put off to the deadline, as services do
    where so many touch the same rows, is done again."""
    ended: list[int] = []

    def work(thread: int) -> list[T]:
        shown: list[T] = []
        if thread < CUTTING:
            try:
                while len(set(shown)) < DIFFERENT or len(shown) < 20:
                    with suppress(Throttled):
                        shown.append(cut())
            finally:
                ended.append(thread)
        elif thread < CUTTING + writing:
            for turn in itertools.count():
                if len(ended) == CUTTING:
                    break
                with suppress(Throttled):
                    write(f"{thread}-{turn}")
        return shown

    return together(work)[:CUTTING]


def test_i8_a_cut_during_transactions_never_shows_one_of_them_in_some_rows_only(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(ROWS)]
    for key in keys:
        stored(refs, head_row(key))

    def write(token: str) -> None:
        steps = [change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),)) for key in keys]
        assert refs.transact(steps, f"{keys[0]}-{token}") == AllAccepted()

    def cut() -> int:
        rows = refs.read_cut(keys)
        assert rows.keys() == set(keys)
        (version,) = {int(row["latest"]) for row in rows.values()}
        return version

    cuts = _cuts(write, cut, writing=2)
    assert all(shown == sorted(shown) for shown in cuts), "a later cut shows at least as much (I6)"


def test_i8_a_cut_shows_rows_that_came_and_went_together_or_not_at_all(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(2)]
    applied = list[str]()
    stored(refs, head_row(keys[0], latest=0))

    def write(token: str) -> None:
        old = keys[len(applied) % 2]
        new = keys[(len(applied) + 1) % 2]
        writes: list[Write] = [Erase(old, ()), Insert(head_row(new, latest=len(applied) + 1), (new_row("I2"),))]
        assert refs.transact(writes, f"{keys[0]}-{token}") == AllAccepted()
        applied.append(token)

    def cut() -> int:
        ((key, row),) = refs.read_cut(keys).items()
        assert key == keys[row["latest"] % 2]
        return int(row["latest"])

    assert all(shown == sorted(shown) for shown in _cuts(write, cut, writing=1))


def test_i6_a_cut_shows_every_write_that_was_answered_before_it(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(3)]
    for key in keys:
        stored(refs, head_row(key))
    for version in range(6, 20):
        refs.write(change(keys[version % 3], Set(("latest",), version), when=(Present(("key",)),)))
        assert refs.read_cut(keys)[keys[version % 3]]["latest"] == version
    assert refs.read_cut(keys) == refs.read_many(keys)


@pytest.mark.parametrize("rows", [1, 10, 100])
def test_i8_a_cut_is_one_request_and_leaves_missing_rows_out(backend: Backend, rows: int) -> None:
    sent = Counter()
    refs = backend.refs(sent)
    keys = [fresh_key() for _ in range(rows)]
    present = keys[: (rows + 1) // 2]
    for key in present:
        stored(refs, head_row(key))
    del sent.sent[:]
    assert refs.read_cut(keys) == {key: head_row(key) for key in present}
    assert sent.operations == (["transact_get_items"] if backend.real else [])


def test_i8_a_hundred_full_heads_fit_one_cut(backend: Backend) -> None:
    """3.3 MB; a request that reads at one moment may return 4."""
    refs = backend.refs()
    keys = [fresh_key() for _ in range(100)]
    for key in keys:
        stored(refs, head_row(key, tail=[bytes(ROW_BUDGET)]))
    rows = refs.read_cut(keys)
    assert rows.keys() == set(keys)
    assert {len(row["tail"][0]) for row in rows.values()} == {ROW_BUDGET}


def test_i8_more_than_a_hundred_rows_are_no_cut_and_nothing_is_asked(backend: Backend) -> None:
    sent = Counter()
    refs = backend.refs(sent)
    keys = [fresh_key() for _ in range(101)]
    with pytest.raises(ValueError, match="101 keys are more than 100"):
        refs.read_cut(keys)
    assert sent.operations == []
    assert refs.read_cut(keys[:100] * 2) == {}, "a key that is given twice counts once"


def test_i8_a_cut_of_no_row_is_empty_and_one_row_may_be_named_twice(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    assert refs.read_cut([]) == {}
    assert refs.read_cut([key, key]) == {key: head_row(key)}
