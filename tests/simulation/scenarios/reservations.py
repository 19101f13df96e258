"""The scenario of reservations: as ``tables``, with three tables, and transactions that reserve one
or two before they write (I18)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tests.simulation.actors.catalog import create, prepare
from tests.simulation.actors.maintenance import StreamPump
from tests.simulation.actors.writers import Retryable, Writer
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import KINDS, SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import Client, Sandbox, world_of
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.reservations import Answer, Register, holder_of
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.transactions.reservations import Reservations
from turnstile.store.core.errors import NotFound, StateConflict

LEASES: Final = (2 * SECOND, 20 * SECOND, 120 * SECOND)


class ReservingSandbox(Sandbox):
    """A server process that ratifies commits, and takes reservations."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.reservations = Reservations(world_of(process))


class Reserver(Writer):
    """Reserves tables for each of its transactions, one after the other, so that circles come to
    be; then commits to one of them. It does not always release its tables."""

    def __init__(  # noqa: PLR0917 - as a writer
        self, state: State, name: str, tables: list[str], plan: Plan, rng: random.Random, holders: dict[str, str]
    ) -> None:
        super().__init__(state, name, tables[0], plan, rng)
        self._kind = "inline"
        self._tables = tables
        self._holders = holders
        self._reserving = Client(state, name, ReservingSandbox)
        self._client = self._reserving  # type: ignore[assignment]
        self._holder = ""

    def _transaction(self, txn: str) -> None:
        wanted = self._rng.sample(self._tables, self._rng.choice((1, 2, 2)))
        self._table = wanted[0]
        self._holder = holder_of(self._name, txn)
        self._holders[txn] = self._holder
        for table in wanted:
            if not self._reserved(txn, table):
                self._holder = ""
                break
        super()._transaction(txn)
        if self._rng.random() < 0.7:
            self._ask(lambda sandbox: sandbox.reservations.release(self._name, txn))

    def _reserved(self, txn: str, table: str) -> bool:
        """Asks until it has the table; False when it gives up, or must."""
        for _ in range(30):
            lease = self._rng.choice(LEASES)
            answer = self._ask(lambda sandbox, lease=lease: sandbox.reservations.ask(self._name, txn, [table], lease))
            if answer is None:
                continue
            outcome: Answer = answer[0]
            self._state.auditor.seen[f"reservation {outcome.outcome}"] += 1
            if outcome.outcome in ("held", "victim"):
                return outcome.outcome == "held"
            self._state.scheduler.sleep(self._rng.choice((200, 200, SECOND)))
        return False

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            return self._reserving.ask(question)
        except (NotFound, StateConflict, *Retryable):
            self._state.scheduler.sleep(200)
            return None

    def _build(self, head: TableHead, txn: str, attempt: str, stamp: int) -> CommitRequest | None:
        request = super()._build(head, txn, attempt, stamp)
        return None if request is None else msgspec.structs.replace(request, holder=self._holder)


