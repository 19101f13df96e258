"""The home folder of a server: its files, its locks, and ``server.json``. A server keeps no file
outside its home."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote


@dataclass(frozen=True)
class Home:
    """The folders and files of a home. Nothing is created until :meth:`create`."""

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> Self:
        return cls(Path(path).expanduser().absolute())

    @property
    def state_file(self) -> Path:
        """The address and token that a program needs to reach the server. Readable by its owner
        only, because of the token."""
        return self.path / "server.json"

    @property
    def lock(self) -> Path:
        """Held by the main process for as long as it lives, so that a left-over pid is not taken
        for a live one."""
        return self.path / "server.lock"

    @property
    def starting(self) -> Path:
        """Held while a program starts or stops the server: one at a time does."""
        return self.path / "starting.lock"

    @property
    def log(self) -> Path:
        """Output of a server in the background."""
        return self.path / "log" / "server.log"

    @property
    def closed_marker(self) -> Path:
        """Exists while the server accepts no changes; removing it opens the server."""
        return self.path / "closed"

    def create(self) -> None:
        """Creates the folders."""
        self.log.parent.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class ServerState:
    """The contents of ``server.json``. ``token`` is empty when the API is open; ``keys`` sign the
    access tokens that the server issues; ``pids`` are its processes, the main one first;
    ``started_ms`` is since the epoch; ``runtime`` is the folder of its sockets, which it removes
    unless it is killed; ``authentication`` is ``required`` or ``none``; ``notices`` are findings of
    the start for the operator.
    """

    url: str
    port: int
    lake_root: str
    store: str
    pids: tuple[int, ...] = ()
    token: str = field(default="", repr=False)
    keys: str = field(default="", repr=False)
    started_ms: int = 0
    store_endpoint: str = ""
    runtime: str = ""
    authentication: str = ""
    notices: tuple[str, ...] = ()

    @classmethod
    def read(cls, home: Home) -> Self | None:
        """Returns the state on disk; None if there is none or it is not readable."""
        try:
            raw = json.loads(home.state_file.read_text())
            members = {field.name: raw[field.name] for field in fields(cls) if field.name in raw}
            return cls(**{**members, **{name: tuple(raw.get(name, ())) for name in ("pids", "notices")}})
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def of_home(self, home: Home) -> Self:
        """Returns the state with the home's own store and lake in place of remembered ones that do
        not exist: the home was renamed. Otherwise a start would make an empty store under the old
        name.
        """
        store = self.store
        lake_root = self.lake_root
        if not _is_there(store, "sqlite:") and (home.path / "turnstile.db").is_file():
            store = f"sqlite:{home.path / 'turnstile.db'}"
        if not _is_there(lake_root, "file://") and (home.path / "lake").is_dir():
            lake_root = (home.path / "lake").as_uri()
        return replace(self, store=store, lake_root=lake_root)

    def write(self, home: Home) -> None:
        """Replaces the state on disk in one step, readable by its owner only."""
        partial = home.state_file.with_suffix(".tmp")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(asdict(self), out, indent=2)
            out.write("\n")
        partial.replace(home.state_file)


def _is_there(place: str, scheme: str) -> bool:
    """Whether a file or folder of this machine exists; True for a location elsewhere."""
    return not place.startswith(scheme) or Path(unquote(place.removeprefix(scheme))).exists()


# Advisory file locks: the kernel releases them when their holder dies, however it dies. A pid file
# would stay behind.


def take_lock(path: Path, *, wait: bool = False) -> int | None:
    """Returns an open descriptor that holds the lock, None if another holds it. Closing it releases
    the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def is_locked(path: Path) -> bool:
    """Returns whether a living process holds the lock."""
    if not path.exists():
        return False
    handle = take_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


def has_open(pid: int, path: Path) -> bool:
    """Returns whether a process has the file open; True where the system does not tell (no
    ``/proc``). A number in a file may be that of another process by now, or of one in a container
    that shares the folder.
    """
    if not _PROCESSES.is_dir():
        return True
    try:
        wanted = path.stat()
        with os.scandir(_PROCESSES.parent / str(pid) / "fd") as entries:
            return any(_is_same(entry, wanted) for entry in entries)
    except OSError:  # it has ended, or is another user's
        return False


_PROCESSES: Final = Path("/proc/self")


def _is_same(entry: os.DirEntry[str], wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), wanted)
    except OSError:  # closed meanwhile
        return False


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Waits for the lock and holds it for the duration of the block."""
    handle = take_lock(path, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
