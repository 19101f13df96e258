"""The reads of a transaction's statements: collected from everything that Spark executes for it.

    with Collector(jvm, spark) as collector:
        ...  # statements, on this thread
        reads = collector.reads({path: version, ...})

Spark reports every execution to its listeners. A listener in Python would be called for every task;
so a small listener is compiled in the JVM (by the compiler that Spark brings for its own code
generation), which keeps only the executions of one collector, with their plans, until
:meth:`Collector.reads` fetches them. Executions are recognised by a job tag of the thread, which
threads and tasks that a statement starts inherit.

No read may be missed, or a transaction would not be serializable. Listeners are called later, on a
thread of their own: so ``reads`` posts an event and waits for it, after which everything before it
has been seen. If an execution could not be seen (the queue was full, the tag was removed, an
execution is still running, an RDD was read outside of any execution, a plan is not understood),
every table of the transaction counts as read whole, with the reason.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from turnstile_spark.java_classes import java_object
from turnstile_spark.jvm import JavaObject, Jvm
from turnstile_spark.transactions.conflicts.conflict_check import Read
from turnstile_spark.transactions.reads.plan_reads import NotUnderstood, PlanReads, of_execution

log = logging.getLogger("turnstile_spark")
_QUEUE: Final = "turnstile"
#: Seconds to wait for Spark's listener queue.
_PATIENCE_S: Final = 60
#: Its kind (start, job, end), the execution, that of the statement it is of, and what its plan
#: reads.
_Event = tuple[str, str, str, PlanReads | None]


class Collector:
    """Collects the reads of the statements that run between :meth:`open` and :meth:`close` on the
    threads that joined.

    ``spark``: a PySpark session; executions in other sessions of its JVM count as well. A context
    manager. Not thread-safe but for :meth:`join_thread`.
    """

    def __init__(self, jvm: Jvm, spark: Any) -> None:
        self._jvm = jvm
        self._context = spark.sparkContext._jsc.sc()
        self._tag = f"turnstile-reads-{uuid.uuid4().hex}"
        self._listener: JavaObject | None = None
        self._events: list[_Event] = []
        self._unseen: list[str] = []
        self._dropped = 0
        self._window = 0, 0  # how many events, and reasons of unseen ones, earlier windows have had

    def open(self) -> Self:
        """Begins to collect, on the calling thread."""
        self._listener = java_object(self._jvm, "ReadListener", self._tag)
        self._context.listenerBus().addToQueue(self._listener, _QUEUE)
        self._dropped = self._dropped_events()
        self.join_thread()
        return self

    @property
    def plans(self) -> JavaObject:
        """The class that looks at plans in the JVM; None when the collector is not open."""
        return self._listener

    def join_thread(self) -> None:
        """Makes the calling thread's executions from now on count, too."""
        self._context.addJobTag(self._tag)

    def leave_thread(self) -> None:
        """Undoes :meth:`open` and :meth:`join_thread` for the calling thread."""
        self._context.removeJobTag(self._tag)

    def close(self) -> None:
        """Stops collecting; call it on the thread that opened it. Idempotent."""
        if self._listener is not None:
            self.leave_thread()
            self._context.listenerBus().removeListener(self._listener)
            self._listener = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def drain(self) -> None:
        """Takes over the executions until now. Requires an open collector. Call it now and then in
        a transaction of very many statements: the JVM keeps their plans until then."""
        listener = self._listener
        if listener is None:
            raise RuntimeError("the collector is not open: use it as a context manager, or call open() first")
        if not self._context.getJobTags().contains(self._tag):
            self._unseen.append("the job tag of the transaction was taken away (clearJobTags)")
        marker = listener.marker()
        self._context.listenerBus().post(marker)
        if not marker.__getattr__("await")(_PATIENCE_S):
            self._unseen.append(f"Spark's listener queue did not answer within {_PATIENCE_S} s")
        if (dropped := self._dropped_events()) != self._dropped:
            self._unseen.append(f"Spark's listener queue was full and dropped {dropped - self._dropped} events")
        while (event := listener.poll()) is not None:
            kind, execution, root, analysed, optimised = event
            self._events.append((kind, execution, root, self._read(kind, analysed, optimised)))

    def _read(self, kind: str, analysed: JavaObject | None, optimised: JavaObject | None) -> PlanReads | None:
        if kind != "end":
            return None
        if analysed == "":
            return PlanReads()  # of a log, or of no table
        if analysed is None:
            self._unseen.append("an execution without a plan")
            return PlanReads()
        try:
            return of_execution(self._listener, analysed, optimised)
        except NotUnderstood as e:
            self._unseen.append(str(e))
        except Exception as e:
            log.debug("turnstile_spark: a plan could not be read", exc_info=True)
            self._unseen.append(
                f"a plan could not be read: {str(e).splitlines()[0][:200] if str(e) else type(e).__name__}"
            )
        return PlanReads()

    def reads(self, tables: Mapping[str, int]) -> list[Read]:
        """Everything that was read since :meth:`open`. ``tables``: path and version of each table
        that the transaction touched, which are read whole if something was not seen. Requires an
        open collector.
        """
        self.drain()
        return _reads_of(self._events, self._unseen, tables)

    def window(self, tables: Mapping[str, int]) -> list[Read]:
        """As :meth:`reads`, for the reads since :meth:`open` or the last call of this."""
        self.drain()
        events = self._events[self._window[0] :]
        unseen = self._unseen[self._window[1] :]
        self._window = len(self._events), len(self._unseen)
        return _reads_of(events, unseen, tables)

    def _dropped_events(self) -> int:
        counters = self._context.listenerBus().metrics().metricRegistry().getCounters()
        counter = counters.get(f"queue.{_QUEUE}.numDroppedEvents")
        return 0 if counter is None else int(counter.getCount())


