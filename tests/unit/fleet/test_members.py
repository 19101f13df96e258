"""Members that share a store: members that join, live, are taken over, give and leave; every answer
is lost once, every step is the last one once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.unit.fleet.sites import ALONE, BEAT, Site, pair, subject_of
from turnstile.fleet import exchange
from turnstile.fleet.core.decisions import (
    SILENT_BEATS,
    SUSPECTED_BEATS,
    UNEVEN_PERCENT,
    WATCHED,
    WHOLE_LOOK_BEATS,
    granule_of,
)
from turnstile.fleet.core.owners import Address, Owners
from turnstile.fleet.core.rows import GRANULES_PER_WRITE, FleetRow, GranuleRow, MemberRow
from turnstile.fleet.core.shares import Ownership
from turnstile.fleet.exchange import READ_AT_ONCE
from turnstile.fleet.member import Beat, Member
from turnstile.fleet.read import NO_FLEET, FleetReader
from turnstile.store.core.errors import OutcomeUnknown, StateConflict


def test_i19_a_member_that_is_alone_owns_everything_at_once_and_beats_slowly() -> None:
    site = Site()
    member = site.member(publish=8, collect=1)
    assert (member.id, member.owned_granules(), member.whose("publish", "t"), member.granule("publish", "t")) == (
        "",
        (),
        Ownership.UNSURE,
        None,
    )
    assert member.next_beat_ms() == BEAT
    (beat,) = site.beats(member)
    assert beat == Beat(tuple(sorted(member.owned_granules()))) and len(beat.gained) == 9
    assert member.whose("publish", "t") is Ownership.MINE and member.whose("other", "t") is Ownership.UNSURE
    granule = member.granule("publish", "t")
    assert granule is not None and (granule.owner, granule.epoch) == (member.id, 1)
    assert member.granule("other", "t") is None
    assert site.beats(member) == [Beat()]
    assert member.next_beat_ms() == ALONE == site.rows(MemberRow)[0].beat_ms
    site.agree(member)


def test_a_member_beats_no_slower_than_its_row_says() -> None:
    site = Site()
    member = site.member()
    site.beats(member)
    assert site.rows(MemberRow)[0].beat_ms == BEAT == member.next_beat_ms()


def test_i19_a_member_that_is_not_alone_any_more_beats_again_at_once_so_that_its_row_says_so() -> None:
    """Others would doubt it only after two of its slow beats, if it died now."""
    site = Site()
    first = site.member()
    site.beats(first, times=2)
    second = site.member("b")
    site.beats(second, first)
    assert [row.beat_ms for row in site.rows(MemberRow) if row.id == first.id] == [ALONE]
    assert first.next_beat_ms() == 0
    site.beats(first)
    assert [row.beat_ms for row in site.rows(MemberRow)] == [BEAT, BEAT] and first.next_beat_ms() == BEAT


def test_i19_two_members_share_and_each_knows_what_is_whose() -> None:
    site, first, second = pair()
    assert first.whose("publish", subject_of(first)) is Ownership.MINE
    assert first.whose("publish", subject_of(second)) is Ownership.OTHERS
    assert first.granule("publish", subject_of(second)) is None
    assert first.next_beat_ms() == BEAT
    assert {row.name for row in site.rows(MemberRow)} == {"a", "b"}


def test_i19_no_member_relies_on_another_that_it_has_not_seen_alive() -> None:
    site = Site()
    first = site.member()
    site.beats(first)
    second = site.member("b")
    site.beats(second)
    assert second.whose("publish", "t") is Ownership.UNSURE
    site.beats(first)
    site.beats(second)
    assert second.whose("publish", "t") is Ownership.OTHERS


def test_i19_a_member_that_could_not_beat_is_sure_of_nothing() -> None:
    site, first, second = pair()
    mine = subject_of(first)
    theirs = subject_of(second)
    site.now_ms += SUSPECTED_BEATS * BEAT - 1
    assert first.whose("publish", mine) is Ownership.MINE and first.whose("publish", theirs) is Ownership.OTHERS
    site.now_ms += 1
    assert first.whose("publish", mine) is Ownership.UNSURE is first.whose("publish", theirs)


def test_i19_a_silent_member_is_doubted_and_then_taken_over() -> None:
    site, first, second = pair()
    theirs = subject_of(second)
    (beat,) = site.beats(first)
    assert not beat.unsure
    site.beats(first, times=SUSPECTED_BEATS - 1)
    assert first.whose("publish", theirs) is Ownership.OTHERS
    (beat,) = site.beats(first)
    assert beat == Beat(unsure=True) and first.whose("publish", theirs) is Ownership.UNSURE
    lost = second.owned_granules()
    beats = [site.beats(first)[0] for _ in range(SILENT_BEATS - SUSPECTED_BEATS)]
    assert beats[-1] == Beat(gained=tuple(sorted(lost))) and not any(beat.gained for beat in beats[:-1])
    site.agree(first)
    assert all(row.epoch >= 3 for row in site.rows(GranuleRow) if row.name in lost)


@pytest.mark.parametrize(
    ("looks", "after_ms"), [(True, SUSPECTED_BEATS * BEAT), (False, SUSPECTED_BEATS * BEAT + BEAT // 2)]
)
def test_i19_looks_between_beats_doubt_a_silent_member_sooner_and_take_nothing(looks: bool, after_ms: int) -> None:
    site, first, second = pair()
    site.beats(first, second)
    subject = subject_of(second)
    before = site.owners()
    site.now_ms += BEAT // 2
    second.beat()  # its last sign of life
    last_ms = site.now_ms
    doubts = False
    assert not (looks and first.look())
    while first.whose("publish", subject) is Ownership.OTHERS:
        site.now_ms += BEAT // 2
        if (site.now_ms - last_ms) % BEAT == BEAT // 2:
            first.beat()
        elif looks:
            doubts = first.look()
    assert first.whose("publish", subject) is Ownership.UNSURE and doubts is looks
    assert site.now_ms - last_ms == after_ms
    first.beat()
    assert not first.look(), "it was in doubt at the last beat"
    for _ in range(4 * SILENT_BEATS):
        site.now_ms += BEAT
        first.look()
    assert site.owners() == before, "only a beat takes over, after a sign of life"


def test_i19_a_look_between_beats_sees_life_and_costs_one_read() -> None:
    site, first, second = pair()
    for _ in range(4 * SILENT_BEATS):
        site.now_ms += BEAT // 2
        second.beat()
        assert not first.look()
        first.beat()
    site.agree(first, second)


def test_a_member_names_the_granule_of_a_subject_of_a_role_that_the_fleet_has() -> None:
    site = Site()
    member = site.member()
    assert member.granule_of("publish", "t1") == ""
    site.beats(member)
    assert member.granule_of("publish", "t1") == granule_of("publish", "t1", 8)
    assert member.granule_of("maintain", "t1") == ""


def test_a_member_that_is_alone_or_has_not_joined_looks_at_no_other() -> None:
    site = Site()
    member = site.member()
    assert not member.look()
    site.beats(member)
    assert not member.look()


def test_i19_a_member_that_was_frozen_finds_that_it_was_removed_and_begins_anew() -> None:
    site, first, second = pair()
    old = second.granule("publish", subject_of(second))
    site.beats(first, times=2 * SILENT_BEATS)
    before = second.id
    (beat,) = site.beats(second)
    assert beat.removed and second.id != before and second.owned_granules() == ()
    assert old is not None and {row.name: row.epoch for row in site.rows(GranuleRow)}[old.name] > old.epoch
    site.beats(first, second, times=3 * WHOLE_LOOK_BEATS)
    site.agree(first, second)
    assert len(second.owned_granules()) == 4


def test_i19_an_observer_that_was_frozen_takes_nothing_from_a_healthy_member() -> None:
    site, first, second = pair()
    kept = second.owned_granules()
    site.now_ms += 100 * BEAT
    site.beats(second, first)
    assert second.owned_granules() == kept
    site.now_ms += 100 * BEAT  # the whole machine stood still
    site.beats(first, second)
    site.agree(first, second)


def test_i19_a_member_that_shows_life_between_the_look_and_the_taking_keeps_what_it_owns() -> None:
    site, first, second = pair()
    kept = second.owned_granules()
    site.beats(first, times=SILENT_BEATS)
    refs = site.world.refs
    shown = []
    transact = refs.transact

    def lively(writes: Any, token: str) -> Any:
        if not shown:
            shown.append(1)
            second.beat()
        return transact(writes, token)

    refs.transact = lively  # type: ignore[method-assign]
    site.beats(first)
    assert shown and second.owned_granules() == kept
    site.agree(first, second)


def test_i19_a_second_copy_of_a_process_ends_as_another_member() -> None:
    site = Site()
    member = site.member()
    site.beats(member)
    (row,) = site.rows(MemberRow)
    site.world.refs.rows[row.key] = {**site.world.refs.rows[row.key], "life": row.life + 1}
    (beat,) = site.beats(member)
    assert beat.removed and member.id != row.id


def test_i19_a_leaving_member_hands_over_first() -> None:
    site, first, second = pair()
    assert second.leave() and second.id == "" and second.leave()
    site.beats(first)
    site.agree(first)
    assert len(first.owned_granules()) == 8 and first.whose("publish", "t") is Ownership.MINE
    assert first.leave()
    assert site.rows(MemberRow) == [] and set(site.owners().values()) == {""}
    third = site.member("c")
    site.beats(third)
    assert len(third.owned_granules()) == 8
    site.agree(third)


def test_a_member_that_leaves_takes_nothing_any_more_and_is_given_nothing() -> None:
    site, first, second = pair()
    (row,) = [row for row in site.rows(MemberRow) if row.id == second.id]
    site.world.refs.rows[row.key] = {**site.world.refs.rows[row.key], "state": "leaving", "loads": {"publish": 0}}
    site.beats(first, times=2)
    assert first.leave()
    assert set(site.owners().values()) == {"", second.id}


def test_i19_roles_are_apart_and_granules_of_a_role_without_members_are_free() -> None:
    site = Site()
    both = site.member(publish=4, maintain=4)
    worker = site.member("w", maintain=9)
    site.beats(both)
    site.beats(both, worker, times=3 * WHOLE_LOOK_BEATS)
    assert all(name.startswith("maintain/") for name in worker.owned_granules()) and len(worker.owned_granules()) == 2
    site.beats(worker, times=2 * SILENT_BEATS)
    assert {name: owner for name, owner in site.owners().items() if name.startswith("publish/")} == {
        f"publish/{number}": "" for number in range(4)
    }
    site.agree(worker)
    later = site.member("p", publish=7)
    site.beats(later, worker)
    assert len(later.owned_granules()) == 4 and site.rows(FleetRow)[0].granules == {"publish": 4, "maintain": 4}


def test_a_member_says_nothing_about_roles_that_it_does_not_work_for() -> None:
    site = Site()
    both = site.member(publish=4, maintain=4)
    worker = site.member("w", maintain=9)
    site.beats(both, worker, times=3)
    assert worker.granule("publish", "t") is None and worker.whose("publish", "t") is Ownership.UNSURE


def granule_row(site: Site, name: str, owner: str) -> None:
    """Another owner in a granule's row that is no member: no member may write that."""
    key = site.world.space.fleet_granule(name)
    row = site.world.refs.rows[key]
    before = site.world.space.fleet_member(row["owner"])
    site.world.refs.rows[key] = {**row, "owner": owner, "epoch": row["epoch"] + 1}
    site.world.refs.rows[before] = {
        **site.world.refs.rows[before],
        "changes": site.world.refs.rows[before]["changes"] + 1,
        "moves": site.world.refs.rows[before].get("moves", 0) + 1,  # of which no entry is there
    }


