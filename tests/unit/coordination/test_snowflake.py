"""Snowflake ids: what they are made of, and that a range of time is all that makes them unique."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.coordination.core.snowflake import (
    EPOCH_MS,
    NODES,
    PER_MS,
    RESERVED_MS,
    IdParts,
    IdRange,
    compose,
    parts_of,
    random_id,
)  # fmt: skip
from turnstile.coordination.ids import CLAIMS, MARGIN_MS, TERM_MS, ClaimedIds, SnowflakeIds
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, Throttled

FIRST = EPOCH_MS + RESERVED_MS
LAST = EPOCH_MS + 2**41 - 1
times = st.integers(FIRST, LAST)


@given(times, st.integers(0, NODES - 1), st.integers(0, PER_MS - 1))
def test_an_id_says_when_where_and_which(at: int, node: int, sequence: int) -> None:
    id = compose(at, node, sequence)
    assert 0 < id < 2**63
    assert parts_of(id) == IdParts(at, node, sequence)


@given(times, times, st.integers(0, 2**22 - 1), st.integers(0, 2**22 - 1))
def test_ids_order_by_time(first: int, second: int, here: int, there: int) -> None:
    if first < second:
        assert random_id(first, here) < random_id(second, there)


@pytest.mark.parametrize(
    "parts", [(FIRST - 1, 0, 0), (LAST + 1, 0, 0), (FIRST, -1, 0), (FIRST, NODES, 0), (FIRST, 0, PER_MS)]
)
def test_what_no_id_can_carry_is_refused(parts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="out"):
        compose(*parts)


def test_the_epoch_is_the_first_of_january_2025() -> None:
    assert datetime.fromtimestamp(EPOCH_MS / 1000, UTC) == datetime(2025, 1, 1, tzinfo=UTC)


# -- one lease's ids ----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), max_size=300), st.integers(0, 5))
def test_i2_ids_of_a_lease_strictly_increase_and_stay_in_its_range_whatever_the_clock_does(
    steps: list[int], run: int
) -> None:
    id_range = IdRange(7, FIRST + 100, FIRST + 160)
    now = FIRST + 120
    last = 0
    for step in steps:
        now += step
        for _ in range(run):
            issued = id_range.next(now)
            if issued is None:
                assert max(now, id_range.last) >= FIRST + 160
                continue
            id, id_range = issued
            assert id > last
            assert FIRST + 100 <= parts_of(id).at < FIRST + 160
            assert parts_of(id).node == 7
            last = id


def test_an_exhausted_sequence_goes_on_in_the_next_millisecond_until_the_range_ends() -> None:
    id_range = IdRange(1, FIRST, FIRST + 3)
    ids = []
    while (issued := id_range.next(FIRST)) is not None:
        id, id_range = issued
        ids.append(id)
    assert len(ids) == len(set(ids)) == 3 * PER_MS
    assert ids == sorted(ids)
    assert id_range.next(FIRST + 10) is None
    assert id_range.free == FIRST + 3
    issued = id_range.until(FIRST + 4).next(FIRST)
    assert issued is not None
    assert parts_of(issued[0]) == IdParts(FIRST + 3, 1, 0)


# -- the service --------------------------------------------------------------------------------------------------


class Sandbox:
    """A process with clocks that the test sets."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.age = 0
        world.clock.step = 0
        self.ids = SnowflakeIds(world, lambda: self.age)

    def pass_(self, ms: int, *, wall: bool = True, monotonic: bool = True) -> None:
        self.world.clock.now += ms if wall else 0
        self.age += ms if monotonic else 0


