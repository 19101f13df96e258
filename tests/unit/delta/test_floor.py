"""What a floor write leaves behind, said once by hand; ``test_write_agrees_with_decision`` says it
of random rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.heads import APPS, START_ICT, empty_row, floored, must, named, recount, ticket
from turnstile.delta.core.decide import Ratified, decide
from turnstile.delta.core.head import ROWS_OFF, TableHead, cost, tail_by_version
from turnstile.delta.core.writes.ratify import FORGOTTEN_MAX, count_evicted, raise_floor
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.writes import Drop, Exclude, Row, Set


def busy(versions: int = 8) -> Row:
    """One named commit far ahead, then tickets whose clocks are behind: everything follows from the
    position."""
    row = must(empty_row(row_hwm=4), named(1, "t1", START_ICT + 50, hwm=6))
    for version in range(2, versions + 1):
        row = must(row, ticket(0, f"t{version}", 1, rows=version, data=b"data", apps=APPS[:1] if version == 2 else ()))
    return row


def places(row: Row) -> dict[int, tuple[Any, ...]]:
    found = tail_by_version(TableHead.from_row(row))
    return {place.version: (place.ict, place.first_row, place.name, place.entry.txn) for place in found}


@pytest.mark.parametrize("idle", [True, False])
@pytest.mark.parametrize("published", range(9))
def test_i2_i7_places_do_not_depend_on_what_has_left(published: int, idle: bool) -> None:
    row = busy()
    before = places(busy())
    assert before[8][:2] == (START_ICT + 57, 7 + 2 + 3 + 4 + 5 + 6 + 7)
    after = floored(row, published, idle=idle and published == 8)
    recount(TableHead.from_row(after))
    assert places(after) == {version: before[version] for version in range(max(1, published - 2), 9)}
    assert TableHead.from_row(floored(after, 8, idle=True)).tail_ict == START_ICT + 54


def test_i4_published_entries_lose_their_bytes_and_the_rest_keeps_them() -> None:
    head = TableHead.from_row(floored(busy(), 5))
    assert [bool(entry.data) for entry in head.tail] == [False, False, False, True, True, True]
    assert head.tail_from == 3 and head.floor == 5 and head.pending == 8 and head.ids == {f"t{n}" for n in range(3, 9)}
    assert head.bytes == sum(cost(entry) for entry in head.tail) and head.apps == {}
    assert (
        TableHead.from_row(floored(busy(), 4)).apps == {APPS[0]: 2}
        and count_evicted(TableHead.from_row(busy()), 4) == 1
    )


def test_i11_pending_goes_only_when_nothing_waits() -> None:
    assert TableHead.from_row(floored(busy(), 8, idle=True)).pending is None
    assert TableHead.from_row(floored(busy(), 8)).pending == 8
    assert floored(busy(), 7, idle=True) == busy()


def test_i2_the_end_of_row_tracking_leaves_the_tail_with_its_entry() -> None:
    row = must(must(busy(), named(9, "off", START_ICT + 90, hwm=ROWS_OFF)), ticket(9, "t10", START_ICT + 95))
    for version in range(11, 14):
        row = must(row, ticket(9, f"t{version}", START_ICT + 95))
    assert TableHead.from_row(floored(row, 11)).tail_hwm == 7 + 2 + 3 + 4 + 5 + 6 + 7 + 8 - 1
    after = TableHead.from_row(floored(row, 13))
    assert after.tail_hwm is None and after.row_hwm is None and after.tail_from == 11
    recount(after)


def test_i2_a_named_commit_that_leaves_row_ids_alone_assigns_none() -> None:
    row = must(must(empty_row(row_hwm=4), named(1, "t1", rows=-1)), ticket(0, "t2", rows=3))
    assert [place.first_row for place in tail_by_version(TableHead.from_row(row))] == [None, 5]
    recount(TableHead.from_row(row))
    assert TableHead.from_row(row).row_hwm == 7


def test_i11_one_write_forgets_a_bounded_number_of_applications_the_oldest_first() -> None:
    row = busy() | {"apps": {f"{version:016d}": version for version in range(1, 5)}}
    actions = raise_floor(TableHead.from_row(row), 6, idle=False).actions
    assert [action.path[1] for action in actions if isinstance(action, Drop) and action.path[0] == "apps"] == [
        f"{version:016d}" for version in range(1, 4)
    ]
    row["apps"] = {f"{number:016d}": 1 + number % 2 for number in range(90)}
    change = raise_floor(TableHead.from_row(row), 8, idle=False)
    gone = [action.path[1] for action in change.actions if isinstance(action, Drop) and action.path[0] == "apps"]
    assert len(gone) == FORGOTTEN_MAX and {row["apps"][app] for app in gone[:45]} == {1}
    assert len([clause for clause in change.clauses if clause.name == "same application"]) == FORGOTTEN_MAX


def test_i5_a_floor_write_that_evicts_nothing_touches_no_list() -> None:
    actions = raise_floor(TableHead.from_row(busy()), 0, idle=False).actions
    assert actions == (Set(("floor",), 0),)
    assert not [
        one for one in raise_floor(TableHead.from_row(busy()), 2, idle=False).actions if isinstance(one, Exclude)
    ]


def test_i11_a_row_takes_an_entry_that_fills_it_to_the_last_byte() -> None:
    proposal = ticket(8, "last", 1, rows=1)
    row = busy() | {"bytes": ROW_BUDGET - cost(proposal.entry)}
    assert isinstance(decide(TableHead.from_row(row), proposal), Ratified)
    assert TableHead.from_row(must(row, proposal)).bytes == ROW_BUDGET
