"""Transactions: all or none (I8), with the reason and the row for every write that was refused."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend
from tests.support.store.rows import change, clause, fresh_key, head_row, stored
from turnstile.store.core.writes import Change, Check, Equals, Erase, Insert, Present, Set, SetSum, Write, new_row
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Refs, Rejected, SomeRejected

AT_5 = Equals(("latest",), 5)


def _step(key: str, version: int = 6) -> Change:
    return change(key, Set(("latest",), version), when=(AT_5,))


def _latest(refs: Refs, key: str) -> int | None:
    row = refs.read(key)
    return None if row is None else int(row["latest"])


def test_i8_changes_inserts_erasures_and_checks_are_applied_together(backend: Backend) -> None:
    refs = backend.refs()
    (one, two, gone, watched) = [fresh_key() for _ in range(4)]
    for key in (one, gone, watched):
        stored(refs, head_row(key))
    writes: list[Write] = [
        _step(one),
        Insert(head_row(two), (new_row("I2"),)),
        Erase(gone, (clause(AT_5),)),
        Check(watched, (clause(AT_5),)),
    ]
    assert refs.transact(writes, one) == AllAccepted()
    assert refs.read(one) == head_row(one, latest=6)
    assert refs.read(two) == head_row(two)
    assert refs.read(gone) is None
    assert refs.read(watched) == head_row(watched)


@pytest.mark.parametrize("bad", range(4))
def test_i8_one_refused_write_of_any_kind_leaves_every_row_as_it_was(backend: Backend, bad: int) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(4)]
    rows = {key: stored(refs, head_row(key)) for key in (keys[0], keys[2], keys[3])}
    wrong = clause(Equals(("latest",), 4))
    right = clause(AT_5)
    writes: list[Write] = [
        Change(keys[0], (wrong if bad == 0 else right,), (Set(("latest",), 6),)),
        Insert(head_row(keys[1]), (clause(Present(("key",))) if bad == 1 else new_row("I2"),)),
        Erase(keys[2], (wrong if bad == 2 else right,)),
        Check(keys[3], (wrong if bad == 3 else right,)),
    ]
    assert refs.transact(writes, keys[0]) == SomeRejected({bad: rows.get(keys[bad])})
    assert [refs.read(key) for key in keys] == [rows.get(key) for key in keys]


def test_i8_all_refused_writes_are_named_with_the_rows_they_were_judged_on(backend: Backend) -> None:
    refs = backend.refs()
    (one, two, none) = [fresh_key() for _ in range(3)]
    moved = stored(refs, head_row(one, latest=9, ids={"winner"}))
    stored(refs, head_row(two))
    answer = refs.transact([_step(one), _step(two), _step(none)], one)
    assert answer == SomeRejected({0: moved, 2: None})


def test_i3_a_transaction_sent_again_with_its_token_is_applied_once(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    writes = [change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),))]
    assert refs.transact(writes, f"{key}-token") == AllAccepted()
    assert refs.transact(writes, f"{key}-token") == AllAccepted()
    assert _latest(refs, key) == 6
    assert refs.transact(writes, f"{key}-another") == AllAccepted()
    assert _latest(refs, key) == 7


def test_i3_tokens_of_any_length_are_distinguished(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    writes = [change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),))]
    for token in ("x" * 200 + key, "x" * 201 + key):
        assert refs.transact(writes, token) == AllAccepted()
    assert _latest(refs, key) == 7


def test_i3_a_refused_transaction_may_be_sent_again_under_its_token_when_its_clauses_hold(
    backend: Backend, key: str
) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, latest=4))
    assert refs.transact([_step(key)], key) == SomeRejected({0: head_row(key, latest=4)})
    refs.write(change(key, Set(("latest",), 5), when=(Present(("key",)),)))
    assert refs.transact([_step(key)], key) == AllAccepted()
    assert _latest(refs, key) == 6


def test_i3_a_token_cannot_be_used_for_other_writes(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    assert refs.transact([_step(key)], key) == AllAccepted()
    with pytest.raises(ValueError, match="IdempotentParameterMismatch"):
        refs.transact([change(key, Set(("latest",), 7), when=(Equals(("latest",), 6),))], key)
    assert _latest(refs, key) == 6


def test_i8_a_transaction_has_at_most_one_write_for_a_row(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    with pytest.raises(ValueError, match="multiple operations"):
        refs.transact([_step(key), Check(key, (clause(AT_5),))], key)
    assert _latest(refs, key) == 5


def test_i8_a_hundred_tables_fit_one_transaction(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(100)]
    assert refs.transact([Insert(head_row(key), (new_row("I2"),)) for key in keys], keys[0]) == AllAccepted()
    assert refs.transact([_step(key) for key in keys], keys[1]) == AllAccepted()
    assert {row["latest"] for row in refs.read_many(keys).values()} == {6}


def test_i8_a_transaction_takes_as_many_writes_as_the_store_says_and_no_more(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(refs.transact_max + 1)]
    inserts = [Insert(head_row(key), (new_row("I2"),)) for key in keys]
    with pytest.raises(ValueError, match="transact_write_items"):
        refs.transact(inserts, keys[0])
    assert refs.transact_max >= TRANSACT_MAX and refs.read_many(keys) == {}
    assert refs.transact(inserts[:-1], keys[1]) == AllAccepted()
    assert len(refs.read_many(keys)) == refs.transact_max


def test_i9_a_check_alone_is_judged_like_any_write(backend: Backend, key: str) -> None:
    refs = backend.refs()
    assert refs.write(Check(key, (clause(Present(("key",))),))) == Rejected(None)
    row = stored(refs, head_row(key))
    assert isinstance(refs.write(Check(key, (clause(AT_5),))), Accepted)
    assert refs.write(Check(key, (clause(Equals(("latest",), 4)),))) == Rejected(row)