def test_a_node_is_leased_once_and_renewed_every_half_term() -> None:
    sandbox = Sandbox(fake_world())
    requests = sandbox.world.refs.requests
    issued = [sandbox.ids.next() for _ in range(PER_MS + 5)]
    assert requests == ["write"]
    nodes = {parts_of(id).node for id in issued}
    for _ in range(10):
        sandbox.pass_(TERM_MS // 4)
        issued += [sandbox.ids.next() for _ in range(3)]
    assert len(requests) == 6
    assert {parts_of(id).node for id in issued} == nodes
    assert issued == sorted(set(issued))


@pytest.mark.parametrize("clocks", [{"monotonic": False}, {"wall": False}, {}], ids=["wall", "monotonic", "both"])
def test_i2_a_thawed_process_makes_no_id_before_it_has_a_lease_again_whichever_clock_tells_it(
    clocks: dict[str, bool],
) -> None:
    sandbox = Sandbox(fake_world())
    before = sandbox.ids.next()
    sandbox.pass_(TERM_MS - MARGIN_MS, **clocks)
    sandbox.world.refs.requests.clear()

    def away(write: object) -> object:
        raise Throttled

    # type: ignore[assignment,method-assign]
    write = sandbox.world.refs.write
    sandbox.world.refs.write = away
    for _ in range(2):
        with pytest.raises(Throttled):
            sandbox.ids.next()
    sandbox.world.refs.write = write  # type: ignore[method-assign]
    assert sandbox.ids.next() > before
    assert sandbox.world.refs.requests == ["write"]


def test_i2_a_process_whose_node_was_taken_over_takes_another() -> None:
    world = fake_world()
    sandbox = Sandbox(world)
    first = sandbox.ids.next()
    sandbox.pass_(2 * TERM_MS)
    row = next(row for key, row in world.refs.rows.items() if "/lease/" in key)
    row |= {"holder": "somebody else", "until": world.clock.now + TERM_MS, "fence": 1}
    second = sandbox.ids.next()
    assert parts_of(second).node != parts_of(first).node


def test_a_renewal_that_the_store_refuses_to_hear_is_put_off_while_the_lease_lasts() -> None:
    sandbox = Sandbox(fake_world())
    sandbox.ids.next()
    calls = []

    def lost(write: object) -> object:
        calls.append(write)
        raise OutcomeUnknown("lost")

    sandbox.world.refs.write = lost  # type: ignore[assignment,method-assign]
    issued = []
    for _ in range(TERM_MS // 2 - MARGIN_MS):
        sandbox.pass_(1)
        issued.append(sandbox.ids.next())
    sandbox.pass_(TERM_MS // 2)
    with pytest.raises(OutcomeUnknown):
        sandbox.ids.next()
    assert len(set(issued)) == len(issued)
    assert len(calls) < 8


def test_a_node_that_was_given_up_is_taken_at_once_and_its_times_go_on() -> None:
    world = fake_world()
    sandbox = Sandbox(world)
    other = Sandbox(world)
    numbers = iter([f"{n:08d}-0000-4000-8000-000000000005" for n in range(999)])  # whatever is drawn is node 5
    world.ids.uuid = lambda: next(numbers)  # type: ignore[method-assign]
    issued = [sandbox.ids.next() for _ in range(PER_MS + 1)]
    with pytest.raises(StateConflict) as error:
        other.ids.next()
    assert error.value.type == "NoFreeNode"
    sandbox.ids.close()
    issued += [other.ids.next() for _ in range(10)]
    assert {parts_of(id).node for id in issued} == {5}
    assert issued == sorted(set(issued))


def test_i2_a_process_that_gave_its_node_up_makes_no_more_ids_of_it_although_the_answer_was_lost() -> None:
    sandbox = Sandbox(fake_world())
    sandbox.ids.next()
    write = sandbox.world.refs.write

    def lost(change: object) -> object:
        write(change)  # type: ignore[arg-type]
        raise OutcomeUnknown("lost")

    sandbox.world.refs.write = lost  # type: ignore[assignment,method-assign]
    with pytest.raises(OutcomeUnknown):
        sandbox.ids.close()
    with pytest.raises(OutcomeUnknown):
        sandbox.ids.next()  # it has to ask for a lease first
    sandbox.ids.close()


def test_claimed_ids_go_on_to_another_when_one_is_taken() -> None:
    world = fake_world()
    world.clock.step = 0
    taken: set[int] = set()

    def put(id: int) -> bool:
        free = id not in taken
        taken.add(id)
        return free

    ids = ClaimedIds(world.clock, world.ids)
    assert len({ids.claim(put) for _ in range(500)}) == 500
    refusals = []
    with pytest.raises(StateConflict) as error:
        ids.claim(lambda tried: bool(refusals.append(tried)))
    assert (error.value.type, len(refusals)) == ("NoFreeId", CLAIMS)


@settings(max_examples=examples(50))
@given(st.integers(2, 6), st.integers(0, 2**32))
def test_claimed_ids_of_one_millisecond_never_meet(processes: int, seed: int) -> None:
    """With so few random bits that they collide all the time."""
    numbers = random.Random(seed)
    world = fake_world()
    taken = set()
    world.clock.step = 0
    world.ids.uuid = lambda: f"{numbers.randrange(8):032x}"  # type: ignore[method-assign]
    ids = [ClaimedIds(world.clock, world.ids) for _ in range(processes)]

    def put(id: int) -> bool:
        free = id not in taken
        taken.add(id)
        return free

    issued = []
    for sandbox in ids:
        world.clock.now += numbers.randrange(2)
        try:
            issued.append(sandbox.claim(put))
        except StateConflict:
            continue
    assert len(set(issued)) == len(issued)
