"""Where the embedded stack keeps what: everything under one home folder, nothing outside it."""

from __future__ import annotations

from dataclasses import dataclass
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
        """Held by the running gateway for as long as it lives, so a left-over pid is never taken for a live one."""
        return self.home / "stack.lock"

    @property
    def starting(self) -> Path:
        """Held while somebody starts or stops the stack: two do not do it at once."""
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
        """Make the folders."""
        for folder in (self.home, self.lake, self.log.parent, self.state, self.s3, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
