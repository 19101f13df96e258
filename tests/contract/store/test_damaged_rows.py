"""A damaged row is reported under its key, and keeps no other from being read; it is never taken
for one that is not there (I10)."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import NewerFormat, UnreadableRow
from turnstile.store.core.rows import is_damaged
from turnstile.store.core.writes import FORMAT, KNOWN, Equals, Set


def damaged_between(backend: Backend) -> tuple[str, str, str]:
    """Keys of three tables, ascending; the row of the second is damaged."""
    refs = backend.refs()
    keys = tuple(fresh_key() for _ in range(3))
    for key in keys:
        stored(refs, head_row(key))
    backend.damage(keys[1])
    return keys  # type: ignore[return-value]


def test_i10_a_scan_shows_a_damaged_row_under_its_key_and_goes_on(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    found = {row["key"]: row for row in refs.scan("table") if row["key"] in keys}
    assert set(found) == set(keys)
    assert [is_damaged(found[key]) for key in keys] == [False, True, False]
    assert found[keys[1]]["kind"] == "table"
    with pytest.raises(UnreadableRow, match=keys[1]):
        TableHead.from_row(found[keys[1]])


def test_i10_a_part_of_a_scan_does_too(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    after = ""
    found = {}
    while True:
        rows, after = refs.scan_part(["table"], after=after, limit=100)
        found |= {row["key"]: row for row in rows if row["key"] in keys}
        if not after:
            break
    assert [is_damaged(found[key]) for key in keys] == [False, True, False]


def test_i10_several_rows_are_read_with_the_damaged_one_among_them(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    found = refs.read_many(list(keys))
    assert [is_damaged(found[key]) for key in keys] == [False, True, False]


def test_i10_a_damaged_row_alone_is_refused_by_its_key(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    with pytest.raises(UnreadableRow, match=keys[1]) as refusal:
        refs.read(keys[1])
    assert refusal.value.details == {"row": keys[1]} and refusal.value.remedy
    with pytest.raises(UnreadableRow, match=keys[1]):
        refs.read_cut([keys[0], keys[1]])
    assert refs.read(keys[0]) == head_row(keys[0])


def test_i10_a_write_that_a_damaged_row_refuses_says_so_and_changes_nothing(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    write = change(keys[1], Set(("latest",), 9), when=(Equals(("latest",), 1_000_000),))
    with pytest.raises(UnreadableRow, match=keys[1]):
        refs.write(write)
    other = change(keys[0], Set(("latest",), 9))
    with pytest.raises(UnreadableRow, match=keys[1]):
        refs.transact([other, write], fresh_key())
    assert refs.read(keys[0]) == head_row(keys[0])


def test_i10_a_damaged_row_is_replaced_and_no_other(backend: Backend) -> None:
    keys = damaged_between(backend)
    refs = backend.refs()
    assert refs.read_damaged(TableHead, fresh_key()) is None
    assert refs.read_damaged(TableHead, keys[0]) is None
    content = refs.read_damaged(TableHead, keys[1])
    assert content is not None
    assert not refs.replace_damaged(head_row(keys[0]) | {"latest": 77}, content)
    assert refs.read(keys[0]) == head_row(keys[0])
    assert refs.replace_damaged(head_row(keys[1]), content), "of two that replace it, one does"
    assert not refs.replace_damaged(head_row(keys[1]) | {"latest": 77}, content)
    assert refs.read(keys[1]) == head_row(keys[1])


def test_i22_a_row_of_a_newer_format_is_not_replaced(backend: Backend) -> None:
    refs = backend.refs()
    key = fresh_key()
    stored(refs, head_row(key) | {FORMAT[0]: KNOWN + 1})
    with pytest.raises(NewerFormat, match=key):
        refs.read_damaged(TableHead, key)
