"""Checks catalogs: everything that a HEAD leads to exists, also for past HEADs of the kept history,
recent ones and named ones; and names, HEADs of tables and owners of locations agree (I9, I10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import HOUR
from turnstile.catalog.core.entities import Entity, decode
from turnstile.catalog.core.index import Index, IndexEntry, unpack
from turnstile.catalog.core.tree import CatalogCommit, Tree, decode_commit
from turnstile.catalog.history.core import ALL, SNAPSHOT, NamedSnapshot
from turnstile.delta.core.head import PINNED
from turnstile.gc.core import SETTLED_MS
from turnstile.store.core.writes import Row

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

REALM = "."
HISTORY = 6 * HOUR
"""How long a catalog's past is kept in simulations of tables."""


class RowSegments:
    """Index segments straight from the rows."""

    def __init__(self, state: State, space: str) -> None:
        self._state = state
        self._space = space

    def load(self, id: str) -> Index:
        obj = self._state.objs.rows.get((self._space, id))
        if obj is None:
            raise Violation("I9", f"index segment {id} does not exist")
        return unpack(obj.payload)

    peek = load


@dataclass
class SeenHead:
    """A HEAD that a catalog had, as it was the moment it became one; ``until`` when it was replaced
    (ms): by the log, if the swap that did it was on its way for longer than gc's margins allow
    for."""

    catalog: str
    id: str
    row: dict[str, Any]
    commit: CatalogCommit
    entries: dict[str, IndexEntry]
    leads_to: frozenset[str]
    until: int | None = None

    def names(self, kind: str) -> list[str]:
        """Keys of one kind, in order."""
        return [key for key, entry in self.entries.items() if entry.kind == kind]


