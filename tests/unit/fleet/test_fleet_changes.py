"""What the transactions of a fleet did, read from the very writes that are sent (I19)."""

from __future__ import annotations

from tests.unit.fleet.rows_of_members import SPACE, member
from turnstile.fleet.core import rows
from turnstile.fleet.core.changes import (
    CLAIMED,
    HANDED_OVER,
    JOINED,
    LEFT,
    RELEASED,
    REMOVED,
    TAKEN_OVER,
    FleetChange,
    changes_in,
    joined_name,
    merge_alike,
)
from turnstile.fleet.core.rows import GranuleRow

KEY = SPACE.fleet()
A = member("a")
B = member("b")
NOW = 1_000


def granule(number: int, epoch: int, role: str = "publish") -> GranuleRow:
    name = f"{role}/{number}"
    return GranuleRow(SPACE.fleet_granule(name), name, "a" if epoch else "", epoch, 3)


def test_a_joining_a_leaving_and_a_removed_member_are_distinguished() -> None:
    assert changes_in(SPACE, "", rows.join_fleet(KEY, A)) == [FleetChange(JOINED, "a")]
    assert joined_name(rows.join_fleet(KEY, A)) == {"a": "on a"}
    assert changes_in(SPACE, "a", rows.remove_member(KEY, A)) == [FleetChange(LEFT, "a")]
    assert changes_in(SPACE, "b", rows.remove_member(KEY, A)) == [FleetChange(REMOVED, "a")]


def test_granules_that_change_hands_are_counted_by_role_with_the_epochs_that_they_have_now() -> None:
    granules = [granule(0, 4), granule(1, 9), granule(0, 1, "maintain")]
    claimed = changes_in(SPACE, "a", rows.claim([granule(0, 0), granule(1, 3)], A, NOW))
    assert claimed == [FleetChange(CLAIMED, "a", "", "publish", 2, 1, 4)]
    given = changes_in(SPACE, "a", rows.hand_over(granules, A, B, NOW, entry="e", role="publish", load=7))
    assert given == [
        FleetChange(HANDED_OVER, "b", "a", "publish", 2, 5, 10),
        FleetChange(HANDED_OVER, "b", "a", "maintain", 1, 2, 2),
    ]
    taken = changes_in(SPACE, "b", rows.take_over(granules[:1], A, B, NOW, entry="e"))
    assert taken == [FleetChange(TAKEN_OVER, "b", "a", "publish", 1, 5, 5)]


def test_granules_that_become_free_are_events_of_their_former_owner() -> None:
    released = [FleetChange(RELEASED, "a", "", "publish", 1, 5, 5)]
    assert changes_in(SPACE, "a", rows.hand_over([granule(0, 4)], A, None, NOW, entry="e")) == released
    assert changes_in(SPACE, "b", rows.take_over([granule(0, 4)], A, None, NOW, entry="e")) == released


def test_what_an_owner_fences_is_no_happening() -> None:
    assert changes_in(SPACE, "a", [rows.owned_still(granule(0, 4))]) == []
    assert joined_name([rows.owned_still(granule(0, 4)), rows.found_fleet(KEY, {"publish": 8}, NOW)]) == {}


def test_what_one_got_of_another_at_about_the_same_time_is_one_happening() -> None:
    got = [
        FleetChange(TAKEN_OVER, "b", "a", "publish", 2, 5, 10),
        FleetChange(CLAIMED, "b", "", "publish", 1, 3, 3),
        FleetChange(TAKEN_OVER, "b", "a", "publish", 1, 4, 12),
        FleetChange(TAKEN_OVER, "b", "c", "publish", 1, 1, 1),
        FleetChange(TAKEN_OVER, "b", "a", "sweep", 1, 11, 11),
        FleetChange(TAKEN_OVER, "d", "a", "publish", 1, 7, 7),
    ]
    assert merge_alike(got) == [FleetChange(TAKEN_OVER, "b", "a", "publish", 3, 4, 12), got[1], *got[3:]]
    assert merge_alike([]) == []
