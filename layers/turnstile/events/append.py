"""Appends the events of HEADs that changed to the logs of their catalogs (I13).

    1  read the marks                    the log's state of each HEAD
    2  read the HEADs                    after the marks: a HEAD that is older than its mark's would
                                         undo the log's state
    3  the difference is the events      (``events.core``)
    4  a full chunk becomes an obj       under its number; its content does not change any more, so
                                         all writers write the same
    5  append                            the log's row and the marks, one transaction

A table's runs of maintenance have events in the same way, from the row of their task
(``events.core.run_events``).

The key of a HEAD is a hint, as for the publisher. A crash after any step leaves nothing but the obj
of step 4, which the next append needs. Any number may append at once: each transaction is decided
by the rows, and an appender that lost begins at 1. So does an appender that lost its answer; if its
append arrives later, its marks have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import REALM_TREE
from turnstile.coordination.core.rows import Task, Updateable, unpack_task
from turnstile.delta.core.head import TableHead
from turnstile.events.core.events import (
    MOST,
    Changes,
    Detail,
    Event,
    catalog_changes,
    details_of,
    pack,
    table_changes,
    unpack,
)
from turnstile.events.core.rows import APPEND_BYTES, EventLog, EventMark, append_to_log, move_mark
from turnstile.events.core.run_events import run_changes, state_of
from turnstile.maintenance.core.candidates import runs_task
from turnstile.store.core.errors import OutcomeUnknown, Throttled, UnreadableRow
from turnstile.store.core.rows import EVENT_LOG, EVENTS, TASK, Space, is_damaged
from turnstile.store.core.writes import Row, Write
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import BATCH_GET_MAX, TRANSACT_MAX, AllAccepted, Obj, World, in_batches

RETENTION_MS: Final = 7 * 24 * 3_600_000
"""How long a full chunk of a log is kept."""

_MARGIN_S: Final = 24 * 3600
_ATTEMPTS: Final = 50
_BATCH: Final = TRANSACT_MAX - 1

WATCHED: Final = ("table", "catalog", Updateable.kind, EventMark.kind, EventLog.kind)
"""Kinds of rows that a scan for lost changes reads."""

Sights = Mapping[str, Mapping[int, Detail]]
"""Details of versions that were seen on the way, by the key of the HEAD."""


class Unreadable(msgspec.Struct, frozen=True):
    """A HEAD without events, since they could not be made, and the reason; events of other HEADs
    were made."""

    key: str
    message: str


class Appended(msgspec.Struct, frozen=True):
    """The result of one call: ``events`` it appended to the logs of ``catalogs``, by ``writes``
    transactions; ``left`` HEADs that the time did not suffice for."""

    events: int = 0
    writes: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    left: tuple[str, ...] = ()
    catalogs: tuple[str, ...] = ()


class Appender:
    """Appends events. No state between calls."""

    def __init__(self, world: World, *, faults: Faults = no_faults) -> None:
        self._world = world
        self._faults = faults
        self._table = world.space.table("")
        self._catalog = world.space.catalog("")
        self._realm = world.space.catalog(REALM_TREE)
        self._runs = runs_key(world, "")

    def is_source(self, key: str) -> bool:
        """Whether the row under ``key`` has events: the HEAD of a table or of a catalog, or the
        task of a table's runs."""
        return key.startswith((self._table, self._runs)) or (key.startswith(self._catalog) and key != self._realm)

    def append(self, keys: Iterable[str], sights: Sights | None = None, *, until_ms: int | None = None) -> Appended:
        """Appends all events that the HEADs under ``keys`` lack. Keys of other rows are ignored.

        Args:
            sights: details of versions that may have left the tails since.
            until_ms: no append is begun after that time.

        Raises:
            Throttled: others kept appending, or the store asked to slow down.
            OutcomeUnknown: answers kept getting lost.
        """
        due = list(dict.fromkeys(key for key in keys if self.is_source(key)))
        events = 0
        writes = 0
        lost = 0
        unreadable = list[Unreadable]()
        catalogs = dict[str, None]()
        while due and (until_ms is None or self._world.clock.now_ms() < until_ms):
            batch, problems = self._read(due[:_BATCH], sights or {})
            unreadable += problems
            done = {change.key for change in batch if change.changes.mark is None} | {each.key for each in problems}
            for catalog in dict.fromkeys(change.catalog for change in batch if change.changes.mark is not None):
                some = _fitting(change for change in batch if change.changes.mark and change.catalog == catalog)
                if self._append(catalog, some):
                    events = events + sum(len(change.changes.events) for change in some)
                    writes = writes + 1
                    catalogs[catalog] = None
                    done |= {change.key for change in some if change.changes.complete}
                    lost = 0
                else:
                    lost += 1
            if lost >= _ATTEMPTS:
                raise Throttled("the event log changed under every attempt to append to it")
            due = [key for key in due if key not in done]
        return Appended(events, writes, tuple(unreadable), tuple(due), tuple(catalogs))

    def add(self, catalog: str, events: Iterable[Event]) -> bool:
        """Appends events without a HEAD (``events.fleet_log``); events at the end of the log are
        not appended again.

        Returns:
            False if others appended at the same time, or the answer was lost: the same events have
                to be added again.
        """
        log = self._log(catalog)
        there = set() if log is None else {event.id for event in unpack(log.tail)}
        missing = [event for event in events if event.id not in there]
        return not missing or self._extend(catalog, log, missing, ())

    # -- steps ----------------------------------------------------------------------------------------------------

    def _read(self, keys: Sequence[str], sights: Sights) -> tuple[list[_Change], list[Unreadable]]:
        """The missing events of each HEAD, and the HEADs that cannot be read."""
        space = self._world.space
        refs = self._world.refs
        marks = refs.read_many([space.event_mark(key) for key in keys])
        self._faults("events.marks")
        tables_of_runs = [space.table(key.removeprefix(self._runs)) for key in keys if key.startswith(self._runs)]
        heads = refs.read_many(list(dict.fromkeys([*keys, *tables_of_runs])))
        changes = list[_Change]()
        problems = list[Unreadable]()
        for key in keys:
            mark_key = space.event_mark(key)
            try:
                mark = EventMark.from_row(marks[mark_key]) if mark_key in marks else None
                if key.startswith(self._runs):
                    table = heads.get(space.table(key.removeprefix(self._runs)))
                    change = self._change_of_runs(key, mark_key, mark, heads.get(key), table)
                else:
                    change = self._change(key, mark_key, mark, heads.get(key), sights.get(key, {}))
            except Exception as error:  # one damaged row must not keep the others' events
                problems.append(Unreadable(key, repr(error)))
            else:
                changes.append(change)
        return changes, problems

    def _change(
        self, key: str, mark_key: str, mark: EventMark | None, row: Row | None, sights: Mapping[int, Detail]
    ) -> _Change:
        now = self._world.clock.now_ms()
        if key.startswith(self._catalog):
            name = key.removeprefix(self._catalog)
            head = None if row is None else CatalogHead.from_row(row)
            changes = _bound_changes(lambda most: catalog_changes(mark_key, mark, name, head, now, most=most))
            return _Change(key, name, mark, changes)
        if row is None:
            return _Change(key, "", mark, Changes((), None))
        table = TableHead.from_row(row)
        details = {**sights, **details_of(table)}
        changes = _bound_changes(lambda most: table_changes(mark_key, mark, table, details, now=now, most=most))
        return _Change(key, table.catalog.lower(), mark, changes)

    def _change_of_runs(
        self, key: str, mark_key: str, mark: EventMark | None, row: Row | None, table_row: Row | None
    ) -> _Change:
        if row is None or table_row is None:  # the table is gone
            return _Change(key, "", mark, Changes((), None))
        table = TableHead.from_row(table_row)
        changes = run_changes(mark_key, mark, table, _task_of(row))
        return _Change(key, table.catalog.lower(), mark, changes)

    def _append(self, catalog: str, changes: Sequence[_Change]) -> bool:
        """Appends the events of these changes; False if the log or a mark has changed since it was
        read, or the answer was lost."""
        events = [event for change in changes for event in change.changes.events]
        marks = [move_mark(change.mark, change.changes.mark) for change in changes if change.changes.mark is not None]
        return self._extend(catalog, self._log(catalog), events, marks)

    def _log(self, catalog: str) -> EventLog | None:
        row = self._world.refs.read(self._world.space.event_log(catalog))
        return None if row is None else EventLog.from_row(row)

    def _extend(self, catalog: str, log: EventLog | None, events: list[Event], marks: Sequence[Write]) -> bool:
        """Puts events behind ``log`` as it was read, and moves marks; False as ``_append``."""
        world = self._world
        now = self._world.clock.now_ms()
        writes = list(marks)
        if events:
            writes.append(append_to_log(log, self._next(world.space.event_log(catalog), catalog, log, events, now)))
        self._faults("events.read")
        try:
            response = world.refs.transact(writes, world.ids.uuid())
        except OutcomeUnknown:
            return False
        self._faults("events.appended")
        return isinstance(response, AllAccepted)

    def _next(self, key: str, catalog: str, log: EventLog | None, events: list[Event], now: int) -> EventLog:
        """The log with ``events`` at its end."""
        if log is None:
            enlist(self._world, catalog)  # before the log is there: whoever delivers must find it
            self._faults("events.listed")
            return EventLog(key, catalog, self._world.ids.uuid(), len(events), 0, pack(events), now)
        end = log.end + len(events)
        if not log.full:
            return EventLog(key, catalog, log.log, end, log.chunk, pack([*unpack(log.tail), *events]), now)
        expires_s = (now + RETENTION_MS) // 1000 + _MARGIN_S
        space = self._world.space.objs(catalog)
        id = chunk_obj(log.log, log.chunk)
        try:
            self._world.objs.put(Obj(space, id, EVENTS.name, log.tail, now * 1000, expires_s))
        except ValueError:  # the row was restored and is behind its chunks: what cursors lead to is not what it was
            return EventLog(key, catalog, self._world.ids.uuid(), end, 0, pack(events), now)
        self._faults("events.sealed")
        return EventLog(key, catalog, log.log, end, log.chunk + 1, pack(events), now)