def test_i19_no_member_relies_on_an_owner_that_is_no_member() -> None:
    site, first, second = pair()
    subject = subject_of(second)
    assert first.whose("publish", subject) is Ownership.OTHERS
    granule_row(site, granule_of("publish", subject, 8), "ghost")
    site.beats(first, second, times=WHOLE_LOOK_BEATS)
    assert first.whose("publish", subject) is Ownership.UNSURE


def test_i19_free_granules_are_found_by_looking_at_all_now_and_then() -> None:
    site, first, second = pair()
    (row,) = [row for row in site.rows(MemberRow) if row.id == second.id]
    name = second.owned_granules()[0]
    granule_row(site, name, "")
    site.world.refs.rows[row.key] = {**site.world.refs.rows[row.key], "owned": row.owned - 1}
    site.beats(first, second, times=WHOLE_LOOK_BEATS)
    assert site.owners()[name] in {first.id, second.id}
    site.beats(first, second, times=WHOLE_LOOK_BEATS)
    site.agree(first, second)


def test_i19_a_third_member_knows_at_once_which_one_took_over() -> None:
    site = Site()
    first, second, third = (site.member(name) for name in "abc")
    site.beats(first, second, third, times=3 * WHOLE_LOOK_BEATS + 2)
    subject = subject_of(third)
    for _ in range(2 * SILENT_BEATS):
        site.beats(second, first)
        if len(site.rows(MemberRow)) == 2:
            break
    assert granule_of("publish", subject, 8) in second.owned_granules()
    assert first.whose("publish", subject) is Ownership.OTHERS
    site.agree(first, second)


