"""A catalog's past: every commit can be found, and the tree as of any of them is what it was."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalog import MAIN, counted, create, fakes, fresh, names
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.tree import Tree, ancestors, parents_after
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.limits import SpillLimits


def listed(tree: Tree) -> list[str]:
    return [key for key, _ in tree.subtree(())]


def grown(count: int) -> tuple[CatalogServices, list[tuple[str, int, list[str]]]]:
    """A catalog with ``count`` commits more, and what each HEAD was: id, time (ms), names."""
    services = fresh(spill=SpillLimits(embedded=200, segment=500))
    past = []
    for number in range(count):
        edit = Edit(f"n{number}", put={(f"n{number:04d}",): Namespace(f"n{number:04d}", str(number), 1)})
        if number % 3 == 2:
            edit = Edit(f"n{number}", remove=((f"n{number - 1:04d}",),))
        tree = services.committer.commit("main", lambda _, edit=edit: edit)  # type: ignore[misc]
        past.append((tree.head, tree.commit.at // 1000, listed(tree)))
        fakes(services).clock.now += 10
    return services, past


@given(st.integers(1, 5000))
def test_every_commit_names_the_one_before_and_a_few_further_back(seq: int) -> None:
    parents: tuple[str, ...] = ()
    for number in range(seq):
        parents = parents_after(number, f"c{number}", parents)
    ancestry = list(ancestors(seq, parents))
    assert ancestry[-1] == (seq - 1, f"c{seq - 1}")
    assert all(id == f"c{number}" for number, id in ancestry)
    assert [number for number, _ in ancestry] == sorted(number for number, _ in ancestry)
    assert len(parents) <= 1 + seq.bit_length() / 3


def test_the_tree_as_of_any_head_number_and_time_is_what_it_was() -> None:
    services, past = grown(150)
    cold = fresh(services.world)
    first = services.reader.current("main").commit.seq - len(past) + 1
    for at in range(0, len(past), 7):
        head, time, there = past[at]
        for as_of in (AsOf(head=head), AsOf(seq=first + at), AsOf(time=time), AsOf(time=time + 5)):
            tree = cold.history.tree("main", as_of)
            assert (tree.head, listed(tree)) == (head, there)


def test_the_past_is_a_few_reads_away_however_long_it_is() -> None:
    services, past = grown(700)
    first = services.reader.current("main").commit.seq - len(past) + 1

    def read(as_of: AsOf) -> object:
        return fresh(services.world).history.tree("main", as_of)

    for at in (0, 1, 300, 650):
        by_seq = counted(services, partial(read, AsOf(seq=first + at)))
        by_time = counted(services, partial(read, AsOf(time=past[at][1])))
        assert len(by_seq) <= 25
        assert len(by_time) <= 40


def test_the_log_walked_both_ways_in_pages_is_the_same_log() -> None:
    services, past = grown(130)
    newest = services.reader.current("main").commit.seq
    down = []
    at = None
    while True:
        page = services.history.log("main", start=at, max_results=17)
        down += page.commits
        at = page.next_seq
        if at is None:
            break
    up = []
    at = None
    while True:
        page = services.history.log("main", start=at, oldest_first=True, max_results=23)
        up += page.commits
        at = page.next_seq
        if at is None:
            break
    assert up == down[::-1]
    assert [one.seq for one in up] == list(range(newest + 1))
    assert [one.head for one in up][-len(past) :] == [head for head, _, _ in past]
    assert [one.at for one in up] == sorted({one.at for one in up}), "time only goes forwards"


def test_time_goes_forwards_in_the_log_though_a_servers_clock_is_behind() -> None:
    services = fresh()
    for _ in range(5):
        fakes(services).clock.now -= 60_000
        services.namespaces.create("main", (f"n{fakes(services).clock.now}",))
    times = [one.at for one in services.history.log("main").commits]
    assert times == sorted(set(times), reverse=True)


def test_where_gc_has_ended_the_past_the_log_ends_and_older_trees_are_gone() -> None:
    services, past = grown(100)
    world = fakes(services)
    first = services.reader.current("main").commit.seq - len(past) + 1
    everything = services.history.log("main", oldest_first=True, max_results=60).commits
    for one in everything:
        world.objs.delete(world.space.objs("main"), one.head)
    cold = fresh(world)
    up = cold.history.log("main", oldest_first=True, max_results=1)
    assert up.commits[0].seq == 60
    for gone in (AsOf(head=past[3][0]), AsOf(seq=first + 3), AsOf(time=past[3][1])):
        with pytest.raises(NotFound) as refused:
            cold.history.tree("main", gone)
        assert refused.value.type == "NoSuchCatalogCommit"
        assert refused.value.remedy
    assert listed(cold.history.tree("main", AsOf(head=past[70][0]))) == past[70][2]


def test_what_was_never_a_head_is_no_past() -> None:
    """The commit obj of a lost attempt lies beside the others, until gc takes it."""
    services, _ = grown(3)
    world = fakes(services)
    tree = services.reader.current("main")
    services.reader.store.write("main", "commit/lost", tree.commit, {})
    with pytest.raises(NotFound):
        fresh(world).history.tree("main", AsOf(head="commit/lost"))
    for never in (AsOf(seq=10_000), AsOf(seq=-1), AsOf(time=1), AsOf(head="entity/1"), AsOf(head="commit/x")):
        with pytest.raises(NotFound):
            services.history.tree("main", never)
    with pytest.raises(NotFound):
        services.history.tree("nothing", AsOf(seq=0))
    for unclear in (AsOf(), AsOf(seq=1, time=1)):
        with pytest.raises(InvalidRequest):
            services.history.tree("main", unclear)


def test_tables_of_the_past_are_found_by_their_names_of_then() -> None:
    services = fresh()
    id = create(services, "old")
    before = services.reader.current("main").head
    services.renamer.rename(*MAIN, "old", "new")
    then = services.history.tree("main", AsOf(head=before))
    assert then.table(("default",), "old").table_id == id
    assert names(services) == ["new"]
