"""The store misbehaves in the middle of publishing: told as the table's problem, healed by the next
call (I5, I11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.heads import recount
from tests.support.fakes.world import fake_world
from turnstile.delta.publish import Publisher, TableUnread
from turnstile.store.core.errors import NotFound, OutcomeUnknown, Throttled, TurnstileError


@pytest.fixture
def table() -> Table:
    made = Table(fake_world())
    made.mixed(5)
    return made


@pytest.mark.parametrize("error", [Throttled(), OutcomeUnknown("lost")])
@pytest.mark.parametrize("applied", [False, True])
def test_i5_a_floor_write_without_an_answer_is_reported_and_healed(
    applied: bool, error: TurnstileError, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = table.world.refs
    original = refs.write

    def write(change: Any) -> Any:
        if applied:
            original(change)
        raise error

    monkeypatch.setattr(refs, "write", write)
    answer = Publisher(table.world).publish(TABLE)
    assert answer.problem is not None
    assert answer.problem.type == error.type
    assert not answer.problem.stuck
    assert sorted(table.published()) == [0, 1, 2, 3, 4, 5], "what was copied stays"
    monkeypatch.setattr(refs, "write", original)
    Publisher(table.world).publish(TABLE)
    table.check_all_published()
    recount(table.head)


def test_a_row_that_vanishes_in_the_middle_is_no_table_any_more(table: Table) -> None:
    def vanish(point: str) -> None:
        if point == "publish.copied":
            table.world.refs.rows.pop(table.key, None)

    with pytest.raises(NotFound):
        Publisher(table.world, faults=vanish).publish(TABLE)


def test_a_store_that_falls_silent_in_the_middle_is_not_the_tables_problem(table: Table) -> None:
    world = table.world
    reads: list[str] = []
    original = world.refs.read

    def once(key: str) -> Any:
        reads.append(key)
        if len(reads) > 1:
            raise ConnectionError("refs")
        return original(key)

    world.refs.read = once  # type: ignore[method-assign]

    def hold(point: str) -> None:
        if point == "publish.read":
            world.clock.now += 3_600_000

    with pytest.raises(TableUnread):
        Publisher(world, faults=hold).publish(TABLE)


def test_a_head_that_lost_part_of_its_tail_is_reported_and_left_alone(table: Table) -> None:
    table.row["tail_from"] = 3
    table.row["tail"] = table.row["tail"][2:]
    answer = Publisher(table.world).publish(TABLE)
    assert answer.problem is not None
    assert "does not carry version 1" in answer.problem.message
    assert sorted(table.published()) == [0]


def test_a_row_that_changes_under_every_attempt_is_given_up_for_now(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnstile.store.ports import Rejected

    monkeypatch.setattr(table.world.refs, "write", lambda _: Rejected(table.row))
    answer = Publisher(table.world).publish(TABLE)
    assert answer.problem is not None
    assert answer.problem.type == "Throttled"
