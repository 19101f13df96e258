"""Tombstones of references go when nobody repeats a request any more, and no token of before is
valid then (I6, I10)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Crash, before_next_write
from tests.support.gc import DAY, days, everything
from turnstile.coordination.refs import NamedRefs
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace
from turnstile.store.core.errors import AlreadyExists, NotFound, StateConflict, TurnstileError

GRACE = Grace(refs_ms=30 * DAY)


def fresh() -> tuple[NamedRefs, FakeWorld]:
    world = fake_world()
    return NamedRefs(world), world


def collect(world: FakeWorld, *, dry_run: bool = False, **more: Any) -> Report:
    return Collector(world, GRACE, **more).collect(["refs"], dry_run=dry_run)


def deleted(refs: NamedRefs, name: str = "r") -> list[str]:
    """The tokens of a reference that was created, swapped and deleted."""
    first = refs.create(name, "a", "create").entry.token
    second = refs.swap(name, first, "b", "swap").entry.token
    return [first, second, refs.delete(name, second, "delete").entry.token]


def test_a_tombstone_goes_after_its_grace_period_and_nothing_else_does() -> None:
    refs, world = fresh()
    deleted(refs)
    refs.create("alive", "a")
    days(world, 29.9)
    assert collect(world).items == ()
    days(world, 0.1)
    before = everything(world)
    report = collect(world, dry_run=True)
    assert [(item.kind, item.id) for item in report.items] == [("refs", "r")] and report.bytes > 0
    assert everything(world) == before
    assert collect(world).deleted == 1
    assert [row["name"] for row in world.refs.rows.values()] == ["alive"]
    assert collect(world).items == ()


def test_i3_as_long_as_a_tombstone_is_there_it_answers_repetitions() -> None:
    refs, world = fresh()
    tokens = deleted(refs)
    days(world, 29.9)
    collect(world)
    assert refs.delete("r", tokens[1], "delete").outcome == "replayed"
    assert refs.swap("r", tokens[0], "b", "swap").outcome == "replayed"
    days(world, 1)
    collect(world)
    for token in tokens:
        with pytest.raises(NotFound):
            refs.swap("r", token, "c", "swap")


def test_i6_no_token_of_before_is_valid_even_if_the_same_requests_are_sent_once_more() -> None:
    """The traps: versions begin at 0 again, and a request id makes the token."""
    refs, world = fresh()
    before = deleted(refs)
    days(world, 31)
    collect(world)
    first = refs.create("r", "a", "create").entry
    assert first.version == 0
    for token in before:
        with pytest.raises(StateConflict):
            refs.swap("r", token, "stolen", "late")
    second = refs.swap("r", first.token, "b", "swap").entry
    for token in before:
        with pytest.raises(StateConflict):
            refs.swap("r", token, "stolen", "late")
    assert not {*before} & {first.token, second.token}
    assert refs.read("r").current == second


def test_i10_one_that_was_created_again_meanwhile_stays() -> None:
    refs, world = fresh()
    deleted(refs)
    days(world, 31)
    before_next_write(world, lambda: refs.create("r", "again", "other"))
    report = collect(world)
    assert (report.deleted, report.problems[0].message) == (0, "it was created again")
    assert refs.read("r").current.value == "again"


def test_a_reference_can_be_created_again_while_gc_removes_its_tombstone() -> None:
    refs, world = fresh()
    deleted(refs)
    days(world, 31)
    write = world.refs.write

    def then_collected(request: Any) -> Any:
        world.refs.write = write  # type: ignore[method-assign]
        answer = write(request)
        assert collect(world).deleted == 1
        return answer

    world.refs.write = then_collected  # type: ignore[method-assign]
    created = refs.create("r", "anew", "other")
    assert (created.outcome, created.entry.version, refs.read("r").current) == ("applied", 0, created.entry)


def test_a_run_that_dies_is_finished_by_the_next() -> None:
    refs, world = fresh()
    for name in "abc":
        deleted(refs, name)
    days(world, 31)

    def die(point: str) -> None:
        assert point == "collect.forgotten"
        raise Crash(point)

    with pytest.raises(Crash):
        collect(world, faults=die)
    assert len(world.refs.rows) == 2
    collect(world)
    assert world.refs.rows == {}


def test_a_grace_period_shorter_than_repetitions_is_refused() -> None:
    with pytest.raises(ValueError, match="refs"):
        Grace(refs_ms=DAY - 1)
    assert Grace(refs_ms=DAY).refs_ms == DAY


steps = st.lists(
    st.tuples(st.sampled_from(["create", "swap", "swap", "delete", "wait", "collect"]), st.integers(0, 3)), max_size=40
)


@settings(max_examples=examples(150))
@given(steps)
def test_i6_at_random_every_token_is_good_for_one_value_of_one_life(plan: list[tuple[str, int]]) -> None:
    """Requests have few ids, so that many are sent again in another life of the reference."""
    refs, world = fresh()
    current: str | None = None
    seen: set[str] = set()
    for kind, which in plan:
        if kind == "wait":
            days(world, 16)
        elif kind == "collect":
            collect(world)
        else:
            with suppress(TurnstileError, AlreadyExists):
                if kind == "create":
                    written = refs.create("r", "v", f"create{which}")
                elif kind == "swap":
                    written = refs.swap("r", current or "0." + "0" * 24, "v", f"swap{which}")
                else:
                    written = refs.delete("r", current or "0." + "0" * 24, f"delete{which}")
                if written.outcome == "applied":
                    assert written.entry.token not in seen
                    seen.add(written.entry.token)
                    current = written.entry.token
        for token in seen - {current}:
            with suppress(TurnstileError):
                assert refs.swap("r", token, "stolen", "thief").outcome != "applied"
