"""What a member does becomes events; a beat that changes nothing costs no request more (I19)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.stack import until
from turnstile.events.core.cloud_events import FLEET
from turnstile.events.read import EventReader
from turnstile.fleet.core.changes import CLAIMED, HANDED_OVER, JOINED, LEFT, REFUSED, RELEASED, REMOVED, TAKEN_OVER
from turnstile.fleet.core.decisions import SILENT_BEATS, WHOLE_LOOK_BEATS
from turnstile.fleet.member import Member
from turnstile.store.core.errors import Throttled
from turnstile.store.ports import World
from turnstile_server.fleet import journal
from turnstile_server.fleet.journal import FleetJournal

BEAT = 10


class Requests:
    """Refs that count requests, and let none through while ``down``."""

    def __init__(self, refs: Any) -> None:
        self._refs = refs
        self.made = 0
        self.down = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._refs, name)

        def counted(*arguments: Any, **more: Any) -> Any:
            self.made += 1
            if self.down:
                raise Throttled
            return method(*arguments, **more)

        return counted


class Site:
    """Members with journals, on one store and one monotonic clock."""

    def __init__(self) -> None:
        self.world: FakeWorld = fake_world()
        self.now_ms = 0
        self.journals = list[FleetJournal]()

    def member(self, name: str, world: World | None = None, **granules: int) -> Member:
        written = FleetJournal(world or self.world, lambda: member.id)
        self.journals.append(written)
        member = Member(
            written.recording_world(), lambda: self.now_ms, name=name, granules=granules or {"publish": 4},
            beat_ms=BEAT,
            alone_beat_ms=BEAT,
        )  # fmt: skip
        return member

    def beats(self, *members: Member, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += BEAT
            for member in members:
                member.beat()

    def written(self) -> list[tuple[str, str, str, int]]:
        """Type, member, whose it was, and count of each event."""
        reader = EventReader(self.world)
        return [
            (event.type, event.name, event.data.get("from_name", ""), event.data.get("count", 0))
            for event, _ in reader.events(reader.place(FLEET, None))
        ]

    def close(self) -> list[list[tuple[str, str, str, int]]]:
        """The events of each journal; of two their order is open."""
        for written in self.journals:
            written.close()
        events = list(EventReader(self.world).events(EventReader(self.world).place(FLEET, None)))
        ids = [event.id.split("/")[1] for event, _ in events]
        pairs = list(zip(ids, self.written(), strict=True))
        return [[event for id, event in pairs if id == written._series] for written in self.journals]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(journal, "GATHER_S", 0.01)
    opened = Site()
    yield opened
    opened.close()


def test_members_and_granules_have_events_from_the_first_to_the_last(site: Site) -> None:
    first = site.member("a")
    second = site.member("b")
    site.beats(first)
    until(lambda: len(site.written()) == 2)
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    until(lambda: len(site.written()) == 4)
    assert first.leave() and second.leave()
    assert site.close() == [
        [
            (JOINED, "a", "", 0), (CLAIMED, "a", "", 4), (HANDED_OVER, "b", "a", 2), (HANDED_OVER, "b", "a", 2),
            (LEFT, "a", "", 0),
        ],
        [(JOINED, "b", "", 0), (RELEASED, "b", "", 4), (LEFT, "b", "", 0)],
    ]  # fmt: skip


def test_a_silent_member_is_removed_by_others_and_finds_that_itself(site: Site) -> None:
    first = site.member("a")
    second = site.member("b")
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    until(lambda: len(site.written()) == 4)
    before = first.id
    site.beats(second, times=SILENT_BEATS + 2)
    until(lambda: len(site.written()) == 6)
    assert first.beat().removed
    site.journals[0].note_removal(before)
    mine, others = site.close()
    assert mine[3:] == [(JOINED, "a", "", 0), (REFUSED, "a", "", 0)]
    assert others[1:] == [(TAKEN_OVER, "b", "a", 2), (REMOVED, "a", "", 0)]


def test_a_member_with_a_damaged_row_is_taken_over_and_joins_anew_with_events_of_both(site: Site) -> None:
    first = site.member("a")
    second = site.member("b")
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    until(lambda: len(site.written()) == 4)
    site.world.refs.damage(site.world.space.fleet_member(first.id))
    site.beats(second, times=2 * SILENT_BEATS)
    mine, others = site.close()
    assert mine[0] == (JOINED, "a", "", 0)
    assert others[1:] == [(TAKEN_OVER, "b", "a", 2), (REMOVED, "a", "", 0)]


@contextmanager
def counted(site: Site) -> Iterator[tuple[Requests, World]]:
    requests: Any = Requests(site.world.refs)
    yield requests, replace(site.world, refs=requests)


def test_a_beat_that_changes_nothing_costs_no_request_more(site: Site) -> None:
    with counted(site) as (with_journal, world):
        member = site.member("a", world)
        site.beats(member)
        until(lambda: len(site.written()) == 2)
        before = with_journal.made
        site.beats(member, times=WHOLE_LOOK_BEATS)
        site.close()
        made = with_journal.made - before
    with counted(site) as (without, world):
        plain = Member(world, lambda: site.now_ms, name="a", granules={"publish": 4}, beat_ms=BEAT, alone_beat_ms=BEAT)
        assert member.leave()
        site.beats(plain)
        before = without.made
        site.beats(plain, times=WHOLE_LOOK_BEATS)
    assert made == without.made - before


def test_events_wait_while_the_store_does_not_answer(site: Site) -> None:
    with counted(site) as (requests, world):
        written = FleetJournal(world, lambda: "a")
        site.journals.append(written)
        requests.down = True
        written.note_removal("a")
        until(lambda: requests.made > 2)
        assert site.written() == []
        requests.down = False
        until(lambda: len(site.written()) == 1)


def test_of_more_events_than_may_wait_the_oldest_are_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WAITING_MOST", 3)
    with counted(site) as (requests, world):
        requests.down = True
        written = FleetJournal(world, lambda: "a")
        site.journals.append(written)
        for number in range(5):
            written.note_removal(f"m{number}")
        until(lambda: requests.made > 2)
        requests.down = False
        until(lambda: bool(site.written()))
        reader = EventReader(site.world)
        subjects = [event.subject for event, _ in reader.events(reader.place(FLEET, None))]
    assert subjects == ["m2", "m3", "m4"]
