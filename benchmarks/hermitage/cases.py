"""The anomalies: the steps of two or three transactions in the order in which they are executed,
and what shows one. Pure.

There are two rows at the beginning, ``(id 1, value 10)`` and ``(id 2, value 20)``. In the
single-table form both are in one table; in the multi-table form, row 1 is in the first table and
row 2 in the second. A transaction begins with its first statement.

The statements are Hermitage's, with two changes. Whatever a transaction does to one row it does to
both, so that the same steps matter in both forms. And where Hermitage relies on a database that
blocks, the order is one in which the anomaly happens if nothing is done against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

FIRST = 0
SECOND = 1
FORMS = ("single", "multi")
Form = Literal["single", "multi"]
#: What became of a transaction.
End = Literal["committed", "aborted", "refused"]


@dataclass(frozen=True, order=True)
class Row:
    """A row of a table."""

    id: int
    value: int


INITIAL = {FIRST: Row(1, 10), SECOND: Row(2, 20)}


@dataclass(frozen=True)
class Where:
    """``column = number``, or ``column % modulus = number``."""

    column: Literal["id", "value"]
    number: int
    modulus: int | None = None

    @property
    def sql(self) -> str:
        return f"{self.column}{f' % {self.modulus}' if self.modulus else ''} = {self.number}"

    def holds(self, row: Row) -> bool:
        value = row.id if self.column == "id" else row.value
        return (value % self.modulus if self.modulus else value) == self.number


@dataclass(frozen=True)
class Read:
    """``SELECT``. ``table``: the first or the second, which are the same in the single-table
    form."""

    table: int
    where: Where

    def sql(self, table: str) -> str:
        return f"SELECT id, value FROM {table} WHERE {self.where.sql}"


@dataclass(frozen=True)
class Update:
    """``UPDATE ... SET value``."""

    table: int
    where: Where
    value: int

    def sql(self, table: str) -> str:
        return f"UPDATE {table} SET value = {self.value} WHERE {self.where.sql}"


@dataclass(frozen=True)
class Insert:
    """``INSERT`` of a row."""

    table: int
    row: Row

    def sql(self, table: str) -> str:
        return f"INSERT INTO {table} VALUES ({self.row.id}, {self.row.value})"


Statement = Read | Update | Insert
Step = tuple[str, Statement | Literal["commit", "abort"]]


@dataclass(frozen=True)
class Observed:
    """What a run of a case showed. ``reads``: by transaction, the rows of each of its reads, in
    order; ``ends``: what became of each; ``final``: the rows afterwards, of all tables."""

    reads: Mapping[str, Sequence[Sequence[Row]]]
    ends: Mapping[str, End]
    final: Sequence[Row]

    def values(self, client: str, id: int) -> list[int]:
        """The values of a row in the reads of a transaction, in order."""
        return [row.value for rows in self.reads.get(client, ()) for row in rows if row.id == id]

    def is_empty(self, client: str, read: int) -> bool:
        """Whether this read of a transaction returned nothing. False when the transaction did not
        come to it."""
        reads = self.reads.get(client, ())
        return len(reads) > read and not reads[read]

    def end(self, id: int) -> int:
        """The value of a row afterwards."""
        (value,) = [row.value for row in self.final if row.id == id]
        return value

    def have_committed(self, *clients: str) -> bool:
        return all(self.ends[client] == "committed" for client in clients)


@dataclass(frozen=True)
class Case:
    """An anomaly. ``happened``: whether what was observed is it."""

    name: str
    title: str
    sentence: str
    steps: tuple[Step, ...]
    happened: Callable[[Observed], bool]

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(client for client, _ in self.steps))


_ROW_1 = Where("id", 1)
_ROW_2 = Where("id", 2)


def _read(client: str, *ids: int) -> tuple[Step, ...]:
    return tuple((client, Read(FIRST, _ROW_1) if id == 1 else Read(SECOND, _ROW_2)) for id in ids)


def _update(client: str, values: Mapping[int, int]) -> tuple[Step, ...]:
    return tuple(
        (client, Update(FIRST, _ROW_1, value) if id == 1 else Update(SECOND, _ROW_2, value))
        for id, value in values.items()
    )


def _thirds(client: str) -> tuple[Step, ...]:
    where = Where("value", 0, modulus=3)
    return (client, Read(FIRST, where)), (client, Read(SECOND, where))


def _commit(*clients: str) -> tuple[Step, ...]:
    return tuple((client, "commit") for client in clients)


def _vanishes(o: Observed) -> bool:
    """T3 saw no moment between the transactions, or went back to an earlier one."""
    moments = [(10, 20), (11, 19), (12, 18)]
    seen = [*zip(o.values("T3", 1), o.values("T3", 2), strict=False)]
    return any(pair not in moments for pair in seen) or seen != sorted(seen)


CASES = (
    Case(
        "G0",
        "dirty write",
        "Two transactions write the same rows in different orders, and a mixture of both remains.",
        (
            *_update("T1", {1: 11}),
            *_update("T2", {1: 12, 2: 22}),
            *_update("T1", {2: 21}),
            *_commit("T1", "T2"),
        ),
        lambda o: (o.end(1), o.end(2)) not in ((11, 21), (12, 22)),
    ),
    Case(
        "G1a",
        "aborted read",
        "A transaction sees what another wrote and then gave up.",
        (
            *_update("T1", {1: 101, 2: 201}),
            *_read("T2", 1, 2),
            ("T1", "abort"),
            *_read("T2", 1, 2),
            *_commit("T2"),
        ),
        lambda o: bool({101, 201} & {*o.values("T2", 1), *o.values("T2", 2), o.end(1), o.end(2)}),
    ),
    Case(
        "G1b",
        "intermediate read",
        "A transaction sees a value that another wrote and then replaced itself, before it committed.",
        (
            *_update("T1", {1: 101, 2: 201}),
            *_read("T2", 1, 2),
            *_update("T1", {1: 11, 2: 21}),
            *_commit("T1"),
            *_read("T2", 1, 2),
            *_commit("T2"),
        ),
        lambda o: bool({101, 201} & {*o.values("T2", 1), *o.values("T2", 2)}),
    ),
    Case(
        "G1c",
        "circular information flow",
        "Two transactions each see what the other wrote, so neither can have been first.",
        (
            *_update("T1", {1: 11}),
            *_update("T2", {2: 22}),
            *_read("T1", 2),
            *_read("T2", 1),
            *_commit("T1", "T2"),
        ),
        lambda o: 22 in o.values("T1", 2) and 11 in o.values("T2", 1),
    ),
    Case(
        "OTV",
        "observed transaction vanishes",
        "A transaction sees a part of what another wrote, and then rows as they were before that one.",
        (
            *_update("T1", {1: 11, 2: 19}),
            *_update("T2", {1: 12}),
            *_commit("T1"),
            *_read("T3", 1, 2),
            *_update("T2", {2: 18}),
            *_commit("T2"),
            *_read("T3", 1, 2),
            *_commit("T3"),
        ),
        _vanishes,
    ),
    Case(
        "PMP",
        "predicate-many-preceders",
        "A transaction asks for rows that satisfy a condition, and a second question sees rows that another committed "
        "in between.",
        (
            ("T1", Read(FIRST, Where("value", 30))),
            ("T2", Insert(FIRST, Row(3, 30))),
            ("T2", Insert(SECOND, Row(4, 30))),
            *_commit("T2"),
            ("T1", Read(SECOND, Where("value", 0, modulus=3))),
            *_commit("T1"),
        ),
        lambda o: o.is_empty("T1", 0) and len(o.reads["T1"]) > 1 and not o.is_empty("T1", 1),
    ),
    Case(
        "P4",
        "lost update",
        "Two transactions read the same rows and write them anew, and what the first wrote is lost.",
        (
            *_read("T1", 1, 2),
            *_read("T2", 1, 2),
            *_update("T1", {1: 11}),
            *_update("T2", {1: 12}),
            *_update("T1", {2: 21}),
            *_update("T2", {2: 22}),
            *_commit("T1", "T2"),
        ),
        lambda o: o.have_committed("T1", "T2") and o.values("T1", 1) == o.values("T2", 1) == [10],
    ),
    Case(
        "G-single",
        "read skew",
        "A transaction sees one row as it was before another transaction, and a second row as it was after it.",
        (
            *_read("T1", 1),
            *_read("T2", 1, 2),
            *_update("T2", {1: 12, 2: 18}),
            *_commit("T2"),
            *_read("T1", 2),
            *_commit("T1"),
        ),
        lambda o: (o.values("T1", 1), o.values("T1", 2)) == ([10], [18]),
    ),
    Case(
        "G2-item",
        "write skew",
        "Two transactions read the same two rows and each writes another one of them, unaware of the other.",
        (
            *_read("T1", 1, 2),
            *_read("T2", 1, 2),
            *_update("T1", {1: 11}),
            *_update("T2", {2: 21}),
            *_commit("T1", "T2"),
        ),
        lambda o: o.have_committed("T1", "T2") and (o.values("T1", 2), o.values("T2", 1)) == ([20], [10]),
    ),
    Case(
        "G2",
        "anti-dependency cycle by predicate",
        "Two transactions ask for rows that satisfy a condition, and each inserts a row that the other would have "
        "seen.",
        (
            *_thirds("T1"),
            *_thirds("T2"),
            ("T1", Insert(FIRST, Row(3, 30))),
            ("T2", Insert(SECOND, Row(4, 42))),
            *_commit("T1", "T2"),
        ),
        lambda o: o.have_committed("T1", "T2") and all(o.is_empty(t, read) for t in ("T1", "T2") for read in (0, 1)),
    ),
)
BY_NAME = {case.name: case for case in CASES}