class _Change(msgspec.Struct, frozen=True):
    """The missing events of the HEAD under ``key``; ``mark`` is its mark as it was read."""

    key: str
    catalog: str
    mark: EventMark | None
    changes: Changes


def runs_key(world: World, table_id: str) -> str:
    """The key of the task of a table's runs of heavy work; with an empty id the common prefix of
    these keys."""
    return world.space.updateable(f"{TASK.name}/{runs_task(table_id)}")


def chunk_obj(log: str, chunk: int) -> str:
    """Id of the obj that holds a full chunk of the log with this id."""
    return EVENTS.id(f"{log}/{chunk:012d}")


def _bound_changes(changes_of: Callable[[int], Changes]) -> Changes:
    """The changes of one HEAD: of as many versions as fit into one append, which depends on how
    long its name is."""
    most = MOST
    while len(pack((changes := changes_of(most)).events)) > APPEND_BYTES and most > 1:
        most //= 2
    return changes


def _fitting(changes: Iterable[_Change]) -> list[_Change]:
    """The first changes that fit into one append, one at least."""
    fitting = list[_Change]()
    size = 0
    for change in changes:
        size += len(pack(change.changes.events))
        if fitting and size > APPEND_BYTES:
            break
        fitting.append(change)
    return fitting


# -- what the stream lost ---------------------------------------------------------------------------------------------


