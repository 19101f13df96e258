"""Cuts of several HEADs: one request, one moment, and refusals (I6, I8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.head import new_head_row
from turnstile.delta.transactions.cuts import Cuts, TableInCut
from turnstile.store.core.errors import NotFound, StateConflict
from turnstile.store.core.writes import Insert, new_row


def tables(world: FakeWorld, count: int, **more: Any) -> list[str]:
    """So many tables, each at its own version."""
    ids = [f"t{number:03d}" for number in range(count)]
    for number, table_id in enumerate(ids):
        row = new_head_row(
            key=world.space.table(table_id),
            table_id=table_id,
            catalog="main",
            name=f"main.sales.{table_id}",
            location=f"file:///lake/{table_id}",
            metadata=f"metadata/{table_id}",
            version=number,
            ict=1_000 + number,
            row_hwm=None,
            created=1,
            managed=True,
        )
        world.refs.write(Insert(row | more, (new_row("I2"),)))
    world.refs.requests.clear()
    return ids


def test_i8_a_cut_shows_each_table_in_the_order_that_was_asked_for() -> None:
    world = fake_world()
    ids = tables(world, 3)
    world.refs.rows[world.space.table("t001")]["floor"] = 0
    assert Cuts(world).of(ids[::-1]) == [
        TableInCut("t002", "main.sales.t002", 2, 1_002, 2, "metadata/t002"),
        TableInCut("t001", "main.sales.t001", 1, 1_001, 0, "metadata/t001"),
        TableInCut("t000", "main.sales.t000", 0, 1_000, 0, "metadata/t000"),
    ]


@pytest.mark.parametrize(("count", "request_name"), [(1, "read"), (2, "read_cut"), (10, "read_cut"), (100, "read_cut")])
def test_i8_a_cut_of_any_size_is_one_request_and_of_one_table_a_plain_read(count: int, request_name: str) -> None:
    world = fake_world()
    ids = tables(world, count)
    assert [table.version for table in Cuts(world).of(ids)] == list(range(count))
    assert world.refs.requests == [request_name]
    assert world.objs.requests == []


def test_i8_more_tables_than_a_cut_takes_are_refused_before_anything_is_asked() -> None:
    world = fake_world()
    with pytest.raises(ValueError, match="101"):
        Cuts(world).of([f"t{number}" for number in range(101)])
    assert world.refs.requests == []


@pytest.mark.parametrize("state", ["active", "leaving", "stuck", "pinned"])
def test_i6_tables_that_may_be_read_are_in_a_cut(state: str) -> None:
    world = fake_world()
    ids = tables(world, 2, state=state)
    assert len(Cuts(world).of(ids)) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_i6_a_table_that_is_recovering_is_named_with_its_place(count: int) -> None:
    world = fake_world()
    ids = tables(world, count)
    world.refs.rows[world.space.table(ids[-1])]["state"] = "recovering"
    with pytest.raises(StateConflict) as caught:
        Cuts(world).of(ids)
    error = caught.value
    assert (error.type, error.field) == ("TableNotActive", f"tables[{count - 1}]")
    assert error.details == {"state": "recovering", "latest": count - 1, "table_id": ids[-1]}
    assert ids[-1] in error.message
    assert error.remedy == "try again shortly"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("missing", [True, False])
def test_i10_a_table_that_is_dropped_or_was_never_there_is_named_with_its_place(count: int, missing: bool) -> None:
    world = fake_world()
    ids = tables(world, count)
    if missing:
        del world.refs.rows[world.space.table(ids[-1])]
    else:
        world.refs.rows[world.space.table(ids[-1])]["state"] = "dropped"
    with pytest.raises(NotFound) as caught:
        Cuts(world).of(ids)
    assert (caught.value.type, caught.value.name) == ("NoSuchTable", ids[-1])
    assert caught.value.field == f"tables[{count - 1}]"


def test_i6_what_was_answered_before_the_time_of_a_cut_is_in_it() -> None:
    world = fake_world()
    ids = tables(world, 2)
    world.clock.now += 5_000
    cut = Cuts(world).take(ids)
    assert cut.taken_at_ms == world.clock.now
    assert {table_id: head.latest for table_id, head in cut.heads.items()} == {"t000": 0, "t001": 1}
