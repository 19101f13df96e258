"""Limits of the service on rows: met with a clear refusal, nothing half done. The fake has none of
these; those on objs and on the writes of a transaction, which it has, are in ``test_large_objs``
and ``test_refs_transactions``."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend, Counter, known_gap
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.store.core.errors import TooLarge
from turnstile.store.core.writes import Append, Equals, Insert, Present, Set, new_row
from turnstile.store.ports import Accepted, AllAccepted, Obj

KB = 1024


def test_i2_a_row_just_under_400_kb_is_stored_and_one_over_it_is_refused(service: Backend, key: str) -> None:
    refs = service.refs()
    fits = head_row(key, tail=[bytes(398 * KB)])
    assert refs.write(Insert(fits, (new_row("I2"),))) == Accepted(fits)
    other = fresh_key()
    with pytest.raises(TooLarge):
        refs.write(Insert(head_row(other, tail=[bytes(400 * KB)]), (new_row("I2"),)))
    assert refs.read(other) is None


def test_i2_a_change_that_would_make_the_row_too_large_changes_nothing(service: Backend, key: str) -> None:
    refs = service.refs()
    before = stored(refs, head_row(key, tail=[bytes(300 * KB)]))
    with pytest.raises(TooLarge):
        refs.write(change(key, Set(("latest",), 6), Append(("tail",), (bytes(110 * KB),)), when=(Present(("key",)),)))
    assert refs.read(key) == before


def test_i8_a_row_too_large_anywhere_refuses_the_whole_transaction(service: Backend) -> None:
    refs = service.refs()
    keys = [fresh_key(), fresh_key()]
    for key in keys:
        stored(refs, head_row(key, tail=[bytes(300 * KB)]))
    grow = [
        change(keys[0], Set(("latest",), 6), when=(Present(("key",)),)),
        change(keys[1], Append(("tail",), (bytes(110 * KB),)), when=(Present(("key",)),)),
    ]
    with pytest.raises((TooLarge, ValueError)):
        refs.transact(grow, keys[0])
    assert [row["latest"] for row in refs.read_many(keys).values()] == [5, 5]


def _megabytes(keys: list[str]) -> list[Insert]:
    return [Insert(head_row(key, tail=[bytes(380 * KB)]), (new_row("I2"),)) for key in keys]


def test_i8_a_transaction_over_4_mb_is_refused_whole(service: Backend) -> None:
    refs = service.refs()
    keys = [fresh_key() for _ in range(12)]
    with pytest.raises((TooLarge, ValueError)):
        refs.transact(_megabytes(keys), keys[0])
    assert refs.read(keys[0]) is None


def test_i8_a_transaction_just_under_4_mb_is_applied(request: pytest.FixtureRequest, service: Backend) -> None:
    known_gap(request, service, ministack="counts binary values by their base64 text, a third too long")
    refs = service.refs()
    keys = [fresh_key() for _ in range(10)]
    assert refs.transact(_megabytes(keys), keys[0]) == AllAccepted()


def test_i9_a_listing_longer_than_a_page_of_1_mb_is_complete(service: Backend, space: str) -> None:
    sent = Counter()
    objs = service.objs(sent)
    wanted = [Obj(space, f"segment/{number:03d}", "segment", bytes([number]) * 100 * KB, 1) for number in range(25)]
    objs.put_many(wanted)
    del sent.sent[:]
    assert list(objs.list(space, "segment/")) == wanted
    assert sent.operations == ["query"] * 3


def test_i11_a_scan_longer_than_a_page_of_1_mb_is_complete(service: Backend) -> None:
    refs = service.refs()
    keys = [stored(refs, head_row(fresh_key(), tail=[bytes(350 * KB)]))["key"] for _ in range(4)]
    assert set(keys) <= {row["key"] for row in refs.scan("table")}


def test_i2_the_longest_key_of_2_kb_can_be_written_and_read(service: Backend) -> None:
    refs = service.refs()
    key = fresh_key("location")
    key += "/" + "x" * (2048 - len(key) - 1)
    row = {"key": key, "kind": "location", "table_id": "t", "catalog": "main", "below": 0, "created": 1}
    assert refs.write(Insert(row, (new_row("I10"),))) == Accepted(row)
    assert refs.write(change(key, Set(("table_id",), ""), when=(Equals(("table_id",), "t"),))).row is not None
