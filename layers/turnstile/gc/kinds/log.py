"""Files of Delta logs that have expired, and sidecars of checkpoints that came to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.pointer import POINTER, POINTER_BYTES, pointed_version
from turnstile.delta.log.files import LogFiles, list_log
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.delta.soundness.judge import judge, ratified_sizes
from turnstile.gc.core import Item
from turnstile.gc.scanner import FILES_MAX, Batch, GcContext, NotNow, Problem, Scanner, batches, ids_in
from turnstile.maintenance.core.cleanup import (
    LogFile,
    boundaries,
    cleans,
    expired_files,
    orphans,
    protected_before,
)
from turnstile.maintenance.core.pins import lowest
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.holders import MARGIN_MS
from turnstile.maintenance.holds import Holds
from turnstile.maintenance.pins import Pins
from turnstile.maintenance.reliance import unreliable
from turnstile.maintenance.state import named_sidecars
from turnstile.store.core.errors import ErrorType, StateConflict, TurnstileError
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Stat

BATCH: Final = 200
"""Files between two looks at the HEAD."""
REMOVAL_MS: Final = 10 * 60_000
"""For how long after a look at the HEAD files are removed: a process that was frozen looks again. A
dropped table's folder is another table's later than that."""


class ExpiredLogScanner(Scanner):
    """Kind ``log``.

    - Collects: commits, checkpoints, version checksums and log compaction files of active tables
      before the newest version that has a checkpoint which holds the state of all removed files
      (I24), and is not above any pinned version: of all pins, ``delta.logRetentionDuration`` among
      them (``maintenance/core/cleanup.py``). Then sidecars that no checkpoint names, a week after
      they were written.
    - Unreachable since: the table's log retention after the file was written.
    - Announced by: marks in the row of the location's owner, like the marks of a vacuum: no reader
      can register for a version before the oldest one that stays. Oldest first: wherever it stops,
      the log begins later, and has no gap.
    - A crash leaves: fewer files.
    - A catalog without a change for as long as its history is kept: its old HEAD pins old versions
      of its tables until the next change. If only that holds files, a change without content is
      committed, which ends the pin when it has left the history itself. An item is that HEAD,
      without bytes; there is one a history at most.

    Nothing is removed from a log that fails (``delta.soundness.judge``). The files that stay are
    read before any removal: all pages of the checkpoint, and the number of its files; then its
    files are compared with the files that the same version has by an older checkpoint, or by the
    commits alone. That is three passes over the state of a table, once in a run that has files to
    remove, and one batch of rows in memory. A checkpoint that fails is a ``Problem`` that names the
    file: then an older version is the oldest, or nothing is removed. After an interrupted run there
    may be no older start to compare with: the pages and the number decide.

    ``delta.enableExpiredLogCleanup=false`` keeps a log. A table with an unknown feature is a
    ``Problem``, and so is a checkpoint that cannot be read where sidecars are to be removed.
    """

    row_kind = "table"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        world = context.world
        self._metadata = MetadataStore(world.objs, world.space)
        self._reader = CatalogReader(world)
        self._pins = Pins(world, self._reader, self._metadata, history_ms=context.grace.history_ms)
        self._holds = Holds(world, self._pins)
        self._committer = Committer(world, self._reader, pause=context.pause)
        self._followed = set[str]()

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        if row.get("state") != ACTIVE:
            return
        head = self._holds.table(row["table_id"])
        described = self._metadata.get(head.catalog, head.metadata)
        properties = dict(described.metadata.get("configuration") or {})
        if not cleans(properties):
            return
        upkeep = upkeep_of(described.protocol, described.metadata)
        protected = protected_before(described.protocol, properties)
        if upkeep.log_ms is None or protected is None:
            return
        storage = self._world.storages.open(head.location)
        files = list_log(storage).upto(head.floor)
        boundary = 0
        oldest = min(files.commits, default=None)
        if oldest is not None and files.commits[oldest].modified_ms <= now - upkeep.log_ms:
            boundary, held, problems = self._boundary(head, storage, files, protected)
            yield from problems
            if held:
                yield from self._follow(head.catalog, now)
        stats = _stats(files)
        items = (
            _item(head, stats[file.path], now, min(now, stats[file.path].modified_ms + upkeep.log_ms))
            for file in islice(expired_files(_describe_files(files), boundary), FILES_MAX)
        )
        yield from batches(items, partial(self._remove, head, boundary), BATCH)
        yield from self._sidecars(head, storage, boundary, now)

    def _boundary(
        self, head: TableHead, storage: LogStorage, files: LogFiles, protected: int
    ) -> tuple[int, bool, list[Problem]]:
        """The oldest version that stays, 0 if all do; whether more could go but for the HEAD with
        which the catalog's history begins; and which checkpoints could not be relied on."""
        upto = min(head.floor, head.tail_from)
        pointer = storage.read(POINTER, POINTER_BYTES)
        pointed = pointed_version(pointer[0]) if pointer is not None else None
        if pointed is not None:
            upto = min(upto, pointed)

        def candidates(upto: int) -> Iterator[int]:
            return boundaries(files.checkpoints, files.commits, floor=head.floor, upto=upto, protected=protected)

        if next(candidates(upto), None) is None:  # without the cost of reading the pins
            return 0, False, []
        pins = self._pins.of(head).pins
        needed_from = lowest(pins)
        others = lowest(pin for pin in pins if pin.kind != "moment" or pin.last is None)
        held = next(candidates(min(upto, others)), 0) > needed_from
        judgement = judge(storage, head.floor, ratified_sizes(head))
        problems = [
            Problem("log", f"{head.table_id}/{fault.path}", f"{fault.message}; {fault.remedy}")
            for fault in judgement.faults
            if fault.kind != "checkpoint"
        ]
        if problems:
            return 0, False, problems
        for at in candidates(min(upto, needed_from)):
            why = unreliable(storage, at, files)
            if not why:
                return at, held, problems
            problems.append(Problem("log", f"{head.table_id}/{published_path(at)}", why))
        return 0, held, problems

    def _follow(self, catalog: str, now: int) -> Iterator[Batch]:
        """A change without content, if the catalog had none for as long as its history is kept.
        Once a run."""
        commit = self._reader.current(catalog).commit
        age_ms = now - commit.at // 1000
        if catalog in self._followed or age_ms <= self._context.grace.history_ms + MARGIN_MS:
            return
        self._followed.add(catalog)
        item = Item("log", f"{catalog}@seq:{commit.seq}", 0, commit.at // 1000, age_ms)
        yield Batch((item,), partial(self._commit_nothing, catalog, commit.seq))

    def _commit_nothing(self, catalog: str, seq: int) -> None:
        def change(view: View) -> Edit | None:
            return Edit("no change: ends the pins of the HEAD before") if view.tree.commit.seq == seq else None

        try:
            self._committer.commit(catalog, change)
        except TurnstileError as error:
            raise NotNow(f"{catalog}: {error.message}") from error

    def _remove(self, head: TableHead, boundary: int, items: tuple[Item, ...]) -> None:
        """Removes a batch. An error ends the table's turn: the next batch must not go before this
        one."""
        self._holds.announce_cleanup(head.table_id, head.location, boundary)
        self._delete(head, ids_in(items, head.table_id))

    def _delete(self, head: TableHead, paths: Iterable[str]) -> None:
        """Removes files one after the other, in this order. Raises StateConflict if that takes too
        long."""
        storage = self._world.storages.open(head.location)
        clock = self._world.clock
        until_ms = clock.now_ms() + REMOVAL_MS
        for path in paths:
            if clock.now_ms() > until_ms:
                problem = f"{head.name}: it took longer than {REMOVAL_MS // 60_000} minutes to remove a batch of files"
                raise StateConflict(
                    ErrorType.TABLE_NOT_ACTIVE, problem, remedy="the next run goes on", state=head.state
                )
            storage.delete(path)
            self._context.faults("collect.deleted")

    # -- sidecars ------------------------------------------------------------------------------------------------------

    def _sidecars(self, head: TableHead, storage: LogStorage, boundary: int, now: int) -> Iterator[Batch]:
        """Sidecars that no remaining checkpoint names. Checkpoints that are removed in the same run
        do not count."""
        there = {stat.path.removeprefix(SIDECARS): stat for stat in storage.list(SIDECARS)}
        times = {name: stat.modified_ms for name, stat in there.items()}
        if not orphans(times, (), now):
            return
        named = Named(storage)
        named.read(boundary)
        items = (
            _item(head, there[name], now, times[name]) for name in islice(orphans(times, named.names, now), FILES_MAX)
        )
        yield from batches(items, partial(self._remove_sidecars, head, boundary, named), BATCH)

    def _remove_sidecars(self, head: TableHead, boundary: int, named: Named, items: tuple[Item, ...]) -> None:
        self._holds.announce_cleanup(head.table_id, head.location, boundary)
        named.read(0)
        paths = list(ids_in(items, head.table_id))
        if again := next((path for path in paths if path.removeprefix(SIDECARS) in named.names), None):
            problem = f"a checkpoint names {again}"
            raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="the next run goes on")
        self._delete(head, paths)


