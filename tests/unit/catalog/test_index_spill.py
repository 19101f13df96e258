"""An index in two layers, against a plain dictionary: spilling, splitting, joining, and commits
that stay readable."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from turnstile.catalog.core.index import (
    Directory,
    Index,
    IndexEntry,
    LayeredIndex,
    Segment,
    pack_directory,
    position_of,
    segment_of,
    separator,
    stop_of,
    unpack,
    unpack_directory,
)
from turnstile.catalog.core.spill import spill
from turnstile.store.core.limits import SpillLimits

SMALL = SpillLimits(embedded=120, segment=400)
keys = st.text(alphabet="ab\x00é", min_size=1, max_size=5)
wanted = st.dictionaries(keys, st.integers(0, 9), max_size=25)


class Stored:
    """Segments in a dictionary; every read is counted."""

    def __init__(self) -> None:
        self.segments: dict[str, bytes] = {}
        self.reads = 0

    def load(self, id: str) -> Index:
        self.reads += 1
        return unpack(self.segments[id])

    def peek(self, id: str) -> Index | None:
        return None


def entry(value: int) -> IndexEntry:
    return IndexEntry("table", f"entity/{value:04d}")


def entries(values: Mapping[str, int]) -> dict[str, IndexEntry]:
    return {key: entry(value) for key, value in values.items()}


class Kept:
    """An index through its changes, as commits make them."""

    def __init__(self, limits: SpillLimits = SMALL) -> None:
        self.stored = Stored()
        self.limits = limits
        self._ids = count()
        self.index = LayeredIndex(Index(), (), self.stored)
        self.written: list[int] = []

    def change(self, put: Mapping[str, IndexEntry], remove: tuple[str, ...] = (), patience: float = 0) -> None:
        embedded = self.index.with_changes(put, remove)
        after = spill(
            embedded,
            self.index.directory,
            self.limits,
            load=self.stored.load,
            new_id=lambda: f"segment/{next(self._ids):04x}",
            patience=patience,
        )
        for id, index in after.written.items():
            assert id not in self.stored.segments, "segments are written once"
            self.stored.segments[id] = index.packed_bytes
        self.written.append(len(after.written))
        self.index = LayeredIndex(after.embedded, unpack_directory(pack_directory(after.directory)), self.stored)


class SpillMachine(RuleBasedStateMachine):
    """Puts and removals, one by one and in bulk, against a dictionary; old states must stay as they
    were."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = Kept()
        self.model: dict[str, IndexEntry] = {}
        self.before: list[tuple[LayeredIndex, dict[str, IndexEntry]]] = []

    def _remember(self) -> None:
        self.before = [*self.before[-5:], (self.kept.index, dict(self.model))]

    @rule(put=wanted, patience=st.floats(0, 0.99))
    def put_many(self, put: dict[str, int], patience: float) -> None:
        self._remember()
        self.kept.change(entries(put), patience=patience)
        self.model.update(entries(put))

    @rule(key=keys, value=st.integers(0, 9))
    def put_one(self, key: str, value: int) -> None:
        self._remember()
        self.kept.change({key: entry(value)})
        self.model[key] = entry(value)
        assert self.kept.written[-1] <= 1

    @rule(start=keys, width=st.integers(1, 60))
    def put_a_run(self, start: str, width: int) -> None:
        self._remember()
        run = {f"{start}{number:03d}": entry(number) for number in range(width)}
        self.kept.change(run)
        self.model.update(run)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), most=st.integers(1, 40))
    def remove(self, data: st.DataObject, most: int) -> None:
        self._remember()
        names = sorted(self.model)
        at = data.draw(st.integers(0, len(names) - 1))
        gone = tuple(names[at : at + most])
        self.kept.change({}, gone)
        for key in gone:
            del self.model[key]

    @rule(key=keys)
    def remove_what_may_not_be_there(self, key: str) -> None:
        self._remember()
        self.kept.change({}, (key,))
        self.model.pop(key, None)

    @rule(key=keys)
    def a_look_up_reads_one_segment_at_most(self, key: str) -> None:
        reads = self.kept.stored.reads
        assert self.kept.index.get(key) == self.model.get(key)
        assert self.kept.stored.reads - reads <= 1

    @rule(start=keys, stop=keys)
    def ranges_are_those_of_the_model(self, start: str, stop: str) -> None:
        expected = [(key, self.model[key]) for key in sorted(self.model) if start <= key < stop]
        assert list(self.kept.index.iterate(start, stop)) == expected
        assert list(self.kept.index.iterate(start, stop, reverse=True)) == expected[::-1]
        assert self.kept.index.first(start) == next(
            ((key, self.model[key]) for key in sorted(self.model) if key >= start), None
        )

    @rule(stop=st.none() | keys)
    def the_last_before_a_key_is_that_of_the_model(self, stop: str | None) -> None:
        before = [key for key in sorted(self.model) if stop is None or key < stop]
        reads = self.kept.stored.reads
        item = self.kept.index.last(stop)
        assert item == ((before[-1], self.model[before[-1]]) if before else None)
        assert before or self.kept.stored.reads - reads <= len(self.kept.index.directory)

    @invariant()
    def everything_is_there_in_order(self) -> None:
        assert dict(self.kept.index.iterate()) == self.model
        assert [key for key, _ in self.kept.index.iterate()] == sorted(self.model)

    @invariant()
    def older_commits_read_what_they_did(self) -> None:
        """I9: segments are shared and never changed."""
        for index, model in self.before:
            assert dict(index.iterate()) == model

    @invariant()
    def the_directory_is_a_partition_and_layers_keep_their_limits(self) -> None:
        firsts = [segment.first for segment in self.kept.index.directory]
        assert firsts == sorted(set(firsts))
        assert firsts[:1] in ([], [""])
        limit = max(SMALL.embedded, len(pack_directory(self.kept.index.directory)))
        assert len(self.kept.index.embedded.packed_bytes) <= 4 * limit
        for segment in self.kept.index.directory:
            if segment.obj:
                assert len(self.kept.stored.segments[segment.obj]) <= SMALL.segment


SpillMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestSpillModel = SpillMachine.TestCase


@given(st.lists(st.tuples(keys, st.integers(0, 2**40), st.integers(0, 10**6)), unique_by=lambda one: one[0]))
def test_a_directory_survives_packing(rows: list[tuple[str, int, int]]) -> None:
    directory: Directory = tuple(
        Segment(first, f"segment/{id:032x}" if id % 3 else ("segment/odd" if id % 2 else ""), weight)
        for first, id, weight in sorted(rows)
    )
    assert unpack_directory(pack_directory(directory)) == directory


@given(keys, keys)
def test_a_separator_parts_two_keys_and_is_no_longer_than_it_must(one: str, other: str) -> None:
    if one == other:
        return
    left, right = sorted((one, other))
    key = separator(left, right)
    assert left < key <= right
    assert right.startswith(key)
    assert not left < key[:-1]


def test_every_key_lies_in_exactly_one_range() -> None:
    directory = (Segment("", "a"), Segment("b", ""), Segment("bb", "c"))
    assert [position_of(directory, key) for key in ("", "a", "b", "ba", "bb", "z")] == [0, 0, 1, 1, 2, 2]
    assert [stop_of(directory, at) for at in range(3)] == ["b", "bb", None]
    assert segment_of(directory, "bz") == "c" and segment_of(directory, "ba") == "" and segment_of((), "x") == ""


def test_a_directory_of_a_later_format_is_refused_instead_of_misread() -> None:
    """Better no answer than "no such table" for one that was spilled (I9)."""
    with pytest.raises(ValueError, match="format 2"):
        unpack_directory(msgspec.msgpack.encode((2, [])))


def test_names_that_only_grow_leave_full_segments_behind() -> None:
    kept = Kept(SpillLimits(embedded=500, segment=4000))
    for number in range(2000):
        kept.change({f"events_{number:06d}": entry(number)})
    weights = [segment.weight for segment in kept.index.directory[:-1]]
    assert sum(weights) / len(weights) > 3000
    assert max(kept.written) == 1
    assert sum(kept.written) < 2000 * len("events_000000") / 500 * 2


def test_segments_that_became_small_are_joined() -> None:
    kept = Kept(SpillLimits(embedded=300, segment=2000))
    names = [f"t{number:04d}" for number in range(1500)]
    kept.change({name: entry(number) for number, name in enumerate(names)})
    many = len(kept.index.directory)
    for name in names[: len(names) * 19 // 20]:
        kept.change({}, (name,))
    assert many > 10
    assert len(kept.index.directory) < many / 2
    assert [key for key, _ in kept.index.iterate()] == names[len(names) * 19 // 20 :]


def test_burials_of_what_was_never_spilled_write_no_segment() -> None:
    kept = Kept(SpillLimits(embedded=200, segment=2000))
    kept.change({f"t{number:03d}": entry(number) for number in range(40)})
    assert kept.index.directory
    written = sum(kept.written)
    for number in range(200):
        kept.change({}, (f"tmp{number}",))
    assert sum(kept.written) == written
    assert len(list(kept.index.iterate())) == 40


def test_writers_wait_differently_long_before_they_spill() -> None:
    def began(patience: float) -> int:
        kept = Kept()
        while not kept.index.directory:
            kept.change({f"t{len(kept.written):03d}": entry(1)}, patience=patience)
        return len(kept.written)

    assert began(0) < began(0.5) < began(0.99) < 3 * began(0)


def test_going_backwards_reads_only_the_segments_that_it_crosses() -> None:
    kept = Kept()
    kept.change(entries({f"n{number:04d}": number % 10 for number in range(300)}))
    assert len(kept.index.directory) > 5
    reads = kept.stored.reads
    backwards = kept.index.iterate(reverse=True)
    assert [next(backwards)[0] for _ in range(3)] == ["n0299", "n0298", "n0297"]
    assert kept.stored.reads - reads <= 1
