"""Tables that the sweeper reads within its bound: tables with a note, a part of them, or all on
request (I11, ADR 53)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.attention import AttentionRow, Rounds, releases_of
from turnstile.delta.core.attention import (
    NOTES_MAX,
    Attention,
    Part,
    Release,
    Seen,
    first,
    next_part,
    note,
    note_of,
    settle,
    want,
)
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import KEEP_EVERY, Sweeper, publish_tables
from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.evaluate import accepts, row_after
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Present

LATER = 10_000_000
KEY = "test/attention/tables"


def row(*notes: str, **members: Any) -> Attention:
    given = {"after": "", "wanted": 1, "done": 1, "pass_for": 1, "pass_after": "", "noted": frozenset(notes)}
    return Attention(KEY, **{**given, **members})


def after(attention: Attention, *changes: Any) -> Attention:
    stored: Any = attention.to_row()
    for change in changes:
        assert accepts(stored, change)
        stored = row_after(stored, change)
    return Attention.from_row(stored)


def part(sweeper: Sweeper, world: FakeWorld, rows_max: int = 64) -> Any:
    return sweeper.sweep_part(until_ms=world.clock.now + LATER, each_ms=LATER, rows_max=rows_max, workers=1)


# -- the row -----------------------------------------------------------------------------------------------------------


def test_of_what_was_there_before_the_row_nothing_is_known() -> None:
    made = Attention.from_row(first(KEY).row)
    assert next_part(made, None) == Part("", 1) and made.noted == frozenset()
    assert not accepts(row().to_row(), first(KEY)), "somebody else made it meanwhile"


def test_i11_every_change_needs_the_row() -> None:
    for change in (note(row(), ["a 1"]), want(KEY), *settle(row(), Part(""), Seen("x", frozenset()), keep_place=True)):
        assert change is not None and [clause.test for clause in change.clauses] == [Present(("key",))]
        assert not accepts(None, change)


def test_notes_are_added_once_and_too_many_become_a_full_pass() -> None:
    assert note(row("a 1"), ["a 1"]) is None
    added = note(row("a 1"), ["a 1", "b 2"])
    assert added is not None and after(row("a 1"), added).noted == {"a 1", "b 2"}
    full = row(*(f"{number} 1" for number in range(NOTES_MAX - 1)))
    last = note(full, ["x 1"])
    many = note(full, ["x 1", "y 1"])
    assert last is not None and len(after(full, last).noted) == NOTES_MAX
    assert many is not None and after(full, many) == row(*full.noted, wanted=2)


def test_a_full_pass_that_was_begun_goes_on_and_a_later_request_gets_its_own() -> None:
    assert next_part(row(), None) == Part("") and not next_part(row(), None).is_full
    assert next_part(row(after="k"), None) == Part("k")
    assert next_part(row(after="k"), "") == Part(""), "this process has come to the end since"
    assert next_part(row(wanted=2), "k") == Part("", 2)
    under_way = row(wanted=3, pass_for=2, pass_after="k")
    assert next_part(under_way, "x") == Part("k", 2)
    [ended] = settle(under_way, Part("k", 2), Seen("", frozenset()), keep_place=False)
    assert next_part(after(under_way, ended), None) == Part("", 3)
    [cut_off] = settle(under_way, Part("k", 2), Seen("m", frozenset()), keep_place=False)
    assert next_part(after(under_way, cut_off), None) == Part("m", 2)
    [begun] = settle(row(wanted=2), Part("", 2), Seen("b", frozenset()), keep_place=False)
    assert next_part(after(row(wanted=2), begun), None) == Part("b", 2)


def test_the_place_of_a_part_is_written_when_it_is_worth_it() -> None:
    assert settle(row(), Part(""), Seen("k", frozenset()), keep_place=False) == ()
    assert settle(row(after="k"), Part(""), Seen("k", frozenset()), keep_place=True) == ()
    [kept] = settle(row(), Part(""), Seen("k", frozenset()), keep_place=True)
    assert after(row(), kept).after == "k"
    full = row(wanted=2)
    [done] = settle(full, Part("", 2), Seen("", frozenset()), keep_place=True)
    assert after(full, done).after == "", "a full pass has a place of its own"


notes = st.frozensets(st.builds(note_of, st.sampled_from("abc"), st.sampled_from("1234")), max_size=6)


@given(notes, notes, notes)
def test_i11_a_note_goes_only_if_it_was_read_and_no_unsettled_table_is_forgotten(
    read: frozenset[str], later: frozenset[str], unsettled: frozenset[str]
) -> None:
    """``later`` came while the sweep published."""
    stored = row(*read, *later)
    changes = settle(row(*read), Part(""), Seen("", unsettled), keep_place=False)
    left = after(stored, *changes)
    assert later - read <= left.noted
    assert left.tables().keys() >= {one.partition(" ")[0] for one in unsettled}
    if not later:
        assert left.tables().keys() == {one.partition(" ")[0] for one in unsettled}
        assert all(len(kept) == 1 for kept in left.tables().values())


def test_more_unsettled_tables_than_there_is_room_for_become_a_full_pass() -> None:
    unsettled = frozenset(note_of(str(number), "1") for number in range(NOTES_MAX + 1))
    [change] = settle(row("a 1"), Part(""), Seen("", unsettled), keep_place=False)[:1]
    assert after(row("a 1"), change) == row(wanted=2)
    fits = frozenset(sorted(unsettled)[:NOTES_MAX])
    assert len(after(row("a 1"), *settle(row("a 1"), Part(""), Seen("", fits), keep_place=False)).noted) == NOTES_MAX


def test_notes_that_are_there_ask_for_nothing_however_many_they_are() -> None:
    many = row(*(note_of(str(number), "1") for number in range(NOTES_MAX + 5)))
    assert settle(many, Part(""), Seen("", many.noted), keep_place=False) == ()


def test_there_is_one_write_where_one_is_enough() -> None:
    for read, unsettled in (((), {"a 1"}), (("a 1",), set())):
        assert len(settle(row(*read), Part(""), Seen("", frozenset(unsettled)), keep_place=True)) == 1
    added, removed = settle(row("a 1"), Part(""), Seen("", frozenset({"b 1"})), keep_place=False)
    assert after(row("a 1"), added).noted == {"a 1", "b 1"}, "what is added comes first"
    assert after(row("a 1"), added, removed).noted == {"b 1"}


# -- the sweeper -------------------------------------------------------------------------------------------------------


def test_i11_the_first_sweep_looks_at_all_tables_and_the_next_at_a_part() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(7)]
    for table in tables:
        table.mixed(2)
    sweeper = Sweeper(world, Publisher(world))
    assert part(sweeper, world, 2).tables == 7
    for table in tables:
        table.check_all_published()
    looked = [part(sweeper, world, 2).tables for _ in range(12)]
    assert max(looked) <= 2 and sum(looked) >= 7


def test_i11_a_table_without_a_hint_or_note_is_found_part_by_part_also_by_processes_that_begin_anew() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(20)]
    part(Sweeper(world, Publisher(world)), world)
    for table in tables:
        table.mixed(1)
    for _ in range(4):
        sweeper = Sweeper(world, Publisher(world))
        for _ in range(KEEP_EVERY):
            part(sweeper, world, 2)
    for table in tables:
        table.check_all_published()


def test_i11_a_noted_table_is_tried_by_every_sweep_until_it_is_published() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    other = Table(world, table_id(2))
    sweeper = Sweeper(world, Publisher(world))
    attention = AttentionRow(world)
    part(sweeper, world)
    table.mixed(3)
    other.mixed(1)
    table.put(published_path(2), b"foreign\n")
    done = publish_tables(world, Publisher(world), [table.id], until_ms=world.clock.now + LATER, each_ms=LATER)
    attention.note(done.tables_to_revisit("x"))
    assert attention.read().noted == {f"{table.id} 3"}
    for _ in range(3):
        sweeper.looked_to("\x7f")
        swept = part(sweeper, world, 1)
        assert [one.table_id for one in swept.round.problems] == [table.id] and swept.tables == 1
        assert attention.read().noted == {f"{table.id} 3"}
    table.storage.delete(published_path(2))
    sweeper.looked_to("\x7f")
    part(sweeper, world, 1)
    table.check_all_published()
    assert attention.read().noted == frozenset()
    assert other.head.floor == 0, "nobody noted it, and the part held no row"


def test_i11_a_table_that_a_part_found_and_could_not_publish_is_noted() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    sweeper = Sweeper(world, Publisher(world))
    part(sweeper, world)
    table.mixed(3)
    table.put(published_path(2), b"foreign\n")
    part(sweeper, world)
    assert AttentionRow(world).read().noted == {f"{table.id} 3"}


def test_a_note_of_a_table_that_is_gone_or_dropped_goes() -> None:
    world = fake_world()
    dropped = Table(world, table_id(1))
    dropped.mixed(1)
    dropped.row["state"] = "dropped"
    AttentionRow(world).note([note_of(dropped.id, "1"), note_of(table_id(9), "x")])
    part(Sweeper(world, Publisher(world)), world)
    assert AttentionRow(world).read().noted == frozenset()


def test_a_row_that_cannot_be_parsed_stays_noted_and_is_reported_by_each_sweep() -> None:
    world = fake_world()
    damaged = Table(world, table_id(1))
    del damaged.row["tail_ict"]
    sweeper = Sweeper(world, Publisher(world))
    for _ in range(3):
        swept = part(sweeper, world)
        assert [one.table_id for one in swept.unreadable] == [damaged.id]
        sweeper.looked_to("\x7f")


def test_i11_a_full_pass_is_asked_for_and_made_over_several_sweeps() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(6)]
    sweeper = Sweeper(world, Publisher(world))
    part(sweeper, world)
    for table in tables:
        table.mixed(1)
    sweeper.want_full_pass()
    world.clock.step = 100
    swept = sweeper.sweep_part(until_ms=world.clock.now + 900, each_ms=LATER, rows_max=1, workers=1)
    assert not swept.complete and swept.tables < 6
    world.clock.step = 0
    assert part(Sweeper(world, Publisher(world)), world, 1).complete, "another process goes on with it"
    for _ in range(2):
        part(sweeper, world)
    for table in tables:
        table.check_all_published()


@pytest.mark.parametrize("tables", [3, 300])
def test_what_an_idle_sweep_asks_of_the_store_does_not_grow_with_tables(tables: int) -> None:
    world = fake_world()
    for number in range(tables):
        Table(world, table_id(number))
    sweeper = Sweeper(world, Publisher(world))
    part(sweeper, world)
    del world.refs.requests[:]
    for _ in range(KEEP_EVERY):
        assert part(sweeper, world, 8).tables <= 8
    requests = world.refs.requests
    assert requests.count("read") == requests.count("scan_part") == KEEP_EVERY
    assert requests.count("write") <= 1, "its place, once in a while"
    assert len(requests) <= 2 * KEEP_EVERY + 1


def test_the_versions_that_swept_the_store_are_read_with_their_days() -> None:
    world = fake_world()
    assert releases_of(world) == ()
    for version, day in (("0.1.0", "2026-01-02"), ("0.2.0", "2026-03-04"), ("0.1.0", "2026-05-06")):
        row = AttentionRow(world)
        row.add_release(row.read(), version, day)
    assert releases_of(world) == (Release("0.1.0", "2026-01-02"), Release("0.2.0", "2026-03-04"))


def test_i11_a_damaged_work_list_has_every_table_looked_at_and_is_reported_once_by_each_sweep() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.inline()
    world.refs.damage(KEY)
    sweeper = Sweeper(world, Publisher(world), "0.1.0")
    for look in (lambda: part(sweeper, world), lambda: sweeper.sweep(until_ms=world.clock.now + LATER, each_ms=LATER)):
        swept = look()
        assert (swept.tables, swept.complete) == (3, True)
        assert [(row.table_id, row.unread, KEY in row.message) for row in swept.unreadable] == [("", True, True)]
    assert all(table.head.floor == table.head.latest for table in tables)


def test_i11_a_damaged_work_list_takes_no_note_and_stops_no_writer_of_notes() -> None:
    """Each sweep looks at every table then."""
    world = fake_world()
    part(Sweeper(world, Publisher(world)), world)
    world.refs.damage(KEY)
    before = dict(world.refs.rows[KEY])
    row = AttentionRow(world)
    row.note(["t"])
    row.want_full_pass()
    assert world.refs.rows[KEY] == before


# -- other schedules that look at rows in parts ------------------------------------------------------------------------


class Looking:
    """What rounds show, by run; ``unsettled`` tables stay noted, and after ``stop_after`` looks the
    time is up."""

    def __init__(self, world: FakeWorld, rows_max: int) -> None:
        self.rounds = Rounds(world, "test", ("table",), rows_max)
        self.seen = list[str]()
        self.unsettled = set[str]()
        self.retried = list[list[str]]()
        self.looks_left = 1_000

    def run(self) -> list[str]:
        del self.seen[:]
        self.rounds.run(self._look, lambda: self.looks_left > 0, self._retry)
        return list(self.seen)

    def _look(self, rows: Sequence[Any]) -> set[str]:
        self.looks_left -= 1
        self.seen += [row["table_id"] for row in rows]
        return self.unsettled & set(self.seen)

    def _retry(self, ids: Iterable[str]) -> set[str]:
        self.retried.append(list(ids))
        return self.unsettled & set(self.retried[-1])


def looking(tables: int, rows_max: int) -> tuple[FakeWorld, Looking, list[str]]:
    world = fake_world()
    made = sorted(Table(world, table_id(number)).id for number in range(tables))
    for key in [key for key, row in world.refs.rows.items() if row["kind"] != "table"]:
        del world.refs.rows[key]
    return world, Looking(world, rows_max), made


def test_i11_the_first_run_looks_at_all_rows_and_the_next_ones_at_a_part_each_round_and_round() -> None:
    world, looking_at, tables = looking(600, 250)
    assert looking_at.run() == tables
    seen = list[str]()
    while len(seen) < 1_200:
        del world.refs.requests[:]
        part = looking_at.run()
        assert len(part) <= 250 and world.refs.requests.count("scan_part") == 1
        seen += part
    assert seen[:600] == seen[600:1200] == tables


def test_i11_a_full_pass_goes_on_where_time_ended_it_and_is_made_once() -> None:
    _, looking_at, tables = looking(600, 100)
    looking_at.looks_left = 2
    assert looking_at.run() == tables[:499], "a row beside them is of the schedule itself"
    looking_at.looks_left = 1_000
    assert looking_at.run() == tables[249:], "the second look ended the run, so its rows do not count"
    assert len(looking_at.run()) <= 100
    looking_at.rounds.attention.want_full_pass()
    assert looking_at.run() == tables


def test_i11_a_run_without_time_keeps_the_place_and_a_wanted_pass() -> None:
    _, looking_at, tables = looking(200, 100)
    looking_at.looks_left = 0
    assert looking_at.run() == []
    looking_at.looks_left = 1
    assert looking_at.run() == tables, "shown, but the time was up then"
    looking_at.looks_left = 1_000
    assert looking_at.run() == tables, "the pass that was wanted at first"


def test_i11_tables_that_are_left_are_tried_first_by_every_run_until_they_are_done() -> None:
    _, looking_at, tables = looking(600, 100)
    looking_at.unsettled = {tables[7]}
    for _ in range(3):
        looking_at.run()
    assert looking_at.retried == [[], [tables[7]], [tables[7]]]
    looking_at.unsettled = set()
    for _ in range(2):
        looking_at.run()
    assert looking_at.retried[3:] == [[tables[7]], []]


def test_i11_a_damaged_work_list_stops_no_look_and_is_raised_at_the_end() -> None:
    world, looking_at, tables = looking(600, 100)
    world.refs.damage("test/attention/test")
    with pytest.raises(UnreadableRow, match="test/attention/test"):
        looking_at.run()
    assert looking_at.seen == tables and looking_at.retried == []
    looking_at.looks_left = 1
    with pytest.raises(UnreadableRow):
        looking_at.run()
    assert 0 < len(looking_at.seen) < 600, "as far as the time suffices"
    looking_at.rounds.retry(lambda _: ["t"])


def test_rounds_of_different_schedules_do_not_touch_each_other() -> None:
    world, looking_at, tables = looking(10, 100)
    AttentionRow(world, "another").want_full_pass()
    looking_at.run()
    assert AttentionRow(world, "another").read().wanted == 2 and AttentionRow(world, "test").read().wanted == 1
    assert AttentionRow(world).read().noted == frozenset() and len(tables) == 10