def live_on(site: Site, id: str) -> None:
    """A sign of life of a member without its process."""
    key = site.world.space.fleet_member(id)
    row = site.world.refs.rows[key]
    site.world.refs.rows[key] = {**row, "life": row["life"] + 1}


def test_i19_granules_are_given_to_members_that_stay() -> None:
    site, first, second = pair()
    second.leave()
    site.beats(first, times=WHOLE_LOOK_BEATS)
    assert len(first.owned_granules()) == 8
    leaving = site.member("l")
    staying = site.member("s")
    site.beats(first, leaving, staying)
    key = site.world.space.fleet_member(leaving.id)
    site.world.refs.rows[key] = {**site.world.refs.rows[key], "state": "leaving"}
    for _ in range(2 * WHOLE_LOOK_BEATS):
        live_on(site, leaving.id)
        site.beats(first, staying)
    assert (
        len(first.owned_granules()) == len(staying.owned_granules()) == 4 and leaving.id not in site.owners().values()
    )


def during_transactions(site: Site, look: Callable[[], None]) -> None:
    """Has ``look`` called before each transaction."""
    transact = site.world.refs.transact

    def looking(writes: Any, token: str) -> Any:
        look()
        return transact(writes, token)

    site.world.refs.transact = looking  # type: ignore[method-assign]


