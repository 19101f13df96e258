"""Log storage on a local file system, with the guarantees of S3; and the check of relative paths
that every storage uses."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat as modes
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from turnstile.store.core.errors import InvalidRequest, StorageFault
from turnstile.store.core.names import LOG, STAGED
from turnstile.store.ports import Stat


def check_path(path: str) -> str:
    """Returns ``path`` if it stays below its table: no empty, ``.`` or ``..`` segment, no NUL, no
    backslash. Raises InvalidRequest otherwise (I10: nothing outside the table's own location is
    ever touched).
    """
    if "\0" in path or "\\" in path or any(segment in ("", ".", "..") for segment in path.split("/")):
        raise InvalidRequest(
            f"path {path!r} does not name a file below the table",
            field="path",
            remedy="use a relative path with forward slashes and without '.' or '..'",
        )
    return path


def check_prefix(prefix: str) -> str:
    """As ``check_path`` for the beginning of a path: it may be empty, end with a slash or in the
    middle of a name."""
    folder, slash, _ = prefix.rpartition("/")
    if slash:
        check_path(folder or prefix)
    return prefix


# Paths are text here, as in the port; Path objects would be made and dropped at every call.
# ruff: noqa: PTH102, PTH103, PTH105, PTH106, PTH108, PTH110, PTH114, PTH116, PTH118, PTH119, PTH120, PTH123

_TEMPORARY: Final = ".turnstile-"
_TEMPORARY_NAME: Final = re.compile(r"\.turnstile-[0-9a-f]{24}")
_WRITTEN: Final = ("_delta_log", "metadata")
"""Folders of a table that Turnstile writes into."""
_TRIES: Final = 20
_SYNCS: Final = 8
_ABANDONED_S: Final = 3600
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_GONE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FileStorage:
    """``turnstile.store.ports.LogStorage`` below one directory.

    Nothing is reached by a symbolic link below it, which could lead to another table's files:
    InvalidRequest is raised instead (I10, I12). Files appear whole or not at all: content is
    written to a hidden file beside the target, made durable, and linked under its name, which fails
    when the name is taken. Hidden files (temporary ones, Hadoop's checksums) are never listed. A
    checksum is deleted with its file, and the folders with the table's last file; of a managed
    table (``<root>/<catalog>/<namespace>/<uuid>``) also the two folders above, if nothing else is
    in them.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        with _faults("read", path), suppress(*_GONE), open(self._full(path), "rb", opener=_open_file) as file:
            info = os.fstat(file.fileno())
            file.seek(offset)
            return file.read(-1 if limit is None else limit), _stat(path, info)
        return None

    def stat(self, path: str) -> Stat | None:
        with _faults("look at", path), suppress(*_GONE):
            info = os.lstat(self._full(path))
            return _stat(path, info) if modes.S_ISREG(info.st_mode) else None
        return None

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        target = self._full(path)
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, _TEMPORARY + secrets.token_hex(12))
        with _faults("write", path):
            _write_durably(folder, temporary, (content,) if isinstance(content, bytes) else content)
            if folder == os.path.join(self._root, LOG.rstrip("/")):
                _make_staged(folder)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
            with suppress(FileNotFoundError):  # published, collected and gone already
                make_durable(folder)
        return True

    def replace(self, path: str, content: bytes) -> None:
        target = self._full(path)
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, _TEMPORARY + secrets.token_hex(12))
        with _faults("write", path):
            _write_durably(folder, temporary, (content,))
            with suppress(FileNotFoundError):  # Hadoop's checksum of what is there
                os.unlink(os.path.join(folder, f".{os.path.basename(target)}.crc"))
            os.replace(temporary, target)
            make_durable(folder)

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        """As the port says. All contents are made durable at once, and the names of each folder by
        one sync, so that many files cost little more than one."""
        targets = [self._full(path) for path, _ in files]
        written: list[str] = []
        with _faults("write", files[0][0] if files else ""):
            try:
                for target, (_, content) in zip(targets, files, strict=True):
                    written.append(_write_temporary(os.path.dirname(target), content))
                list(_syncs().map(make_durable, written))
                created = _link_in_order(written, targets)
                for folder in {os.path.dirname(target) for target in targets[:created]}:
                    with suppress(FileNotFoundError):  # published, collected and gone already
                        make_durable(folder)
            finally:
                for temporary in written:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary)
        return created

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        folder, _, start = check_prefix(prefix).rpartition("/")
        self._check_folders(prefix)
        files = [
            (path, entry)
            for path, entry in _entries(self._root, folder)
            if entry.name.startswith(start) and path > after and entry.is_file()
        ]
        yield from _stats(files)

    def list_all(self) -> Iterator[Stat]:
        files = []
        folders = [""]
        while folders:
            for path, entry in _entries(self._root, folders.pop()):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.is_file():
                    files.append((path, entry))
        yield from _stats(files)

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        for top in _WRITTEN:
            for folder, _, names in os.walk(os.path.join(self._root, top)):
                for name in filter(_TEMPORARY_NAME.fullmatch, names):
                    full = os.path.join(folder, name)
                    with suppress(*_GONE):  # a living writer's, which has ended meanwhile
                        found = _stat(os.path.relpath(full, self._root).replace(os.sep, "/"), os.lstat(full))
                        if found.modified_ms < before_ms:
                            yield found

    def delete(self, path: str) -> None:
        target = self._full(path)
        folder, name = os.path.split(target)
        with _faults("delete", path):
            for file in (target, os.path.join(folder, f".{name}.crc")):
                with suppress(*_GONE):
                    os.unlink(file)
        if not _holds_files(self._root):
            _remove_tree(self._root)
            _remove_parents(self._root)

    def _full(self, path: str) -> str:
        self._check_folders(check_path(path))
        return os.path.join(self._root, path)

    def _check_folders(self, path: str) -> None:
        """Raises InvalidRequest if a folder between the root and the file is a symbolic link."""
        folder = self._root
        for name in path.split("/")[:-1]:
            folder = os.path.join(folder, name)
            if os.path.islink(folder):
                raise _is_link(path)


