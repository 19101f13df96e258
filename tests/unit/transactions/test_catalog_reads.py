"""Reads of a catalog in transactions, with changes of others before, during and after the judgement
(I3, I8, I9)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import catalog
from tests.support.catalog import fakes, fresh, head_of, names
from tests.support.fakes import delta
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.store.transactions import Client, Refused, drop, group, new_namespace, read, rename
from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import path_of
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.find import whole_answer
from turnstile.catalog.query.reads import CatalogReads
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import OutcomeUnknown

TABLES = '/main/default/*[kind = "table"]'


@pytest.fixture
def services() -> CatalogServices:
    """``main.default`` with the Delta tables ``t`` and ``u``."""
    services = fresh()
    for name in ("t", "u"):
        catalog.create(services, name)
    return services


def once(act: Callable[[], object]) -> CatalogChange:
    """A change of nothing, during which another client acts, once."""
    acts = iter([act])

    def apply(_: View) -> Edit | None:
        for now in acts:
            now()
        return None

    return CatalogChange(apply)


def append(services: CatalogServices, name: str) -> CommitRequest:
    entry = services.reader.current("main").table(("default",), name)
    world = fakes(services)
    ict = max(world.clock.now_ms(), head_of(world, entry.table_id).last_ict + 1)
    return CommitRequest(entry.table_id, 1, content=delta.append("txn", ict))


def test_i9_what_others_change_after_the_judgement_is_judged_again_with_their_tree(services: CatalogServices) -> None:
    world = fakes(services)
    reads = read(services, TABLES)
    commit = append(services, "t")
    other = fresh(world)
    changes = [rename(services, "u", "w"), once(lambda: other.renamer.rename("main", ("default",), "u", "v"))]
    with pytest.raises(Refused) as refused:
        Client(services).commit(changes, group(commit), reads)
    outcome = refused.value.outcome
    assert outcome.change is None and outcome.read is not None and outcome.read.field == "catalog_reads[0]"
    assert names(fresh(world)) == ["t", "v"] and head_of(world, commit.table_id).latest == 0


def test_i9_what_others_change_elsewhere_meanwhile_has_it_judged_again_and_applied(services: CatalogServices) -> None:
    reads = read(services, TABLES)
    other = fresh(fakes(services))
    changes = [rename(services, "u", "w"), once(lambda: other.namespaces.create("main", ("else",)))]
    assert not Client(services).commit(changes, group(), reads).replayed
    assert names(fresh(fakes(services))) == ["t", "w"]


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
@pytest.mark.parametrize("at", range(6))
def test_i3_its_own_changes_never_refuse_a_transaction_that_is_sent_again(
    services: CatalogServices, at: int, how: How
) -> None:
    world = fakes(services)
    request = group(append(services, "t"))
    table = request.commits[0].table_id
    then = services.reader.current("main").head

    def commit(by: CatalogServices) -> None:
        Client(by).commit([drop(by, "u")], request, read(by, TABLES, then))

    with suppress(Crash, OutcomeUnknown):
        commit(fresh(Faulty(world, at, how).world))
    assert (names(fresh(world)), head_of(world, table).latest) in ((["t", "u"], 0), (["t"], 1))
    commit(fresh(world))
    assert (names(fresh(world)), head_of(world, table).latest) == (["t"], 1)


def test_i3_a_copy_that_was_applied_after_the_judgement_is_known_by_its_commits(services: CatalogServices) -> None:
    world = fakes(services)
    request = group(append(services, "t"))
    other = fresh(fakes(services))
    reads = read(services, TABLES)
    same = read(other, TABLES)

    def copy() -> None:
        Client(other).commit([drop(other, "u")], request, same)
        for key in [key for key, row in world.refs.rows.items() if row["kind"] == "request"]:
            del world.refs.rows[key]

    assert Client(services).commit([drop(services, "u"), once(copy)], request, reads).replayed
    assert (names(fresh(world)), head_of(world, request.commits[0].table_id).latest) == (["t"], 1)


def test_i3_a_transaction_that_is_not_remembered_is_reported_by_its_commits_and_not_refused_by_its_changes(
    services: CatalogServices,
) -> None:
    world = fakes(services)
    request = group(append(services, "t"))
    reads = read(services, TABLES)
    Client(services).commit([new_namespace(services, "a"), drop(services, "u")], request, reads)
    for key in [key for key, row in world.refs.rows.items() if row["kind"] == "request"]:
        del world.refs.rows[key]
    assert Client(services).commit([new_namespace(services, "b")], request, reads).replayed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=4, max_size=16))
def test_i9_transactions_that_count_before_they_create_never_make_more_than_they_may(
    schedule: list[tuple[int, bool]],
) -> None:
    """Four clients: each reads how many namespaces have a prefix and creates one more if there are
    less than two. In any order of reads and commits there are never three. Every second change of
    the schedule is another one, of an unrelated name.
    """
    services = fresh()
    world = fakes(services)
    query = '/main/*[name prefix "n"]'
    begun: dict[int, tuple[CatalogReads, int]] = {}
    applied = 0
    refused = list[tuple[bool, bool]]()
    for number, (client, is_other) in enumerate(schedule):
        by = fresh(world)
        if is_other:
            by.namespaces.create("main", (f"other{number}",))
        if client not in begun:
            tree = by.reader.current("main")
            begun[client] = read(by, query), len(whole_answer(by.reader, tree, parse(query), 1000)[0])
            continue
        reads, count = begun.pop(client)
        if count >= 2:
            continue
        try:
            Client(by).commit([new_namespace(by, f"n{number}")], group(), reads)
            applied += 1
        except Refused as error:
            refused.append((error.outcome.read is not None, count < applied))
    assert all(by_read and has_reason for by_read, has_reason in refused), "somebody else created one since"
    present = [path_of(key) for key, _ in fresh(world).reader.current("main").subtree(())]
    assert sum(path[-1].startswith("n") for path in present) == applied <= 2