def test_i19_an_owner_stops_before_another_one_begins() -> None:
    site = Site()
    first = site.member()
    second = site.member("b")
    site.beats(first, second, times=2)
    answers = list[Ownership]()
    subjects = [f"t{number}" for number in range(40)]
    during_transactions(site, lambda: answers.extend(first.whose("publish", subject) for subject in subjects))
    site.beats(first, second, times=WHOLE_LOOK_BEATS)
    assert len(second.owned_granules()) >= 4
    assert answers.count(Ownership.UNSURE) and answers.count(Ownership.MINE), (
        "what is given away is not its own any more"
    )


def test_i19_a_member_that_is_removed_while_it_gives_begins_anew() -> None:
    site = Site()
    first = site.member()
    second = site.member("b")
    site.beats(first, second, times=2)
    before = first.id

    def remove() -> None:
        site.world.refs.rows.pop(site.world.space.fleet_member(before), None)

    during_transactions(site, remove)
    site.beats(first, second, times=WHOLE_LOOK_BEATS + 1)
    assert first.id != before


def test_i19_a_leaving_member_gives_to_healthy_members_that_stay() -> None:
    site = Site()
    first, second, third, fourth = (site.member(name) for name in "abcd")
    site.beats(first, second, third, fourth, times=3 * WHOLE_LOOK_BEATS + 2)
    kept = len(fourth.owned_granules())
    key = site.world.space.fleet_member(second.id)
    site.world.refs.rows[key] = {**site.world.refs.rows[key], "state": "leaving"}
    for _ in range(SUSPECTED_BEATS + 1):
        live_on(site, second.id)
        site.beats(third, first)
    given = len(first.owned_granules())
    theirs = len(third.owned_granules())
    assert given and first.leave()
    owners = list(site.owners().values())
    assert owners.count(third.id) == theirs + given and owners.count(fourth.id) == kept


def test_i19_a_member_that_is_given_granules_knows_it_at_its_next_beat() -> None:
    site = Site()
    first = site.member()
    second = site.member("b")
    site.beats(first, second, times=2)
    site.beats(second)
    for _ in range(WHOLE_LOOK_BEATS):
        if len(first.owned_granules()) == 8:
            site.beats(first, second)
    assert len(second.owned_granules()) == 4


def test_i19_a_member_that_is_alone_gives_back_any_number_of_granules() -> None:
    site = Site()
    member = site.member(publish=3 * GRANULES_PER_WRITE)
    site.beats(member)
    assert member.leave() and site.rows(MemberRow) == []


def test_i19_a_removed_member_has_left() -> None:
    site, first, second = pair()
    site.beats(first, times=SILENT_BEATS + 2)
    assert second.leave() and second.id == ""
    site.agree(first)


def test_load_that_was_measured_moves() -> None:
    site, first, second = pair()
    busy = subject_of(first)
    for _ in range(200):
        first.whose("publish", busy)
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    assert granule_of("publish", busy, 8) in first.owned_granules() and len(first.owned_granules()) < 4
    assert len(second.owned_granules()) > 4
    site.agree(first, second)
    for _ in range(30):
        site.beats(first, second, times=WHOLE_LOOK_BEATS)
    assert abs(len(first.owned_granules()) - len(second.owned_granules())) <= 2, (
        "what was measured long ago is forgotten"
    )


