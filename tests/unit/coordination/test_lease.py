"""Leases: one holder at a time by good manners, one order of ranges and fences whatever the clocks
say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.storage import FakeClock
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Losing
from turnstile.coordination.core.rows import Lease
from turnstile.coordination.tasks import Leases, OtherHolder
from turnstile.store.core.errors import OutcomeUnknown
from turnstile.store.core.writes import Change, Write
from turnstile.store.ports import Accepted, Rejected

TERM = 1_000


def still() -> tuple[Leases, FakeWorld]:
    world = fake_world()
    world.clock.step = 0
    return Leases(world), world


def taken(answer: Lease | OtherHolder) -> Lease:
    assert isinstance(answer, Lease)
    return answer


def test_a_lease_has_one_holder_until_it_ends() -> None:
    leases, world = still()
    first = taken(leases.take("n", TERM))
    assert leases.take("n", TERM) == OtherHolder(first.until)
    world.clock.now += TERM - 1
    assert leases.take("n", TERM) == OtherHolder(first.until)
    world.clock.now += 1
    second = taken(leases.take("n", TERM))
    assert (second.start, second.fence) == (first.until, 1)
    assert leases.renew(first, TERM) is None
    assert taken(leases.take("other", TERM)).fence == 0


def test_a_renewal_moves_the_end_and_replaces_the_token() -> None:
    leases, world = still()
    first = taken(leases.take("n", TERM))
    world.clock.now += TERM // 2
    second = leases.renew(first, TERM)
    assert second is not None
    assert (second.start, second.until) == (first.start, world.clock.now + TERM)
    assert second.holder != first.holder
    assert leases.renew(first, TERM) is None, "a copy of the process has the old token"
    world.clock.now -= TERM
    third = leases.renew(second, TERM)
    assert third is not None and third.until == second.until, "an end never falls"


def test_a_lease_that_is_over_can_be_renewed_while_no_other_process_took_it() -> None:
    leases, world = still()
    first = taken(leases.take("n", TERM))
    world.clock.now += 10 * TERM
    again = leases.renew(first, TERM)
    assert again is not None and again.fence == 0
    assert leases.take("n", TERM) == OtherHolder(again.until)


def test_a_lease_that_was_given_up_is_free_at_once_from_where_it_was_used() -> None:
    leases, _ = still()
    first = taken(leases.take("n", TERM))
    leases.release(first, first.start + 70)
    second = taken(leases.take("n", TERM))
    assert (second.start, second.fence) == (first.start + 70, 1)
    leases.release(first, first.start)
    assert leases.take("n", TERM) == OtherHolder(second.until), "the first holder has nothing to give up any more"


def test_taking_is_one_request_and_taking_over_two() -> None:
    leases, world = still()
    requests = world.refs.requests
    lease = taken(leases.take("n", TERM))
    assert requests == ["write"]
    leases.take("n", TERM)
    assert requests == ["write"] * 2
    world.clock.now += TERM
    lease = taken(leases.take("n", TERM))
    assert requests == ["write"] * 4
    leases.renew(lease, TERM)
    leases.release(lease, lease.start)
    assert requests == ["write"] * 6


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_lease_whose_taking_was_not_answered_has_no_holder_until_its_end(how: str) -> None:
    world = fake_world()
    store = Losing()
    world.clock.step = 0
    leases = Leases(replace(world, refs=store))
    store.lose = [how]
    with pytest.raises(OutcomeUnknown):
        leases.take("n", TERM)
    assert isinstance(leases.take("n", TERM), OtherHolder if how == "after" else Lease)
    world.clock.now += TERM
    assert isinstance(leases.take("n", TERM), Lease)


class Between(FakeRefs):
    """Something happens between the look at a row and the change of it."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []

    def write(self, write: Write) -> Accepted | Rejected:
        if isinstance(write, Change) and self.meanwhile:
            self.meanwhile.pop()()
        return super().write(write)


def test_i2_of_two_that_take_over_at_once_one_does() -> None:
    world = fake_world()
    store = Between()
    world.clock.step = 0
    leases = Leases(replace(world, refs=store))
    first = taken(leases.take("n", TERM))
    world.clock.now += TERM
    others: list[Lease | OtherHolder] = []
    store.meanwhile = [lambda: others.append(leases.take("n", TERM))]
    second = leases.take("n", TERM)
    other = taken(others[0])
    assert second == OtherHolder(other.until)
    assert (other.start, other.fence) == (first.until, 1)
    assert leases.renew(other, TERM) is not None


def test_i2_a_lease_that_is_extended_in_the_last_moment_is_not_taken() -> None:
    world = fake_world()
    store = Between()
    world.clock.step = 0
    leases = Leases(replace(world, refs=store))
    first = taken(leases.take("n", TERM))
    world.clock.now += TERM
    store.meanwhile = [lambda: leases.renew(first, TERM)]
    assert leases.take("n", TERM) == OtherHolder(world.clock.now + TERM)


moves = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["take", "renew", "release"]), st.integers(-300, 600)))


@settings(max_examples=examples(300))
@given(moves)
def test_i2_ranges_of_holders_never_overlap_and_fences_rise_whatever_the_clocks_say(
    plan: list[tuple[int, str, int]],
) -> None:
    """Every process has a clock of its own that jumps at will."""
    world = fake_world()
    clocks = [FakeClock(step_ms=0) for _ in range(4)]
    processes = [Leases(replace(world, clock=clock)) for clock in clocks]
    held: list[Lease | None] = [None] * 4
    ended: list[tuple[int, int, int]] = []  # fence, start, end: what a holder may have used

    def end(who: int, at: int | None = None) -> None:
        lease = held[who]
        if lease is not None:
            ended.append((lease.fence, lease.start, lease.until if at is None else at))
        held[who] = None

    for who, what, jump in plan:
        clocks[who].now += jump
        lease = held[who]
        if what == "take":
            end(who)
            answer = processes[who].take("n", TERM)
            held[who] = answer if isinstance(answer, Lease) else None
        elif lease is not None and what == "renew":
            renewed = processes[who].renew(lease, TERM)
            if renewed is None:
                end(who)
            else:
                held[who] = renewed
        elif lease is not None:
            free = min(max(clocks[who].now, lease.start), lease.until)
            processes[who].release(lease, free)
            end(who, free)
    for who in range(4):
        end(who)
    ended.sort()
    assert [fence for fence, _, _ in ended] == list(range(len(ended)))
    for (_, _, stop), (_, start, _) in pairwise(ended):
        assert stop <= start


def test_the_fence_of_a_lease_is_that_of_its_row_and_rises_with_every_holder() -> None:
    world = fake_world()
    fences = []
    for _ in range(3):
        lease = taken(Leases(world).take("n", TERM))
        assert world.refs.rows[lease.key]["fence"] == lease.fence
        fences.append(lease.fence)
        world.clock.now += 2 * TERM
    assert fences == [fences[0], fences[0] + 1, fences[0] + 2]
