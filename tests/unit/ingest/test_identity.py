"""Identities of requests with rows, the order of a producer's requests, and memory for rows."""

from __future__ import annotations

import itertools

import pytest

from tests.support.fakes.rows import RowLake, row_lake
from turnstile.ingest.budget import ByteBudget
from turnstile.ingest.core.errors import shown
from turnstile.ingest.core.identity import Identity, identity_of, sequence_passed
from turnstile.ingest.sequences import Sequences
from turnstile.store.core.errors import InvalidRequest, Throttled
from turnstile_rows.commits import ProducerTxn

KEY = "0197c9a0-0000-7000-8000-00000000000a"


def test_i26_requests_have_one_identity_only_where_principal_and_key_or_producer_and_sequence_are_the_same() -> None:
    given = [
        identity_of("ann", KEY, None, None),
        identity_of("bob", KEY, None, None),
        identity_of("ann", KEY.replace("a", "b"), None, None),
        identity_of("ann", None, "p", "1"),
        identity_of("ann", None, "p", "2"),
        identity_of("ann", None, "p1", "1"),
        identity_of("bob", None, "p", "1"),
        identity_of("ann", None, KEY, "1"),
        identity_of("ann,p", None, "p", "1"),
    ]
    for one, other in itertools.combinations(given, 2):
        assert one.txn != other.txn
    assert identity_of("ann", KEY.upper(), None, None) == given[0]
    assert identity_of("ann", None, "p", "01") == given[3]
    assert identity_of("ann", None, None, None) == Identity()


def test_an_identity_is_the_same_in_every_release() -> None:
    assert identity_of("ann", KEY, None, None).txn == "aa1b093b-5e23-5727-b4fe-1527ed194393"
    assert identity_of("ann", None, "till-1", "7").txn == "806f567d-0c2d-51c1-9efc-cdd847bada6d"


@pytest.mark.parametrize(
    ("key", "producer", "sequence", "field"),
    [
        (None, "p", None, "Turnstile-Sequence"),
        (None, None, "1", "Turnstile-Producer"),
        (KEY, "p", "1", "Idempotency-Key"),
        (None, "", "1", "Turnstile-Producer"),
        (None, "p" * 201, "1", "Turnstile-Producer"),
        (None, "p\x00", "1", "Turnstile-Producer"),
        (None, "p", "", "Turnstile-Sequence"),
        (None, "p", "-1", "Turnstile-Sequence"),
        (None, "p", "1.0", "Turnstile-Sequence"),
        (None, "p", "١", "Turnstile-Sequence"),
        (None, "p", str(2**63), "Turnstile-Sequence"),
        (None, "p", "9" * 5000, "Turnstile-Sequence"),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    key: str | None, producer: str | None, sequence: str | None, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        identity_of("ann", key, producer, sequence)
    assert caught.value.field == field


def test_a_sequence_is_passed_by_the_same_or_a_later_one() -> None:
    assert identity_of("ann", None, "é" * 200, str(2**63 - 1)).producer == ProducerTxn("é" * 200, 2**63 - 1)
    assert sequence_passed(ProducerTxn("p", 6), 5) is None
    for sequence in (5, 4):
        refused = sequence_passed(ProducerTxn("p", sequence), 5)
        assert refused is not None and refused.details["last"] == 5


def produce(lake: RowLake, sequence: int) -> None:
    answer = lake.send([{"id": sequence}], Turnstile_Producer="till-1", Turnstile_Sequence=str(sequence))
    assert answer.status == 200, answer.text


@pytest.mark.parametrize("is_published", [False, True])
def test_the_last_sequence_is_found_in_the_commit_that_recorded_it(is_published: bool) -> None:
    lake = row_lake()
    produce(lake, 4)
    produce(lake, 9)
    if is_published:
        lake.lake.publish()
    sequences = Sequences(lake.world)
    assert sequences.last_of(lake.lake.head, "till-1") == 9
    assert sequences.last_of(lake.lake.head, "till-2") is None
    lake.lake.forget_requests()
    assert sequences.last_of(lake.lake.head, "till-1") == 9
    assert lake.world.storages.requests == []
    produce(lake, 11)
    assert sequences.last_of(lake.lake.head, "till-1") == 11


def test_a_producer_whose_commit_was_removed_from_the_log_has_no_last_sequence() -> None:
    lake = row_lake()
    produce(lake, 4)
    lake.lake.publish()
    lake.evict(1)
    for name in [name for name in lake.world.storages.files if name.endswith(f"{1:020d}.json")]:
        del lake.world.storages.files[name]
    assert Sequences(lake.world).last_of(lake.lake.head, "till-1") is None


# -- memory ------------------------------------------------------------------------------------------------------------


def test_i12_bytes_are_limited_for_all_and_for_each_principal_and_given_back() -> None:
    budget = ByteBudget(100, 60)
    with budget.share_of("ann") as ann:
        ann.grow(50)
        ann.grow(60)
        ann.grow(10)
        with pytest.raises(Throttled), budget.share_of("ann") as other:
            other.grow(1)
        with budget.share_of("bob") as bob:
            bob.grow(40)
            with pytest.raises(Throttled):
                bob.grow(41)
    with budget.share_of("ann") as ann:
        ann.grow(60)
    budget.take("bob", 60)
    with pytest.raises(Throttled):
        budget.take("ann", 41)
    budget.give_back("bob", 60)
    budget.take("ann", 60)
    with pytest.raises(Throttled):
        budget.take("ann", 1)


def test_bytes_are_given_back_also_after_an_error() -> None:
    budget = ByteBudget(10, 10)
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"), budget.share_of("ann") as share:
            share.grow(10)
            raise ValueError("bad")


def test_a_value_is_shown_in_few_characters() -> None:
    assert shown("x" * 1000) == "'" + "x" * 58 + "…"
    assert shown(10**5000) == "a number of 16610 bits"
    assert shown(7) == "7"
    assert shown(True) == "True"
