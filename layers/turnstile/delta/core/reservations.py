"""Reservations: a transaction keeps others from writing its tables for a while (I18, ADR 36).

One row, the *register*, has all reservations of a realm. Each decision is a function of it: which
reservation has a table, the line for each table, and whether the waits form a circle. The write
that changes the register also marks the tables in their HEADs. While the lease lasts, the mark
refuses commits of other transactions (``writes.ratify.unreserved_clause``).

    ask        takes all tables of the request or none of them, and a place in line
    renew      the same request again: a longer lease, the same place
    release    gives up tables and place
    a circle   of waiting transactions ends when a request finds it: the reservation that began last
               loses its tables

A reservation decides the order and nothing else. The end of a lease depends on clocks, so a wrong
clock can cost a holder its turn; the table's latest version still decides on each commit (I1).

Sources: LakeVilla, section 4.3 (pessimistic transactions); Bernstein, Hadzilacos and Goodman
(1987), section 3.4 (waits-for graphs).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal

import msgspec

from turnstile.delta.core.head import ACTIVE
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Change, Clause, Drop, Equals, Insert, Set, new_row

TABLES_MAX: Final = 32
"""Tables of one reservation."""

RESERVATIONS_MAX: Final = 64
"""The limit of reservations of a realm, waiting ones included. Each takes up to 1.5 kB of the
register's row."""

SHARE_MAX: Final = 16
"""Reservations of one principal, once half of all places are taken: no principal can take all
places. Administrators have no such limit."""

LEASE_LEAST_MS: Final = 1_000
LEASE_MOST_MS: Final = 120_000
LEASE_USUAL_MS: Final = 15_000
"""For how long an answer is good; a holder that works for longer, and one that waits, asks
again."""

ASK_AGAIN_MS: Final = 200
"""How long one that waits should wait before it asks again."""


def holder_of(principal: str, id: str) -> str:
    """The name of the reservation in marks, from the ``principal`` and its ``id``: another
    principal that learns the id cannot use it."""
    return hashlib.sha256(f"{len(principal)}/{principal}/{id}".encode()).hexdigest()[:32]


def owner_of(principal: str) -> str:
    """How the register names a principal, by which its reservations are counted."""
    return hashlib.sha256(principal.encode()).hexdigest()[:16]


class Reservation(msgspec.Struct, frozen=True, array_like=True):
    """The reservation of one transaction.

    Attributes:
        holder: a digest of the principal and the transaction's id.
        id: the transaction's, a uuid; for people.
        number: rises with every reservation that is begun.
        held: its tables.
        wanted: tables that it waits for.
        place: its place in all lines, rising with every wait that is begun; 0 while it waits for
            nothing.
        until: the end of its lease (ms).
        is_victim: whether it lost its tables because of a circle; its next request gets that
            answer.
        owner: a digest of its principal; empty for an administrator's, and for reservations of
            earlier releases.
    """

    holder: str
    id: str
    number: int
    held: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    place: int = 0
    until: int = 0
    is_victim: bool = False
    owner: str = ""

    def pack(self) -> bytes:
        return _ENCODER.encode(self)

    def is_live(self, now: int) -> bool:
        """Whether its lease lasts."""
        return not is_over(self.until, now, LEASE_MOST_MS)


_ENCODER: Final = msgspec.msgpack.Encoder()


class Register(StoredRow, frozen=True):
    """The row with all reservations of a realm.

    Attributes:
        revision: how often it was changed.
        begun: how many reservations were begun, and waits.
        reservations: by ``number``.
        changed_at: server clock of the last change (ms).
    """

    kind: ClassVar[str] = "reservations"

    revision: int
    begun: int
    reservations: tuple[Reservation, ...]
    changed_at: int

    def of(self, holder: str) -> Reservation | None:
        """The reservation of ``holder``."""
        return next((each for each in self.reservations if each.holder == holder), None)

    def find_named(self, id: str) -> Reservation | None:
        """The first reservation that some principal calls ``id``."""
        return next((each for each in self.reservations if each.id == id), None)


class Answer(msgspec.Struct, frozen=True):
    """The result of a request: the register after it, and the tables freed from deadlock victims,
    to be unmarked in their HEADs.

    ``outcome``: ``held``: it has all its tables; ``waiting``: behind the transactions with the ids
    ``blockers``; ``victim``: it was in a circle, and has lost its tables; ``full``: the register
    has reached its limit; ``share``: its principal has reached its share.
    """

    outcome: Literal["held", "waiting", "victim", "full", "share"]
    register: Register
    blockers: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()

    def mine(self, holder: str) -> Reservation | None:
        return self.register.of(holder)