def _open_file(path: str, flags: int) -> int:
    """A descriptor of a file that is not a symbolic link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_link(os.path.basename(path)) from None
        raise


def _is_link(path: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path} is, or lies behind, a symbolic link",
        field="path",
        remedy="keep a table's files below its location: replace the link by its target",
    )


def _write_durably(folder: str, temporary: str, pieces: Iterable[bytes]) -> None:
    with _create(folder, temporary) as file:
        try:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(temporary)
            raise


def _write_temporary(folder: str, content: bytes) -> str:
    """Writes a hidden file, not durable yet, and returns its path."""
    temporary = os.path.join(folder, _TEMPORARY + secrets.token_hex(12))
    with _create(folder, temporary) as file:
        file.write(content)
    return temporary


def _link_in_order(written: Sequence[str], targets: Sequence[str]) -> int:
    for created, (temporary, target) in enumerate(zip(written, targets, strict=True)):
        try:
            os.link(temporary, target)
        except FileExistsError:
            return created
    return len(targets)


@cache
def _syncs() -> ThreadPoolExecutor:
    """Threads that wait for the disk, which merges the syncs of several files."""
    return ThreadPoolExecutor(_SYNCS, thread_name_prefix="sync")


def _create(folder: str, temporary: str) -> BinaryIO:
    """Opens a new file, and makes its folders. They may be removed meanwhile, when the table's last
    file is deleted: then ``makedirs`` may find one there, and gone when it looks whether that is a
    folder.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            os.makedirs(folder, exist_ok=True)
            return open(temporary, "xb")
        except (FileNotFoundError, FileExistsError):
            if not tries_left:
                raise
    raise AssertionError("unreachable")


def _make_staged(log: str) -> None:
    """Makes the folder of staged commits in the folder of a log. Delta's clients make it only for
    tables that they create, and an imported table's first commit may be theirs."""
    with suppress(FileExistsError, *_GONE):
        os.mkdir(os.path.join(log, os.path.basename(STAGED.rstrip("/"))))


def _holds_files(folder: str) -> bool:
    """Whether there is any file that is not hidden. Ends at the first one, which a table in use has
    near its root."""
    folders = []
    with suppress(*_GONE), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if not entry.is_dir(follow_symlinks=False):
                return True
            folders.append(entry.path)
    return any(_holds_files(path) for path in folders)


def _remove_tree(root: str) -> None:
    """Removes the folders of a table without files, with remains of writers that crashed long ago.
    Other files stay, and so does a file that is being written, with its folder."""
    for folder, _, names in os.walk(root, topdown=False):
        for path in (os.path.join(folder, name) for name in names):
            with suppress(OSError):
                if _is_left_over(path):
                    os.unlink(path)
        with suppress(OSError):
            os.rmdir(folder)


def _remove_parents(root: str) -> None:
    """Removes the folders of a managed table's namespace and catalog, if they are empty; never the
    folders above."""
    if os.path.exists(root) or not _UUID.fullmatch(os.path.basename(root)):
        return
    namespace = os.path.dirname(root)
    with suppress(OSError):  # not empty
        os.rmdir(namespace)
        os.rmdir(os.path.dirname(namespace))


def _is_left_over(path: str) -> bool:
    name = os.path.basename(path)
    if name.startswith(_TEMPORARY):
        return time.time() - os.stat(path).st_mtime > _ABANDONED_S
    return name.startswith(".") and name.endswith(".crc")


def make_durable(path: str | Path) -> None:
    """Makes a file's content, or a folder's names, durable: a crash of the machine must not undo an
    acknowledged write (I5)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entries(root: str, folder: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Paths below ``root`` and entries of a folder, without hidden ones."""
    full = os.path.join(root, folder)
    with _faults("list", full), suppress(*_GONE), os.scandir(full) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        return [(f"{folder}/{entry.name}" if folder else entry.name, entry) for entry in shown]
    return []


def _stats(files: list[tuple[str, os.DirEntry[str]]]) -> Iterator[Stat]:
    """Stats of ``files`` in the order of their paths."""
    for path, entry in sorted(files, key=lambda file: file[0]):
        with suppress(FileNotFoundError):  # deleted since it was listed
            yield _stat(path, entry.stat())


def _stat(path: str, info: os.stat_result) -> Stat:
    return Stat(path=path, size=info.st_size, modified_ms=info.st_mtime_ns // 1_000_000)


@contextmanager
def _faults(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "check the disk and its permissions, then try again"
        raise StorageFault(f"could not {verb} {path}: {error.strerror}", remedy=remedy) from error
