"""Reserving tables in the stores: the register and the marks change together, whatever is lost or
in between (I18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.support.delta_table import Table, inline_request
from tests.support.fakes.world import FakeWorld
from tests.support.groups import group, groups, ratified
from turnstile.delta.core.decide import Ratified, Refused
from turnstile.delta.core.reservations import LEASE_LEAST_MS, LEASE_MOST_MS, TABLES_MAX, holder_of
from turnstile.delta.core.writes.state import drop_head
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified
from turnstile.delta.transactions.reservations import Reservations
from turnstile.store.core.errors import InvalidRequest, NotFound, OutcomeUnknown, StateConflict, Throttled
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Write

LEASE = 10_000
ANN = holder_of("ann", "1")


@pytest.fixture
def reservations(world: FakeWorld) -> Reservations:
    return Reservations(world)


def ids(tables: Sequence[Table]) -> list[str]:
    return [table.head.table_id for table in tables]


def marks(tables: Sequence[Table]) -> list[str]:
    return [table.head.reserved_by for table in tables]


def interfered(world: FakeWorld, change: Callable[[], Any]) -> Any:
    """Lets ``change`` happen before the next transaction of the store."""
    transact = world.refs.transact
    pending = [change]

    def interrupted(writes: list[Write], token: str) -> Any:
        if pending:
            pending.pop()()
        return transact(writes, token)

    return patch.object(world.refs, "transact", interrupted)


def test_i18_the_heads_name_the_holder_for_as_long_as_its_lease(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    answer, mine = reservations.ask("ann", "1", ids(tables[:2]), LEASE)
    assert mine is not None
    assert (answer.outcome, mine.id, mine.held) == ("held", "1", tuple(sorted(ids(tables[:2]))))
    assert mine.until > world.clock.now_ms()
    assert marks(tables) == [ANN, ANN, ""]
    assert [table.head.reserved_until for table in tables] == [mine.until, mine.until, 0]
    began = reservations.register().changed_at
    assert reservations.release("ann", "1")
    assert reservations.register().changed_at > began
    assert marks(tables) == ["", "", ""]
    assert all("reserved_until" not in table.row for table in tables)
    assert not reservations.release("ann", "1"), "again, there is nothing"


def test_i18_two_requests_are_two_of_the_store(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    world.refs.requests.clear()
    reservations.ask("ann", "1", ids(tables), LEASE)
    assert world.refs.requests == ["read", "transact"]


def test_i18_a_waiting_transaction_marks_nothing(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    reservations.ask("ann", "1", ids(tables[:1]), LEASE)
    answer, mine = reservations.ask("bob", "1", ids(tables), LEASE)
    assert (answer.outcome, answer.blockers) == ("waiting", ("1",))
    assert mine is not None and not mine.held
    assert marks(tables) == [ANN, "", ""]


def test_i18_a_victims_marks_go_with_the_write_that_makes_it_one(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    x, y, z = ids(tables)
    reservations.ask("ann", "1", [x], LEASE)
    reservations.ask("bob", "2", [y, z], LEASE)
    reservations.ask("bob", "2", [x], LEASE)
    answer, _ = reservations.ask("ann", "1", [y], LEASE)
    assert (answer.outcome, marks(tables)) == ("held", [ANN, ANN, ""])
    told, nothing = reservations.ask("bob", "2", [z], LEASE)
    assert (told.outcome, nothing) == ("victim", None)


def test_i18_a_lost_race_for_the_register_is_decided_again(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    with interfered(world, lambda: Reservations(world).ask("bob", "2", ids(tables[:1]), LEASE)):
        answer, _ = reservations.ask("ann", "1", ids(tables), LEASE)
    assert (answer.outcome, answer.blockers) == ("waiting", ("2",))
    with interfered(world, lambda: Reservations(world).ask("cid", "3", ids(tables[2:]), LEASE)):
        assert reservations.release("bob", "2")
    assert marks(tables) == ["", "", ""], "ann was before cid in line"


def test_i18_after_a_lost_answer_the_same_request_finds_what_it_has(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    transact = world.refs.transact

    def lost(writes: list[Write], token: str) -> Any:
        transact(writes, token)
        raise OutcomeUnknown("no answer")

    with patch.object(world.refs, "transact", lost), pytest.raises(OutcomeUnknown):
        reservations.ask("ann", "1", ids(tables), LEASE)
    answer, mine = reservations.ask("ann", "1", ids(tables), LEASE)
    assert answer.outcome == "held" and mine is not None and mine.number == 1


def test_i18_a_register_that_keeps_changing_is_a_throttle_and_changes_nothing(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    reservations.ask("ann", "1", ids(tables[:1]), LEASE)
    read = world.refs.read(world.space.reservations())
    assert read is not None
    transact = world.refs.transact

    def always_late(writes: list[Write], token: str) -> Any:
        world.refs.rows[writes[0].key]["revision"] += 1
        return transact(writes, token)

    with patch.object(world.refs, "transact", always_late):
        with pytest.raises(Throttled):
            reservations.ask("bob", "2", ids(tables[1:]), LEASE)
        with pytest.raises(Throttled):
            reservations.release("ann", "1")
    assert marks(tables) == [ANN, "", ""]


@pytest.mark.parametrize("count", [0, TABLES_MAX + 1])
def test_i18_too_few_or_too_many_tables_are_refused(reservations: Reservations, count: int) -> None:
    with pytest.raises(InvalidRequest, match=f"a reservation of {count} tables"):
        reservations.ask("ann", "1", [f"{number}" for number in range(count)], LEASE)


def test_i18_too_many_tables_one_after_the_other_are_refused_as_well(
    world: FakeWorld, reservations: Reservations
) -> None:
    made = ids([Table(world, f"00000000-0000-4000-8000-{100 + number:012d}") for number in range(TABLES_MAX + 1)])
    reservations.ask("ann", "1", made[:TABLES_MAX], LEASE)
    with pytest.raises(InvalidRequest, match=f"would have {TABLES_MAX + 1} tables"):
        reservations.ask("ann", "1", made[TABLES_MAX:], LEASE)
    register = reservations.register().of(ANN)
    assert register is not None and len(register.held) == TABLES_MAX


@pytest.mark.parametrize("lease_ms", [LEASE_LEAST_MS - 1, LEASE_MOST_MS + 1])
def test_i18_a_lease_that_is_too_short_or_too_long_is_refused(
    tables: list[Table], reservations: Reservations, lease_ms: int
) -> None:
    with pytest.raises(InvalidRequest, match="a lease of"):
        reservations.ask("ann", "1", ids(tables), lease_ms)
    for fitting in (LEASE_LEAST_MS, LEASE_MOST_MS):
        reservations.ask("ann", "1", ids(tables), fitting)


def test_i18_a_table_that_is_not_there_or_takes_no_commits_cannot_be_reserved(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    with pytest.raises(NotFound):
        reservations.ask("ann", "1", ["00000000-0000-4000-8000-00000000dead"], LEASE)
    world.refs.rows[tables[1].head.key] = apply_actions(tables[1].row, drop_head(tables[1].head, 1).actions)
    with pytest.raises(StateConflict, match="is dropped"):
        reservations.ask("ann", "1", ids(tables), LEASE)
    assert not reservations.register().reservations
    assert marks(tables) == ["", "", ""]


def test_i18_tables_that_went_meanwhile_do_not_keep_others_from_being_released(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    reservations.ask("ann", "1", ids(tables), LEASE)
    del world.refs.rows[tables[1].head.key]
    assert reservations.release("ann", "1")
    assert marks([tables[0], tables[2]]) == ["", ""]


# -- commits ----------------------------------------------------------------------------------------------------------


def test_i18_only_its_holder_writes_a_reserved_table_by_a_version(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    reservations.ask("ann", "1", ids(tables[:2]), LEASE)
    other = Ratifier(world).commit(inline_request(tables[0], 1, "t", base=0))
    assert isinstance(other, Refused) and 0 < other.details["retry_after_ms"] <= 1_000
    assert isinstance(Ratifier(world).commit(inline_request(tables[0], None, "ticket", base=0)), Ratified)
    world.clock.now += LEASE
    assert isinstance(Ratifier(world).commit(inline_request(tables[1], 1, "t", base=0)), Ratified)


def test_i8_i18_its_holders_group_is_ratified_and_leaves_the_reservation(
    world: FakeWorld, tables: list[Table], reservations: Reservations
) -> None:
    """What it wrote it may write again, until it releases the tables."""
    reservations.ask("ann", "1", ids(tables), LEASE)
    requests = [
        msgspec.structs.replace(inline_request(table, 1, f"t{at}", base=0), holder=ANN)
        for at, table in enumerate(tables)
    ]
    assert isinstance(ratified(groups(world).commit(group(*requests))), GroupRatified)
    assert marks(tables) == [ANN] * 3
