"""Carries out reservations of tables (``delta.core.reservations``, I18, ADR 36).

    1  read the register, and decide on it
    2  one transaction      the register, as it was read, and the marks in the HEADs of the tables

A crash before 2 changes nothing. After a lost answer the same request is sent again: it finds its
reservation. A request that lost the race for the register decides again from the row that refused
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.reservations import (
    LEASE_LEAST_MS,
    LEASE_MOST_MS,
    RESERVATIONS_MAX,
    TABLES_MAX,
    Answer,
    Register,
    Reservation,
    ask,
    empty_register,
    holder_of,
    keep,
    mark,
    owner_of,
    release,
    unmark,
)
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict, Throttled
from turnstile.store.core.writes import Change, Row
from turnstile.store.ports import AllAccepted, SomeRejected, World

_ATTEMPTS: Final = 20


class Reservations:
    """Asks for reservations, and releases them. No state between calls."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._key = world.space.reservations()

    def ask(
        self, principal: str, id: str, tables: Sequence[str], lease_ms: int, *, has_share: bool = True
    ) -> tuple[Answer, Reservation | None]:
        """Reserves ``tables`` (uuids) for the transaction ``id`` of ``principal``, or gives it a
        place in line; a repeated request extends its lease. Returns the result, and the reservation
        (None: it has none any more). ``has_share``: whether the principal may have ``SHARE_MAX``
        reservations only, once half of all places are taken.

        Raises:
            InvalidRequest: too many tables, or an invalid lease.
            NotFound: no such table.
            StateConflict: ``TableNotActive``.
            Throttled: others kept changing reservations, or the store asked to slow down.
        """
        if not 1 <= len(set(tables)) <= TABLES_MAX:
            problem = f"a reservation of {len(set(tables))} tables; it may have 1 to {TABLES_MAX}"
            raise InvalidRequest(problem, field="tables", remedy="reserve the tables that others write most")
        if not LEASE_LEAST_MS <= lease_ms <= LEASE_MOST_MS:
            problem = f"a lease of {lease_ms} ms; it may be {LEASE_LEAST_MS} to {LEASE_MOST_MS}"
            raise InvalidRequest(problem, field="lease_ms", remedy="ask again before it is over, as often as needed")
        holder = holder_of(principal, id)
        register = self.register()
        for _ in range(_ATTEMPTS):
            now = self._world.clock.now_ms()
            owner = owner_of(principal) if has_share else ""
            wanted = Reservation(holder, id, 0, wanted=tuple(sorted(set(tables))), until=now + lease_ms, owner=owner)
            answer = ask(register, wanted, now)
            mine = answer.register.of(holder)
            held = mine.held if mine else ()
            if len(held) > TABLES_MAX:
                problem = f"with these the reservation would have {len(held)} tables; it may have {TABLES_MAX}"
                raise InvalidRequest(problem, field="tables", remedy="reserve the tables that others write most")
            marks = {table: mark(self._head(table), holder, now + lease_ms) for table in held}
            before = {table: each.holder for each in register.reservations for table in each.held}
            marks |= {table: unmark(self._head(table), before[table]) for table in answer.freed if table in before}
            left = self._write(register, answer.register, marks, held)
            if left is None:
                return answer, mine
            register = left
        raise Throttled("others changed reservations during every attempt")

    def release(self, principal: str, id: str) -> bool:
        """Gives up a reservation, or the place in line; False when there was none. Raises
        Throttled."""
        return self._release(holder_of(principal, id))

    def release_all(self, id: str) -> int:
        """Gives up every reservation that a principal calls ``id``; for administrators. Returns how
        many there were. Raises Throttled."""
        count = 0
        while (found := self.register().find_named(id)) is not None and count < RESERVATIONS_MAX:
            count += self._release(found.holder)
        return count

    def _release(self, holder: str) -> bool:
        register = self.register()
        for _ in range(_ATTEMPTS):
            if register.of(holder) is None:
                return False
            after, held = release(register, holder, self._world.clock.now_ms())
            left = self._write(register, after, {table: unmark(self._head(table), holder) for table in held}, ())
            if left is None:
                return True
            register = left
        raise Throttled("others changed reservations during every attempt")

    def register(self) -> Register:
        """The register as it is."""
        return self._register(self._world.refs.read(self._key))

    def _register(self, row: Row | None) -> Register:
        return empty_register(self._key) if row is None else Register.from_row(row)

    def _head(self, table_id: str) -> str:
        return self._world.space.table(table_id)

    def _write(
        self, before: Register, after: Register, marks: dict[str, Change], held: Sequence[str]
    ) -> Register | None:
        """Step 2; None when it was applied, else the register to decide on again. ``held``: the
        tables that are to be marked.

        A table that is gone is left out, since its mark cannot be removed any more. Raises NotFound
        and StateConflict for one that cannot be marked.
        """
        marks = dict(marks)
        while True:
            ids = list(marks)
            writes = [keep(before, after), *(marks[table] for table in ids)]
            answer = self._world.refs.transact(writes, self._world.ids.uuid())
            if isinstance(answer, AllAccepted):
                return None
            if 0 in answer.failed:
                return self._register(answer.failed[0])
            refused = _refused_rows(answer, ids)
            for table, row in refused.items():
                if table in held:
                    _refuse(table, row)
                del marks[table]


def _refused_rows(answer: SomeRejected, ids: Sequence[str]) -> dict[str, Row | None]:
    """The rows of the tables with refused marks."""
    return {ids[at - 1]: row for at, row in answer.failed.items()}


def _refuse(table_id: str, row: Row | None) -> None:
    """Raises why a table cannot be marked."""
    if row is None:
        raise NotFound("table", table_id, field="tables")
    head = TableHead.from_row(row)
    assert head.state != ACTIVE, "the only clause of a mark"
    problem = f"table {table_id} is {head.state}"
    remedy = "reserve tables that take commits"
    raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, field="tables", remedy=remedy, state=head.state)
