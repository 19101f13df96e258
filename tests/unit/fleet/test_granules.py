"""What a member believes of granules, and which it reads again."""

from __future__ import annotations

from tests.unit.fleet.rows_of_members import SPACE, member
from turnstile.fleet.core.granules import Granules
from turnstile.fleet.core.rows import GranuleRow


def row(number: int, owner: str = "a", epoch: int = 1) -> GranuleRow:
    name = f"publish/{number}"
    return GranuleRow(SPACE.fleet_granule(name), name, owner, epoch, 3)


def read(*rows: GranuleRow) -> Granules:
    """All granules read, of members that were noticed."""
    granules = Granules(row.name for row in rows)
    granules.notice([member("a", changes=2), member("b", changes=5)], {"a", "b"})
    for each in rows:
        granules.put(each)
    return granules


def names(rows: list[GranuleRow]) -> list[str]:
    return [row.name for row in rows]


def test_granules_that_were_never_read_have_no_owner_and_are_to_be_read() -> None:
    granules = Granules(["publish/0", "publish/1"])
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
    granules.put(row(0, "b", 2))
    assert granules.owned_by("a") == []


def test_i19_what_is_being_given_away_is_nobodys_until_it_is_read_or_written() -> None:
    granules = read(row(0), row(1))
    granules.drop(["publish/0", "publish/7"])
    assert granules.get("publish/0") is None and names(granules.owned_by("a")) == ["publish/1"]
    assert granules.unread(9) == ["publish/0", "publish/7"]


def test_i19_granules_of_members_whose_rows_say_that_some_changed_hands_are_read_again() -> None:
    granules = read(row(0), row(1), row(2, "b"))
    granules.notice([member("a", changes=2), member("b", changes=5)], {"a", "b"})
    assert granules.unread(9) == []
    granules.notice([member("a", changes=3)], {"a", "b"})
    assert granules.unread(9) == ["publish/0", "publish/1"] and granules.get("publish/0") == row(0)
    assert not granules.is_noticed(member("a", changes=3)), "they are not read yet"
    for number in (0, 1):
        granules.put(row(number))
    granules.notice([member("a", changes=3)], {"a", "b"})
    assert granules.unread(9) == []
    assert granules.is_noticed(member("a", changes=3)) and not granules.is_noticed(member("a", changes=4))


def test_i19_granules_of_who_is_no_member_any_more_are_read_again_and_a_new_one_of_its_name_is_a_stranger() -> None:
    granules = read(row(0), row(1, "b"), row(2, ""))
    granules.notice([], {"a"})
    assert granules.unread(9) == ["publish/1"]
    granules.put(row(1, "a", 2))
    granules.notice([member("b", changes=5)], {"a", "b"})
    assert granules.unread(9) == [] and granules.is_noticed(member("b", changes=5))


def test_what_nobody_owns_is_read_again_when_it_is_doubted() -> None:
    granules = read(row(0), row(1, ""))
    granules.doubt("nobody that owns anything")
    assert granules.unread(9) == []
    granules.doubt("")
    assert granules.unread(9) == ["publish/1"]


def test_what_this_process_changed_itself_is_not_read_again_unless_another_changed_something_too() -> None:
    granules = read(row(0), row(1))
    granules.put(row(0, "b", 2))
    granules.changed(member("a", changes=3))
    granules.notice([member("a", changes=3)], {"a", "b"})
    assert granules.unread(9) == []
    granules.notice([member("a", changes=4)], {"a", "b"})
    assert granules.unread(9) == ["publish/1"]