class TreeAuditor:
    """Looks at a catalog whenever its HEAD moves, and at every obj that goes.

    Attributes:
        now: the HEAD of each catalog there is.
        heads: every HEAD there ever was, by id.
        moved: when a catalog was changed last, or gc moved its sweep mark (ms): either may refuse a
            change that is under way.
        listeners: told of a catalog's new HEAD, and of the one before.
        history_is_kept: whether the kept history must be whole. A gc run with a clock that is ahead
            removes some of it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.now: dict[str, SeenHead] = {}
        self.heads: dict[str, SeenHead] = {}
        self.moved = 0
        self.listeners: list[Callable[[SeenHead, SeenHead | None], None]] = []
        self.history_is_kept = True
        self._past: list[SeenHead] = []
        self._marks: dict[str, int | None] = {}
        self._entities: dict[str, Entity] = {}

    @audits
    def changed(self, row: dict[str, Any]) -> None:
        """The catalog's row was written."""
        state = self._state
        name = row["name"]
        before = self.now.get(name)
        if row.get("swept") != self._marks.get(name):
            self._marks[name] = row.get("swept")
            self.moved = state.scheduler.now
        if before is not None and (row["seq"], row["head"]) == (before.row["seq"], before.id):
            return  # somebody asked for a turn: the tree is what it was
        state.scheduler.note(f"CATALOG {name} {row['seq']} {row['head'][-4:]}")
        for chained in self._chain(row, before):
            self._moved(chained, self.now.get(name))

    def _chain(self, row: dict[str, Any], before: SeenHead | None) -> list[SeenHead]:
        """The HEADs that one write added to the history, oldest first: each follows the one before
        it, and is whole."""
        chain = [self._seen(row)]
        while before is not None and chain[0].commit.parents and chain[0].commit.parents[0] != before.id:
            seq = chain[0].row["seq"] - 1
            parent = chain[0].commit.parents[0]
            if seq <= before.row["seq"]:
                raise Violation(
                    "I9", f"catalog {row['name']} went from {before.id} to {row['head']}, which does not follow it"
                )
            recent = row["recent"][row["recent"].index(parent) :] if parent in row["recent"] else [parent]
            chain.insert(0, self._seen({**row, "head": parent, "seq": seq, "recent": recent}))
        return chain

    def _moved(self, head: SeenHead, before: SeenHead | None) -> None:
        """A commit became part of the history."""
        state = self._state
        name = head.catalog
        row = head.row
        if row["seq"] != (before.row["seq"] + 1 if before else 0) or head.commit.seq != row["seq"]:
            raise Violation("I9", f"catalog {name} went from {before and before.row['seq']} to {row['seq']}")
        if row["head"] in self.heads:
            raise Violation("I9", f"catalog {name} is at {row['head']} again")
        self.moved = state.scheduler.now
        if before is not None:
            self._replaced(before, head.commit.at // 1000)
        self.now[name] = self.heads[head.id] = head
        for snapshot in self.snapshots(head):
            self._whole(self.heads[snapshot.head], f"snapshot {snapshot.name} of {name}")
        if name != REALM:
            self._tables(name, [entry.table_id for entry in head.entries.values() if entry.table_id])
        for listener in self.listeners:
            listener(head, before)

    @audits
    def dropped(self, row: dict[str, Any]) -> None:
        """The catalog's row is gone."""
        self._state.scheduler.note(f"CATALOG {row['name']} dropped")
        self._state.auditor.seen["catalog dropped"] += 1
        self._replaced(self.now.pop(row["name"]), self._state.scheduler.now)

    @audits
    def obj_deleted(self, id: str) -> None:
        """An obj is about to go."""
        self._state.auditor.seen[f"deleted {id.partition('/')[0]}"] += 1
        for head, why in self.kept():
            if id in head.leads_to:
                raise Violation("I10", f"obj {id} was deleted; {why} {head.id} of {head.catalog} leads to it")

    def at_rest(self) -> None:
        """In the end, once more: every HEAD that must be whole is."""
        for head, why in self.kept():
            self._whole(head, why)

    def kept(self) -> Iterator[tuple[SeenHead, str]]:
        """Every HEAD that must be whole now, and why."""
        began = self._state.scheduler.now - self._state.grace.history_ms
        self._past = [head for head in self._past if head.until is not None and head.until > began]
        if self.history_is_kept:
            yield from ((head, "a HEAD of the kept history") for head in self._past)
        for head in self.now.values():
            yield head, "the HEAD"
            yield from ((self.heads[id], "a recent HEAD") for id in head.row["recent"][1:])
            yield from ((self.heads[one.head], f"snapshot {one.name},") for one in self.snapshots(head))

    def snapshots(self, head: SeenHead) -> list[NamedSnapshot]:
        """The entities with a name at that HEAD."""
        found = [self.entity(head, entry.obj) for entry in head.entries.values() if entry.kind == SNAPSHOT]
        return [one for one in found if isinstance(one, NamedSnapshot)]

    def entity(self, head: SeenHead, id: str) -> Entity:
        """The entities of a HEAD; entities never change, so one that is gone by now is returned as
        it was."""
        if id not in self._entities:
            self._entities[id] = decode(self._state.objs.rows[self._state.space.objs(head.catalog), id].payload)
        return self._entities[id]

    def stored(self, catalog: str) -> SeenHead:
        """Returns the HEAD that the catalog's row has, also before ``changed`` is called for it."""
        row = self._state.refs.rows[self._state.space.catalog(catalog)]
        return self.heads.get(row["head"]) or self._seen(row)

    def _seen(self, row: dict[str, Any]) -> SeenHead:
        state = self._state
        name = row["name"]
        id = row["head"]
        space = state.space.objs(name)
        obj = state.objs.rows.get((space, id))
        if obj is None:
            raise Violation("I9", f"catalog {name} points to {id}, which does not exist")
        tree = Tree.of(name, id, decode_commit(obj.payload), RowSegments(state, space))
        entries = dict([*tree.index.iterate(*ALL), *tree.subtree(())])
        used = {segment.obj for segment in tree.index.directory if segment.obj}
        leads_to = frozenset({id, *used, *(entry.obj for entry in entries.values())})
        seen = SeenHead(name, id, row, tree.commit, entries, leads_to)
        self._whole(seen, f"catalog {name}")
        for entry in entries.values():
            self.entity(seen, entry.obj)
        return seen

    def _replaced(self, head: SeenHead, by: int) -> None:
        now = self._state.scheduler.now
        head.until = now if now - by < SETTLED_MS else by
        self._past.append(head)

    def _whole(self, head: SeenHead, what: str) -> None:
        space = self._state.space.objs(head.catalog)
        for id in head.leads_to:
            if (space, id) not in self._state.objs.rows:
                raise Violation("I9", f"{what} leads to {id}, which does not exist")

    def _is_awaited(self, table_id: str, head: Row | None) -> bool:
        """Whether a name leads to a table whose version 0 is awaited, which has no HEAD."""
        state = self._state
        external, staging = (state.refs.rows.get(key(table_id)) for key in (state.space.external, state.space.staging))
        if external is None:
            return False
        if head is not None:
            raise Violation("I25", f"{table_id} has a HEAD, and its version 0 is awaited")
        if staging is None:
            raise Violation("I25", f"version 0 of {table_id} is awaited, and its files were given up")
        return True

    def _tables(self, catalog: str, named: list[str]) -> None:
        state = self._state
        if len(named) != len(set(named)):
            raise Violation("I9", f"a table has two names: {sorted(named)}")
        heads = {row["table_id"]: row for row in state.refs.rows.values() if row["kind"] == "table"}
        for table_id in named:
            head = heads.get(table_id)
            if self._is_awaited(table_id, head):
                continue
            if head is None or head["state"] == "dropped":
                raise Violation("I9", f"a name leads to {table_id}, which is {head and head['state']}")
        for table_id, head in heads.items():
            if head["state"] == "dropped" or head["catalog"] != catalog:
                continue
            if table_id not in named:
                raise Violation("I9", f"no name leads to {head['name']} {table_id}, which is {head['state']}")
            if head["state"] == PINNED:
                continue  # its source owns the location; ``clone_auditor`` looks at the two
            owner = state.refs.rows.get(state.space.location(head["location"]))
            if owner is None or owner.get("table_id") != table_id:
                raise Violation("I10", f"{head['location']} of {table_id} belongs to {owner}")
            if state.space.staging(table_id) in state.refs.rows:
                raise Violation("I10", f"{table_id} is a table and still a staging table")
