"""A disk beneath SQLite that loses power, fills up and fails.

SQLite reads and writes real files in ``folder`` through a VFS of this module, so locks and shared
memory are the real ones. Beside them the disk keeps the durable content: the bytes of each file
when it was synced last, and the names that the folder held when the folder was synced last. After
``lose_power`` every call fails; ``remains`` writes the state after a restart of the machine into
another folder:

* bytes that were not synced are gone; or, ``torn``, each of their sectors is there or not, in any
  combination, and the bytes between are zeros or rubbish;
* a file that was created or deleted since the folder was synced is there or not.

SQLite's own VFS syncs the folder at the first sync of a journal or WAL that it has opened for
creating, and at a delete that asks for it. This module counts a name as durable from then on, not
earlier.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import apsw

SECTOR_BYTES: Final = 512
_NUMBERS: Final = count()
_JOURNALS: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@dataclass
class _File:
    """The durable content of one file, and the writes since: ``(offset, bytes)``, or ``(size,
    None)`` for a truncation."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    failures: int = 0

    def synced(self) -> None:
        for offset, data in self.pending:
            _apply(self.durable, offset, data)
        self.pending.clear()

    def torn(self, rng: random.Random) -> bytearray:
        """The durable bytes with some of the pending sectors."""
        content = bytearray(self.durable)
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        filler = rng.choice((bytes(SECTOR_BYTES), rng.randbytes(SECTOR_BYTES)))
        for offset, data in self.pending:
            if data is None:
                if rng.random() < share:
                    _apply(content, offset, None)
                continue
            for sector, piece in _sectors(offset, data):
                if rng.random() < share:
                    _apply(content, sector, piece, filler)
        return content


def _apply(content: bytearray, offset: int, data: bytes | None, filler: bytes = bytes(SECTOR_BYTES)) -> None:
    if data is None:
        del content[offset:]
        return
    while len(content) < offset:
        content += filler[: offset - len(content)]
    content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """``data`` cut where sectors of the disk end."""
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES
        yield offset + start, data[start:end]
        start = end


class Disk:
    """A folder on a disk that can fail. ``vfs`` is the name by which SQLite opens files on it.

    Attributes:
        calls: writes, truncations, syncs and deletions so far.
        power_until: after so many calls the power is lost (None: it stays).
        capacity_bytes: of all files together; a write beyond it is refused as by a full disk.
        sync_failures: share of the syncs that fail. Their data never reaches the disk, and the
            system forgets that it is unwritten; like Linux, it reports that once to each opener of
            the file, at its next sync.
        reads_fail: every read fails.
        read_only: files cannot be written; locks: whether files can be locked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vfs = f"disk-{next(_NUMBERS)}"
        self.calls = 0
        self.power_until = None
        self.capacity_bytes = None
        self.sync_failures = 0.0
        self.reads_fail = False
        self.read_only = False
        self.locks = True
        self.files: dict[str, _File] = {}
        self.mutex = threading.RLock()
        self._durable_names: dict[str, _File] = {}
        self._registered = _Vfs(self)

    calls: int
    power_until: int | None
    capacity_bytes: int | None

    @property
    def lost_power(self) -> bool:
        return self.power_until is not None and self.calls >= self.power_until

    def lose_power(self) -> None:
        """Nothing is read or written any more."""
        with self.mutex:
            self.power_until = self.calls

    def remains(self, folder: Path, rng: random.Random | None = None) -> None:
        """Write the files that a restarted machine finds into ``folder``; with ``rng`` torn,
        without exactly the synced data."""
        folder.mkdir()
        with self.mutex:
            for name in self._durable_names.keys() | self.files.keys():
                durable = self._durable_names.get(name)
                now = self.files.get(name)
                file = durable if rng is None or rng.random() < 0.5 else now
                if file is not None:
                    (folder / name).write_bytes(file.durable if rng is None else file.torn(rng))

    def close(self) -> None:
        """Take the VFS away; every connection must be closed."""
        self._registered.unregister()

    # -- calls of the VFS ---------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, *, counted: bool = True) -> Iterator[None]:
        with self.mutex:
            if self.lost_power:
                raise apsw.IOError("the power is lost")
            self.calls += counted
            yield

    def opened(self, name: str) -> _File:
        file = self.files.get(name)
        if file is None:
            file = self.files[name] = _File()
            path = self.folder / name
            if path.exists() and path.stat().st_size:  # it was there before this disk
                file.durable[:] = path.read_bytes()
                self._durable_names[name] = file
        return file

    def folder_synced(self) -> None:
        self._durable_names = dict(self.files)

    def deleted(self, name: str, *, sync: bool) -> None:
        self.files.pop(name, None)
        if sync:
            self.folder_synced()

    def room(self, path: Path, end: int) -> None:
        """Raise FullError if ``path`` cannot grow to ``end`` bytes."""
        capacity_bytes = self.capacity_bytes  # read once: a test makes room while a thread writes
        if capacity_bytes is None:
            return
        sizes = {file: file.stat().st_size for file in self.folder.iterdir() if file.name in self.files}
        grows = end - sizes.get(path, 0)
        if grows > 0 and sum(sizes.values()) + grows > capacity_bytes:
            raise apsw.FullError("no space is left on the disk")


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.vfs, "unix")

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        with self._disk.call(counted=False):
            return _VfsFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._disk.call():
            super().xDelete(filename, syncdir)
            self._disk.deleted(Path(filename).name, sync=syncdir)


class _VfsFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = Path(str(name.filename() if isinstance(name, apsw.URIFilename) else name))
        if disk.read_only:
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        self._sync_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        self._file = disk.opened(self._path.name)
        self._failures = self._file.failures
        super().__init__("unix", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._disk.lost_power or self._disk.reads_fail:
            raise apsw.IOError("the disk does not answer")
        return super().xRead(amount, offset)

    def xLock(self, level: int) -> None:
        if not self._disk.locks:
            error = apsw.IOError("locks are not supported")
            error.extendedresult = apsw.SQLITE_IOERR_LOCK  # type: ignore[attr-defined]
            raise error
        super().xLock(level)

    def xWrite(self, data: Any, offset: int) -> None:
        with self._disk.call():
            self._disk.room(self._path, offset + len(data))
            super().xWrite(data, offset)
            self._file.pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        with self._disk.call():
            super().xTruncate(newsize)
            self._file.pending.append((newsize, None))

    def xSync(self, flags: int) -> None:
        with self._disk.call():
            if random.random() < self._disk.sync_failures:
                self._file.pending.clear()
                self._file.failures += 1
            if self._file.failures != self._failures:
                self._failures = self._file.failures
                raise apsw.IOError("the sync failed")
            self._file.synced()
            if self._sync_folder:
                self._disk.folder_synced()
                self._sync_folder = False
