"""The home folder of an embedded stack: what lies where in it, its locks, and ``stack.json``.

Nothing is kept outside the home.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The folders and files of a home. Nothing is created until :meth:`create`."""

    home: Path

    @classmethod
    def at(cls, home: str | Path) -> Layout:
        return cls(Path(home).expanduser().absolute())

    @property
    def lake(self) -> Path:
        """Root of the tables when they are files."""
        return self.home / "lake"

    @property
    def state_file(self) -> Path:
        """What a program needs to reach the stack; readable by its owner only, for it holds the token."""
        return self.home / "stack.json"

    @property
    def lock(self) -> Path:
        """Held by the running gateway for as long as it lives, so that a left-over pid is not taken for a live one."""
        return self.home / "stack.lock"

    @property
    def starting(self) -> Path:
        """Held while a program starts or stops the stack: one at a time does."""
        return self.home / "starting.lock"

    @property
    def log(self) -> Path:
        """Output of the gateway."""
        return self.home / "log" / "stack.log"

    @property
    def functions_log(self) -> Path:
        """What the functions log, one line a request and one for its metrics."""
        return self.home / "log" / "functions.log"

    @property
    def state(self) -> Path:
        """The emulator's tables, functions and settings, written when it stops."""
        return self.home / "state"

    @property
    def s3(self) -> Path:
        """Objects of the emulated S3, written through."""
        return self.home / "s3"

    @property
    def tmp(self) -> Path:
        """Unpacked functions; emptied at each start."""
        return self.home / "tmp"

    @property
    def deployed(self) -> Path:
        """Digest of what the running stack has deployed."""
        return self.state / "deployed.digest"

    @property
    def saved(self) -> Path:
        """Digest of what the emulator's state on disk has deployed: a stack that was killed leaves an older one."""
        return self.state / "saved.digest"

    def create(self) -> None:
        """Creates the folders."""
        for folder in (self.home, self.lake, self.log.parent, self.state, self.s3, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class StackState:
    """The contents of ``stack.json``. ``started`` is in milliseconds since the epoch; ``token`` is empty when the API
    is open; ``outputs`` are those of template.yaml; ``keys`` sign the access tokens that the stack issues."""

    pid: int
    port: int
    url: str
    token: str
    lake_root: str
    started: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    keys: str = field(default="", repr=False)

    @property
    def refs_table(self) -> str:
        """Name of the table of HEADs."""
        return self.outputs["RefsTable"]

    @property
    def objs_table(self) -> str:
        """Name of the table of objects."""
        return self.outputs["ObjsTable"]

    @classmethod
    def read(cls, layout: Layout) -> StackState | None:
        """The state on disk; None if there is none or it is not readable."""
        try:
            raw = json.loads(layout.state_file.read_text())
            return cls(**{f.name: raw[f.name] for f in fields(cls) if f.name in raw})
        except (OSError, ValueError, TypeError):
            return None

    def write(self, layout: Layout) -> None:
        """Replaces the state on disk in one step, readable by its owner only."""
        partial = layout.state_file.with_suffix(".tmp")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(asdict(self), out, indent=2)
            out.write("\n")
        partial.replace(layout.state_file)


# Advisory file locks: the kernel releases them when their holder dies, however it dies. A pid file would stay behind.


def take_lock(path: Path, *, wait: bool = False) -> int | None:
    """Returns an open descriptor that holds the lock, None if another holds it. Closing it releases the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    handle = take_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits for the lock and holds it for the duration of the block."""
    handle = take_lock(path, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
