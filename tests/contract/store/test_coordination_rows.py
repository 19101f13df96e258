"""Updateable objects, tasks and named references on every backend: the same plans, the same
answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend
from turnstile.adapters.machine import RandomIds
from turnstile.coordination.core.named_ref import RECENT
from turnstile.coordination.refs import NamedRefs
from turnstile.coordination.tasks import Attempt, Busy, OtherVersion, Tasks, Updateable, Updateables
from turnstile.rights.grants import Access, GrantChange, Principal, Privilege
from turnstile.store.core.errors import PermissionDenied, StateConflict
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

TERM = 60_000


@pytest.fixture
def world(backend: Backend, key: str) -> World:
    """A realm of its own with a clock that stands still."""
    realm = f"r{key.rpartition('/')[2]}"
    storages: Any = None
    return World(backend.refs(realm=realm), backend.objs(), storages, FakeClock(step_ms=0), RandomIds(), Space(realm))


def at_once(call: Callable[[], Any], times: int = 6) -> list[Any]:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_i6_of_updates_at_once_one_wins_and_the_others_see_it(world: World) -> None:
    objects = Updateables(world)
    first = objects.create("config", "a", b"\x00first")
    assert isinstance(first, Updateable)
    answers = at_once(lambda: objects.update(first, b"\xffnext"))
    (won,) = [one for one in answers if isinstance(one, Updateable)]
    assert [one for one in answers if isinstance(one, OtherVersion)] == [OtherVersion(won)] * 5
    assert objects.read("config", "a") == won
    assert objects.delete(first) == OtherVersion(won)
    assert objects.delete(won) is None


def test_i10_of_tasks_begun_at_once_one_runs(world: World) -> None:
    tasks = Tasks(world)
    clock = world.clock
    assert isinstance(clock, FakeClock)
    for attempt in (1, 2):
        answers = at_once(lambda: tasks.begin("gc", TERM))
        (mine,) = [one for one in answers if isinstance(one, Attempt)]
        assert sum(isinstance(one, Busy) for one in answers) == 5
        assert mine.task.attempt == attempt
        if attempt == 1:
            clock.now += TERM  # nobody hears of the first one any more
        else:
            assert tasks.finish(mine, b"done")
    last = tasks.last("gc")
    assert last is not None and (last.result, last.succeeded) == (b"done", 2)


def test_i3_i6_a_reference_goes_round_its_ring_and_agrees_with_its_answers(world: World) -> None:
    refs = NamedRefs(world)
    token = first = refs.create("r", "0", "id-0").entry.token
    for number in range(1, RECENT + 4):
        base = token
        token = refs.swap("r", token, str(number), f"id-{number}").entry.token
        assert refs.swap("r", base, str(number), f"id-{number}").outcome == "replayed"
        with pytest.raises(StateConflict):
            refs.swap("r", base, "other")
    assert refs.create("r", "0", "id-0").entry.token == first
    assert [one.value for one in refs.read("r").history()] == [str(n) for n in range(RECENT + 3, 3, -1)]
    refs.delete("r", token)
    assert refs.create("r", "again").entry.version == RECENT + 5


def test_i12_rights_are_a_condition_of_the_write_and_of_their_own_change(world: World) -> None:
    ann, bob = (NamedRefs(world, Principal(name)) for name in ("ann", "bob"))
    token = ann.create("mine", "a").entry.token
    for call in (lambda: bob.swap("mine", token, "b"), lambda: bob.read("mine"), lambda: bob.delete("mine", token)):
        with pytest.raises(PermissionDenied):
            call()
    assert ann.grant("mine", [GrantChange("bob", (Privilege.MODIFY,))]) == ann.rights("mine")
    token = bob.swap("mine", token, "b").entry.token
    with pytest.raises(PermissionDenied):
        bob.delete("mine", token)
    answers = at_once(lambda: ann.grant("mine", [GrantChange("team", (Privilege.SELECT,))]))
    assert {type(one) for one in answers} == {Access}
    ann.grant("mine", owner="bob")
    assert bob.rights("mine").owner == "bob"
    with pytest.raises(PermissionDenied):
        ann.swap("mine", token, "c")
    bob.delete("mine", token)
    with pytest.raises(PermissionDenied):
        ann.read("mine")
    ann.create("mine", "anew")
    assert ann.rights("mine") == Access("ann")
