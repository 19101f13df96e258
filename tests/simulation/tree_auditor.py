"""Checks catalogs: everything a HEAD leads to exists, and names, HEADs and owners of locations agree (I9, I10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.faults import HOUR
from tests.simulation.record import Violation, audits
from turnstile.core.index import Index, unpack
from turnstile.core.tree import Tree, decode_commit

if TYPE_CHECKING:
    from tests.simulation.state import State

REALM = "."
HISTORY = 6 * HOUR
"""How long a catalog's past is kept in simulations."""


class RowSegments:
    """Index segments straight from the rows."""

    def __init__(self, state: State, space: str) -> None:
        self._state, self._space = state, space

    def load(self, id: str) -> Index:
        obj = self._state.objs.rows.get((self._space, id))
        if obj is None:
            raise Violation("I9", f"index segment {id} does not exist")
        return unpack(obj.payload)

    peek = load


class TreeAuditor:
    """Looks at a catalog whenever its HEAD moves."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seqs: dict[str, int] = {}
        self._heads: dict[str, str] = {}
        self._reachable: dict[str, set[str]] = {}
        self._past: list[tuple[int, str, set[str]]] = []

    @audits
    def changed(self, row: dict[str, Any]) -> None:
        """The catalog's row was written."""
        state, name = self._state, row["name"]
        state.scheduler.note(f"CATALOG {name} {row['seq']}")
        if (row["seq"], row["head"]) == (self._seqs.get(name), self._heads.get(name)):
            return  # somebody asked for a turn: the tree is what it was
        if row["seq"] != self._seqs.get(name, -1) + 1:
            raise Violation("I9", f"catalog {name} went from {self._seqs.get(name)} to {row['seq']}")
        self._seqs[name], self._heads[name] = row["seq"], row["head"]
        space = state.space.objs(name)
        obj = state.objs.rows.get((space, row["head"]))
        if obj is None:
            raise Violation("I9", f"catalog {name} points to {row['head']}, which does not exist")
        segments = RowSegments(state, space)
        tree = Tree.of(name, row["head"], decode_commit(obj.payload), segments)
        entries = list(tree.subtree(()))
        used = {segment.obj for segment in tree.index.directory if segment.obj}
        if name in self._reachable:
            self._past.append((state.scheduler.now, name, self._reachable[name]))
        self._reachable[name] = {row["head"], *used, *(entry.obj for _, entry in entries)}
        for key, entry in entries:
            if (space, entry.obj) not in state.objs.rows:
                raise Violation("I9", f"{key!r} leads to {entry.obj}, which does not exist")
        if name != REALM:
            self._tables([entry.table_id for _, entry in entries if entry.table_id])

    @audits
    def obj_deleted(self, id: str) -> None:
        """An obj is about to go."""
        self._state.auditor.seen[f"deleted {id.partition('/')[0]}"] += 1
        for name, reachable in self._reachable.items():
            if id in reachable:
                raise Violation("I10", f"obj {id} was deleted and catalog {name} leads to it")
        self._past = [one for one in self._past if one[0] > self._state.scheduler.now - HISTORY]
        for replaced, name, reachable in self._past:
            if id in reachable:
                raise Violation("I10", f"obj {id} was deleted; the HEAD of {name} until {replaced} leads to it")

    def _tables(self, named: list[str]) -> None:
        state = self._state
        if len(named) != len(set(named)):
            raise Violation("I9", f"a table has two names: {sorted(named)}")
        heads = {row["table_id"]: row for row in state.refs.rows.values() if row["kind"] == "table"}
        for table_id in named:
            head = heads.get(table_id)
            if head is None or head["state"] == "dropped":
                raise Violation("I9", f"a name leads to {table_id}, which is {head and head['state']}")
        for table_id, head in heads.items():
            if head["state"] == "dropped":
                continue
            if table_id not in named:
                raise Violation("I9", f"no name leads to {head['name']} {table_id}, which is {head['state']}")
            owner = state.refs.rows.get(state.space.location(head["location"]))
            if owner is None or owner.get("table_id") != table_id:
                raise Violation("I10", f"{head['location']} of {table_id} belongs to {owner}")
            if state.space.staging(table_id) in state.refs.rows:
                raise Violation("I10", f"{table_id} is a table and still a staging table")
