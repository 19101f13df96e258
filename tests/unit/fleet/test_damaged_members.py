"""Damaged rows of a fleet: the others go on with their heartbeats and their work, the row of a
member is replaced by one that is taken over, and its process joins as another member (I19)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld
from tests.unit.fleet.sites import BEAT, Site, pair, subject_of
from turnstile.fleet.core.rows import GranuleRow, MemberRow, MovesRow
from turnstile.fleet.core.shares import Ownership
from turnstile.fleet.member import Member
from turnstile.fleet.read import FleetReader

BEATS = 30
"""Beats after which a fleet rests again."""


def key_of(site: Site, member: Member) -> str:
    return site.world.space.fleet_member(member.id)


def damage(world: FakeWorld, key: str, *, whole: bool) -> None:
    if whole:
        world.refs.damage(key)
    else:
        del world.refs.rows[key]["loads"]


def replaced(beats: list[Any]) -> list[str]:
    return [row.key for beat in beats for row in beat.replaced]


damages = pytest.mark.parametrize("whole", [True, False])


@damages
def test_i19_a_process_with_a_damaged_row_joins_as_another_member_and_nothing_is_lost(*, whole: bool) -> None:
    site, first, second = pair()
    before = second.id
    key = key_of(site, second)
    damage(site.world, key, whole=whole)
    found = list[str]()
    for _ in range(BEATS):
        found += replaced(site.beats(first, second))
    assert found == [key], "one member replaces it, once"
    assert second.id not in ("", before) and key not in site.world.refs.rows
    site.agree(first, second)
    assert len(first.owned_granules()) == len(second.owned_granules()) == 4


@damages
def test_i19_the_granules_of_a_member_that_died_with_a_damaged_row_are_taken_over(*, whole: bool) -> None:
    site, first, second = pair()
    third = site.member("c")
    for _ in range(BEATS):
        site.beats(first, second, third)
    site.agree(first, second, third)
    subject = subject_of(third)
    damage(site.world, key_of(site, third), whole=whole)
    beats = [site.beats(first, second) for _ in range(BEATS)]
    assert len(replaced([beat for pair in beats for beat in pair])) == 1
    site.agree(first, second)
    assert Ownership.MINE in (first.whose("publish", subject), second.whose("publish", subject))


def test_i19_a_member_that_is_alone_replaces_its_own_damaged_row() -> None:
    site = Site()
    member = site.member()
    site.beats(member)
    key = key_of(site, member)
    site.world.refs.damage(key)
    (beat,) = site.beats(member)
    assert beat.removed and [row.key for row in beat.replaced] == [key]
    site.beats(member, times=BEATS)
    site.agree(member)
    assert len(member.owned_granules()) == 8


def test_i19_the_others_show_life_and_own_what_they_owned_while_a_row_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site, first, second = pair()
    mine = first.owned_granules()
    site.world.refs.damage(key_of(site, second))
    monkeypatch.setattr(site.world.refs, "replace_damaged", lambda *_: False)  # another member would, and died
    life = site.world.refs.rows[key_of(site, first)]["life"]
    for _ in range(BEATS):
        site.beats(first)
        first.look()
    assert site.world.refs.rows[key_of(site, first)]["life"] == life + BEATS
    assert first.owned_granules() == mine and first.whose("publish", subject_of(first)) is Ownership.MINE
    other = next(row.name for row in site.rows(GranuleRow) if row.name not in mine)
    subject = next(f"t{n}" for n in range(1_000) if first.granule_of("publish", f"t{n}") == other)
    assert first.whose("publish", subject) is Ownership.UNSURE, "so the work of the damaged member is done"
    assert first.leave(), "it leaves all the same"


def test_i19_a_member_is_replaced_only_while_its_row_is_damaged() -> None:
    site, first, second = pair()
    key = key_of(site, second)
    restored = dict(site.world.refs.rows[key])
    site.world.refs.damage(key)
    site.now_ms += BEAT
    read_many = site.world.refs.read_many

    def restore_after(keys: Any) -> Any:
        rows = read_many(keys)
        site.world.refs.rows[key] = restored
        return rows

    site.world.refs.read_many = restore_after  # type: ignore[method-assign]
    assert first.beat().replaced == ()
    del site.world.refs.read_many
    for _ in range(BEATS):
        site.beats(first, second)
    assert key_of(site, second) == key
    site.agree(first, second)


def test_i19_granules_that_are_taken_while_those_of_a_damaged_row_are_counted_leave_no_count_too_high() -> None:
    site, first, second = pair()
    key = key_of(site, second)
    refs = site.world.refs
    row = refs.rows[key]
    taken = [granule for granule in site.rows(GranuleRow) if granule.owner == second.id][:2]
    damage(site.world, key, whole=False)
    read_many = refs.read_many

    def take_after(keys: Any) -> Any:
        found = read_many(keys)
        if len(keys) == 8 and taken:  # another member, which has read the row before, frees two of the counted ones
            for granule in taken:
                refs.rows[granule.key] |= {"owner": "", "epoch": granule.epoch + 1}
            taken.clear()
            row["owned"] -= 2
            row["moves"] = row.get("moves", 0) + 1
        return found

    refs.read_many = take_after  # type: ignore[method-assign]
    site.beats(first)
    del refs.read_many
    assert not taken
    for _ in range(3 * BEATS):
        site.beats(first)
    assert key not in refs.rows, "its row is removed"
    site.agree(first)


def test_the_report_names_damaged_members_and_granules_and_shows_the_others() -> None:
    site, first, second = pair()
    granule = site.world.space.fleet_granule("publish/0")
    site.world.refs.damage(key_of(site, second))
    site.world.refs.damage(granule)
    report = FleetReader(site.world).report()
    assert [member.id for member in report.members] == [first.id]
    assert isinstance(report.unreadable, list)
    assert [row.key for row in report.unreadable] == [key_of(site, second), granule]
    assert len(report.granules) == 7


def test_i19_a_damaged_granule_has_no_known_owner_and_stops_no_heartbeat() -> None:
    site, first, second = pair()
    granule = site.world.space.fleet_granule("publish/0")
    site.world.refs.damage(granule)
    third = site.member("c")
    for _ in range(BEATS):
        site.beats(first, second, third)
    subject = next(f"t{n}" for n in range(1_000) if first.granule_of("publish", f"t{n}") == "publish/0")
    assert third.members() == 3 and third.whose("publish", subject) is Ownership.UNSURE
    assert len(third.owned_granules()) > 0
    third.leave()
    site.beats(first, second)


def test_i19_a_damaged_entry_of_a_log_is_as_one_that_is_gone() -> None:
    site, first, second = pair()
    third = site.member("c")
    site.beats(third)
    for row in site.rows(MovesRow):
        site.world.refs.damage(row.key)
    for _ in range(BEATS):
        site.beats(first, second, third)
        for key in [key for key in site.world.refs.rows if "/fleet-moves/" in key]:
            site.world.refs.damage(key)
    assert {len(member.owned_granules()) for member in (first, second, third)} <= {2, 3}
    rows = {row.id: row.owned for row in site.rows(MemberRow)}
    assert sum(rows.values()) == 8
