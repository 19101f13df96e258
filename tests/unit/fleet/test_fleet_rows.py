"""The writes of the fleet: what each changes, and each clause alone refuses it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.fleet.rows_of_members import SPACE, member
from turnstile.fleet.core.rows import (
    MOVES_S,
    FleetRow,
    GranuleRow,
    MemberRow,
    MovesRow,
    add_role,
    claim,
    found_fleet,
    hand_over,
    join_fleet,
    owned_still,
    remove_member,
    show_life,
    take_over,
)
from turnstile.store.core.evaluate import apply_actions, holds
from turnstile.store.core.writes import Change, Check, Erase, Insert, Row, Write

KEY = SPACE.fleet()
NOW = 1_000


def granule(number: int, owner: str = "a", epoch: int = 5) -> GranuleRow:
    name = f"publish/{number}"
    return GranuleRow(SPACE.fleet_granule(name), name, owner, epoch, 3)


ENTRY = SPACE.fleet_moves("a", 2)
FLEET = FleetRow(KEY, {"publish": 8}, 1, frozenset({"a", "b"}))


def after(write: Write, row: Row | None) -> Row | None:
    """The row after the write; it must be accepted."""
    assert refusing(write, row) == []
    if isinstance(write, Erase):
        return None
    return write.row if isinstance(write, Insert) else apply_actions(row or {}, getattr(write, "actions", ()))


def refusing(write: Write, row: Row | None) -> list[str]:
    return [clause.name for clause in write.clauses if not holds(row or {}, clause.test)]


def test_i19_a_fleet_is_founded_once_and_the_granules_of_a_role_never_change() -> None:
    founded = found_fleet(KEY, {"publish": 8}, NOW)
    assert FleetRow.from_row(founded.row) == FleetRow(KEY, {"publish": 8}, NOW)
    assert refusing(founded, founded.row) == ["new"]
    added = add_role(KEY, "maintain", 4)
    assert FleetRow.from_row(after(added, founded.row) or {}).granules == {"publish": 8, "maintain": 4}
    assert refusing(add_role(KEY, "publish", 4), founded.row) == ["new role"]
    assert refusing(added, None) == ["founded"]


def test_i19_a_member_joins_and_is_listed_in_one_transaction() -> None:
    row, listed = join_fleet(KEY, member("c"))
    assert isinstance(row, Insert) and MemberRow.from_row(row.row) == member("c")
    assert FleetRow.from_row(after(listed, FLEET.to_row()) or {}).members == {"a", "b", "c"}
    assert refusing(row, row.row) == ["new"] and refusing(listed, None) == ["founded"]


def test_i19_a_sign_of_life_counts_and_only_one_process_shows_it() -> None:
    me = member()
    write = show_life(me, {"publish": 9}, 20, NOW)
    shown = MemberRow.from_row(after(write, me.to_row()) or {})
    assert shown == replace(me, life=5, beat_ms=20, loads={"publish": 9}, shown_at=NOW)
    given = MemberRow.from_row(after(write, replace(me, loads={"publish": 11}).to_row()) or {})
    assert given.loads == {"publish": 13}, "what a giver added meanwhile stays"
    assert refusing(write, member(life=5).to_row()) == ["own life"] and refusing(write, None) == ["own life"]
    assert (after(show_life(me, {}, 20, NOW, leaving=True), me.to_row()) or {})["state"] == "leaving"
    unmeasured = MemberRow.from_row(after(show_life(me, None, 20, NOW), me.to_row()) or {})
    assert unmeasured == replace(me, life=5, beat_ms=20, shown_at=NOW)
    leaving = member(state="leaving")
    assert (after(show_life(leaving, {}, 20, NOW), leaving.to_row()) or {})["state"] == "leaving"


def test_i19_a_member_is_removed_when_it_owns_nothing_and_has_shown_no_life_since() -> None:
    gone, listed = remove_member(KEY, member(owned=0))
    assert isinstance(gone, Erase) and after(gone, member(owned=0).to_row()) is None
    assert FleetRow.from_row(after(listed, FLEET.to_row()) or {}).members == {"b"}
    assert refusing(gone, member(owned=1).to_row()) == ["owns nothing"]
    assert refusing(gone, member(owned=0, life=5).to_row()) == ["same life"]
    assert refusing(listed, None) == ["founded"]


def changed(writes: tuple[Write, ...], *rows: GranuleRow | MemberRow) -> list[Any]:
    """The rows after a transaction that is accepted."""
    *writes, entry = writes  # type: ignore[assignment]
    keys = [row.key for row in rows]
    assert [write.key for write in writes] == keys and isinstance(entry, Insert) and entry.key == ENTRY
    new = [after(write, row.to_row()) for write, row in zip(writes, rows, strict=True)]
    return [type(row).from_row(found or {}) for row, found in zip(rows, new, strict=True)]


def test_i19_a_free_granule_is_claimed_under_the_next_epoch() -> None:
    free = granule(1, owner="")
    fresh = granule(2, owner="", epoch=0)
    me = member()
    writes = claim([free, fresh], me, NOW)
    first, second, own = writes
    assert isinstance(second, Insert) and refusing(second, second.row) == ["new"]
    assert GranuleRow.from_row(second.row) == GranuleRow(fresh.key, "publish/2", "a", 1, NOW)
    assert GranuleRow.from_row(after(first, free.to_row()) or {}) == GranuleRow(free.key, "publish/1", "a", 6, NOW)
    got = MemberRow.from_row(after(own, me.to_row()) or {})
    assert (got.owned, got.changes) == (5, 3)
    assert refusing(first, granule(1, epoch=6).to_row()) == ["same epoch"]
    assert refusing(own, member(state="leaving").to_row()) == ["active"] and refusing(own, None) == ["active"]


def test_i19_granules_are_handed_over_in_one_transaction_over_both_members() -> None:
    mine = granule(1)
    source = member()
    to = member("b", owned=0, changes=0)
    writes = hand_over([mine], source, to, NOW, entry=ENTRY)
    moved, less, more = changed(writes, mine, source, to)
    assert (moved.owner, moved.epoch, moved.since) == ("b", 6, NOW)
    assert (less.owned, less.changes, more.owned, more.changes) == (2, 3, 1, 1)
    assert (less.moves, more.moves) == (source.moves + 1, to.moves)
    assert (less.life, less.shown_at, more.life) == (source.life + 1, NOW, to.life), "who gives shows life"
    assert refusing(writes[1], member(changes=3).to_row()) == ["same changes"]
    assert refusing(writes[1], member(life=5).to_row()) == ["own life"]
    assert refusing(writes[2], member("b", state="leaving").to_row()) == ["active"]
    assert [moved.owner for moved in changed(hand_over([mine], source, None, NOW, entry=ENTRY), mine, source)[:1]] == [
        ""
    ]


def test_what_a_member_is_given_counts_as_its_load_before_it_has_measured_that() -> None:
    mine = granule(1)
    source = member()
    to = member("b", loads={"publish": 7})
    _, less, more = changed(hand_over([mine], source, to, NOW, entry=ENTRY, role="publish", load=4), mine, source, to)
    assert (less.loads, more.loads) == ({"publish": 3}, {"publish": 11}), "and no more as the giver's"
    _, less, more = changed(hand_over([mine], source, to, NOW, entry=ENTRY), mine, source, to)
    assert less.loads == more.loads == {"publish": 7}


def test_i19_granules_of_a_silent_member_are_taken_over_unless_it_shows_life() -> None:
    theirs = granule(1)
    source = member()
    me = member("b", owned=2, changes=7)
    writes = take_over([theirs, granule(2)], source, me, NOW, entry=ENTRY)
    moved, _, less, more = changed(writes, theirs, granule(2), source, me)
    assert (moved.owner, moved.epoch, less.owned, less.changes, more.owned, more.changes) == ("b", 6, 1, 3, 4, 8)
    assert refusing(writes[2], member(life=5).to_row()) == ["silent"]
    assert refusing(writes[2], member(changes=9).to_row()) == []
    assert changed(take_over([theirs], source, None, NOW, entry=ENTRY), theirs, source)[0].owner == ""


def test_i19_what_leaves_a_member_is_an_entry_of_its_log_under_the_next_number() -> None:
    source = member(moves=1)
    to = member("b")
    for writes, owner in (
        (hand_over([granule(1), granule(2, epoch=8)], source, to, NOW, entry=ENTRY), "b"),
        (take_over([granule(1), granule(2, epoch=8)], source, to, NOW, entry=ENTRY), "b"),
        (take_over([granule(1), granule(2, epoch=8)], source, None, NOW, entry=ENTRY), ""),
    ):
        entry = writes[-1]
        assert isinstance(entry, Insert) and refusing(entry, entry.row) == ["new"]
        epochs = {"publish/1": 6, "publish/2": 9}
        assert MovesRow.from_row(entry.row) == MovesRow(ENTRY, owner, epochs, NOW, NOW // 1000 + MOVES_S)
        (less,) = [write for write in writes if write.key == source.key]
        assert MemberRow.from_row(after(less, source.to_row()) or {}).moves == 2


def test_i19_a_fence_holds_in_the_epoch_of_its_owner_only() -> None:
    fence = owned_still(granule(1))
    assert isinstance(fence, Check) and refusing(fence, granule(1).to_row()) == []
    assert refusing(fence, granule(1, epoch=6).to_row()) == ["same epoch"] == refusing(fence, None)


@pytest.mark.parametrize(
    "row", [FLEET, member(), granule(1), FleetRow(KEY, {}, 1), MovesRow(ENTRY, "", {"publish/1": 2}, 1, 2)]
)
def test_rows_are_read_as_they_were_written(row: Any) -> None:
    assert type(row).from_row(row.to_row()) == row


def test_a_granules_role_is_the_first_part_of_its_name() -> None:
    assert granule(3).role == "publish"


def test_every_change_says_whose_row_it_is() -> None:
    kinds = [type(write) for write in hand_over([granule(1)], member(), member("b"), NOW, entry=ENTRY)]
    assert kinds == [Change, Change, Change, Insert]
