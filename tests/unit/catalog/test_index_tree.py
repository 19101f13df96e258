"""A catalog at one HEAD: namespaces, tables, children, names that are prefixes of each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.catalog.core.entities import NAMESPACE, TABLE, Namespace, Table, decode, encode, kind_of
from turnstile.catalog.core.index import GONE, Index, IndexEntry, Segment, pack, pack_directory
from turnstile.catalog.core.paths import key_of, path_of
from turnstile.catalog.core.tree import CatalogCommit, Tree, decode_commit, encode_commit
from turnstile.store.core.errors import NotFound

NAMES = {
    ("a",): NAMESPACE,
    ("a", "t"): TABLE,
    ("a", "b"): NAMESPACE,
    ("a", "b", "t"): TABLE,
    ("a", "b", "c"): NAMESPACE,
    ("a", "b-x"): TABLE,
    ("a-b",): NAMESPACE,
    ("a-b", "t"): TABLE,
    ("a_b",): NAMESPACE,
    ("a9",): NAMESPACE,
    ("A0",): NAMESPACE,
    ("gone",): GONE,
}


class Stored:
    """Segments in a dictionary."""

    def __init__(self, segments: dict[str, Index] | None = None) -> None:
        self.segments = segments or {}

    def load(self, id: str) -> Index:
        return self.segments[id]

    peek = load


def tree(names: dict[tuple[str, ...], str] = NAMES) -> Tree:
    index = Index().with_changes(
        {
            key_of(path): IndexEntry(kind, "entity/" + "/".join(path), "id" if kind == TABLE else "")
            for path, kind in names.items()
        }
    )
    return Tree.of("main", "commit/1", CatalogCommit(0, (), "", 0, pack(index)), Stored())


def children(path: tuple[str, ...], kind: str, after: str = "") -> list[str]:
    return [path_of(key)[-1] for key, _ in tree().children(path, kind, after)]


def test_children_are_direct_in_order_and_never_those_of_a_name_that_only_starts_alike() -> None:
    assert children((), NAMESPACE) == ["a", "a-b", "a0", "a9", "a_b"]
    assert children(("a",), NAMESPACE) == ["b"]
    assert children(("a",), TABLE) == ["b-x", "t"]
    assert children(("a", "b"), TABLE) == ["t"]
    assert children(("a-b",), TABLE) == ["t"]
    assert children(("a9",), TABLE) == []


def test_children_go_on_after_a_key_without_its_subtree() -> None:
    assert children((), NAMESPACE, key_of(("a",))) == ["a-b", "a0", "a9", "a_b"]
    assert children(("a",), TABLE, key_of(("a", "b-x"))) == ["t"]


def test_children_and_subtrees_backwards() -> None:
    assert [key for key, _ in tree().children((), NAMESPACE, reverse=True)] == ["a_b", "a9", "a0", "a-b", "a"]
    assert [key for key, _ in tree().children((), NAMESPACE, "a9", reverse=True)] == ["a0", "a-b", "a"]
    assert [path_of(key)[-1] for key, _ in tree().children(("a",), TABLE, reverse=True)] == ["t", "b-x"]
    assert [key for key, _ in tree().children((), NAMESPACE, "a0", reverse=True)] == ["a-b", "a"]
    below = [path_of(key) for key, _ in tree().subtree(("a",), key_of(("a", "b-x")), reverse=True)]
    assert below == [("a", "b", "t"), ("a", "b", "c"), ("a", "b")]


levels = st.sampled_from(["a", "a-b", "ab", "b", "é", "z"])
paths = st.lists(levels, min_size=1, max_size=3).map(tuple)


@given(st.dictionaries(paths, st.booleans(), max_size=20), paths | st.just(()), st.none() | paths)
def test_i9_walking_a_tree_both_ways_is_walking_a_dictionary(
    tables: dict[tuple[str, ...], bool], root: tuple[str, ...], after: tuple[str, ...] | None
) -> None:
    """Half of the entries are spilled, some of them buried; parents are namespaces."""
    names = {path[:depth]: NAMESPACE for path in tables for depth in range(1, len(path))}
    names = {**dict.fromkeys(tables, TABLE), **names}
    entries = {key_of(path): IndexEntry(kind, "entity/1") for path, kind in names.items()}
    under = {key: entry for at, (key, entry) in enumerate(entries.items()) if at % 2}
    buried = {key_of((*path, "gone")): IndexEntry(TABLE, "entity/2") for path in names}
    over = {key: entry for key, entry in entries.items() if key not in under}
    over |= {key: IndexEntry(GONE, "") for key in buried}
    stored = Stored({"segment/1": Index().with_changes(under | buried)})
    directory = pack_directory((Segment("", "segment/1", 1),))
    tree = Tree.of("main", "h", CatalogCommit(0, (), "", 0, pack(Index().with_changes(over)), directory), stored)
    below = {path: kind for path, kind in names.items() if path[: len(root)] == root and path != root}
    keys = sorted(key_of(path) for path in below)
    mark = key_of(after) if after is not None else ""
    assert [key for key, _ in tree.subtree(root, mark)] == [key for key in keys if key > mark]
    expected = [key for key in reversed(keys) if not mark or key < mark]
    assert [key for key, _ in tree.subtree(root, mark, reverse=True)] == expected
    for kind in (NAMESPACE, TABLE):
        direct = sorted(key_of(path) for path, one in below.items() if len(path) == len(root) + 1 and one == kind)
        assert [key for key, _ in tree.children(root, kind)] == direct
        assert [key for key, _ in tree.children(root, kind, reverse=True)] == direct[::-1]
        if mark in direct:
            at = direct.index(mark)
            assert [key for key, _ in tree.children(root, kind, mark)] == direct[at + 1 :]
            assert [key for key, _ in tree.children(root, kind, mark, reverse=True)] == direct[:at][::-1]


def test_a_subtree_is_everything_below_and_nothing_beside() -> None:
    below = [path_of(key) for key, _ in tree().subtree(("a",))]
    assert below == [("a", "b"), ("a", "b", "c"), ("a", "b", "t"), ("a", "b-x"), ("a", "t")]
    assert [path_of(key) for key, _ in tree().subtree(())] == sorted(
        (tuple(level.lower() for level in path) for path, kind in NAMES.items() if kind != GONE), key=key_of
    )


def test_a_name_leads_to_what_it_names_in_any_case() -> None:
    assert tree().table(("A", "B"), "T").obj == "entity/a/b/t"
    assert tree().namespace(("a0",)).obj == "entity/A0"


@pytest.mark.parametrize(
    ("namespace", "table", "missing"),
    [
        (("a",), "x", "NoSuchTable"),
        (("a",), "b", "NoSuchTable"),  # a namespace is no table
        (("x",), "t", "NoSuchNamespace"),
        (("a", "t"), "x", "NoSuchNamespace"),  # a table is no namespace
        (("gone",), "t", "NoSuchNamespace"),  # removed, however it is marked
    ],
)
def test_what_is_missing_is_said(namespace: tuple[str, ...], table: str, missing: str) -> None:
    with pytest.raises(NotFound) as refused:
        tree().table(namespace, table)
    assert refused.value.type == missing


def test_a_removed_name_that_lies_over_a_segment_leads_nowhere() -> None:
    """The embedded entry wins, and so does an embedded burial."""
    spilled = Index().with_changes(
        {key_of(path): IndexEntry(NAMESPACE, "old") for path in (("a",), ("gone",), ("kept",))}
    )
    embedded = Index().with_changes(
        {key_of(("a",)): IndexEntry(NAMESPACE, "new"), key_of(("gone",)): IndexEntry(GONE, "")}
    )
    directory = pack_directory((Segment("", "segment/1", 1),))
    tree = Tree.of("main", "h", CatalogCommit(0, (), "", 0, pack(embedded), directory), Stored({"segment/1": spilled}))
    assert tree.find(("gone",)) is None
    assert [(path_of(key)[0], entry.obj) for key, entry in tree.subtree(())] == [("a", "new"), ("kept", "old")]
    assert not tree.empty


def test_commits_and_entities_survive_packing_and_skip_what_later_versions_add() -> None:
    commit = CatalogCommit(7, ("commit/6",), "create", 5, pack(Index()), pack_directory((Segment("", "segment/1", 3),)))
    assert decode_commit(encode_commit(commit)) == commit
    for entity in (Namespace("N", "id", 1, "c", {"k": "v"}), Table("T", "id", "s3://b/t", 1, managed=False)):
        assert decode(encode(entity)) == entity
        assert kind_of(entity) == type(entity).__name__.lower()
