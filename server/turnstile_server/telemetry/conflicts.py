"""Recent commit conflicts of this server: the loser and the winner of each version.

A conflict changes nothing, so no row records it. Each process of a server appends its conflicts to
its own file in the runtime folder; a query reads the files of all processes. They are bounded and
are only for display. They are removed with the server's runtime folder.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from turnstile_server.settings import ServerSettings

FILE_BYTES_MAX: Final = 256 * 1024
"""A process keeps between one and two files of this size."""

SHOWN_MAX: Final = 1_000
"""Conflicts that are shown at most."""

_MEMBERS: Final = ("principal", "client", "proposal", "conflicts")

log = logging.getLogger("turnstile.conflicts")


def folder(settings: ServerSettings) -> Path:
    """Returns where a server's processes keep their conflicts."""
    return Path(settings.runtime) / "conflicts"


class ConflictLog:
    """Appends the conflicts of one process. ``now_ms`` is the wall clock."""

    def __init__(self, folder: Path, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / f"{os.getpid()}.jsonl"
        self._lock = threading.Lock()
        self._now_ms = now_ms

    def add(self, operation: str, notes: Mapping[str, Any]) -> None:
        """Appends a conflict that ``operation`` was answered with; ``notes`` are the members of its
        log line."""
        members = {name: notes[name] for name in _MEMBERS if name in notes}
        line = json.dumps({"at": self._now_ms(), "operation": operation, **members}, default=str).encode() + b"\n"
        try:
            with self._lock, self._path.open("ab") as file:
                if file.tell() + len(line) > FILE_BYTES_MAX:
                    self._path.replace(self._path.with_suffix(".old.jsonl"))
                    self._path.write_bytes(line)
                else:
                    file.write(line)
        except OSError:  # a full disk: the answer to the client is none the worse
            log.warning("a conflict could not be kept", exc_info=True)


def recent(folder: Path, count: int, table_id: str = "") -> list[dict[str, Any]]:
    """Returns the newest conflicts of all processes, newest first; with ``table_id`` only the
    conflicts of that table."""
    found: list[dict[str, Any]] = []
    for path in folder.glob("*.jsonl"):
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:  # replaced meanwhile
            continue
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # the last line of a process that was killed
                continue
            if not table_id or any(lost["table_id"] == table_id for lost in entry["conflicts"]):
                found.append(entry)
    return heapq.nlargest(count, found, key=lambda entry: entry["at"])
