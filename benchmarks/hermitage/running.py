"""Runs a case: the steps one after the other, each transaction on a thread of its own, handed over
explicitly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from benchmarks.hermitage.cases import FIRST, INITIAL, SECOND, Case, End, Form, Observed, Read, Row, Statement

T = TypeVar("T")


class Refused(Exception):
    """A transaction lost to another: nothing of it is there. Every other failure is raised as it
    is."""


class Transaction(Protocol):
    """A transaction of some system. All calls are made on one thread. ``do`` and ``commit`` raise
    :class:`Refused`."""

    def do(self, statement: Statement, table: str) -> list[Row]:
        """Executes a statement; returns the rows of a read."""

    def commit(self) -> None: ...

    def abort(self) -> None:
        """Gives up the transaction; also one that was refused."""


class System(Protocol):
    """What is judged."""

    def create(self, rows: list[Row]) -> str:
        """A new table with these rows; what it is called."""

    def begin(self, tables: list[str]) -> Transaction:
        """Begins a transaction that may use these tables, on the calling thread."""

    def rows(self, table: str) -> list[Row]:
        """The rows of a table as somebody who comes later sees them."""


@dataclass(frozen=True)
class Verdict:
    """What a run of a case came to. ``refused``: the transactions that lost."""

    is_prevented: bool
    refused: tuple[str, ...]
    observed: Observed

    @property
    def text(self) -> str:
        """For tables: ``allowed``, ``refused`` or ``not visible`` (all committed, and the anomaly
        is not to be seen)."""
        if not self.is_prevented:
            return "allowed"
        return "refused" if self.refused else "not visible"


class _Client:
    """One transaction, on a thread of its own."""

    def __init__(self, name: str) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.reads: list[list[Row]] = []
        self.transaction: Transaction | None = None
        self.end: End | None = None

    def on_thread(self, call: Callable[[], T]) -> T:
        """Hands over to the client's thread, and waits for it."""
        return self.pool.submit(call).result()

    def step(self, system: System, tables: list[str], step: Statement | str) -> None:
        """The next step, on the client's thread. A transaction that was refused skips what is left
        of it."""
        if self.end is not None:
            return
        try:
            if self.transaction is None:
                self.transaction = system.begin(sorted(set(tables)))
            if step == "commit":
                self.transaction.commit()
                self.end = "committed"
            elif step == "abort":
                self.transaction.abort()
                self.end = "aborted"
            else:
                assert not isinstance(step, str)
                rows = self.transaction.do(step, tables[step.table])
                if isinstance(step, Read):
                    self.reads.append(rows)
        except Refused:
            self.end = "refused"
            self.give_up()

    def give_up(self) -> None:
        if self.transaction is not None and self.end in (None, "refused"):
            transaction = self.transaction
            self.transaction = None
            transaction.abort()


def run(case: Case, form: Form, system: System) -> Verdict:
    """Runs a case once, on new tables, and judges it. Raises what a step raises, other than
    :class:`Refused`."""
    if form == "single":
        tables = [system.create([INITIAL[FIRST], INITIAL[SECOND]])] * 2
    else:
        tables = [system.create([INITIAL[FIRST]]), system.create([INITIAL[SECOND]])]
    with ExitStack() as stack:
        clients = {name: _Client(name) for name in case.clients}
        for client in clients.values():
            stack.callback(client.pool.shutdown)
            stack.callback(client.on_thread, client.give_up)
        for name, step in case.steps:
            client = clients[name]
            client.on_thread(lambda client=client, step=step: client.step(system, tables, step))
        reads = {name: client.reads for name, client in clients.items()}
        ends = {name: client.end or "aborted" for name, client in clients.items()}
    final = sorted(row for table in sorted(set(tables)) for row in system.rows(table))
    observed = Observed(reads, ends, final)
    refused = tuple(name for name, end in ends.items() if end == "refused")
    return Verdict(not case.happened(observed), refused, observed)
