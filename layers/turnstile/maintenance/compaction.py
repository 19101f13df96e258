"""Log compaction files: one file in place of several commits, ``<x>.<y>.compacted.json``.

It holds, of each key, the newest action of these commits, as the line that its commit has.
Tombstones of files, of domains and of transactions stay, however old: they override actions before
the first commit.

Source: Delta protocol, "Log Compaction Files", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.segments import file_key, vector_id
from turnstile.delta.core.soundness import missing
from turnstile.delta.log.lines import DamagedLog, commit_lines, where_of
from turnstile.maintenance.file_actions import actions_of_line
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage

_KEYS = {"protocol": "", "metaData": "", "txn": "appId", "domainMetadata": "domain"}
_BYTES = 1024 * 1024


def compacted_path(first: int, last: int) -> str:
    """Path of the log compaction file of these versions."""
    return f"{LOG}{first:020d}.{last:020d}.compacted.json"


def write_compaction(storage: LogStorage, first: int, last: int, guard: Callable[[], None] = lambda: None) -> bool:
    """Writes the log compaction file of the published versions ``first`` to ``last``; False if it
    is there. ``guard`` is called before the file is created, and its error is raised. Raises
    UnsupportedTable for commits that cannot be read.
    """
    path = compacted_path(first, last)
    return storage.stat(path) is None and storage.put_if_absent(path, _pieces(storage, first, last, guard))


def _pieces(storage: LogStorage, first: int, last: int, guard: Callable[[], None]) -> Iterator[bytes]:
    held = bytearray()
    for line in _newest(storage, first, last):
        held += line + b"\n"
        if len(held) > _BYTES:
            yield bytes(held)
            held.clear()
    guard()
    yield bytes(held)


def _newest(storage: LogStorage, first: int, last: int) -> Iterator[bytes]:
    """The lines that no later one of these commits overrides, the newest commit first."""
    seen: dict[Any, int] = {}
    for version in range(last, first - 1, -1):
        where = where_of(version)
        path = published_path(version)
        file = storage.read(path, PIECE_BYTES)
        if file is None:
            raise DamagedLog(missing(version))
        for line in commit_lines(pieces_of(storage, path, *file), version):
            key = _key(line, where)
            if key is not None and seen.setdefault(key, version) == version:
                yield line


def _key(line: bytes, where: str) -> Any:
    """The key of a line's action, of which the newest counts; None for an action that is not
    kept."""
    add, remove = actions_of_line(line, where)
    action = add or remove
    if action is not None:
        return file_key(action.path, vector_id(action.deletionVector))
    for name, body in msgspec.json.decode(line, type=dict[str, Any]).items():
        if name in _KEYS:
            return name, str(body.get(_KEYS[name]))
    return None
