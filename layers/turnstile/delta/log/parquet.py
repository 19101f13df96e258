"""Checkpoint files, JSON and Parquet: their actions about the table as a whole.

The deployed layer does not carry pyarrow: it is large, and checksums make it needless for tables
that Spark wrote. Without it a Parquet file cannot be read.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable
from typing import Any, Final

from turnstile.delta.commits import pieces_of
from turnstile.delta.log.lines import actions, broken
from turnstile.store.ports import PIECE_BYTES, LogStorage, Stat

UNDECODABLE: Final = (ValueError, OSError, ArithmeticError, LookupError, TypeError, MemoryError, NotImplementedError)
"""The exceptions of pyarrow for a file that is no Parquet file, or a damaged one: its own
exceptions are of these classes."""

_MAPS: Final = ("configuration", "options", "tags")


def has_parquet() -> bool:
    """Whether Parquet files can be read here."""
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        return False
    return True


def table_actions(
    storage: LogStorage, path: str, names: Iterable[str] = ("protocol", "metaData", "domainMetadata")
) -> list[tuple[str, dict[str, Any]]] | None:
    """The actions of these ``names`` in a checkpoint's file, none of them about files; None if it
    is gone, or cannot be read here."""
    if path.endswith(".json"):
        file = storage.read(path, PIECE_BYTES)
        if file is None:
            return None
        return [(name, body) for name, body in actions(pieces_of(storage, path, *file), path) if name in names]
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        return None
    stat = storage.stat(path)
    if stat is None:
        return None
    source = io.BufferedReader(Ranges(storage, stat))
    with parquet.ParquetFile(source, page_checksum_verification=True) as rows:
        columns = [name for name in names if name in rows.schema_arrow.names]
        return [
            (name, plain(body))
            for batch in rows.iter_batches(columns=columns, use_threads=False)
            for name in columns
            for body in batch.column(name).drop_null().to_pylist()
        ]


class Ranges(io.RawIOBase):
    """A file of a storage that is read where it is asked to be: Parquet's readers skip the columns
    that they do not need."""

    def __init__(self, storage: LogStorage, stat: Stat) -> None:
        self._storage = storage
        self._stat = stat
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._stat.size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), PIECE_BYTES)
        file = self._storage.read(self._stat.path, size, self._at) if size else None
        if size and (file is None or file[1] != self._stat):
            raise broken(f"{self._stat.path} changed while it was read")
        content = file[0] if file is not None else b""
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def plain(value: Any) -> Any:
    """pyarrow's maps are lists of pairs, also empty ones; members that are null were not there."""
    if isinstance(value, dict):
        members = {name: plain(member) for name, member in value.items() if member is not None}
        return {name: {} if name in _MAPS and not member else member for name, member in members.items()}
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value) and value:
        return {name: plain(member) for name, member in value}
    return [plain(member) for member in value] if isinstance(value, list) else value