class Auditor:
    """Watches the register and the HEADs: a table has one holder, which its HEAD names, and whose
    lease is never broken (I18)."""

    def __init__(self, state: State, holders: dict[str, str]) -> None:
        self._state = state
        self._holders = holders

    def register_changed(self, _: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        register = Register.from_row(after or {})
        tables = [table for each in register.reservations for table in each.held]
        if len(tables) != len(set(tables)):
            raise Violation("I18", f"a table is reserved twice: {register.reservations}")
        for each in register.reservations:
            for table in each.held:
                row = self._state.row(table)
                if row.get("reserved_by") != each.holder or row.get("reserved_until") != each.until:
                    raise Violation("I18", f"{table} is reserved by {each}, and its HEAD says {row.get('reserved_by')}")

    def head_changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        if before is None or after is None or after["latest"] == before["latest"]:
            return
        head = TableHead.from_row(before)
        entry = TableHead.from_row(after).tail[-1]
        if entry.ticket or not head.reserved_by:
            return
        is_holder = self._holders.get(entry.txn) == head.reserved_by
        if head.reserved_until > entry.ratified_ms and not is_holder:
            raise Violation("I18", f"{entry.txn} was ratified on a table that is reserved by {head.reserved_by}")
        self._state.auditor.seen["ratified by its holder" if is_holder else "ratified after a lease"] += 1


class Reserved(Tables):
    """Three tables, and actors that reserve them (I18)."""

    name = "reservations"

    def plan(self, seed: int) -> Plan:
        """Two to four that reserve, one or two that write without, a publisher."""
        rng = random.Random(f"reservations/{seed}")
        reservers = tuple(f"reserver-{number}" for number in range(rng.choice((2, 3, 4))))
        writers = tuple(f"{rng.choice(('inline', 'ticket', 'staged'))}-{number}" for number in (7, 8))
        return Plan(
            seed=seed,
            actors=(*reservers, *writers, "pump"),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((150, 300)),
            row_tracking=False,
            keep=rng.choice((0, 1, 3)),
            slow=False,
        )

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with three tables, and their actors."""
        prepare(state)
        self._tables = [create(state, f"t{number}") for number in range(3)]
        holders: dict[str, str] = {}
        auditor = Auditor(state, holders)
        state.watchers.setdefault("reservations", []).append(auditor.register_changed)
        state.watchers.setdefault("table", []).append(auditor.head_changed)
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            if name.startswith("reserver"):
                yield Actor(name, Reserver(state, name, self._tables, plan, rng, holders), leads=True)
            elif name == "pump":
                yield Actor(name, StreamPump(state, name, rng, slow=plan.slow))
            else:
                yield Actor(name, Writer(state, name, rng.choice(self._tables), plan, rng), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """As of tables. Then three transactions that wait for each other get their tables, except
        the one that came last; and the longest waiting one is first."""
        super().settle(state, plan)
        state.scheduler.now += 10 * max(LEASES)  # also those that a clock gave which was ahead
        reservations = Reservations(world_of(Process(state, "at rest", prone=False)))
        ask = partial(_outcome, reservations)
        first, second, third = self._tables
        held = [ask(name, [table]) for name, table in zip("abc", self._tables, strict=True)]
        waits = [ask("a", [second]), ask("b", [third]), ask("c", [first])]
        if (held, waits) != (["held"] * 3, ["waiting", "waiting", "victim"]):
            raise Violation("I18", f"a circle is not broken where it should be: {held}, {waits}")
        turns = [ask("a", [second]), ask("b", [third]), ask("a", [second]), ask("d", [second]), ask("e", [second])]
        reservations.release("p", "b")
        turns += [ask("e", [second]), ask("a", [second])]
        reservations.release("p", "a")
        turns += [ask("e", [second]), ask("d", [second])]
        if turns != ["waiting", "held", "waiting", "waiting", "waiting", "waiting", "held", "waiting", "held"]:
            raise Violation("I18", f"not in the order in which they waited: {turns}")
        state.auditor.seen["a circle was broken"] += 1


def _outcome(reservations: Reservations, id: str, tables: list[str]) -> str:
    return reservations.ask("p", id, tables, 60 * SECOND)[0].outcome


def _held_by_others_is_free(blocking: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mine, others: (each for each in blocking(mine, others) if not each.held)


def _unmarked_but_once(mark: Callable[..., Any]) -> Callable[..., Any]:
    """A mark has the lease of a moment."""

    def wrong(key: str, holder: str, until: int) -> Any:
        made = mark(key, holder, until)
        return replace(made, actions=made.actions[:1])

    return wrong


RESERVATION_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "reservations: without 'unreserved'": (without("turnstile.delta.prepare.named_change", "unreserved"), "I18"),
    "reservations: without 'same register'": (
        without("turnstile.delta.transactions.reservations.keep", "same register"),
        "I18",
    ),
    "reservations: what others hold is free": (
        lambda: swapped("turnstile.delta.core.reservations.blocking", _held_by_others_is_free),
        "I18",
    ),
    "reservations: circles are not looked for": (
        lambda: swapped("turnstile.delta.core.reservations._circle", lambda _: lambda mine, others: []),
        "I18",
    ),
    "reservations: a longer lease is not marked": (
        lambda: swapped("turnstile.delta.transactions.reservations.mark", _unmarked_but_once),
        "I18",
    ),
    "reservations: whoever asks again goes to the end of the line": (
        lambda: swapped("turnstile.delta.transactions.reservations.ask", _last_in_line),
        "I18",
    ),
}
"""The planted mistake, and the invariant that it breaks."""


def _last_in_line(ask: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(register: Register, reservation: Any, now: int) -> Any:
        before = tuple(
            msgspec.structs.replace(each, place=0) if each.holder == reservation.holder else each
            for each in register.reservations
        )
        return ask(msgspec.structs.replace(register, reservations=before), reservation, now)

    return wrong
