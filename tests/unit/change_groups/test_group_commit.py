"""Changes that come at the same time share one swap, and each gets the answer that it would get
alone (I21)."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tests.support.catalog import complete, fakes, fresh
from tests.support.faults import Faulty
from tests.support.threads import at_once
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import ChangeQueue, Edit, WaitingChange
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.grouping import GROUP_CHANGES
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.coordination.core.rows import create_object
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    StateConflict,
    Throttled,
    TooLarge,
)
from turnstile.store.core.writes import Row
from turnstile.store.queue import LeftLine, Line, Turn

PATIENCE_S = 20.0

pytestmark = pytest.mark.timeout(60)


def namespace(name: str, comment: str = "") -> Edit:
    return Edit(f"create {name}", put={(name,): Namespace(name, f"id-{name}", 1, comment=comment)})


def creating(name: str) -> Callable[[View], Edit]:
    def change(view: View) -> Edit:
        if view.tree.find((name,)) is not None:
            raise AlreadyExists(name)
        return namespace(name)

    return change


def dropping(name: str) -> Callable[[View], Edit]:
    def change(view: View) -> Edit:
        view.namespace((name,))
        return Edit(f"drop {name}", remove=((name,),))

    return change


def row_of(services: CatalogServices) -> CatalogHead:
    stored = services.world.refs.read(services.world.space.catalog("main"))
    assert stored is not None
    return CatalogHead.from_row(stored)


class Gathering:
    """Lets changes come together: the first one, ``gate``, holds its line until ``behind`` others
    wait in it."""

    def __init__(self, services: CatalogServices, behind: int) -> None:
        self._queue = services.reader.store.queue
        self._key = services.reader.key("main")
        self._behind = behind
        self.leads = threading.Event()
        self._judged = False

    def gate(self, view: View) -> Edit | None:
        self.leads.set()
        until = time.monotonic() + PATIENCE_S
        while not self._judged and len(self._queue._lines[self._key].waiting) <= self._behind:
            assert time.monotonic() < until, "the others do not come"
            time.sleep(0.001)
        self._judged = True
        return None

    def behind(self, call: Callable[[], object]) -> object:
        """Calls when the gate is closed."""
        assert self.leads.wait(PATIENCE_S)
        return call()


def together(services: CatalogServices, calls: Sequence[Callable[[], object]]) -> list[object]:
    """The results or refusals of ``calls``, all of which wait in line before the first is
    judged."""
    gathering = Gathering(services, len(calls))
    first = partial(services.committer.commit, "main", gathering.gate)
    return at_once([first, *(partial(gathering.behind, call) for call in calls)])[1:]


def change(services: CatalogServices, function: Callable[[View], Edit | None]) -> Callable[[], object]:
    return partial(services.committer.commit, "main", function)


def messages(services: CatalogServices) -> list[str]:
    return [entry.message for entry in services.history.log("main").commits]


def test_i21_changes_that_wait_together_are_commits_of_their_own_in_one_swap() -> None:
    services = fresh()
    before = row_of(services)
    seen = fakes(services)
    seen.refs.requests.clear()
    seen.objs.requests.clear()
    trees = together(services, [change(services, creating(name)) for name in "abcdef"])
    after = row_of(services)
    assert after.seq == before.seq + 6
    assert seen.refs.requests.count("write") == 1 and seen.objs.requests.count("put_many") == 1
    assert sorted(messages(services)[:6]) == [f"create {name}" for name in "abcdef"]
    heads = [tree.head for tree in trees if isinstance(tree, Tree)]
    assert sorted(heads) == sorted(after.recent[:6])
    for tree, name in zip(trees, "abcdef", strict=True):
        assert isinstance(tree, Tree) and tree.commit.message == f"create {name}"
        assert tree.find((name,)) is not None
    complete(seen)


def test_i21_each_change_is_judged_after_those_before_it_and_a_refused_one_spoils_nothing() -> None:
    services = fresh()
    answers = together(services, [change(services, creating("a")) for _ in range(4)])
    assert sum(isinstance(answer, Tree) for answer in answers) == 1
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 3
    assert messages(services)[0] == "create a"
    complete(fakes(services))


def test_i21_a_refusal_that_stood_on_a_commit_that_lost_is_judged_again() -> None:
    """The first of the group is refused by a row of its own, so the second one's reason was never
    real."""
    services = fresh()
    seat = create_object("test/updateable/seat", "seat", "taken", b"", 1)
    services.world.refs.write(seat)
    order: list[str] = []

    def first(view: View) -> Edit:
        order.append("first")
        return Edit("with a row", put={("a",): Namespace("a", "first", 1)}, writes=(seat,))

    def second(view: View) -> Edit:
        order.append("second")
        if view.tree.find(("a",)) is not None:
            raise AlreadyExists("a")
        return namespace("a")

    def refused(_: object) -> None:
        raise StateConflict(ErrorType.LOCATION_OWNED, "the seat is taken")

    services.committer.commit("main", lambda _: None)
    queue = ChangeQueue()
    line = None
    one = services.committer.waiting("main", first, None, refused)
    two = services.committer.waiting("main", second)
    for waiting in (one, two):
        line, _ = queue._join("key", waiting)
    assert line is not None
    services.committer.lead(queue, "main", one, line)
    assert order == ["first", "second"]
    with pytest.raises(StateConflict, match="the seat is taken"):
        one.outcome()
    assert not two.is_settled and line.waiting == [two]
    services.committer.lead(queue, "main", two, line)
    assert two.outcome().commit.message == "create a"
    complete(fakes(services))


def test_i21_a_refusal_by_a_row_that_is_older_than_the_change_does_not_count() -> None:
    """The line knows the row that its last swap left; another process has changed the catalog
    since."""
    services = fresh()
    other = None
    other = fresh(services.world)
    queue = ChangeQueue()
    first = services.committer.waiting("main", creating("a"))
    line, _ = queue._join("key", first)
    services.committer.lead(queue, "main", first, line)
    other.namespaces.create("main", ("b",))
    late = services.committer.waiting("main", dropping("b"))
    queue._join("key", late)
    services.committer.lead(queue, "main", late, line)
    assert late.outcome().commit.message == "drop b"


def test_i21_a_refusal_by_an_old_row_costs_one_read_and_no_pause() -> None:
    services = fresh()
    pauses = list[float]()
    committer = Committer(services.world, services.reader, pause=pauses.append)
    queue = ChangeQueue()
    seen = fakes(services).refs
    first = committer.waiting("main", creating("a"))
    late = committer.waiting("main", dropping("b"))
    line, _ = queue._join("key", first)
    committer.lead(queue, "main", first, line)
    queue._join("key", late)
    seen.requests.clear()
    committer.lead(queue, "main", late, line)
    with pytest.raises(NotFound):
        late.outcome()
    assert seen.requests == ["read"] and pauses == []


def test_a_line_that_goes_on_needs_no_read_of_the_row() -> None:
    services = fresh()
    queue = ChangeQueue()
    seen = fakes(services)
    changes = [services.committer.waiting("main", creating(name)) for name in "ab"]
    line, leads = queue._join("key", changes[0])
    assert leads
    services.committer.lead(queue, "main", changes[0], line)
    assert queue._join("key", changes[1]) == (line, False)
    seen.refs.requests.clear()
    services.committer.lead(queue, "main", changes[1], line)
    assert seen.refs.requests == ["write"]
    assert row_of(services).changed_at > 0 and changes[1].is_settled
    complete(seen)


def test_i21_a_bypassing_writer_makes_the_group_judge_again() -> None:
    services = fresh()
    other = None
    other = fresh(services.world)
    raced: list[str] = []

    def racing(view: View) -> Edit:
        if not raced:
            raced.append("once")
            other.namespaces.create("main", ("b",))
        return creating("a")(view)

    answers = together(services, [change(services, racing), change(services, creating("b"))])
    assert isinstance(answers[0], Tree) and isinstance(answers[1], AlreadyExists)
    complete(fakes(services))


def test_changes_of_the_same_row_are_in_different_groups() -> None:
    services = fresh()

    def seat(name: str) -> Callable[[View], Edit]:
        write = create_object("test/updateable/seat", "seat", name, b"", 1)
        return lambda _: Edit(name, put={(name,): Namespace(name, name, 1)}, writes=(write,))

    def taken(_: object) -> None:
        raise StateConflict(ErrorType.LOCATION_OWNED, "the seat is taken")

    calls = [partial(services.committer.commit, "main", seat(name), on_rejected=taken) for name in "abc"]
    answers = together(services, calls)
    assert sum(isinstance(answer, Tree) for answer in answers) == 1
    assert [answer.type for answer in answers if isinstance(answer, StateConflict)] == ["LocationOwned"] * 2
    complete(fakes(services))


def test_every_change_hears_of_its_own_rows_only() -> None:
    services = fresh()
    heard: dict[str, list[int]] = {}
    for name in "bd":
        services.world.refs.write(create_object(f"test/updateable/{name}", "seat", "taken", b"", 1))

    def rows(name: str) -> Callable[[View], Edit]:
        writes = [create_object(f"test/updateable/{name}{part}", "seat", "x", b"", 1) for part in ("0", "", "1")]
        return lambda _: Edit(name, put={(name,): Namespace(name, name, 1)}, writes=tuple(writes))

    def rejected(name: str, failed: dict[int, Row | None]) -> None:
        heard[name] = sorted(failed)
        raise StateConflict(ErrorType.LOCATION_OWNED, name)

    calls = [
        partial(services.committer.commit, "main", rows(name), on_rejected=partial(rejected, name)) for name in "abcd"
    ]
    answers = together(services, calls)
    assert heard == {"b": [1], "d": [1]}
    assert [isinstance(answer, Tree) for answer in answers] == [True, False, True, False]
    complete(fakes(services))


def test_i21_a_lost_answer_is_unknown_to_all_whose_commits_were_sent() -> None:
    services = fresh()

    class Silent(Faulty):
        def write(self, name: str, apply: object, lost: type[Exception]) -> object:
            if name != "write":
                return super().write(name, apply, lost)  # type: ignore[arg-type]
            self.writes.append(name)
            raise lost("no answer")

    faulty = fresh(Silent(fakes(services)).world)
    quick = Committer(faulty.world, faulty.reader, deadline_ms=60_000)
    queue = ChangeQueue()
    changes = [quick.waiting("main", function) for function in (creating("a"), creating("b"), creating("a"))]
    for each in changes:
        line, _ = queue._join("key", each)
    Committer(faulty.world, faulty.reader, deadline_ms=50).lead(queue, "main", changes[0], line)
    unknown = []
    for each in changes[:2]:
        with pytest.raises(OutcomeUnknown) as error:
            each.outcome()
        unknown.append(error.value)
    assert unknown[0] is not unknown[1], "whoever gets an error may add to it"
    assert line.waiting == [changes[2]], "its refusal stood on a commit of which nobody knows"
    assert line.row is None


def test_a_throttled_swap_fails_for_all_and_nothing_was_applied() -> None:
    services = fresh()

    class Busy(Faulty):
        def write(self, name: str, apply: object, lost: type[Exception]) -> object:
            if name == "write":
                raise Throttled("busy", retry_after_ms=321)
            return super().write(name, apply, lost)  # type: ignore[arg-type]

    faulty = fresh(Busy(fakes(services)).world)
    answers = together(faulty, [change(faulty, creating(name)) for name in "ab"])
    assert [type(answer) for answer in answers] == [Throttled, Throttled]
    assert all(isinstance(answer, Throttled) and answer.details["retry_after_ms"] == 321 for answer in answers)
    assert answers[0] is not answers[1]


def test_an_obj_that_is_too_large_refuses_its_own_change_only() -> None:
    services = fresh()
    put_many = fakes(services).objs.put_many

    def bounded(objs: Sequence[object]) -> None:
        if any(b"enormous" in obj.payload for obj in objs):  # type: ignore[attr-defined]
            raise TooLarge("an obj is too large")
        put_many(objs)  # type: ignore[arg-type]

    fakes(services).objs.put_many = bounded  # type: ignore[assignment,method-assign]
    answers = together(
        services,
        [
            change(services, creating("a")),
            change(services, lambda _: namespace("b", "enormous")),
            change(services, creating("c")),
        ],
    )
    assert [type(answer) for answer in answers] == [Tree, TooLarge, Tree]
    complete(fakes(services))


def test_i12_every_change_is_authorized_in_the_state_that_it_is_judged_in() -> None:
    services = fresh()

    class Only:
        def __init__(self, name: str) -> None:
            self._name = name

        def authorize(self, tree: Tree) -> None:
            if tree.find((self._name,)) is None:
                raise PermissionDenied("not yet")

        def authorize_missing(self, catalog: str) -> None:
            raise PermissionDenied("nothing here")

        def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
            return [True for _ in entities]

    queue = ChangeQueue()
    restricted = services.authorized_by(Only("a")).committer
    changes = [
        services.committer.waiting("main", creating("a")),
        restricted.waiting("main", creating("b")),
        services.authorized_by(Only("z")).committer.waiting("main", creating("c")),
    ]
    for each in changes:
        line, _ = queue._join("key", each)
    services.committer.lead(queue, "main", changes[0], line)
    assert changes[1].outcome().commit.message == "create b"
    with pytest.raises(PermissionDenied, match="not yet"):
        changes[2].outcome()
    with pytest.raises(PermissionDenied, match="nothing here"):
        services.authorized_by(Only("a")).committer.commit("nowhere", creating("b"))
    with pytest.raises(NotFound):
        services.committer.commit("nowhere", creating("b"))


def test_a_change_runs_in_the_context_of_its_caller() -> None:
    services = fresh()
    who = contextvars.ContextVar("who", default="nobody")

    def asked(name: str) -> object:
        who.set(name)

        def function(view: View) -> Edit:
            return Edit(f"by {who.get()}", put={(name,): Namespace(name, name, 1)})

        return services.committer.commit("main", function)

    together(services, [partial(asked, name) for name in "abc"])
    assert sorted(messages(services)[:3]) == ["by a", "by b", "by c"]


def test_a_change_that_is_always_overtaken_gives_up_and_the_next_one_leads() -> None:
    services = fresh()
    other = None
    other = fresh(services.world)
    count = iter(range(10_000))

    def overtaken(view: View) -> Edit:
        other.namespaces.create("main", (f"o{next(count)}",))
        return namespace("x")

    queue = ChangeQueue()
    hasty = Committer(services.world, services.reader, deadline_ms=100)
    changes = [hasty.waiting("main", overtaken), services.committer.waiting("main", lambda _: namespace("y"))]
    for each in changes:
        line, _ = queue._join("key", each)
    hasty.lead(queue, "main", changes[0], line)
    with pytest.raises(StateConflict) as error:
        changes[0].outcome()
    assert error.value.type == "ConcurrentChange"
    queue._hand_over("key", line)
    assert line.waiting == [changes[1]] and changes[1].turn.is_set() and not changes[1].is_settled
    complete(fakes(services))


def test_a_group_is_bounded_and_the_rest_comes_next() -> None:
    services = fresh()
    queue = ChangeQueue()
    changes = [services.committer.waiting("main", creating(f"n{n:03d}")) for n in range(GROUP_CHANGES + 3)]
    for each in changes:
        line, _ = queue._join("key", each)
    services.committer.lead(queue, "main", changes[0], line)
    assert [each.is_settled for each in changes] == [True] * GROUP_CHANGES + [False] * 3
    assert line.waiting == changes[GROUP_CHANGES:]


# -- lines -------------------------------------------------------------------------------------------------------------


def waiting() -> WaitingChange:
    return WaitingChange(lambda _: None, None, None, 0)


def never(_: Line) -> None:
    raise AssertionError("it leads nothing")


def test_a_line_is_bounded() -> None:
    queue = ChangeQueue(most=2)
    queue._join("main", waiting())
    queue._join("main", waiting())
    with pytest.raises(Throttled) as refused:
        queue.commit("main", waiting(), never, 1_000)
    assert refused.value.details["retry_after_ms"] > 0
    queue._join("other", waiting())


def test_a_change_leaves_a_line_that_moves_only_while_a_process_works_on_it() -> None:
    queue = ChangeQueue()
    leader = waiting()
    line, leads = queue._join("main", leader)
    assert leads
    with pytest.raises(LeftLine):
        queue.commit("main", waiting(), never, 1)
    assert line.waiting == [leader]
    taken = waiting()
    taken.taken = True
    with pytest.raises(OutcomeUnknown):
        queue.commit("main", taken, never, 1)
    assert line.waiting == [leader, taken]


def test_a_change_that_makes_another_one_does_not_wait_for_itself() -> None:
    services = fresh()

    def outer(view: View) -> Edit | None:
        if view.tree.find(("inner",)) is None:
            services.committer.commit("main", creating("inner"))
        return namespace("outer")

    services.committer.commit("main", outer)
    assert messages(services)[:2] == ["create outer", "create inner"]


def test_the_leader_of_one_line_waits_in_no_other() -> None:
    queue = ChangeQueue()
    change = waiting()

    def leads(_: Line) -> None:
        with pytest.raises(LeftLine):
            queue.commit("other", waiting(), never, 60_000)
        change.settle(NotFound("namespace", "n"))

    with pytest.raises(NotFound):
        queue.commit("main", change, leads, 60_000)
    with pytest.raises(NotFound):
        queue.commit("main", change, never, 60_000)


def test_a_row_that_was_just_read_is_not_read_again() -> None:
    services = fresh()
    row = services.world.refs.read(services.world.space.catalog("main"))
    seen = fakes(services).refs
    seen.requests.clear()
    services.committer.commit("main", creating("a"), row=row)
    assert seen.requests == ["write"]


def test_after_a_pause_the_row_is_read_again() -> None:
    """Others change the catalog in every pause, so that the row which a refused swap returned is
    old."""
    services = fresh()
    other = None
    calls = list[int]()
    other = fresh(services.world)

    def pause(_: float) -> None:
        other.namespaces.create("main", (f"o{len(calls)}",))

    def change(view: View) -> Edit:
        calls.append(1)
        if len(calls) == 1:
            other.namespaces.create("main", ("first",))
        return namespace("x")

    Committer(services.world, services.reader, pause=pause).commit("main", change)
    assert len(calls) == 3, "the second attempt is made from the row that the first one was refused with"


def test_a_leader_that_dies_leaves_the_line_to_the_next() -> None:
    queue = ChangeQueue()
    first = waiting()
    second = waiting()

    def dies(line: Line) -> None:
        queue._join("main", second)
        queue.take(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.commit("main", first, dies, 1_000)
    with pytest.raises(OutcomeUnknown):
        first.outcome()
    assert second.turn.is_set() and not second.is_settled
    assert queue._lines["main"].waiting == [second]


def test_a_line_that_is_empty_is_forgotten() -> None:
    services = fresh()
    services.committer.commit("main", creating("a"))
    assert services.reader.store.queue._lines == {}
    assert services.reader.store._drafts == {}


def test_only_requests_with_an_outcome_are_woken_and_the_next_leader_does_not_leave() -> None:
    queue = ChangeQueue()
    leader = waiting()
    told = waiting()
    other = waiting()
    for change in (leader, told, other):
        line, _ = queue._join("main", change)
    group = queue.take(line)
    leader.settle(NotFound("namespace", "a"))
    told.settle(NotFound("namespace", "b"))
    queue.release(line, group, leader)
    assert line.waiting == [other]
    assert told.turn.is_set() and not leader.turn.is_set() and not other.turn.is_set()
    other.turn.set()
    assert not queue._leave(line, other)
    other.turn = Turn()
    assert queue._leave(line, other) and line.waiting == []
    assert not queue._leave(line, other)
