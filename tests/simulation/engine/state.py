"""The common state of all simulated processes: the stores, the time, the stream, and effects still
on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.histories.check import Operation
from tests.simulation.auditors.catalogs import HISTORY, TreeAuditor
from tests.simulation.auditors.invariants import Auditor
from tests.simulation.engine.plans import Faults
from tests.simulation.engine.scheduler import Scheduler, Task
from tests.simulation.engine.stores import Store
from tests.support.fakes.storage import FakeStorages
from turnstile.gc.core import Grace
from turnstile.store.core.errors import NewerFormat
from turnstile.store.core.evaluate import clone, holds
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, AllAccepted, Obj, Rejected, SomeRejected

Watcher = Callable[[dict[str, Any] | None, dict[str, Any] | None], None]
"""Told of a row before and after a change."""


class _Time:
    """The stores' own clock: true time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return self._scheduler.now


class State:
    """The outside of every process. Each change passes the auditors before any process sees it.

    Args:
        store: the place of rows and objs.
        grace: gc's grace periods, which the auditors insist on.
    """

    def __init__(self, scheduler: Scheduler, faults: Faults, store: Store, grace: Grace | None = None) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.grace = grace or Grace(history_ms=HISTORY)
        self.space = Space("sim")
        self.refs = store.refs
        self.objs = store.objs
        self.storages = FakeStorages(_Time(scheduler))  # type: ignore[arg-type]
        self.auditor = Auditor(self)
        self.trees = TreeAuditor(self)
        self.watchers: dict[str, list[Watcher]] = {}
        self.file_watchers: list[Callable[[str], None]] = []
        self.stream: list[str] = []
        self.operations: list[Operation] = []
        self.pumps: list[Task] = []
        self.collectors: list[Task] = []
        self.skew_of: Callable[[], int] = int  # how far the clock of a server that starts is off (ms)
        self.frozen_pauses = 0.0  # how often a sandbox is frozen in a pause between attempts
        self.ids = self._ticks = 0
        self.rows_at: dict[str, int] = {}  # the version that was told for the rows of a request
        self.rejected_id = ""  # the table that takes rows which do not fit
        self._tokens: dict[str, int] = {}
        self._late: list[tuple[int, str, Callable[[], Any]]] = []

    # -- refs -----------------------------------------------------------------------------------------------------

    def write(self, write: Write) -> Accepted | Rejected:
        before = self.refs.rows.get(write.key)
        try:
            answer = self.refs.write(write)
        except NewerFormat:
            self.auditor.seen["refused by a newer format"] += 1
            raise
        if isinstance(answer, Accepted):
            self._changed(write.key, before)
        elif self.scheduler.tracing:
            failed = [clause.name for clause in write.clauses if not _held(before, clause)]
            self.scheduler.note(f"refused {write.key[-12:]}: {', '.join(failed)}")
        return answer

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        before = {write.key: self.refs.rows.get(write.key) for write in writes}
        started = self._tokens.setdefault(token, self.scheduler.now)
        stale = self.scheduler.now - started > 600_000  # the store forgets a token after ten minutes
        answer = self.refs.transact(writes, f"{token}/{self.scheduler.now}" if stale else token)
        if isinstance(answer, AllAccepted):
            moved = [key for key, row in before.items() if self.refs.rows.get(key) is not row]
            for key in sorted(moved, key=lambda key: "/catalog/" in key):
                self._changed(key, before[key])
        return answer

    def _changed(self, key: str, before: dict[str, Any] | None) -> None:
        after = self.refs.rows.get(key)
        row = after or before
        if row is not None and row["kind"] == "catalog":
            self.trees.changed(row) if after else self.trees.dropped(row)
        for watcher in self.watchers.get(row["kind"], ()) if row is not None else ():
            watcher(before, after)
        if after is not None and after["kind"] == "table":
            self.auditor.head_changed(before, after)
            if "pending" in after:
                self.stream.append(after["table_id"])
                for pump in self.pumps:
                    pump.wake_ms = min(pump.wake_ms, self.scheduler.now + 5)

    # -- storage and objs -----------------------------------------------------------------------------------------

    def put_file(self, location: str, path: str, content: bytes) -> bool:
        created = self.storages.open(location).put_if_absent(path, content)
        if created:
            self.auditor.file_created(location, path, content)
        return created

    def replace_file(self, location: str, path: str, content: bytes) -> None:
        self.storages.open(location).replace(path, content)

    def delete_file(self, location: str, path: str) -> None:
        if location + "/" + path in self.storages.files:
            self.auditor.file_deleted(location, path)
            for watcher in self.file_watchers:
                watcher(f"{location}/{path}")
        self.storages.open(location).delete(path)

    def live(self, space: str, id: str) -> Obj | None:
        obj = self.objs.get(space, id)
        expired = obj is not None and obj.expires_s is not None and obj.expires_s * 1000 < self.scheduler.now
        return None if expired else obj

    def delete_obj(self, space: str, id: str) -> None:
        self.auditor.obj_deleted(space, id)
        self.trees.obj_deleted(id)
        self.objs.delete(space, id)

    # -- what clients were told ---------------------------------------------------------------------------------------

    def begin(self, op: str, table: str, *, version: int = 0, txn: str = "") -> Operation:
        """An operation of a client with an unknown outcome so far."""
        made = Operation(client=0, table=table, op=op, call=self._tick(), version=version, txn=txn)
        self.operations.append(made)
        return made

    def told(self, operation: Operation, result: str, got: int, last: str = "") -> None:
        """Its answer."""
        operation.returned = self._tick()
        operation.result = result
        operation.got = got
        operation.last = last

    def _tick(self) -> int:
        self._ticks += 1
        return self._ticks

    # -- time -----------------------------------------------------------------------------------------------------

    def later(self, ms: int, what: str, effect: Callable[[], Any]) -> None:
        """An effect that comes after its caller was told that the answer is lost."""
        self._late.append((self.scheduler.now + ms, what, effect))

    def deliver(self, *, everything: bool = False) -> None:
        """Effects whose time has come."""
        if not self._late:
            return
        due = [one for one in self._late if everything or one[0] <= self.scheduler.now]
        self._late = [one for one in self._late if one not in due]
        for _, what, effect in due:
            self.scheduler.note(f"late effect of {what}")
            try:
                effect()
            except (ValueError, NewerFormat):
                # A write-once obj that exists by now, a row of a newer format: the store refuses.
                continue

    def uuid(self) -> str:
        self.ids += 1
        return f"00000000-0000-4000-8000-{self.ids:012d}"

    def obj_id(self) -> str:
        self.ids += 1
        return f"{self.ids:020d}"

    def has_ended(self, table_id: str) -> bool:
        """Whether the table is so long gone that its HEAD was removed; an auditor looked at it
        then."""
        return self.space.table(table_id) not in self.refs.rows

    def row(self, table_id: str) -> dict[str, Any]:
        """A copy of a HEAD, without a step."""
        copied: dict[str, Any] = clone(self.refs.rows[self.space.table(table_id)])
        return copied


def _held(row: dict[str, Any] | None, clause: Any) -> bool:
    return holds(row or {}, clause.test)
