"""The deleted rows of data files of an Iceberg table, by its position deletes and deletion vectors.
Needs pyarrow and pyroaring.

Source: table specification, "Position Delete Files", "Deletion Vectors"; Puffin specification,
``deletion-vector-v1``: the blob has the form of a deletion vector of Delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from pyroaring import BitMap64

from turnstile.expectations.core.conditions import NotEvaluated
from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.content_files import ContentFile
from turnstile.planning.file_rows import TableFiles
from turnstile_rows.vectors import FRAME_BYTES, deleted_rows

POSITIONS_MAX: Final = 5_000_000
"""Rows of the position deletes of one table that are read."""
_PATH: Final = "file_path"
_POSITION: Final = "pos"
_BATCH: Final = 65_536


class DeletedRows:
    """Deleted rows by the delete files of one table, each of which is read once."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._left = POSITIONS_MAX
        self._read: dict[str, Mapping[str, BitMap64]] = {}

    def of(self, path: str, deletes: Iterable[ContentFile]) -> BitMap64:
        """Returns the numbers of the deleted rows of the data file ``path``. Raises NotEvaluated
        for ``deletes`` that are not read here, or are too many; TableError; and pyarrow's
        exceptions for a file that is damaged."""
        rows = BitMap64()
        for delete in deletes:
            if delete.content == manifests.EQUALITY_DELETES:
                problem = f"the equality deletes {delete.path[-200:]!r} concern {path[-200:]!r}"
                raise NotEvaluated(f"{problem}, and they are not read here")
            rows |= self._vector(delete) if delete.is_vector else self._positions(delete).get(path, BitMap64())
        return rows

    def _vector(self, delete: ContentFile) -> BitMap64:
        offset = delete.record.get(manifests.CONTENT_OFFSET)
        size = delete.record.get(manifests.CONTENT_BYTES)
        if type(offset) is not int or type(size) is not int or offset < 0 or size <= FRAME_BYTES:
            raise NotEvaluated(f"the place of the deletion vector in {delete.path[-200:]!r} is not known")
        stored = self._files.read_range(place_of_file(delete.path), size, offset)
        described = {"sizeInBytes": size - FRAME_BYTES, "cardinality": delete.record[manifests.RECORD_COUNT]}
        try:
            return deleted_rows(described, stored)
        except ValueError as error:
            raise NotEvaluated(f"the deletion vector in {delete.path[-200:]!r} is damaged: {error}") from None

    def _positions(self, delete: ContentFile) -> Mapping[str, BitMap64]:
        """The deleted rows of each data file that a file of position deletes names."""
        if delete.path not in self._read:
            if str(delete.record.get(manifests.FILE_FORMAT)).lower() != "parquet":
                raise NotEvaluated(f"the position deletes {delete.path[-200:]!r} are no Parquet file")
            self._read[delete.path] = self._read_positions(delete.path)
        return self._read[delete.path]

    def _read_positions(self, path: str) -> Mapping[str, BitMap64]:
        found: dict[str, BitMap64] = {}
        with self._files.parquet(place_of_file(path), (_PATH, _POSITION)) as parquet:
            if not {_PATH, _POSITION} <= {*parquet.schema_arrow.names}:
                raise NotEvaluated(f"the position deletes {path[-200:]!r} lack a column")
            self._left -= parquet.metadata.num_rows
            if self._left < 0:
                raise NotEvaluated(f"the table has more than {POSITIONS_MAX} position deletes")
            for batch in parquet.iter_batches(_BATCH, columns=[_PATH, _POSITION]):
                _add(found, batch, path)
        return found


def _add(found: dict[str, BitMap64], batch: pa.RecordBatch, path: str) -> None:
    grouped: Any = pa.Table.from_batches([batch]).group_by(_PATH).aggregate([(_POSITION, "list")])
    try:
        for file, rows in zip(grouped[_PATH].to_pylist(), grouped[f"{_POSITION}_list"].to_pylist(), strict=True):
            found.setdefault(file, BitMap64()).update(rows)
    except (TypeError, ValueError, OverflowError):
        raise NotEvaluated(f"the position deletes {path[-200:]!r} have a position that is none") from None


def place_of_file(path: str) -> str:
    """Returns the path of a file as ``TableFiles`` reads it: a URI."""
    return quote(path, safe="/:")
