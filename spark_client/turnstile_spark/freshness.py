"""When an earlier response may be used instead of a new request.

A statement first loads a table by name; the answer carries the tail and the latest version. Delta
then asks for the commits, once to give the loaded table its snapshot and, for a write, once more
when its transaction starts. Both may be answered from the load when they belong to the same
statement: the load saw a state that was true at a moment after the statement began, and reading the
latest version means no more (I6). The rules:

* *Snapshot of the loaded table*: both happen in one run of Spark's analyzer, which is recognised by
  the statement's tracker (an object that the JVM thread holds meanwhile), as long as that has not
  recorded the end of the analysis.
* *Start of an INSERT*: the running execution is a V2 write command into this table. Spark executes
  such a command right after analysing it, on the same thread, and analysing it loads its target:
  the thread's last load of the target is this statement's. (Not so for tables the command reads:
  their DataFrames may have been analysed long ago.)

Everything else asks the server: other commands, a DataFrame executed some time after it was
analysed, conflict checks, streams. A commit of this client, however it ends, voids all answers for
its table.

Delta asks for commits on threads of its own pool, where none of this can be seen. But it gets the
coordinator, just before, on the thread of the statement: the reusable answer is chosen there and
travels with the coordinator object. py4j serves all callbacks of a JVM thread on one Python thread,
so a Python thread-local holds the loads of a JVM thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from turnstile_http.api import Tail
from turnstile_spark.jvm import JavaObject, Jvm

T = TypeVar("T")
_EXECUTION = "spark.sql.execution.id"
_TRACKER = "org.apache.spark.sql.catalyst.QueryPlanningTracker"
_WRITE = "org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_DELTA_TABLE = "org.apache.spark.sql.delta.catalog.DeltaTableV2"


@dataclass(slots=True)
class _Ticket:
    """A load of a table: its result, the run of the analyzer that needed it, and the number of this
    client's commits before it (``generation``)."""

    tail: Tail
    analysis: JavaObject | None
    generation: int


@dataclass(slots=True)
class _Memo:
    """The loads in one run of the analyzer."""

    analysis: JavaObject
    values: dict[str, Any]


#: Tickets that the coordinator made for one request may use, by table id.
Grant = dict[str, _Ticket]


class Freshness:
    """The loads of each thread. ``id_of`` gives the id of the table at a location. Thread-safe."""

    def __init__(self, jvm: Jvm, context: JavaObject, id_of: Callable[[str], str | None]) -> None:
        self._jvm = jvm
        self._context = context
        self._id_of = id_of
        self._generations: Counter[str] = Counter()
        self._local = threading.local()

    def note_load(self, table_id: str, tail: Tail) -> None:
        """Remembers a load that Spark made on the calling JVM thread."""
        tickets: Grant = self._local.__dict__.setdefault("tickets", {})
        tickets.pop(table_id, None)
        tickets[table_id] = _Ticket(tail, self._analysis(), self._generations[table_id])
        if len(tickets) > 32:
            tickets.pop(next(iter(tickets)))

    def grant(self) -> Grant | None:
        """The answer that the next request of Delta from the calling JVM thread may use; None for
        none."""
        loads: Grant = self._local.__dict__.get("tickets", {})
        tickets = {t: x for t, x in loads.items() if x.generation == self._generations[t]}
        if not tickets:
            return None
        analysis = self._analysis()
        if analysis is not None:
            if analysis.phases().contains("analysis"):
                return None
            return {t: x for t, x in tickets.items() if x.analysis is not None and x.analysis.equals(analysis)}
        target = self._write_target()
        return {target: tickets[target]} if target in tickets else None

    def take(self, table_id: str, grant: Grant | None) -> Tail | None:
        """The tail that answers this request, or None when a request is needed."""
        ticket = grant.get(table_id) if grant else None
        if ticket is None or ticket.generation != self._generations[table_id]:
            return None
        return ticket.tail

    def once_per_analysis(self, key: str, read: Callable[[], T]) -> T:
        """``read()``, called once in one run of Spark's analyzer, whose rules need the same thing
        several times."""
        analysis = self._analysis()
        if analysis is None or analysis.phases().contains("analysis"):
            return read()
        memo: _Memo | None = self._local.__dict__.get("memo")
        if memo is None or not memo.analysis.equals(analysis):
            memo = self._local.memo = _Memo(analysis, {})
        if key not in memo.values:
            memo.values[key] = read()
        return memo.values[key]  # type: ignore[no-any-return]

    def analyzing(self) -> bool:
        """Whether Spark is analysing a statement on the calling JVM thread."""
        analysis = self._analysis()
        return analysis is not None and not analysis.phases().contains("analysis")

    def outside_analysis(self) -> bool:
        """Whether no statement's analysis, optimisation or planning is going on on the calling JVM
        thread."""
        return self._analysis() is None

    def void(self, table_id: str) -> None:
        """Voids all answers for a table: it has, or may have, a newer version now."""
        self._generations[table_id] += 1

    def _analysis(self) -> JavaObject | None:
        tracker = self._jvm.cls(_TRACKER).get()
        return tracker.get() if tracker.isDefined() else None

    def _write_target(self) -> str | None:
        """The id of the table that the running V2 write command writes to; None when none is
        running."""
        execution = self._context.getLocalProperty(_EXECUTION)
        if not execution:
            return None
        running = self._jvm.cls("org.apache.spark.sql.execution.SQLExecution").getQueryExecution(int(execution))
        if running is None or not self._jvm.class_for_name(_WRITE).isInstance(running.logical()):
            return None
        relation = running.logical().table()
        if not self._jvm.class_for_name(_RELATION).isInstance(relation):
            return None
        table = relation.table()
        if not self._jvm.class_for_name(_DELTA_TABLE).isInstance(table):
            return None
        return self._id_of(str(table.path().toString()))
