"""Reservations: the holder of a table, the line for it, and the loser of a circle of waits
(I18)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.heads import empty_row, named, ticket
from turnstile.delta.core.decide import Proposal, Refused, decide
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.reservations import (
    LEASE_MOST_MS,
    RESERVATIONS_MAX,
    SHARE_MAX,
    Register,
    Reservation,
    ask,
    blocking,
    empty_register,
    holder_of,
    release,
)
from turnstile.store.core.errors import ErrorType

NOW = 1_000_000
LEASE = 10_000


class Line:
    """A register, and requests to it as a user would see them; the time passes as it is told."""

    def __init__(self) -> None:
        self.register = empty_register("k")
        self.now = NOW

    def ask(self, who: str, *tables: str, lease: int = LEASE) -> str:
        answer = ask(self.register, Reservation(who, who, 0, wanted=tables, until=self.now + lease), self.now)
        self.register = answer.register
        return f"waiting for {' '.join(answer.blockers)}" if answer.blockers else answer.outcome

    def release(self, who: str) -> tuple[str, ...]:
        self.register, freed = release(self.register, who, self.now)
        return freed

    def held(self) -> dict[str, tuple[str, ...]]:
        return {each.holder: each.held for each in self.register.reservations if each.held}


@pytest.fixture
def line() -> Line:
    return Line()


def test_i18_a_table_is_one_transactions_until_it_is_released_or_its_lease_is_over(line: Line) -> None:
    assert line.ask("a", "x", "y") == "held"
    assert line.ask("b", "y", "z") == "waiting for a"
    assert line.held() == {"a": ("x", "y")}, "all of what was answer for, or nothing"
    assert line.release("a") == ("x", "y")
    assert line.ask("b", "y", "z") == "held"
    line.now += LEASE - 1
    assert line.ask("c", "z") == "waiting for b"
    line.now += 1
    assert line.ask("c", "z") == "held"
    assert line.held() == {"c": ("z",)}


def test_i18_asking_again_is_a_longer_lease_with_the_same_tables_and_more(line: Line) -> None:
    line.ask("a", "x")
    line.now += LEASE - 1
    assert line.ask("a", "x") == "held"
    line.now += LEASE - 1
    assert line.ask("a", "y") == "held"
    assert line.held() == {"a": ("x", "y")}
    assert [each.number for each in line.register.reservations] == [1]


def test_i18_the_longest_wait_gets_it_first_also_when_it_asks_last(line: Line) -> None:
    line.ask("a", "x")
    assert line.ask("b", "x") == "waiting for a"
    assert line.ask("c", "x") == "waiting for a b"
    assert line.ask("b", "x") == "waiting for a"
    line.release("a")
    assert line.ask("c", "x") == "waiting for b"
    assert line.ask("d", "x") == "waiting for b c"
    assert line.ask("b", "x") == "held"
    line.release("b")
    assert line.ask("c", "x") == "held"


def test_i18_a_transaction_that_stops_asking_loses_its_place(line: Line) -> None:
    line.ask("a", "x", lease=LEASE * 3)
    line.ask("b", "x")
    line.now += LEASE
    line.ask("c", "x", lease=LEASE * 3)
    assert line.ask("b", "x") == "waiting for a c"


def test_i18_a_holder_of_a_table_need_not_wait_for_transactions_that_wait_for_it(line: Line) -> None:
    line.ask("a", "x")
    assert line.ask("b", "x", "y") == "waiting for a"
    assert line.ask("a", "y") == "held"


def test_i18_of_a_circle_the_one_that_came_last_loses_whichever_closes_it(line: Line) -> None:
    for who, table in (("a", "x"), ("b", "y"), ("c", "z")):
        line.ask(who, table)
    assert line.ask("c", "x") == "waiting for a"
    assert line.ask("b", "z") == "waiting for c"
    assert line.ask("a", "y") == "waiting for b"
    assert line.held() == {"a": ("x",), "b": ("y",)}, "c lost"
    assert line.ask("b", "z") == "held"
    assert line.ask("c", "x") == "victim", "it is told when it asks"
    assert line.ask("c", "x") == "waiting for a", "and may begin anew"


def test_i18_a_transaction_that_closes_a_circle_and_came_last_is_refused_at_once(line: Line) -> None:
    line.ask("a", "x")
    line.ask("b", "y")
    line.ask("a", "y")
    assert line.ask("b", "x") == "victim"
    assert line.register.of("b") is None
    assert line.ask("a", "y") == "held"


def test_i18_the_tables_of_a_victim_are_free_at_once(line: Line) -> None:
    line.ask("a", "x")
    line.ask("b", "y", "q")
    line.ask("b", "x")
    answer = ask(line.register, Reservation("a", "a", 0, wanted=("y",), until=NOW + LEASE), NOW)
    assert (answer.outcome, answer.freed) == ("held", ("q",)), "what it takes itself is not free"


def test_i18_two_circles_at_once_are_both_broken(line: Line) -> None:
    line.ask("a", "x")
    line.ask("b", "y")
    line.ask("c", "z")
    line.ask("b", "x")
    line.ask("c", "x")
    assert line.ask("a", "y", "z") == "held"
    assert line.held() == {"a": ("x", "y", "z")}


def test_i18_there_is_an_end_to_how_many_wait(line: Line) -> None:
    for number in range(RESERVATIONS_MAX):
        assert line.ask(f"{number}", "x") != "full"
    assert line.ask("one more", "y") == "full"
    assert line.ask("3", "x").startswith("waiting")
    line.release("5")
    assert line.ask("one more", "y") == "held"


def test_i18_a_principal_has_a_share_once_half_of_the_places_are_taken() -> None:
    def asked(register: Register, who: str, owner: str) -> str:
        answer = ask(register, Reservation(who, who, 0, wanted=(who,), until=NOW + LEASE, owner=owner), NOW)
        registers.append(answer.register)
        return answer.outcome

    registers = [empty_register("k")]
    taken = [asked(registers[-1], f"ann{number}", "ann") for number in range(RESERVATIONS_MAX)]
    assert taken == ["held"] * (RESERVATIONS_MAX // 2) + ["share"] * (RESERVATIONS_MAX // 2)
    assert asked(registers[-1], "ann0", "ann") == "held", "again, which makes its lease longer"
    assert [asked(registers[-1], f"bob{number}", "bob") for number in range(SHARE_MAX + 1)] == ["held"] * SHARE_MAX + [
        "share"
    ]
    left = RESERVATIONS_MAX // 2 - SHARE_MAX
    assert [asked(registers[-1], f"root{number}", "") for number in range(left + 1)] == ["held"] * left + ["full"]


def test_i18_a_reservation_of_an_earlier_version_has_no_owner() -> None:
    packed = msgspec.msgpack.encode(["h", "i", 1, ["t"], [], 0, NOW, False])
    assert msgspec.msgpack.decode(packed, type=Reservation) == Reservation("h", "i", 1, ("t",), until=NOW)


def test_i12_i18_a_holder_is_its_principals() -> None:
    assert holder_of("ann", "1") == holder_of("ann", "1")
    assert len({holder_of("ann", "1"), holder_of("bob", "1"), holder_of("ann", "2"), holder_of("an", "n/1")}) == 4


_NAMES = st.sampled_from("abcde")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), _NAMES, st.sets(st.sampled_from("xyz"), min_size=1, max_size=2)),
        st.tuples(st.just("release"), _NAMES, st.just(set())),
        st.tuples(st.just("wait"), _NAMES, st.just(set())),
    ),
    max_size=40,
)


@given(_STEPS)
def test_i18_whatever_is_asked_a_table_has_one_holder_and_one_transaction_can_go_on(steps: list[Any]) -> None:
    line = Line()
    for what, who, tables in steps:
        if what == "ask":
            line.ask(who, *sorted(tables))
        elif what == "release":
            line.release(who)
        else:
            line.now += LEASE // 2
        tables_held = [table for held in line.held().values() for table in held]
        assert len(tables_held) == len(set(tables_held))
        _somebody_can_go_on(line.register, line.now)


def _somebody_can_go_on(register: Register, now: int) -> None:
    live = [each for each in register.reservations if each.until > now]
    left = list(live)
    while left:
        free = [each for each in left if not any(other in left for other in blocking(each, live))]
        assert free, f"they wait for each other: {left}"
        left = [each for each in left if each not in free]


# -- what a mark refuses ----------------------------------------------------------------------------------------------


def reserved(by: str = "holder", until: int = NOW) -> TableHead:
    return TableHead.from_row(empty_row() | {"reserved_by": by, "reserved_until": until})


def proposed(at: int, holder: str = "") -> Proposal:
    return named(1, ratified_ms=at, holder=holder)


def test_i18_a_reserved_table_refuses_others_for_as_long_as_the_lease_lasts() -> None:
    refused = decide(reserved(until=NOW + 300), proposed(NOW))
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.details["retry_after_ms"]) == (ErrorType.CONCURRENT_CHANGE, 300)
    assert "300 ms" in refused.message
    later = decide(reserved(until=NOW + LEASE_MOST_MS), proposed(NOW))
    assert isinstance(later, Refused) and later.details["retry_after_ms"] == 1_000
    assert not isinstance(decide(reserved(until=NOW), proposed(NOW)), Refused)
    assert not isinstance(decide(reserved(until=NOW + 300), proposed(NOW, "holder")), Refused)
    assert isinstance(decide(reserved(until=NOW + 300), proposed(NOW, "another")), Refused)


def test_i18_a_ticket_takes_nothing_from_a_holder() -> None:
    assert not isinstance(decide(reserved(until=NOW + 300), ticket(0)), Refused)
