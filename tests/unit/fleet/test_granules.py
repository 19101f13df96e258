"""A member's cached granules, and the entries and granules that it reads."""

from __future__ import annotations

from tests.unit.fleet.rows_of_members import SPACE, member
from turnstile.fleet.core.granules import PROBED, Granules
from turnstile.fleet.core.rows import GranuleRow, MemberRow, MovesRow

ALL = {"a", "b", "me"}


def row(number: int, owner: str = "a", epoch: int = 1) -> GranuleRow:
    name = f"publish/{number}"
    return GranuleRow(SPACE.fleet_granule(name), name, owner, epoch, 3)


def me(changes: int = 0, moves: int = 0) -> MemberRow:
    return member("me", changes=changes, moves=moves)


def entry(to: str, epoch: int, *numbers: int) -> MovesRow:
    return MovesRow("key", to, {f"publish/{number}": epoch for number in numbers}, 7, 9)


def read(*rows: GranuleRow) -> Granules:
    """All granules read, of members that were noticed: ``a`` with one entry, ``b`` with none."""
    granules = Granules("me", [row.name for row in rows], SPACE.fleet_granule)
    granules.notice(me(), [member("a", moves=1), member("b", moves=0)], ALL)
    for each in rows:
        granules.put(each)
    return granules


def apply(granules: Granules, **entries: MovesRow) -> None:
    """What is wanted, of which there are some: ``a2`` is the second of a."""
    granules.apply(granules.entries(100), {(name[0], int(name[1:])): row for name, row in entries.items()})


def names(rows: list[GranuleRow]) -> list[str]:
    return [row.name for row in rows]


def test_granules_that_were_never_read_have_no_owner_and_are_to_be_read() -> None:
    granules = Granules("me", ["publish/0", "publish/1"])
    assert granules.get("publish/0") is None and granules.all() == granules.owned_by("") == []
    assert granules.unread(1) == ["publish/0"] and granules.unread(5) == ["publish/0", "publish/1"]
    granules.put(row(0))
    assert granules.get("publish/0") == row(0) and granules.unread(5) == ["publish/1"]


def test_a_granule_has_one_owner_the_last_that_was_read() -> None:
    granules = read(row(0), row(1), row(2, "b"), row(3, ""))
    assert names(granules.owned_by("a")) == ["publish/0", "publish/1"] and names(granules.owned_by("")) == ["publish/3"]
    granules.put(row(1, "b", 2))
    assert names(granules.owned_by("a")) == ["publish/0"] and names(granules.owned_by("b")) == [
        "publish/2",
        "publish/1",
    ]
    assert len(granules.all()) == 4
    assert granules.counts("b") == {"publish": 2} and granules.counts("nobody") == {}
    granules.put(row(0, "b", 2))
    assert granules.owned_by("a") == [] and granules.counts("a") == {}
    granules.drop(["publish/0"])
    assert granules.counts("b") == {"publish": 2}


def test_i19_a_granule_that_is_being_given_away_is_free_until_it_is_read_or_written() -> None:
    granules = read(row(0), row(1))
    granules.drop(["publish/0", "publish/7"])
    assert granules.get("publish/0") is None and names(granules.owned_by("a")) == ["publish/1"]
    assert granules.unread(9) == ["publish/0", "publish/7"]


def test_i19_entries_of_members_whose_rows_count_more_than_were_read_say_what_changed_hands() -> None:
    granules = read(row(0), row(1), row(2, "b"))
    granules.notice(me(), [member("a", moves=1), member("b", moves=0)], ALL)
    assert granules.entries(9) == []
    granules.notice(me(), [member("a", moves=3)], ALL)
    assert granules.entries(9) == [("a", 2), ("a", 3)] and granules.entries(1) == [("a", 2)]
    assert granules.get("publish/0") == row(0) and not granules.is_noticed(me()), "they are not read yet"
    apply(granules, a2=entry("b", 2, 0), a3=entry("", 2, 1))
    assert names(granules.owned_by("b")) == ["publish/2", "publish/0"] and names(granules.owned_by("")) == ["publish/1"]
    moved = granules.get("publish/0")
    assert moved is not None and (moved.epoch, moved.since, moved.key) == (2, 7, row(0).key)
    assert granules.entries(9) == granules.unread(9) == [] and granules.is_noticed(me())
    granules.notice(me(), [member("a", moves=3)], ALL)
    assert granules.entries(9) == []


