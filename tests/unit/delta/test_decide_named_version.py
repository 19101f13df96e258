"""``decide`` on a proposal that names its version: one test a paragraph."""

from __future__ import annotations

import pytest

from tests.support.fakes.heads import START_ICT, empty_row, floored, must, named, ratified
from turnstile.delta.core.decide import Conflict, Proposal, Ratified, Refused, Spill, changed_since, decide
from turnstile.delta.core.head import ROWS_OFF, ROWS_UNREAD, TableHead
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.writes import Row


def table(versions: int = 2, **more: object) -> Row:
    row = empty_row()
    for version in range(1, versions + 1):
        row = must(row, named(version, f"t{version}", START_ICT + version))
    return row | more


def answer(row: Row, proposal: Proposal) -> object:
    return decide(TableHead.from_row(row), proposal)


def test_i1_the_next_version_is_ratified() -> None:
    assert answer(table(2), named(3)) == Ratified(place=None, version=3, latest=3, metadata="m0")


def test_i1_a_version_after_the_next_is_a_gap_that_names_the_latest() -> None:
    refused = answer(table(2), named(4))
    assert isinstance(refused, Refused) and refused.kind == "VersionGap" and refused.details == {"latest": 2}
    assert (refused.field, "version 3" in refused.remedy) == ("version", True)


@pytest.mark.parametrize(("version", "winners"), [(1, [2, 1]), (2, [2])])
def test_i2_a_taken_version_is_a_conflict_with_every_winner_newest_first(version: int, winners: list[int]) -> None:
    conflict = answer(table(2), named(version))
    assert isinstance(conflict, Conflict) and conflict.because == "version"
    assert [place.version for place in conflict.winners] == winners
    assert (conflict.latest, conflict.published) == (2, 0)


def test_i4_a_conflict_says_up_to_where_winners_are_published() -> None:
    conflict = answer(floored(table(6), 5), named(4, base=3))
    assert isinstance(conflict, Conflict) and conflict.published == 5
    assert [place.version for place in conflict.winners] == [6, 5, 4]


def test_i3_the_same_transaction_is_answered_with_the_version_it_became() -> None:
    replay = answer(table(2), named(1, "t1"))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 1 and replay.latest == 2
    assert replay.place is not None and replay.place.entry.txn == "t1"


def test_i3_the_same_transaction_at_another_version_is_still_the_version_it_became() -> None:
    replay = answer(table(2), named(3, "t1", base=0))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 1


def test_i3_another_transaction_under_a_name_of_the_tail_is_another_proposal() -> None:
    """A file may be written anew. The first transaction's version is not the answer to the second
    one."""
    name = "00000000000000000009.elsewhere.json"
    row = must(empty_row(), named(1, "t1", name=name))
    assert isinstance(answer(row, named(1, "other", name=name)), Conflict)
    again = must(row, named(2, "t2", START_ICT + 20, name=name))
    replay = answer(again, named(2, "t2", START_ICT + 20, name=name))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 2


def test_i2_version_is_judged_before_metadata_and_timestamp() -> None:
    conflict = answer(table(2), named(2, ict=1, asserts="old"))
    assert isinstance(conflict, Conflict)


def test_i2_metadata_other_than_the_proposer_read_is_stale() -> None:
    refused = answer(table(2), named(3, asserts="old", ict=1))
    assert isinstance(refused, Refused) and refused.kind == "StaleMetadata"
    assert refused.details == {"etag": "m0", "latest": 2} and refused.field == "etag"
    assert isinstance(answer(table(2), named(3, asserts="m0")), Ratified)


def test_i2_a_metadata_change_becomes_the_etag_and_the_epoch() -> None:
    changing = named(3, asserts="m0", metadata="m1", changed="metadata")
    fresh = answer(table(2), changing)
    assert isinstance(fresh, Ratified) and fresh.metadata == "m1"
    head = TableHead.from_row(must(table(2), changing))
    assert (head.metadata, head.epoch) == ("m1", 3)