def behind(world: World, appender: Appender, rows: Iterable[Row] | None = None) -> Iterator[str]:
    """Yields the keys of HEADs that lack events, of ``rows`` of the kinds ``WATCHED``, or of all,
    by scans: for changes that no delivery named. Rows may be some seconds old; a missed HEAD is
    found by the next scan. Catalogs that are gone are found by their marks; a log that is not on
    the list of logs is put there.
    """
    if rows is None:
        rows = chain.from_iterable(world.refs.scan(kind, stale=True) for kind in WATCHED)
    space = world.space
    runs = runs_key(world, "")
    of_catalogs = space.event_mark(space.catalog(""))
    listed = None
    for some in in_batches((row for row in rows if not is_damaged(row)), BATCH_GET_MAX):
        sources = [row for row in some if appender.is_source(row["key"])]
        marks = world.refs.read_many([space.event_mark(row["key"]) for row in sources])
        for row in sources:
            mark = marks.get(space.event_mark(row["key"]))
            if mark is not None and is_damaged(mark):  # the appender says which
                yield row["key"]
                continue
            if _task_differs(row, mark) if row["key"].startswith(runs) else _differs(row, mark):
                yield row["key"]
        gone = [row for row in some if row["key"].startswith(of_catalogs) and row["state"] == "active"]
        there = world.refs.read_many([_source_of(space, row) for row in gone])
        yield from (_source_of(space, row) for row in gone if _source_of(space, row) not in there)
        for row in some:
            if row["kind"] == EventLog.kind:
                listed = set(enlisted_catalogs(world)) if listed is None else listed
                if row["catalog"] not in listed:
                    enlist(world, row["catalog"])


def _source_of(space: Space, mark: Row) -> str:
    """The key of the catalog's HEAD that a mark is of."""
    return space.catalog(mark["key"].removeprefix(space.event_mark(space.catalog(""))))


def enlisted_catalogs(world: World) -> Iterator[str]:
    """Yields the catalogs with logs on the list: it costs by their number."""
    logs = world.objs.list(world.space.objs(REALM_TREE), EVENT_LOG.prefix)
    return (obj.id.removeprefix(EVENT_LOG.prefix) for obj in logs)


def enlist(world: World, catalog: str) -> None:
    """Puts the log of a catalog on the list of logs, which says where to look for events
    (``enlisted_catalogs``). Once is enough; it does no harm twice, nor without a log."""
    world.objs.put(
        Obj(world.space.objs(REALM_TREE), EVENT_LOG.id(catalog), EVENT_LOG.name, b"", world.clock.now_ms() * 1000)
    )


def _differs(row: Row, mark: Row | None) -> bool:
    if mark is None:
        return True
    if row["kind"] == CatalogHead.kind:
        return bool((row["seq"], row["created"]) != (mark["latest"], mark["created"]))
    return any(row[name] != mark[name] for name in ("latest", "floor", "state", "name"))


def _task_differs(row: Row, mark: Row | None) -> bool:
    try:
        task = _task_of(row)
    except UnreadableRow:  # the appender says which
        return True
    return mark is None or (mark["latest"], mark["state"]) != (task.attempt, state_of(task))


def _task_of(row: Row) -> Task:
    return unpack_task(Updateable.from_row(row))
