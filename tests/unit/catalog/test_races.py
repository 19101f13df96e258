"""Many sandboxes change one catalog at once: changes without a conflict all succeed, and a conflict
has one winner (I9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.catalog import LAKE, MAIN, complete, create, fakes, fresh, head_of, names, sandbox, staged, widen
from tests.support.fakes.world import fake_world
from tests.support.threads import at_once
from turnstile.catalog import services as bootstrap
from turnstile.catalog.core.tree import decode_commit
from turnstile.catalog.create import Registration
from turnstile.store.core.errors import AlreadyExists, NotFound, StateConflict

THREADS = 8


def test_different_tables_created_at_once_all_succeed() -> None:
    services = fresh()
    widen(services)

    def creator(n: int) -> Callable[[], object]:
        own = sandbox(services)
        return lambda: [create(own, f"t{n}_{i}") for i in range(5)]

    results = at_once([creator(n) for n in range(THREADS)])
    assert not [result for result in results if isinstance(result, Exception)]
    assert names(services) == sorted(f"t{n}_{i}" for n in range(THREADS) for i in range(5))
    complete(fakes(services))


def test_of_tables_registered_at_once_under_one_name_one_wins_and_the_others_may_choose_another() -> None:
    services = fresh()
    widen(services)
    ids = [staged(services, "t") for _ in range(THREADS)]
    boxes = [sandbox(services) for _ in ids]
    answers = at_once([partial(box.registrar.register, *MAIN, "t", id) for box, id in zip(boxes, ids, strict=True)])
    losers = [id for id, answer in zip(ids, answers, strict=True) if isinstance(answer, AlreadyExists)]
    assert len(losers) == THREADS - 1
    for n, id in enumerate(losers):
        services.registrar.register(*MAIN, f"t{n}", id)
    complete(fakes(services))


def test_one_staging_table_registered_at_once_by_all_becomes_one_table_for_all() -> None:
    """I3: each of them may be the repetition of another."""
    services = fresh()
    widen(services)
    id = staged(services, "t")
    answers = at_once([partial(sandbox(services).registrar.register, *MAIN, "t", id) for _ in range(THREADS)])
    assert [answer.replayed for answer in answers if isinstance(answer, Registration)].count(False) == 1
    assert all(isinstance(answer, Registration) for answer in answers)
    complete(fakes(services))


def test_one_staging_table_registered_at_once_under_different_names_becomes_one_of_them() -> None:
    services = fresh()
    widen(services)
    id = staged(services, "t")
    answers = at_once([partial(sandbox(services).registrar.register, *MAIN, f"t{n}", id) for n in range(THREADS)])
    refusals = [answer for answer in answers if isinstance(answer, StateConflict)]
    assert [refusal.type for refusal in refusals] == ["StagingTableUsed"] * (THREADS - 1)
    assert len(names(services)) == 1
    complete(fakes(services))


def test_rename_drop_and_create_on_one_name_leave_one_of_the_possible_histories() -> None:
    for _ in range(10):
        services = fresh()
        widen(services)
        second = staged(services, "t")
        first = create(services, "t")
        boxes = [sandbox(services) for _ in range(4)]
        answers = at_once(
            [
                partial(boxes[0].renamer.rename, *MAIN, "t", "u"),
                partial(boxes[1].dropper.drop, *MAIN, "t"),
                partial(boxes[2].registrar.register, *MAIN, "t", second),
                partial(boxes[3].renamer.rename, *MAIN, "t", "v"),
            ]
        )
        allowed = (NotFound, AlreadyExists, StateConflict)
        assert all(isinstance(answer, allowed) for answer in answers if isinstance(answer, Exception))
        state = head_of(services.world, first).state
        assert state == "active" or not isinstance(answers[1], Exception)
        complete(fakes(services))


def test_a_namespace_dropped_while_tables_are_created_in_it_never_loses_a_table() -> None:
    """I9: either the table keeps its namespace, or it finds it gone."""
    for cascade in (False, True):
        services = fresh()
        widen(services)
        services.namespaces.create("main", ("n",))
        ids = [staged(services, f"t{n}", "n") for n in range(4)]
        box = sandbox(services)
        answers = at_once(
            [
                *(
                    partial(sandbox(services).registrar.register, "main", ("n",), f"t{n}", id)
                    for n, id in enumerate(ids)
                ),
                partial(box.namespace_dropper.drop, "main", ("n",), cascade=cascade),
            ]
        )
        complete(fakes(services))
        assert all(isinstance(one, NotFound | StateConflict) for one in answers if isinstance(one, Exception))


def test_stacks_started_at_once_on_the_same_tables_find_one_catalog_and_one_lake() -> None:
    world = fake_world()
    start = partial(bootstrap.ensure, world, lake_root=LAKE)
    assert at_once([start] * THREADS) == [None] * THREADS
    services = fresh(world)
    assert [one.name for one in services.catalogs.list()] == ["main"]
    create(services, "t")
    complete(world)


@pytest.mark.parametrize("per_thread", [25])
def test_every_threads_sequence_is_gapless_in_the_log_walked_both_ways(per_thread: int) -> None:
    """I9: N threads times M commits, each with its number; nothing lost, nothing twice, nothing out
    of order."""
    services = fresh()

    def committing(n: int) -> Callable[[], object]:
        box = sandbox(services)

        def run() -> None:
            for i in range(per_thread):
                box.namespaces.create("main", (f"t{n}_{i:03d}",))

        return run

    assert at_once([committing(n) for n in range(THREADS)]) == [None] * THREADS
    world = fakes(services)
    row = world.refs.rows["test/catalog/main"]
    backward = []
    at = row["head"]
    while at:
        commit = decode_commit(world.objs.stored(world.space.objs("main"), at).payload)
        backward.append(commit)
        at = commit.parents[0] if commit.parents else ""
    assert [commit.seq for commit in backward[::-1]] == list(range(THREADS * per_thread + 2))
    for n in range(THREADS):
        mine = [commit.message for commit in backward[::-1] if f" t{n}_" in commit.message]
        assert mine == [f"create namespace t{n}_{i:03d}" for i in range(per_thread)]
    complete(world)
    left = {id for _, id in world.objs.rows if id.startswith("commit/")}
    assert len(left) == len(backward) + 2, "lost attempts are deleted by their writers (the realm's tree has two)"