@pytest.mark.parametrize("ict", [START_ICT, START_ICT + 2])
def test_i7_a_timestamp_equal_or_going_back_is_refused_with_the_least_that_fits(ict: int) -> None:
    refused = answer(table(2), named(3, ict=ict))
    assert isinstance(refused, Refused) and refused.kind == "TimestampNotIncreasing"
    assert refused.details["last"] == START_ICT + 2
    assert isinstance(answer(table(2), named(3, ict=START_ICT + 3)), Ratified)


def test_i2_a_row_id_mark_below_what_is_assigned_is_refused() -> None:
    row = empty_row(row_hwm=10)
    for mark in (9, -1):
        refused = answer(row, named(1, hwm=mark))
        assert isinstance(refused, Refused) and refused.kind == "InvalidCommit"
        assert refused.details == {"row_id_high_water_mark": 10, "latest": 0}
    assert isinstance(answer(row, named(1, hwm=10)), Ratified)
    assert TableHead.from_row(must(row, named(1, hwm=12))).row_hwm == 12
    assert TableHead.from_row(must(row, named(1))).row_hwm == 10


def test_i2_a_mark_is_accepted_again_after_a_commit_that_was_not_read_whole() -> None:
    row = must(empty_row(row_hwm=10), named(1, hwm=ROWS_UNREAD, changed="unread"))
    assert isinstance(answer(row, named(2, "y", START_ICT + 20, hwm=3)), Ratified)


def test_i2_row_tracking_can_end_and_begin_anew() -> None:
    off = must(empty_row(row_hwm=10), named(1, hwm=ROWS_OFF, metadata="m1"))
    assert TableHead.from_row(off).row_hwm is None
    on = must(off, named(2, "y", START_ICT + 20, hwm=-1, metadata="m2"))
    assert TableHead.from_row(on).row_hwm == -1


def test_i11_a_full_row_asks_inline_content_to_move_and_refuses_the_rest() -> None:
    row = empty_row()
    for version in range(1, 8):
        row = must(row, named(version, f"t{version}", START_ICT + version, data=b"d" * 4_000))
    assert isinstance(answer(row, named(8, ict=START_ICT + 9, data=b"d" * 4_000)), Spill)
    row["bytes"] = ROW_BUDGET - 10
    refused = answer(row, named(8, ict=START_ICT + 9))
    assert isinstance(refused, Refused) and refused.kind == "BacklogFull"
    assert refused.details == {"latest": 7, "floor": 0, "retry_after_ms": 500} and "7 ratified" in refused.message
    assert ratified(row, named(8, ict=START_ICT + 9)) is None


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("dropped", "dropped"),
        ("leaving", "leaving"),
        ("stuck", "repair"),
        ("recovering", "restored"),
        ("odd", "reload"),
    ],
)
def test_i10_a_table_that_is_not_active_takes_nothing_and_says_what_to_do(state: str, word: str) -> None:
    row = table(2, state=state, reason="the reason")
    refused = answer(row, named(3))
    assert isinstance(refused, Refused) and refused.kind == "TableNotActive"
    assert word in refused.remedy and "the reason" in refused.message
    assert refused.details == {"state": state, "latest": 2}
    assert ratified(row, named(3)) is None
    assert "the reason" not in str(answer(table(2, state=state), named(3)))


def test_i3_a_replay_is_answered_by_a_table_that_is_no_longer_active() -> None:
    replay = answer(table(2, state="dropped"), named(2, "t2"))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 2


# -- a table that a group only read -----------------------------------------------------------------------------------


def test_i8_a_group_that_read_an_older_version_conflicts_with_all_that_came_since() -> None:
    head = TableHead.from_row(table(4, undecided=b"u"))
    conflict = changed_since(head, 2)
    assert isinstance(conflict, Conflict)
    assert ([winner.version for winner in conflict.winners], conflict.because) == ([4, 3], "read")


def test_i8_a_group_that_read_the_latest_version_waits_for_what_is_undecided() -> None:
    refused = changed_since(TableHead.from_row(table(4, undecided=b"u")), 4)
    assert isinstance(refused, Refused)
    assert refused.kind == "ConcurrentChange"


def test_i8_a_group_that_read_a_version_that_is_not_there_is_a_gap() -> None:
    refused = changed_since(TableHead.from_row(table(4)), 5)
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.details) == ("VersionGap", {"latest": 4})
