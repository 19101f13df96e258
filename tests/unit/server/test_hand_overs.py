"""The work of a server of a fleet: every change has a server, whichever granules change hands and
whichever member falls silent (I11, I19)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.fleet.core.decisions import SILENT_BEATS, SUSPECTED_BEATS
from turnstile.fleet.core.roles import PUBLISH, SWEEP
from turnstile_server.fleet import member
from turnstile_server.fleet.member import GIVEN_BEATS, Sharing, Work

BEAT_MS = 100


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The monotonic clock of all members."""
    clock = Clock()
    monkeypatch.setattr(member, "_monotonic_ms", clock)
    monkeypatch.setattr(member.metrics, "FleetMetrics", Figures)
    yield clock
    for part in Part.all:
        part.sharing._journal.close()
    Part.all.clear()


class Figures:
    def record(self, *_: Any, **__: Any) -> None: ...


class Part:
    """A server's part in a fleet, with the test as its thread."""

    all: ClassVar[list[Part]] = []

    def __init__(self, world: FakeWorld, hears: Callable[[], bool] = lambda: True) -> None:
        self.again = list[str]()
        self.sweeps = 0
        Part.all.append(self)
        work = {PUBLISH: Work(lambda _: True, self._redo)}
        self.sharing = Sharing(world, (PUBLISH, SWEEP), work, self._catch_up, hears=hears, beat_ms=BEAT_MS)

    def _redo(self, keys: Mapping[str, int]) -> None:
        self.again += keys

    def _catch_up(self, roles: Collection[str]) -> None:
        self.sweeps += SWEEP in roles or PUBLISH in roles

    def mine(self, world: FakeWorld) -> dict[str, int]:
        return self.sharing.mine(PUBLISH, keys(world))

    def beat(self) -> None:
        self.sharing._beat(stood_still=False)
        self.sharing._pass_on()

    def look(self) -> None:
        if self.sharing.member.look():
            self.sharing._pass_on()


def keys(world: FakeWorld) -> dict[str, int]:
    return {world.space.table(f"t{number}"): 1 for number in range(300)}


def test_i11_i19_no_change_is_left_out_while_granules_are_handed_over(clock: Clock) -> None:
    world = fake_world()
    parts = [Part(world)]
    for count in (1, 2, 3):
        for _ in range(20):
            for part in parts:
                part.beat()
                chosen = [other.mine(world) for other in parts]
                assert set().union(*chosen) == keys(world).keys()
            clock.now_ms += BEAT_MS
        owned = [len(part.sharing.member.owned_granules()) for part in parts]
        assert len(parts) == count and min(owned) > 10 and sum(owned) == 65, owned
        parts.append(Part(world))


def test_i19_a_server_stops_working_on_what_it_handed_over_some_beats_ago(clock: Clock) -> None:
    world = fake_world()
    first = Part(world)
    second = Part(world)
    for _ in range(20 + GIVEN_BEATS):
        first.beat()
        second.beat()
        clock.now_ms += BEAT_MS
    chosen = [part.mine(world) for part in (first, second)]
    assert not chosen[0].keys() & chosen[1].keys() and all(chosen)


def test_i11_i19_what_was_left_to_a_server_that_falls_silent_is_taken_back_when_it_is_doubted(clock: Clock) -> None:
    world = fake_world()
    first = Part(world)
    second = Part(world)
    for _ in range(20 + GIVEN_BEATS):
        first.beat()
        second.beat()
        clock.now_ms += BEAT_MS
    left = keys(world).keys() - first.mine(world).keys()
    assert left and not first.again
    for _ in range(2 * SUSPECTED_BEATS):
        clock.now_ms += BEAT_MS // 2
        first.look()
        clock.now_ms += BEAT_MS // 2
        first.beat()
    assert left == set(first.again)
    before = first.sweeps
    for _ in range(2 * SILENT_BEATS):
        first.beat()
        clock.now_ms += BEAT_MS
    assert first.sweeps > before and len(first.sharing.member.owned_granules()) == 65


def test_i19_a_server_that_does_not_hear_of_every_change_leaves_and_joins_again(clock: Clock) -> None:
    world = fake_world()
    hears = [True]
    first = Part(world, lambda: hears[0])
    second = Part(world)
    for at in range(60):
        hears[0] = not 20 <= at < 40
        first.beat()
        second.beat()
        if at == 39:
            assert first.sharing.member.id == "" and len(second.sharing.member.owned_granules()) == 65
            assert first.mine(world) == keys(world), "it works as one that is alone"
        clock.now_ms += BEAT_MS
    assert len(first.sharing.member.owned_granules()) > 20 and first.sweeps >= 2
