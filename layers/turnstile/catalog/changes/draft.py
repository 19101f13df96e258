"""Commits of catalogs before they are written: the tree with an edit, and its new objs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Table, kind_of
from turnstile.catalog.core.index import Index, IndexEntry, LayeredIndex, pack_directory
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.core.spill import spill
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.store import CatalogStore

EntityIds = dict[tuple[str, str], tuple[Entity, str]]
"""Entities of earlier attempts of a change with their ids, by key and by the obj that each
replaces."""


@dataclass(frozen=True, slots=True)
class DraftCommit:
    """A commit that is computed and not written yet: the tree that has it, the edit that it was
    made from, and its new entities and index segments by id."""

    tree: Tree
    edit: Edit
    entities: Mapping[str, Entity]
    segments: Mapping[str, Index]


def draft_commit(store: CatalogStore, now: int, tree: Tree, edit: Edit, ids: EntityIds | None = None) -> DraftCommit:
    """Returns the commit that follows ``tree``, with ``edit`` at ``now`` (ms). An entity keeps its
    id of ``ids``, which gets the new ones. Nothing is written yet."""
    placed = _place(store, tree, edit, {} if ids is None else ids)
    embedded = tree.index.with_changes(
        {**edit.entries, **{key: entry for key, (_, entry) in placed.items()}},
        [key_of(path) for path in edit.remove],
    )
    id = store.new_commit_id()
    seq = tree.commit.seq
    index = spill(
        embedded,
        tree.index.directory,
        store.limits,
        load=store.segments(tree.catalog).load,
        new_id=store.new_segment_id,
        patience=int(id[-4:], 16) / 0x1_0000,  # random, so that concurrent writers do not all spill at once
    )
    commit = CatalogCommit(
        seq=seq + 1,
        parents=parents_after(seq, tree.head, tree.commit.parents),
        message=edit.message,
        at=max(now * 1000, tree.commit.at + 1),  # the clock may be behind that of the commit before
        embedded=index.embedded.packed_bytes,
        segments=pack_directory(index.directory),
        access=tree.commit.access if edit.access is None else edit.access,
        restores=edit.restores,
        restored_by=tree.head if tree.commit.restores else tree.commit.restored_by,
        incarnation=tree.commit.incarnation,
    )
    entities = {entry.obj: entity for entity, entry in placed.values()}
    layered = LayeredIndex(index.embedded, index.directory, store.segments(tree.catalog))
    return DraftCommit(Tree(tree.catalog, id, commit, layered), edit, entities, index.written)


def _place(store: CatalogStore, tree: Tree, edit: Edit, ids: EntityIds) -> dict[str, tuple[Entity, IndexEntry]]:
    """Returns the entities of the edit with their index entries, by key. An entity keeps the id of
    an earlier attempt that put the same entity in place of the same obj."""
    placed: dict[str, tuple[Entity, IndexEntry]] = {}
    for path, entity in edit.put.items():
        before = tree.find(path)
        slot = (key_of(path), before.obj if before else "")
        earlier = ids.get(slot)
        id = earlier[1] if earlier is not None and earlier[0] == entity else store.new_entity_id(tree.catalog)
        ids[slot] = (entity, id)
        table_id = entity.table_id if isinstance(entity, Table) else ""
        placed[slot[0]] = (entity, IndexEntry(kind_of(entity), id, table_id))
    return placed
