"""A row is parsed and written by one declaration; what is not stored has its default."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from turnstile.delta.core.head import Entry
from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.rows import StoredAs, StoredRow, attributes


class Sample(StoredRow, frozen=True):
    kind: ClassVar[str] = "sample"

    text: str
    number: int
    flag: bool
    binary: bytes
    texts: tuple[str, ...]
    entries: tuple[Entry, ...]
    names: frozenset[str] = frozenset()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    maybe: int | None = None


FULL = Sample("r/sample/x", "", 0, False, b"", ("a",), (Entry("t", 1, 2, "data"),), frozenset({"n"}), {"c": 1}, maybe=0)
SMALL = Sample("r/sample/x", "t", 1, True, b"x", (), ())


@pytest.mark.parametrize("sample", [FULL, SMALL])
def test_what_is_written_is_parsed_again(sample):
    assert Sample.from_row(sample.to_row()) == sample


def test_members_with_their_default_are_not_stored_but_maps_are():
    assert sorted(SMALL.to_row()) == ["binary", "counts", "entries", "flag", "key", "kind", "number", "text", "texts"]
    assert FULL.to_row()["entries"] == [FULL.entries[0].pack()]
    assert FULL.to_row()["names"] == {"n"} and FULL.to_row()["maybe"] == 0


def test_a_map_may_be_missing_and_other_attributes_are_ignored():
    row = SMALL.to_row() | {"surprise": 1}
    del row["counts"]
    assert Sample.from_row(row) == SMALL


def test_a_row_that_lacks_an_attribute_is_refused():
    row = SMALL.to_row()
    del row["number"]
    with pytest.raises(UnreadableRow, match="number"):
        Sample.from_row(row)


def test_adapters_know_what_may_be_missing():
    declared = attributes(Sample)
    assert {name for name, attribute in declared.items() if attribute.optional} == {"names", "maybe"}
    assert {attribute.stored_as for attribute in declared.values()} == set(StoredAs)
