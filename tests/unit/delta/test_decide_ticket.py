"""``decide`` on a proposal that asks for the next version (a ticket), and on what has left the
tail."""

from __future__ import annotations

import pytest

from tests.support.fakes.heads import APPS, START_ICT, empty_row, floored, must, named, ratified, ticket
from turnstile.delta.core.decide import Conflict, Proposal, Ratified, Recall, Refused, Spill, decide
from turnstile.delta.core.head import ROWS_UNREAD, TableHead, tail_by_version
from turnstile.delta.core.writes.ratify import named_change
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.core.writes import Row


def table(versions: int = 2, *, row_hwm: int | None = None, **more: object) -> Row:
    row = empty_row(row_hwm=row_hwm)
    for version in range(1, versions + 1):
        row = must(row, named(version, f"t{version}", START_ICT + version))
    return row | more


def answer(row: Row, proposal: Proposal) -> object:
    return decide(TableHead.from_row(row), proposal)


@pytest.mark.parametrize("base", [0, 1, 2])
def test_i1_a_ticket_becomes_the_next_version_whatever_appends_came_in_between(base: int) -> None:
    fresh = answer(table(2), ticket(base))
    assert isinstance(fresh, Ratified) and not fresh.replayed and (fresh.version, fresh.latest) == (3, 3)


def test_i6_a_base_that_does_not_exist_yet_is_a_gap() -> None:
    refused = answer(table(2), ticket(3))
    assert isinstance(refused, Refused) and refused.kind == "VersionGap" and refused.field == "base"
    assert refused.details == {"latest": 2}


def test_i2_a_metadata_change_since_the_base_is_a_conflict() -> None:
    row = must(table(2), named(3, metadata="m1", changed="metadata"))
    conflict = answer(row, ticket(2, "y"))
    assert isinstance(conflict, Conflict) and conflict.because == "metadata"
    assert [place.version for place in conflict.winners] == [3]
    assert isinstance(answer(row, ticket(3, "y")), Ratified)


def test_i2_a_ticket_that_asserts_other_metadata_is_stale() -> None:
    refused = answer(table(2), ticket(2, asserts="old"))
    assert isinstance(refused, Refused) and refused.kind == "StaleMetadata" and refused.details["etag"] == "m0"
    assert isinstance(answer(table(2), ticket(2, asserts="m0")), Ratified)


def test_i2_an_unread_commit_counts_as_a_metadata_change() -> None:
    row = must(table(2), named(3, changed="unread"))
    assert isinstance(answer(row, ticket(2, "y")), Conflict)


def test_i3_a_later_commit_with_the_same_streaming_application_is_a_conflict() -> None:
    row = must(table(2), named(3, apps=APPS[:1]))
    conflict = answer(row, ticket(2, "y", apps=APPS[:1]))
    assert isinstance(conflict, Conflict) and conflict.because == "application"
    assert [place.version for place in conflict.winners] == [3]
    assert isinstance(answer(row, ticket(2, "y", apps=APPS[1:])), Ratified)
    assert isinstance(answer(row, ticket(3, "y", apps=APPS[:1])), Ratified)


def test_i3_a_ticket_marks_its_own_application() -> None:
    row = must(table(2), ticket(2, apps=APPS))
    assert isinstance(answer(row, ticket(2, "y", apps=APPS[1:])), Conflict)
    assert TableHead.from_row(row).apps == {APPS[0]: 3, APPS[1]: 3}


def test_i3_nothing_remembers_the_applications_of_commits_that_left_the_tail() -> None:
    row = must(table(2), named(3, apps=APPS[:1]))
    for version in range(4, 9):
        row = must(row, named(version, f"t{version}", START_ICT + 20 + version))
    row = floored(row, idle=True)
    assert TableHead.from_row(row).apps == {} and TableHead.from_row(row).tail_from == 6
    late = ticket(2, "y", apps=APPS[:1])
    assert answer(row, late) == Recall(tail_from=6)
    recalled = ticket(2, "y", apps=APPS[:1], recalled=6)
    conflict = answer(row, recalled)
    assert isinstance(conflict, Conflict) and conflict.because == "application" and conflict.published == 8
    assert ratified(row, recalled) is None
    assert isinstance(answer(row, ticket(2, "y", recalled=6)), Ratified)