class Named:
    """The sidecars that checkpoints of one log name."""

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._seen = set[str]()
        self.names = set[str]()

    def read(self, first: int) -> None:
        """Adds the sidecars that unread checkpoints of version ``first`` and later ones name.
        Raises UnsupportedTable for one that cannot be read."""
        for version, stats in list_log(self._storage).checkpoints.items():
            for stat in stats:
                if version >= first and stat.path not in self._seen:
                    self.names |= named_sidecars(self._storage, stat.path)
                    self._seen.add(stat.path)


def _describe_files(files: LogFiles) -> Iterator[LogFile]:
    """The files of a log, each with its kind and version."""
    yield from (LogFile(stat.path, "commit", version) for version, stat in files.commits.items())
    yield from (LogFile(stat.path, "checksum", version) for version, stat in files.checksums.items())
    for version, stats in files.checkpoints.items():
        yield from (LogFile(stat.path, "checkpoint", version) for stat in stats)
    yield from (LogFile(stat.path, "compaction", last) for (_, last), stat in files.compactions.items())


def _stats(files: LogFiles) -> dict[str, Stat]:
    several = (stat for stats in files.checkpoints.values() for stat in stats)
    single = (files.commits, files.checksums, files.compactions)
    return {stat.path: stat for stats in single for stat in stats.values()} | {stat.path: stat for stat in several}


def _item(head: TableHead, stat: Stat, now: int, since: int) -> Item:
    return Item("log", f"{head.table_id}/{stat.path}", stat.size, since, now - since)
