"""Structs that one process of a server tells the others: a file of the runtime folder, replaced as
a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class StructFile(Generic[T]):
    """A file with one struct.

    Args:
        nothing: the result of reading a missing or damaged file.
    """

    def __init__(self, path: Path, nothing: T) -> None:
        self._path = path
        self._nothing = nothing
        self._file = (0, 0)
        self._last = nothing

    def write(self, struct: T) -> None:
        """Replaces the contents of the file. Raises OSError."""
        whole = self._path.with_suffix(".new")
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(struct))
        whole.replace(self._path)

    def read(self) -> T:
        """Returns the struct that was written last."""
        try:
            stat = self._path.stat()
            file = stat.st_ino, stat.st_mtime_ns
            if file != self._file:
                self._last = msgspec.json.decode(self._path.read_bytes(), type=type(self._nothing))
                self._file = file
        except (OSError, msgspec.DecodeError):
            self._last = self._nothing
            self._file = (0, 0)
        return self._last
