"""A fair chance for changes that keep losing: changes stand in line, and others let a starving one
go first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import pytest

from tests.support.catalog import complete, fakes, fresh, widen
from tests.support.fakes.storage import FakeClock, FakeIds
from tests.support.fakes.world import FakeWorld
from tests.support.threads import at_once
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.retry import HOLD_MS, Backoff
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.rows import CatalogHead, claim_priority
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import View
from turnstile.store.core.errors import StateConflict
from turnstile.store.ports import Accepted, Rejected

KEY = "test/catalog/main"


def row_of(world: FakeWorld) -> CatalogHead:
    return CatalogHead.from_row(world.refs.rows[KEY])


def namespace(name: str) -> Edit:
    return Edit(name, put={(name,): Namespace(name, name, 1)})


def test_i11_a_change_that_keeps_losing_gets_its_turn_and_lands() -> None:
    """A rival commits during every attempt; once asked, it holds back, and the change is
    applied."""
    services = fresh()
    rival = None
    world = fakes(services)
    rival = fresh(world)
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        world.clock.now += int(seconds * 1000) + 1

    committer = Committer(world, services.reader, pause=pause, deadline_ms=2_000)
    held = [0]

    def change(_: View) -> Edit:
        if world.refs.rows[KEY].get("turn_until", 0) > world.clock.now:
            held[0] += 1  # a rival that looks at the row would wait now
        else:
            rival.namespaces.create("main", (f"r{rival.reader.current('main').commit.seq}",))
        return namespace("mine")

    committer.commit("main", change)
    assert held[0] == 1
    assert len(waits) > 3
    assert row_of(world).turn == "" and row_of(world).turn_until == 0, "the turn is over with the swap"
    complete(world)


def test_others_hold_back_while_it_is_the_turn_of_another_and_no_longer() -> None:
    services = fresh()
    world = fakes(services)
    until = world.clock.now + HOLD_MS
    world.refs.write(claim_priority(KEY, "somebody", until, world.clock.now))

    def pause(seconds: float) -> None:
        world.clock.now += int(seconds * 1000) + 1

    Committer(world, services.reader, pause=pause).commit("main", lambda _: namespace("n"))
    assert until <= world.clock.now < until + 200, "a crash of somebody costs the others a second"
    complete(world)


def test_a_writer_that_holds_back_gives_up_at_its_deadline_having_written_nothing() -> None:
    services = fresh()
    world = fakes(services)
    world.refs.write(claim_priority(KEY, "somebody", world.clock.now + HOLD_MS, world.clock.now))
    before = dict(world.objs.rows)
    with pytest.raises(StateConflict, match="every attempt"):
        Committer(world, services.reader, deadline_ms=100).commit("main", lambda _: namespace("n"))
    assert world.objs.rows == before


def test_i11_one_asks_at_a_time_and_a_turn_ends_by_itself() -> None:
    services = fresh()
    world = fakes(services)
    assert isinstance(world.refs.write(claim_priority(KEY, "a", 2_000, 1_000)), Accepted)
    assert isinstance(world.refs.write(claim_priority(KEY, "b", 2_900, 1_900)), Rejected)
    assert isinstance(world.refs.write(claim_priority(KEY, "b", 3_000, 2_000)), Accepted)
    assert row_of(world).turn == "b"


def test_i11_a_turn_of_a_clock_that_is_ahead_delays_no_other_process_and_is_taken_over() -> None:
    """Otherwise one such change would close the catalog to all for as long as the clock is
    ahead."""
    services = fresh()
    world = fakes(services)
    now = world.clock.now
    ahead = now + 5 * 60_000
    assert isinstance(world.refs.write(claim_priority(KEY, "ahead", ahead + HOLD_MS, ahead)), Accepted)
    pauses: list[float] = []
    Committer(world, services.reader, pause=pauses.append).commit("main", lambda _: namespace("n"))
    assert pauses == [] and world.clock.now < now + 100
    assert row_of(world).turn == "ahead", "nobody took it away from whoever it may help"
    assert isinstance(world.refs.write(claim_priority(KEY, "b", now + HOLD_MS, now)), Accepted)
    assert isinstance(world.refs.write(claim_priority(KEY, "c", now + HOLD_MS + 1, now + 1)), Rejected)
    complete(world)


def test_i9_asking_for_a_turn_makes_no_catalog() -> None:
    services = fresh()
    world = fakes(services)
    assert world.refs.write(claim_priority("test/catalog/nothing", "a", 2, 1)) == Rejected(None)
    assert "test/catalog/nothing" not in world.refs.rows


def test_a_swap_that_looks_at_no_turn_does_no_harm_and_leaves_it_standing() -> None:
    services = fresh()
    world = fakes(services)
    services.reader.current("main")
    seen = dict(world.refs.rows[KEY])
    world.refs.write(claim_priority(KEY, "somebody", world.clock.now + HOLD_MS, world.clock.now))
    Committer(world, services.reader).commit("main", lambda _: namespace("n"), row=seen)
    assert row_of(world).turn == "somebody"
    complete(world)


@pytest.mark.parametrize(("queued", "attempts"), [(True, range(80, 81)), (False, range(81, 10_000))])
def test_changes_of_one_process_stand_in_line_and_none_is_made_twice(queued: bool, attempts: range) -> None:
    services = fresh()
    world = fakes(services)
    committer = Committer(world, services.reader, pause=time.sleep, queued=queued)
    made: list[str] = []

    def one(name: str) -> None:
        def change(_: View) -> Edit:
            made.append(name)
            time.sleep(0.001)
            return namespace(name)

        committer.commit("main", change)

    def ten(thread: int) -> None:
        for n in range(10):
            one(f"t{thread}_{n}")

    assert at_once([partial(ten, thread) for thread in range(8)]) == [None] * 8
    assert len(made) in attempts
    complete(world)


def test_requests_of_one_process_stand_in_the_same_line_for_all_callers() -> None:
    """Every request has services of its own, which know its principal; none of their attempts is in
    vain."""

    class Anybody:
        def authorize(self, tree: Tree) -> None: ...
        def authorize_missing(self, catalog: str) -> None: ...
        def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
            return [True for _ in entities]

    services = fresh()
    world = fakes(services)
    widen(services)
    world.objs.requests.clear()

    def ten(thread: int) -> None:
        for n in range(10):
            services.authorized_by(Anybody()).namespaces.create("main", (f"t{thread}_{n}",))

    assert at_once([partial(ten, thread) for thread in range(8)]) == [None] * 8
    assert world.objs.requests.count("put_many") <= 80, "several changes share a batch"
    assert "delete" not in world.objs.requests, "nothing was written in vain"
    complete(world)


def test_pauses_grow_from_the_length_of_an_attempt_to_a_bound_and_end_with_the_deadline() -> None:
    waits: list[float] = []
    clock = FakeClock(step_ms=0)
    ids = FakeIds()
    ids.uuid = lambda: "ffffffff-ffff-4fff-bfff-ffffffffffff"  # type: ignore[method-assign]

    def pause(seconds: float) -> None:
        waits.append(round(seconds * 1000))
        clock.now += waits[-1]

    backoff = Backoff(clock, ids, pause, deadline_ms=1_500)
    while backoff.again():
        pass
    assert waits == [32, 64, 128, 256, 400, 400, 400]
    assert backoff.starving


def test_a_pause_that_lasts_beyond_the_deadline_is_the_last() -> None:
    """A sandbox may be frozen in it for hours."""
    clock = FakeClock(step_ms=0)

    def frozen(_: float) -> None:
        clock.now += 3_600_000

    assert not Backoff(clock, FakeIds(), frozen, deadline_ms=1_500).again()
    assert not Backoff(clock, FakeIds(), frozen, deadline_ms=1_500).hold_back(60)
