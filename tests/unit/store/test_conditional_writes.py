"""Every clause of every conditional write, one by one: a row on which it alone does not hold is
refused for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.fakes.heads import APPS, START_ICT, empty_row, floored, must, named, recount, ticket
from turnstile.catalog.core.location_rows import claim, owner_row, release
from turnstile.catalog.core.rows import (
    CatalogHead,
    erase_collected,
    mark_collecting,
    new_catalog,
    new_staging,
    swap_head,
    use_staging,
)
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.reservations import empty_register, keep, mark, unmark
from turnstile.delta.core.undecided import (
    Beginning,
    GroupRow,
    Undecided,
    begin,
    begin_anew,
    decision_writes,
    fold,
    forget_group,
    hold,
    remove,
)
from turnstile.delta.core.writes.ratify import named_change, raise_floor, ticket_change, unchanged_check
from turnstile.delta.core.writes.shared import share
from turnstile.delta.core.writes.state import (
    adopt,
    begin_recovery,
    describe_head,
    drop_head,
    drop_published_head,
    end_recovery,
    give_up_recovery,
    leave_head,
    left_head,
    mark_purged,
    mark_purging,
    mark_restored,
    mark_stuck,
    mark_unstuck,
    rename_head,
    stay_head,
    take_back,
)
from turnstile.store.core.evaluate import apply_actions, clone, holds
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Change, Drop, Erase, Include, Insert, Row, Set, Write

SPACE = Space("test")
MINE: dict[str, Any] = {"table_id": "t", "catalog": "main", "now": 1}
AT = "file:///lake/a/t"
INVARIANTS = {*(f"I{number}" for number in range(1, 13)), "I18"}


def table(versions: int = 5, **more: Any) -> Row:
    row = empty_row(row_hwm=4)
    for version in range(1, versions + 1):
        row = must(row, named(version, f"t{version}", START_ICT + version, apps=APPS[:1] if version == 1 else ()))
    return row | more


def head(row: Row) -> TableHead:
    return TableHead.from_row(row)


def failing(row: Row | None, write: Write) -> list[str]:
    return [clause.name for clause in write.clauses if not holds(row or {}, clause.test)]


NAMED = named_change("k", named(6, "x", START_ICT + 9, hwm=9, asserts="m0"), 9)
TICKET = ticket_change("k", ticket(5, "x", START_ICT + 9, rows=2, apps=APPS[:1], asserts="m0"), 9, clock_behind=False)
BEHIND = ticket_change("k", ticket(5, "x", START_ICT + 5, rows=2), 9, clock_behind=True)
OFF = ticket_change("k", ticket(5, "x", START_ICT + 9), 9, clock_behind=False)
FLOOR = raise_floor(head(table()), 5, idle=True)
PART = raise_floor(head(table(9)), 7, idle=False)
STUCK = table(state="stuck", reason="version 1: gone")
WHOLE = floored(table(), 5, idle=True)
BEYOND = WHOLE | {"state": "stuck", "reason": "version 6: foreign"}
RECOVERING = WHOLE | {"state": "recovering", "reason": "the log goes on"}
PARTLY = floored(table(), 2, idle=False) | {"state": "stuck", "reason": "version 3: differs", "epoch": 4, "pending": 5}
TAKE_BACK = take_back(head(PARTLY), "m0", 7)
ADOPT = adopt("k", named(6, "x", START_ICT + 9, hwm=9, asserts="m0", metadata="m1", changed="metadata"), 9)
LEFT = floored(table(state="leaving", reason="export"), 5, idle=True)
LEAVING = table(state="leaving", reason="export")
CATALOG = new_catalog("k", "main", "commit/1", 1).row
STAGING = new_staging(
    key="k", table_id="t", catalog="main", namespace="n", name="t", location=AT, creator="", now=1
).row
PURGING = table(state="dropped", reason="purging", changed_at=1)
OWNED = owner_row(SPACE, AT, **MINE).row
WAITS = {"undecided": b"of a group"}
RESERVED = {"reserved_by": "h", "reserved_until": 1}
SHARED = share(
    table(),
    [
        ticket(5, "x", START_ICT + 9, rows=2, apps=APPS[:1], asserts="m0"),
        ticket(5, "y", START_ICT + 9, rows=2),
        named(6, "z", START_ICT + 9, hwm=9),
    ],
    9,
)
assert SHARED is not None
HOLDERS = named_change("k", named(6, "x", START_ICT + 9, hwm=9, holder="h"), 9)
REGISTER = msgspec.structs.replace(empty_register("k"), revision=3)
BEGINNING = Beginning("g", "g.0", "t1")
PREPARED = Undecided("g", "g.0", "t1", 6, named(6, "x", START_ICT + 9).entry, 5).pack()
GROUP = begin("k", "t1", b"", 1)
OPENED = GroupRow.from_row(GROUP.row)

CASES: list[tuple[Write, Row | None, dict[str, Any]]] = [
    (NAMED, table(), {
        "next": {"latest": 6}, "later": {"last_ict": START_ICT + 9}, "active": {"state": "stuck"},
        "fresh rows": {"row_hwm": 10},
        "new identity": {"ids": {"x"}}, "remembered": {"tail_from": 7}, "room": {"bytes": ROW_BUDGET},
        "same metadata": {"metadata": "m1"}, "settled": WAITS,
        "unreserved": RESERVED,
    }),
    (HOLDERS, table() | RESERVED, {"unreserved": RESERVED | {"reserved_by": "another"}}),
    (TICKET, table(), {
        "based": {"latest": 4}, "same epoch": {"epoch": 6}, "own application": {"apps": {APPS[0]: 6}},
        "active": {"state": "dropped"},
        "new identity": {"ids": {"x"}}, "remembered": {"tail_from": 7}, "room": {"bytes": ROW_BUDGET},
        "later": {"last_ict": START_ICT + 9},
        "row tracking on": {"row_hwm": None}, "same metadata": {"metadata": "m1"}, "settled": WAITS,
    }),
    (SHARED.change, table(), {
        "next": {"latest": 6}, "same timestamp": {"last_ict": START_ICT + 6}, "same rows": {"row_hwm": 5},
        "same metadata": {"metadata": "m1"},
        "same epoch": {"epoch": 6}, "own application": {"apps": {APPS[0]: 6}}, "unreserved": RESERVED,
        "active": {"state": "dropped"},
        "new identity": {"ids": {"y"}}, "remembered": {"tail_from": 7}, "room": {"bytes": ROW_BUDGET}, "settled": WAITS,
    }),
    (BEHIND, table(), {"clock behind": {"last_ict": START_ICT + 4}}),
    (OFF, {key: value for key, value in table().items() if "hwm" not in key}, {"row tracking off": {"row_hwm": 0}}),
    (FLOOR, table(), {"same floor": {"floor": 1}, "same tail": {"tail_from": 2}, "idle": {"latest": 6}}),
    (PART, table(9), {"same application": {"apps": {APPS[0]: 8}}}),
    (mark_stuck(head(table()), 1, "gone", 7), table(),
     {"taking commits": {"state": "dropped"}, "same floor": {"floor": 1}}),
    (mark_unstuck(head(STUCK | {"floor": 1}), 7), STUCK | {"floor": 1}, {
        "stuck": {"state": "dropped"}, "same reason": {"reason": "version 2: gone"}, "past it": {"floor": 0},
    }),
    (mark_restored(head(table()), 7), table(), {"same state": {"state": "leaving"}}),
    (mark_restored(head(STUCK), 7), STUCK, {"same state": {"state": "dropped"}}),
    (TAKE_BACK, PARTLY,
     {"same state": {"state": "dropped"}, "same latest": {"latest": 6}, "same floor": {"floor": 3}, "settled": WAITS}),
    (begin_recovery(head(WHOLE), 7), WHOLE, {
        "same state": {"state": "leaving"}, "same latest": {"latest": 6}, "published": {"floor": 4}, "settled": WAITS,
    }),
    (begin_recovery(head(BEYOND), 7), BEYOND, {
        "same state": {"state": "active"}, "same latest": {"latest": 6}, "published": {"floor": 4}, "settled": WAITS,
    }),
    (ADOPT, RECOVERING, {
        "next": {"latest": 6}, "later": {"last_ict": START_ICT + 9}, "recovering": {"state": "active"},
        "fresh rows": {"row_hwm": 10},
        "new identity": {"ids": {"x"}}, "remembered": {"tail_from": 7}, "room": {"bytes": ROW_BUDGET},
        "same metadata": {"metadata": "m1"},
        "published": {"floor": 4}, "settled": WAITS, "unreserved": RESERVED,
    }),
    (keep(REGISTER, REGISTER), REGISTER.to_row(), {"same register": {"revision": 4}}),
    (mark("k", "h", 9), table(), {"reservable": {"state": "dropped"}}),
    (unmark("k", "h"), table() | RESERVED, {"own mark": {"reserved_by": "another"}}),
    (end_recovery(head(RECOVERING), 7), RECOVERING, {"recovering": {"state": "dropped"}, "same latest": {"latest": 6}}),
    (give_up_recovery(head(RECOVERING), "foreign", 7), RECOVERING, {
        "recovering": {"state": "active"}, "same latest": {"latest": 6},
    }),
    (drop_head("k", 7), table(), {"droppable": {"state": "leaving"}, "settled": WAITS}),
    (drop_published_head(head(LEFT), 7), LEFT | {"state": "active"}, {
        "droppable": {"state": "dropped"}, "same latest": {"latest": 6}, "published": {"floor": 4}, "settled": WAITS,
    }),
    (rename_head("k", "n", 7), table(), {"shown": {"state": "stuck"}}),
    (leave_head(head(table()), "export", 7), table(), {"active": {"state": "leaving"}, "settled": WAITS}),
    (describe_head(head(table()), "m1", 7), table(),
     {"active": {"state": "dropped"}, "same metadata": {"metadata": "m2"}, "settled": WAITS}),
    (stay_head(head(LEAVING), "export", 7), LEAVING, {
        "leaving": {"state": "active"}, "same export": {"reason": "another"}, "same latest": {"latest": 6},
        "unpublished": {"floor": 5},
    }),
    (left_head(head(LEFT), "left", 7), LEFT,
     {"leaving": {"state": "active"}, "same latest": {"latest": 6}, "published": {"floor": 4}}),
    (unchanged_check("k", 5), table(), {"unchanged": {"latest": 6}, "settled": WAITS}),
    (hold(BEGINNING, "k", 5), table(), {"unchanged": {"latest": 6}, "settled": WAITS}),
    (unchanged_check("k", 3, 2), table(), {"within slack": {"latest": 6}, "reached": {"latest": 2}, "settled": WAITS}),
    (fold("k", PREPARED, 7), table(undecided=PREPARED), {"same entry": {"undecided": b"another"}}),
    (remove("k", PREPARED), table(undecided=PREPARED), {"same entry": {"undecided": None}}),
    (GROUP, None, {"new": GROUP.row}),
    (begin_anew(OPENED, "t2", 7), GROUP.row | {"state": "aborted"},
     {"same beginning": {"token": "t3"}, "aborted": {"state": "committed"}}),
    (decision_writes("k", "t1", "committed", 7), GROUP.row,
     {"same beginning": {"token": "t3"}, "open group": {"state": "aborted"}}),
    (forget_group(OPENED), GROUP.row, {"same beginning": {"token": "t3"}, "still decided": {"state": "aborted"}}),
    (new_catalog("k", "main", "commit/1", 1), None, {"new": CATALOG}),
    (swap_head(CatalogHead.from_row(CATALOG), "commit/2", 7), CATALOG, {
        "same head": {"head": "commit/3"}, "not swept": {"swept": 7}, "same sweeps": {"taken_back": 1},
    }),
    (use_staging("k"), STAGING, {"open": {"state": "collecting"}}),
    (mark_collecting(STAGING), STAGING, {"not registered": {"state": "used"}, "same table": {"created": 2}}),
    (erase_collected(STAGING), STAGING | {"state": "collecting"}, {"collecting": {"state": "open"}}),
    (mark_purging(head(PURGING)), PURGING, {"dropped": {"state": "active"}, "same drop": {"changed_at": 2}}),
    (mark_purged(head(PURGING)), PURGING, {
        "dropped": {"state": "active"}, "same drop": {"changed_at": 2}, "purging": {"reason": ""},
    }),
    (owner_row(SPACE, AT, **MINE), None, {"new": OWNED}),
    (release(SPACE, AT, "t", {})[0], OWNED, {"own": {"table_id": "u"}, "uncloned": {"clones": {"c"}}}),
]  # fmt: skip


def marker(below: int) -> Row:
    return OWNED | {"below": below, "table_id": ""}


def writes_on(key: str, writes: list[Write]) -> Write:
    return next(write for write in writes if write.key == key)


ABOVE = SPACE.location("file:///lake/a")
CLAIMED = writes_on(ABOVE, claim(SPACE, AT, {ABOVE: marker(1)}, **MINE))
FRESH = writes_on(ABOVE, claim(SPACE, AT, {}, **MINE))
LAST = writes_on(ABOVE, release(SPACE, AT, "t", {ABOVE: marker(1)}))
SHARED = writes_on(ABOVE, release(SPACE, AT, "t", {ABOVE: marker(2)}))
CASES += [
    (CLAIMED, marker(1), {"marker": {"below": 0}}),
    (FRESH, None, {"new": marker(1)}),
    (LAST, marker(1), {"last": {"below": 2}}),
    (SHARED, marker(2), {"shared": {"below": 1}}),
]


def spoilt(row: Row | None, change: dict[str, Any]) -> Row:
    made = clone(row or {}) | change
    return {key: value for key, value in made.items() if value is not None}


@pytest.mark.parametrize(
    ("write", "row", "clause", "change"),
    [(write, row, clause, change) for write, row, each in CASES for clause, change in each.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_i1_to_i11_a_row_is_refused_for_the_one_clause_that_does_not_hold(
    write: Write, row: Row | None, clause: str, change: dict[str, Any]
) -> None:
    assert failing(row, write) == []
    assert failing(spoilt(row, change), write) == [clause]


def test_i1_to_i11_every_clause_names_what_it_is_for_and_is_spoilt_by_a_case_above() -> None:
    for write, _, each in CASES:
        for clause in write.clauses:
            assert clause.invariant in INVARIANTS and clause.says and clause.name
        if write not in (BEHIND, OFF, PART, HOLDERS):
            assert {clause.name for clause in write.clauses} == each.keys()


@pytest.mark.parametrize(
    ("write", "row", "sets"),
    [
        (mark_stuck(head(table()), 1, "gone", 7), table(),
         {"state": "stuck", "reason": "version 1: gone", "changed_at": 7}),
        (mark_unstuck(head(STUCK | {"floor": 1}), 7), STUCK, {"state": "active", "reason": None, "changed_at": 7}),
        (mark_restored(head(STUCK), 7), STUCK, {
            "state": "recovering", "changed_at": 7,
            "reason": "the HEAD was restored: published versions that it does not know are being looked for",
        }),
        (begin_recovery(head(BEYOND), 7), BEYOND, {
            "state": "recovering", "changed_at": 7,
            "reason": "the log goes beyond version 5: published versions are being adopted",
        }),
        (end_recovery(head(RECOVERING), 7), RECOVERING, {"state": "active", "reason": None, "changed_at": 7}),
        (give_up_recovery(head(RECOVERING), "foreign", 7), RECOVERING,
         {"state": "stuck", "reason": "version 6: foreign", "changed_at": 7}),
        (drop_head("k", 7), table(), {"state": "dropped", "changed_at": 7}),
        (rename_head("k", "n", 7), table(), {"name": "n", "changed_at": 7}),
        (describe_head(head(table()), "m1", 7), table(), {"metadata": "m1", "changed_at": 7}),
        (leave_head(head(table()), "export", 7), table(), {"state": "leaving", "reason": "export", "changed_at": 7}),
        (stay_head(head(LEAVING), "export", 7), LEAVING, {"state": "active", "reason": None, "changed_at": 7}),
        (left_head(head(LEFT), "r", 7), LEFT, {"state": "dropped", "managed": False, "reason": "r", "changed_at": 7}),
        (mark_purging(head(PURGING)), PURGING, {"reason": "purging"}),
        (mark_purged(head(PURGING)), PURGING, {"reason": "purged"}),
        (mark_collecting(STAGING), STAGING, {"state": "collecting"}),
        (CLAIMED, marker(1), {"below": 2}),
        (SHARED, marker(2), {"below": 1}),
        (swap_head(CatalogHead.from_row(CATALOG), "c2", 7), CATALOG,
         {"head": "c2", "seq": 1, "recent": ["c2", "commit/1"], "changed_at": 7}),
    ],
)  # fmt: skip
def test_i9_i10_i11_a_state_change_writes_exactly_this(write: Change, row: Row, sets: dict[str, Any]) -> None:
    after = apply_actions(row, write.actions)
    assert {key: after.get(key) for key in sets} == sets
    assert {key: value for key, value in after.items() if key not in sets} == {
        key: value for key, value in row.items() if key not in sets
    }


def test_i1_i2_i7_a_ratification_writes_exactly_this() -> None:
    for change, count in ((NAMED, 1), (TICKET, 1), (BEHIND, 1)):
        row = table()
        after = apply_actions(row, change.actions)
        changed = {key for key in after if after[key] != row.get(key)}
        expected = {"latest", "last_ict", "tail", "ids", "bytes", "pending", "changed_at", "row_hwm"}
        assert changed == expected | ({"apps"} if change is TICKET else set())
        assert after["latest"] == after["pending"] == 6 and len(after["tail"]) == len(row["tail"]) + count
        assert after["ids"] == row["ids"] | {"x"} and after["changed_at"] == 9


def test_i4_i5_an_adoption_is_a_ratification_that_is_published_at_once() -> None:
    after = apply_actions(RECOVERING, ADOPT.actions)
    assert (after["latest"], after["floor"], after["state"]) == (6, 6, "recovering")
    assert (after["metadata"], after["epoch"], after["row_hwm"], after["last_ict"]) == ("m1", 6, 9, START_ICT + 9)
    recount(head(after))


@pytest.mark.parametrize("floor", [0, 2, 4])
def test_i2_i5_what_is_taken_back_leaves_the_head_as_it_was_at_its_floor(floor: int) -> None:
    whole = table(floor, row_hwm=4) if floor else empty_row(row_hwm=4)
    then = floored(whole, floor, idle=True) if floor else whole
    row = (floored(table(), floor, idle=False) if floor else table()) | {"state": "recovering", "epoch": 5}
    after = apply_actions(row, take_back(head(row), "m0", 7).actions)
    recount(head(after))
    same = then | {
        "state": "recovering", "epoch": floor, "metadata": "m0", "changed_at": 7,
        "reason": f"an operator chose _delta_log over the commits that were ratified from version {floor + 1} on",
        "apps": {app: min(1, floor) for app in row["apps"]},
    }  # fmt: skip
    assert after == same


def test_i2_a_commit_taken_back_that_began_row_tracking_leaves_none() -> None:
    row = must(empty_row(row_hwm=None), named(1, "t1", START_ICT + 1, hwm=9)) | {
        "state": "stuck",
        "reason": "version 1: x",
    }
    assert row["row_hwm"] == 9
    assert "row_hwm" not in apply_actions(row, take_back(head(row), "m0", 7).actions)


@pytest.mark.parametrize("row", [table(), WHOLE | {"state": "stuck"}, PARTLY | {"state": "dropped"}])
def test_i2_i10_nothing_is_taken_back_that_is_published_or_of_a_table_that_takes_commits(row: Row) -> None:
    with pytest.raises(ValueError, match="test/table/t is"):
        take_back(head(row), "m0", 7)


@pytest.mark.parametrize(
    "row", [RECOVERING, WHOLE | {"state": "pinned"}, WHOLE | {"state": "stuck", "reason": "by hand"}]
)
def test_i10_only_a_table_that_takes_commits_is_stopped_after_a_restore(row: Row) -> None:
    with pytest.raises(ValueError, match="test/table/t is"):
        mark_restored(head(row), 7)


@pytest.mark.parametrize(
    "row", [table(), RECOVERING, WHOLE | {"state": "dropped"}, WHOLE | {"state": "stuck", "reason": "by hand"}]
)
def test_i10_a_recovery_cannot_begin_on_a_table_that_must_not_change_or_is_behind(row: Row) -> None:
    with pytest.raises(ValueError, match="test/table/t is"):
        begin_recovery(head(row), 7)


def test_i9_i10_whole_rows_are_written_once_and_erased_with_their_key() -> None:
    kinds: list[tuple[Callable[[], Write], type]] = [
        (lambda: FRESH, Insert), (lambda: LAST, Erase), (lambda: use_staging("k"), Erase),
    ]  # fmt: skip
    assert all(isinstance(make(), kind) for make, kind in kinds)


def test_a_row_stays_as_it_was_before_the_actions_on_it() -> None:
    row: Row = {
        "key": "k",
        "n": 1,
        "tail": [b"a", b"b", b"c"],
        "apps": {"one": {"deep": 1}},
        "ids": {"x"},
        "other": ["y"],
    }
    before = clone(row)
    actions = (
        Set(("n",), 2),
        Set(("tail", 1), b"B"),
        Drop(("tail", 0)),
        Include(("ids",), frozenset({"z"})),
        Set(("apps", "one", "deep"), 2),
        Set(("apps", "two"), 3),
        Drop(("absent",)),
    )
    after = apply_actions(row, actions)
    assert row == before
    assert after == {
        "key": "k",
        "n": 2,
        "tail": [b"B", b"c"],
        "apps": {"one": {"deep": 2}, "two": 3},
        "ids": {"x", "z"},
        "other": ["y"],
    }
