"""The format of a row: what old code may do with a row of newer code (I22)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.refs import FakeRefs
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.store.core.errors import NewerFormat, OutcomeUnknown
from turnstile.store.core.evaluate import accepts, clauses_of
from turnstile.store.core.rows import format_of, require_known
from turnstile.store.core.writes import (
    FIRST,
    KNOWN,
    KNOWN_FORMAT,
    Change,
    Check,
    Clause,
    Erase,
    Insert,
    Present,
    Row,
    Set,
    Write,
    new_row,
)
from turnstile.store.ports import Accepted, AllAccepted

KEY = "r/table/one"


def head(**more: Any) -> Row:
    row = new_head_row(
        key=KEY,
        table_id="one",
        catalog="main",
        name="main.s.one",
        location="file:///lake/one",
        metadata="m0",
        version=5,
        ict=1_000,
        row_hwm=None,
        created=1,
        managed=True,
    )
    return row | more


ALWAYS = (Clause("there", "I9", "there is a row", Present(("key",))),)
WRITES: list[Write] = [
    Change(KEY, ALWAYS, (Set(("latest",), 9),)),
    Change(KEY, (), (Set(("latest",), 9),)),
    Erase(KEY, ALWAYS),
    Check(KEY, ALWAYS),
    Insert(head(latest=9), ()),
    Insert(head(latest=9), ALWAYS),
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_i22_a_write_is_accepted_up_to_the_format_that_is_known_and_no_further(write: Write) -> None:
    assert accepts(head(), write)
    assert accepts(head(format=KNOWN), write)
    assert not accepts(head(format=KNOWN + 1), write)


@pytest.mark.parametrize("write", WRITES, ids=lambda write: type(write).__name__)
def test_i22_a_refused_write_says_which_row_is_newer_and_changes_nothing(write: Write) -> None:
    refs = FakeRefs()
    refs.rows[KEY] = newer = head(format=KNOWN + 1)
    with pytest.raises(NewerFormat) as refusal:
        refs.write(write)
    assert refusal.value.details == {"row": KEY, "format": KNOWN + 1, "known": KNOWN}
    with pytest.raises(NewerFormat):
        refs.transact([write], "token")
    assert refs.rows == {KEY: newer}


def test_i22_a_transaction_is_refused_by_one_newer_row_among_others() -> None:
    refs = FakeRefs()
    refs.rows = {KEY: head(), "r/table/two": head(key="r/table/two", format=KNOWN + 1)}
    before = {key: dict(row) for key, row in refs.rows.items()}
    writes = [Change(key, (), (Set(("latest",), 9),)) for key in refs.rows]
    with pytest.raises(NewerFormat, match="r/table/two"):
        refs.transact(writes, "token")
    assert refs.rows == before
    assert isinstance(refs.transact(writes[:1], "other"), AllAccepted)


def test_i22_a_row_of_a_newer_format_is_not_parsed() -> None:
    assert TableHead.from_row(head(format=KNOWN)).latest == 5
    with pytest.raises(NewerFormat) as refusal:
        TableHead.from_row(head(format=KNOWN + 1))
    assert "newer release" in str(refusal.value.remedy)


def test_i22_after_a_lost_answer_the_outcome_is_unknown() -> None:
    require_known([None, head(), head(format=KNOWN)], uncertain=True)
    with pytest.raises(OutcomeUnknown, match=f"format {KNOWN + 1}"):
        require_known([None, head(format=KNOWN + 1)], uncertain=True)


def test_a_row_that_does_not_exist_is_inserted_and_every_write_has_the_clause() -> None:
    first = Insert(head(), (new_row("I2"),))
    assert clauses_of(first) == (*first.clauses, KNOWN_FORMAT)
    assert accepts(None, first)
    assert isinstance(FakeRefs().write(first), Accepted)


def test_a_row_of_the_first_format_says_nothing() -> None:
    assert "format" not in head()
    assert (format_of(head()), format_of(head(format=3))) == (FIRST, 3)
