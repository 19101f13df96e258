"""Capacity units of each operation. Sources: DynamoDB, "Read and write operations",
"Transactions"."""

from __future__ import annotations

import pytest

from tests.support.store.backends import Backend, Counter, known_gap
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.store.core.writes import Equals, Present, Set
from turnstile.store.ports import Obj

KB = 1024


def _sized(key: str, kilobytes: int) -> dict[str, object]:
    """A row a little smaller than so many kB."""
    return head_row(key, tail=[bytes(kilobytes * KB - 600)])


@pytest.mark.parametrize("kilobytes", [1, 2, 9, 33])
def test_i11_a_write_costs_a_unit_for_every_kb_of_the_whole_row(service: Backend, key: str, kilobytes: int) -> None:
    sent = Counter()
    refs = service.refs(sent)
    stored(refs, _sized(key, kilobytes))
    refs.write(change(key, Set(("latest",), 6), when=(Equals(("latest",), 5),)))
    assert sent.sent == [("put_item", kilobytes), ("update_item", kilobytes)]


def test_i11_a_refused_write_is_one_request_too(service: Backend, key: str) -> None:
    """The service charges it like an accepted one but does not say so in its answer."""
    sent = Counter()
    refs = service.refs(sent)
    stored(refs, _sized(key, 2))
    refs.write(change(key, Set(("latest",), 6), when=(Equals(("latest",), 4),)))
    assert sent.sent == [("put_item", 2), ("update_item", None)]


@pytest.mark.parametrize("rows", [1, 3])
def test_i8_a_transaction_costs_twice(service: Backend, rows: int) -> None:
    sent = Counter()
    keys = [fresh_key() for _ in range(rows)]
    refs = service.refs(sent)
    for key in keys:
        stored(refs, _sized(key, 3))
    del sent.sent[:]
    refs.transact([change(key, Set(("latest",), 6), when=(Present(("key",)),)) for key in keys], keys[0])
    assert sent.sent == [("transact_write_items", 6 * rows)]


def test_i6_a_consistent_read_costs_a_unit_for_every_4_kb(
    request: pytest.FixtureRequest, service: Backend, key: str
) -> None:
    known_gap(request, service, ministack="reports one unit for every read")
    sent = Counter()
    refs = service.refs(sent)
    stored(refs, _sized(key, 9))
    del sent.sent[:]
    refs.read(key)
    refs.read_many([key])
    assert sent.sent == [("get_item", 3), ("batch_get_item", 3)]


@pytest.mark.parametrize("rows", [1, 3])
def test_i8_a_cut_costs_two_units_for_every_4_kb(request: pytest.FixtureRequest, service: Backend, rows: int) -> None:
    known_gap(request, service, ministack="reports two units for every row")
    sent = Counter()
    keys = [fresh_key() for _ in range(rows)]
    refs = service.refs(sent)
    for key in keys:
        stored(refs, _sized(key, 9))
    del sent.sent[:]
    assert len(refs.read_cut(keys)) == rows
    assert sent.sent == [("transact_get_items", 6 * rows)]


def test_i3_an_identity_costs_one_unit(service: Backend, space: str) -> None:
    sent = Counter()
    service.objs(sent).put_many([Obj(space, f"identity/{number}", "identity", b"1", 1) for number in range(10)])
    assert sent.sent == [("batch_write_item", 10)]
