"""The conditional write and the decision are one rule, written twice: these properties hold them
together."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.heads import (
    accepts,
    empty_row,
    entry,
    floored,
    forms,
    named,
    proposals,
    ratified,
    recount,
    rows,
)
from turnstile.delta.core.decide import Proposal, Ratified, Refused, Spill, decide
from turnstile.delta.core.head import ROWS_OFF, TableHead, cost, tail_by_version
from turnstile.delta.core.undecided import Beginning, as_folded, fold, prepare, remove, without_entry
from turnstile.delta.core.writes.ratify import raise_floor
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.writes import Row

MANY = settings(max_examples=examples(250))


@MANY
@given(rows(), proposals())
@example(empty_row(), named(1))
@example(empty_row(row_hwm=2), named(1, rows=-1))
@example(empty_row(row_hwm=2), named(1, hwm=ROWS_OFF))
def test_i1_i2_i3_i7_the_write_is_accepted_exactly_when_decide_says_fresh(row: Row, proposal: Proposal) -> None:
    head = TableHead.from_row(row)
    decision = decide(head, proposal)
    fresh = isinstance(decision, Ratified) and not decision.replayed
    fitting = [change for change in forms(row, proposal) if accepts(row, change)]
    assert len(fitting) == int(fresh), decision
    if not fresh:
        return
    assert isinstance(decision, Ratified)
    after = TableHead.from_row(apply_actions(row, fitting[0].actions))
    recount(after)
    mine = tail_by_version(after)[-1]
    assert (mine.version, after.latest, after.metadata) == (decision.version, decision.latest, decision.metadata)
    assert mine.entry.txn == proposal.entry.txn and after.pending == mine.version
    assert tail_by_version(after)[:-1] == tail_by_version(head)  # I2: nothing ratified before changed
    if proposal.version is not None:
        assert (mine.version, mine.ict) == (proposal.version, proposal.entry.ict)


@MANY
@given(rows(), proposals())
def test_i3_a_proposal_accepted_once_is_a_replay_of_the_same_version_for_ever(row: Row, proposal: Proposal) -> None:
    after = ratified(row, proposal)
    if after is None:
        return
    first = tail_by_version(TableHead.from_row(after))[-1]
    for later in (after, after | {"state": "dropped"}, floored(after), floored(after, idle=True)):
        again = decide(TableHead.from_row(later), proposal)
        assert isinstance(again, Ratified) and again.replayed and again.version == first.version
        assert ratified(later, proposal) is None


@MANY
@given(rows(), st.data())
def test_i2_i4_i5_a_floor_change_keeps_what_stays_exactly_as_it_was(row: Row, data: st.DataObject) -> None:
    head = TableHead.from_row(row)
    recount(head)
    published = data.draw(st.integers(head.floor, head.latest))
    change = raise_floor(head, published, idle=data.draw(st.booleans()))
    if not accepts(row, change):
        assert published < head.latest  # only "idle" may be untrue of the very row it was planned from
        return
    after = TableHead.from_row(apply_actions(row, change.actions))
    recount(after)
    assert (after.latest, after.last_ict, after.row_hwm, after.epoch) == (
        head.latest,
        head.last_ict,
        head.row_hwm,
        head.epoch,
    )
    assert after.floor == published
    kept = {place.version: place for place in tail_by_version(head)}
    for place in tail_by_version(after):
        before = kept[place.version]
        assert (place.ict, place.name, place.first_row, place.modified_ms) == (
            before.ict,
            before.name,
            before.first_row,
            before.modified_ms,
        )
        assert place.entry == (before.entry.without_content() if place.published else before.entry)


@MANY
@given(rows(states=()), st.lists(proposals(), max_size=4), st.data())
def test_i4_i11_a_floor_change_planned_before_ratifications_still_fits_after_them(
    row: Row, more: list[Proposal], data: st.DataObject
) -> None:
    head = TableHead.from_row(row)
    published = data.draw(st.integers(head.floor, head.latest))
    idle = published == head.latest and data.draw(st.booleans())
    change = raise_floor(head, published, idle=idle)
    for proposal in more:
        row = ratified(row, proposal) or row
    head = TableHead.from_row(row)
    if not accepts(row, change):
        touched = [clause.name for clause in change.clauses if clause.name in ("idle", "same application")]
        assert touched and head.latest > published  # I11: a publisher that is refused plans again from the row
        return
    after = TableHead.from_row(apply_actions(row, change.actions))
    recount(after)
    assert (after.pending is None) == (idle or head.pending is None)
    kept = {place.version: place for place in tail_by_version(head)}
    assert all(place.ict == kept[place.version].ict for place in tail_by_version(after))


@MANY
@given(rows(), proposals(), st.integers(0, 20))
def test_i2_i8_a_prepared_commit_is_folded_into_what_its_single_write_would_have_left(
    row: Row, proposal: Proposal, published: int
) -> None:
    beginning = Beginning("g", "g.0", "t1")
    fitting = [
        (change, prepare(beginning, change, proposal, clock_behind=bool(behind)))
        for behind, change in enumerate(forms(row, proposal))
        if accepts(row, change)
    ]
    preparing = [prepare(beginning, change, proposal, clock_behind=False) for change in forms(row, proposal)]
    assert sum(accepts(row, change) for change in preparing) == len(fitting)
    if not fitting:
        return
    single, prepared = fitting[0]
    waiting = apply_actions(row, prepared.actions)
    head = TableHead.from_row(waiting)
    assert (
        tail_by_version(head) == tail_by_version(TableHead.from_row(row)) and head.latest == row["latest"]
    )  # I6: nobody sees it
    assert isinstance(decide(head, proposal), Refused) and not any(
        accepts(waiting, c) for c in forms(waiting, proposal)
    )
    assert not accepts(waiting, prepared)
    folding = fold(row["key"], head.undecided, 7)
    assert apply_actions(waiting, folding.actions) == apply_actions(row, single.actions)
    assert as_folded(head) == TableHead.from_row(apply_actions(row, single.actions) | {"changed_at": head.changed_at})
    assert without_entry(head) == TableHead.from_row(row)
    assert apply_actions(waiting, remove(row["key"], head.undecided).actions) == row
    floor = max(head.floor, min(published, head.latest))
    raised = apply_actions(waiting, raise_floor(head, floor, idle=False).actions)  # a publisher is not held up
    assert accepts(raised, folding)
    recount(TableHead.from_row(apply_actions(raised, folding.actions)))
    after = apply_actions(raised, folding.actions)
    assert not accepts(after, folding) and not accepts(after, prepared)


@given(rows(), st.integers(0, 20), st.booleans())
def test_i5_a_floor_outside_what_is_ratified_is_never_planned(row: Row, published: int, idle: bool) -> None:
    head = TableHead.from_row(row)
    if head.floor <= published <= head.latest:
        assert raise_floor(head, published, idle=idle).key == head.key
        return
    try:
        raise_floor(head, published, idle=idle)
    except ValueError:
        return
    raise AssertionError((head.floor, published, head.latest))


@MANY
@given(rows(states=()), proposals())
def test_i11_only_a_full_row_asks_to_spill_and_a_spilled_entry_is_judged_by_what_it_costs(
    row: Row, proposal: Proposal
) -> None:
    head = TableHead.from_row(row)
    if isinstance(decide(head, proposal), Spill):
        assert proposal.entry.data and head.bytes + cost(proposal.entry) > ROW_BUDGET


def test_i11_the_cost_of_an_entry_counts_bytes_not_characters() -> None:
    short = entry("a" * 10)
    wide = entry("\U0001f600" * 10)
    assert cost(wide) - cost(short) >= 60
