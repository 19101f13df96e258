"""Rows of large groups go when nobody repeats one any more, and never while a table has an entry of
one (I8, I10)."""

from __future__ import annotations

import uuid
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.delta_table import Table, inline_request, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import DAY, days
from turnstile.delta.proposals import GroupRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace


class Stopped(BaseException):
    """The coordinator dies."""


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def collect(world: FakeWorld) -> Report:
    return Collector(world, Grace(refs_ms=30 * DAY)).collect(["groups"], dry_run=False)


def committed(world: FakeWorld, *, transactions: int = 99) -> tuple[list[Table], GroupRequest]:
    """A group of three tables, whose coordinator dies before it sends more ``transactions``."""
    tables = [Table(world, table_id(number)) for number in range(3)]
    commits = tuple(inline_request(table, 1, f"t-{table.id}") for table in tables)
    group = GroupRequest(str(uuid.uuid4()), commits)
    plain = world.refs.transact
    left = [transactions]

    def transact(*arguments: Any) -> Any:
        if not left[0]:
            raise Stopped
        left[0] -= 1
        return plain(*arguments)

    with patch.object(world.refs, "transact", transact):
        try:
            GroupRatifier(world, Ratifier(world), part=2).commit(group)
        except Stopped:
            assert transactions < 4
    return tables, group


def rows(world: FakeWorld) -> list[str]:
    return [row["state"] for key, row in world.refs.rows.items() if "/group/" in key]


def test_i3_a_group_answers_repetitions_until_its_grace_is_over_and_its_tables_do_afterwards(world: FakeWorld) -> None:
    _, group = committed(world)
    days(world, 29.9)
    assert collect(world).items == () and rows(world) == ["committed"]
    days(world, 0.1)
    report = collect(world)
    assert [(item.kind, item.bytes) for item in report.items] == [("groups", 48)] and rows(world) == []
    answer = GroupRatifier(world, Ratifier(world), part=2).commit(group)
    assert isinstance(answer, GroupRatified) and answer.replayed


def test_i8_i10_entries_of_a_committed_group_are_folded_before_its_row_goes(world: FakeWorld) -> None:
    tables, _ = committed(world, transactions=2)
    assert [bool(table.head.undecided) for table in tables] == [True] * 3
    days(world, 31)
    assert collect(world).deleted == 1 and rows(world) == []
    assert [(table.head.latest, table.head.undecided) for table in tables] == [(1, b"")] * 3


def test_i8_i10_a_row_stays_while_an_entry_cannot_be_folded(world: FakeWorld) -> None:
    tables, _ = committed(world, transactions=2)
    days(world, 31)
    with patch("turnstile.gc.kinds.groups.settle", lambda _, heads: heads):
        assert collect(world).deleted == 0
    assert rows(world) == ["committed"] and all(table.head.undecided for table in tables)


def test_i8_an_undecided_group_is_aborted_and_goes(world: FakeWorld) -> None:
    tables, _ = committed(world, transactions=1)
    days(world, 31)
    assert collect(world).deleted == 0 and rows(world) == ["aborted"]
    days(world, 31)
    assert collect(world).deleted == 1 and rows(world) == []
    assert [(table.head.latest, table.head.undecided) for table in tables] == [(0, b"")] * 3
