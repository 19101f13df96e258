"""The index of a catalog, against a plain dictionary."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.catalog.core.index import GONE, Index, IndexEntry, pack, unpack
from turnstile.catalog.core.paths import below, child_key, fold, key_of, past_subtree, path_of

levels = st.text(alphabet="abAB-_@9", min_size=1, max_size=4)
paths = st.lists(levels, min_size=1, max_size=3).map(tuple)
entries = st.builds(
    IndexEntry,
    kind=st.sampled_from(["namespace", "table", GONE]),
    obj=st.text(alphabet="entity/0123456789", max_size=30),
    table_id=st.one_of(st.just(""), st.uuids().map(str), st.text(max_size=8)),
)
contents = st.dictionaries(paths.map(key_of), entries, max_size=30)


def made(content: dict[str, IndexEntry]) -> Index:
    return Index().with_changes(content)


@given(contents)
def test_an_index_survives_packing_unchanged(content: dict[str, IndexEntry]) -> None:
    """I9: what a HEAD leads to is what was written."""
    index = made(content)
    assert unpack(pack(index)) == index
    assert pack(unpack(pack(index))) == pack(index)


@given(contents, paths)
def test_look_up_finds_what_a_dictionary_finds(content: dict[str, IndexEntry], path: tuple[str, ...]) -> None:
    index = made(content)
    assert len(index) == len(content)
    assert index.get(key_of(path)) == content.get(key_of(path))
    assert all(index.get(key) == entry for key, entry in content.items())


@given(contents, contents, st.lists(paths.map(key_of)))
def test_changes_make_another_index_and_leave_the_first_alone(
    content: dict[str, IndexEntry], put: dict[str, IndexEntry], remove: list[str]
) -> None:
    before = made(content)
    after = before.with_changes(put, remove)
    expected = {key: entry for key, entry in {**content, **put}.items() if key not in remove}
    assert dict(after.iterate()) == expected
    assert dict(before.iterate()) == content
    assert [key for key, _ in after.iterate()] == sorted(expected)


@given(contents, paths.map(key_of), paths.map(key_of))
def test_ranges_iterate_in_order_both_ways(content: dict[str, IndexEntry], start: str, stop: str) -> None:
    entries = list(made(content).iterate(start, stop))
    assert entries == [(key, content[key]) for key in sorted(content) if start <= key < stop]
    assert list(made(content).iterate(start, stop, reverse=True)) == entries[::-1]


@given(st.sets(paths), paths)
def test_a_subtree_is_one_range_right_after_its_root(names: set[tuple[str, ...]], root: tuple[str, ...]) -> None:
    keys = sorted({key_of(path) for path in names})
    start, stop = below(key_of(root))
    inside = [key for key in keys if start <= key and (stop is None or key < stop)]
    deeper = [
        key for key in keys if path_of(key)[: len(root)] == path_of(key_of(root)) and len(path_of(key)) > len(root)
    ]
    assert inside == deeper
    assert all(key >= past_subtree(key_of(root)) for key in keys if key > key_of(root) and key not in inside)
    assert {child_key(key_of(root), key) for key in inside} == {key_of(path_of(key)[: len(root) + 1]) for key in inside}


@given(paths)
def test_names_that_differ_by_case_only_have_one_key(path: tuple[str, ...]) -> None:
    assert key_of(path) == key_of(tuple(level.swapcase() for level in path))
    assert path_of(key_of(path)) == tuple(fold(level) for level in path)


def test_an_index_of_a_later_format_is_refused_instead_of_misread() -> None:
    with pytest.raises(ValueError, match="format 2"):
        unpack(msgspec.msgpack.encode((2, [], [])))


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_a_thousand_tables_pack_into_a_fraction_of_their_text(seed: int) -> None:
    """Prefix compression: a table costs its own name, two short ids and little else."""
    content = {
        key_of(("sales_department", f"orders_of_{seed + n:06d}")): IndexEntry(
            "table", f"entity/{1_770_000_000_000 + n:032x}", f"11111111-1111-4111-8111-{n:012d}"
        )
        for n in range(1000)
    }
    plain = sum(len(key) + len(entry.obj) + len(entry.table_id) for key, entry in content.items())
    packed = pack(made(content))
    assert len(packed) / 1000 < 40
    assert len(packed) < plain / 2


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from("abcdefgh"),
                st.builds(
                    IndexEntry, st.sampled_from(["table", "namespace", GONE]), st.sampled_from(["o/1", "o/2", "p"])
                ),
                max_size=4,
            ),
            st.lists(st.sampled_from("abcdefgh"), max_size=2),
            st.booleans(),
        ),
        max_size=6,
    )
)
@settings(max_examples=examples(100))
def test_an_index_is_packed_the_same_whatever_it_was_made_from(
    steps: list[tuple[dict[str, IndexEntry], list[str], bool]],
) -> None:
    index = Index()
    for put, remove, packs in steps:
        index = index.with_changes(put, remove)
        if packs:
            assert index.packed_bytes == pack(Index(index.keys, tuple(entry for _, entry in index.iterate())))
            assert unpack(index.packed_bytes) == index
