"""Reads: consistent, by key or by kind, and blind to other tenants."""

from __future__ import annotations

import pytest

from tests.support.store.backends import REALM, Backend, Counter
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.adapters.machine import SystemClock
from turnstile.api.doctor.damage import KINDS
from turnstile.catalog.core.location_rows import owner_row
from turnstile.catalog.core.rows import new_catalog, new_staging
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Equals, Erase, Row, Set
from turnstile.store.ports import Accepted


def test_i6_a_read_after_a_success_answer_shows_it(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    for version in range(6, 30):
        refs.write(change(key, Set(("latest",), version), when=(Equals(("latest",), version - 1),)))
        row = refs.read(key)
        assert row is not None
        assert row["latest"] == version


def test_i6_several_rows_are_read_in_one_request_and_missing_ones_are_left_out(backend: Backend) -> None:
    sent = Counter()
    refs = backend.refs(sent)
    keys = [fresh_key() for _ in range(100)]
    for key in keys[:3]:
        stored(refs, head_row(key))
    del sent.sent[:]
    assert refs.read_many(keys) == {key: head_row(key) for key in keys[:3]}
    assert sent.operations in ([], ["batch_get_item"])


def test_i6_reading_none_or_the_same_row_twice_is_no_error(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    assert refs.read_many([]) == {}
    assert refs.read_many([key, key]) == {key: head_row(key)}


def test_i6_more_rows_than_fit_one_request_are_read_in_several(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(130)]
    for key in keys:
        stored(refs, head_row(key))
    assert refs.read_many(keys) == {key: head_row(key) for key in keys}


def test_i11_a_scan_finds_every_row_of_its_kind_and_no_other(backend: Backend) -> None:
    refs = backend.refs()
    space = Space(REALM)
    tables = {key: stored(refs, head_row(key)) for key in (fresh_key(), fresh_key())}
    name = fresh_key().rpartition("/")[2]
    staging = new_staging(
        key=space.staging(name),
        table_id=name,
        catalog="main",
        namespace="n",
        name="t",
        location="l",
        creator="me",
        now=1,
    )
    assert isinstance(refs.write(staging), Accepted)
    found = {row["key"]: row for row in refs.scan("table")}
    assert tables.items() <= found.items()
    assert {row["kind"] for row in found.values()} == {"table"}
    assert staging.row in list(refs.scan("staging"))


def test_i22_a_scan_passes_over_rows_of_a_kind_that_no_code_knows_any_more(backend: Backend) -> None:
    """Such as leases of names, which earlier code could write (ADR 16)."""
    refs = backend.refs(realm="former")
    backend.put_foreign("former/lease/n")
    keys = [str(stored(refs, head_row("former/table/n"))["key"])]
    rows, after = refs.scan_part(KINDS, after="", limit=100)
    while after:
        more, after = refs.scan_part(KINDS, after=after, limit=100)
        rows += more
    assert [row["key"] for row in rows] == keys
    assert [row["key"] for kind in KINDS for row in refs.scan(kind)] == keys


def test_a_scan_goes_on_behind_any_key_also_one_whose_row_is_gone(backend: Backend) -> None:
    refs = backend.refs(realm="rounds")
    realm = "rounds/table/"
    for _ in range(6):
        stored(refs, head_row(realm + fresh_key().rpartition("/")[2]))
    order = [row["key"] for row in refs.scan("table")]
    assert [row["key"] for row in refs.scan("table", stale=True)] == order
    for position, key in enumerate(order):
        assert [row["key"] for row in refs.scan("table", after=key)] == order[position + 1 :]
    gone = order[2]
    assert isinstance(refs.write(Erase(gone, ())), Accepted)
    behind = [row["key"] for row in refs.scan("table", after=gone)]
    assert set(order[3:]) <= set(behind), "what is behind it is not left out"


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_i11_parts_of_a_scan_find_every_row_of_its_kind_once(backend: Backend, limit: int) -> None:
    sent = Counter()
    refs = backend.refs(sent, realm=f"parts{limit}")
    realm = f"parts{limit}"
    for _ in range(5):
        name = fresh_key().rpartition("/")[2]
        stored(refs, head_row(f"{realm}/table/{name}"))
        assert isinstance(refs.write(new_catalog(Space(realm).catalog(name), name, "c/1", 1)), Accepted)
    order = [row["key"] for row in refs.scan("table")]
    found = list[str]()
    last = ""
    for _ in range(100_000):
        del sent.sent[:]
        rows, last = refs.scan_part(["table"], after=last, limit=limit)
        assert len(rows) <= limit and len(sent.operations) <= 1
        found += [row["key"] for row in rows]
        if not last:
            break
    assert found == order and len(order) == 5


def test_a_part_of_a_scan_of_every_kind_shows_rows_of_each(backend: Backend) -> None:
    refs = backend.refs(realm="every-kind")
    name = fresh_key().rpartition("/")[2]
    table = stored(refs, head_row(f"every-kind/table/{name}"))
    catalog = new_catalog(Space("every-kind").catalog(name), name, "c/1", 1)
    assert isinstance(refs.write(catalog), Accepted)
    found = list[Row]()
    after = ""
    for _ in range(100_000):
        rows, after = refs.scan_part(KINDS, after=after, limit=100)
        found += [row for row in rows if name in row["key"]]
        if not after:
            break
    assert sorted(found, key=lambda row: str(row["kind"])) == [catalog.row, table]


def test_i12_a_scan_never_shows_another_tenants_rows(backend: Backend, key: str) -> None:
    stored(backend.refs(), head_row(key))
    other = backend.refs(realm="another")
    mine = stored(other, head_row(f"another/table/{key.rpartition('/')[2]}"))
    assert list(other.scan("table")) == [mine] or mine in list(other.scan("table"))
    assert all(row["key"].startswith("another/") for row in other.scan("table"))


def test_i9_rows_of_every_kind_can_be_stored_as_the_core_makes_them(backend: Backend) -> None:
    refs = backend.refs()
    space = Space(REALM)
    name = fresh_key().rpartition("/")[2]
    for insert in (
        new_catalog(space.catalog(name), name, "c/1", 1),
        new_staging(
            key=space.staging(name),
            table_id=name,
            catalog="main",
            namespace="n.m",
            name="t",
            location="file:///lake/x",
            creator="",
            now=1,
        ),
        owner_row(space, f"file:///lake/{name}", name, "main", 1),
        owner_row(space, f"file:///zone/{name}", "", "main", 1),
    ):
        assert refs.write(insert) == Accepted(insert.row)
        assert refs.read(insert.key) == insert.row


def test_the_clock_of_a_service_is_read_from_its_answers(backend: Backend) -> None:
    refs = backend.refs()
    assert refs.clock_ms() is None
    refs.read(fresh_key())
    said_ms = refs.clock_ms()
    assert (said_ms is None) is (not backend.real)
    assert said_ms is None or abs(said_ms - SystemClock().now_ms()) < 60_000
