"""A deletion vector that is damaged, or of another format, is refused: deleted rows are never
shown."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import pytest
from pyroaring import BitMap64

from tests.support.delta_table import z85
from turnstile_rows.errors import Unsupported
from turnstile_rows.vectors import deleted_rows

MAGIC: Final = struct.pack("<i", 1681511377)
DATA: Final = MAGIC + BitMap64([1, 5]).serialize()


def descriptor(data: bytes = DATA, cardinality: int = 2, size: int | None = None) -> dict[str, Any]:
    return {"storageType": "p", "sizeInBytes": len(data) if size is None else size, "cardinality": cardinality}


def inline(data: bytes, cardinality: int = 2, size: int | None = None) -> dict[str, Any]:
    padded = data + b"\0" * (-len(data) % 4)
    return {**descriptor(data, cardinality, size), "storageType": "i", "pathOrInlineDv": z85(padded)}


def stored(data: bytes = DATA, size: int | None = None, checksum: int | None = None) -> bytes:
    first = struct.pack(">i", len(data) if size is None else size)
    return first + data + struct.pack(">I", zlib.crc32(data) if checksum is None else checksum)


def test_a_vector_of_a_file_and_one_of_the_log_are_the_same_rows() -> None:
    assert [*deleted_rows(descriptor(), stored())] == [*deleted_rows(inline(DATA), None)] == [1, 5]


@pytest.mark.parametrize(
    ("vector", "content", "problem"),
    [
        (descriptor(), stored(size=len(DATA) + 1), "size or checksum"),
        (descriptor(), stored(checksum=1), "size or checksum"),
        (descriptor(), stored()[:-5], "size or checksum"),
        (descriptor(b"none" + DATA[4:]), stored(b"none" + DATA[4:]), "format"),
        (inline(b"none" + DATA[4:]), None, "format"),
        (inline(DATA, size=len(DATA) + 8), None, "format"),
        (descriptor(cardinality=1), stored(), "has 2 rows, and the log says 1"),
        (inline(DATA, cardinality=3), None, "has 2 rows, and the log says 3"),
        ({**descriptor(), "pathOrInlineDv": "no base 85 ~~~"}, None, "base 85"),
    ],
)
def test_a_vector_that_is_not_what_the_log_says_is_refused(
    vector: dict[str, Any], content: bytes | None, problem: str
) -> None:
    with pytest.raises(Unsupported, match=problem):
        deleted_rows(vector, content)