def test_i19_many_granules_change_hands_in_several_transactions() -> None:
    site = Site()
    first = site.member(publish=2 * GRANULES_PER_WRITE + 7)
    site.beats(first)
    second = site.member("b", publish=1)
    site.beats(first, second, times=3 * WHOLE_LOOK_BEATS)
    site.agree(first, second)
    assert abs(len(first.owned_granules()) - len(second.owned_granules())) <= 1
    site.beats(second, times=2 * SILENT_BEATS)
    site.agree(second)


def slow_store(site: Site, ms: int) -> None:
    """Every transaction, and every read of many rows, takes so long."""
    transact = site.world.refs.transact
    read_many = site.world.refs.read_many

    def slow_transact(writes: Any, token: str) -> Any:
        site.now_ms += ms
        return transact(writes, token)

    def slow_read(keys: Any) -> Any:
        site.now_ms += ms if len(keys) > WATCHED + 1 else 0
        return read_many(keys)

    # type: ignore[method-assign]
    site.world.refs.transact = slow_transact
    site.world.refs.read_many = slow_read


def test_i19_a_member_with_much_to_claim_read_and_give_does_it_in_several_beats_and_shows_life_meanwhile() -> None:
    site = Site()
    slow_store(site, 4)
    count = 30 * GRANULES_PER_WRITE
    first = site.member(publish=count)
    second = site.member("b", publish=count)
    site.beats(first)
    assert len(first.owned_granules()) < 4 * GRANULES_PER_WRITE and first.next_beat_ms() == 0, "it goes on at once"
    lives = list[int]()
    for _ in range(400):
        site.beats(first, second, step_ms=1)
        lives.append(sum(row.life for row in site.rows(MemberRow)))
        if (
            abs(len(first.owned_granules()) - len(second.owned_granules())) <= GRANULES_PER_WRITE
            and len(first.owned_granules()) + len(second.owned_granules()) == count
        ):
            break
    site.agree(first, second)
    assert lives == sorted(set(lives)), "life is shown between any two parts of the work"
    assert {row.id for row in site.rows(MemberRow)} == {first.id, second.id}, "nobody was taken for silent"
    assert abs(len(first.owned_granules()) - len(second.owned_granules())) <= count * UNEVEN_PERCENT / 100
    before = len(second.owned_granules())
    for _ in range(400):
        site.beats(first, step_ms=BEAT)
        if len(site.rows(MemberRow)) == 1 and len(first.owned_granules()) == count:
            break
    assert before and len(first.owned_granules()) == count
    site.agree(first)


def test_i19_a_new_healthy_member_is_given_its_part_before_the_next_whole_look() -> None:
    site = Site()
    first = site.member(publish=64)
    site.beats(first, times=WHOLE_LOOK_BEATS + 1)
    second = site.member("b", publish=64)
    site.beats(first, second, times=3)
    site.beats(second)
    assert len(second.owned_granules()) == 32
    third = site.member("c", publish=64)
    fourth = site.member("d", publish=64)
    for _ in range(3):
        site.beats(third, fourth, first, second)
    site.beats(third, fourth, first, second)
    assert all(12 <= len(member.owned_granules()) <= 20 for member in (first, second, third, fourth))
    site.agree(first, second, third, fourth)


def test_i19_a_store_that_takes_longer_than_a_beat_for_each_request_stops_no_member() -> None:
    site = Site()
    slow_store(site, 2 * BEAT)
    count = 5 * GRANULES_PER_WRITE
    first = site.member(publish=count)
    second = site.member("b", publish=count)
    for _ in range(8):
        site.beats(first, step_ms=0)
    assert len(first.owned_granules()) == count, "one transaction a beat, at least"
    for _ in range(20):
        site.beats(first, second, step_ms=0)
    assert len(second.owned_granules()) >= count // 2 - GRANULES_PER_WRITE
    site.agree(first, second)
    owned = [len(second.owned_granules())]
    for _ in range(8 * SILENT_BEATS):
        site.beats(second, step_ms=BEAT)
        owned.append(len(second.owned_granules()))
    assert owned[-1] == count
    assert max(after - before for before, after in itertools.pairwise(owned)) == GRANULES_PER_WRITE
    site.agree(second)


