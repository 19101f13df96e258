"""The bound on the bytes of data files that one request reads."""

from __future__ import annotations

from typing import Final

from turnstile_rows.errors import TableError

_EXPANSION: Final = 8
"""How much longer columns may be than the files of a request that reads whole files."""


class ReadBudget:
    """Bytes that one request may read of large files and of deletion vectors; of small files too if
    ``small_files``, and then the columns after decompression are bounded, too."""

    def __init__(self, size: int, *, small_files: bool = False) -> None:
        self._size = size
        self._left = size
        self.small_files = small_files
        self._expanded_left = _EXPANSION * size

    def count(self, size: int) -> None:
        """Counts bytes that are read. Raises TableError where they are too many."""
        self._left -= size
        if self._left < 0:
            raise TableError(f"more than {self._size} bytes would be read")

    def count_expanded(self, size: int) -> None:
        """Counts bytes of columns after decompression, as a file's footer has them. Raises
        TableError where they are too many."""
        if self.small_files:
            self._expanded_left -= size
            if self._expanded_left < 0:
                raise TableError(f"its columns have more than {_EXPANSION * self._size} bytes")
