"""The identity of a request with rows, and the row that remembers it (I26)."""

from __future__ import annotations

from typing import Final

import pytest

from turnstile.ingest.core.identity import (
    KEY,
    PRODUCER,
    SEQUENCE,
    Identity,
    digest_in,
    digest_of,
    identity_of,
    remembering_row,
    txn_in,
)
from turnstile.store.core.errors import InvalidRequest

UUID: Final = "0B0B0B0B-1111-4111-8111-111111111111"


def test_a_key_counts_without_regard_to_case() -> None:
    assert identity_of("ann", UUID, None, None) == identity_of("ann", UUID.lower(), None, None)
    assert identity_of("ann", UUID, None, None).text == f"key/{UUID.lower()}"


def test_a_request_without_headers_has_no_identity() -> None:
    assert identity_of("ann", None, None, None) == Identity("ann")
    assert identity_of("ann", None, None, None).text == ""


def test_a_producer_and_its_number_are_one_identity() -> None:
    one = identity_of("ann", None, "a/1", "2")
    other = identity_of("ann", None, "1", "2")
    assert one.text != other.text
    assert one.text == "producer/2/a/1"


@pytest.mark.parametrize("number", ["0", "1", str(2**63 - 1)])
def test_numbers_of_64_bits_are_taken(number: str) -> None:
    assert identity_of("ann", None, "p", number).sequence == int(number)


@pytest.mark.parametrize("number", ["", "-1", "1.0", "x", "٣", str(2**63), "0" * 19 + "1", "1" * 5_000])
def test_other_numbers_are_refused_by_name(number: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        identity_of("ann", None, "p", number)
    assert refused.value.field == SEQUENCE


@pytest.mark.parametrize("name", ["", "a\n", "x" * 201])
def test_names_that_no_log_line_holds_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        identity_of("ann", None, name, "1")
    assert refused.value.field == PRODUCER


def test_the_longest_name_is_taken() -> None:
    assert identity_of("ann", None, "x" * 200, "1").producer == "x" * 200


@pytest.mark.parametrize(
    ("headers", "field"),
    [((None, "p", None), SEQUENCE), ((None, None, "1"), PRODUCER), ((UUID, "p", "1"), KEY)],
)
def test_headers_that_do_not_fit_each_other_are_refused_by_name(
    headers: tuple[str | None, str | None, str | None], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        identity_of("ann", *headers)
    assert refused.value.field == field


def test_i26_the_row_of_a_request_says_its_commit_its_digest_and_its_end() -> None:
    digest = digest_of(b"rows", "text/csv")
    write = remembering_row("key", digest, "txn-1", now_ms=5_000, days=30)
    assert (txn_in(write.row), digest_in(write.row)) == ("txn-1", digest)
    assert write.row["expires"] == 5 + 30 * 86_400
    assert [clause.invariant for clause in write.clauses] == ["I26"]


def test_the_digest_tells_formats_and_rows_apart() -> None:
    assert len({digest_of(b"a", "x"), digest_of(b"b", "x"), digest_of(b"a", "y")}) == 3
