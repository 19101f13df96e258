"""Children of one name in a tree, between bounds, from where a page before left off."""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import below, child_key, is_below, key_of, past_subtree, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.query.core.reach import Reach

Child = tuple[str, IndexEntry]


def children(tree: Tree, parent: str, reach: Reach, after: str = "") -> Iterator[Child]:
    """Direct children of the key ``parent`` whose names are in reach, in key order, with their keys.

    Names out of reach are jumped over with everything below them.

    Args:
        after: the key up to which, with its whole subtree, everything was seen before: what is there is left out. Of
            what lies around it, only the way to it is seen again.
    """
    first = _resumed(parent, after)
    if reach.only is not None:
        yield from _named(tree, parent, reach.only, first)
        return
    start, stop = below(parent)
    prefix = key_of((*path_of(parent), "")) if parent else ""
    at = max(start, prefix + reach.start, first)
    if reach.stop is not None:
        stop = min(prefix + reach.stop, stop) if stop is not None else prefix + reach.stop
    while (found := next(tree.index.iterate(at, stop), None)) is not None:  # bounded: reads no segment beyond
        child = child_key(parent, found[0])
        if child == found[0]:
            yield found
        at = past_subtree(child)


def _resumed(parent: str, after: str) -> str:
    """The first key among the children of ``parent`` that is to be seen."""
    if not after or not is_below(after, parent):
        return ""
    child = child_key(parent, after)
    return past_subtree(after) if child == after else child


def _named(tree: Tree, parent: str, names: frozenset[str], first: str) -> Iterator[Child]:
    for name in sorted(names):
        path = (*path_of(parent), name)
        key = key_of(path)
        if not name or len(path_of(key)) != len(path) or key < first:  # a NUL in a name would lead to another level
            continue
        entry = tree.find(path)
        if entry is not None:
            yield key, entry