def ask(register: Register, reservation: Reservation, now: int) -> Answer:
    """Decides a request of ``reservation.holder`` for ``reservation.wanted``, with a lease until
    ``reservation.until``. Tables that it has already it keeps."""
    live = [each for each in register.reservations if each.is_live(now)]
    before = next((each for each in live if each.holder == reservation.holder), None)
    others = [each for each in live if each is not before]
    begun = register.begun
    if before is not None and before.is_victim:
        return Answer("victim", _with_change(register, others, begun, now))
    if before is None and len(others) >= RESERVATIONS_MAX:
        return Answer("full", _with_change(register, others, begun, now))
    if before is None and _has_its_share(reservation.owner, others):
        return Answer("share", _with_change(register, others, begun, now))
    held = before.held if before else ()
    wanted = tuple(sorted(set(reservation.wanted) - set(held)))
    number, place = (before.number, before.place) if before else (0, 0)
    if not number:
        begun = number = begun + 1
    if wanted and not place:
        begun = place = begun + 1
    mine = msgspec.structs.replace(reservation, number=number, held=held, wanted=wanted, place=place)
    freed: list[str] = []
    while circle := _circle(mine, others):
        victim = max(circle, key=lambda each: each.number)
        freed += victim.held
        if victim is mine:
            return Answer("victim", _with_change(register, others, begun, now), freed=tuple(freed))
        others = [_losing(each) if each is victim else each for each in others]
    blockers = tuple(each.id for each in blocking(mine, others))
    if not blockers:
        mine = msgspec.structs.replace(mine, held=tuple(sorted({*held, *wanted})), wanted=(), place=0)
    after = _with_change(register, [*others, mine], begun, now)
    gone = tuple(table for table in freed if table not in mine.held)
    return Answer("waiting" if blockers else "held", after, blockers, gone)


def _has_its_share(owner: str, others: Sequence[Reservation]) -> bool:
    if not owner or len(others) < RESERVATIONS_MAX // 2:
        return False
    return sum(each.owner == owner for each in others) >= SHARE_MAX


def release(register: Register, holder: str, now: int) -> tuple[Register, tuple[str, ...]]:
    """The register without the reservation of ``holder``, and the tables that it had."""
    before = register.of(holder)
    others = [each for each in register.reservations if each.is_live(now) and each is not before]
    return _with_change(register, others, register.begun, now), before.held if before else ()


def blocking(mine: Reservation, others: Sequence[Reservation]) -> Iterator[Reservation]:
    """Yields the reservations that ``mine`` waits for: each that has a table which ``mine`` wants,
    and each before it in line for one. A reservation that waits for a table of ``mine`` is not
    before it, since it could not go on first.
    """
    wanted = set(mine.wanted)
    held = set(mine.held)
    for other in others:
        is_before = other.place and other.place < mine.place and not held.intersection(other.wanted)
        if wanted.intersection(other.held) or (is_before and wanted.intersection(other.wanted)):
            yield other


def _circle(mine: Reservation, others: Sequence[Reservation]) -> list[Reservation]:
    """The reservations of a circle of waits that ``mine`` is in; empty when there is none."""
    everyone = [mine, *others]
    path: list[Reservation] = []
    visited: set[str] = set()

    def leads_back(to: Reservation) -> bool:
        visited.add(to.holder)
        path.append(to)
        for blocker in blocking(to, [each for each in everyone if each is not to]):
            if blocker is mine or (blocker.holder not in visited and leads_back(blocker)):
                return True
        path.pop()
        return False

    return path if leads_back(mine) else []


def _losing(victim: Reservation) -> Reservation:
    return msgspec.structs.replace(victim, held=(), wanted=(), place=0, is_victim=True)


def _with_change(register: Register, reservations: Sequence[Reservation], begun: int, now: int) -> Register:
    ordered = tuple(sorted(reservations, key=lambda each: each.number))
    return msgspec.structs.replace(
        register, revision=register.revision + 1, begun=begun, reservations=ordered, changed_at=now
    )


# -- writes -----------------------------------------------------------------------------------------------------------


def empty_register(key: str) -> Register:
    """The register where there is no row."""
    return Register(key, 0, 0, (), 0)


def keep(before: Register, after: Register) -> Insert | Change:
    """Makes ``after`` the register that was read as ``before`` (revision 0: there was no row)."""
    if before.revision == 0:
        return Insert(after.to_row(), (new_row("I18"),))
    says = "the reservations have not changed since they were read"
    same = (Clause("same register", "I18", says, Equals(("revision",), before.revision)),)
    packed = [each.pack() for each in after.reservations]
    actions = (
        Set(("revision",), after.revision),
        Set(("begun",), after.begun),
        Set(("reservations",), packed),
        Set(("changed_at",), after.changed_at),
    )
    return Change(before.key, same, actions)


def mark(key: str, holder: str, until: int) -> Change:
    """Marks a table with ``holder``. Goes with ``keep``, so the previous holder has lost it."""
    active = Clause("reservable", "I18", "the table takes commits", Equals(("state",), ACTIVE))
    return Change(key, (active,), (Set(("reserved_by",), holder), Set(("reserved_until",), until)))


def unmark(key: str, holder: str) -> Change:
    """Takes the mark of ``holder`` from a table."""
    own = Clause("own mark", "I18", "the table is marked as its own", Equals(("reserved_by",), holder))
    return Change(key, (own,), (Drop(("reserved_by",)), Drop(("reserved_until",))))