def _reads_of(events: Sequence[_Event], unseen: Sequence[str], tables: Mapping[str, int]) -> list[Read]:
    """The reads of these events; all of ``tables`` where something was not seen."""
    groups: dict[str, list[PlanReads]] = defaultdict(list)  # commands of Delta execute queries of their own
    for _, _, root, plan in events:
        if plan is not None:
            groups[root].append(plan)
    reads = [read for group in groups.values() for read in _of_group(group)]
    reasons = "; ".join(dict.fromkeys([*unseen, *_unfinished_reads(events)]))
    return _merge_reads(reads + [Read(path, version, why=reasons) for path, version in tables.items() if reasons])


def _unfinished_reads(events: Sequence[_Event]) -> list[str]:
    started = {execution for kind, execution, _, _ in events if kind == "start"}
    ended = {execution for kind, execution, _, _ in events if kind == "end"}
    outside = [e for kind, e, _, _ in events if kind == "job" and e not in started]
    problems = ["a statement is still running"] if started - ended else []
    return problems + (["an RDD was read outside of any query (DataFrame.rdd, say)"] if outside else [])


def _merge_reads(reads: list[Read]) -> list[Read]:
    """Equal reads as one, with all their columns."""
    merged: dict[Read, Read] = {}
    for read in reads:
        key = replace(read, columns=None)
        other = merged.get(key)
        is_any = read.columns is None or (other is not None and other.columns is None)
        columns = None if is_any or read.columns is None else read.columns | ((other and other.columns) or frozenset())
        merged[key] = replace(read, columns=columns)
    return list(merged.values())


def _of_group(group: list[PlanReads]) -> list[Read]:
    """The reads of one statement. A mention without a scan is a read of the whole table."""
    reads = [read for plan in group for _, read in plan.scans] + [read for plan in group for read in plan.others]
    targets: dict[str, list[Read]] = defaultdict(list)
    for plan in group:
        for mention, read in plan.commands:
            targets[mention.table].append(read)
    scanned = {(m.table, i) for plan in group for m, _ in (*plan.scans, *plan.commands) for i in m.ids}
    chosen: dict[str, list[frozenset[str] | None]] = defaultdict(list)
    for plan in group:
        for mention in plan.mentions:
            has_scan = any((mention.table, i) in scanned for i in mention.ids) or mention.table in plan.cached
            if plan.is_from_statistics or not has_scan:
                reads.append(Read(mention.table, mention.version, why="mentioned, and no scan of it is known"))
        for mention, files in plan.fixed_files:
            if mention.table in targets:
                chosen[mention.table].append(files)
            else:
                reads.append(Read(mention.table, mention.version, why="a scan of files that were chosen elsewhere"))
    for table, commands in targets.items():
        candidates = [files for files in chosen[table] if files is not None]
        is_known = len(set(commands)) == 1 and candidates and len(candidates) == len(chosen[table])
        files = frozenset().union(*candidates) if is_known else None
        for read in commands:
            reads.append(Read(table, read.version, read.predicate, read.columns, files, why=read.why))
    return reads
