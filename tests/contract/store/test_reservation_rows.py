"""Reservations of tables on every backend: the register and the marks in HEADs, and what they
refuse (I18)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.heads import empty_row, named, ticket
from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend
from tests.support.threads import WRITERS, together
from turnstile.adapters.machine import RandomIds
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.reservations import holder_of
from turnstile.delta.core.writes.ratify import named_change, ticket_change
from turnstile.delta.transactions.reservations import Reservations
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Insert
from turnstile.store.ports import Accepted, Rejected, World

LEASE = 10_000
TABLES = ("x", "y")


@pytest.fixture
def world(backend: Backend, key: str) -> World:
    """A realm of its own, with two tables."""
    realm = f"r{key.rpartition('/')[2]}"
    space = Space(realm)
    storages: Any = None
    world = World(backend.refs(realm=realm), backend.objs(), storages, FakeClock(step_ms=0), RandomIds(), space)
    for table in TABLES:
        world.refs.write(Insert(empty_row() | {"key": space.table(table), "table_id": table}, ()))
    return world


def head(world: World, table: str) -> TableHead:
    row = world.refs.read(world.space.table(table))
    assert row is not None
    return TableHead.from_row(row)


def test_i18_a_reserved_table_takes_its_holders_commits_and_tickets_only(world: World) -> None:
    reservations = Reservations(world)
    now = world.clock.now_ms()
    key = world.space.table("x")
    assert reservations.ask("ann", "1", TABLES, LEASE)[0].outcome == "held"
    assert reservations.ask("bob", "2", TABLES, LEASE)[0].outcome == "waiting"
    refused = world.refs.write(named_change(key, named(1, "bob", ratified_ms=now), now))
    assert isinstance(refused, Rejected) and refused.row is not None
    assert (refused.row["reserved_by"], refused.row["reserved_until"]) == (holder_of("ann", "1"), now + LEASE)
    assert isinstance(world.refs.write(ticket_change(key, ticket(0, "t"), now, clock_behind=False)), Accepted)
    mine = named(2, "ann", head(world, "x").last_ict + 1, ratified_ms=now, holder=holder_of("ann", "1"))
    assert isinstance(world.refs.write(named_change(key, mine, now)), Accepted)
    assert reservations.release("ann", "1")
    assert [head(world, table).reserved_by for table in TABLES] == ["", ""]
    assert reservations.ask("bob", "2", TABLES, LEASE)[0].outcome == "held"


def test_i18_of_many_that_ask_at_once_one_has_the_table_and_the_others_are_in_line(world: World) -> None:
    outcomes = together(lambda number: Reservations(world).ask(f"p{number}", "1", ["x"], LEASE)[0].outcome)
    assert sorted(outcomes) == ["held", *["waiting"] * (WRITERS - 1)]
    assert len({each.place for each in Reservations(world).register().reservations}) == WRITERS, "each has its place"
