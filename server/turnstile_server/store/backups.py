"""Operations on the SQLite store of a home: back it up, restore a backup, check it, and open a
closed server.

A backup may be taken while servers use the store. A restore needs the store for itself: no server
may run in the home, and no process may have the file open. A restored store is behind its lake (ADR
65).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from turnstile.adapters.sqlite import copies
from turnstile.adapters.sqlite.file import problem_in
from turnstile.store.core.errors import TurnstileError
from turnstile_release import version
from turnstile_server.errors import BadSettings, NotRunning, ServerError
from turnstile_server.home import Home, ServerState, is_locked
from turnstile_server.settings import ServerSettings

T = TypeVar("T")

_ELSEWHERE: Final = "DynamoDB has backups of its own: docs/operations.md, Restore"


@dataclass(frozen=True)
class Finding:
    """One check of a store, as ``doctor`` prints it: ``result`` is ``ok``, ``warning`` or
    ``failed``."""

    name: str
    result: str
    message: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        return asdict(self)


def store_of(home: Path, store: str = "") -> Path:
    """Returns the file of the home's store, or of the one that ``store`` names. Raises BadSettings
    where it is no SQLite file."""
    place = Home.at(home)
    previous = ServerState.read(place)
    settings = ServerSettings(str(place.path), store=store or (previous.of_home(place).store if previous else ""))
    if settings.store_kind != "sqlite":
        raise BadSettings(f"the store {settings.store} is no SQLite file", _ELSEWHERE)
    return Path(settings.store_place).absolute()


def back_up(home: Path, folder: Path, store: str = "") -> dict[str, Any]:
    """Takes a backup into ``folder``; returns its manifest. Raises ServerError."""
    path = store_of(home, store)
    manifest = _with_server_errors(lambda: copies.back_up(path, folder, now_ms=_now_ms(), release=version()))
    return {"folder": str(folder.absolute()), **msgspec.to_builtins(manifest)}


def restore(home: Path, folder: Path, store: str = "") -> dict[str, Any]:
    """Replaces the home's store by the backup in ``folder``. Returns the backup's manifest, and the
    folder that keeps the replaced store. Raises ServerError, also while a server runs in the home
    or a process has the file open.
    """
    path = store_of(home, store)
    place = Home.at(home)
    if is_locked(place.lock):
        raise ServerError(
            f"a server is running in {place.path}; nothing was changed",
            remedy=f"stop it with 'turnstile down --home {place.path}', and run the command again",
            kind="AlreadyRunning",
        )
    kept = _with_server_errors(lambda: copies.put_back(folder, path, now_ms=_now_ms()))
    manifest = _with_server_errors(lambda: copies.read(folder))
    return {"store": str(path), "kept": "" if kept is None else str(kept), "backup": msgspec.to_builtins(manifest)}


def check(home: Path, store: str = "") -> list[Finding]:
    """Returns the findings of SQLite's own check of the home's store, indexes included. A server
    may run meanwhile. Raises BadSettings."""
    path = store_of(home, store)
    findings = []
    wal = path.with_name(f"{path.name}-wal")
    if copies.was_used(path) and not wal.exists():
        text = (
            f"{path} was in use when its server ended or it was copied, and its -wal file is missing: the last commits "
            f"are not in it"
        )
        remedy = "put the -wal file back, or start with 'turnstile up --closed' and run 'turnstile repair --all'"
        findings.append(Finding("store wal", "failed", text, remedy))
    began = time.monotonic()
    try:
        problem = problem_in(path)
    except TurnstileError as error:
        return [*findings, Finding("store file", "failed", error.message, error.remedy or "")]
    if problem is not None:
        remedy = "put a backup back: 'turnstile restore'"
        return [*findings, Finding("store file", "failed", f"{path} is damaged: {problem}", remedy)]
    took_s = time.monotonic() - began
    return [*findings, Finding("store file", "ok", f"{path} is whole: every page and index was read in {took_s:.1f} s")]


def open_server(home: Path) -> bool:
    """Lets changes into the server of a home that was started closed; returns whether it was.
    Raises NotRunning."""
    place = Home.at(home)
    if not is_locked(place.lock):
        raise NotRunning(place.path)
    was_closed = place.closed_marker.exists()
    place.closed_marker.unlink(missing_ok=True)
    return was_closed


def _with_server_errors(action: Callable[[], T]) -> T:
    try:
        return action()
    except TurnstileError as error:
        raise ServerError(error.message, remedy=error.remedy or "", kind=error.type) from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