def test_i19_entries_are_applied_in_order_and_a_part_of_them_is_a_part() -> None:
    granules = read(row(0), row(1), row(2))
    granules.notice(me(), [member("a", moves=4)], ALL)
    wanted = granules.entries(2)
    granules.apply(wanted, {("a", 2): entry("b", 2, 0), ("a", 3): entry("b", 2, 1)})
    assert granules.entries(9) == [("a", 4)] and names(granules.owned_by("a")) == ["publish/2"]
    granules.apply(wanted, {("a", 2): entry("b", 9, 2)})
    assert names(granules.owned_by("a")) == ["publish/2"], "what was read before is not read again"


def test_i19_an_entry_of_an_earlier_epoch_changes_nothing() -> None:
    granules = read(row(0, "b", 5))
    granules.notice(me(), [member("a", moves=2)], ALL)
    apply(granules, a2=entry("a", 5, 0))
    assert granules.get("publish/0") == row(0, "b", 5)


def test_i19_where_an_entry_is_gone_the_members_granules_are_read_again_and_what_is_given_to_it() -> None:
    granules = read(row(0), row(1), row(2, "b"))
    granules.notice(me(), [member("a", moves=4)], ALL)
    apply(granules, a2=entry("b", 2, 0), a4=entry("b", 2, 1))
    assert granules.unread(9) == ["publish/1"] and granules.entries(9) == []
    granules.put(row(1))
    granules.notice(me(), [member("b", moves=1)], ALL)
    apply(granules, b1=entry("a", 3, 2))
    assert granules.unread(9) == ["publish/2"], "it may have given that away in an entry that is gone"
    granules.put(row(2, "a", 3))
    granules.notice(me(), [member("a", moves=5)], ALL)
    apply(granules, a5=entry("b", 4, 2))
    assert names(granules.owned_by("b")) == ["publish/0", "publish/2"], "what comes later is read as always"


def test_i19_a_granule_that_is_to_be_read_is_read_whatever_an_entry_says_but_for_ones_own() -> None:
    granules = read(row(0), row(1))
    granules.read_again(["publish/0"])
    granules.notice(me(), [member("a", moves=2)], ALL)
    apply(granules, a2=entry("b", 2, 0, 1))
    assert granules.unread(9) == ["publish/0"] and names(granules.owned_by("b")) == ["publish/1"]
    new = Granules("me", ["publish/0", "publish/1"], SPACE.fleet_granule)
    new.notice(me(), [member("a", moves=1)], ALL)
    new.notice(me(), [member("a", moves=3)], ALL)
    apply(new, a2=entry("b", 2, 0), a3=entry("me", 2, 1))
    assert new.unread(9) == ["publish/0"] and new.owned_by("me") == [GranuleRow(row(1).key, "publish/1", "me", 2, 7)], (
        "what leaves this member it knows itself"
    )


def test_i19_what_this_member_is_giving_away_no_entry_makes_its_own_again() -> None:
    granules = read(row(0, "me", 2))
    granules.drop(["publish/0"])
    granules.notice(me(), [member("a", moves=2)], ALL)
    apply(granules, a2=entry("me", 2, 0))
    assert granules.get("publish/0") is None and granules.unread(9) == ["publish/0"]
    granules.put(row(0, "me", 2))
    granules.notice(me(), [member("a", moves=3)], ALL)
    apply(granules, a3=entry("me", 4, 0))
    got = granules.get("publish/0")
    assert got is not None and got.epoch == 4


