"""Checks that the files that a table names are in storage, with their sizes: ``turnstile verify
--files``.

    looked = DeltaFiles(world).look(table_id)                     # the first files of the published
                                                                  version
    looked = DeltaFiles(world).look(table_id, looked.next)        # the next ones, until there is no
                                                                  next

A file costs one request, without its content; ``_THREADS`` requests run at once. Each call reads
the state of the table again, and checks ``FILES_MAX`` files, fewer if its time is up. The version
is that of the first call. The contents of files are not read, and earlier versions are not checked.

A file that clients name is only checked below the table's location (I12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

import msgspec

from turnstile.delta.commits import read_head
from turnstile.delta.core.named_files import FileFault, NamedFile, fault_of, files_of, is_absolute
from turnstile.delta.soundness.checkpoints import NotJudged
from turnstile.maintenance.state import TableState, open_state
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Storages, World, in_batches

FILES_MAX: Final = 10_000
"""Files that one call looks at: a request for each."""

FAULTS_MAX: Final = 1_000
"""Faults after which a call ends, so that its answer is of some size."""

_THREADS: Final = 16
_BATCH: Final = 16 * _THREADS
_PLACE: Final = re.compile(r"(\d{1,19})\.([0-9a-f]{16})\.(\d{1,15})")


class FilesLooked(msgspec.Struct, frozen=True):
    """The findings of one call.

    Attributes:
        at: the version, or the snapshot of an Iceberg table, whose files are checked; None: there
            is none.
        files: the number of checked files.
        deviations: the faults of some of them.
        next: the start of the next call; None at the end.
        not_judged: files that were not checked; a table with some is not known to be whole.
    """

    table_id: str
    at: int | None
    files: int
    deviations: list[FileFault]
    next: str | None = None
    not_judged: list[NotJudged] = []


class Look:
    """One call's look at files below ``roots``: ``take`` them, until it is ``over``."""

    def __init__(self, storages: Storages, roots: Sequence[str], is_time_up: Callable[[], bool]) -> None:
        self._storages = storages
        self._roots = tuple(root.rstrip("/") for root in roots)
        self._is_time_up = is_time_up
        self.files = 0
        self.over = False
        self._faults: dict[tuple[str, str], FileFault] = {}
        self._elsewhere: list[str] = []
        self._unread: list[NotJudged] = []

    def take(self, files: Iterable[tuple[int, NamedFile]], since: int) -> int:
        """Looks at files, each with its place among all, in ascending order. Returns the place from
        which the next look goes on where this one ended early; otherwise that behind the last.
        ``since``: of the first. Raises StorageFault.
        """
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="named-files") as threads:
            for some in in_batches(files, _BATCH):
                if self.over:
                    return some[0][0]
                for fault in threads.map(self._fault, [file for _, file in some]):
                    self.tell(fault)
                self.files += len(some)
                since = some[-1][0] + 1
                self.over = self.files >= FILES_MAX or len(self._faults) >= FAULTS_MAX or self._is_time_up()
        return since

    def check(self, file: NamedFile) -> None:
        """Checks one file that is not counted. Raises StorageFault."""
        self.tell(self._fault(file))

    def tell(self, fault: FileFault | None) -> None:
        """Adds a fault, if it is one and is not known."""
        if fault is not None:
            self._faults.setdefault((fault.path, fault.kind), fault)

    def read(self, path: str, limit: int) -> bytes | None:
        """Returns the content of a file that leads to others; None where it is not there, which is
        a fault, or cannot be judged. Raises StorageFault."""
        found = self._find_root(path)
        if found is None:
            self._elsewhere.append(path)
            return None
        file = self._storages.open(found[0]).read(found[1], limit + 1)
        if file is None:
            self.tell(FileFault(path, "missing", "the table names it, and it is not there"))
            return None
        if len(file[0]) > limit:
            self._unread.append(NotJudged(path, f"it has more than {limit} bytes"))
            return None
        return file[0]

    @property
    def faults(self) -> list[FileFault]:
        """The faults so far."""
        return list(self._faults.values())

    @property
    def not_judged(self) -> list[NotJudged]:
        """The files that were not checked: of files elsewhere the first, and their number."""
        if not self._elsewhere:
            return self._unread
        reason = f"{len(self._elsewhere)} files are not below the table's location, so they were not looked at"
        return [*self._unread, NotJudged(self._elsewhere[0], reason)]

    def _fault(self, file: NamedFile) -> FileFault | None:
        found = self._find_root(file.path)
        if found is None:
            self._elsewhere.append(file.path)
            return None
        stat = self._storages.open(found[0]).stat(found[1])
        return fault_of(file, None if stat is None else stat.size)

    def _find_root(self, path: str) -> tuple[str, str] | None:
        """The root that a path is below, and the rest of the path; None if it is below none."""
        if not is_absolute(path):
            return None if ".." in path.split("/") else (self._roots[0], path)
        try:
            normal = normalise(path)
        except InvalidRequest:
            return None
        return next(((root, normal[len(root) + 1 :]) for root in self._roots if normal.startswith(f"{root}/")), None)


class DeltaFiles:
    """Looks at the files of Delta tables; changes nothing."""

    def __init__(self, world: World) -> None:
        self._world = world

    def look(self, table_id: str, after: str = "", *, until_ms: int | None = None) -> FilesLooked:
        """Checks files of the published version, or of the version of ``after``, the ``next`` of
        the call before.

        A log that cannot be read is not judged: ``delta.verify`` reports its faults. Files that the
        table has removed meanwhile are no deviations. Raises NotFound, StorageFault, and
        InvalidRequest for an invalid ``after``.
        """
        clock = self._world.clock
        head = read_head(self._world, table_id)
        version, identity, index = _place(after) if after else (head.floor, "", 0)
        if version > head.floor:
            raise _no_place()
        storage = self._world.storages.open(head.location)
        look = Look(self._world.storages, [head.location], lambda: until_ms is not None and clock.now_ms() >= until_ms)
        try:
            state = open_state(storage, version)
            since = index if state.identity == identity else 0  # of another order: from the first file on
            end = look.take(_place_files(state, since), since)
            faults = self._still_named(table_id, version, look.faults)
        except UnsupportedTable as error:
            unread = NotJudged(
                f"{head.location}/_delta_log", f"the files of version {version} are not known: {error.message}"
            )
            return FilesLooked(table_id, version, look.files, look.faults, None, [*look.not_judged, unread])
        following = f"{version}.{state.identity}.{end}" if look.over else None
        return FilesLooked(table_id, version, look.files, faults, following, look.not_judged)

    def _still_named(self, table_id: str, version: int, faults: list[FileFault]) -> list[FileFault]:
        """The faults of files that the table still names where it is at a later version by now:
        others may have been removed."""
        head = read_head(self._world, table_id)
        if not faults or head.floor == version:
            return faults
        left = {fault.path for fault in faults}
        state = open_state(self._world.storages.open(head.location), head.floor)
        named = {file.path for add in state.files() for file in files_of(add) if file.path in left}
        return [fault for fault in faults if fault.path in named]


def _place_files(state: TableState, since: int) -> Iterator[tuple[int, NamedFile]]:
    """The files from the action at ``since`` on, each with the place of its action."""
    for at, add in enumerate(islice(state.files(), since, None), since):
        for file in files_of(add):
            yield at, file


def _place(text: str) -> tuple[int, str, int]:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise _no_place()
    return int(match[1]), match[2], int(match[3])


def _no_place() -> InvalidRequest:
    return InvalidRequest(
        "it is no place among the table's files", field="after", remedy="pass on 'next', or leave it out"
    )