def test_what_takes_longer_than_a_beat_to_read_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    count = 24 * GRANULES_PER_WRITE
    first, second, third = (site.member(name, publish=count) for name in "abc")
    site.beats(first)
    slow_store(site, BEAT // 2)
    site.beats(second, step_ms=0)
    assert len(second._exchange.granules.all()) == READ_AT_ONCE and second.next_beat_ms() == BEAT, "that may wait"
    site.beats(second, third, times=3)
    assert len(second._exchange.granules.all()) == count
    monkeypatch.setattr(exchange, "ENTRIES_AT_ONCE", WATCHED + 2)
    while len(second.owned_granules()) < 8 * GRANULES_PER_WRITE:
        site.beats(first, second, step_ms=1)
    slow_store(site, BEAT)
    site.beats(third, step_ms=0)
    assert third._exchange.granules.entries(1) and third.next_beat_ms() == 0, "others wait for that"
    for _ in range(6):
        site.beats(third, step_ms=0)
    assert not third._exchange.granules.entries(1)
    site.agree(first, second, third)


def test_i19_a_take_over_that_is_refused_shows_what_the_member_is_by_now() -> None:
    for change, is_seen, is_read in (
        ({"life": 1}, False, False),
        ({"moves": 1}, True, False),
        ({"shown_at": 1}, True, True),
        (None, False, False),
    ):
        site, first, second = pair()
        site.beats(first)
        work = first._exchange
        source = work.joined_view.others[second.id]
        lost = work.granules.owned_by(second.id)
        for granule in lost:
            row = site.world.refs.rows[granule.key]
            site.world.refs.rows[granule.key] = {**row, "epoch": row["epoch"] + 1}
        if change is None:
            del site.world.refs.rows[source.key]
        else:
            row = site.world.refs.rows[source.key]
            more = {name: row.get(name, 0) + number for name, number in change.items()}
            site.world.refs.rows[source.key] = {**row, **more}
        assert not work._take(lost, source, work.joined_view.me)
        assert (work.joined_view.others[second.id] != source) == is_seen
        assert len(work.granules.unread(9)) == (len(lost) if is_read else 0)
        assert work.granules.entries(9) == ([(second.id, source.moves + 1)] if change == {"moves": 1} else [])


def test_i19_what_another_member_has_claimed_is_seen_by_looking_at_all_and_not_by_claiming_it() -> None:
    site, first, second = pair()
    granules = first._exchange.granules
    theirs = granules.owned_by(second.id)[0]
    granules.put(replace(theirs, owner="", epoch=theirs.epoch - 1))
    sent = list[int]()
    during_transactions(site, lambda: sent.append(1))
    site.beats(first, second, times=WHOLE_LOOK_BEATS)
    assert granules.get(theirs.name) == theirs and sent == []


def test_a_member_that_claims_for_many_beats_reads_each_granule_once() -> None:
    site = Site()
    slow_store(site, 2 * BEAT)
    count = 12 * GRANULES_PER_WRITE
    member = site.member(publish=count)
    refs: Any = site.world.refs
    read_many = refs.read_many
    reads = list[str]()
    refs.read_many = lambda keys: reads.extend(keys) or read_many(keys)
    for _ in range(14):
        site.beats(member, step_ms=0)
    assert len(member.owned_granules()) == count
    granule = site.world.space.fleet_granule("")
    assert len([key for key in reads if key.startswith(granule)]) == count


def test_i19_entries_that_are_gone_are_made_up_for_by_reading_granules() -> None:
    site = Site()
    members = [site.member(name, publish=60) for name in "abc"]
    site.beats(*members, times=4 * WHOLE_LOOK_BEATS)
    members[2].leave()
    for key in [key for key in site.world.refs.rows if "/fleet-moves/" in key]:
        del site.world.refs.rows[key]
    for member in members[:2]:
        site.beats(member)
    assert members[0].whose("publish", "t") is not Ownership.UNSURE
    site.beats(*members[:2], times=2 * WHOLE_LOOK_BEATS)
    assert len(members[0].owned_granules()) + len(members[1].owned_granules()) == 60
    site.agree(*members[:2])


def test_i19_two_that_take_over_from_one_share_the_work_and_each_learns_what_the_other_took() -> None:
    site = Site()
    count = 6 * GRANULES_PER_WRITE
    members = [site.member(name, publish=count) for name in "abc"]
    site.beats(*members, times=4 * WHOLE_LOOK_BEATS)
    slow_store(site, 2 * BEAT)
    for _ in range(60):
        site.beats(*members[:2], step_ms=BEAT)
    assert len(site.rows(MemberRow)) == 2
    site.agree(*members[:2])
    assert sum(len(member.owned_granules()) for member in members[:2]) == count


def test_what_is_given_in_several_beats_is_planned_once() -> None:
    site = Site()
    count = 12 * GRANULES_PER_WRITE
    first = site.member(publish=count)
    site.beats(first, times=2)
    others = [site.member(name, publish=count) for name in "bcd"]
    slow_store(site, 6)
    for _ in range(60):
        site.beats(first, *others, step_ms=1)
    site.agree(first, *others)
    shares = [len(member.owned_granules()) for member in (first, *others)]
    assert sum(shares) == count and max(shares) - min(shares) < count / 4 * UNEVEN_PERCENT / 100
    assert {row.epoch for row in site.rows(GranuleRow)} == {1, 2}, "no granule moved twice"


def test_i19_a_fleet_whose_row_went_while_a_member_joined_is_reported() -> None:
    site = Site()
    during_transactions(site, lambda: site.world.refs.rows.pop(site.world.space.fleet(), None))
    with pytest.raises(StateConflict, match="row of the fleet is gone"):
        site.beats(site.member())
    assert site.rows(MemberRow) == []


def test_a_member_reads_of_what_changed_hands_the_entries_of_logs_and_no_granules() -> None:
    site = Site()
    members = [site.member(name, publish=300) for name in "abc"]
    site.beats(*members, times=4 * WHOLE_LOOK_BEATS)
    refs: Any = site.world.refs
    read_many = refs.read_many
    reads = list[str]()
    refs.read_many = lambda keys: reads.extend(keys) or read_many(keys)
    granule = site.world.space.fleet_granule("")
    site.beats(*members, times=2 * WHOLE_LOOK_BEATS)
    assert [key for key in reads if key.startswith(granule)] == []
    entries = site.world.space.fleet_moves(members[2].id, 0)[:-1]
    members[2].leave()
    reads.clear()
    site.beats(*members[:2])
    assert [key for key in reads if key.startswith(granule)] == []
    assert any(key.startswith(entries) for key in reads)
    assert len(members[0].owned_granules()) + len(members[1].owned_granules()) == 300
    reads.clear()
    site.beats(*members[:2], times=2 * WHOLE_LOOK_BEATS)
    assert [key for key in reads if key.startswith(granule)] == []


def test_a_fleet_of_many_comes_to_rest_and_each_looks_at_few() -> None:
    site = Site()
    members = [site.member(f"m{number}", publish=64) for number in range(12)]
    site.beats(*members, times=3 * WHOLE_LOOK_BEATS)
    site.agree(*members)
    owned = [len(member.owned_granules()) for member in members]
    assert sum(owned) == 64 and max(owned) - min(owned) <= 2
    reads = list[int]()
    refs: Any = site.world.refs
    read = refs.read
    read_many = refs.read_many
    refs.read = lambda key: reads.append(1) or read(key)
    refs.read_many = lambda keys: reads.append(len(keys)) or read_many(keys)
    site.beats(*members)
    assert reads == [4] * 12, "the fleet's row and three members"
    site.beats(*members, times=WHOLE_LOOK_BEATS - 1)
    assert sorted(reads) == [*[4] * 12 * (WHOLE_LOOK_BEATS - 1), *[12] * 12], "now and then all members"
    site.beats(*members[:-1], times=3 * WHOLE_LOOK_BEATS)
    site.agree(*members[:-1])


def test_a_report_shows_members_granules_and_how_often_they_moved() -> None:
    site = Site()
    reader = FleetReader(site.world)
    assert reader.report() == NO_FLEET
    member = site.member("a", publish=2, collect=1)
    site.beats(member)
    report = reader.report()
    (shown,) = report.members
    (row,) = site.rows(MemberRow)
    assert (shown.id, shown.name, shown.state, shown.owned, shown.loads) == (member.id, "a", "active", 3, row.loads)
    assert [(granule.name, granule.owner, granule.epoch) for granule in report.granules] == [
        ("collect/0", member.id, 1), ("publish/0", member.id, 1), ("publish/1", member.id, 1),
    ]  # fmt: skip
    assert (report.roles, report.migrations) == ({"collect": 1, "publish": 2}, 3)
    member.leave()
    site.beats(site.member("b", publish=2))
    report = reader.report()
    assert [granule.epoch for granule in report.granules] == [2, 3, 3] and report.migrations == 8
    assert [member.name for member in report.members] == ["b"]


def test_a_fleet_whose_row_is_gone_is_reported() -> None:
    site, first, _ = pair()
    del site.world.refs.rows[site.world.space.fleet()]
    with pytest.raises(StateConflict, match="row of the fleet is gone"):
        site.beats(first)


# -- answers that are lost, and processes that die ---------------------------------------------------------------------


def story(site: Site, first: Member) -> None:
    """The acts of a member in its life: joins, beats, takes over, gives, leaves."""
    site.beats(first)
    dead = site.member("dead")
    site.beats(first, dead, times=2 * WHOLE_LOOK_BEATS + 2)
    site.beats(first, times=SILENT_BEATS + 2)
    second = site.member("b")
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS)
    first.leave()


