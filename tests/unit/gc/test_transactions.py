"""The journal of transactions: overdue ones are aborted, settled ones go, and aborted files go at
once (I3, I10)."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest

from tests.support.delta_table import Table, inline_request, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Crash, before_next_write
from tests.support.gc import collect, days, everything
from tests.support.groups import journal
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier
from turnstile.delta.transactions.journal import Announcement
from turnstile.gc.collector import Report
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.names import staged_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def tables(world: FakeWorld) -> list[Table]:
    return [Table(world, table_id(number)) for number in range(2)]


def staged_request(table: Table, name: str) -> CommitRequest:
    content = table.storage.read(staged_path(name))
    assert content is not None
    return CommitRequest(table.id, table.head.latest + 1, staged=name, size=len(content[0]))


def announced(world: FakeWorld, *commits: CommitRequest, ttl_days: int = 1) -> JournalRow:
    group = GroupRequest(str(uuid.uuid4()), commits)
    return journal(world).announce(Announcement(group, ttl_ms=ttl_days * 86_400_000))


def state(world: FakeWorld, row: JournalRow) -> str | None:
    stored = world.refs.rows.get(row.key)
    return stored["state"] if stored else None


def items(report: Report) -> list[str]:
    assert report.problems == ()
    return [item.id for item in report.items]


def test_i10_an_open_entry_is_aborted_at_its_end_and_not_before(world: FakeWorld, tables: list[Table]) -> None:
    name = tables[0].stage(lose=True)
    row = announced(world, staged_request(tables[0], name))
    days(world, 0.9)
    assert items(collect(world, "transactions")) == [] and state(world, row) == "open"
    days(world, 0.2)
    before = everything(world)
    assert items(collect(world, "transactions", dry_run=True)) == [row.id] and everything(world) == before
    assert items(collect(world, "transactions")) == [row.id] and state(world, row) == "aborted"
    with pytest.raises(StateConflict):
        journal(world).resume(journal(world).entry(row.id))
    assert items(collect(world, "transactions")) == []
    assert tables[0].storage.stat(staged_path(name)), "its files are orphans like others"


def test_i3_a_settled_entry_answers_for_thirty_days(world: FakeWorld, tables: list[Table]) -> None:
    committed = announced(world, inline_request(tables[0], 1, "a"))
    aborted = announced(world, inline_request(tables[1], 1, "b"))
    assert isinstance(journal(world).resume(committed)[1], GroupRatified)
    journal(world).abort(aborted)
    days(world, 29.9)
    assert items(collect(world, "transactions")) == []
    days(world, 0.2)
    assert sorted(items(collect(world, "transactions"))) == sorted([committed.id, aborted.id])
    assert state(world, committed) is None and state(world, aborted) is None


def test_i10_freed_files_of_an_aborted_transaction_go_at_once(world: FakeWorld, tables: list[Table]) -> None:
    names = [table.stage(lose=True) for table in tables]
    row = announced(world, *map(staged_request, tables, names))
    journal(world).abort(row, lambda table_id: table_id == tables[0].id)
    report = collect(world, "transactions")
    assert items(report) == [f"{tables[0].id}/{names[0]}"] and report.freed > 0
    assert tables[0].storage.stat(staged_path(names[0])) is None
    assert tables[1].storage.stat(staged_path(names[1])), "who aborted it has no right to remove this one"
    assert items(collect(world, "transactions")) == []


def test_i10_a_file_that_another_commit_took_is_not_removed(world: FakeWorld, tables: list[Table]) -> None:
    """A client that proposes one file twice, in a transaction and alone, harms only itself."""
    table = tables[0]
    name = table.stage(lose=True)
    request = staged_request(table, name)
    row = announced(world, request)
    journal(world).abort(row, lambda _: True)
    table.ratifier.commit(request)
    assert items(collect(world, "transactions")) == []
    assert table.storage.stat(staged_path(name))


def test_i10_a_file_that_a_group_which_is_not_decided_yet_took_is_not_removed(world: FakeWorld) -> None:
    """Its version is the next one, as that of a free file, and no commit of the tail names it."""
    tables = [Table(world, table_id(number)) for number in range(3)]
    name = tables[0].stage(lose=True)
    request = staged_request(tables[0], name)
    row = announced(world, request)
    journal(world).abort(row, lambda _: True)
    group = GroupRequest(str(uuid.uuid4()), (request, *(inline_request(table, 1, "t") for table in tables[1:])))
    plain = world.refs.transact
    left = [1]

    def transact(*arguments: Any) -> Any:
        if not left[0]:
            raise Crash("the coordinator dies")
        left[0] -= 1
        return plain(*arguments)

    world.refs.transact = transact  # type: ignore[method-assign]
    with contextlib.suppress(Crash):
        GroupRatifier(world, Ratifier(world), part=2).commit(group)
    world.refs.transact = plain  # type: ignore[method-assign]
    assert tables[0].head.undecided and tables[0].head.latest == 0
    assert items(collect(world, "transactions")) == []
    assert tables[0].storage.stat(staged_path(name))


def test_i10_files_of_a_table_that_is_dropped_are_left_to_its_purge(world: FakeWorld, tables: list[Table]) -> None:
    name = tables[0].stage(lose=True)
    row = announced(world, staged_request(tables[0], name))
    journal(world).abort(row, lambda _: True)
    tables[0].row["state"] = "dropped"
    assert items(collect(world, "transactions")) == []
    del world.refs.rows[tables[0].key]
    assert items(collect(world, "transactions")) == []


def test_i10_an_entry_that_is_announced_again_meanwhile_stays_open(world: FakeWorld, tables: list[Table]) -> None:
    request = inline_request(tables[0], 1, "a")
    row = announced(world, request)
    days(world, 1.1)
    again = GroupRequest(row.id, (inline_request(tables[0], 1, "again"),))

    def announce_again() -> None:
        journal(world).announce(Announcement(again, attempt=2))

    before_next_write(world, announce_again)
    report = collect(world, "transactions")
    assert [problem.id for problem in report.problems] == [row.id]
    assert state(world, row) == "open"


@pytest.mark.parametrize("point", ["collect.marked", "collect.deleted", "collect.forgotten"])
def test_i10_a_crash_at_any_point_is_made_good_by_the_next_run(
    world: FakeWorld, tables: list[Table], point: str
) -> None:
    name = tables[0].stage(lose=True)
    over = announced(world, inline_request(tables[1], 1, "b"))
    journal(world).abort(aborted := announced(world, staged_request(tables[0], name)), lambda _: True)
    days(world, 31)

    def crash(reached: str) -> None:
        if reached == point:
            raise Crash

    with pytest.raises(Crash):
        collect(world, "transactions", faults=crash)
    collect(world, "transactions")
    collect(world, "transactions")
    assert state(world, over) == "aborted" and state(world, aborted) is None
    assert tables[0].storage.stat(staged_path(name)) is None
