"""Updateable objects, and tasks of which at most one runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Losing
from turnstile.coordination.core.rows import MAX_PAYLOAD, Task, Updateable
from turnstile.coordination.tasks import Attempt, Busy, OtherVersion, Tasks, Updateables
from turnstile.store.core.errors import InvalidRequest, OutcomeUnknown, TooLarge
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected

TERM = 1_000


def still() -> FakeWorld:
    world = fake_world()
    world.clock.step = 0
    return world


# -- updateable objects -------------------------------------------------------------------------------------------


def written(answer: Updateable | OtherVersion) -> Updateable:
    assert isinstance(answer, Updateable)
    return answer


def test_i6_an_object_changes_only_under_the_version_that_was_read() -> None:
    world = still()
    objects = Updateables(world)
    first = written(objects.create("config", "a", b"1"))
    assert objects.create("config", "a", b"x") == OtherVersion(first)
    world.clock.now += 5
    second = written(objects.update(first, b"2"))
    assert (second.payload, second.created, second.changed_at) == (b"2", first.created, first.created + 5)
    assert objects.update(first, b"3") == OtherVersion(second)
    assert objects.delete(first) == OtherVersion(second)
    assert objects.read("config", "a") == second
    assert objects.delete(second) is None
    assert objects.read("config", "a") is None
    assert objects.update(second, b"4") == OtherVersion(None)
    assert objects.delete(second) is None
    again = written(objects.create("config", "a", b"2"))
    assert objects.update(second, b"5") == OtherVersion(again), "a value that came back is another version"


def test_i3_a_write_that_the_stores_client_sent_again_after_a_lost_answer_is_its_own() -> None:
    """The second request is refused, since the first was applied."""
    world = still()
    write = world.refs.write

    def sent_twice(change: Write) -> Accepted | Rejected:
        write(change)
        return write(change)

    world.refs.write = sent_twice  # type: ignore[method-assign]
    objects = Updateables(world)
    first = written(objects.create("config", "a", b"1"))
    second = written(objects.update(first, b"2"))
    assert objects.read("config", "a") == second
    assert objects.update(first, b"3") == OtherVersion(second)
    assert objects.delete(second) is None


def test_every_operation_on_an_object_is_one_request() -> None:
    world = still()
    objects = Updateables(world)
    requests = world.refs.requests
    first = written(objects.create("config", "a", b"1"))
    objects.update(first, b"2")
    objects.update(first, b"3")
    objects.delete(first)
    objects.read("config", "a")
    assert requests == ["write"] * 4 + ["read"]


def test_what_cannot_be_an_object_is_refused() -> None:
    objects = Updateables(still())
    for type, id in (("", "a"), ("A", "a"), ("a/b", "c"), ("a", ""), ("a", "b/c"), ("a", "x" * 256)):
        with pytest.raises(InvalidRequest):
            objects.create(type, id, b"")
    with pytest.raises(TooLarge) as error:
        objects.create("a", "b", b"x" * (MAX_PAYLOAD + 1))
    assert error.value.details == {"limit": MAX_PAYLOAD, "size": MAX_PAYLOAD + 1}


# -- tasks --------------------------------------------------------------------------------------------------------


def running(answer: Attempt | Busy) -> Attempt:
    assert isinstance(answer, Attempt)
    return answer


def test_a_task_runs_once_at_a_time_and_leaves_its_result() -> None:
    world = still()
    tasks = Tasks(world)
    assert tasks.last("gc") is None
    first = running(tasks.begin("gc", TERM))
    assert tasks.begin("gc", TERM) == Busy(first.task.until, 1)
    assert tasks.begin("other", TERM) != Busy(first.task.until, 1)
    world.clock.now += 10
    assert tasks.finish(first, b"report")
    last = tasks.last("gc")
    assert last is not None
    assert (last.attempt, last.result, last.succeeded, last.until) == (1, b"report", 1, 0)
    second = running(tasks.begin("gc", TERM))
    assert (second.task.attempt, second.task.result) == (2, b"report")


def test_i10_a_task_whose_holder_is_gone_is_taken_over_and_the_late_result_is_refused() -> None:
    world = still()
    tasks = Tasks(world)
    gone = running(tasks.begin("gc", TERM))
    world.clock.now += TERM - 1
    assert isinstance(tasks.begin("gc", TERM), Busy)
    world.clock.now += 1
    heir = running(tasks.begin("gc", TERM))
    assert (heir.task.attempt, heir.task.abandoned) == (2, 1)
    assert not tasks.finish(gone, b"late")
    assert not tasks.fail(gone, "late")
    assert tasks.renew(gone, TERM) is None
    assert tasks.finish(heir, b"good")
    last = tasks.last("gc")
    assert last is not None and (last.result, last.succeeded, last.abandoned) == (b"good", 2, 0)


def test_a_task_that_takes_longer_renews() -> None:
    world = still()
    tasks = Tasks(world)
    held = running(tasks.begin("gc", TERM))
    for _ in range(5):
        world.clock.now += TERM // 2
        renewed = tasks.renew(held, TERM)
        assert renewed is not None
        held = renewed
        assert isinstance(tasks.begin("gc", TERM), Busy)
    assert tasks.finish(held)


def test_a_task_that_failed_may_be_begun_at_once_and_its_last_result_stays() -> None:
    tasks = Tasks(still())
    assert isinstance(tasks.run("gc", TERM, lambda held: b"%d" % held.task.attempt), Task)

    def fall(held: Attempt) -> bytes:
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="disk"):
        tasks.run("gc", TERM, fall)
    last = tasks.last("gc")
    assert last is not None
    assert (last.result, last.succeeded, last.attempt) == (b"1", 1, 2)
    assert "disk is full" in last.failure
    third = tasks.run("gc", TERM, lambda _: b"3")
    assert isinstance(third, Task) and (third.result, third.failure) == (b"3", "")


def test_run_tells_that_it_was_taken_over_by_what_it_returns() -> None:
    world = still()
    tasks = Tasks(world)

    def slow(held: Attempt) -> bytes:
        world.clock.now += 2 * TERM
        assert isinstance(tasks.run("gc", TERM, lambda _: b"heir"), Task)
        return b"slow"

    attempt = tasks.run("gc", TERM, slow)
    assert isinstance(attempt, Task) and (attempt.attempt, attempt.result) == (1, b"")
    last = tasks.last("gc")
    assert last is not None and last.result == b"heir"


def test_beginning_is_two_requests_and_every_other_step_one() -> None:
    world = still()
    tasks = Tasks(world)
    requests = world.refs.requests
    held = running(tasks.begin("gc", TERM))
    assert requests == ["read", "write"]
    tasks.begin("gc", TERM)
    assert requests == ["read", "write", "read"]
    held = tasks.renew(held, TERM) or held
    tasks.finish(held)
    assert requests == ["read", "write", "read", "write", "write"]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_task_whose_beginning_was_not_answered_has_no_holder_until_the_lease_ends(how: str) -> None:
    world = still()
    store = Losing()
    tasks = Tasks(replace(world, refs=store))
    store.lose = [how]
    with pytest.raises(OutcomeUnknown):
        tasks.begin("gc", TERM)
    assert isinstance(tasks.begin("gc", TERM), Busy if how == "after" else Attempt)
    world.clock.now += TERM
    assert isinstance(tasks.begin("gc", TERM), Attempt)


def test_members_that_a_later_version_adds_are_skipped() -> None:
    import msgspec

    task = Task().begin(5, 10)
    later = msgspec.msgpack.encode(msgspec.msgpack.decode(task.pack()) | {"fancy": 1})
    assert Task.unpack(later) == task


moves = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["begin", "renew", "finish", "fail"]),
        st.sampled_from([0, 0, 10, 400, 1_100]),
        st.sampled_from(["", "", "", "before", "after"]),
    ),
    max_size=60,
)


@settings(max_examples=examples(300))
@given(moves)
def test_i10_at_most_one_runs_and_only_the_running_one_leaves_a_result(plan: list[tuple[int, str, int, str]]) -> None:
    """Processes with one clock, some of which are slow, and lost answers."""
    world = still()
    store = Losing()
    tasks = Tasks(replace(world, refs=store))
    held: dict[int, Attempt] = {}
    attempts: list[int] = []
    for who, what, later, lost in plan:
        world.clock.now += later
        store.lose = [lost] if lost else []
        attempt = held.get(who)
        try:
            if what == "begin" and attempt is None:
                answer = tasks.begin("gc", TERM)
                if isinstance(answer, Attempt):
                    others = [other for other in held.values() if other.task.running(world.clock.now)]
                    assert others == [], "two run at once"
                    attempts.append(answer.task.attempt)
                    held[who] = answer
            elif attempt is not None and what == "renew":
                renewed = tasks.renew(attempt, TERM)
                newest = max(attempts) == attempt.task.attempt
                assert renewed is None or newest
                held.pop(who)
                if renewed is not None:
                    held[who] = renewed
            elif attempt is not None and what in ("finish", "fail"):
                name = f"{attempt.task.attempt}"
                held.pop(who)
                kept = tasks.finish(attempt, name.encode()) if what == "finish" else tasks.fail(attempt, name)
                assert not kept or max(attempts) == attempt.task.attempt
        except OutcomeUnknown:
            held.pop(who, None)
    store.lose = []
    last = tasks.last("gc")
    assert attempts == sorted(set(attempts)), "every attempt has a number of its own"
    if last is not None and last.succeeded:
        assert last.result == b"%d" % last.succeeded
