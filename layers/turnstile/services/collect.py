"""Garbage collection: find what has been unreachable for long enough, and remove it, or only say what would go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from turnstile.core.gc_plan import KINDS, Grace, Item, Kind
from turnstile.services.faults import Faults, no_faults
from turnstile.services.gc_catalogs import GoneCatalogs
from turnstile.services.gc_dropped import DroppedTables
from turnstile.services.gc_files import NotNow
from turnstile.services.gc_history import HistoryObjs
from turnstile.services.gc_iceberg import IcebergFiles
from turnstile.services.gc_kinds import Batch, Looker, Means, Trouble
from turnstile.services.gc_metadata import OldMetadata
from turnstile.services.gc_objs import InlineObjs
from turnstile.services.gc_refs import DeletedRefs
from turnstile.services.gc_staged import StagedFiles
from turnstile.services.gc_staging import StagingTables
from turnstile.world import World

_LOOKERS: Final[dict[Kind, Callable[[Means], Looker]]] = {
    "staged": StagedFiles,
    "staging": StagingTables,
    "dropped": DroppedTables,
    "objs": InlineObjs,
    "metadata": OldMetadata,
    "iceberg": IcebergFiles,
    "history": HistoryObjs,
    "catalogs": GoneCatalogs,
    "refs": DeletedRefs,
}


class Report(msgspec.Struct, frozen=True):
    """What was found and what became of it; JSON-friendly.

    ``bytes`` sum over ``items``; ``deleted`` how many of them are gone and ``freed`` their bytes (0 in a dry run);
    ``problems`` what was left alone, and why; ``complete`` False when time or ``most`` ended the run early.
    """

    dry_run: bool
    items: tuple[Item, ...]
    bytes: int
    deleted: int
    freed: int
    problems: tuple[Trouble, ...]
    complete: bool


class Collector:
    """Removes garbage. Any number may run at once, and any may die at any point: the next one goes on.

    Args:
        grace: how long things stay after they became unreachable.
        workers: files that are deleted at once.
    """

    def __init__(
        self, world: World, grace: Grace | None = None, *, faults: Faults = no_faults, workers: int = 8
    ) -> None:
        self._world, self._grace, self._faults, self._workers = world, grace or Grace(), faults, workers

    def collect(
        self,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int | None = None,
        most: int = 10_000,
        imported: Iterable[str] = (),
    ) -> Report:
        """One run over ``kinds``.

        Args:
            dry_run: only say what would be removed; nothing is written.
            until_ms: nothing more is begun after that time.
            most: items a run finds at most.
            imported: ids of imported tables whose files are to be purged like those of managed ones.
        """
        clock = self._world.clock
        run = _Run(dry_run, most, over=lambda: until_ms is not None and clock.now_ms() >= until_ms)
        means = Means(self._world, self._grace, self._faults, self._workers, run.over, frozenset(imported))
        for kind in dict.fromkeys(kinds):
            looker = _LOOKERS[kind](means)
            for row in self._world.refs.scan(looker.rows):
                if run.finished():
                    return run.report()
                try:
                    for found in looker.look(row, clock.now_ms()):
                        run.take(found)
                        if run.finished():
                            break
                except Exception as error:  # one table's failure must not keep the others' garbage
                    run.problems.append(
                        Trouble(kind, str(row.get("table_id") or row.get("name")), str(error) or repr(error))
                    )
        return run.report()


class _Run:
    """What one run has found and removed so far."""

    def __init__(self, dry_run: bool, most: int, *, over: Callable[[], bool]) -> None:  # noqa: FBT001 - private
        self._dry_run, self._most, self.over = dry_run, most, over
        self._items: list[Item] = []
        self.problems: list[Trouble] = []
        self._deleted = self._freed = 0
        self._complete = True

    def finished(self) -> bool:
        """Whether time or the number of items ends the run."""
        if len(self._items) >= self._most or self.over():
            self._complete = False
        return not self._complete

    def take(self, found: Batch | Trouble) -> None:
        """Note a trouble, or a batch of items, which is removed unless this is a dry run."""
        if isinstance(found, Trouble):
            self.problems.append(found)
            return
        self._items += found.items
        if self._dry_run:
            return
        try:
            found.remove()
        except NotNow as reason:
            self.problems += [Trouble(item.kind, item.id, str(reason)) for item in found.items]
            return
        self._deleted += len(found.items)
        self._freed += sum(item.bytes for item in found.items)

    def report(self) -> Report:
        return Report(
            dry_run=self._dry_run,
            items=tuple(self._items),
            bytes=sum(item.bytes for item in self._items),
            deleted=self._deleted,
            freed=self._freed,
            problems=tuple(self.problems),
            complete=self._complete,
        )