def writes_of(run: Callable[[Site, Member], None]) -> int:
    site = Site()
    counting = Faulty(site.world)
    run(site, site.member(world=counting.world))
    return len(counting.writes)


WRITES = writes_of(story)


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
def test_i19_whatever_write_is_the_last_or_has_no_answer_the_fleet_comes_to_rest(at: int, how: How) -> None:
    site = Site()
    first = site.member(world=Faulty(site.world, at, how).world)
    with suppress(Crash, OutcomeUnknown):
        story(site, first)
    living = [site.member("x"), site.member("y")]
    site.beats(*living, times=6 * SILENT_BEATS)
    site.agree(*living)
    assert abs(len(living[0].owned_granules()) - len(living[1].owned_granules())) <= 1
    assert set(site.owners().values()) == {member.id for member in living}


@pytest.mark.parametrize("how", LOSSES)
def test_i19_a_sign_of_life_without_an_answer_is_looked_up(how: How) -> None:
    site = Site()
    lossy = Faulty(site.world)
    member = site.member(world=lossy.world)
    site.beats(member)
    id = member.id
    owned = member.owned_granules()
    lossy._left = 1
    lossy._how = how
    with pytest.raises(OutcomeUnknown):
        site.beats(member)
    assert site.beats(member) == [Beat()] and (member.id, member.owned_granules()) == (id, owned)
    site.world.refs.rows.pop(site.world.space.fleet_member(id))
    site.world.refs.rows[site.world.space.fleet()].pop("members")
    lossy._left = 1
    lossy._how = "unsent"
    with pytest.raises(OutcomeUnknown):
        site.beats(member)
    (beat,) = site.beats(member)
    assert beat.removed


