"""The home folder of an embedded stack: its files, its locks, and ``stack.json``.

The stack keeps no file outside its home.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from turnstile_local.settings import Keys


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
        """The address and keys that a program needs to reach the stack. Readable by its owner only,
        because of the token."""
        return self.home / "stack.json"

    @property
    def lock(self) -> Path:
        """Held by the running gateway for as long as it lives, so that a left-over pid is not taken
        for a live one."""
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
        """The functions' log, one line a request and one for its metrics."""
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
    def deployment_digest(self) -> Path:
        """Digest of the deployment of the running stack."""
        return self.state / "deployed.digest"

    @property
    def saved_digest(self) -> Path:
        """Digest of the deployment in the emulator's state on disk: a stack that was killed leaves
        an older one."""
        return self.state / "saved.digest"

    @property
    def tables(self) -> Path:
        """The emulated DynamoDB as it was last written."""
        return self.state / "dynamodb.json"

    @property
    def running(self) -> Path:
        """There while a stack runs, and left over by one that was killed, or could not write its
        tables."""
        return self.state / "running"

    @property
    def recovery_marker(self) -> Path:
        """There from a start after a kill until every table has been marked ``recovering``; its
        time is that of the tables."""
        return self.state / "lost"

    def note_start(self) -> None:
        """Notes that a stack runs, and whether the one before was killed."""
        if self.running.exists() and not self.recovery_marker.exists():
            self.recovery_marker.touch()
            if self.tables.exists():
                written = self.tables.stat().st_mtime
                os.utime(self.recovery_marker, (written, written))
        self.running.touch()

    def note_end(self, *, saved: bool) -> None:
        """Notes an orderly stop; ``saved`` whether the tables are written as they are."""
        if saved:
            self.running.unlink(missing_ok=True)

    def create(self) -> None:
        """Creates the folders; files that may hold secrets are for their owner only."""
        for folder in (self.home, self.lake):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.log.parent, self.state, self.s3, self.tmp):
            folder.mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True)
class StackState:
    """The contents of ``stack.json``. ``started`` is in milliseconds since the epoch; ``token`` is
    empty when the API is open; ``outputs`` are the outputs of template.yaml; ``keys`` sign the
    access tokens that the stack issues; ``access_key`` and ``secret_key`` sign requests to the
    emulated AWS. ``was_killed``: the stack before this one was killed. Then ``lost_since`` is when
    its tables were written for the last time (0: never), and ``recovering`` how many tables had to
    be stopped.
    """

    pid: int
    port: int
    url: str
    token: str = field(repr=False)
    lake_root: str
    started: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    keys: str = field(default="", repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    was_killed: bool = False
    lost_since: int = 0
    recovering: int = 0

    @property
    def aws_keys(self) -> Keys:
        """The keys that sign requests to the emulated AWS."""
        return Keys(self.access_key, self.secret_key)

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