def test_entries_about_granules_of_other_roles_are_passed_over() -> None:
    granules = read(row(0))
    granules.notice(me(), [member("a", moves=2)], ALL)
    apply(granules, a2=entry("me", 2, 7))
    assert granules.get("publish/7") is None and granules.unread(9) == []


def test_i19_the_log_of_a_former_member_is_read_to_its_end_and_then_what_is_left() -> None:
    granules = read(row(0, "b"), row(1, "b"), row(2, ""))
    granules.notice(me(), [], {"a", "me"})
    assert granules.entries(2) == [("b", 1), ("b", 2)]
    apply(granules, b1=entry("a", 2, 0))
    assert granules.unread(9) == ["publish/1"] and granules.entries(9) == []
    granules.put(row(1, "b", 3))
    granules.notice(me(), [], {"a", "me"})
    assert granules.unread(9) == ["publish/1"] and granules.entries(9) == [], "until somebody owns it"
    granules.put(row(1, "a", 4))
    granules.notice(me(), [], {"a", "me"})
    assert granules.unread(9) == []


def test_the_log_of_a_former_member_is_read_some_entries_at_a_time_and_not_at_all_where_it_owned_nothing() -> None:
    granules = read(row(0, "b"), row(1))
    granules.notice(me(), [], {"me"})
    assert sorted(granules.entries(100)) == [("a", number) for number in range(2, 2 + PROBED)] + [
        ("b", number) for number in range(1, 1 + PROBED)
    ]
    apply(granules, **{f"b{number}": entry("", 1, 7) for number in range(1, 1 + PROBED)})
    assert granules.entries(100) == [("b", number) for number in range(1 + PROBED, 1 + 2 * PROBED)]
    assert granules.unread(9) == ["publish/1"]
    empty = read(row(0, "me"))
    empty.notice(me(), [member("a", moves=5)], ALL)
    empty.notice(me(), [], {"b", "me"})
    assert empty.entries(9) == [] and empty.is_noticed(me())
    empty.notice(me(), [member("a", moves=1)], ALL)
    assert empty.entries(9) == [("a", 1)], "who comes under its name is a stranger"


def test_i19_all_entries_are_read_of_a_new_member() -> None:
    granules = read(row(0))
    granules.notice(me(), [member("n", moves=2)], {*ALL, "n"})
    assert granules.entries(9) == [("n", 1), ("n", 2)]


def test_i19_a_gap_in_the_log_of_a_former_member_is_no_gap_of_a_new_one_under_its_name() -> None:
    granules = read(row(0, "b"), row(1))
    granules.notice(me(), [member("b", moves=2)], ALL)
    apply(granules)
    granules.put(row(0, "b"))
    granules.notice(me(), [], {"a", "me"})
    apply(granules)
    granules.put(row(0, "a", 2))
    granules.notice(me(), [member("a", moves=2), member("b", moves=0)], ALL)
    apply(granules, a2=entry("b", 2, 1))
    assert names(granules.owned_by("b")) == ["publish/1"]


def test_a_free_granule_is_read_again_when_it_is_doubted() -> None:
    granules = read(row(0), row(1, ""))
    granules.doubt("nobody that owns anything")
    assert granules.unread(9) == []
    granules.doubt("")
    assert granules.unread(9) == ["publish/1"]


def test_what_this_process_changed_itself_is_not_read_again_unless_another_changed_something_too() -> None:
    granules = read(row(0, "me"), row(1))
    granules.put(row(0, "b", 2))
    granules.record_transaction(me(changes=1, moves=1))
    assert granules.is_noticed(me(changes=1)) and not granules.is_noticed(me(changes=2))
    granules.put(row(1, "me", 2))
    granules.took(member("a", moves=2))
    granules.notice(me(changes=1, moves=1), [member("a", moves=2)], ALL)
    assert granules.entries(9) == []
    granules.notice(me(changes=2, moves=2), [member("a", moves=3)], ALL)
    assert granules.entries(9) == [("me", 2), ("a", 3)] and not granules.is_noticed(me(changes=2))