def test_members_that_can_be_asked_are_known_until_they_are_doubted() -> None:
    site = Site()
    known = {"a": Address("a.host", 1, "one"), "b": Address("b.host", 2, "two")}
    members = [
        Member(
            site.world, lambda: site.now_ms, name=name, granules={"catalogs": 4}, beat_ms=BEAT, alone_beat_ms=ALONE,
            address=known[name],
        )
        for name in ("a", "b")
    ]  # fmt: skip
    first, second = members
    assert first.owners("catalogs") == Owners()
    site.beats(first)
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    owners = first.owners("catalogs")
    assert owners.granules == 4 and owners.until_ms == site.now_ms + SUSPECTED_BEATS * BEAT
    ids = {first.id: known["a"], second.id: known["b"]}
    assert dict(owners.owners) == {name: ids[owner] for name, owner in site.owners().items()}
    assert set(owners.owners.values()) == set(known.values())
    assert second.owners("catalogs").owners == owners.owners
    assert first.owners("publish") == Owners()
    site.beats(first, times=SUSPECTED_BEATS + 1)
    assert set(first.owners("catalogs").owners.values()) == {known["a"]}, "the other one is doubted"


def test_a_member_without_an_address_is_not_asked() -> None:
    site = Site()
    first = site.member(catalogs=2)
    second = site.member("b", catalogs=2)
    site.beats(first)
    site.beats(first, second, times=2)
    assert first.owners("catalogs").owners == {}
    assert first.owners("catalogs").granules == 2


def test_i19_other_processes_of_a_member_read_its_view_of_ownership() -> None:
    site, first, second = pair()
    subjects = [f"t{number}" for number in range(64)]

    def agrees(member: Member) -> set[Ownership]:
        shares = member.shares("publish")
        whose = [member.whose("publish", subject) for subject in subjects]
        assert whose == [shares.whose("publish", subject, site.now_ms) for subject in subjects]
        return set(whose)

    assert agrees(first) == agrees(second) == {Ownership.MINE, Ownership.OTHERS}
    site.beats(first, times=SUSPECTED_BEATS + 1)
    assert agrees(first) == {Ownership.MINE, Ownership.UNSURE}, "the other one is doubted"
    site.now_ms += SUSPECTED_BEATS * BEAT
    assert agrees(first) == {Ownership.UNSURE}, "it has not shown life itself"
    assert site.member().shares("publish").whose("publish", "t", site.now_ms) is Ownership.UNSURE


def test_work_that_another_process_has_done_counts_as_load() -> None:
    site = Site()
    member = site.member()
    site.beats(member)
    member.whose("publish", "t", 70)
    site.beats(member)
    (row,) = site.rows(MemberRow)
    assert row.loads == {"publish": 8 + 70}