def test_i3_the_index_is_asked_again_when_more_has_left_the_tail_since() -> None:
    row = floored(table(9))
    assert TableHead.from_row(row).tail_from == 7
    assert answer(row, ticket(2, "y", apps=APPS, recalled=5)) == Recall(tail_from=7)
    assert answer(row, named(10, "y", START_ICT + 99, base=2, recalled=5)) == Recall(tail_from=7)
    assert isinstance(answer(row, named(10, "y", START_ICT + 99, base=2, recalled=7)), Ratified)


@pytest.mark.parametrize("state", ["active", "dropped"])
def test_i3_what_left_the_tail_is_looked_up_even_for_a_table_that_is_gone(state: str) -> None:
    row = floored(table(9)) | {"state": state}
    assert answer(row, named(2, "t2")) == Recall(tail_from=7)
    refused = answer(row, named(10, "y", START_ICT + 99, base=2, recalled=7))
    assert isinstance(refused, Ratified if state == "active" else Refused)


def test_i3_only_tickets_need_the_applications_of_what_left_the_tail() -> None:
    """Whoever names its version has seen the commits before it."""
    row = floored(table(9))
    assert TableHead.from_row(row).tail_from == 7
    assert isinstance(answer(row, named(10, "y", START_ICT + 99, base=2, recalled=7, apps=APPS[:1])), Ratified)


def test_i3_a_proposal_whose_base_reaches_the_tail_needs_no_index() -> None:
    assert isinstance(answer(floored(table(9)), named(10, ict=START_ICT + 99, base=6)), Ratified)
    assert isinstance(answer(floored(table(9)), named(10, ict=START_ICT + 99, base=5)), Recall)


@pytest.mark.parametrize(("row_hwm", "rows"), [(None, 0), (5, -1)])
def test_i2_row_ids_are_given_exactly_where_row_tracking_is_on(row_hwm: int | None, rows: int) -> None:
    refused = answer(table(1, row_hwm=row_hwm), ticket(1, rows=rows))
    assert isinstance(refused, Refused) and refused.kind == "InvalidCommit" and refused.field == "content"
    assert ("is on" in refused.message) == (row_hwm is not None)


def test_i2_tickets_take_consecutive_row_ids() -> None:
    row = must(must(table(1, row_hwm=5), ticket(1, "x", rows=4)), ticket(1, "y", rows=2))
    assert [place.first_row for place in tail_by_version(TableHead.from_row(row))][1:] == [6, 10]
    assert TableHead.from_row(row).row_hwm == 11


@pytest.mark.parametrize("mark", [ROWS_UNREAD, MAX_ROW_ID - 3])
def test_i2_no_row_ids_follow_a_mark_that_is_unknown_or_exhausted(mark: int) -> None:
    refused = answer(table(1, row_hwm=mark), ticket(1, rows=4))
    assert isinstance(refused, Refused) and refused.kind == "InvalidCommit" and refused.field == "version"
    assert isinstance(answer(table(1, row_hwm=MAX_ROW_ID - 4), ticket(1, rows=4)), Ratified)


@pytest.mark.parametrize(
    ("own", "becomes"), [(START_ICT + 50, START_ICT + 50), (START_ICT + 2, START_ICT + 3), (1, START_ICT + 3)]
)
def test_i7_a_ticket_is_stamped_after_its_predecessor(own: int, becomes: int) -> None:
    head = TableHead.from_row(must(table(2), ticket(2, ict=own)))
    assert (head.last_ict, tail_by_version(head)[-1].ict) == (becomes, becomes)


def test_i3_a_ticket_sent_again_keeps_its_version() -> None:
    row = must(must(table(2), ticket(2)), ticket(2, "y"))
    replay = answer(row, ticket(4))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 3 and replay.latest == 4


def test_i11_a_ticket_into_a_full_row_spills_or_waits() -> None:
    row = table(2) | {"bytes": ROW_BUDGET}
    assert isinstance(answer(row, ticket(2, data=b"d")), Spill)
    refused = answer(row, ticket(2))
    assert isinstance(refused, Refused) and refused.kind == "BacklogFull"


def test_a_ticket_is_not_written_as_a_version_that_was_named() -> None:
    with pytest.raises(ValueError, match="ticket"):
        named_change("test/table/t", ticket(2), now=START_ICT)
