"""Rows of a newer format: no backend reads a meaning into them, and no write changes them (I22)."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import NewerFormat
from turnstile.store.core.writes import FORMAT, KNOWN, Check, Equals, Erase, Insert, Set, Write
from turnstile.store.ports import Accepted, AllAccepted, Rejected


def writes(key: str) -> list[Write]:
    """One of each kind, whose own clauses hold."""
    return [change(key, Set(("latest",), 6)), Erase(key, ()), Check(key, ()), Insert(head_row(key, latest=6), ())]


@pytest.mark.parametrize("kind", range(4), ids=("change", "erase", "check", "insert"))
def test_i22_a_row_of_a_newer_format_refuses_every_write_and_stays(backend: Backend, key: str, kind: int) -> None:
    refs = backend.refs()
    newer = stored(refs, head_row(key, format=KNOWN + 1))
    with pytest.raises(NewerFormat) as refusal:
        refs.write(writes(key)[kind])
    assert refusal.value.details == {"row": key, "format": KNOWN + 1, "known": KNOWN}
    with pytest.raises(NewerFormat):
        refs.transact([writes(key)[kind]], fresh_key())
    assert refs.read(key) == newer


def test_i22_a_transaction_with_a_row_of_a_newer_format_changes_nothing(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key(), fresh_key()]
    before = [stored(refs, head_row(keys[0])), stored(refs, head_row(keys[1], format=KNOWN + 1))]
    with pytest.raises(NewerFormat, match=keys[1]):
        refs.transact([change(each, Set(("latest",), 6)) for each in keys], fresh_key())
    assert [refs.read(each) for each in keys] == before


def test_i22_a_newer_row_is_read_and_scanned_as_it_is_and_refused_where_it_is_parsed(
    backend: Backend, key: str
) -> None:
    refs = backend.refs()
    newer = stored(refs, head_row(key, format=KNOWN + 1))
    assert refs.read_many([key]) == refs.read_cut([key]) == {key: newer}
    assert newer in list(refs.scan("table"))
    with pytest.raises(NewerFormat):
        TableHead.from_row(newer)


def test_i22_a_write_raises_the_format_and_the_next_one_by_old_code_is_refused(backend: Backend, key: str) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key, format=KNOWN))
    raised = refs.write(change(key, Set(FORMAT, KNOWN + 1), when=(Equals(("latest",), 5),)))
    assert raised == Accepted(before | {"format": KNOWN + 1})
    with pytest.raises(NewerFormat):
        refs.write(change(key, Set(FORMAT, KNOWN)))
    assert refs.read(key) == before | {"format": KNOWN + 1}


def test_i22_a_row_of_a_known_format_is_refused_by_its_own_clauses_only(backend: Backend, key: str) -> None:
    refs = backend.refs()
    before = stored(refs, head_row(key, format=KNOWN))
    assert refs.write(change(key, Set(("latest",), 6), when=(Equals(("latest",), 4),))) == Rejected(before)
    assert refs.transact([change(key, Set(("latest",), 6))], fresh_key()) == AllAccepted()
    assert refs.write(Erase(key, ())) == Accepted(None)
