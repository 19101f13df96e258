"""The marks of a vacuum follow from pins: what is pinned and was whole stays whole, and nothing
becomes whole again (I10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.catalog.core.location_rows import HeldLocation, Location, Reader
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.core import pins
from turnstile.maintenance.core.pins import KEPT_MAX, Marks, Pin, lowest, marks_of, of_files
from turnstile.store.core.errors import InvalidRequest, StateConflict
from turnstile.store.core.evaluate import holds as true_of
from turnstile.store.core.evaluate import row_after
from turnstile.store.core.writes import Row, Write

LATEST = 400
KINDS = ("retention", "moment", "snapshot", "clone", "transaction", "reader", "log")


@st.composite
def lists_of_pins(draw: Any) -> list[Pin]:
    made = [Pin(LATEST, None, "latest")]
    for _ in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, LATEST))
        last = draw(st.one_of(st.none(), st.just(first), st.integers(first, LATEST)))
        made.append(Pin(first, last, draw(st.sampled_from(KINDS))))
    return made


@given(rounds=st.lists(lists_of_pins(), min_size=1, max_size=4))
@settings(max_examples=examples(300))
def test_i10_marks_leave_what_is_pinned_and_was_whole_and_only_narrow(rounds: list[list[Pin]]) -> None:
    before = Marks()
    for some in rounds:
        after = marks_of(some, before)
        assert len(after.kept) <= KEPT_MAX
        assert all(version < after.readable_from for version in after.kept)
        for version in range(LATEST + 1):
            pinned = any(pin.covers(version) for pin in some if pin.kind != "log")
            assert after.readable(version) or not (pinned and before.readable(version)), version
            assert before.readable(version) or not after.readable(version), version
        before = after


def test_marks_are_as_high_as_the_pins_let_them_be() -> None:
    some = [
        Pin(9, None, "latest"),
        Pin(7, None, "moment"),
        Pin(2, 2, "clone"),
        Pin(4, 8, "reader"),
        Pin(0, None, "log"),
    ]
    assert marks_of(some, Marks()) == Marks(7, frozenset({2, 4, 5, 6}))
    assert marks_of([Pin(9, None, "latest")], Marks()) == Marks(9, frozenset())
    assert marks_of([Pin(9, None, "latest"), Pin(9, 9, "clone")], Marks()) == Marks(9, frozenset())
    assert (lowest(some), of_files(some)) == (0, tuple(some[:4]))


def test_a_pin_covers_its_versions_and_no_others() -> None:
    assert [version for version in range(9) if Pin(2, 4, "clone").covers(version)] == [2, 3, 4]
    assert [version for version in range(9) if Pin(7, None, "latest").covers(version)] == [7, 8]


def test_marks_of_more_versions_than_a_row_lists_are_lower() -> None:
    single = [Pin(version, version, "clone") for version in range(0, 2 * KEPT_MAX + 4, 2)]
    marks = marks_of([Pin(1000, None, "latest"), *single], Marks())
    assert (len(marks.kept), marks.readable_from) == (KEPT_MAX, 2 * KEPT_MAX)
    assert marks_of([Pin(1000, None, "latest"), *single[:KEPT_MAX]], Marks()).readable_from == 1000
    assert marks_of([Pin(1000, None, "latest"), Pin(3, 900, "reader")], Marks()) == Marks(3, frozenset())


def test_a_later_vacuum_with_more_pins_calls_nothing_whole_that_an_earlier_one_may_have_touched() -> None:
    before = Marks(7, frozenset({2, 4}))
    wider = [Pin(9, None, "latest"), Pin(3, None, "retention"), Pin(1, 2, "clone")]
    assert marks_of(wider, before) == Marks(7, frozenset({2, 4}))
    assert marks_of([Pin(9, None, "latest"), Pin(5, 8, "clone")], before) == Marks(9, frozenset({7, 8}))


# -- rows -------------------------------------------------------------------------------------------------------------

HELD = HeldLocation("file:///lake/t", "t")
NOW = 1_000_000_000


def row(**more: Any) -> Row:
    return {"key": "k", "kind": "location", "created": 1, "below": 0, "table_id": "t", **more}


def a_reader(holder: str = "r", first: int = 5, last: int = -1, until: int = NOW, principal: str = "p") -> Reader:
    return Reader(holder, principal, first, last, until)


def holds(write: Write, stored: Row) -> list[str]:
    """The clauses that refuse."""
    return [clause.name for clause in write.clauses if not true_of(stored, clause.test)]


OWNER = Location.from_row(row(clones={"c"}, revision=3))
WRITES = {
    "readers": (pins.set_readers(HELD, OWNER, (a_reader(),)), {"own", "unpurged", "same marks"}),
    "mark": (pins.mark(HELD, OWNER, Marks(4, frozenset({1}))), {"own", "unpurged", "same marks", "same clones"}),
}
OTHER = {
    "own": row(clones={"c"}, revision=3, table_id="u"),
    "unpurged": row(clones={"c"}, revision=3, purging=True),
    "same marks": row(clones={"c"}, revision=4),
    "same clones": row(clones={"c", "d"}, revision=3),
}


@pytest.mark.parametrize("name", WRITES)
def test_i10_each_clause_refuses_what_has_come_since(name: str) -> None:
    write, clauses = WRITES[name]
    assert holds(write, row(clones={"c"}, revision=3)) == []
    assert {clause.name for clause in write.clauses} == clauses
    for clause in clauses:
        assert holds(write, OTHER[clause]) == [clause]


def test_what_is_written_is_read_again() -> None:
    """An empty set is no set."""
    stored = row(clones={"c"}, revision=3)
    for marks in (Marks(4, frozenset({1, 2})), Marks(9, frozenset())):
        owner = Location.from_row(stored)
        stored = row_after(stored, pins.mark(HELD, owner, marks)) or {}
        assert pins.marks_in(Location.from_row(stored)) == marks and stored["revision"] == owner.revision + 1
        for readers in ((a_reader(),), ()):
            owner = Location.from_row(stored)
            stored = row_after(stored, pins.set_readers(HELD, owner, readers)) or {}
            assert Location.from_row(stored).readers == readers and stored["revision"] == owner.revision + 1
    assert "kept" not in stored and "readers" not in stored


def test_i10_nothing_is_removed_of_a_table_that_is_not_in_use() -> None:
    head = TableHead.from_row(
        {**dict.fromkeys(("key", "table_id", "catalog", "name", "location", "metadata"), "t"), "state": "active",
         "tail": [],
         **dict.fromkeys(("latest", "floor", "tail_from", "tail_ict", "epoch", "last_ict", "bytes", "created"), 1),
         "managed": True}
    )  # fmt: skip
    check = pins.in_use(head)
    assert (check.key, holds(check, {"key": "t", "state": "active"})) == ("t", [])
    for state in ("dropped", "leaving", "stuck", "recovering", "pinned"):
        assert holds(check, {"key": "t", "state": state}) == ["active"]


def test_a_reader_may_have_what_is_whole() -> None:
    owner = Location.from_row(row(readable_from=7, kept={"2", "4", "5", "6"}))
    assert pins.marks_in(owner) == Marks(7, frozenset({2, 4, 5, 6}))
    whole = [(7, -1), (9, 9), (2, 2), (4, -1), (4, 8), (5, 6), (6, 6), (6, 7)]
    torn = [(3, 3), (2, 4), (3, -1), (0, 0), (1, 2), (0, 1000), (2, -1), (3, 7)]
    assert [pins.whole(owner, a_reader(first=first, last=last)) for first, last in whole] == [True] * len(whole)
    assert [pins.whole(owner, a_reader(first=first, last=last)) for first, last in torn] == [False] * len(torn)
    first = Location.from_row(row(readable_from=7, kept={"0"}))
    assert pins.whole(first, a_reader(first=0, last=0)) and not pins.whole(first, a_reader(first=0, last=1))
    with pytest.raises(StateConflict) as refused:
        pins.with_reader(owner, a_reader(first=3), NOW, 0)
    assert (refused.value.type, refused.value.details) == ("VersionsGone", {"readable_from": 7})


def test_readers_replace_themselves_and_those_that_are_over() -> None:
    others = (a_reader("a", until=NOW - 11), a_reader("b", until=NOW - 10), a_reader("r"), a_reader("r", principal="q"))
    owner = Location.from_row(row(readers=[each.pack() for each in others]))
    assert owner.readers == others
    now = a_reader(first=6)
    assert pins.with_reader(owner, now, NOW, 10) == (others[1], others[3], now)
    assert pins.without_holder(owner, "r", "p") == (others[0], others[1], others[3])


def test_readers_are_bounded_for_each_principal_and_each_table() -> None:
    each = pins.READERS_EACH
    most = pins.READERS_MAX
    own = tuple(a_reader(f"r{n}") for n in range(each))
    owner = Location.from_row(row(readers=[one.pack() for one in own[1:]]))
    assert len(pins.with_reader(owner, a_reader("more"), NOW, 0)) == each
    for readers in (own, tuple(a_reader(f"r{n}", principal=f"p{n}") for n in range(most))):
        full = Location.from_row(row(readers=[one.pack() for one in readers]))
        with pytest.raises(StateConflict) as refused:
            pins.with_reader(full, a_reader("more"), NOW, 0)
        assert refused.value.type == "TooManyReaders"
        assert len(pins.with_reader(full, readers[0], NOW, 0)) == len(readers)
    almost = Location.from_row(row(readers=[a_reader(f"r{n}", principal=f"p{n}").pack() for n in range(most - 1)]))
    assert len(pins.with_reader(almost, a_reader("more"), NOW, 0)) == most


@pytest.mark.parametrize("holder", ["", "-a", "a b", "a/b", "a" * 81, "ä"])
def test_a_holder_has_a_plain_name(holder: str) -> None:
    with pytest.raises(InvalidRequest):
        pins.check_holder(holder)
    assert pins.check_holder("a" * 80) == "a" * 80
