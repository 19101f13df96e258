"""A deletion vector that is damaged, or of another format, is refused: deleted rows are never
shown."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.delta_table import vector_data, vector_file, z85
from turnstile_rows.errors import Unsupported
from turnstile_rows.vectors import deleted_rows

DATA: Final = vector_data([1, 5])


def descriptor(data: bytes = DATA, cardinality: int = 2, size: int | None = None) -> dict[str, Any]:
    return {"storageType": "p", "sizeInBytes": len(data) if size is None else size, "cardinality": cardinality}


def inline(data: bytes, cardinality: int = 2, size: int | None = None) -> dict[str, Any]:
    padded = data + b"\0" * (-len(data) % 4)
    return {**descriptor(data, cardinality, size), "storageType": "i", "pathOrInlineDv": z85(padded)}


def test_a_vector_of_a_file_and_one_of_the_log_are_the_same_rows() -> None:
    assert [*deleted_rows(descriptor(), vector_file(DATA))] == [*deleted_rows(inline(DATA), None)] == [1, 5]


@pytest.mark.parametrize(
    ("vector", "content", "problem"),
    [
        (descriptor(), vector_file(DATA, size=len(DATA) + 1), "size or checksum"),
        (descriptor(), vector_file(DATA, checksum=1), "size or checksum"),
        (descriptor(), vector_file(DATA)[:-5], "size or checksum"),
        (descriptor(b"none" + DATA[4:]), vector_file(b"none" + DATA[4:]), "format"),
        (inline(b"none" + DATA[4:]), None, "format"),
        (inline(DATA, size=len(DATA) + 8), None, "format"),
        (descriptor(cardinality=1), vector_file(DATA), "has 2 rows, and the log says 1"),
        (inline(DATA, cardinality=3), None, "has 2 rows, and the log says 3"),
        ({**descriptor(), "pathOrInlineDv": "no base 85 ~~~"}, None, "base 85"),
    ],
)
def test_a_vector_that_is_not_what_the_log_says_is_refused(
    vector: dict[str, Any], content: bytes | None, problem: str
) -> None:
    with pytest.raises(Unsupported, match=problem):
        deleted_rows(vector, content)
